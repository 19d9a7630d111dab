"""Fits that were stopped while parameters were chosen, or while links and peers were fitted."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command import run
from sklearn.exceptions import ConvergenceWarning
from support import learned_bytes

from ocular import Interactions, OCuLaR, load
from ocular.errors import ArtifactError
from ocular.evidence import EvidenceConfig
from ocular.model import NotConvergedWarning, estimator
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.pool import RowPool
from ocular.synthetic import b2b
from ocular.tuning import AUTO

CHOSEN: dict[str, Any] = {"n_coclusters": 8, "regularization": AUTO, "links": AUTO, "random_state": 0}
GIVEN: dict[str, Any] = {"n_coclusters": 4, "regularization": 1.0, "links": 1.5, "peers": 0.5, "random_state": 0}


@pytest.fixture(scope="module")
def market() -> Interactions:
    return b2b(500, 80, random_state=0).interactions


@pytest.fixture
def no_choice(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From a call on, nothing is to be chosen."""
    return lambda: monkeypatch.setattr(OCuLaR, "choose", lambda *_, **__: pytest.fail("chosen again"))


# ----------------------------------------------------------------------------------------------------- what was "auto"


def test_a_stopped_fit_keeps_what_it_chose_when_sweeps_and_tolerance_change(
    market: Interactions, tmp_path: Path, no_choice: Callable[[], None]
) -> None:
    path = tmp_path / "fit.npz"
    with pytest.warns(NotConvergedWarning):
        stopped = OCuLaR(**CHOSEN, max_iter=2, tol=1e-9).fit(market, checkpoint=path)
    no_choice()
    resumed = OCuLaR(**CHOSEN, max_iter=300, tol=1e-5).fit(market, checkpoint=path)
    assert resumed.converged_
    assert resumed.evidence_config_ == stopped.evidence_config_
    assert resumed.config_.regularization == stopped.config_.regularization
    assert resumed.tuning_ is not None
    assert stopped.tuning_ is not None
    assert resumed.tuning_.to_dict() == stopped.tuning_.to_dict()
    assert resumed.tuning_.config == resumed.config_
    given = asdict(stopped.evidence_config_) | {"regularization": stopped.config_.regularization}
    whole = OCuLaR(**CHOSEN | given, max_iter=300, tol=1e-5).fit(market)
    assert learned_bytes(resumed) == learned_bytes(whole)


def test_a_fit_that_was_killed_before_its_first_checkpoint_does_not_choose_again(
    market: Interactions, tmp_path: Path, no_choice: Callable[[], None]
) -> None:
    path = tmp_path / "fit.npz"

    def kill(*_: object) -> None:
        raise RuntimeError("killed")

    whole = OCuLaR(**CHOSEN).fit(market)
    with pytest.raises(RuntimeError, match="killed"):
        OCuLaR(**CHOSEN).fit(market, checkpoint=Checkpoint(path), callback=kill)
    with np.load(path) as kept:
        assert kept.files == ["meta"]
    no_choice()
    sweeps: list[int] = []
    resumed = OCuLaR(**CHOSEN).fit(market, checkpoint=path, callback=lambda sweep, _: sweeps.append(sweep))
    assert sweeps[0] == 1
    assert learned_bytes(resumed) == learned_bytes(whole)
    assert resumed.tuning_ == whole.tuning_


def test_another_request_is_chosen_for_anew(
    market: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, choose = tmp_path / "fit.npz", {**CHOSEN, "regularization": 5.0, "peers": 0.0}, OCuLaR.choose
    OCuLaR(**asked).fit(market, checkpoint=path)
    metrics: list[str] = []

    def note(model: OCuLaR, *arguments: Any, **options: Any) -> Any:
        metrics.append(model.metric)
        return choose(model, *arguments, **options)

    monkeypatch.setattr(OCuLaR, "choose", note)
    OCuLaR(**asked, metric="map").fit(market, checkpoint=path)
    OCuLaR(**asked, metric="map", popularity=0.0).fit(market, checkpoint=path)
    OCuLaR(**asked, metric="map", popularity=0.0).fit(market, checkpoint=path)
    assert metrics == ["map", "map"]


@pytest.mark.parametrize("kept", ["other purchases", "damaged", "not writable"])
def test_a_checkpoint_that_does_not_serve_is_refused_before_the_choice(
    market: Interactions, tmp_path: Path, no_choice: Callable[[], None], kept: str
) -> None:
    path = tmp_path / "fit.npz"
    if kept == "other purchases":
        OCuLaR(4, 1.0, random_state=0).fit(np.eye(6), checkpoint=path)
    elif kept == "damaged":
        path.write_bytes(b"PK")
    else:
        (tmp_path / "taken").write_text("a file, not a folder")
        path = tmp_path / "taken" / "fit.npz"
    no_choice()
    with pytest.raises(ArtifactError, match=r"belongs to other purchases|not a readable checkpoint|could not write"):
        OCuLaR(**CHOSEN).fit(market, checkpoint=path)


def test_a_checkpoint_without_notes_is_one_of_a_fit_that_chose_nothing(market: Interactions, tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    OCuLaR(8, 5.0, random_state=0).fit(market, checkpoint=path)
    with np.load(path) as arrays:
        entries = dict(arrays)
    meta = json.loads(entries["meta"].tobytes())
    assert meta["notes"] == {}
    del meta["notes"]
    entries["meta"] = np.frombuffer(json.dumps(meta | {"version": 3}).encode(), dtype=np.uint8)
    np.savez(path, **entries)
    model = OCuLaR(8, 5.0, links=AUTO, peers=0.0, random_state=0).fit(market, checkpoint=path)
    assert model.tuning_ is not None


# ------------------------------------------------------------------------------------------- while evidence is fitted


def ctrl_c_in(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Press Ctrl-C while the function that fits a part is at work, unless it has nothing to do."""
    genuine = getattr(estimator, function)

    def fit(interactions: Interactions, evidence: EvidenceConfig, *arguments: Any) -> sp.csr_array:
        if evidence.links if function == "fit_product_links" else evidence.peers:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)  # the signal comes at once
        return genuine(interactions, evidence, *arguments)

    monkeypatch.setattr(estimator, function, fit)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
class TestInterrupt:
    @pytest.mark.parametrize(
        ("function", "weights", "says"),
        [
            ("fit_product_links", {"links": 0.0, "peers": 0.0}, "its co-clusters, without links and peers"),
            ("fit_peers", {"links": 1.5, "peers": 0.0}, "its co-clusters, without peers"),
        ],
    )
    def test_what_is_complete_is_kept(
        self, market: Interactions, monkeypatch: pytest.MonkeyPatch, function: str, weights: dict[str, float], says: str
    ) -> None:
        whole = OCuLaR(**GIVEN | weights).fit(market)
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ctrl_c_in(patch, function)
            model = OCuLaR(**GIVEN).fit(market)
        assert [(w.category, str(w.message)) for w in caught] == [
            (ConvergenceWarning, f"interrupted: the model keeps {says}")
        ]
        assert model.interrupted_
        assert model.converged_
        assert (model.evidence_config_.links, model.evidence_config_.peers) == tuple(weights.values())
        assert learned_bytes(model) == learned_bytes(whole)
        np.testing.assert_array_equal(model.recommend(range(20))[0], whole.recommend(range(20))[0])
        assert model.explain(0, 3).text() == whole.explain(0, 3).text()

    def test_after_interrupted_sweeps_there_is_one_warning(
        self, market: Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ctrl_c_in(monkeypatch, "fit_peers")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = OCuLaR(**GIVEN).fit(market, callback=lambda *_: os.kill(os.getpid(), signal.SIGINT))
        assert [str(w.message) for w in caught] == [
            "interrupted: the model keeps the state after sweep 1, the best so far, without peers"
        ]
        assert model.links_.nnz > 0

    def test_the_command_saves_it_and_goes_on_from_its_checkpoint(
        self, market: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_choice: Callable[[], None]
    ) -> None:
        u, i = market.to_matrix().nonzero()
        lines = [f"c{client:03},p{product:02}" for client, product in zip(u.tolist(), i.tolist(), strict=True)]
        (tmp_path / "sales.csv").write_text("\n".join(["client,product", *lines]))
        command = (
            "fit", tmp_path / "sales.csv", "--client", "client", "--product", "product", "--coclusters", 8,
            "--checkpoint", tmp_path / "state", "-o", tmp_path / "model",
        )  # fmt: skip
        with monkeypatch.context() as patch:
            ctrl_c_in(patch, "fit_product_links")
            done = run(*command)
        assert done.returncode == 130, done.stderr
        assert "choosing parameters" in done.stderr
        assert "parameters: 8 co-clusters" in done.stdout
        assert "note: interrupted: the model keeps its co-clusters, without links" in done.stderr
        saved = f"Interrupted: the best state so far is saved to {tmp_path / 'model'}, calibration skipped"
        assert done.stderr.splitlines()[-1] == f"{saved}; the same command goes on from {tmp_path / 'state'}"
        assert load(tmp_path / "model").evidence_config_.links == 0
        no_choice()
        again = run(*command)
        assert again.returncode == 0, again.stderr
        assert "choosing parameters" not in again.stderr
        assert "Back-test" in again.stdout
        assert not (tmp_path / "state").exists()
        model = load(tmp_path / "model")
        assert model.evidence_config_.links > 0
        assert model.links_.nnz > 0
        assert model.tuning_ is not None
        assert model.evidence_config_ == model.tuning_.evidence


def test_after_ctrl_c_the_other_threads_do_not_finish_the_work() -> None:
    done: list[int] = []

    def kernel(first: int, _last: int) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.01)
        done.append(first)

    with pytest.raises(KeyboardInterrupt), RowPool(2) as pool:
        pool.run_chunks(kernel, [(n, n + 1) for n in range(1000)])
    assert len(done) < 100
