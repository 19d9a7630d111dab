"""Parameters that are "auto": what is asked for, how weights are measured without a fit, and what is chosen."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from ocular import Interactions, OCuLaR, load
from ocular.climbing import climb
from ocular.data.splits import random_split
from ocular.errors import ConfigError, DataError
from ocular.evaluation.metrics import measure
from ocular.evidence import EvidenceConfig
from ocular.evidence_request import AUTO, EvidenceRequest
from ocular.synthetic import b2b, planted
from ocular.tuning import QUICK, THOROUGH, count_fits, usual_coclusters, usual_regularization
from ocular.weight_scan import Sample, WeightScan

DEFAULTS: dict[str, Any] = {
    "links": 0.0, "peers": None, "popularity": None, "link_regularization": None, "link_loss": None, "n_links": 500,
    "peer_regularization": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def market() -> Interactions:
    return b2b(500, 80, random_state=0).interactions


def test_nothing_is_chosen_where_links_is_a_number() -> None:
    request = EvidenceRequest.of(**DEFAULTS | {"links": 2.0})
    assert request.is_settled
    assert request.settled(EvidenceConfig()) == EvidenceConfig(links=2.0)


def test_with_links_the_others_are_chosen_unless_they_are_given() -> None:
    request = EvidenceRequest.of(**DEFAULTS | {"links": AUTO, "peers": 0.0, "link_regularization": 7.0})
    assert (request.links, request.popularity, request.peer_regularization) == (AUTO, AUTO, AUTO)
    assert (request.peers, request.link_regularization, request.link_loss) == (0.0, 7.0, "likelihood")
    chosen = request.settled(EvidenceConfig(links=3.0, peers=5.0, popularity=-0.1))
    assert (chosen.links, chosen.peers, chosen.popularity, chosen.link_regularization) == (3.0, 0.0, -0.1, 7.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"links": "some"}, "expected links to be a number or \"auto\", got 'some'"),
        ({"peers": "none"}, "expected peers to be a number or \"auto\", got 'none'"),
        ({"links": -1}, "expected links to be a number from 0 to 1e\\+06, got -1"),
        ({"links": float("nan")}, "expected links to be a number from 0 to 1e\\+06, got nan"),
        ({"links": "auto", "popularity": 9}, "expected popularity to be a number from -5 to 5, got 9"),
        ({"link_loss": "cubes"}, "expected link_loss to be one of likelihood, squares, auto, got 'cubes'"),
        ({"metric": "ndcg"}, "expected metric to be one of balanced, recall, map, got 'ndcg'"),
        ({"n_coclusters": "many"}, "expected n_coclusters to be a whole number of at least 1, got 'many'"),
        ({"regularization": "much"}, "expected regularization to be a number from 0 to 1e\\+12, got 'much'"),
    ],
)
def test_senseless_requests(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OCuLaR(**given).fit(np.eye(4))


@pytest.mark.parametrize("popularity", [0.0, -0.3])
def test_weights_are_measured_as_a_fitted_model_is(market: Interactions, popularity: float) -> None:
    split = random_split(market, 0.2)
    weights = {"links": 0.7, "peers": 0.4, "popularity": popularity, "link_regularization": 10.0}
    model = OCuLaR(8, 5.0, **weights, peer_regularization=20.0, random_state=0).fit(split.train)
    scan = WeightScan(split, "recall", 10, n_threads=2)
    scan.use_patterns(model.user_factors_, model.item_factors_)
    scan.use_links(model.links_)
    scan.use_peers(model.evidence_config_, model.config_)
    expected = measure(model, split.train, split.test, 10)
    known = np.isin(expected.users, scan.users)  # who has nothing left to go by is not asked
    for metric in ("recall", "map"):
        scan.metric = metric
        value = scan.value(1.0, weights["links"], weights["peers"], popularity)
        assert value == pytest.approx(expected.per_user[metric][known, 0].mean(), abs=1e-12)


@pytest.mark.parametrize("popularity", [0.0, -0.2])
def test_shortlists_rank_as_all_products_do(popularity: float) -> None:
    split = random_split(b2b(400, 700, random_state=0).interactions, 0.2)
    weights = {"links": 0.7, "peers": 0.4, "popularity": popularity, "link_regularization": 10.0}
    model = OCuLaR(8, 5.0, **weights, peer_regularization=20.0, random_state=0).fit(split.train)
    scan = WeightScan(split, "map", 10, n_threads=2)
    scan.use_patterns(model.user_factors_, model.item_factors_)
    scan.use_links(model.links_)
    scan.use_peers(model.evidence_config_, model.config_)
    expected = measure(model, split.train, split.test, 10)
    known = np.isin(expected.users, scan.users)
    value = scan.value(1.0, weights["links"], weights["peers"], popularity)
    assert value == pytest.approx(expected.per_user["map"][known, 0].mean(), rel=1e-3)
    assert scan.shortlists().sizes.max() < 200  # of 700 products


def test_a_scan_takes_a_sample_and_measures_no_weights_twice(market: Interactions) -> None:
    split = random_split(market, 0.2)
    scan = WeightScan(split, "recall", 10, n_threads=1, sample=Sample(30, 60))
    assert len(scan.users) >= 30
    assert 60 <= scan.n_held_out < 100
    model = OCuLaR(4, 1.0, random_state=0).fit(split.train)
    scan.use_patterns(model.user_factors_, model.item_factors_)
    values = {scan.value(1.0, 0.0, 0.0, popularity) for popularity in (0.0, -1.0, 0.0)}
    assert (len(values), scan.n_weightings) == (2, 2)
    other = OCuLaR(4, 100.0, random_state=0).fit(split.train)
    scan.use_patterns(other.user_factors_, other.item_factors_)
    assert scan.value(1.0, 0.0, 0.0, 0.0) not in values  # other scores, other values


def test_climbing_passes_a_dip_but_no_wider_one() -> None:
    heights = [5.0, 1.0, 2.0, 1.5, 3.0, 1.0, 1.0, 9.0]
    places = range(len(heights))
    assert climb(places, 2, heights.__getitem__) == (2.0, 2)
    assert climb(places, 2, heights.__getitem__, patience=2) == (3.0, 4)
    assert climb(places, 2, heights.__getitem__, min_gain=0.6, patience=2) == (5.0, 0)


def test_a_choice_needs_no_more_fits_than_announced(market: Interactions) -> None:
    model = OCuLaR("auto", "auto", links=AUTO, random_state=0).fit(market)
    assert model.tuning_ is not None
    dated, undated = (model.request_for(has_dates=has_dates) for has_dates in (True, False))
    assert model.tuning_.n_fits <= count_fits(dated, chooses_regularization=True) == 9  # links with both losses
    at_random = model.set_params(validation="random").fit(market).tuning_
    assert at_random is not None
    assert at_random.n_fits <= count_fits(undated, chooses_regularization=True) == 6
    alone = EvidenceRequest.of(**DEFAULTS)
    assert count_fits(alone, chooses_regularization=True) == 2
    given = EvidenceRequest.of(**DEFAULTS | {"links": AUTO, "peers": 0.0, "link_regularization": 7.0})
    assert count_fits(given, chooses_regularization=False) == 2


def test_threads_change_no_choice(market: Interactions) -> None:
    choices = {
        OCuLaR(8, 5.0, links=AUTO, random_state=0, n_threads=n).fit(market).tuning_.evidence  # type: ignore[union-attr]
        for n in (1, 3)
    }
    assert len(choices) == 1


def test_a_thorough_choice_is_at_least_as_good(market: Interactions) -> None:
    split = random_split(market, 0.2)
    model = OCuLaR(8, 5.0, links=AUTO, taste=0.0, appeal=0.0, random_state=0)  # which are added once, whatever effort
    quick, thorough = (model.choose(split, effort=effort) for effort in (QUICK, THOROUGH))
    assert thorough.n_fits > quick.n_fits
    assert thorough.value >= 0.99 * quick.value


def test_what_is_chosen_is_better_than_patterns_alone_and_is_kept(market: Interactions, tmp_path: Any) -> None:
    model = OCuLaR(8, 5.0, links=AUTO, random_state=0).fit(market)
    choice, evidence = model.tuning_, model.evidence_config_
    assert choice is not None
    assert choice.value > 1.02 * choice.patterns_alone
    assert evidence.links > 0
    assert evidence == choice.evidence
    assert choice.n_weightings > 5 * choice.n_fits > 0
    fixed = OCuLaR(8, 5.0, random_state=0, **_weights(evidence)).fit(market)
    np.testing.assert_array_equal(model.recommend(range(50))[0], fixed.recommend(range(50))[0])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").evidence_config_ == evidence
    assert load(tmp_path / "model").links == evidence.links  # a number: a loaded model does not choose again
    assert load(tmp_path / "model").tuning_ == choice


def _weights(evidence: EvidenceConfig) -> dict[str, Any]:
    return {name: getattr(evidence, name) for name in EvidenceConfig.__dataclass_fields__}


def test_the_order_of_rows_and_columns_changes_no_choice(market: Interactions) -> None:
    names = np.array([f"c{n:04}" for n in range(market.n_users)]), np.array([f"p{n:03}" for n in range(market.n_items)])
    rng = np.random.default_rng(0)
    users, items = rng.permutation(market.n_users), rng.permutation(market.n_items)
    matrix = market.to_matrix()
    straight = Interactions.from_matrix(matrix, user_labels=names[0], item_labels=names[1])
    turned = Interactions.from_matrix(matrix[users][:, items], user_labels=names[0][users], item_labels=names[1][items])
    models = [OCuLaR("auto", "auto", links=AUTO, random_state=0).fit(data) for data in (straight, turned)]
    assert models[0].tuning_ == models[1].tuning_


def test_regularization_and_coclusters_from_the_data(market: Interactions) -> None:
    model = OCuLaR("auto", "auto", random_state=0).fit(market)
    assert model.config_.n_coclusters == usual_coclusters(market.shape) == 18
    split = random_split(market, 0.1)
    usual = usual_regularization(split.train.nnz, 18)
    assert model.config_.regularization == pytest.approx(10 * usual)  # such sparse patterns are worth more than others
    chosen, fixed = (OCuLaR(18, strength, random_state=0).choose(split).value for strength in ("auto", usual))
    assert chosen > 1.05 * fixed
    assert model.evidence_config_.is_patterns_only
    assert model.n_coclusters == "auto"  # as given


def test_the_usual_regularization_stays_where_another_gains_little() -> None:
    data = planted(300, 150, 6, density=0.9, noise=0.01, random_state=0).interactions
    model = OCuLaR(6, "auto", random_state=0).fit(data)
    assert model.config_.regularization == usual_regularization(random_split(data, 0.1).train.nnz, 6)


def test_peers_that_are_ruled_out_stay_out(market: Interactions) -> None:
    model = OCuLaR(8, 5.0, links=AUTO, peers=0.0, random_state=0).fit(market)
    assert model.evidence_config_.peers == 0
    assert model.peers_.nnz == 0


def test_squares_are_chosen_only_where_they_may_be(market: Interactions) -> None:
    model = OCuLaR(8, 5.0, links=AUTO, link_loss=AUTO, relative=True, peers=0.0, random_state=0).fit(market)
    assert model.evidence_config_.link_loss == "likelihood"  # positives of unequal weight
    model = OCuLaR(8, 5.0, links=1.0, link_loss="squares", random_state=0).fit(market)
    assert model.links_.nnz > 0


def test_too_few_purchases_to_hold_any_out(caplog: pytest.LogCaptureFixture) -> None:
    few = planted(20, 10, 2, random_state=0).interactions
    with caplog.at_level(logging.WARNING, logger="ocular"):
        model = OCuLaR("auto", "auto", links=AUTO, random_state=0).fit(few)
    assert f"{few.nnz} purchases are too few to choose parameters on a tenth of them; taking links=1, peers=0" in (
        caplog.text
    )
    assert model.tuning_ is None
    assert model.evidence_config_.links == 1.0


def test_calibration_takes_the_chosen_weights_over(market: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OCuLaR(8, 5.0, links=AUTO, random_state=0).fit(market)
    monkeypatch.setattr(OCuLaR, "choose", lambda *_, **__: pytest.fail("chosen again"))
    assert model.calibrate().hits.sum() > 0


def test_clients_with_one_purchase_leave_nothing_to_choose_on(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    single = np.zeros((1000, 20), dtype=int)
    single[np.arange(1000), rng.integers(0, 20, 1000)] = 1
    with caplog.at_level(logging.WARNING, logger="ocular"):
        model = OCuLaR("auto", "auto", links=AUTO, random_state=0).fit(single)
    assert "too few to choose parameters" in caplog.text
    assert model.evidence_config_.links == 1.0


def test_biases_count_where_weights_are_chosen(market: Interactions) -> None:
    split = random_split(market, 0.2)
    model = OCuLaR(8, 5.0, bias=True, links=0.7, link_regularization=10.0, random_state=0).fit(split.train)
    scan = WeightScan(split, "recall", 10, n_threads=1)
    scan.use_patterns(model.user_factors_, model.item_factors_, model.item_bias_)
    scan.use_links(model.links_)
    expected = measure(model, split.train, split.test, 10)
    known = np.isin(expected.users, scan.users)
    assert scan.value(1.0, 0.7, 0.0, 0.0) == pytest.approx(expected.per_user["recall"][known, 0].mean(), abs=1e-9)


def test_a_refused_fit_leaves_the_model_as_it_was(market: Interactions) -> None:
    model = OCuLaR(8, 5.0, links=1.0, random_state=0).fit(market)
    before = model.predict_proba(0, 5)
    with pytest.raises(ConfigError, match="expected link_loss=squares without relative, got both; leave one out"):
        model.set_params(link_loss="squares", relative=True).fit(market)
    assert model.predict_proba(0, 5) == before


def test_with_a_start_what_is_auto_is_as_before(market: Interactions) -> None:
    old = OCuLaR("auto", "auto", links=AUTO, random_state=0).fit(market)
    new = OCuLaR("auto", "auto", links=AUTO, random_state=0).fit(market, start=old)
    assert new.evidence_config_ == old.evidence_config_
    assert new.config_.regularization == old.config_.regularization
    assert new.tuning_ is None


def test_by_date_the_trend_is_chosen_too() -> None:
    """Every 40 days another ten products are bought, by whoever comes: what counts is what sells now."""
    rng = np.random.default_rng(0)
    users, days = rng.integers(200, size=6000), np.sort(rng.integers(200, size=6000))
    items = 10 * (days // 40) + rng.integers(10, size=6000)
    time = np.datetime64("2024-01-01") + days
    data = Interactions.from_pairs(users, items, (200, 50), time=time)
    model = OCuLaR(3, 1.0, links=AUTO, random_state=0).fit(data)
    assert model.evidence_config_.trend > 0
    assert (model.recommend(np.arange(200), N=3)[0] >= 40).mean() > 0.8
    at_random = OCuLaR(3, 1.0, links=AUTO, validation="random", random_state=0).fit(data)
    assert at_random.evidence_config_.trend == 0
    named = OCuLaR(3, 1.0, links=AUTO, trend=0.5, trend_half_life=20.0, random_state=0).fit(data)
    assert (named.evidence_config_.trend, named.evidence_config_.trend_half_life) == (0.5, 20.0)


def test_validation_by_time_needs_dates(market: Interactions) -> None:
    with pytest.raises(ConfigError, match="expected validation to be one of auto, random, time, got 'date'"):
        OCuLaR(validation="date").fit(market)
    undated = Interactions.from_matrix(market.to_matrix())
    with pytest.raises(DataError, match="expected dated purchases, the latest tenth mostly by"):
        OCuLaR(3, links=AUTO, validation="time").fit(undated)


def test_by_date_both_losses_of_links_are_tried(market: Interactions) -> None:
    n_fits = {}
    for validation, loss in (("random", None), ("time", None), ("time", "likelihood")):
        model = OCuLaR(8, 5.0, links=AUTO, validation=validation, link_loss=loss, random_state=0).fit(market)
        assert model.tuning_ is not None
        n_fits[validation, loss] = model.tuning_.n_fits
    assert n_fits["time", None] > n_fits["time", "likelihood"]
    assert OCuLaR(links=AUTO).request_for(has_dates=False).link_loss == "likelihood"
    assert OCuLaR(links=1.0).request_for(has_dates=True).link_loss == "likelihood"
