"""Purchase histories: reading them, splitting them, making them up."""

from ocular.data.interactions import Interactions, Purchases

__all__ = ["Interactions", "Purchases"]
