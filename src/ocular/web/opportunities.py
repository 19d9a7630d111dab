"""The best products for every client and what they are worth, made once for a model: lists are cut from it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.explain.calibration import expected_rates
from ocular.explain.names import client_name, product_name
from ocular.model import OCuLaR

DEPTH = 5  # products a client, as many as the client's page shows


@dataclass(frozen=True)
class Account:
    """A client in a list."""

    client: int
    name: str
    product: str | None  # the best that is open; None if nothing is
    confidence: float
    value: float | None  # how often such recommendations come true × what the product usually costs
    open: int  # how many of the best DEPTH are open


class Order(StrEnum):
    VALUE = "value"
    CONFIDENCE = "confidence"
    NAME = "name"


@dataclass(frozen=True)
class Page:
    accounts: list[Account]
    total: int  # of the clients that fit
    number: int  # the one asked for, or the last
    pages: int


class Opportunities:
    def __init__(self, model: OCuLaR) -> None:
        history = model.interactions_
        self._history, self._calibration = history, model.calibration_
        self._products, self._confidence = model.recommend(np.arange(history.n_users), N=min(DEPTH, history.n_items))
        self._price = usual_prices(history)
        price = np.append(self._price, np.nan)[self._products]  # −1: no product
        rates = expected_rates(self._calibration, np.nan_to_num(self._confidence))
        self._values = rates * np.nan_to_num(price)
        self._names = [fold(client_name(label)) for label in history.user_labels.tolist()]
        self._product_names = [fold(product_name(label)) for label in history.item_labels.tolist()]

    def value(self, product: int, confidence: float) -> float | None:
        """What a recommendation is worth, as lists have it: how often such come true × the usual price."""
        if not np.isfinite(self._price[product]):
            return None
        return float(expected_rates(self._calibration, np.asarray(confidence)) * self._price[product])

    def products(self, part: str) -> NDArray[np.int64]:
        """Rows of the products of this name, or of those with all its words in theirs."""
        exact = self._history.item_rows.get(part)
        if exact is not None:
            return np.array([exact], dtype=np.int64)
        words = fold(part).split()
        found = [row for row, name in enumerate(self._product_names) if all(word in name for word in words)]
        return np.array(found, dtype=np.int64)

    def page(
        self,
        clients: NDArray[np.int64],
        closed: Collection[tuple[int, int]],
        *,
        search: str = "",
        products: NDArray[np.int64] | None = None,
        least: float = 0.0,
        order: Order = Order.VALUE,
        number: int = 1,
        length: int = 50,
    ) -> Page:
        """
        Some of the clients, by default the most valuable first.

        `closed` are pairs of client and product that a person has decided about. `search` has words of the name,
        `products` asks for those to whom one of them is recommended, `least` is the lowest confidence.
        """
        words = fold(search).split()
        if words:
            clients = clients[[all(word in self._names[c] for word in words) for c in clients.tolist()]]
        offered, confidence, values = self._products[clients], self._confidence[clients], self._values[clients]
        is_open = (offered >= 0) & (np.nan_to_num(confidence) >= least)
        if products is not None:
            is_open &= np.isin(offered, products)
        if closed:
            code = clients[:, None] * np.int64(self._history.n_items) + offered
            done = np.fromiter((c * self._history.n_items + p for c, p in closed), dtype=np.int64)
            is_open &= ~np.isin(code, done)
        if products is not None or least > 0:
            kept = is_open.any(axis=1)
            clients, confidence, values, is_open = clients[kept], confidence[kept], values[kept], is_open[kept]
        # by confidence too where nothing has a price
        by_value = order is not Order.CONFIDENCE and np.isfinite(self._price).any()
        worth = np.where(is_open, values if by_value else np.nan_to_num(confidence), -1.0)
        best = worth.argmax(axis=1) if len(clients) else np.empty(0, dtype=np.int64)
        if order is Order.NAME:
            ranked = sorted(range(len(clients)), key=lambda place: self._names[clients[place]])
        else:
            ranked = np.lexsort((clients, -np.take_along_axis(worth, best[:, None], axis=1)[:, 0])).tolist()
        pages = max(1, -(-len(clients) // length))
        number = min(number, pages)
        shown = ranked[(number - 1) * length : number * length]
        return Page([self._account(clients[o], int(best[o]), is_open[o]) for o in shown], len(clients), number, pages)

    def _account(self, client: np.int64, best: int, is_open: NDArray[np.bool_]) -> Account:
        user, history = int(client), self._history
        name = client_name(history.user_labels[user])
        if not is_open.any():
            return Account(user, name, None, 0.0, None, 0)
        product = int(self._products[user, best])
        value = float(self._values[user, best]) if np.isfinite(self._price[product]) else None
        confidence = float(self._confidence[user, best])
        return Account(user, name, str(history.item_labels[product]), confidence, value, int(is_open.sum()))


def fold(text: str) -> str:
    """
    Without capitals, accents and spaces around, as people search.

    >>> fold("  Café  MÜLLER ")
    'cafe muller'
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(plain.casefold().split())


def usual_prices(history: Interactions) -> NDArray[np.float64]:
    """(n_items,) the median of what was paid; nan where nothing is known."""
    prices, payments = np.full(history.n_items, np.nan), history.payments
    if payments is not None:
        first, last = payments.indptr[:-1], payments.indptr[1:] - 1
        there = first <= last
        low, high = ((first + last) // 2)[there], ((first + last + 1) // 2)[there]
        prices[there] = (payments.prices[low] + payments.prices[high]) / 2
    return prices
