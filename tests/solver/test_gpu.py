"""
The GPU's kernels where no GPU is: on Warp's CPU device, in blocks of many threads, and compiled for two GPUs.

What every backend must do is in test_backends.py, what every ranking in tests/test_scoring.py; both run on Warp too.
"""

from __future__ import annotations

import copy
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run
from sklearn.metrics import consensus_score
from support import (
    distance,
    learned_bytes,
    parameters_of,
    public_set,
    random_matrix,
    reference_sweeps,
    start_python,
    true_objective,
)

import ocular
from ocular import Interactions, OCuLaR
from ocular.data.datasets import movielens
from ocular.data.splits import random_split
from ocular.errors import ConfigError, MissingExtraError
from ocular.evaluation.metrics import rank
from ocular.solver import devices
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import FitConfig
from ocular.solver.devices import estimate_bytes, find_device, open_backend
from ocular.solver.start.initial import initial_state
from ocular.synthetic import Planted, skewed

wp = pytest.importorskip("warp")

R = random_matrix(40, 30)
DATA = skewed(80, 50, 900, random_state=4)
NETFLIX = 480_189, 17_770, 100_480_507


def estimator(**changes: Any) -> OCuLaR:
    usual = {"n_coclusters": 6, "regularization": 2.0, "tol": 0.0, "max_iter": 12, "random_state": 7}
    return OCuLaR(**usual | {"device": "warp-cpu"} | changes)


# -------------------------------------------------------------------------------------------------------- the kernels


@pytest.fixture(params=[False, True], ids=["one-thread", "blocks"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is one thread on Warp's CPU device, or as many as on a GPU, which take turns."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", request.param)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("K", "changes"),
    [
        (1, {}),
        (31, {"relative": True}),
        (31, {"bias": True}),  # 31 + 2 columns
        (32, {"line_search": "paper"}),
        (33, {"relative": True, "bias": True, "line_search": "paper"}),
        (64, {"bias": True}),
        (257, {}),  # two warps a block
    ],
)
def test_sweeps_are_those_of_the_oracle_for_any_width(K: int, changes: dict[str, Any]) -> None:
    config = FitConfig(K, 0.5, init="overlap", seed=3, **changes)
    data = Interactions.from_matrix(R)
    start = initial_state(data, config)
    backend = open_backend("warp-cpu", data, config)
    backend.start(start)
    for reference in islice(reference_sweeps(R, start, config), 3):
        objective = backend.sweep()
        ours = parameters_of(backend.state(), config)
        for part in ("user_factors", "item_factors", "user_bias", "item_bias"):
            assert distance(getattr(ours, part), getattr(reference, part)) < 1e-4
        assert ours.bias == pytest.approx(reference.bias, rel=1e-4)
        assert objective == pytest.approx(true_objective(R, reference, config), rel=1e-4)
    backend.close()


def test_a_block_has_a_thread_for_every_eight_columns_and_whole_warps() -> None:
    from ocular.solver.gpu_kernels import block_threads

    assert [block_threads(width) for width in (32, 256, 288, 512, 1024, 8192, 16384)] == [
        32,
        32,
        64,
        64,
        128,
        1024,
        1024,
    ]


def test_the_longest_rows_are_started_first() -> None:
    backend: Any = open_backend("warp-cpu", DATA, FitConfig(3))
    for side, positives in ((backend._users, DATA.by_user), (backend._items, DATA.by_item)):
        assert (np.diff(positives.degrees[side.order.numpy()]) <= 0).all()
    backend.close()


@pytest.mark.parametrize("K", [32, 100, 200, 256])
def test_kernels_compile_for_gpus_without_spilling(K: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cubins import compile_kernels

    uses = compile_kernels(K, [80, 90], tmp_path)
    with capsys.disabled():
        for use in (use for use in uses if use.kernel in {"update_rows", "sum_inverse_probabilities"}):
            told = f"{use.registers} registers, {use.shared} bytes shared, {use.stack} spilled"
            print(f"\nK={K}, sm_{use.architecture}, {use.kernel}: {told}", end="")
    names = {"update_rows", "sum_inverse_probabilities", "sum_columns", "finish_sums"}
    names |= {"score_rows", "leave_out", "take_best"}
    assert {(use.kernel, use.architecture) for use in uses} == {(name, sm) for name in names for sm in (80, 90)}
    for use in uses:
        assert 16 <= use.registers <= 255
        assert use.stack == 0  # nothing is spilled where there is no stack
        assert use.shared <= 4096  # of 100 KB and more: registers decide how many blocks run at a time


def test_scores_are_rounded_on_a_gpu_as_on_the_cpu(tmp_path: Path) -> None:
    """A fused multiply-add has other last digits, and ties would no longer be ties."""
    from ocular.solver.gpu_kernels import score_rows

    (path,) = wp.compile_aot_module(score_rows.module, arch=[80], module_dir=tmp_path, use_ptx=True)
    code = path.read_bytes()
    assert b"mul.rn.f32" in code
    assert b"fma.rn.f32" not in code


def test_a_spill_would_be_seen(tmp_path: Path) -> None:
    """A kernel with an array that is too large for registers has a stack."""
    from cubins import read_cubin

    many = wp.types.vector(length=400, dtype=float)

    @wp.kernel(module="unique", enable_backward=False)
    def hoard(numbers: wp.array(dtype=float)):  # type: ignore[valid-type]
        kept = many()
        for k in range(400):
            kept[k] = numbers[k]
        for k in range(400):
            numbers[k] = kept[(k * int(numbers[0])) % 400]

    (path,) = wp.compile_aot_module(hoard.module, arch=[80], module_dir=tmp_path, use_ptx=False)
    ((_, _, _, stack),) = read_cubin(path.read_bytes())
    assert stack >= 1600


# ------------------------------------------------------------------------------------------------------------ fitting


def test_planted_coclusters_are_recovered(market: Planted) -> None:
    model = OCuLaR(4, 0.5, random_state=0, device="warp-cpu").fit(market.interactions)
    assert consensus_score(model.biclusters_, (market.rows, market.columns)) >= 0.95


@pytest.mark.parametrize("changes", [{}, {"bias": True}, {"relative": True, "regularization": 20.0}])
def test_a_fit_ends_where_that_of_the_cpu_does(changes: dict[str, Any]) -> None:
    changes = changes | {"max_iter": 200, "tol": 1e-6}
    gpu, cpu = (estimator(device=device, **changes).fit(DATA) for device in ("warp-cpu", "cpu"))
    assert gpu.objective_ == pytest.approx(cpu.objective_, rel=1e-3)
    found, expected = (model.recommend(np.arange(80), N=5)[0] for model in (gpu, cpu))
    assert (found[:, 0] == expected[:, 0]).mean() > 0.9


@pytest.mark.parametrize(
    "changes", [{}, {"bias": True}, {"line_search": "paper"}, {"init": "seeds", "n_coclusters": 60}]
)
def test_a_stopped_fit_goes_on_to_the_same_bytes(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "fit.npz"
    estimator(max_iter=5, **changes).fit(DATA, checkpoint=Checkpoint(path, every_sweeps=2))
    heard: list[int] = []
    resumed = estimator(**changes).fit(DATA, checkpoint=path, callback=lambda sweep, _: heard.append(sweep))
    assert heard == list(range(6, 13))
    assert learned_bytes(resumed) == learned_bytes(estimator(**changes).fit(DATA))


def test_a_fit_may_change_the_device_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    estimator(max_iter=5).fit(DATA, checkpoint=path)
    resumed = estimator(device="cpu").fit(DATA, checkpoint=path)
    assert resumed.n_iter_ == 12
    assert resumed.objective_ == pytest.approx(estimator().fit(DATA).objective_, rel=1e-4)


def test_a_saved_model_does_not_know_the_device(tmp_path: Path) -> None:
    model = estimator().fit(DATA)
    model.save(tmp_path / "model")
    assert "warp" not in (tmp_path / "model" / "manifest.json").read_text()
    loaded = ocular.load(tmp_path / "model")
    assert loaded.device == "cpu"
    np.testing.assert_array_equal(loaded.recommend([1, 2])[0], model.recommend([1, 2])[0])


def test_a_model_can_be_copied_after_it_was_used() -> None:
    model = estimator().fit(DATA)
    expected = model.recommend([0, 1])[0]
    np.testing.assert_array_equal(copy.deepcopy(model).recommend([0, 1])[0], expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("changes", [{}, {"bias": True}, {"relative": True, "regularization": 20.0}])
def test_fold_in_is_that_of_the_cpu(changes: dict[str, Any]) -> None:
    model = estimator(device="cpu", max_iter=60, **changes).fit(DATA)
    rows = (np.random.default_rng(1).random((30, 50)) < np.linspace(0.0, 0.6, 30)[:, None]).astype(int)
    expected = model.fold_in(rows).toarray()
    expected_bias = model.recommend(np.arange(30), user_items=rows, recalculate_user=True)[1]
    model.set_params(device="warp-cpu")
    folded = model.fold_in(rows).toarray()
    assert distance(folded, expected) < 1e-3
    assert not folded[0].any()
    again = model.fold_in(rows[5:6]).toarray()[0]
    np.testing.assert_array_equal(again, folded[5])  # whoever else is folded in
    probabilities = model.recommend(np.arange(30), user_items=rows, recalculate_user=True)[1]
    np.testing.assert_allclose(probabilities, expected_bias, rtol=1e-2, atol=1e-4)


@pytest.mark.data
def test_movielens_is_recommended_as_well_as_on_the_cpu() -> None:
    train, test = random_split(movielens(public_set("movielens-1m"), min_rating=3), seed=0)
    gpu, cpu = (
        rank(
            OCuLaR(50, 30.0, init="overlap", tol=0, max_iter=25, random_state=0, device=device).fit(train), train, test
        )
        for device in ("warp-cpu", "cpu")
    )
    assert cpu.recall > 0.39
    assert gpu.recall == pytest.approx(cpu.recall, abs=0.003)
    assert gpu.map == pytest.approx(cpu.map, abs=0.003)


# ------------------------------------------------------------------------------------------------------------- memory


def test_netflix_fits_as_the_paper_promises() -> None:
    assert estimate_bytes(*NETFLIX, 200) <= 2.7e9


@pytest.mark.parametrize(("K", "bias"), [(6, False), (31, True), (64, False)])
def test_the_estimate_is_what_is_allocated(K: int, bias: bool) -> None:
    data, config = skewed(3000, 50, 9000), FitConfig(K, bias=bias)
    backend: Any = open_backend("warp-cpu", data, config)
    backend.start(initial_state(data, FitConfig(K, bias=bias, init="random")))
    backend.sweep()
    arrays = [
        array
        for place in (backend._device, backend._users, backend._items)
        for array in vars(place).values()
        if isinstance(array, wp.array)
    ]
    assert sum(array.capacity for array in arrays) == estimate_bytes(*data.shape, data.nnz, K, bias=bias)
    backend.close()


@pytest.mark.parametrize("bias", [False, True])
def test_too_little_memory_is_refused_with_what_would_fit(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    available = estimate_bytes(*DATA.shape, DATA.nnz, 96) + 100
    monkeypatch.setattr("ocular.solver.gpu.free_bytes", lambda _: available)
    largest = 96 - 2 * bias
    with monkeypatch.context() as patch:
        patch.setattr("ocular.solver.gpu.Device", None)  # nothing may be allocated
        with pytest.raises(ConfigError) as caught:
            estimator(n_coclusters=200, bias=bias).fit(DATA)
    needed = estimate_bytes(*DATA.shape, DATA.nnz, 200, bias=bias)
    assert str(caught.value) == (
        f"expected a fit within the {available / 1e9:.2f} GB that are free on warp-cpu, got {needed / 1e9:.2f} GB for "
        f"200 co-clusters; use at most {largest} for n_coclusters, or the device cpu"
    )
    with pytest.raises(ConfigError, match=f"at most {largest} for"):
        estimator(n_coclusters=largest + 1, bias=bias).fit(DATA)
    assert estimator(n_coclusters=largest, bias=bias, max_iter=1).fit(DATA).n_iter_ == 1


def test_too_little_memory_for_a_ranking_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = estimator(max_iter=1).fit(DATA)
    monkeypatch.setattr("ocular.solver.gpu.free_bytes", lambda _: 2000)
    with pytest.raises(ConfigError, match=r"on warp-cpu, got 0\.00 GB .*; use the device cpu$"):
        model.recommend(np.arange(80))
    monkeypatch.setattr("ocular.solver.gpu.free_bytes", lambda _: 10_000)  # a few clients at a time
    np.testing.assert_array_equal(
        model.recommend(np.arange(80)), model.set_params(device="cpu").recommend(np.arange(80))
    )


def test_where_not_even_the_data_fit_the_cpu_is_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.solver.gpu.free_bytes", lambda _: 1000)
    with pytest.raises(ConfigError, match=r"for 6 co-clusters; use the device cpu$"):
        estimator().fit(DATA)


# -------------------------------------------------------------------------------------------------------- what is not


@pytest.fixture
def without_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "warp", None)
    for name in ("ocular.solver.gpu", "ocular.solver.gpu_kernels"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("without_warp")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "warp-cpu"])
def test_without_warp_the_extra_is_named(device: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        estimator(device=device).fit(DATA)
    assert str(caught.value) == (
        "a GPU needs NVIDIA Warp; install it with: pip install 'ocular-rec[gpu]', or use the device cpu"
    )


@pytest.mark.usefixtures("without_warp")
def test_without_warp_auto_is_the_cpu() -> None:
    assert find_device("auto") == "cpu"
    assert learned_bytes(estimator(device="auto").fit(DATA)) == learned_bytes(estimator(device="cpu").fit(DATA))


def test_importing_ocular_does_not_import_warp() -> None:
    process = start_python("import sys, ocular; ocular.OCuLaR; print('warp' in sys.modules)")
    out, err = process.communicate(timeout=120)
    assert out == "False\n", err


def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(devices.ctypes, "CDLL", fail)


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_without_cuda_the_remedy_is_named(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_driver(monkeypatch)
    with pytest.raises(ConfigError) as caught:
        estimator(device=device).fit(DATA)
    assert str(caught.value) == (
        f"expected device to be a CUDA device that nvidia-smi lists, got {device!r} where there are none; use cpu, or "
        "install the driver of the GPU"
    )
    assert find_device("auto") == "cpu"


def test_devices_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setattr(devices, "_count_gpus", lambda: 2)
    assert [find_device(name) for name in ("auto", "cuda", "cuda:1")] == ["cuda:0", "cuda:0", "cuda:1"]
    with pytest.raises(ConfigError, match="got 'cuda:2' where there are 2;"):
        find_device("cuda:2")


# --------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    rows = zip(DATA.pair_users, DATA.by_user.indices, strict=True)
    path.write_text("client,product\n" + "".join(f"{client},{product}\n" for client, product in rows))
    return path


COLUMNS = ("--client", "client", "--product", "product")


def test_a_fit_from_the_command_line(sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = (*COLUMNS, "--coclusters", 6, "--regularization", 2, "--no-calibration", "-o", tmp_path / "model")
    done = run("fit", sales, *options, "--device", "warp-cpu")
    assert done.returncode == 0, done.stderr
    assert ocular.load(tmp_path / "model").converged_  # after the sweeps of its start, in two of its own
    no_driver(monkeypatch)
    refused = run("fit", sales, *options, "--device", "cuda")
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "got 'cuda' where there are none; use cpu" in refused.stderr


def test_a_search_with_a_point_on_each_device(sales: Path) -> None:
    options = (*COLUMNS, "--coclusters", "2,4", "--regularization", "1,10", "--folds", 2, "--at", 5, "--format", "json")
    tables = {}
    for devices_ in ("warp-cpu,warp-cpu", "warp-cpu", None):
        done = run("search", sales, *options, *(("--devices", devices_) if devices_ else ()))
        assert done.returncode == 0, done.stderr
        tables[devices_] = [row["recall@5"] for row in json.loads(done.stdout)["rows"]]
    assert tables["warp-cpu,warp-cpu"] == tables["warp-cpu"]
    assert tables["warp-cpu"] == pytest.approx(tables[None], abs=0.02)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--devices", "cuda:0,abacus"), "expected device to be one of cpu, cuda, cuda:N, auto, got 'abacus'"),
        (("--devices", "warp-cpu", "--jobs", 2), "expected either jobs or a list of devices, got 2 jobs and 1 devices"),
    ],
)
def test_devices_that_make_no_sense_are_refused(
    sales: Path, given: tuple[object, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_count_gpus", lambda: 1)
    refused = run("search", sales, *COLUMNS, *given)
    assert refused.returncode == 2
    assert message in refused.stderr
