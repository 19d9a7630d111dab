"""Hit rates of a model, found out by hiding purchases from a second one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocular
from ocular import Interactions, OCuLaR
from ocular.data.splits import per_user_split
from ocular.errors import ArtifactError, DataError
from ocular.evaluation.calibration import Outcomes, calibrate, collect_outcomes, cross_check
from ocular.explain.calibration import fit_calibration, measure_reliability
from ocular.synthetic import planted


@pytest.fixture(scope="module")
def data() -> Interactions:
    return planted(200, 40, 4, overlap=0.3, density=0.7, noise=0.03, random_state=2).interactions


def estimator() -> OCuLaR:
    return OCuLaR(4, 1.0, tol=0.0, max_iter=40, random_state=0)


@pytest.fixture(scope="module")
def checked(data: Interactions) -> OCuLaR:
    model = estimator().fit(data)
    calibrate(model, per_client=10, random_state=3)
    return model


def test_hit_rates_are_those_of_a_model_that_did_not_see_the_purchases(data: Interactions, checked: OCuLaR) -> None:
    train, hidden = per_user_split(data, 0.25, 3)
    twin = estimator().fit(train)
    ids, confidences = twin.recommend(np.arange(200), N=10)
    truth = hidden.to_matrix().toarray() > 0
    seen = (ids >= 0) & (confidences > 1.01e-4)  # for a reason
    hits = truth[np.arange(200)[:, None], ids] & seen
    found = checked.calibration_
    assert found is not None
    assert found.counts.sum() == seen.sum()
    assert found.hits.sum() == hits.sum() > 100
    assert (found.share, found.per_client) == (0.25, 10)
    for low, high, count, hit in zip(found.starts, [*found.starts[1:], 2.0], found.counts, found.hits, strict=True):
        inside = seen & (confidences >= low) & (confidences < high)
        assert (inside.sum(), hits[inside].sum()) == (count, hit)
    assert len(found.starts) > 3
    assert found.error_before == pytest.approx(
        measure_reliability(confidences[seen].astype(float), hits[seen]).error, abs=1e-6
    )
    assert found.error_after is not None
    assert found.error_after < min(0.06, found.error_before)


def test_calibrating_leaves_the_model_as_it_was(data: Interactions, checked: OCuLaR) -> None:
    alone = estimator().fit(data)
    assert alone.calibration_ is None
    np.testing.assert_array_equal(alone.user_factors_.toarray(), checked.user_factors_.toarray())
    again = calibrate(alone, per_client=10, random_state=3)
    assert checked.calibration_ is not None
    assert again.to_dict() == checked.calibration_.to_dict()
    assert calibrate(alone, per_client=10, random_state=4).to_dict() != again.to_dict()


def test_a_model_of_ratings_is_calibrated_too(data: Interactions, checked: OCuLaR) -> None:
    model = estimator().set_params(min_value=3).fit(data.to_matrix() * 4)
    assert checked.calibration_ is not None
    assert calibrate(model, per_client=10, random_state=3).to_dict() == checked.calibration_.to_dict()


def test_outcomes_by_hand() -> None:
    class Fixed:
        interactions_ = Interactions.from_pairs([0, 0, 2], [0, 1, 3], (3, 4))

        def recommend(self, clients: Any, N: int) -> tuple[Any, Any]:
            assert clients.tolist() == [0, 2]  # 1 has no purchases
            assert N == 4  # no more than there are
            return np.array([[2, 3, -1], [0, 1, 2]]), np.array([[0.9, 0.8, np.nan], [0.7, 0.6, 0.5]], dtype=np.float32)

    found = collect_outcomes(Fixed(), Interactions.from_pairs([0, 1, 2, 2], [3, 0, 0, 2], (3, 4)))  # type: ignore[arg-type]
    assert found.clients.tolist() == [0, 0, 2, 2, 2]
    np.testing.assert_allclose(found.confidences, [0.9, 0.8, 0.7, 0.6, 0.5])
    assert found.hits.tolist() == [False, True, True, False, True]


def test_each_half_of_the_clients_is_told_by_the_other() -> None:
    # clients differ: calibrated by itself each half would be perfect; by the other, as wrong as can be
    clients = np.repeat(np.arange(40), 20)
    rng = np.random.default_rng(7)
    half = rng.random(40) < 0.5
    confidences = np.linspace(0.2, 0.8, 800)
    hits = half[clients].copy()
    hits[np.flatnonzero(~hits)[0]] = True  # some hits on both sides
    before, after = cross_check(Outcomes(clients, confidences, hits), random_state=7)
    assert before.error == pytest.approx(measure_reliability(confidences, hits).error)
    assert after.error > 0.9
    both = fit_calibration(confidences, hits)
    assert measure_reliability(both.apply(confidences), hits).error < 0.3  # what it would be without leaving out


def test_a_history_that_is_too_small_is_refused() -> None:
    model = OCuLaR(1, 0.1, tol=0.0, max_iter=5, random_state=0).fit(np.ones((4, 5)))
    with pytest.raises(DataError, match="expected at least 100 recommendations"):
        calibrate(model)
    assert model.calibration_ is None


# ------------------------------------------------------------------------------------------------------- in the folder


@pytest.fixture
def saved(checked: OCuLaR, tmp_path: Path) -> Path:
    checked.save(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder: Path, change: Any, sign: bool) -> None:
    """Change the manifest, with a digest that fits or as somebody with an editor would."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    change(manifest)
    if sign:
        signed = {name: value for name, value in manifest.items() if name != "digest"}
        manifest["digest"] = hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_hit_rates_come_back_from_a_saved_model(checked: OCuLaR, saved: Path) -> None:
    again = ocular.load(saved)
    assert again.calibration_ is not None
    assert checked.calibration_ is not None
    assert again.calibration_.to_dict() == checked.calibration_.to_dict()
    (item,), _ = checked.recommend(0, N=1)
    explanation = again.explain(0, item)
    assert explanation.observed == checked.explain(0, item).observed
    assert explanation.observed is not None


def test_a_changed_hit_rate_is_refused(saved: Path) -> None:
    rewrite(saved, lambda manifest: manifest["calibration"]["hits"].__setitem__(0, 10**6), sign=False)
    with pytest.raises(ArtifactError, match="was changed after it was written"):
        ocular.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["calibration"]["hits"].pop(),
        lambda manifest: manifest["calibration"]["starts"].reverse(),
        lambda manifest: manifest["calibration"].pop("means"),
        lambda manifest: manifest["calibration"]["counts"].__setitem__(0, "x"),
        lambda manifest: manifest.update(calibration="good"),
        lambda manifest: manifest.update(calibration=[1]),
    ],
    ids=["length", "order", "missing", "text", "no table", "list"],
)
def test_hit_rates_that_do_not_fit_together_are_refused(saved: Path, change: Any) -> None:
    rewrite(saved, change, sign=True)
    with pytest.raises(ArtifactError, match="not a whole model") as refused:
        ocular.load(saved)
    assert "\n" not in str(refused.value)


def test_a_model_from_before_there_were_hit_rates_is_read(saved: Path) -> None:
    rewrite(saved, lambda manifest: manifest.pop("calibration"), sign=True)
    assert ocular.load(saved).calibration_ is None
