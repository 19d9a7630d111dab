"""A made-up vendor and its clients: names, attributes, prices, dates and the buying patterns behind them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ocular.data.export import purchases_frame, spread
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError
from ocular.storage import write_table
from ocular.synthetic import names
from ocular.synthetic.sampling import Floats, Ints, Mask, draw_rows
from ocular.validation import check_whole, random_generator

FIRST_DAY = np.datetime64("2022-01-03")  # a Monday
N_DAYS = 1090  # to a Friday, so that moving a date off the weekend never leaves the period


class Size(NamedTuple):
    """What the size of a company says about how it buys."""

    share: float  # of the clients
    activity: float
    patterns: float  # how many it follows, relative to the others
    discount: float
    budget: float  # a product that costs more is bought less often
    units: float


SIZES = {
    "Small": Size(0.50, 0.75, 0.75, 0.02, 6_000, 1.0),
    "Medium": Size(0.30, 1.0, 1.0, 0.07, 30_000, 1.6),
    "Large": Size(0.15, 1.5, 1.5, 0.15, 150_000, 3.0),
    "Enterprise": Size(0.05, 2.6, 2.4, 0.25, 1_000_000, 6.0),
}
PATTERNS_PER_CLIENT = 1.4


class B2B(NamedTuple):
    """The purchases from a made-up vendor and the buying patterns behind them."""

    interactions: Interactions
    rows: Mask  # (n_patterns, n_clients): who follows the pattern
    columns: Mask  # (n_patterns, n_products): what belongs to it
    patterns: tuple[str, ...]  # what the pattern is, in words


class _Clients(NamedTuple):
    labels: names.Names
    industry: Ints
    country: Ints
    size: Ints
    seller: names.Names
    activity: Floats  # mean about 1


class _Products(NamedTuple):
    labels: names.Names
    family: Ints
    list_price: Floats
    popularity: Floats  # how often it is bought outside of any pattern


def b2b(n_clients: int = 2000, n_products: int = 300, *, n_patterns: int | None = None, random_state: int = 0) -> B2B:
    """
    Make up companies that buy from an information technology vendor: names, attributes, prices, dates and patterns.

    A pattern is a set of industries that buy a few related product families together; clients follow several. What is
    bought outside of them goes by popularity. The price of a purchase is that of one unit. The default number of
    patterns grows with the square root of the number of products, and so does their size.
    """
    check_whole(n_clients, "n_clients", 1, names.MAX_CLIENTS)
    catalog = names.catalog()
    check_whole(n_products, "n_products", 1, len(catalog.names))
    n_patterns = max(1, round(1.2 * np.sqrt(n_products))) if n_patterns is None else n_patterns
    check_whole(n_patterns, "n_patterns", 1, n_products)
    rng = random_generator(random_state)
    clients = _draw_clients(rng, n_clients)
    products = _draw_products(rng, catalog, n_products)
    rows, columns, patterns = _draw_patterns(rng, clients, products, n_patterns)
    pairs = _draw_pairs(rng, clients, products, rows, columns)
    interactions = _draw_purchases(rng, clients, products, pairs)
    return B2B(interactions, rows, columns, patterns)


def _draw_clients(rng: np.random.Generator, n: int) -> _Clients:
    weights = np.array([country.weight for country in names.COUNTRIES.values()])
    country = rng.choice(len(weights), n, p=weights / weights.sum())
    frequency = rng.uniform(0.4, 1.6, len(names.INDUSTRIES))
    industry = rng.choice(len(frequency), n, p=frequency / frequency.sum())
    size = rng.choice(len(SIZES), n, p=[size.share for size in SIZES.values()])
    busy = np.array([size.activity for size in SIZES.values()])[size]
    activity = busy * rng.lognormal(-0.1, 0.45, n)
    labels = names.company_names(rng, industry, country)
    return _Clients(labels, industry, country, size, names.seller_names(rng, country), activity)


def _draw_products(rng: np.random.Generator, catalog: names.Catalog, n: int) -> _Products:
    chosen = np.sort(rng.choice(len(catalog.names), n, replace=False))
    family, variant = catalog.family[chosen], catalog.variant[chosen]
    median = np.array([family.list_price for family in names.FAMILIES.values()])[family]
    price = median * 1.6 ** (variant - 2.0) * rng.lognormal(0, 0.3, n)
    # two digits that count, as on a price list
    unit = 10.0 ** (np.floor(np.log10(price)) - 1)
    price = np.round(price / unit) * unit
    # cheap ones sell more often, with exceptions; the first is bought by about half of the clients
    rank = np.argsort(np.argsort(np.log(price) + rng.normal(0, 1.0, n)))
    popularity = np.asarray(0.75 / (rank + 1), dtype=np.float64)
    return _Products(catalog.names[chosen], family, price, popularity)


def _draw_patterns(
    rng: np.random.Generator, clients: _Clients, products: _Products, n_patterns: int
) -> tuple[Mask, Mask, tuple[str, ...]]:
    """Choose industries × families, each in turn so that all occur, and their clients and products."""
    industries, families = list(names.INDUSTRIES), list(names.FAMILIES)
    groups = np.array([family.group for family in names.FAMILIES.values()])
    offered = np.unique(products.family)
    follows = np.zeros((n_patterns, len(industries)), dtype=bool)
    columns = np.zeros((n_patterns, len(products.labels)), dtype=bool)
    industry_order, family_order = rng.permutation(len(industries)), rng.permutation(offered)
    patterns = []
    for number in range(n_patterns):
        first = industry_order[number % len(industries)]
        follows[number, [first, *rng.integers(len(industries), size=rng.integers(3))]] = True
        main = family_order[number % len(offered)]
        related = offered[(groups[offered] == groups[main]) & (offered != main)]
        chosen = [main, *rng.permutation(related)[: rng.integers(3)]]
        columns[number] = _draw_assortment(rng, np.isin(products.family, chosen))
        bought = " + ".join(families[family] for family in chosen)
        buyers = " + ".join(industries[industry] for industry in np.flatnonzero(follows[number]))
        patterns.append(f"{number + 1:02d} {bought} for {buyers}")
    return _draw_followers(rng, clients, follows), columns, tuple(patterns)


def _draw_assortment(rng: np.random.Generator, related: Mask) -> Mask:
    """Choose some products of the related families, and one in eight from anywhere."""
    size = 0.6 * np.sqrt(len(related)) * rng.lognormal(0, 0.3) + 1
    chosen = rng.permutation(np.flatnonzero(related))[: round(size * 7 / 8) + 1]
    anywhere = rng.integers(len(related), size=round(size / 8))
    return np.isin(np.arange(len(related)), np.append(chosen, anywhere))


def _draw_followers(rng: np.random.Generator, clients: _Clients, follows: Mask) -> Mask:
    """Let clients follow patterns of their industry, larger ones more of them, and now and then one of another."""
    inside = PATTERNS_PER_CLIENT / np.maximum(follows.sum(axis=0), 1)
    larger = np.array([size.patterns for size in SIZES.values()])[clients.size]
    likely = np.minimum(inside[clients.industry] * larger, 0.9)
    elsewhere = 0.1 / len(follows)
    rows = np.empty((len(follows), len(likely)), dtype=bool)
    for members, industries in zip(rows, follows, strict=True):
        members[:] = rng.random(len(likely)) < np.where(industries[clients.industry], likely, elsewhere)
        if not members.any():
            members[rng.integers(len(likely))] = True
    return rows


def _draw_pairs(
    rng: np.random.Generator, clients: _Clients, products: _Products, rows: Mask, columns: Mask
) -> tuple[Ints, Ints]:
    """Choose pairs by the patterns and by popularity; nobody is without a purchase, nothing without a buyer."""
    n_clients, n_products = rows.shape[1], columns.shape[1]
    indptr, indices = draw_rows(rng, clients.activity, products.popularity)
    codes = [np.repeat(np.arange(n_clients), np.diff(indptr)) * n_products + indices]
    for members, bought in zip(rows, columns, strict=True):
        u, i = np.flatnonzero(members), np.flatnonzero(bought)
        strength = rng.lognormal(-0.5, 0.6, len(i))
        # the root: whoever follows a pattern does buy from it
        buys = rng.random((len(u), len(i))) < -np.expm1(-np.outer(np.sqrt(clients.activity[u]), strength))
        codes.append((u[:, None] * n_products + i)[buys])
    users, items = np.divmod(np.unique(np.concatenate(codes)), n_products)
    budget = np.array([size.budget for size in SIZES.values()])[clients.size]
    affordable = rng.random(len(users)) < (budget[users] / products.list_price[items]) ** 0.75
    users, items = users[affordable], items[affordable]
    idle = np.setdiff1d(np.arange(n_clients), users)
    unsold = np.setdiff1d(np.arange(n_products), items)
    popular = rng.choice(n_products, len(idle), p=products.popularity / products.popularity.sum())
    busy = rng.choice(n_clients, len(unsold), p=clients.activity / clients.activity.sum())
    return np.concatenate([users, idle, busy]), np.concatenate([items, popular, unsold])


def _draw_purchases(
    rng: np.random.Generator, clients: _Clients, products: _Products, pairs: tuple[Ints, Ints]
) -> Interactions:
    """Choose when, how many and at what price each pair was bought, most of them once, some again and again."""
    n_clients, n_products = len(clients.labels), len(products.labels)
    every = np.array([family.every for family in names.FAMILIES.values()])[products.family]
    # six in ten were clients before the period begins
    since = np.maximum(rng.uniform(-1.2, 0.8, n_clients), 0) * N_DAYS
    first = rng.uniform(since[pairs[0]], N_DAYS)
    n_times = 1 + rng.poisson(0.8, len(first))
    users, items, day = (np.repeat(side, n_times) for side in (*pairs, first))
    turn = np.arange(len(day)) - np.repeat(np.cumsum(n_times) - n_times, n_times)
    day = (day + turn * every[items] * rng.uniform(0.85, 1.15, len(day))).astype(np.int64)
    day += np.array([0, 0, 0, 0, 0, -1, 1])[day % 7]
    within = day < N_DAYS
    users, items, day = users[within], items[within], day[within]

    sizes = list(SIZES.values())
    discount = np.array([size.discount for size in sizes])[clients.size] + rng.uniform(-0.02, 0.05, n_clients)
    units = np.array([size.units for size in sizes])[clients.size]
    fewer = np.minimum((1_000 / products.list_price) ** 0.4, 3)  # of what is dear
    list_price = products.list_price[items]
    paid = list_price * (1 - np.maximum(discount, 0)[users]) * rng.normal(1, 0.02, len(users))
    return Interactions.from_pairs(
        users,
        items,
        (n_clients, n_products),
        user_labels=clients.labels,
        item_labels=products.labels,
        price=np.round(np.minimum(paid, list_price), 2),
        quantity=1.0 + rng.poisson(units[users] * fewer[items] * rng.exponential(1, len(users))),
        time=FIRST_DAY + day.astype("timedelta64[D]"),
        user_attributes={
            "seller": clients.seller,
            "industry": np.array(list(names.INDUSTRIES), dtype=object)[clients.industry],
            "country": np.array(list(names.COUNTRIES), dtype=object)[clients.country],
            "size": np.array(list(SIZES), dtype=object)[clients.size],
        },
        item_attributes={
            "family": np.array(list(names.FAMILIES), dtype=object)[products.family],
            "list_price": products.list_price,
        },
    )


def frame(interactions: Interactions) -> pl.DataFrame:
    """Return the purchases with all attributes: client, product, price, quantity, date, seller, industry, …"""
    table = purchases_frame(interactions)
    if "time" in table.columns:
        whole_days = (table["time"] == table["time"].dt.truncate("1d")).all()
        table = table.rename({"time": "date"}).cast({"date": pl.Date if whole_days else pl.Datetime("ms")})
    pair = np.arange(interactions.nnz) if interactions.purchases is None else interactions.purchases.pair
    users, items = interactions.pair_users[pair], interactions.by_user.indices[pair]
    columns = table.get_columns()
    columns += [spread(name, values, users) for name, values in interactions.user_attributes.items()]
    columns += [spread(name, values, items) for name, values in interactions.item_attributes.items()]
    names_of_columns = [column.name for column in columns]
    if twice := sorted({name for name in names_of_columns if names_of_columns.count(name) > 1}):
        raise DataError(f"expected every column name once, got {', '.join(twice)} twice; rename the attribute")
    return pl.DataFrame(columns)


def write(made: B2B, folder: str | Path) -> None:
    """Write purchases.parquet, and coclusters.parquet with the truth: pattern, kind (client or product), name."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"expected a folder to write to, got the file {folder}") from None
    write_table(target / "purchases.parquet", frame(made.interactions))
    write_table(target / "coclusters.parquet", _truth(made))


def _truth(made: B2B) -> pl.DataFrame:
    patterns = np.array(made.patterns)
    parts = []
    for kind, member, labels in (
        ("client", made.rows, made.interactions.user_labels),
        ("product", made.columns, made.interactions.item_labels),
    ):
        pattern, row = np.nonzero(member)
        columns = [spread("pattern", patterns, pattern), spread("name", labels, row)]
        parts.append(pl.DataFrame(columns).select("pattern", pl.lit(kind).alias("kind"), "name"))
    return pl.concat(parts)
