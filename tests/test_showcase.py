"""The sample of the demo: what a visitor sees of it, and that it is the same on every day."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ocular import Advisor, OCuLaR, load
from ocular.cli.demo import FITS, fit_models
from ocular.explain.reasons import LINKS, PATTERN, PEERS
from ocular.synthetic.market import frame
from ocular.synthetic.showcase import LAST_DAY, Showcase, earlier, showcase
from ocular.synthetic.showcase_names import SELLERS

TODAY = date(2026, 3, 4)  # a Wednesday


@cache
def sample() -> Showcase:
    return showcase(TODAY)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OCuLaR]:
    folder: Path = tmp_path_factory.mktemp("models")
    fit_models(sample(), folder)
    return {name: load(folder / name) for name in FITS}


@pytest.fixture(scope="module")
def offers(models: dict[str, OCuLaR]) -> list[tuple[float, list[str]]]:
    """Chance to buy and kinds of the shown reasons of the three best offers to each client."""
    advisor = Advisor(models["latest"])
    best = [offer for label in sample().interactions.user_labels for offer in advisor.recommend(label, 3)]
    return [(offer.chance, [reason.kind for reason in offer.explanation.summary().shown_reasons]) for offer in best]


def test_the_sample_is_the_same_whatever_the_day() -> None:
    one, other = frame(sample().interactions), frame(showcase(date(2031, 9, 29)).interactions)
    assert one.drop("date").equals(other.drop("date"))
    shift = (other["date"] - one["date"]).dt.total_days().unique().to_list()
    assert len(shift) == 1
    assert shift[0] % 7 == 0
    assert frame(showcase(TODAY, random_state=3).interactions).shape != one.shape
    pairs = one.select("client", "product").unique().sort("client", "product").write_csv()
    assert hashlib.sha256(pairs.encode()).hexdigest()[:16] == "054cddb71b618fd8"


def test_it_ends_on_the_latest_friday_and_has_no_orders_at_weekends() -> None:
    days = frame(sample().interactions)["date"]
    assert days.max() == date(2026, 2, 27)
    assert LAST_DAY.item().weekday() == 4
    assert days.dt.weekday().max() == 5
    assert 700 <= (days.max() - days.min()).days <= 730  # type: ignore[operator]


def test_clients_have_names_sellers_and_enough_purchases() -> None:
    data = sample().interactions
    degrees = data.by_user.degrees
    assert len(set(data.user_labels.tolist())) == data.n_users == 480
    assert set(data.user_attributes["seller"].tolist()) == set(SELLERS)
    assert degrees.min() >= 6
    assert 10 <= np.median(degrees) <= 20
    assert data.by_item.degrees.min() >= 5
    assert {seller.team for seller in SELLERS.values()} == {"North", "South"}


def test_an_earlier_cut_has_the_purchases_before_a_day() -> None:
    data = sample().interactions
    cut = frame(earlier(data, 35))
    whole = frame(data)
    last = whole["date"].max()
    expected = whole.filter((last - whole["date"]).dt.total_days() > 35)
    key = ["client", "product", "date", "price"]
    assert cut.sort(key).equals(expected.sort(key))


def test_most_offers_have_several_reasons_of_different_kinds(offers: list[tuple[float, list[str]]]) -> None:
    kinds = [reasons for _, reasons in offers]
    assert np.mean([len(reasons) >= 2 for reasons in kinds]) >= 0.7
    assert np.mean([len(set(reasons)) >= 2 for reasons in kinds]) >= 0.7
    shown = Counter(kind for reasons in kinds for kind in reasons)
    assert min(shown[kind] for kind in (PATTERN, LINKS, PEERS)) >= 0.2 * len(kinds)


def test_chances_are_spread(offers: list[tuple[float, list[str]]]) -> None:
    chances = np.array([chance for chance, _ in offers])
    low, high = np.quantile(chances, [0.05, 0.95])
    assert 0.03 <= low <= 0.15
    assert 0.6 <= high <= 0.85
    most = Counter(np.round(100 * chances).tolist()).most_common(1)[0][1]
    assert most <= 0.1 * len(chances)


def test_every_theme_is_found_as_a_pattern(models: dict[str, OCuLaR]) -> None:
    patterns = models["latest"].coclusters()
    for name, rows, columns in zip(sample().themes, sample().rows, sample().columns, strict=True):
        clients, products = set(np.flatnonzero(rows).tolist()), set(np.flatnonzero(columns).tolist())
        similarity = max(
            min(_jaccard(clients, pattern.users), _jaccard(products, pattern.items)) for pattern in patterns
        )
        assert similarity >= 0.6, name


def test_themes_overlap() -> None:
    assert (sample().rows.sum(axis=0) >= 2).mean() >= 0.3
    assert (sample().columns.sum(axis=0) >= 2).sum() >= 10


def test_the_hero_stands_where_two_patterns_cross(models: dict[str, OCuLaR]) -> None:
    client, product = sample().hero
    best = Advisor(models["latest"]).recommend(client, 1)[0]
    assert best.explanation.product == product
    kinds = [reason.kind for reason in best.explanation.summary().shown_reasons]
    assert kinds.count(PATTERN) == 2
    data = sample().interactions
    assert sample().rows[:, data.user_rows[client]] @ sample().columns[:, data.item_rows[product]] >= 1
    assert (sample().rows[:, data.user_rows[client]] & sample().columns[:, data.item_rows[product]]).sum() == 2


def test_consumables_are_due_again(models: dict[str, OCuLaR]) -> None:
    due = Advisor(models["latest"]).due_all()
    assert due["client"].n_unique() >= 50
    assert due["product"].n_unique() >= 5


def _jaccard(one: set[int], other: object) -> float:
    members = set(np.asarray(other).tolist())
    return len(one & members) / len(one | members)
