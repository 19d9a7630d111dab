"""
How near the kernels come to what this machine can do at all, for a sweep and for the top 50.

A half-sweep reads the rows of its neighbours once for the dot products (and again, from the first cache, for the
slopes: not counted) and once for each step that is tried; trials are counted, from the step sizes. That is 4 bytes and
2 (dot), 5 (slopes) or 2 (trial) flops a factor; exp, log and what is done once a row are not counted. The least time
it could take is the longer of bytes / gather rate and flops / peak rate. The gather rate is that of a kernel that only
adds up the same rows of the same table, each list twice, as a step with one trial does; the peak is one of multiply-adds
in registers. The limit of the sparse kernels is the rate of bare indexed dot products over the same rows. All rates are
measured in turn with the sweeps, in as many threads, and the fastest of each counts.

python benchmarks/roofline.py            about two minutes
python benchmarks/roofline.py --quick    a tenth of it
"""

from __future__ import annotations

from contextlib import closing
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from common import parser, save, seconds
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.data.synthetic import skewed
from ocular.scoring import Scorer
from ocular.solver.config import Factors, FitConfig, State
from ocular.solver.cpu import CpuBackend
from ocular.solver.initial import initial_state
from ocular.solver.kernels import MAX_STEP, ONE, ZERO
from ocular.solver.pool import RowPool
from ocular.solver.sparse_kernels import affinity

RUNS, WARM_UP = 8, 3
TWICE = 2
MEMORY, CACHE = 1 << 27, 1 << 16  # float32: far more than the caches hold, and no more than a core's second one
LENGTH, TURNS, FLOPS = 512, 4000, 64  # of multiply_adds: an array, how often, and flops for each of its numbers
CHUNKS = 32
Measured: TypeAlias = tuple[dict[str, Any], Interactions, State]

compiled = njit(nogil=True, fastmath=True, error_model="numpy")


@compiled
def stream(table, turns, out, first, last):
    """The sum of table[first:last], some times over."""
    part, total = table[first:last], ZERO
    for _ in range(turns):
        for k in range(len(part)):
            total += part[k]
    out[0] = total


@compiled
def gather(table, indptr, indices, out, first_row, last_row):
    """Reads the rows of all neighbours, four at a time as the solver does, and adds them up."""
    for r in range(first_row, last_row):
        neighbours = indices[indptr[r] : indptr[r + 1]]
        quads = len(neighbours) - len(neighbours) % 4
        for _ in range(TWICE):
            for j in range(0, quads, 4):
                g0, g1 = table[neighbours[j]], table[neighbours[j + 1]]
                g2, g3 = table[neighbours[j + 2]], table[neighbours[j + 3]]
                total = ZERO  # one for each four: none waits for those before
                for k in range(table.shape[1]):
                    total += (g0[k] + g1[k]) + (g2[k] + g3[k])
                out[r] = total
            for j in range(quads, len(neighbours)):
                g0, total = table[neighbours[j]], ZERO
                for k in range(table.shape[1]):
                    total += g0[k]
                out[r] = total


@compiled
def indexed_dots(row, ends, columns, strengths, indptr, indices, out, first_row, last_row):
    """Σ row[columns] · strengths for the sparse row of every neighbour."""
    for r in range(first_row, last_row):
        for _ in range(TWICE):
            for j in indices[indptr[r] : indptr[r + 1]]:
                out[r] = affinity(row, columns[ends[j] : ends[j + 1]], strengths[ends[j] : ends[j + 1]])


@njit(nogil=True, fastmath={"contract"}, forceinline=True)
def eight(v, a, b):
    v = (((v * a + b) * a + b) * a + b) * a + b
    return (((v * a + b) * a + b) * a + b) * a + b


@njit(nogil=True, fastmath={"contract"})  # not reordered, or the compiler would take several steps at once
def multiply_adds(a, b, first, last):
    """Eight multiply-adds on each of four numbers that do not wait for each other, in whole vectors of them."""
    x = np.ones(LENGTH, np.float32)
    for _ in range(first, last):
        for k in range(LENGTH):
            v = x[k]
            x[k] = (eight(v, a, b) + eight(v + a, a, b)) + (eight(v + b, a, b) + eight(v - a, a, b))
    return x[0]


def peak(pool: RowPool) -> float:
    """Flops a second."""
    took = seconds(lambda: pool.run_chunks(multiply_adds, [(0, TURNS)] * CHUNKS, ONE / 2, ONE / 4))
    return CHUNKS * TURNS * LENGTH * FLOPS / took


def stream_rate(pool: RowPool, size: int) -> float:
    """Bytes a second. An array that fits the cache is read by every thread, as often as the large one is long."""
    table, out = np.ones(size, dtype=np.float32), np.empty(1, dtype=np.float32)
    step, turns = (size // CHUNKS, 1) if size == MEMORY else (size, MEMORY // size // CHUNKS)
    chunks = [(at % size, at % size + step) for at in range(0, CHUNKS * step, step)]
    return 4 * MEMORY / seconds(lambda: pool.run_chunks(stream, chunks, table, turns, out))


def bare_seconds(pool: RowPool, lists: Adjacency, table: Factors) -> float:
    """To read the rows of all neighbours twice and do next to nothing with them."""
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


def sweep(pool: RowPool, title: str, shape: tuple[int, int, int], config: FitConfig, limit: float) -> Measured:
    """The same sweep some times over, in turn with the bare kernels; limit: of CpuBackend, 0 is dense."""
    data = skewed(*shape)
    lists = data.by_item, data.by_user
    data.pairs_by_item  # noqa: B018  built once, outside of the clock
    took, bare, flop_rate = np.inf, np.full(2, np.inf), 0.0
    with closing(CpuBackend(data, config, sparse=limit)) as backend:
        backend.start(initial_state(data, config))
        for _ in range(WARM_UP):
            backend.sweep()
        begin = deepcopy(backend.state())
        for _ in range(RUNS):
            backend.start(deepcopy(begin))
            backend.sweep()  # a new start finds the affinities of sparse memberships first
            state = backend.state()
            users, before = state.user_factors, (state.item_steps.copy(), state.user_steps.copy())
            took = min(took, seconds(backend.sweep))
            tables = users, state.item_factors  # what the two halves read
            bare = np.minimum(bare, [bare_seconds(pool, *side) for side in zip(lists, tables, strict=True)])
            flop_rate = max(flop_rate, peak(pool))
    after = state.item_steps, state.user_steps

    print(f"{title}: {shape[0]:,} × {shape[1]:,}, {shape[2]:,} positives, K={config.n_coclusters}")
    n_bytes, flops, least, rates = 0.0, 0.0, 0.0, []
    for h, side in enumerate(("users", "items")):
        table, tried = tables[h], trials(before[h], after[h], config.beta)
        if isinstance(table, np.ndarray):
            sizes, each, dots = np.full(len(table), table.shape[1]), 4, 1 + tried
            passes, held = dots, table.nbytes
        else:  # the affinities are kept from before, and found again where no step was taken
            sizes, each, dots = np.diff(table.indptr), 8, np.maximum(tried, 1)
            passes, held = 1 + dots, 8 * table.nnz
        ends = np.concatenate([[0], np.cumsum(sizes[lists[h].indices], dtype=np.int64)])[lists[h].indptr]
        read = np.diff(ends).astype(float)  # factors in the lists of each row
        rate = TWICE * each * read.sum() / bare[h]
        half_bytes, half_flops = each * float(read @ passes), float(read @ (5 + 2 * dots))
        n_bytes, flops = n_bytes + half_bytes, flops + half_flops
        least += max(half_bytes / rate, half_flops / flop_rate)
        rates.append(rate / 1e9)
        print(f"  from the {side}, {held / 1e6:.1f} MB: {rate / 1e9:.1f} GB/s bare, {tried @ read / read.sum():.2f} trials, "
              f"at least {half_bytes / rate * 1e3:.1f} ms to read, {half_flops / flop_rate * 1e3:.1f} ms to calculate "
              f"at {flop_rate / 1e9:.0f} GFLOP/s")  # fmt: skip
    found = {"shape": shape, "K": config.n_coclusters, "bare": rates, "peak": flop_rate / 1e9}
    return found | report(took, least, n_bytes, flops), data, state


def top(pool: RowPool, data: Interactions, state: State, bare: float, cache: float) -> dict[str, Any]:
    """
    The 50 best items of every user. The members of the user's co-clusters cost at least what as many entries of an
    indexed dot product do (bare, GB/s); every item's score is begun, written and read again, 13 bytes from a cache.
    """
    users, items = state.user_factors, state.item_factors
    scorer = Scorer(items, np.zeros(data.n_items, dtype=np.float32), data.by_item.degrees, pool.n_threads)
    scorer.top(users, data.by_user, 50)  # compiles
    took = min(seconds(lambda: scorer.top(users, data.by_user, 50)) for _ in range(RUNS))
    members = float(np.bincount(items.indices, minlength=items.shape[1])[users.indices].sum())
    indexed, scanned = 8 * members, 13 * float(np.prod(data.shape))
    print(f"top 50 of {data.n_users:,} users: {members / data.n_users:,.0f} members each, at least "
          f"{indexed / bare / 1e6:.1f} ms to add up, {(indexed + scanned) / cache / 1e6:.1f} ms to read and write")  # fmt: skip
    least = max(indexed / bare, (indexed + scanned) / cache) / 1e9
    return report(took, least, indexed + scanned, 2 * members)


def report(took: float, least: float, n_bytes: float, flops: float) -> dict[str, Any]:
    print(f"  {took * 1e3:.1f} ms: {n_bytes / took / 1e9:.1f} GB/s, {flops / took / 1e9:.1f} GFLOP/s; "
          f"the limit is {least * 1e3:.1f} ms, {least / took:.0%} of it reached", flush=True)  # fmt: skip
    return {"seconds": took, "bytes": n_bytes, "flops": flops, "limit": least, "share": least / took}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    quick = arguments.parse_args().quick
    part = 10 if quick else 1
    with RowPool(FitConfig().threads) as pool:
        memory, cache = (max(stream_rate(pool, size) for _ in range(RUNS)) / 1e9 for size in (MEMORY, CACHE))
        arithmetic = max(peak(pool) for _ in range(RUNS)) / 1e9
        print(f"{pool.n_threads} threads: {memory:.1f} GB/s from memory and {cache:.1f} from the second cache, "
              f"one after the other; {arithmetic:.0f} GFLOP/s", flush=True)  # fmt: skip
        small, large = (6040, 3700, 800_000 // part), (240_000 // part, 9_000, 8_000_000 // part)
        near, *_ = sweep(pool, "dense, near", small, FitConfig(100, 30.0, init="random", seed=0), 0.0)
        far, *_ = sweep(pool, "dense, far", large, FitConfig(200, 30.0, init="random", seed=0), 0.0)
        many = FitConfig(4000 // part, 150.0, init="seeds", seed=0)
        thin, data, state = sweep(pool, "sparse", (5551, 16_980, 150_000), many, np.inf)
        best = top(pool, data, state, max(thin["bare"]), cache)
    results = {"memory": memory, "cache": cache, "peak": arithmetic}
    if not quick:
        save("roofline", results | {"dense, near": near, "dense, far": far, "sparse": thin, "top 50": best})


if __name__ == "__main__":
    main()
