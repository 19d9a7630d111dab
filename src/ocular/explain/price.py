"""
What a product is likely to cost: what related clients paid for it.

Related are the clients that the reasons of a recommendation name, each weighted by their part in those reasons. A
client who bought often counts once: their purchases share their weight. Amounts of zero or less are gifts and
corrections, not prices. Where too few related clients paid, the estimate is that of all buyers of the product, and says
so; where these are too few as well there is none. Prices are rounded: no number is what one client paid to the cent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.compiling import njit
from ocular.data.interactions import Interactions

MIN_CLIENTS = 5  # who paid: fewer would be a guess, and would reveal what one of them paid
DIGITS = 3  # significant ones of a price
QUANTILES = (0.1, 0.5, 0.9)
SIMILAR, EVERYBODY = "similar clients", "all clients"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PriceEstimate:
    """A weighted median with its range: 80% paid between low and high."""

    median: float
    low: float
    high: float
    purchases: int  # that it rests on
    clients: int  # who made them
    basis: str  # SIMILAR or EVERYBODY
    currency: str = ""
    prices: Floats = field(
        default_factory=lambda: np.empty(0), compare=False, repr=False
    )  # of the purchases, ascending

    def text(self) -> str:
        """Return the estimate as a sentence."""
        who = "Similar clients" if self.basis == SIMILAR else "All its buyers (too few of them similar)"
        low, median, high = (money(value, self.currency) for value in (self.low, self.median, self.high))
        spread = "80% exactly that" if low == high else f"80% between {low} and {high}"
        count = f"{self.purchases:,} purchases by {self.clients:,} clients"
        return f"{who} paid a median of {median} ({spread}; {count})."


def money(amount: float, currency: str = "") -> str:
    """
    Return an amount as people write it: two decimals below a hundred.

    >>> money(1234.5, "£"), money(1.25, "EUR")
    ('£1,234', 'EUR 1.25')
    """
    sign = f"{currency} " if currency[-1:].isalpha() else currency  # EUR 5, but £5
    return f"{sign}{amount:,.0f}" if amount >= 100 else f"{sign}{amount:,.2f}"


def round_prices(prices: ArrayLike) -> Floats:
    """
    Return positive prices with DIGITS significant digits; nan stays nan.

    >>> round_prices([17122.4, 1.25, 0.012349])
    array([1.71e+04, 1.25e+00, 1.23e-02])
    """
    exact = np.asarray(prices, dtype=np.float64)
    places = DIGITS - 1 - np.floor(np.log10(exact))
    rounded: Floats = np.where(
        places > 0,
        np.rint(exact * 10 ** np.maximum(places, 0)) / 10 ** np.maximum(places, 0),
        np.rint(exact / 10 ** np.maximum(-places, 0)) * 10 ** np.maximum(-places, 0),
    )
    return rounded


def estimate_price(
    item: int, related: Floats, interactions: Interactions, without: int | None = None
) -> PriceEstimate | None:
    """Estimate from the purchases of `item` by users of positive weight `related`, or by all, `without` one user."""
    payments = interactions.payments
    if payments is None:
        return None
    buyers, prices, times = payments.of(item)
    for basis in (SIMILAR, EVERYBODY):
        weight = related if basis == SIMILAR else np.ones(interactions.n_users)
        chosen, weights, clients = _payments_of(buyers, times, weight, -1 if without is None else without)
        if clients >= MIN_CLIENTS:
            low, median, high = round_prices(_quantiles(prices[chosen], weights)).tolist()
            currency, paid = interactions.currency, round_prices(prices[chosen])
            return PriceEstimate(median, low, high, len(chosen), clients, basis, currency, paid)
    return None


@njit(nogil=True, cache=True)
def _payments_of(buyers, times, weight, without):  # type: ignore[no-untyped-def]
    """Return the payments of buyers of positive weight, their weights (shared by those of a buyer), and the buyers."""
    chosen, weights, n, clients = np.empty(len(buyers), np.int64), np.empty(len(buyers)), 0, 0.0
    for a in range(len(buyers)):
        if weight[buyers[a]] > 0 and buyers[a] != without:
            chosen[n], weights[n] = a, weight[buyers[a]] / times[a]
            clients += 1 / times[a]
            n += 1
    return chosen[:n], weights[:n], round(clients)


def _quantiles(values: Floats, weights: Floats) -> list[float]:
    """Return the ascending values where the weight reaches each of QUANTILES; between two where it does so exactly."""
    reached = np.cumsum(weights) / weights.sum()
    last = len(values) - 1
    at = [int(np.searchsorted(reached, q * (1 - 1e-9))) for q in QUANTILES]
    after = [int(np.searchsorted(reached, q * (1 + 1e-9))) for q in QUANTILES]
    return [float(values[min(a, last)] + values[min(b, last)]) / 2 for a, b in zip(at, after, strict=True)]
