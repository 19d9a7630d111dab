"""The demo as its visitors find it: nobody signs in to an empty page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sites import Browser
from sqlalchemy import func, select
from starlette.testclient import TestClient

from ocular.cli.demo import FITS, fit_models, measure
from ocular.evaluation.quality import read_quality
from ocular.feedback import REASONS, Status
from ocular.synthetic.showcase import showcase
from ocular.synthetic.showcase_names import HERO, HERO_PRODUCT, SELLERS
from ocular.web import demo
from ocular.web.app import create_app
from ocular.web.database import Database
from ocular.web.registry import Registry
from ocular.web.settings import Names, Settings
from ocular.web.tables import Assignment, Feedback, Shown, User, now


class Site(NamedTuple):
    folder: Path
    url: str
    passwords: dict[str, str]
    app: Any

    def visit(self, name: str, path: str) -> str:
        browser = Browser(self.app)
        assert browser.sign_in(name, self.passwords[name]).status_code == 303
        answer = browser.get(path)
        assert answer.status_code == 200, path
        return html.unescape(re.sub(r"\s+", " ", answer.text))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("demo")
    url = f"sqlite:///{folder / 'demo.db'}"
    sample = showcase()
    fit_models(sample, folder / "models")
    measure(sample, folder / "models")
    people = demo.prepare(url, folder / "models")
    app = create_app(
        Settings(folder / "models", url, names=Names.EVERYBODY, secure=False, allowed_hosts=("testserver",))
    )
    app.state.services.start()
    app.state.services.news.wait(60)
    yield Site(folder, url, {person.username: person.password for person in people}, app)
    app.state.services.stop()


@pytest.fixture
def database(site: Site) -> Iterator[Database]:
    database = Database(site.url)
    yield database
    database.close()


def test_people_of_all_roles_in_two_teams(site: Site, database: Database) -> None:
    with database.reading() as transaction:
        people = transaction.execute(select(User.role, User.team, func.count()).group_by(User.role, User.team)).all()
        owners = transaction.execute(select(User.full_name).join(Assignment).distinct()).scalars().all()
        assigned = transaction.scalar(select(func.count()).select_from(Assignment))
    assert {(role, team): n for role, team, n in people} == {
        ("seller", "North"): 4, ("seller", "South"): 4, ("manager", "North"): 1, ("manager", "South"): 1,
        ("admin", ""): 1,
    }  # fmt: skip
    assert set(owners) == set(SELLERS)
    assert assigned == 480
    assert len(site.passwords) == 11


def test_the_hero_is_the_first_card_of_the_seller_who_is_signed_in(site: Site) -> None:
    page = site.visit("maya", "/")
    first_card = page[page.index("Best next steps") :]
    assert first_card.index(HERO_PRODUCT) < first_card.index("Chance to buy")
    assert first_card.index(HERO) < first_card.index("Chance to buy")
    assert "€" in first_card


def test_the_link_signs_in_once(site: Site) -> None:
    who, link = demo.open_link(site.url, "http://127.0.0.1:8000")
    assert who == "Maya Thornfield"
    assert link.startswith("http://127.0.0.1:8000/sign-in/once/")
    path = link.removeprefix("http://127.0.0.1:8000")
    visitor, other = (
        TestClient(site.app, "http://127.0.0.1", client=("127.0.0.1", 5000), follow_redirects=False) for _ in range(2)
    )
    assert visitor.get(path).status_code == 303
    assert "Best next steps" in visitor.get("/").text
    assert other.get(path).status_code == 404
    assert other.get("/").status_code == 303


def test_what_was_won_was_bought_for_that_much_on_that_day(site: Site, database: Database) -> None:
    registry = Registry(site.folder / "models" / "latest")
    registry.refresh()
    data = registry.current.interactions
    purchases = data.purchases
    assert purchases is not None
    with database.reading() as transaction:
        won = transaction.scalars(select(Feedback).where(Feedback.status == Status.WON)).all()
    assert len(won) > 150
    for row in won:
        user, item = data.user_rows[row.client], data.item_rows[row.product]
        pair = data.by_user.indptr[user] + int(data.by_user[user].tolist().index(item))
        at = purchases.pair == pair
        amounts = (purchases.price * purchases.quantity)[at]  # type: ignore[operator]
        days = purchases.time[at].astype("datetime64[D]")  # type: ignore[index]
        assert any(abs(amounts[days == row.at.date()] - row.amount) < 0.01)


def test_statuses_have_a_plausible_course(database: Database) -> None:
    with database.reading() as transaction:
        rows = transaction.scalars(select(Feedback).order_by(Feedback.id)).all()
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    assert now() - timedelta(days=200) < rows[0].at < now() - timedelta(days=150)
    assert rows[-1].at < now()
    course: dict[tuple[str, str], list[Status]] = {}
    for row in rows:
        course.setdefault((row.client, row.product), []).append(Status(row.status))
    allowed = (
        [Status.PURSUING], [Status.PURSUING, Status.WON], [Status.PURSUING, Status.LOST], [Status.NOT_A_FIT],
        [Status.SNOOZED],
    )  # fmt: skip
    assert all(statuses in allowed for statuses in course.values())
    refused = {row.reason for row in rows if row.status in (Status.LOST, Status.NOT_A_FIT)}
    assert refused == set(REASONS)
    assert len({row.model for row in rows}) >= 2
    weeks = {(now() - row.at).days // 7 for row in rows if row.status == Status.WON}
    assert set(range(20)) <= weeks  # no week without a deal


def test_some_follow_ups_are_due_this_week_and_one_is_overdue(database: Database) -> None:
    with database.reading() as transaction:
        maya = transaction.scalars(select(User.id).where(User.name == "maya")).one()
        latest = select(func.max(Feedback.id)).group_by(Feedback.client, Feedback.product)
        rows = transaction.scalars(select(Feedback).where(Feedback.id.in_(latest), Feedback.user_id == maya)).all()
    today = now().date()
    due = [row.due for row in rows if row.status == Status.PURSUING]
    assert sum(_day(day) < today for day in due) == 1
    assert sum(today <= _day(day) <= today + timedelta(days=6) for day in due) >= 3
    assert sum(_day(row.due) > today for row in rows if row.status == Status.SNOOZED) >= 2


def test_more_was_shown_than_was_acted_on(database: Database) -> None:
    with database.reading() as transaction:
        shown = transaction.execute(select(Shown.client, Shown.product, Shown.at)).all()
        feedback = transaction.execute(
            select(Feedback.client, Feedback.product, func.min(Feedback.at)).group_by(Feedback.client, Feedback.product)
        ).all()
    first = {(client, product): at for client, product, at in shown}
    assert len(first) == len(shown) > 1.5 * len(feedback)
    assert all(first[client, product] <= at for client, product, at in feedback)


def test_the_manager_finds_results_and_what_is_new(site: Site) -> None:
    page = site.visit("hanna", "/performance")
    money = [int(amount.replace(",", "")) for amount in re.findall(r"€([\d,]+)", page)]
    assert max(money) > 100_000
    assert all(name in page for name, seller in SELLERS.items() if seller.team == "North")
    assert not any(name in page for name, seller in SELLERS.items() if seller.team == "South")
    assert "Too expensive" in page
    news = site.visit("hanna", "/news")
    counts = re.search(r"New\s*(?:<[^>]*>\s*)*(\d+)", news)
    assert counts is not None
    assert int(counts[1]) > 20


def test_it_is_more_accurate_than_simpler_methods(site: Site) -> None:
    records = read_quality(site.folder / "models")
    assert set(records) == {"random", "by_date"}
    for record in records.values():
        recall = {method.model: method.recall for method in record.methods}
        assert recall["evidence"] > 0.7
        assert recall["evidence"] > recall["user-knn"] > recall["popularity"]
    page = site.visit("hanna", "/model")
    assert "Not measured yet" not in page
    assert "other purchases" not in page


def test_all_models_are_kept_with_their_days(site: Site) -> None:
    created = {}
    for name in FITS:
        registry = Registry(site.folder / "models" / name)
        registry.refresh()
        created[name] = registry.current.created
    for name, days in FITS.items():
        assert abs((now() - created[name]) - timedelta(days=days)) < timedelta(days=1)
    assert site.app.state.services.served.version.startswith("latest-")


def test_a_second_run_starts_anew(tmp_path: Path, site: Site) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"
    demo.prepare(url, site.folder / "models")
    again = demo.prepare(url, site.folder / "models")
    database = Database(url)
    with database.reading() as transaction:
        assert transaction.scalar(select(func.count()).select_from(User)) == len(again)
        pairs = select(Feedback.client, Feedback.product, Feedback.status)
        rows = transaction.execute(pairs).all()
    database.close()
    assert len(rows) == len(set(rows))


def _day(day: date | None) -> date:
    assert day is not None
    return day
