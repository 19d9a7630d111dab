"""
The sample of the demo: 480 made-up companies that buy from a vendor by eight overlapping themes.

It has the same bytes for the same seed, whatever the day: dates are shifted by whole weeks so that they end today.
"""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

import numpy as np

from ocular.data.interactions import Interactions
from ocular.synthetic.sampling import Floats, Ints, Mask
from ocular.synthetic.showcase_names import (
    COUNTRIES,
    FAMILIES,
    HERO,
    HERO_COUNTRY,
    HERO_PRODUCT,
    INDUSTRIES,
    THEMES,
    TOWNS,
)

N_CLIENTS, SEED = 480, 5304
N_DAYS = 7 * 104  # two years
LAST_DAY = np.datetime64("2025-01-03")  # of the sample before it is shifted: a Friday
SIZES = {"Small": 0.78, "Medium": 1.0, "Large": 1.35}  # with their activity
SIZE_SHARES = (0.4, 0.4, 0.2)
MIN_PRODUCTS = 6  # of a client
BACKGROUND = 0.015  # mean chance to buy a product outside of all themes
CORE, FRINGE = (0.9, 3.0), (0.1, 0.9)  # how strongly a theme leads to a product: from, to
FOLLOWING = (0.6, 1.6)  # how strongly a client follows a theme


class Showcase(NamedTuple):
    """The purchases of the demo, the themes behind them, and the recommendation that opens it."""

    interactions: Interactions
    rows: Mask  # (n_themes, n_clients): who follows the theme
    columns: Mask  # (n_themes, n_products): what belongs to it
    themes: tuple[str, ...]
    hero: tuple[str, str]  # client and product where two themes cross


class _Products(NamedTuple):
    names: list[str]
    family: list[str]
    list_price: Floats
    every: Ints  # days from one order to the next; 0 for what is bought once
    place: dict[str, int]  # by kind


class _Clients(NamedTuple):
    names: list[str]
    industry: list[str]
    country: list[str]
    size: list[str]
    activity: Floats


def showcase(today: date | None = None, *, random_state: int = SEED) -> Showcase:
    """Make up the sample; its last purchase is on the latest Friday up to `today`, the day of the call by default."""
    rng = np.random.default_rng(random_state)
    products, clients = _products(), _draw_clients(rng)
    rows, columns, z = _draw_intensity(rng, clients, products)
    bought = rng.random(z.shape) < -np.expm1(-z)
    hero, hero_product = clients.names.index(HERO), products.names.index(HERO_PRODUCT)
    crossing = rows[:, hero] @ columns  # what belongs to the themes of the hero: almost all of it is there
    bought[hero] |= crossing & (z[hero] > np.median(z[hero, crossing]))
    bought[hero, hero_product] = False
    for client in np.flatnonzero(bought.sum(axis=1) < MIN_PRODUCTS):
        bought[client, np.argsort(-z[client], kind="stable")[:MIN_PRODUCTS]] = True
    for product in np.flatnonzero(~bought.any(axis=0)):
        bought[rng.integers(N_CLIENTS), product] = True
    weeks = int((np.datetime64(date.today() if today is None else today) - LAST_DAY).astype(int)) // 7
    interactions = _draw_purchases(rng, clients, products, bought, LAST_DAY + 7 * weeks)
    return Showcase(interactions, rows, columns, tuple(THEMES), (HERO, HERO_PRODUCT))


def earlier(interactions: Interactions, days: int) -> Interactions:
    """Return the purchases without those of the last days, of the clients and products that have some left."""
    purchases: Any = interactions.purchases  # the sample has dates, prices and quantities
    end = purchases.time.max().astype("datetime64[D]") - days
    kept = purchases.time < end
    pair = purchases.pair[kept]
    users, user = np.unique(interactions.pair_users[pair], return_inverse=True)
    items, item = np.unique(interactions.by_user.indices[pair], return_inverse=True)
    return Interactions.from_pairs(
        user, item, (len(users), len(items)),
        user_labels=interactions.user_labels[users], item_labels=interactions.item_labels[items],
        price=purchases.price[kept], quantity=purchases.quantity[kept], time=purchases.time[kept],
        currency=interactions.currency,
        user_attributes={name: values[users] for name, values in interactions.user_attributes.items()},
        item_attributes={name: values[items] for name, values in interactions.item_attributes.items()},
    )  # fmt: skip


def _products() -> _Products:
    names, families, prices, every, place = list[str](), list[str](), list[float](), list[int](), dict[str, int]()
    for family, (line, kinds) in FAMILIES.items():
        for entry in kinds.split(","):
            kind, number = entry.rsplit(" ", 1)
            price, _, days = number.partition("/")
            place[kind] = len(names)
            names.append(f"{line} {kind}")
            families.append(family)
            prices.append(float(price))
            every.append(int(days or 0))
    return _Products(names, families, np.array(prices), np.array(every), place)


def _draw_clients(rng: np.random.Generator) -> _Clients:
    """Draw companies, each with a name of its own; the first one is the hero."""
    shares = np.array([country.clients for country in COUNTRIES.values()], dtype=float)
    country = rng.choice(list(COUNTRIES), N_CLIENTS, p=shares / shares.sum()).tolist()
    industry = rng.permutation(np.resize(list(INDUSTRIES), N_CLIENTS)).tolist()
    size = rng.choice(list(SIZES), N_CLIENTS, p=SIZE_SHARES).tolist()
    country[0], industry[0], size[0] = HERO_COUNTRY, "Airports", "Large"
    names = [HERO]
    for row in range(1, N_CLIENTS):
        names.append(_draw_name(rng, country[row], industry[row], set(names)))
    activity = np.array([SIZES[each] for each in size]) * rng.lognormal(-0.03, 0.25, N_CLIENTS)
    return _Clients(names, industry, country, size, activity)


def _draw_name(rng: np.random.Generator, country: str, industry: str, taken: set[str]) -> str:
    language, forms = COUNTRIES[country].language, COUNTRIES[country].legal_forms
    words = INDUSTRIES[industry].get(language, INDUSTRIES[industry]["English"]).split("|")
    stems = {name.rsplit(" ", 1)[0] for name in taken}
    while True:
        stem = rng.choice(words).format(rng.choice(TOWNS[language].split()))
        if stem not in stems:
            return f"{stem} {forms[int(rng.random() ** 2 * len(forms))]}"


def _draw_intensity(rng: np.random.Generator, clients: _Clients, products: _Products) -> tuple[Mask, Mask, Floats]:
    """Return who follows which theme, what belongs to it, and z: a pair is bought with probability 1 − e^(−z)."""
    n_products = len(products.names)
    rows = np.zeros((len(THEMES), N_CLIENTS), dtype=bool)
    columns = np.zeros((len(THEMES), n_products), dtype=bool)
    larger = clients.activity / clients.activity.mean()
    popularity = rng.gamma(0.8, 1 / 0.8, n_products)
    z = BACKGROUND * np.outer(larger, popularity)
    crossing = _hero_themes()
    for number, theme in enumerate(THEMES.values()):
        likely = np.array([theme.industries.get(industry, 0.015) for industry in clients.industry])
        likely = np.where(likely < 0.9, likely * larger, likely)  # large companies follow more themes
        rows[number] = rng.random(N_CLIENTS) < likely
        rows[number, 0] = number in crossing  # the hero follows both themes of its product, and no other
        core, fringe = ([products.place[kind] for kind in kinds.split(",")] for kinds in (theme.core, theme.fringe))
        strength = np.zeros(n_products)
        strength[core] = rng.uniform(*CORE, len(core))
        strength[fringe] = rng.uniform(*FRINGE, len(fringe))
        columns[number] = strength > 0
        follows = rows[number] * rng.uniform(*FOLLOWING, N_CLIENTS) * clients.activity
        follows[0] = 1.3 * rows[number, 0]
        z += np.outer(follows, strength)
    return rows, columns, z


def _hero_themes() -> list[int]:
    kind = HERO_PRODUCT.split(" ", 1)[1]
    return [number for number, theme in enumerate(THEMES.values()) if kind in theme.core.split(",")]


def _draw_purchases(
    rng: np.random.Generator, clients: _Clients, products: _Products, bought: Mask, last_day: np.datetime64
) -> Interactions:
    """Choose when, how many and at what price; what is used up is ordered again at intervals of each client's own."""
    users, items = np.nonzero(bought)
    since = np.maximum(rng.uniform(-1.0, 0.6, N_CLIENTS), 0) * N_DAYS
    first = rng.uniform(since[users], N_DAYS)
    every = products.every[items] * rng.uniform(0.85, 1.3, len(users))
    first = np.where(every > 0, np.minimum(first, since[users] + 0.4 * (N_DAYS - since[users])), first)
    n_times = np.where(every > 0, (N_DAYS - first) // np.maximum(every, 1) + 1, 1).astype(int)
    turn = np.arange(n_times.sum()) - np.repeat(np.cumsum(n_times) - n_times, n_times)
    pair = np.repeat(np.arange(len(users)), n_times)
    day = (first[pair] + turn * every[pair] + rng.normal(0, 0.06, len(pair)) * every[pair]).astype(np.int64)
    day = np.clip(day, 2, N_DAYS - 1)  # from a Monday to a Friday
    day += np.array([0, 0, 0, 0, 0, 1, -1])[(N_DAYS - 1 - day) % 7]  # no orders at weekends
    users, items = users[pair], items[pair]

    discount = {"Small": 0.02, "Medium": 0.06, "Large": 0.12}
    rebate = np.array([discount[size] for size in clients.size]) + rng.uniform(-0.02, 0.05, N_CLIENTS)
    list_price = products.list_price[items]
    price = np.round(list_price * (1 - np.maximum(rebate, 0)[users]) * rng.normal(1, 0.03, len(users)), 2)
    units = np.minimum((4_000 / list_price) ** 0.6, 8) * clients.activity[users]
    return Interactions.from_pairs(
        users, items, bought.shape, user_labels=clients.names, item_labels=products.names, price=price,
        quantity=1.0 + rng.poisson(np.where(list_price > 8_000, 0.1, 0.5 * units)),
        time=last_day - (N_DAYS - 1 - day).astype("timedelta64[D]"), currency="€",
        user_attributes={
            "industry": np.array(clients.industry, dtype=object),
            "country": np.array(clients.country, dtype=object),
            "size": np.array(clients.size, dtype=object),
            "seller": np.array([COUNTRIES[country].seller for country in clients.country], dtype=object),
        },
        item_attributes={"family": np.array(products.family, dtype=object), "list_price": products.list_price},
    )  # fmt: skip
