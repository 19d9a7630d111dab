"""The patterns of a model as the index lists and filters them, and where their bubbles stand; computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.explain.coclusters import CoCluster
from ocular.explain.labels import Category, categories
from ocular.explain.names import product_name
from ocular.web.opportunities import fold

MIN_CLIENTS, MIN_PRODUCTS = 3, 2  # of a pattern that is not minor
MINOR_SHARE = 0.2  # of the sales that a pattern would have if all had the same
TYPICAL_LIFT = 1.2  # times as frequent as overall: a value is typical of a pattern
MIN_DIFFERENCE = 0.06  # between a share in the pattern and overall, below which an attribute tells nothing
SELLER = "seller"  # who looks after a client says nothing of how they buy
MAX_BUBBLES, MAX_PROFILE_ROWS, MAX_PROFILES = 40, 5, 4
GRAVITY = np.array([0.006, 0.2])  # of the bubble map, which is wider than high

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


class PatternOrder(StrEnum):
    SHARE = "share"
    PENETRATION = "penetration"
    SIZE = "size"
    WHITESPACE = "whitespace"


@dataclass(frozen=True)
class Profile:
    """The most distinctive values of an attribute: (value, share in the pattern, share overall)."""

    attribute: str
    side: str  # "client" or "product"
    rows: list[tuple[str, float, float]]


@dataclass(frozen=True)
class Bubble:
    """A circle of the map, and the circles that it is joined to."""

    number: int
    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class BubbleMap:
    """The largest patterns as bubbles by share of sales, near each other where they overlap."""

    width: float
    height: float
    bubbles: list[Bubble]
    joints: list[tuple[Bubble, Bubble, float]]  # pairs that overlap, and how much: 0 to 1


class PatternIndex:
    """What the index and a pattern's page need of all patterns of one model."""

    def __init__(self, interactions: Interactions, patterns: Mapping[int, CoCluster]) -> None:
        self._interactions = interactions
        self.patterns = sorted(patterns.values(), key=lambda pattern: -pattern.share)  # by share of sales
        self._by_number = patterns
        by_client = interactions.user_attributes.items()
        self.client_categories = categories({name: column for name, column in by_client if name.lower() != SELLER})
        self.product_categories = categories(interactions.item_attributes)
        sizes = [len(pattern.users) for pattern in self.patterns]
        users = np.concatenate([np.empty(0, dtype=np.int64), *(pattern.users for pattern in self.patterns)])
        rows = np.repeat(np.arange(len(sizes)), sizes)
        shape = len(sizes), interactions.n_users
        self._members = sp.csr_array((np.ones(len(users), dtype=np.int32), (rows, users)), shape=shape)
        self._texts = {
            pattern.index: fold(" ".join(product_name(interactions.item_name(i)) for i in pattern.items.tolist()))
            for pattern in self.patterns
        }
        self._profiles: dict[int, list[Profile]] = {}

    def clients_in(self, clients: Rows) -> dict[int, int]:
        """Return how many of the clients are in each pattern."""
        chosen = np.zeros(self._interactions.n_users, dtype=np.int32)
        chosen[clients] = 1
        return dict(zip((p.index for p in self.patterns), (self._members @ chosen).tolist(), strict=True))

    def patterns_of(self, clients: Rows) -> list[tuple[CoCluster, int]]:
        """Return the patterns of some clients with the number of them in each, most first."""
        counts = self.clients_in(clients)
        listed = [(pattern, counts[pattern.index]) for pattern in self.patterns if counts[pattern.index]]
        return sorted(listed, key=lambda pair: -pair[1])

    def is_minor(self, pattern: CoCluster) -> bool:
        """Return whether a pattern is too small, or explains too little, to be worth a card."""
        tiny = len(pattern.users) < MIN_CLIENTS or len(pattern.items) < MIN_PRODUCTS
        return tiny or pattern.share < MINOR_SHARE * sum(p.share for p in self.patterns) / len(self.patterns)

    def matches(self, pattern: CoCluster, label: str, search: str) -> bool:
        """Return whether all words are in the pattern's name or in the names of its products."""
        text = f"{fold(label)} {self._texts[pattern.index]}"
        return all(word in text for word in fold(search).split())

    def is_typical(self, pattern: CoCluster, side: str, attribute: str, value: str) -> bool:
        """Return whether members of the pattern have the value clearly more often than others."""
        category = (self.client_categories if side == "client" else self.product_categories)[attribute]
        at = category.values.index(value)
        share = category.shares(pattern.users if side == "client" else pattern.items)[at]
        return bool(share >= TYPICAL_LIFT * category.overall[at] and share > 0)

    def profiles(self, number: int) -> list[Profile]:
        """Return the profile of a pattern: its most distinctive attributes first."""
        if number not in self._profiles:
            pattern = self._by_number[number]
            found = _profiles("client", self.client_categories, pattern.users)
            found += _profiles("product", self.product_categories, pattern.items)
            found.sort(key=lambda pair: -pair[0])
            self._profiles[number] = [profile for _, profile in found[:MAX_PROFILES]]
        return self._profiles[number]

    def profiles_of(self, clients: Rows, without: str = "") -> list[Profile]:
        """Return the profile of some clients, `without` one attribute."""
        known = {name: category for name, category in self.client_categories.items() if name != without}
        found = sorted(_profiles("client", known, clients), key=lambda pair: -pair[0])
        return [profile for _, profile in found]

    @cached_property
    def bubble_map(self) -> BubbleMap:
        """The map of the largest patterns."""
        shown = [pattern for pattern in self.patterns if not self.is_minor(pattern)][:MAX_BUBBLES]
        return _arranged(shown)


def whitespace(pattern: CoCluster) -> int:
    """Return the number of its pairs of client and product that are not bought."""
    return round(len(pattern.users) * len(pattern.items) * (1 - pattern.density))


def sort_key(pattern: CoCluster, order: PatternOrder) -> float:
    """Return what an order sorts by; the largest comes first."""
    if order is PatternOrder.PENETRATION:
        return pattern.density
    if order is PatternOrder.SIZE:
        return len(pattern.users)
    return whitespace(pattern) if order is PatternOrder.WHITESPACE else pattern.share


def _profiles(side: str, known: Mapping[str, Category], members: Rows) -> list[tuple[float, Profile]]:
    """Return the most frequent values of each attribute that tells something, and how much it does."""
    profiles = []
    for attribute, category in known.items():
        inside, overall = category.shares(members), category.overall
        order = np.argsort(-inside, kind="stable")[:MAX_PROFILE_ROWS].tolist()
        rows = [(category.values[v], float(inside[v]), float(overall[v])) for v in order if inside[v] > 0]
        difference = float((inside - overall).max())
        if difference >= MIN_DIFFERENCE:
            profiles.append((difference, Profile(attribute, side, rows)))
    return profiles


# ------------------------------------------------------------------------------------------------ the bubble map


def _arranged(patterns: list[CoCluster]) -> BubbleMap:
    """Return bubbles that do not cover each other, those that share members close together."""
    if not patterns:
        return BubbleMap(1.0, 1.0, [], [])
    alike = np.sqrt(_jaccard([p.users for p in patterns]) * _jaccard([p.items for p in patterns]))
    np.fill_diagonal(alike, 0.0)
    radius = 100 * np.sqrt(np.array([max(pattern.share, 1e-9) for pattern in patterns]))
    radius = np.maximum(radius, 0.28 * radius.max())  # a small one can still be clicked
    at = _relaxed(_spread(alike), radius, alike)
    low, high = (at - radius[:, None]).min(axis=0) - 2, (at + radius[:, None]).max(axis=0) + 2
    x, y = (at - low).T.tolist()
    bubbles = [Bubble(*each) for each in zip((p.index for p in patterns), x, y, radius.tolist(), strict=True)]
    pairs = sorted(np.argwhere(np.triu(alike) > 0).tolist(), key=lambda pair: -alike[*pair])[: len(patterns)]
    joints = [(bubbles[a], bubbles[b], float(alike[a, b] / alike.max())) for a, b in pairs]
    return BubbleMap(float(high[0] - low[0]), float(high[1] - low[1]), bubbles, joints)


def _jaccard(members: list[Rows]) -> Floats:
    """Return (K, K) the shared members as a share of the members of either."""
    sizes = np.array([len(ids) for ids in members])
    columns = np.repeat(np.arange(len(members)), sizes)
    held = sp.csr_array((np.ones(len(columns)), (np.concatenate(members), columns)))
    shared: Floats = (held.T @ held).toarray()
    shared /= sizes[:, None] + sizes[None, :] - shared
    return shared


def _spread(alike: Floats) -> Floats:
    """Return (K, 2) first places by classical scaling: the less two are alike, the further apart."""
    n = len(alike)
    centring = np.eye(n) - 1 / n
    apart = (1 - alike / max(float(alike.max()), 1e-12)) ** 2
    np.fill_diagonal(apart, 0.0)
    values, vectors = np.linalg.eigh(-centring @ apart @ centring / 2)
    places: Floats = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :2]
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    signs = np.where(places[np.abs(places).argmax(axis=0), np.arange(2)] < 0, -1.0, 1.0)  # the same on every machine
    turn = np.arange(n) * 2.399963  # alike ones would start in the same place
    return places * signs + 0.05 * np.column_stack([np.cos(turn), np.sin(turn)])


def _relaxed(at: Floats, radius: Floats, alike: Floats, steps: int = 400) -> Floats:
    """Return places where no bubble covers another: pulled to the middle and to those alike, pushed off the others."""
    at = at * np.array([2.0, 1.0]) * radius.sum() / max(np.abs(at).max(), 1e-12) / 3
    touching = radius[:, None] + radius[None, :] + 3.0
    pull = 0.02 * alike / max(float(alike.max()), 1e-12)
    for step in range(steps):
        apart = at[:, None, :] - at[None, :, :]
        length = np.sqrt((apart**2).sum(axis=2)) + np.eye(len(at))
        if step < steps * 3 // 4:  # then only what collides is moved
            at = at - ((pull * np.maximum(1 - touching / length, 0))[:, :, None] * apart).sum(axis=1)
            at = at - at * GRAVITY
            apart = at[:, None, :] - at[None, :, :]
            length = np.sqrt((apart**2).sum(axis=2)) + np.eye(len(at))
        push = np.maximum(touching - length, 0) * (1 - np.eye(len(at)))
        at = at + 0.3 * ((push / length)[:, :, None] * apart).sum(axis=1)
    return at
