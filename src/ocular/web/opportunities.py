"""The best products for every client and what they are worth, made once for a model: lists are cut from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.explain.names import client_name
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


class Opportunities:
    def __init__(self, model: OCuLaR) -> None:
        history = model.interactions_
        self._history = history
        self._products, self._confidence = model.recommend(np.arange(history.n_users), N=min(DEPTH, history.n_items))
        self._price = usual_prices(history)
        price = np.append(self._price, np.nan)[self._products]  # −1: no product
        self._values = _rates(model, np.nan_to_num(self._confidence)) * np.nan_to_num(price)
        self._names = [client_name(label).casefold() for label in history.user_labels.tolist()]

    def page(
        self,
        clients: NDArray[np.int64],
        closed: Collection[tuple[int, int]],
        *,
        search: str = "",
        product: int | None = None,
        least: float = 0.0,
        first: int = 0,
        length: int = 50,
    ) -> tuple[list[Account], int]:
        """
        Some of the clients, most valuable first, and how many there are in all.

        `closed` are pairs of client and product that a person has decided about. `search` is a part of the name,
        `product` asks for those to whom it is recommended, `least` is the lowest confidence.
        """
        if search:
            wanted = search.casefold()
            clients = clients[[wanted in self._names[c] for c in clients.tolist()]]
        products, confidence, values = self._products[clients], self._confidence[clients], self._values[clients]
        is_open = (products >= 0) & (np.nan_to_num(confidence) >= least)
        if product is not None:
            is_open &= products == product
        if closed:
            code = clients[:, None] * np.int64(self._history.n_items) + products
            done = np.fromiter((c * self._history.n_items + p for c, p in closed), dtype=np.int64)
            is_open &= ~np.isin(code, done)
        if product is not None or least > 0:
            kept = is_open.any(axis=1)
            clients, products, confidence = clients[kept], products[kept], confidence[kept]
            values, is_open = values[kept], is_open[kept]
        # by value; by confidence where nothing has a price
        worth = np.where(is_open, values if np.isfinite(self._price).any() else np.nan_to_num(confidence), -1.0)
        best = worth.argmax(axis=1) if len(clients) else np.empty(0, dtype=np.int64)
        top = np.take_along_axis(worth, best[:, None], axis=1)[:, 0]
        order = np.lexsort((clients, -top))[first : first + length]
        return [self._account(clients[o], int(best[o]), is_open[o]) for o in order], len(clients)

    def _account(self, client: np.int64, best: int, is_open: NDArray[np.bool_]) -> Account:
        user, history = int(client), self._history
        name = client_name(history.user_labels[user])
        if not is_open.any():
            return Account(user, name, None, 0.0, None, 0)
        product = int(self._products[user, best])
        value = float(self._values[user, best]) if np.isfinite(self._price[product]) else None
        confidence = float(self._confidence[user, best])
        return Account(user, name, str(history.item_labels[product]), confidence, value, int(is_open.sum()))


def _rates(model: OCuLaR, confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hit rates as `Advisor` takes them; the confidence itself for a model without calibration."""
    calibration = model.calibration_
    if calibration is None:
        return confidence
    below = confidence < calibration.starts[0]
    return np.where(below, np.minimum(confidence, calibration.rates[0]), calibration.apply(confidence))


def usual_prices(history: Interactions) -> NDArray[np.float64]:
    """(n_items,) the median of what was paid; nan where nothing is known."""
    prices, payments = np.full(history.n_items, np.nan), history.payments
    if payments is not None:
        first, last = payments.indptr[:-1], payments.indptr[1:] - 1
        there = first <= last
        low, high = ((first + last) // 2)[there], ((first + last + 1) // 2)[there]
        prices[there] = (payments.prices[low] + payments.prices[high]) / 2
    return prices
