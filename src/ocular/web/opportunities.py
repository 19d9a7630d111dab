"""The best products for every client and their expected values, computed once for a model: lists are cut from it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ocular.explain.names import client_name, product_name
from ocular.explain.value import ExpectedValues
from ocular.model import OCuLaR

DEPTH = 5  # products per client, as many as the client's page shows


@dataclass(frozen=True)
class ListedClient:
    """A client in a list, with the best open recommendation."""

    client: str  # the label, which addresses use
    name: str  # as people read it
    product: str | None  # the label of the best open product; None where nothing is open
    product_name: str | None
    confidence: float
    value: float | None  # expected value; None where the product has no typical price
    n_open: int  # how many of the best DEPTH are open


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
        # (n_users, DEPTH), best first; −1 and nan where there is no more
        self._products, confidence = model.recommend(
            np.arange(interactions.n_users), N=min(DEPTH, interactions.n_items)
        )
        self._confidence = np.nan_to_num(confidence).astype(np.float64)
        self.expected_values = ExpectedValues(interactions, model.calibration_)
        self._values = np.nan_to_num(self.expected_values.values(np.maximum(self._products, 0), self._confidence))
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

    def potential(
        self, clients: NDArray[np.int64], closed: Collection[tuple[int, int]]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """
        Return the best DEPTH products of the clients and what each is expected to bring, (n_clients, DEPTH).

        It is the expected value or, where no product has a price, the chance to buy; 0 for `closed` pairs.
        """
        offered, n_items = self._products[clients].astype(np.int64), np.int64(self._interactions.n_items)
        worth = self._values[clients] if self.has_prices else self.expected_values.chances(self._confidence[clients])
        codes = np.fromiter((client * n_items + product for client, product in closed), dtype=np.int64)
        is_open = (offered >= 0) & ~np.isin(clients[:, None] * n_items + offered, codes)
        return np.maximum(offered, 0), np.where(is_open, worth, 0.0)

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
        clients: NDArray[np.int64],
        closed: Collection[tuple[int, int]],
        *,
        search: str = "",
        products: NDArray[np.int64] | None = None,
        min_confidence: float = 0.0,
        order: Order = Order.VALUE,
        number: int = 1,
        length: int = 50,
    ) -> Page:
        """
        Return some of the clients, by default the most valuable first.

        `closed` are pairs of client and product that nothing more is to be done about. `search` has words of the
        client's name; with `products`, only clients to whom one of them is recommended are listed.
        """
        words = fold(search).split()
        if words:
            clients = clients[[all(word in self._folded_names[c] for word in words) for c in clients.tolist()]]
        offered, confidence, values = self._products[clients], self._confidence[clients], self._values[clients]
        is_open = (offered >= 0) & (confidence >= min_confidence)
        if products is not None:
            is_open &= np.isin(offered, products)
        if closed:
            n_items = np.int64(self._interactions.n_items)  # a pair as one number: client · n_items + product
            closed_codes = np.fromiter((client * n_items + product for client, product in closed), dtype=np.int64)
            is_open &= ~np.isin(clients[:, None] * n_items + offered, closed_codes)
        if products is not None or min_confidence > 0:
            matching = is_open.any(axis=1)
            clients, confidence, values = clients[matching], confidence[matching], values[matching]
            is_open = is_open[matching]
        # by confidence too where nothing has a price
        by_value = order is not Order.CONFIDENCE and np.isfinite(self.expected_values.prices).any()
        score = np.where(is_open, values if by_value else confidence, -1.0)
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

    def _listed(self, user: int, best: int, is_open: NDArray[np.bool_]) -> ListedClient:
        client, name = str(self._interactions.user_labels[user]), self._names[user]
        if not is_open.any():
            return ListedClient(client, name, None, None, 0.0, None, 0)
        item, confidence = int(self._products[user, best]), float(self._confidence[user, best])
        value = self.expected_values.value(item, confidence)
        product = str(self._interactions.item_labels[item])
        return ListedClient(client, name, product, self._product_names[item], confidence, value, int(is_open.sum()))


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
