"""Made-up purchases: with known co-clusters, or only as large and as skewed as a real data set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import ConfigError
from ocular.synthetic.sampling import Floats, Ints, Mask, draw_cells, draw_rows
from ocular.validation import check_whole, random_generator


class Planted(NamedTuple):
    """Purchases and the co-clusters that they were made from, in the form of scikit-learn's biclusters."""

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
    random_state: int = 0,
) -> Planted:
    """
    Plant overlapping co-clusters: positives with probability `density` inside each, with probability `noise` elsewhere.

    The co-clusters share out all users and all items, and each then takes further ones at random. `overlap` says how
    many: 0 is a partition, 1 makes every co-cluster twice as large. Or give the sizes: `users_per` and `items_per`.
    """
    for name, number in (("n_users", n_users), ("n_items", n_items), ("n_coclusters", n_coclusters)):
        check_whole(number, name, 1)
    for name, share in (("density", density), ("noise", noise)):
        if not 0 <= share <= 1:
            raise ConfigError(f"expected {name} to be a probability from 0 to 1, got {share:g}")
    if users_per is not None:
        check_whole(users_per, "users_per", 1, n_users)
    if items_per is not None:
        check_whole(items_per, "items_per", 1, n_items)
    if not overlap >= 0:
        raise ConfigError(f"expected overlap of at least 0, got {overlap:g}; 0 is a partition")
    rng = random_generator(random_state)
    rows = _memberships(rng, n_users, n_coclusters, users_per, overlap)
    columns = _memberships(rng, n_items, n_coclusters, items_per, overlap)
    pairs = [_noise(rng, rows, columns, noise)]
    for members, bought in zip(rows, columns, strict=True):
        u, i = np.flatnonzero(members), np.flatnonzero(bought)
        cell = draw_cells(rng, len(u) * len(i), density)
        pairs.append((u[cell // len(i)], i[cell % len(i)]))
    users, items = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return Planted(Interactions.from_pairs(users, items, (n_users, n_items)), rows, columns)


def _memberships(rng: np.random.Generator, n: int, n_coclusters: int, size: int | None, overlap: float) -> Mask:
    """Each co-cluster has its own part of all rows, cut to the size, and members of the other parts up to the size."""
    member = np.zeros((n_coclusters, n), dtype=bool)
    shuffled = rng.permutation(n)
    edges = np.linspace(0, n, n_coclusters + 1).astype(np.int64).tolist()
    for cocluster, start, end in zip(member, edges[:-1], edges[1:], strict=True):
        n_members = size or min(n, max(1, round((1 + overlap) * (end - start))))
        own = min(end - start, n_members)
        further = rng.choice(n - own, n_members - own, replace=False, shuffle=False)
        cocluster[shuffled[start : start + own]] = True
        cocluster[shuffled[(start + own + further) % n]] = True
    return member


def _noise(rng: np.random.Generator, rows: Mask, columns: Mask, share: float) -> tuple[Ints, Ints]:
    n_users, n_items = rows.shape[1], columns.shape[1]
    cell = draw_cells(rng, n_users * n_items, share)
    u, i = cell // n_items, cell % n_items
    inside = np.zeros(len(cell), dtype=bool)
    for members, bought in zip(rows, columns, strict=True):
        inside |= members[u] & bought[i]
    return u[~inside], i[~inside]


def skewed(n_users: int, n_items: int, n_pairs: int, *, random_state: int = 0) -> Interactions:
    """Return exactly `n_pairs` random pairs; the activity of users and the popularity of items follow power laws."""
    check_whole(n_users, "n_users", 1)
    check_whole(n_items, "n_items", 1)
    check_whole(n_pairs, "n_pairs", 1, max(1, n_users * n_items // 2))
    rng = random_generator(random_state)
    activity, popularity = _power_law(n_users, 0.5), _power_law(n_items, 0.7)
    scale = _scale(activity, popularity, n_pairs + 0.002 * n_pairs + 4 * np.sqrt(n_pairs))
    activity, popularity = rng.permutation(activity), rng.permutation(popularity)
    while True:
        indptr, indices = draw_rows(rng, scale * activity, popularity)
        if len(indices) >= n_pairs:
            break
        scale *= 1.1  # only for a handful of pairs, where chance is large against the margin
    surplus = np.sort(rng.choice(len(indices), len(indices) - n_pairs, replace=False, shuffle=False))
    by_user = Adjacency(indptr - np.searchsorted(surplus, indptr), np.delete(indices, surplus))
    return Interactions(by_user, n_items, np.arange(n_users), np.arange(n_items))


def _power_law(n: int, exponent: float) -> Floats:
    """Return weights of mean 1, largest first. The ten added to the rank keep the first few from taking everything."""
    weights = ((np.arange(n) + 10.0) ** -exponent).astype(np.float64)
    mean: float = weights.mean()
    return weights / mean


def _scale(activity: Floats, popularity: Floats, n_pairs: float) -> float:
    """Return the factor that makes so many pairs likely, where a pair occurs with probability 1 - exp(-factor·a·p)."""
    (a, n_a), (p, n_p) = _steps(activity), _steps(popularity)
    rates, cells = np.outer(a, p), np.outer(n_a, n_p)
    target = min(n_pairs, 0.95 * cells.sum())
    low, high = -50.0, 50.0  # of its logarithm
    while high - low > 1e-6:
        middle = (low + high) / 2
        enough = -(cells * np.expm1(-np.exp(middle) * rates)).sum() >= target
        low, high = (low, middle) if enough else (middle, high)
    return float(np.exp(high))


def _steps(weights: Floats) -> tuple[Floats, Floats]:
    """Return the sorted weights as at most about 500 steps, each with its mean and its length."""
    starts = np.unique(np.geomspace(1, len(weights) + 1, 500).astype(np.int64)[:-1]) - 1
    lengths = np.diff(np.append(starts, len(weights))).astype(np.float64)
    return np.add.reduceat(weights, starts) / lengths, lengths
