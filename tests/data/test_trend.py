"""What sells now: trends by hand, and as a factor of every contribution."""

from __future__ import annotations

import numpy as np
import pytest

import ocular
from ocular import Interactions, OCuLaR
from ocular.baselines.popularity import Popularity
from ocular.baselines.trend import WithTrend
from ocular.data.trend import find_trends, has_times
from ocular.errors import ConfigError, DataError
from ocular.explain.wording import trend_note

# client, product, day: product 0 is old, 1 is new, 2 is sold all along
ROWS = [(0, 0, 1), (1, 0, 2), (2, 0, 1), (0, 1, 60), (1, 1, 61), (0, 2, 1), (1, 2, 31), (2, 2, 61), (3, 2, 61)]
DAYS = np.datetime64("2024-01-01") + np.array([day for *_, day in ROWS])


def purchases() -> Interactions:
    return Interactions.from_pairs([u for u, *_ in ROWS], [i for _, i, _ in ROWS], (4, 3), time=DAYS)


def test_trends_by_hand() -> None:
    counted = [[2**-2.0, 2 ** (-59 / 30), 2**-2.0], [2 ** (-1 / 30), 1.0], [2**-2.0, 2**-1.0, 1.0, 1.0]]
    usual = sum(map(sum, counted)) / 9
    expected = [(sum(each) + usual) / (len(each) + 1) / usual for each in counted]
    assert find_trends(purchases(), 30.0) == pytest.approx(expected)
    assert expected[1] > expected[2] > expected[0]


def test_a_purchase_without_a_date_is_left_out() -> None:
    times = DAYS.astype("datetime64[s]")
    times[0] = np.datetime64("NaT")
    some = Interactions.from_pairs([u for u, *_ in ROWS], [i for _, i, _ in ROWS], (4, 3), time=times)
    assert find_trends(some, 30.0)[0] > find_trends(purchases(), 30.0)[0]
    assert has_times(some)


def test_no_dates_are_one_line() -> None:
    undated = Interactions.from_pairs([0, 1], [0, 1])
    assert not has_times(undated)
    with pytest.raises(DataError, match="expected purchases with a date for trend, got none; read them with"):
        OCuLaR(2, 0.1, trend=1.0).fit(undated)
    with pytest.raises(ConfigError, match="trend"):
        OCuLaR(2, 0.1, trend=-1.0).fit(purchases())
    with pytest.raises(ConfigError, match="trend_half_life"):
        OCuLaR(2, 0.1, trend=1.0, trend_half_life=0).fit(purchases())


def test_a_trend_scales_every_contribution_alike() -> None:
    data = ocular.synthetic.b2b(120, 30, random_state=0).interactions
    options = {"links": 1.0, "peers": 0.5, "link_regularization": 3.0, "peer_regularization": 3.0, "random_state": 0}
    plain = OCuLaR(5, 3.0, **options).fit(data)
    trendy = OCuLaR(5, 3.0, trend=0.7, trend_half_life=90.0, **options).fit(data)
    trends = find_trends(data, 90.0)
    users, items = np.arange(120)[:, None], np.arange(30)
    rest = plain.config_.background
    expected = (plain.affinity(users, items) - rest) * trends**0.7 + rest
    np.testing.assert_allclose(trendy.affinity(users, items), expected, rtol=1e-5)
    item = int(trendy.recommend(3, N=1)[0][0])
    explanation, before = trendy.explain(3, item), plain.explain(3, item)
    z = float(trendy.affinity(3, item))
    assert sum(reason.contribution for reason in explanation.reasons) + rest == pytest.approx(z, abs=1e-6)
    assert explanation.by_product() == pytest.approx(before.by_product())
    assert explanation.trend == pytest.approx(trends[item])
    assert before.trend == 1.0


def test_the_sentence() -> None:
    assert trend_note(0.5) == "It sells at 0.5 times its usual rate."
    assert trend_note(1.49) is None
    data = ocular.synthetic.b2b(120, 30, random_state=0).interactions
    model = OCuLaR(5, 3.0, trend=1.0, trend_half_life=20.0, random_state=0).fit(data)
    trends = find_trends(data, 20.0)
    item = int(np.argmax(trends))
    assert f"It sells at {trends[item]:.2g} times its usual rate." in model.explain(0, item).text()


def test_a_trend_survives_saving(tmp_path: object) -> None:
    model = OCuLaR(2, 0.1, trend=1.0, random_state=0).fit(purchases())
    model.save(f"{tmp_path}/model")
    loaded = ocular.load(f"{tmp_path}/model")
    np.testing.assert_array_equal(loaded.recommend([0, 1, 2, 3])[1], model.recommend([0, 1, 2, 3])[1])
    assert loaded.evidence_config_.trend == 1.0


def test_a_baseline_with_trend() -> None:
    bestsellers = Popularity().fit(purchases()).recommend(3, N=3, filter_already_liked_items=False)[0]
    model = WithTrend(Popularity(), trend=2.0, trend_half_life=10.0).fit(purchases())
    now = model.recommend(3, N=3, filter_already_liked_items=False)[0]
    assert bestsellers.tolist() == [2, 0, 1]
    assert now.tolist() == [1, 2, 0]
    method = ocular.Method("popularity", [{"trend": 1.0, "trend_half_life": 10.0}])
    assert isinstance(method.make(method.settings[0], 0), WithTrend)
