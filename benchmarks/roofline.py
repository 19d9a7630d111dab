"""
How near the kernels come to what this machine can do at all, in a sweep and for the top 50.

A half-sweep reads the rows of its neighbours once for dot products and slopes (the slopes find them in a near cache)
and once for each step it tries, counted from the step sizes: 4 bytes a factor, 8 with its column if sparse. It does 2
flops a factor for a dot product and 5 for the slopes; exp, log and the work once a row are left out. The least time is
the longer of bytes / bare rate and flops / peak. Bare is a kernel that only reads a number from each cache line of the
same rows of the same table (if sparse: indexed dot products), each list twice as for one trial; the peak is of
multiply-adds in registers. All are measured in turn with the sweeps, in the same threads. The fastest of each counts;
where a machine is shared and its speed changes, the median of the shares by turn says more.

python benchmarks/roofline.py            about a minute
python benchmarks/roofline.py --quick    a tenth of the positives
"""

from __future__ import annotations

from contextlib import closing
from copy import deepcopy
from typing import Any

import numpy as np
from common import parser, save, seconds
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.scoring import Scorer
from ocular.solver.config import Factors, FitConfig, State
from ocular.solver.cpu import CpuBackend
from ocular.solver.kernels import MAX_STEP, ONE, ZERO
from ocular.solver.pool import RowPool
from ocular.solver.prefetch import LINE
from ocular.solver.sparse_kernels import AHEAD, affinity, await_row
from ocular.solver.start.initial import initial_state
from ocular.synthetic import planted, skewed

RUNS, WARM_UP, TWICE, CHUNKS = 12, 3, 2, 32
MEMORY, CACHE = 1 << 27, 1 << 16  # float32: far more than the caches hold, and half of a core's second one or less
LENGTH, TURNS, FLOPS = 512, 4000, 64  # of multiply_adds: an array, how often, and flops for each of its numbers

compiled = njit(nogil=True, fastmath=True, error_model="numpy")


@compiled
def stream(table, out, first, last):
    """Sums up table[first:last], which begins anew where it ends."""
    for at in range(first, last, CACHE):
        part, total = table[at % len(table) :][:CACHE], ZERO
        for k in range(len(part)):
            total += part[k]
        out[0] = total


@njit(nogil=True, error_model="numpy")  # not reordered: the compiler would turn the sums into gather instructions
def gather(table, indptr, indices, out, first_row, last_row):
    """A number from each cache line of the rows of all neighbours, four rows at a time like the solver."""
    width = table.shape[1]
    for r in range(first_row, last_row):
        neighbours = indices[indptr[r] : indptr[r + 1]]
        quads = len(neighbours) - len(neighbours) % 4
        for _ in range(TWICE):
            for j in range(0, quads, 4):
                g0, g1 = table[neighbours[j]], table[neighbours[j + 1]]
                g2, g3 = table[neighbours[j + 2]], table[neighbours[j + 3]]
                s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
                for k in range(0, width, LINE):
                    s0 += g0[k]
                    s1 += g1[k]
                    s2 += g2[k]
                    s3 += g3[k]
                out[r] = (s0 + s1) + (s2 + s3)
            for j in range(quads, len(neighbours)):
                g0, s0 = table[neighbours[j]], ZERO
                for k in range(0, width, LINE):
                    s0 += g0[k]
                out[r] = s0


@compiled
def indexed_dots(row, ends, columns, strengths, indptr, indices, out, first_row, last_row):
    """Σ row[columns] · strengths for the sparse row of every neighbour."""
    for r in range(first_row, last_row):
        neighbours = indices[indptr[r] : indptr[r + 1]]
        for _ in range(TWICE):
            for j in range(len(neighbours)):
                await_row(ends, columns, strengths, neighbours, j + AHEAD)
                first, last = ends[neighbours[j]], ends[neighbours[j] + 1]
                out[r] = affinity(row, columns[first:last], strengths[first:last])


@njit(nogil=True, fastmath={"contract"}, forceinline=True)
def eight(v, a, b):
    v = (((v * a + b) * a + b) * a + b) * a + b
    return (((v * a + b) * a + b) * a + b) * a + b


@njit(nogil=True, fastmath={"contract"})  # not reordered, or the compiler would make one step of several
def multiply_adds(a, b, first, last):
    """Eight multiply-adds on each of four numbers that do not wait for each other, in whole vectors of them."""
    x = np.ones(LENGTH, np.float32)
    for _ in range(first, last):
        for k in range(LENGTH):
            v = x[k]
            x[k] = (eight(v, a, b) + eight(v + a, a, b)) + (eight(v + b, a, b) + eight(v - a, a, b))
    return x[0]


def peak(pool: RowPool) -> float:
    """GFLOP/s."""
    took = seconds(lambda: pool.run_chunks(multiply_adds, [(0, TURNS)] * CHUNKS, ONE / 2, ONE / 4))
    return CHUNKS * TURNS * LENGTH * FLOPS / took / 1e9


def stream_rate(pool: RowPool, size: int) -> float:
    """GB/s."""
    table, out, step = np.ones(size, dtype=np.float32), np.empty(1, dtype=np.float32), MEMORY // CHUNKS
    chunks = [(at, at + step) for at in range(0, MEMORY, step)]
    return 4 * MEMORY / seconds(lambda: pool.run_chunks(stream, chunks, table, out)) / 1e9


def bare_seconds(pool: RowPool, lists: Adjacency, table: Factors) -> float:
    out = np.empty(len(lists), dtype=np.float32)
    if isinstance(table, np.ndarray):
        return seconds(lambda: pool.run(gather, lists, table, lists.indptr, lists.indices, out))
    row, ends = np.ones(table.shape[1], dtype=np.float32), table.indptr.astype(np.int64)
    csr = ends, table.indices.view(np.uint32), table.data
    return seconds(lambda: pool.run(indexed_dots, lists, row, *csr, lists.indptr, lists.indices, out))


def trials(before: NDArray[np.float32], after: NDArray[np.float32], beta: float) -> NDArray[np.float64]:
    """How many steps each row tried. One taken at once grows, others were made smaller; 1 is left where none was."""
    at_once = after == np.minimum(before / np.float32(beta), MAX_STEP)
    smaller = 1 + np.log(before / after) / np.log(1 / beta)
    return np.where(at_once, 1.0, np.where(after == 1, 0.0, smaller))


def sweep(
    pool: RowPool, title: str, data: Interactions, config: FitConfig, sparse: float
) -> tuple[dict[str, Any], State]:
    """The same sweep some times over, in turn with what bounds it."""
    lists = data.by_item, data.by_user
    data.pairs_by_item  # noqa: B018  built once, outside of the clock
    took, bare, flop_rates = np.empty(RUNS), np.empty((RUNS, 2)), np.empty(RUNS)
    with closing(CpuBackend(data, config, sparse=sparse)) as backend:
        backend.start(initial_state(data, config))
        for _ in range(WARM_UP):
            backend.sweep()
        begin = deepcopy(backend.state())
        for run in (0, *range(RUNS)):  # the first compiles
            backend.start(deepcopy(begin))
            backend.sweep()  # the first after a start also finds the affinities of sparse memberships
            state = backend.state()
            users, before = state.user_factors, (state.item_steps.copy(), state.user_steps.copy())
            took[run] = seconds(backend.sweep)
            tables, after = (users, state.item_factors), (state.item_steps, state.user_steps)  # by half-sweep
            bare[run] = [bare_seconds(pool, *half) for half in zip(lists, tables, strict=True)]
            flop_rates[run] = peak(pool)

    print(f"{title}: {data}, K={config.n_coclusters}; peak {flop_rates.max():.0f} GFLOP/s")
    totals, by_turn, halves = np.zeros(3), np.zeros(RUNS), {}
    for h, side in enumerate(("users", "items")):
        table, tried = tables[h], trials(before[h], after[h], config.beta)
        if isinstance(table, np.ndarray):
            sizes, unit, dots, passes = np.full(len(table), table.shape[1]), 4, 1 + tried, 1 + tried
        else:  # affinities are kept from before, and found again where no step is taken
            sizes, unit, dots = np.diff(table.indptr), 8, np.maximum(tried, 1)
            passes = 1 + dots
        ends = np.concatenate([[0], np.cumsum(sizes[lists[h].indices], dtype=np.int64)])[lists[h].indptr]
        factors = np.diff(ends).astype(np.float64)  # in the lists of each row
        n_bytes, flops = unit * (factors @ passes), factors @ (5 + 2 * dots)
        rates = TWICE * unit * factors.sum() / bare[:, h] / 1e9
        rate, reading, calculating = rates.max(), n_bytes / rates / 1e9, flops / flop_rates / 1e9
        totals += max(reading.min(), calculating.min()), n_bytes, flops
        by_turn += np.maximum(reading, calculating)
        halves[side] = {"megabytes": unit * sizes.sum() / 1e6, "bare": rate, "trials": tried @ factors / factors.sum()}
        print(f"  from the {side}: {halves[side]['megabytes']:.1f} MB, bare {rate:.1f} GB/s = {rate / unit:.2f} G "
              f"factors/s, {halves[side]['trials']:.2f} trials; at least {reading.min() * 1e3:.1f} ms to read, "
              f"{calculating.min() * 1e3:.1f} ms to calculate")  # fmt: skip
    result = {"data": str(data), "K": config.n_coclusters, "peak": flop_rates.max()} | halves
    result |= report(took.min(), *totals) | {"median share": np.median(by_turn / took)}
    print(f"  median of the shares by turn {result['median share']:.2f}", flush=True)
    return result, state


def top(pool: RowPool, data: Interactions, state: State, bare: float) -> dict[str, Any]:
    """
    The 50 best items of all users. Members of a user's co-clusters cost at least what entries of an indexed dot product
    do; the score of every item is filled in and read again, 12 bytes from a cache.
    """
    users, items = state.user_factors, state.item_factors
    scorer = Scorer(items, np.zeros(data.n_items, dtype=np.float32), data.by_item.degrees, pool.n_threads)
    took, cache = np.inf, 0.0
    for _ in range(RUNS):
        took = min(took, seconds(lambda: scorer.top(users, data.by_user, 50)))
        cache = max(cache, stream_rate(pool, CACHE))
    members = float(np.bincount(items.indices, minlength=items.shape[1])[users.indices].sum())
    n_bytes = 8 * members + 12 * float(np.prod(data.shape))
    adding, scanning = 8 * members / bare / 1e9, n_bytes / cache / 1e9
    print(f"top 50 of every user: {members / data.n_users:,.0f} members each\n"
          f"  at least {adding * 1e3:.1f} ms to add them up, {scanning * 1e3:.1f} ms to read and write")  # fmt: skip
    return report(took, max(adding, scanning), n_bytes, 2 * members)


def report(took: float, least: float, n_bytes: float, flops: float) -> dict[str, float]:
    print(f"  took {took * 1e3:.1f} ms: {n_bytes / took / 1e9:.1f} GB/s, {flops / took / 1e9:.1f} GFLOP/s; limit "
          f"{least * 1e3:.1f} ms, share reached {least / took:.2f}", flush=True)  # fmt: skip
    return {"seconds": took, "limit": least, "share": least / took, "bytes": n_bytes, "flops": flops}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    quick = arguments.parse_args().quick
    part = 10 if quick else 1
    with RowPool(FitConfig().threads) as pool:
        sizes = {"memory": MEMORY, "cache": CACHE}
        machine = {name: max(stream_rate(pool, size) for _ in range(RUNS)) for name, size in sizes.items()}
        print(f"{pool.n_threads} threads, one number after the other: {machine['memory']:.1f} GB/s from memory, "
              f"{machine['cache']:.1f} from a cache", flush=True)  # fmt: skip
        near, far = skewed(6040, 3700, 800_000 // part), skewed(240_000 // part, 9_000, 8_000_000 // part)
        dense = [
            sweep(pool, "dense, small tables", near, FitConfig(100, init="random", seed=0), 0.0)[0],
            sweep(pool, "dense, large tables", far, FitConfig(200, init="random", seed=0), 0.0)[0],
        ]
        many = planted(5551, 16_980, 1500 // part, users_per=12, items_per=16, density=0.5).interactions
        sparse, state = sweep(pool, "sparse", many, FitConfig(4000 // part, 150.0, init="seeds", seed=0), np.inf)
        best = top(pool, many, state, sparse["items"]["bare"])
    if not quick:
        save("roofline", {"stream": machine, "dense": dense, "sparse": sparse, "top": best})


if __name__ == "__main__":
    main()
