"""
A GPU against the CPU beside it, on the same data from the same start: the objective against time, as in the paper's
figure, the memory, and a small search. Without a GPU its kernels run on Warp's CPU device, which says nothing about GPU
speed. What can be known without one is printed too: what the compiled kernels take of a multiprocessor, and how long
some cards would need to move the bytes of a sweep.

python benchmarks/gpu.py               made-up data of the size of MovieLens-1M; with --data DIR or OCULAR_DATA that one
python benchmarks/gpu.py --quick       a tenth of made-up data; nothing is written
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import warp as wp
from common import add_data_option, movielens_1m, parser, save, seconds
from cubins import compile_kernels
from roofline import trials

from ocular.data.interactions import Interactions
from ocular.evaluation.search import Grid, search
from ocular.solver.config import FitConfig
from ocular.solver.devices import estimate_bytes, find_device, open_backend, tile_width
from ocular.solver.gpu import free_bytes
from ocular.solver.gpu_kernels import block_threads
from ocular.solver.start.initial import initial_state
from ocular.synthetic import skewed

SWEEPS, NEAR = 30, (0.1, 0.01, 0.001)  # of the best objective, relative
GRID, M = Grid((25, 50), (10.0, 30.0)), 50
SIZES, ARCHITECTURES = (32, 100, 200, 256), [80, 90]
NETFLIX = {"n_users": 480_189, "n_items": 17_770, "nnz": 100_480_507, "n_coclusters": 200}
REGISTERS, BLOCKS = 65_536, 32  # of a multiprocessor of these architectures
CARDS = {"T4": 320, "A10": 600, "RTX 4090": 1008, "A100 40 GB": 1555, "H100 SXM": 3350}  # GB/s in NVIDIA's data sheets
NO_GPU = "no CUDA device: measured on Warp's CPU device, which says nothing about GPU speed"


def curve(device: str, data: Interactions, config: FitConfig) -> list[tuple[float, float]]:
    """(seconds, objective) after the start, which is copied to the device, and after each sweep."""
    state = initial_state(data, config)
    with closing(open_backend(device, data, config)) as backend:
        backend.start(state)
        backend.sweep()  # compiles
    state = initial_state(data, config)
    begun = time.perf_counter()
    with closing(open_backend(device, data, config)) as backend:
        backend.start(state)
        return [(time.perf_counter() - begun, objective) for objective in (backend.sweep() for _ in range(SWEEPS))]


def compare_curves(data: Interactions, config: FitConfig, device: str) -> dict[str, Any]:
    curves = {name: curve(name, data, config) for name in ("cpu", device)}
    best = min(objective for points in curves.values() for _, objective in points)
    print(f"objective against time, {data}, K={config.n_coclusters}, from the same start")
    reached = {}
    for near in NEAR:
        first = {
            name: next((at for at, objective in points if objective <= best * (1 + near)), float("nan"))
            for name, points in curves.items()
        }
        reached[f"{near:g}"] = first
        print(f"  within {near:.1%} of the best: cpu {first['cpu']:.2f} s, {device} {first[device]:.2f} s, "
              f"ratio {first['cpu'] / first[device]:.2f}")  # fmt: skip
    return {"curves": curves, "reached": reached}


def compare_memory(data: Interactions, config: FitConfig, device: str) -> dict[str, Any]:
    expected, before = estimate_bytes(*data.shape, data.nnz, config.n_coclusters), free_bytes(device)
    with closing(open_backend(device, data, config)) as backend:
        backend.start(initial_state(data, config))
        taken = before - free_bytes(device)
    told = f"{taken / 1e6:.1f} MB taken" if np.isfinite(taken) else "what was taken is known on a GPU only"
    netflix = estimate_bytes(**NETFLIX)
    print(f"memory: {expected / 1e6:.1f} MB estimated, {told}; Netflix, K=200: {netflix / 1e9:.2f} GB estimated "
          f"(asked for: ≤ 2.7)")  # fmt: skip
    return {"estimated": expected, "taken": taken if np.isfinite(taken) else None, "netflix": netflix}


def compare_searches(data: Interactions, device: str) -> dict[str, Any]:
    result, best = {}, {}
    for name in ("cpu", device):
        found = []
        result[name] = seconds(lambda name=name, to=found: to.append(search(data, GRID, M=M, folds=1, devices=[name])))
        best[name] = found[0].best.mean
    print(f"search, {len(GRID.points())} points: cpu {result['cpu']:.1f} s, {device} {result[device]:.1f} s, ratio "
          f"{result['cpu'] / result[device]:.2f}; best recall@{M} {best['cpu']:.4f}, {best[device]:.4f}")  # fmt: skip
    return {"seconds": result, "best": best}


def mean_trials(data: Interactions, config: FitConfig) -> float:
    """Steps that the line search tries for a positive, over both halves of all sweeps."""
    tried, sides = 0.0, (("user_steps", data.by_user), ("item_steps", data.by_item))
    with closing(open_backend("cpu", data, config)) as backend:
        backend.start(initial_state(data, config))
        for _ in range(SWEEPS):
            before = {name: getattr(backend.state(), name).copy() for name, _ in sides}
            backend.sweep()
            for name, positives in sides:
                tried += float(trials(before[name], getattr(backend.state(), name), config.beta) @ positives.degrees)
    return tried / (2 * SWEEPS * data.nnz)


def sweep_bytes(n_users: int, n_items: int, nnz: int, n_coclusters: int, tried: float) -> float:
    """
    What a sweep moves where no cache helps: for each positive in both halves the row, index and weight of the
    neighbour, once for the slopes and once for each step that is tried; each row read, written, and read for its sum.
    """
    row = 4 * tile_width(n_coclusters)
    return 2 * nnz * (1 + tried) * (row + 8) + 3 * row * (n_users + n_items)


def estimate_cards(tried: float) -> dict[str, Any]:
    moved = sweep_bytes(**NETFLIX, tried=tried)
    times = {card: moved / bandwidth / 1e9 for card, bandwidth in CARDS.items()}
    print(f"estimate, not measured: a sweep of Netflix, K=200, {tried:.2f} steps tried, moves {moved / 1e9:.0f} GB\n\n"
          "| card | GB/s | time to move them |\n| --- | --- | --- |")  # fmt: skip
    for card, bandwidth in CARDS.items():
        print(f"| {card} | {bandwidth} | {times[card]:.2f} s |")
    print()
    return {"trials": tried, "bytes": moved, "seconds": times}


def list_kernels(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    print("the row update: registers of a thread, shared bytes of a block, stack bytes (none: no spills), and the rows "
          "that are in flight on a multiprocessor\n\n"
          "| K | " + " | ".join(f"sm_{sm}" for sm in ARCHITECTURES) + " |\n| --- | --- | --- |")  # fmt: skip
    uses = []
    for K in sizes:
        with TemporaryDirectory() as folder:
            found = compile_kernels(K, ARCHITECTURES, Path(folder))
        uses += [{"K": K} | use._asdict() for use in found]
        cells = [
            f"{use.registers}, {use.shared}, {use.stack}; {rows_in_flight(use.registers, K)}"
            for use in found
            if use.kernel == "update_rows"
        ]
        print(f"| {K} | " + " | ".join(cells) + " |", flush=True)
    print()
    return uses


def rows_in_flight(registers: int, K: int) -> int:
    """As many blocks as the registers of a multiprocessor suffice for; a warp gets them in units of 256."""
    warps = block_threads(tile_width(K)) // 32
    return min(BLOCKS, REGISTERS // (-(-registers * 32 // 256) * 256) // warps)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    add_data_option(arguments, required=False)
    given = arguments.parse_args()
    device = find_device("auto")
    if device == "cpu":
        device = "warp-cpu"
        print(NO_GPU, flush=True)
    if given.quick:
        data, config = skewed(600, 370, 20_000), FitConfig(20, 3.0, init="overlap", seed=0)
    else:
        data = skewed(6040, 3700, 800_000) if given.data is None else movielens_1m(given.data)
        config = FitConfig(100, init="overlap", seed=0)
    results = {
        "device": device,
        "card": wp.get_device(device.removeprefix("warp-")).name,
        "note": NO_GPU if device == "warp-cpu" else None,
        "data": str(data),
        "K": config.n_coclusters,
        "fit": compare_curves(data, config, device),
        "memory": compare_memory(data, config, device),
        "search": compare_searches(data, device),
        "kernels": list_kernels(SIZES[:1] if given.quick else SIZES),
        "estimate": estimate_cards(mean_trials(data, config)),
    }
    if not given.quick:
        save("gpu", results)


if __name__ == "__main__":
    main()
