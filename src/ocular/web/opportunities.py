"""The best products for every client and their expected values, computed once for a model: lists are cut from it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.explain.names import client_name, product_name
from ocular.explain.value import ExpectedValues
from ocular.model import OCuLaR
from ocular.web.client_attributes import ClientAttributes

DEPTH = 5  # products per client, as many as the client's page shows
MAX_PER_CLIENT, MAX_PER_PRODUCT = 2, 3  # in a list of next steps, which is to be varied
CONSIDERED = 40  # recommendations for each next step
CLIENTS_AT_ONCE = 5_000  # ranked at once: the evidence of all of them is larger than the model

Rows = NDArray[np.int64]
Pairs = NDArray[np.int64]  # (n, 2): rows of a client and a product


@dataclass(frozen=True)
class ListedClient:
    """A client in a list, with the best open recommendation."""

    client: str  # the label, which addresses use
    name: str  # as people read it
    attributes: list[str]  # as `ClientAttributes.values` has them
    product: str | None  # the label of the best open product; None where nothing is open
    product_name: str | None
    confidence: float
    chance: float  # to buy
    value: float | None  # expected value; None where the product has no typical price
    n_open: int  # how many of the best DEPTH are open


class NextStep(NamedTuple):
    """A recommendation that is worth a call."""

    user: int
    item: int
    chance: float  # to buy
    attributes: list[str]


class Order(StrEnum):
    VALUE = "value"
    CONFIDENCE = "confidence"
    NAME = "name"


@dataclass(frozen=True)
class Page:
    """A part of a list of clients."""

    clients: list[ListedClient]
    total: int  # clients that match
    number: int  # of this page: the requested one, or the last
    n_pages: int


class Opportunities:
    """The recommendations of one model for all its clients."""

    def __init__(self, model: OCuLaR) -> None:
        interactions = model.interactions_
        self._interactions = interactions
        self._products, self._confidence = _best_products(model)
        self.expected_values = ExpectedValues(interactions, model.calibration_)
        self._chances = self.expected_values.chances(self._confidence)
        self.attributes = ClientAttributes(interactions)
        # what lists go by: the confidence where nothing has a price
        values = self.expected_values.values(np.maximum(self._products, 0), self._confidence)
        self._worth = np.nan_to_num(values) if self.has_prices else self._confidence
        self._names = [client_name(interactions.user_name(user)) for user in range(interactions.n_users)]
        self._product_names = [product_name(interactions.item_name(item)) for item in range(interactions.n_items)]
        self._folded_names = [fold(name) for name in self._names]
        self._folded_products = [fold(name) for name in self._product_names]

    @property
    def client_names(self) -> list[str]:
        """The name of each client as people read it."""
        return self._names

    @property
    def product_names(self) -> list[str]:
        """The name of each product as people read it."""
        return self._product_names

    @cached_property
    def client_ranks(self) -> NDArray[np.int64]:
        """The place of each client in the order of names."""
        return _ranks(self._folded_names)

    @cached_property
    def product_ranks(self) -> NDArray[np.int64]:
        """The place of each product in the order of names."""
        return _ranks(self._folded_products)

    @property
    def has_prices(self) -> bool:
        """Whether any product has a typical price, so that recommendations have a value."""
        return bool(np.isfinite(self.expected_values.prices).any())

    def potential(self, clients: Rows, closed: Pairs) -> tuple[Rows, NDArray[np.float64]]:
        """
        Return the best DEPTH products of the clients and what each is expected to bring, (n_clients, DEPTH).

        It is the expected value or, where no product has a price, the chance to buy; 0 for `closed` pairs.
        """
        worth = self._worth if self.has_prices else self._chances
        offered = np.maximum(self._products[clients], 0).astype(np.int64)
        return offered, np.where(self._open(clients, closed), worth[clients], 0.0)

    def find_products(self, text: str) -> NDArray[np.int64]:
        """Return the rows of the product with this label, or of those with all the words in their names."""
        exact = self._interactions.item_rows.get(text)
        if exact is not None:
            return np.array([exact], dtype=np.int64)
        words = fold(text).split()
        matching = [row for row, name in enumerate(self._folded_products) if all(word in name for word in words)]
        return np.array(matching, dtype=np.int64)

    def page(
        self,
        clients: Rows,
        closed: Pairs,
        *,
        search: str = "",
        products: Rows | None = None,
        having: Collection[str] = (),
        min_chance: float = 0.0,
        order: Order = Order.VALUE,
        number: int = 1,
        length: int = 50,
    ) -> Page:
        """
        Return some of the clients, which are given in ascending order, by default the most valuable first.

        `closed` are pairs of client and product that lists leave out. `search` has words of the client's name; with
        `products`, only clients to whom one of them is recommended are listed; `having` are keys of attributes.
        """
        words = fold(search).split()
        if words:
            clients = clients[[all(word in self._folded_names[c] for word in words) for c in clients.tolist()]]
        if having:
            clients = self.attributes.matching(clients, having)
        is_open = self._open(clients, closed) & (self._chances[clients] >= min_chance)
        if products is not None:
            is_open &= np.isin(self._products[clients], products)
        if products is not None or min_chance > 0:
            matching = is_open.any(axis=1)
            clients, is_open = clients[matching], is_open[matching]
        worth = self._confidence if order is Order.CONFIDENCE else self._worth
        score = np.where(is_open, worth[clients], -1.0)
        best = score.argmax(axis=1) if len(clients) else np.empty(0, dtype=np.int64)
        if order is Order.NAME:
            ranked = sorted(range(len(clients)), key=lambda place: self._folded_names[clients[place]])
        else:
            ranked = np.lexsort((clients, -np.take_along_axis(score, best[:, None], axis=1)[:, 0])).tolist()
        n_pages = max(1, -(-len(clients) // length))
        number = min(number, n_pages)
        places = ranked[(number - 1) * length : number * length]
        listed = [self._listed(int(clients[place]), int(best[place]), is_open[place]) for place in places]
        return Page(listed, len(clients), number, n_pages)

    def next_steps(self, clients: Rows, closed: Pairs, n: int) -> list[NextStep]:
        """
        Return the n most valuable recommendations to these clients, which are given in ascending order.

        No client has more than MAX_PER_CLIENT of them and no product more than MAX_PER_PRODUCT, as long as there are
        others to fill the list.
        """
        scores = np.where(self._open(clients, closed), self._worth[clients], -1.0)
        n_open = int((scores >= 0).sum())
        n_considered = min(n_open, CONSIDERED * n)
        if not n_considered:
            return []
        flat = scores.ravel()
        best = np.argpartition(-flat, n_considered - 1)[:n_considered]
        rows, places = np.divmod(best[np.lexsort((best, -flat[best]))], scores.shape[1])
        pairs = list(zip(clients[rows].tolist(), self._products[clients[rows], places].tolist(), strict=True))
        of_client, of_product, chosen = Counter[int](), Counter[int](), list[int]()
        for place, (user, item) in enumerate(pairs):
            if of_client[user] < MAX_PER_CLIENT and of_product[item] < MAX_PER_PRODUCT:
                of_client[user], of_product[item] = of_client[user] + 1, of_product[item] + 1
                chosen.append(place)
        others = [place for place in range(len(pairs)) if place not in {*chosen}]
        return [self._step(*pairs[place], int(places[place])) for place in sorted([*chosen, *others][:n])]

    def likeliest(self, clients: Rows, products: Rows, n: int) -> Rows:
        """Return the n clients who get one of the products recommended with the highest confidence, best first."""
        is_wanted = np.zeros(self._interactions.n_items + 1, dtype=bool)  # the last place is that of −1
        is_wanted[products] = True
        scores = np.where(is_wanted[self._products[clients]], self._confidence[clients], -1.0).max(axis=1)
        return clients[np.argsort(-scores, kind="stable")[:n]]

    def _step(self, user: int, item: int, place: int) -> NextStep:
        return NextStep(user, item, float(self._chances[user, place]), self.attributes.of(user))

    def _open(self, clients: Rows, closed: Pairs) -> NDArray[np.bool_]:
        """Return (n_clients, DEPTH) which of the best products are there and not closed."""
        is_open: NDArray[np.bool_] = self._products[clients] >= 0
        if len(closed) and len(clients):
            users, items = closed.T
            at = np.minimum(np.searchsorted(clients, users), len(clients) - 1)
            is_closed = (clients[at] == users)[:, None] & (self._products[clients[at]] == items[:, None])
            rows, places = np.nonzero(is_closed)
            is_open[at[rows], places] = False
        return is_open

    def _listed(self, user: int, best: int, is_open: NDArray[np.bool_]) -> ListedClient:
        client, name = str(self._interactions.user_labels[user]), self._names[user]
        attributes = self.attributes.of(user)
        if not is_open.any():
            return ListedClient(client, name, attributes, None, None, 0.0, 0.0, None, 0)
        item, confidence = int(self._products[user, best]), float(self._confidence[user, best])
        return ListedClient(
            client=client, name=name, attributes=attributes, product=str(self._interactions.item_labels[item]),
            product_name=self._product_names[item], confidence=confidence, chance=float(self._chances[user, best]),
            value=self.expected_values.value(item, confidence), n_open=int(is_open.sum()),
        )  # fmt: skip


def _best_products(model: OCuLaR) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return (n_users, DEPTH) products and confidences, best first; −1 and 0 where there is no more."""
    n_users, depth = model.interactions_.n_users, min(DEPTH, model.interactions_.n_items)
    products, confidence = np.empty((n_users, depth), dtype=np.int32), np.empty((n_users, depth))
    for first in range(0, n_users, CLIENTS_AT_ONCE):
        block = slice(first, min(first + CLIENTS_AT_ONCE, n_users))
        products[block], scores = model.recommend(np.arange(block.start, block.stop), N=depth)
        confidence[block] = np.nan_to_num(scores)
    return products, confidence


def _ranks(names: list[str]) -> NDArray[np.int64]:
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks


def fold(text: str) -> str:
    """
    Return the text without capitals, accents and superfluous spaces, as people search.

    >>> fold("  Café  MÜLLER ")
    'cafe muller'
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(plain.casefold().split())
