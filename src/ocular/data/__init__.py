"""Purchases: reading them from files, frames and databases, the public data sets, and splits for evaluation."""

from ocular.data.interactions import Interactions, Purchases

__all__ = ["Interactions", "Purchases"]
