"""Patterns of two models that are the same, by their members: which came, which went, who joined and who left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ocular.explain.coclusters import CoCluster
from ocular.model import OCuLaR
from ocular.refit import names_of

MIN_SHARED = 0.2  # Jaccard similarity of the members from which two patterns may be the same
NEW, GONE, CHANGED = "new", "gone", "changed"

Names = set[tuple[str, str]]


@dataclass(frozen=True, repr=False)
class PatternChange:
    """A pattern that is new, gone, or has other members than before."""

    status: str  # "new", "gone" or "changed"
    old_number: int | None
    new_number: int | None
    label: str  # in the new model, or the old one where it is gone
    overlap: float  # Jaccard similarity of the members before and now
    clients_joined: list[str]
    clients_left: list[str]
    products_joined: list[str]
    products_left: list[str]

    def __repr__(self) -> str:
        return f"PatternChange({self.number} {self.label!r} {self.status}: {self.members_text()})"

    @property
    def number(self) -> int | None:
        """Its number in the new model, or in the old one where it is gone."""
        return self.old_number if self.new_number is None else self.new_number

    def members_text(self) -> str:
        """Return how many members joined and left."""
        sides = (
            ("clients", self.clients_joined, self.clients_left),
            ("products", self.products_joined, self.products_left),
        )
        return ", ".join(f"{side} +{len(joined)} −{len(left)}" for side, joined, left in sides if joined or left)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self)}


def compare_patterns(old: OCuLaR, new: OCuLaR) -> list[PatternChange]:
    """
    Return the patterns that are not as they were: those of the new model by number, then those that are gone.

    Two patterns are the same where their members, clients and products by name, are most alike; where others are
    equally alike, those of the same number.
    """
    before, now = list(old.coclusters()), list(new.coclusters())
    old_names = [names_of(old.interactions_, c.users, c.items) for c in before]
    new_names = [names_of(new.interactions_, c.users, c.items) for c in now]
    partners = _matched(before, now, old_names, new_names)
    changes = []
    for at, pattern in enumerate(now):
        partner = partners.get(at)
        members = old_names[partner] if partner is not None else set()
        if members != new_names[at]:
            number = before[partner].index if partner is not None else None
            status = NEW if partner is None else CHANGED
            changes.append(_change(status, number, pattern.index, pattern.label, members, new_names[at]))
    gone = sorted(set(range(len(before))) - set(partners.values()))
    return changes + [_change(GONE, before[at].index, None, before[at].label, old_names[at], set()) for at in gone]


def _change(status: str, old: int | None, new: int | None, label: str, before: Names, now: Names) -> PatternChange:
    def named(names: Names, side: str) -> list[str]:
        return sorted(name for kind, name in names if kind == side)

    sides = (named(names, side) for side in ("client", "product") for names in (now - before, before - now))
    return PatternChange(status, old, new, label, len(before & now) / max(len(before | now), 1), *sides)


def _matched(
    before: list[CoCluster], now: list[CoCluster], old_names: list[Names], new_names: list[Names]
) -> dict[int, int]:
    """Return the place of the old pattern of each new one that has one: the most alike first."""
    code: dict[tuple[str, str], int] = {}
    for names in (*old_names, *new_names):
        for name in names:
            code.setdefault(name, len(code))
    shared = sp.coo_array(_indicator(old_names, code) @ _indicator(new_names, code).T)
    sizes = np.array([len(names) for names in old_names]), np.array([len(names) for names in new_names])
    alike = shared.data / (sizes[0][shared.row] + sizes[1][shared.col] - shared.data)
    numbers = np.array([c.index for c in before]), np.array([c.index for c in now])
    renamed = numbers[0][shared.row] != numbers[1][shared.col]
    partners: dict[int, int] = {}
    taken: set[int] = set()
    for pair in np.lexsort((shared.col, shared.row, renamed, -alike)).tolist():
        o, n = int(shared.row[pair]), int(shared.col[pair])
        if alike[pair] < MIN_SHARED:
            break
        if o not in taken and n not in partners:
            partners[n] = o
            taken.add(o)
    return partners


def _indicator(groups: list[Names], code: dict[tuple[str, str], int]) -> sp.csr_array:
    rows = np.repeat(np.arange(len(groups)), [len(names) for names in groups])
    columns = np.array([code[name] for names in groups for name in names], dtype=np.int64)
    return sp.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(len(groups), len(code)))
