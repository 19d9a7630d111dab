"""How recommendations perform: counted once per client and product, whatever model recommended them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import pytest
from sites import NOBODYS, Browser, Site, both_databases, label, rows_of, say, text_of
from sqlalchemy import delete, select, update

from ocular.web import outcomes
from ocular.web.performance import Performance, Period, Totals
from ocular.web.shown import pair_digest
from ocular.web.tables import Feedback, Shown, now

OpenSite = Callable[..., Site]
TODAY = now().date()
MONTH = Period(TODAY - timedelta(days=29), TODAY)


def results(site: Site, name: str, period: Period = MONTH, team: str = "", seller: str = "") -> Performance:
    return Performance(site.services, site.services.served, site.visitor(name), period, team, seller)


def counts(totals: Totals) -> tuple[int, int, int, int]:
    return totals.pursued, totals.won, totals.lost, totals.refused


def judge(site: Site, seller: str, client: str, status: str, days_ago: int = 0, **fields: object) -> None:
    """A row of feedback as it would have been stored some days ago."""
    row = {"product": "p", "model": "old", "confidence": 0.5, "pattern": None, "label": "", "reason": ""} | fields
    with site.database.writing() as transaction:
        transaction.add(
            Feedback(
                client=client, user_id=site.visitor(seller).user.id, status=status, at=now() - timedelta(days=days_ago),
                **row,
            )
        )  # fmt: skip


def test_weeks_end_with_the_last_day_and_the_first_may_be_short() -> None:
    period = Period(date(2026, 1, 1), date(2026, 1, 30))
    assert period.n_weeks == 5
    assert period.weeks == [date(2026, 1, day) for day in (1, 3, 10, 17, 24)]
    moments = np.array([int(moment.timestamp()) for moment in period.moments])
    assert period.includes(moments).tolist() == [True, False]
    assert period.week_of(moments - [0, 1]).tolist() == [0, 4]
    assert period.before() == Period(date(2025, 12, 2), date(2025, 12, 31))


# ------------------------------------------------------------------------------------------------ what counts


@both_databases
def test_a_pair_counts_once_with_its_latest_status(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    for status in ("pursuing", "lost", "won"):
        say(site, ana, mine[0], status)
    say(site, ana, mine[1], "lost")
    say(site, ana, mine[2], "pursuing")
    say(site, ana, mine[3], "not a fit")
    totals = results(site, "max").totals()
    assert counts(totals) == (3, 1, 1, 1)  # won and lost were pursued too
    assert totals.win_rate == 0.5
    assert results(site, "max").open_pipeline()[0] == 1


def test_no_ended_case_has_no_win_rate(site: Site) -> None:
    say(site, site.browser("ana"), site.clients("ana")[0], "pursuing")
    assert results(site, "max").totals().win_rate is None


@both_databases
def test_each_stage_counts_on_its_own_day(site: Site) -> None:
    client = site.clients("ana")[0]
    judge(site, "ana", client, "pursuing", days_ago=40)
    judge(site, "ana", client, "won", days_ago=2)
    assert counts(results(site, "max").totals()) == (0, 1, 0, 0)
    assert counts(results(site, "max").totals(MONTH.before())) == (1, 0, 0, 0)
    quarter = results(site, "max", Period(TODAY - timedelta(days=90), TODAY)).weekly()
    assert [np.flatnonzero(quarter[stage]).tolist() for stage in ("pursued", "won")] == [[7], [12]]


@both_databases
def test_what_is_read_later_is_the_same_as_what_is_read_at_once(site: Site) -> None:
    """The log goes on from where it stopped, and rows that another process stores late are not missed."""
    client, other = site.clients("ana")[:2]
    judge(site, "ana", client, "won", id=10)
    assert counts(results(site, "max").totals()) == (1, 1, 0, 0)
    judge(site, "ana", client, "lost", id=12)
    judge(site, "ana", other, "won", id=5)
    judge(site, "ana", client, "won", id=11)  # before the loss
    assert counts(results(site, "max").totals()) == (2, 1, 1, 0)
    whole = outcomes.OutcomeLog(site.database).read().pairs
    assert sorted(whole["id"].tolist()) == [5, 12]


def test_many_pairs_are_counted(site: Site) -> None:
    with site.database.writing() as transaction:
        ana = site.visitor("ana").user.id
        transaction.add_all(
            Feedback(client=f"c{n}", product="p", user_id=ana, status="won", model="m", confidence=0.1, label="")
            for n in range(3000)
        )
    assert results(site, "max").totals().won == 3000


# ------------------------------------------------------------------------------------------------ money


def test_money_is_what_was_entered_or_else_the_typical_price(site: Site) -> None:
    mine, values = site.clients("ana"), site.services.served.opportunities.expected_values
    item = int(np.flatnonzero(np.isfinite(values.prices))[0])
    product = str(site.interactions.item_labels[item])
    judge(site, "ana", mine[0], "won", product=product, amount=1234.0)
    assert results(site, "max").totals().money == 1234.0
    assert not results(site, "max").totals().estimated
    judge(site, "ana", mine[1], "won", product=product)
    typical = float(values.prices[item] * values.quantities[item])
    totals = results(site, "max").totals()
    assert totals.money == pytest.approx(1234.0 + typical)
    assert totals.estimated
    found = results(site, "max")
    assert sum(found.weekly()["money"]) == pytest.approx(totals.money)
    rows = {row.client: row for row in found.rows(found.select("won"))}
    assert [rows[client].estimated for client in mine[:2]] == [False, True]
    assert rows[mine[1]].amount == pytest.approx(typical)


# ------------------------------------------------------------------------------------------------ shown


@both_databases
def test_what_a_seller_is_shown_is_noted_once_and_in_the_background(site: Site) -> None:
    served, shown = site.services.served, site.services.shown
    pairs = [(client, site.open_product(client)) for client in site.clients("ana")[:3]]
    shown.note(site.visitor("max"), pairs, served)  # only looks on
    shown.flush()
    assert site.count(Shown) == 0
    shown.note(site.visitor("ana"), pairs, served)
    shown.flush()
    site.services.shown._known.clear()  # as after a restart
    shown.note(site.visitor("ben"), pairs, served)
    shown.flush()
    with site.database.reading() as transaction:
        rows = list(transaction.scalars(select(Shown)))
    assert {row.pair for row in rows} == {pair_digest(*pair) for pair in pairs}
    assert {(row.user_id, row.model) for row in rows} == {(site.visitor("ana").user.id, served.version)}
    assert results(site, "max").weekly()["shown"] == [0.0] * 4 + [3.0]
    assert results(site, "max", seller="ben").weekly()["shown"] == [0.0] * 5


def test_whoever_gives_a_status_has_seen_it(site: Site) -> None:
    judge(site, "ana", site.clients("ana")[0], "won")
    assert sum(results(site, "max").weekly()["shown"]) == 1


# ------------------------------------------------------------------------------------------------ whose it is


def test_a_result_counts_for_who_recorded_it(site: Site) -> None:
    mine, root = site.clients("ana")[0], site.browser("root")
    say(site, site.browser("ana"), mine, "won")
    root.assign(f'client,seller\n"{mine}",sue\n')
    assert [results(site, name).totals().won for name in ("ana", "max", "sue", "root")] == [1, 1, 0, 1]
    for name in ("ana", "max"):  # who may not know what became of the client
        page = text_of(site.browser(name).get("/performance/rows", params={"stage": "won"}))
        assert mine not in page
        assert "A client" in page
        assert mine not in site.browser(name).get("/performance.csv").text


def test_what_a_leader_recorded_counts_for_the_clients_seller(site: Site) -> None:
    say(site, site.browser("root"), site.clients("ana")[0], "won")
    say(site, site.browser("max"), label(site.interactions, NOBODYS[0]), "won")
    parts = {part.key: part.totals.won for part in results(site, "root").by_seller()}
    assert parts == {"ana": 1, "max": 1, "ben": 0, "sue": 0}
    assert results(site, "ana").totals().won == 1


@both_databases
def test_one_sees_ones_own_a_team_or_all(site: Site) -> None:
    for name in ("ana", "ben", "sue"):
        say(site, site.browser(name), site.clients(name)[0], "won")
    assert [results(site, name).totals().won for name in ("ana", "max", "root")] == [1, 2, 3]
    assert results(site, "root", team="south").totals().won == 1
    assert results(site, "max", seller="ben").totals().won == 1
    assert results(site, "max", team="south").totals().won == 0
    assert results(site, "ana", seller="ben").totals().won == 0
    assert {part.key for part in results(site, "max").by_seller()} == {"ana", "ben"}
    for name in ("ana", "max"):
        browser = site.browser(name)
        for path in ("/performance", "/performance/rows", "/performance.csv"):
            for fields in ({}, {"seller": "sue"}, {"team": "south"}):
                page = text_of(browser.get(path, params=fields))
                assert "Sue Example" not in page
                assert site.clients("sue")[0] not in page


# ------------------------------------------------------------------------------------------------ by pattern and reason


def test_a_pattern_is_one_whatever_model_named_it(site: Site) -> None:
    mine = site.clients("ana")
    for n, (model, number, name) in enumerate([("old", 1, "Pumps"), ("new", 4, "Pumps"), ("new", 1, "Sails")]):
        judge(site, "ana", mine[n], "won", model=model, pattern=number, label=name)
    judge(site, "ana", mine[3], "lost", label="")
    parts = {part.name: counts(part.totals) for part in results(site, "max").by_pattern()}
    assert parts == {"Pumps": (2, 2, 0, 0), "Sails": (1, 1, 0, 0), "Bestseller": (1, 0, 1, 0)}


def test_a_renamed_pattern_keeps_its_results(site: Site) -> None:
    mine, news = site.clients("ana"), site.services.news
    today = next(iter(site.services.served.patterns.values())).label
    news.wait()
    news._renamed = {"First": "Second", "Second": today, "A": "B", "B": "A"}
    for n, name in enumerate(["First", "Second", today, "A"]):
        judge(site, "ana", mine[n], "won", label=name)
    parts = {part.name: part.totals.won for part in results(site, "max").by_pattern()}
    assert parts[today] == 3
    assert sum(parts.values()) == 4


def test_reasons_of_what_was_refused_are_counted(site: Site) -> None:
    mine = site.clients("ana")
    for n, reason in enumerate(["Too expensive", "too expensive", "Competitor", ""]):
        judge(site, "ana", mine[n], ("lost", "not a fit")[n % 2], reason=reason)
    judge(site, "ana", mine[5], "won", reason="Nice people")
    found = results(site, "max")
    assert found.refusals() == [("Too expensive", 2), ("Competitor", 1), ("No reason given", 1)]
    assert len(found.select("refused", reason="Too expensive")) == 2


def test_rare_reasons_are_together_and_can_be_listed(site: Site) -> None:
    for n, client in enumerate(site.clients("ana")):
        judge(site, "ana", client, "lost", reason=f"Reason {n:02d}")
    found = results(site, "max")
    assert found.refusals()[-1] == ("Other reasons", 8)
    assert len(found.refusals()) == 8
    assert len(found.select("refused", reason="Other reasons")) == 8


# ------------------------------------------------------------------------------------------------ pages


def links(page: str, start: str) -> list[str]:
    return [text.replace("&amp;", "&") for text in re.findall(rf'href="({re.escape(start)}[^"]*)"', page)]


def test_every_number_leads_to_as_many_rows(site: Site) -> None:
    for n, client in enumerate(site.clients("ana")):
        status = ("won", "lost", "pursuing", "not a fit")[n % 4]
        judge(
            site,
            "ana",
            client,
            status,
            days_ago=n,
            reason=("Competitor", "")[n % 2],
            label=("Pumps", "")[n % 2],
            amount=9,
        )
    browser = site.browser("max")
    page = browser.get("/performance").text
    opened = {link: text_of(browser.get(link)) for link in links(page, "/performance/rows")}
    assert len(opened) > 10
    for link, text in opened.items():
        found = re.search(r"([\d,]+) recommendations?", text)
        assert found is not None
        n_rows = max(0, len(rows_of(text)) - 1)
        assert int(found[1]) == n_rows
        assert n_rows > 0 or "seller=ben" in link
    stage = next(text for link, text in opened.items() if link.endswith("stage=won"))
    assert len(rows_of(stage)) - 1 == results(site, "max", Period(TODAY - timedelta(days=90), TODAY)).totals().won
    by_week = [text for link, text in opened.items() if "week=" in link and "stage=won" in link]
    assert sum(len(rows_of(text)) - 1 for text in by_week) == len(rows_of(stage)) - 1


def test_rows_come_in_pages_and_as_a_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.web.routes.performance.PAGE_LENGTH", 4)
    for n, client in enumerate(site.clients("ana")):
        judge(site, "ana", client, "won", days_ago=n, amount=100.0 + n)
    browser, seen = site.browser("max"), []
    for page in (1, 2, 3, 4, 5):  # after the last page comes the last page
        text = text_of(browser.get("/performance/rows", params={"stage": "won", "page": page}))
        seen.append([row[0] for row in rows_of(text)][1:])
    assert seen[3] == seen[4]
    assert [client for part in seen[:4] for client in part] == site.clients("ana")
    file = browser.get("/performance.csv", params={"stage": "won"}).text.removeprefix("\ufeff")
    rows = list(csv.DictReader(io.StringIO(file)))
    assert [(row["client"], row["amount"], row["seller"]) for row in rows][:2] == [
        (site.clients("ana")[0], "100.00", "Ana Example"), (site.clients("ana")[1], "101.00", "Ana Example"),
    ]  # fmt: skip
    assert [entry.name for entry in site.audited("performance exported")] == ["max"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"period": "30"}, 200),
        ({"period": "year"}, 200),
        ({"since": "2026-01-01", "until": "2026-02-01"}, 200),
        ({"since": "2026-02-01", "until": "2026-01-01"}, 400),
        ({"since": "1000-01-01"}, 400),
        ({"until": "1000-01-01"}, 400),
        ({"until": "0001-01-01"}, 400),
        ({"until": "9999-12-31", "since": "9999-12-01"}, 400),
        ({"since": "yesterday"}, 400),
        ({"period": "century"}, 422),
        ({"seller": "nobody", "team": "nowhere"}, 200),
    ],
)
def test_a_period_that_cannot_be_is_one_line(site: Site, fields: dict[str, str], status: int) -> None:
    browser: Browser = site.browser("max")
    for path in ("/performance", "/performance/rows", "/performance.csv"):
        assert browser.get(path, params=fields).status_code == status


def test_without_any_activity_the_page_says_what_would_fill_it(site: Site) -> None:
    for name in ("ana", "max", "root"):
        assert "No activity in this period" in site.browser(name).get("/performance").text


def test_a_client_and_a_product_that_the_model_no_longer_has_still_count(site: Site) -> None:
    judge(site, "ana", "Long Gone Ltd", "won", product="Gone too", amount=50.0)
    site.change(update(Feedback).values(label="<script>alert(1)</script>"))
    found = results(site, "root")
    assert found.totals().money == 50.0
    (row,) = found.rows(found.select("won"))
    assert (row.client, row.product_name) == ("Long Gone Ltd", "Gone too")
    (hidden,) = results(site, "ana").rows(results(site, "ana").select("won"))
    assert hidden.client is None
    assert "<script>alert" not in site.browser("root").get("/performance").text


@both_databases
def test_a_restored_database_is_read_anew(site: Site) -> None:
    client, other = site.clients("ana")[:2]
    log = outcomes.OutcomeLog(site.database)
    judge(site, "ana", client, "won", id=7)
    assert log.read().pairs["id"].tolist() == [7]
    with site.database.writing() as transaction:
        transaction.execute(delete(Feedback))
    assert not len(log.read().pairs)
    judge(site, "ana", client, "won", id=7)
    log.read()
    with site.database.writing() as transaction:
        transaction.execute(delete(Feedback))
    judge(site, "ana", other, "lost", id=7)
    found = log.read()
    assert [found.texts[place] for place in found.pairs["client"]] == [other]
