"""Purchase histories that are made up: with known co-clusters, like a business, or only as large as a real one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data import names
from ocular.data.interactions import Adjacency, Interactions
from ocular.data.splits import generator
from ocular.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

DRAWS_AT_ONCE = 4_000_000
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


class Planted(NamedTuple):
    """A history and the co-clusters that it was made from, in the form of scikit-learn's biclusters."""

    interactions: Interactions
    rows: Mask  # (n_coclusters, n_users)
    columns: Mask  # (n_coclusters, n_items)


def planted(
    n_users: int,
    n_items: int,
    n_coclusters: int,
    *,
    users_per: int | None = None,
    items_per: int | None = None,
    overlap: float = 0.5,
    density: float = 0.9,
    noise: float = 0.0,
    seed: int = 0,
) -> Planted:
    """
    Overlapping co-clusters: positives with probability `density` inside each, with probability `noise` elsewhere.

    The co-clusters share out all users and all items, and each then takes further ones at random. `overlap` says how
    many: 0 is a partition, 1 makes every co-cluster twice as large. Or give the sizes: `users_per` and `items_per`.
    """
    _check_whole(1, None, n_users=n_users, n_items=n_items, n_coclusters=n_coclusters)
    for name, share in (("density", density), ("noise", noise)):
        if not 0 <= share <= 1:
            raise ConfigError(f"expected {name} to be a probability from 0 to 1, got {share:g}")
    if users_per is not None:
        _check_whole(1, n_users, users_per=users_per)
    if items_per is not None:
        _check_whole(1, n_items, items_per=items_per)
    if not overlap >= 0:
        raise ConfigError(f"expected overlap of at least 0, got {overlap:g}; 0 is a partition")
    rng = generator(seed)
    rows = _memberships(rng, n_users, n_coclusters, users_per, overlap)
    columns = _memberships(rng, n_items, n_coclusters, items_per, overlap)
    found = [_noise(rng, rows, columns, noise)]
    for members, bought in zip(rows, columns, strict=True):
        u, i = np.flatnonzero(members), np.flatnonzero(bought)
        cell = _positives(rng, len(u) * len(i), density)
        found.append((u[cell // len(i)], i[cell % len(i)]))
    users, items = (np.concatenate(side) for side in zip(*found, strict=True))
    return Planted(Interactions.from_pairs(users, items, (n_users, n_items)), rows, columns)


def _memberships(rng: np.random.Generator, n: int, n_coclusters: int, size: int | None, overlap: float) -> Mask:
    """Each co-cluster has its own part of all rows, cut to the size, and members of the other parts up to the size."""
    member = np.zeros((n_coclusters, n), dtype=bool)
    shuffled = rng.permutation(n)
    edges = np.linspace(0, n, n_coclusters + 1).astype(np.int64).tolist()
    for cocluster, start, end in zip(member, edges[:-1], edges[1:], strict=True):
        wanted = size or min(n, max(1, round((1 + overlap) * (end - start))))
        own = min(end - start, wanted)
        further = rng.choice(n - own, wanted - own, replace=False, shuffle=False)
        cocluster[shuffled[start : start + own]] = True
        cocluster[shuffled[(start + own + further) % n]] = True
    return member


def _noise(rng: np.random.Generator, rows: Mask, columns: Mask, share: float) -> tuple[Ints, Ints]:
    n_users, n_items = rows.shape[1], columns.shape[1]
    cell = _positives(rng, n_users * n_items, share)
    u, i = cell // n_items, cell % n_items
    inside = np.zeros(len(cell), dtype=bool)
    for members, bought in zip(rows, columns, strict=True):
        inside |= members[u] & bought[i]
    return u[~inside], i[~inside]


def _positives(rng: np.random.Generator, n_cells: int, share: float) -> Ints:
    """Which of so many cells are positive, each with the same probability: time and memory go with the positives."""
    if share == 0:
        return np.empty(0, dtype=np.int64)
    found = [np.array([-1])]
    while (last := found[-1][-1]) < n_cells:
        expected = (n_cells - last) * share
        # the gaps from one positive to the next are geometric
        gaps = rng.geometric(share, int(expected + 4 * np.sqrt(expected)) + 1)
        found.append(last + np.cumsum(gaps))
    cells = np.concatenate(found[1:])
    return cells[cells < n_cells]


def skewed(n_users: int, n_items: int, n_pairs: int, *, seed: int = 0) -> Interactions:
    """Exactly `n_pairs` random pairs; the activity of users and the popularity of items follow power laws."""
    _check_whole(1, None, n_users=n_users, n_items=n_items)
    _check_whole(1, max(1, n_users * n_items // 2), n_pairs=n_pairs)
    rng = generator(seed)
    activity, popularity = _power_law(n_users, 0.5), _power_law(n_items, 0.7)
    scale = _scale(activity, popularity, n_pairs + 0.002 * n_pairs + 4 * np.sqrt(n_pairs))
    activity, popularity = rng.permutation(activity), rng.permutation(popularity)
    while True:
        indptr, indices = _draw_rows(rng, scale * activity, popularity)
        if len(indices) >= n_pairs:
            break
        scale *= 1.1  # only for a handful of pairs, where chance is large against the margin
    surplus = np.sort(rng.choice(len(indices), len(indices) - n_pairs, replace=False, shuffle=False))
    by_user = Adjacency(indptr - np.searchsorted(surplus, indptr), np.delete(indices, surplus))
    return Interactions(by_user, n_items, np.arange(n_users), np.arange(n_items))


def _power_law(n: int, exponent: float) -> Floats:
    """Weights of mean 1, largest first. The ten added to the rank keep the first few from taking everything."""
    weights = ((np.arange(n) + 10.0) ** -exponent).astype(np.float64)
    mean: float = weights.mean()
    return weights / mean


def _scale(activity: Floats, popularity: Floats, n_pairs: float) -> float:
    """The factor that makes so many pairs likely, where a pair occurs with probability 1 - exp(-factor·a·p)."""
    (a, n_a), (p, n_p) = _steps(activity), _steps(popularity)
    rates, cells = np.outer(a, p), np.outer(n_a, n_p)
    wanted = min(n_pairs, 0.95 * cells.sum())
    low, high = -50.0, 50.0  # of its logarithm
    while high - low > 1e-6:
        middle = (low + high) / 2
        enough = -(cells * np.expm1(-np.exp(middle) * rates)).sum() >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return float(np.exp(high))


def _steps(weights: Floats) -> tuple[Floats, Floats]:
    """The sorted weights as at most about 500 steps, each with its mean and its length."""
    starts = np.unique(np.geomspace(1, len(weights) + 1, 500).astype(np.int64)[:-1]) - 1
    lengths = np.diff(np.append(starts, len(weights))).astype(np.float64)
    return np.add.reduceat(weights, starts) / lengths, lengths


def _draw_rows(rng: np.random.Generator, rates: Floats, popularity: Floats) -> tuple[Ints, NDArray[np.int32]]:
    """Rows of distinct items, ascending: (u, i) occurs with probability 1 - exp(-rates[u]·popularity[i])."""
    n_items = len(popularity)
    edges = np.cumsum(popularity)
    n_draws = rng.poisson(rates * edges[-1])
    upto = np.concatenate([[0], np.cumsum(n_draws)])
    degrees = np.zeros(len(rates), dtype=np.int64)
    indices = np.empty(upto[-1], dtype=np.int32)
    filled = start = 0
    while start < len(rates):
        # as many rows as there are draws in a chunk: what is held at once does not grow with the data
        end = max(start + 1, int(np.searchsorted(upto, upto[start] + DRAWS_AT_ONCE, side="right")) - 1)
        draw = rng.random(upto[end] - upto[start]) * edges[-1]
        code = np.repeat(np.arange(end - start), n_draws[start:end]) * n_items
        code += np.minimum(np.searchsorted(edges, draw, side="right"), n_items - 1)
        code.sort()
        code = code[np.diff(code, prepend=-1) > 0]
        degrees[start:end] = np.bincount(code // n_items, minlength=end - start)
        indices[filled : filled + len(code)] = code % n_items
        filled, start = filled + len(code), end
    return np.concatenate([[0], np.cumsum(degrees)]), indices[:filled]


class B2B(NamedTuple):
    """The history of a made-up vendor and the buying patterns behind it."""

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


def b2b(n_clients: int = 2000, n_products: int = 300, *, n_patterns: int | None = None, seed: int = 0) -> B2B:
    """
    Companies that buy from an information technology vendor: names, attributes, prices, dates and buying patterns.

    A pattern is a set of industries that buy a few related product families together; clients follow several. What is
    bought outside of them goes by popularity. The price of a purchase is that of one unit. The default number of
    patterns grows with the square root of the number of products, and so does their size.
    """
    _check_whole(1, names.MAX_CLIENTS, n_clients=n_clients)
    catalog = names.catalog()
    _check_whole(1, len(catalog.names), n_products=n_products)
    n_patterns = max(1, round(1.2 * np.sqrt(n_products))) if n_patterns is None else n_patterns
    _check_whole(1, n_products, n_patterns=n_patterns)
    rng = generator(seed)
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
    """Industries × families, each in turn so that all occur, and the clients and products that this makes."""
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
    """Some products of the related families, and one in eight from anywhere."""
    size = 0.6 * np.sqrt(len(related)) * rng.lognormal(0, 0.3) + 1
    chosen = rng.permutation(np.flatnonzero(related))[: round(size * 7 / 8) + 1]
    anywhere = rng.integers(len(related), size=round(size / 8))
    return np.isin(np.arange(len(related)), np.append(chosen, anywhere))


def _draw_followers(rng: np.random.Generator, clients: _Clients, follows: Mask) -> Mask:
    """A client follows patterns of its industry, larger ones more of them, and now and then one of another."""
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
    """What follows from the patterns and what from popularity; nobody without a purchase, nothing without a buyer."""
    n_clients, n_products = rows.shape[1], columns.shape[1]
    indptr, indices = _draw_rows(rng, clients.activity, products.popularity)
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
    """When, how many and at what price each pair was bought, most of them once, some again and again."""
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
        time=FIRST_DAY + day,
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
    """The history as a table, one row a purchase: client, product, the amounts that are known, all attributes."""
    purchases = interactions.purchases
    pair = np.arange(interactions.nnz) if purchases is None else purchases.pair
    amounts = {} if purchases is None else purchases.columns
    users, items = interactions.pair_users[pair], interactions.by_user.indices[pair]
    columns = [_spread("client", interactions.user_labels, users), _spread("product", interactions.item_labels, items)]
    columns += [pl.Series(name, amounts[name]) for name in ("price", "quantity") if name in amounts]
    if "time" in amounts:
        time = amounts["time"]
        whole_days = np.array_equal(time, time.astype("datetime64[D]"), equal_nan=True)
        columns.append(pl.Series("date", time.astype("datetime64[D]" if whole_days else "datetime64[ms]")))
    columns += [_spread(name, values, users) for name, values in interactions.user_attributes.items()]
    columns += [_spread(name, values, items) for name, values in interactions.item_attributes.items()]
    found = [column.name for column in columns]
    if twice := sorted({name for name in found if found.count(name) > 1}):
        raise DataError(f"expected every column name once, got {', '.join(twice)} twice; rename the attribute")
    return pl.DataFrame(columns)


def _spread(name: str, values: NDArray[Any], rows: NDArray[Any]) -> pl.Series:
    return pl.Series(name, values.tolist()).gather(rows)


def write(made: B2B, folder: str | Path) -> None:
    """Write purchases.parquet, and coclusters.parquet with the truth: pattern, kind (client or product), name."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"expected a folder to write to, got the file {folder}") from None
    _write_whole(frame(made.interactions), target / "purchases.parquet")
    _write_whole(_truth(made), target / "coclusters.parquet")


def _truth(made: B2B) -> pl.DataFrame:
    patterns = np.array(made.patterns)
    parts = []
    for kind, member, labels in (
        ("client", made.rows, made.interactions.user_labels),
        ("product", made.columns, made.interactions.item_labels),
    ):
        pattern, row = np.nonzero(member)
        columns = [_spread("pattern", patterns, pattern), _spread("name", labels, row)]
        parts.append(pl.DataFrame(columns).select("pattern", pl.lit(kind).alias("kind"), "name"))
    return pl.concat(parts)


def _write_whole(table: pl.DataFrame, path: Path) -> None:
    """Under another name first: whoever reads the folder sees the whole file or none."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        table.write_parquet(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _check_whole(low: int, high: int | None, **given: int) -> None:
    for name, value in given.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < low or (high is not None and value > high):
            limits = f"of at least {low}" if high is None else f"from {low} to {high:,}"
            raise ConfigError(f"expected {name} to be a whole number {limits}, got {value!r}")
