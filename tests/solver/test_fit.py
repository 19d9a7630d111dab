"""The fit loop: when it stops, what it tells, and that a stopped or killed fit goes on to the same bytes."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support import learned_bytes, start_python, wait_for

from ocular import OCuLaR
from ocular.errors import ArtifactError, FitError, OcularError
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import FitConfig, State
from ocular.solver.fit import run_fit
from ocular.solver.start.initial import initial_state
from ocular.synthetic import skewed

DATA = skewed(80, 50, 900, random_state=4)
VARIANTS: dict[str, dict[str, Any]] = {
    "ocular": {},
    "relative": {"relative": True, "regularization": 20.0},
    "bias": {"bias": True},
    "paper": {"line_search": "paper"},
    "random-start": {"init": "random"},
    "sparse": {"init": "seeds", "n_coclusters": 600},
}


def estimator(**changes: Any) -> OCuLaR:
    """Without a tolerance, so that only max_iter ends the fit and nothing warns."""
    usual = {"n_coclusters": 6, "regularization": 2.0, "tol": 0.0, "max_iter": 12, "random_state": 7}
    return OCuLaR(**usual | changes)


def every_sweep(path: Path) -> Checkpoint:
    return Checkpoint(path, every_sweeps=1)


# ----------------------------------------------------------------------------------------------------------- stopping


def test_stops_when_the_relative_decrease_falls_below_tol() -> None:
    model = estimator(tol=1e-3, max_iter=500, init="overlap").fit(DATA)
    objectives = np.array(model.history_)
    falls = -np.diff(objectives) / objectives[:-1]
    assert model.converged_
    assert (falls[:-1] >= 1e-3).all()
    assert falls[-1] < 1e-3
    assert 2 < model.n_iter_ == len(objectives) < 500


def test_max_iter_ends_a_fit_and_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match="not converged after 3 sweeps; increase max_iter or tol"):
        model = estimator(tol=1e-9, max_iter=3).fit(DATA)
    assert model.n_iter_ == 3
    assert not model.converged_


def test_without_tol_max_iter_is_what_was_asked_for() -> None:
    assert estimator(max_iter=3).fit(DATA).n_iter_ == 3  # a warning would be an error here


def test_a_fit_that_can_not_improve_ends() -> None:
    model = estimator(max_iter=5000).fit(DATA)
    assert model.converged_
    assert model.n_iter_ < 5000


def test_the_callback_hears_of_every_sweep() -> None:
    heard: list[tuple[int, float]] = []
    model = estimator().fit(DATA, callback=lambda sweep, objective: heard.append((sweep, objective)))
    assert heard == list(zip(range(1, 13), model.history_, strict=True))


def test_an_error_in_the_callback_comes_through_and_leaves_ctrl_c_alone() -> None:
    before = signal.getsignal(signal.SIGINT)

    def fail(sweep: int, objective: float) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        estimator().fit(DATA, callback=fail)
    assert signal.getsignal(signal.SIGINT) is before


def test_verbose_shows_the_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    estimator(verbose=True).fit(DATA)
    shown = capsys.readouterr()
    assert "12/12" in shown.err
    assert "objective" in shown.err
    estimator().fit(DATA)
    silent = capsys.readouterr()
    assert silent.err == silent.out == ""


def test_fits_in_a_thread_other_than_the_main_one() -> None:
    models: list[OCuLaR] = []
    thread = threading.Thread(target=lambda: models.append(estimator().fit(DATA)))
    thread.start()
    thread.join()
    assert learned_bytes(models[0]) == learned_bytes(estimator().fit(DATA))


# -------------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stop", [1, 5])
def test_a_stopped_fit_goes_on_to_the_same_bytes(tmp_path: Path, variant: str, stop: int) -> None:
    path = tmp_path / "fit.npz"
    changes = VARIANTS[variant]
    estimator(max_iter=stop, **changes).fit(DATA, checkpoint=path)
    heard: list[int] = []
    resumed = estimator(**changes).fit(DATA, checkpoint=path, callback=lambda sweep, _: heard.append(sweep))
    assert heard == list(range(stop + 1, 13))  # it did go on, not start anew
    assert learned_bytes(resumed) == learned_bytes(estimator(**changes).fit(DATA))
    assert resumed.n_iter_ == 12


def test_sparse_memberships_are_kept_sparse(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    estimator(max_iter=1, **VARIANTS["sparse"]).fit(DATA, checkpoint=path)
    with np.load(path) as arrays:
        assert {"user_factors.indptr", "item_factors.data"} <= set(arrays.files)
        assert "user_factors" not in arrays.files


def test_a_checkpoint_does_not_change_the_result(tmp_path: Path) -> None:
    kept = estimator().fit(DATA, checkpoint=every_sweep(tmp_path / "fit.npz"))
    assert learned_bytes(kept) == learned_bytes(estimator().fit(DATA))
    assert [file.name for file in tmp_path.iterdir()] == ["fit.npz"]


def test_threads_tolerance_and_sweeps_may_change_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    estimator(max_iter=4, n_threads=1).fit(DATA, checkpoint=path)
    resumed = estimator(n_threads=2, tol=1e-12, max_iter=12)
    with pytest.warns(ConvergenceWarning, match="not converged"):
        resumed.fit(DATA, checkpoint=path)
    assert learned_bytes(resumed) == learned_bytes(estimator().fit(DATA))


def test_a_finished_checkpoint_returns_at_once(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    first = estimator(tol=1e-3, max_iter=500).fit(DATA, checkpoint=path)
    heard: list[int] = []
    again = estimator(tol=1e-3, max_iter=500).fit(DATA, checkpoint=path, callback=lambda sweep, _: heard.append(sweep))
    assert heard == []
    assert again.converged_
    assert learned_bytes(again) == learned_bytes(first)


@pytest.mark.parametrize(
    ("checkpoint", "sweeps"),
    [
        (lambda path: Checkpoint(path, every_sweeps=5, every_seconds=None), [5, 10]),
        (lambda path: Checkpoint(path, every_sweeps=None, every_seconds=0.0), list(range(1, 12))),
        (lambda path: path, []),  # every minute
        (str, []),
    ],
    ids=["sweeps", "seconds", "path", "text"],
)
def test_a_checkpoint_is_written_when_it_is_due(
    tmp_path: Path, checkpoint: Callable[[Path], Any], sweeps: list[int]
) -> None:
    path, seen = tmp_path / "fit.npz", []

    def look(sweep: int, _: float) -> None:  # called before the sweep is saved
        if path.exists():
            with np.load(path) as file:
                seen.append(len(file["objectives"]))

    estimator().fit(DATA, checkpoint=checkpoint(path), callback=look)
    assert sorted(set(seen)) == sweeps
    with np.load(path) as file:
        assert len(file["objectives"]) == 12


def test_numpy_numbers_as_parameters_can_be_kept(tmp_path: Path) -> None:
    """A grid of np.arange and np.logspace gives such numbers."""
    path = tmp_path / "fit.npz"
    changes = {"n_coclusters": np.int64(6), "regularization": np.float32(2.0), "random_state": np.int64(7)}
    estimator(max_iter=5, **changes).fit(DATA, checkpoint=path)
    assert learned_bytes(estimator(**changes).fit(DATA, checkpoint=path)) == learned_bytes(estimator().fit(DATA))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The checkpoint of a fit of five sweeps."""
    path = tmp_path / "fit.npz"
    estimator(max_iter=5).fit(DATA, checkpoint=path)
    return path


def refused(path: Path, data: Any = DATA, **changes: Any) -> str:
    """The message of the one refusal, which names the file and leaves it and the model as they were."""
    before = path.read_bytes() if path.is_file() else None
    model = estimator(**changes)
    with pytest.raises(ArtifactError) as caught:
        model.fit(data, checkpoint=path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert not hasattr(model, "user_factors_")
    assert before is None or path.read_bytes() == before
    return message


def test_a_checkpoint_of_other_data_is_refused(kept: Path) -> None:
    other = skewed(80, 50, 900, random_state=5)
    assert "belongs to other purchases; delete it or choose another file" in refused(kept, other)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n_coclusters": 5}, "n_coclusters=6"),
        ({"regularization": 3.0}, "regularization=2.0"),
        ({"relative": True}, "relative=False"),
        ({"bias": True}, "bias=False"),
        ({"background": 1e-3}, "background=0.0001"),
        ({"beta": 0.4}, "beta=0.5"),
        ({"sigma": 0.2}, "sigma=0.1"),
        ({"line_search": "paper"}, "line_search='scaled'"),
        ({"init": "random"}, "init='auto'"),
        ({"random_state": 8}, "seed=7"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_checkpoint_of_other_parameters_is_refused(kept: Path, changes: dict[str, Any], named: str) -> None:
    assert f"belongs to a fit with {named}; delete it or choose another file" in refused(kept, **changes)


def test_a_checkpoint_of_another_given_start_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one, other = ((rng.random((80, 6)), rng.random((50, 6))) for _ in range(2))
    path = tmp_path / "fit.npz"
    estimator(init=one, max_iter=5).fit(DATA, checkpoint=path)
    refused(path, init=other)
    refused(path)  # and so is the same fit from a start of its own
    resumed = estimator(init=one).fit(DATA, checkpoint=path)
    assert learned_bytes(resumed) == learned_bytes(estimator(init=one).fit(DATA))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(kept: Path, share: float) -> None:
    content = kept.read_bytes()
    kept.write_bytes(content[: int(share * len(content))])
    assert "is not a readable checkpoint" in refused(kept)


def test_a_checkpoint_with_a_changed_byte_is_refused_or_the_same(kept: Path) -> None:
    """Some bytes of a zip file mean nothing; none may lead to other factors or to another kind of error."""
    content, truth = kept.read_bytes(), learned_bytes(estimator(max_iter=5).fit(DATA))
    rng = np.random.default_rng(0)
    refusals = []
    places = [*rng.integers(len(content), size=60), *(len(content) - 1 - rng.integers(600, size=60))]
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        kept.write_bytes(changed)
        try:
            assert learned_bytes(estimator(max_iter=5).fit(DATA, checkpoint=kept)) == truth
        except ArtifactError as error:
            refusals.append(str(error))
    assert len(refusals) > 30
    assert all(str(kept) in refusal for refusal in refusals)


@pytest.mark.parametrize("damage", ["twice", "beyond", "backwards", "shape", "type"])
def test_damaged_sparse_memberships_are_refused(tmp_path: Path, damage: str) -> None:
    """The kernels trust indices: a wrong one would write anywhere."""
    path = tmp_path / "fit.npz"
    estimator(max_iter=1, **VARIANTS["sparse"]).fit(DATA, checkpoint=path)
    with np.load(path) as arrays:
        columns, ends, strengths, shape = (arrays[f"user_factors.{n}"] for n in ("indices", "indptr", "data", "shape"))
    if damage == "twice":
        columns[1] = columns[0]
    if damage == "beyond":
        columns[0] = 10**6
    if damage == "backwards":
        ends[1] = ends[2] + 5
    if damage == "shape":
        shape = shape + 16
    if damage == "type":
        strengths = strengths.astype(np.float64)
    changed = {"indices": columns, "indptr": ends, "data": strengths, "shape": shape}
    rewrite(path, **{f"user_factors.{name}": array for name, array in changed.items()})
    assert "is not a readable checkpoint" in refused(path, **VARIANTS["sparse"])


def test_a_checkpoint_of_the_version_before_is_read(kept: Path) -> None:
    rewrite(kept, {"version": 1})
    assert learned_bytes(estimator().fit(DATA, checkpoint=kept)) == learned_bytes(estimator().fit(DATA))


def rewrite(path: Path, about: dict[str, Any] | None = None, **arrays: np.ndarray | None) -> None:
    """The checkpoint with other entries (None removes one) or other words about itself."""
    with np.load(path) as file:
        content = {name: file[name] for name in file.files} | arrays
    if about is not None:
        changed = json.loads(content["meta"].tobytes()) | about
        content["meta"] = np.frombuffer(json.dumps(changed).encode(), dtype=np.uint8)
    with path.open("wb") as out:
        np.savez(out, **{name: array for name, array in content.items() if array is not None})


def single_array() -> bytes:
    """A .npy file, which is no .npz."""
    file = io.BytesIO()
    np.save(file, np.ones(3))
    return file.getvalue()


def test_a_checkpoint_of_a_newer_version_is_refused(kept: Path) -> None:
    rewrite(kept, {"version": 99})
    assert "newer version of ocular" in refused(kept)


def test_a_checkpoint_with_objects_is_refused(kept: Path) -> None:
    rewrite(kept, user_steps=np.array([print], dtype=object))
    assert "is not a readable checkpoint" in refused(kept)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: rewrite(path, user_factors=None), id="array-missing"),
        pytest.param(lambda path: rewrite(path, user_factors=np.ones((81, 16), np.float32)), id="other-shape"),
        pytest.param(lambda path: rewrite(path, meta=None), id="meta-missing"),
        pytest.param(lambda path: rewrite(path, meta=np.frombuffer(b"[]", np.uint8)), id="meta-list"),
        pytest.param(lambda path: rewrite(path, {"format": "ocular-model"}), id="other-format"),
        pytest.param(lambda path: path.write_text("client,product\n"), id="text-file"),
        pytest.param(lambda path: path.write_bytes(single_array()), id="single-array"),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), id="folder"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused(kept: Path, damage: Callable[[Path], Any]) -> None:
    damage(kept)
    refused(kept)


def test_a_checkpoint_that_can_not_be_written_is_one_clear_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(OcularError, match=r"fit\.npz"):
        estimator().fit(DATA, checkpoint=blocked / "fit.npz")


# ---------------------------------------------------------------------------------------------------- kill and Ctrl-C

# without the estimator, which takes seconds to import; its checkpoints are the same
SLOW_SWEEPS = """
import sys, time
from pathlib import Path
from ocular.synthetic import skewed
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import FitConfig
from ocular.solver.cpu import CpuBackend
from ocular.solver.fit import run_fit
from ocular.solver.start.initial import initial_state

data, config = skewed(80, 50, 900, random_state=4), FitConfig(6, 2.0, tol=0.0, max_iter=60, seed=7, bias=True)
run_fit(
    data,
    config,
    CpuBackend(data, config),
    lambda: initial_state(data, config),
    checkpoint=Checkpoint(Path(sys.argv[1]), every_sweeps=1),
    callback=lambda *_: time.sleep(0.05),
)
"""

SLOW_FIT = """
import sys, time
from pathlib import Path
from ocular import OCuLaR
from ocular.synthetic import skewed
from ocular.solver.checkpoint import Checkpoint

model = OCuLaR(6, 2.0, tol=0.0, max_iter=60, random_state=7, bias=True)
model.fit(
    skewed(80, 50, 900, random_state=4),
    checkpoint=Checkpoint(Path(sys.argv[1]), every_sweeps=1),
    callback=lambda *_: time.sleep(0.05),
)
print("sweeps", model.n_iter_)
"""


def sweeps_kept(path: Path) -> int:
    if not path.exists():
        return 0
    with np.load(path) as file:
        return len(file["objectives"])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_a_killed_fit_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    whole = estimator(max_iter=60, bias=True)
    process = start_python(SLOW_SWEEPS, path)
    try:
        wait_for(lambda: sweeps_kept(path) >= 3, process)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()
    stopped = sweeps_kept(path)
    assert 3 <= stopped < 60
    heard: list[int] = []
    resumed = estimator(max_iter=60, bias=True).fit(DATA, checkpoint=path, callback=lambda n, _: heard.append(n))
    assert heard[0] == stopped + 1
    assert learned_bytes(resumed) == learned_bytes(whole.fit(DATA))


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_in_a_terminal_ends_the_fit_but_not_the_program(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    process = start_python(SLOW_FIT, path)
    try:
        wait_for(lambda: sweeps_kept(path) >= 3, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    stopped = sweeps_kept(path)
    assert process.returncode == 0
    assert out == f"sweeps {stopped}\n"
    assert 3 <= stopped < 60
    assert f"interrupted: the model keeps the state after sweep {stopped}, the best so far" in err


def interrupt(*, at: int, times: int = 1) -> Callable[[int, float], None]:
    def callback(sweep: int, _: float) -> None:
        if sweep == at:
            for _time in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    return callback


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
class TestInterrupt:
    def test_keeps_the_best_state_and_warns(self, tmp_path: Path) -> None:
        before = signal.getsignal(signal.SIGINT)
        path = tmp_path / "fit.npz"
        with pytest.warns(ConvergenceWarning, match="interrupted: the model keeps the state after sweep 4, the best"):
            model = estimator().fit(DATA, callback=interrupt(at=4), checkpoint=path)
        assert signal.getsignal(signal.SIGINT) is before
        assert model.n_iter_ == 4
        assert not model.converged_
        assert learned_bytes(model) == learned_bytes(estimator(max_iter=4).fit(DATA))
        assert len(model.recommend(0, N=3)[0]) == 3
        resumed = estimator().fit(DATA, checkpoint=path)
        assert learned_bytes(resumed) == learned_bytes(estimator().fit(DATA))

    def test_a_second_one_interrupts_at_once(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        model = estimator()
        with pytest.raises(KeyboardInterrupt):
            model.fit(DATA, callback=interrupt(at=2, times=2))
        assert signal.getsignal(signal.SIGINT) is before
        assert not hasattr(model, "user_factors_")

    def test_a_fitted_model_keeps_its_old_answer_when_a_refit_is_broken_off(self) -> None:
        model = estimator().fit(DATA)
        before = learned_bytes(model)
        with pytest.raises(KeyboardInterrupt):
            model.set_params(random_state=1).fit(DATA, callback=interrupt(at=2, times=2))
        assert learned_bytes(model) == before

    def test_in_the_last_sweep_is_still_told(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = estimator(max_iter=3).fit(DATA, callback=interrupt(at=3))
        assert model.n_iter_ == 3
        assert ["interrupted" in str(warning.message) for warning in caught] == [True]


def test_a_checkpoint_that_can_not_be_written_is_refused_before_the_first_sweep(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    seen: list[int] = []
    with pytest.raises(ArtifactError, match="could not write"):
        estimator(max_iter=3).fit(DATA, checkpoint=tmp_path / "taken" / "state", callback=lambda n, _: seen.append(n))
    assert seen == []


def test_a_disk_that_fills_up_does_not_cost_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    def fill_the_disk(*_: object) -> None:
        monkeypatch.setattr(os, "fsync", full)

    with pytest.warns(RuntimeWarning, match="goes on without its checkpoint"):
        model = estimator(max_iter=3).fit(DATA, checkpoint=tmp_path / "state", callback=fill_the_disk)
    assert model.n_iter_ == 3


def test_numbers_out_of_range_are_an_error_not_a_model() -> None:
    class Broken:
        def start(self, state: State) -> None:
            self._state = state

        def sweep(self) -> float:
            return float("nan")

        def state(self) -> State:
            return self._state

        def close(self) -> None: ...

    config = FitConfig(n_coclusters=2, seed=0)
    with pytest.raises(FitError, match="expected a finite objective, got nan in sweep 1"):
        run_fit(DATA, config, Broken(), lambda: initial_state(DATA, config))
