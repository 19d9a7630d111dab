"""My calls: the pipeline by stage, with dates, money, sellers and a file."""

from __future__ import annotations

import csv
import html
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from sites import Browser, Site, both_databases, rows_of, say
from sqlalchemy import update

from ocular.explain.price import money
from ocular.web.tables import Feedback, now

TODAY = now().date()


def listed(browser: Browser, **query: str) -> list[list[str]]:
    answer = browser.get("/calls", params=query)
    assert answer.status_code == 200
    return rows_of(answer.text)[1:]


def stages(browser: Browser, **query: str) -> dict[str, str]:
    """The tiles: name, count and money."""
    page = html.unescape(browser.get("/calls", params=query).text).partition('class="tiles"')[2].partition("</ul>")[0]
    parts = [re.sub(r"<[^>]+>", " ", part).split() for part in re.findall(r"<li>(.*?)</li>", page, re.DOTALL)]
    return {words[0]: " ".join(words[1:]) for words in parts}


def exported(browser: Browser, **query: str) -> list[dict[str, str]]:
    answer = browser.get("/calls.csv", params=query)
    assert answer.headers["content-disposition"] == 'attachment; filename="calls.csv"'
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


def in_days(days: int) -> str:
    return str(TODAY + timedelta(days))


@both_databases
def test_calls_are_what_is_marked_and_not_ended(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    assert "No open opportunities." in ana.get("/calls").text
    first = say(site, ana, mine[0], "pursuing", note="call Mr Ito")
    second = say(site, ana, mine[1], "pursuing")
    say(site, ana, mine[2], "pursuing")
    say(site, ana, mine[2], "not a fit")
    say(site, site.browser("sue"), site.clients("sue")[0], "pursuing")
    rows = listed(ana)
    assert [(row[0], row[1], row[-1]) for row in rows] == [(mine[1], second, ""), (mine[0], first, "call Mr Ito")]
    value = site.worth(site.services.served.advisor.explain(mine[0], first))
    assert rows[1][4] == ("–" if value is None else money(value, site.interactions.currency))
    assert [row[0] for row in listed(site.browser("max"))] == [mine[1], mine[0]]
    assert len(listed(site.browser("root"))) == 3
    site.browser("max").assign(f'client,seller\n"{mine[0]}",ben\n')
    assert [row[0] for row in listed(ana)] == [mine[1]]
    assert [row[0] for row in listed(site.browser("ben"))] == [mine[0]]


@both_databases
def test_stages_count_and_add_up(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    say(site, ana, mine[0], "pursuing", due=in_days(3))
    say(site, ana, mine[1], "snoozed", due=in_days(5))
    say(site, ana, mine[2], "won", amount="4,708")
    say(site, ana, mine[3], "won", amount="1292.40")
    say(site, ana, mine[4], "won")
    say(site, ana, mine[5], "lost", reason="Competitor")
    say(site, ana, mine[6], "lost")
    say(site, ana, mine[7], "not a fit")
    site.change(update(Feedback).where(Feedback.client == mine[6]).values(at=now() - timedelta(91)))
    sign = site.interactions.currency
    found = stages(ana)
    assert {name: text.split()[0] for name, text in found.items() if name in {"Pursuing", "Snoozed"}} == {
        "Pursuing": "1", "Snoozed": "1",
    }  # fmt: skip
    assert found["Won"] == f"in 90 days 3 {money(6000, sign)}"
    assert found["Lost"].startswith("in 90 days 1 ")
    assert [(row[0], row[2]) for row in listed(ana, stage="won")] == [
        (mine[4], "–"), (mine[3], money(1292.4, sign)), (mine[2], money(4708, sign)),
    ]  # fmt: skip
    assert [(row[0], row[-1]) for row in listed(ana, stage="lost")] == [(mine[5], "Competitor")]
    assert [row[0] for row in listed(ana, stage="snoozed")] == [mine[1]]
    assert [row[0] for row in listed(ana, stage="not a fit")] == [mine[0]]  # no stage of its own: the first
    assert ana.get("/calls", params={"stage": "great"}).status_code == 422


def test_what_is_overdue_is_marked_and_the_earliest_comes_first(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    for client, days in zip(mine, (20, 1, 10), strict=False):
        say(site, ana, client, "pursuing", due=in_days(days))
    say(site, ana, mine[3], "pursuing")
    assert [row[0] for row in listed(ana)] == [mine[1], mine[2], mine[0], mine[3]]
    assert "Overdue" not in ana.get("/calls").text
    site.change(update(Feedback).where(Feedback.client == mine[1]).values(due=TODAY - timedelta(1)))
    assert ["Overdue" in row[2] for row in listed(ana)] == [True, False, False, False]
    assert stages(ana)["Pursuing"].endswith("1 overdue")
    site.change(update(Feedback).where(Feedback.client == mine[1]).values(due=TODAY))
    assert "Overdue" not in ana.get("/calls").text


@pytest.mark.parametrize("order", ["value", "added", "client"])
def test_calls_are_ordered_as_asked(site: Site, order: str) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    for client in mine[:6]:
        say(site, ana, client, "pursuing")
    rows = listed(ana, order=order)
    if order == "value":
        figures = [float(re.sub(r"[^\d.]", "", row[4]) or 0) for row in rows]
        assert figures == sorted(figures, reverse=True)
    else:
        expected = mine[:6][::-1] if order == "added" else sorted(mine[:6], key=str.casefold)
        assert [row[0] for row in rows] == expected
    assert ana.get("/calls", params={"order": "size"}).status_code == 422


def test_a_manager_sees_and_chooses_the_seller(site: Site) -> None:
    ana, ben, max_ = site.browser("ana"), site.browser("ben"), site.browser("max")
    say(site, ana, site.clients("ana")[0], "pursuing")
    say(site, ben, site.clients("ben")[0], "pursuing")
    say(site, site.browser("sue"), site.clients("sue")[0], "pursuing")
    say(site, max_, site.clients("ben")[1], "pursuing")  # who has the client counts, not who wrote it
    assert [(row[0], row[5]) for row in listed(max_)] == [
        (site.clients("ben")[1], "Ben Example"), (site.clients("ben")[0], "Ben Example"),
        (site.clients("ana")[0], "Ana Example"),
    ]  # fmt: skip
    assert [row[0] for row in listed(max_, seller="ana")] == [site.clients("ana")[0]]
    assert stages(max_, seller="ana")["Pursuing"].split()[0] == "1"
    assert len(listed(max_, seller="sue")) == 3  # not of the team: all
    assert "Sue Example" not in max_.get("/calls").text
    assert "Seller" not in ana.get("/calls").text


def test_the_file_has_all_stages_and_only_ones_own(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    product = say(site, ana, mine[0], "pursuing", due=in_days(3), note="=1+1")
    say(site, ana, mine[1], "won", amount="500")
    say(site, site.browser("sue"), site.clients("sue")[0], "won")
    rows = exported(ana)
    advised: Any = site.services.served.advisor.explain(mine[0], product)
    assert [(row["stage"], row["client"], row["due"], row["overdue"]) for row in rows] == [
        ("pursuing", mine[0], in_days(3), "no"), ("won", mine[1], "", "no"),
    ]  # fmt: skip
    assert (rows[0]["product"], rows[0]["seller"], rows[0]["note"]) == (product, "ana", "'=1+1")
    assert float(rows[0]["chance"]) == pytest.approx(advised.chance, abs=1e-4)
    assert float(rows[0]["value"]) == pytest.approx(advised.value, abs=0.01)
    assert float(rows[1]["value"]) == 500
    assert len(exported(site.browser("root"))) == 3
    assert [row["client"] for row in exported(site.browser("root"), seller="sue")] == [site.clients("sue")[0]]


def test_a_long_list_is_cut_and_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.web.routes.calls.MAX_CALLS", 2)
    ana = site.browser("ana")
    for client in site.clients("ana")[:3]:
        say(site, ana, client, "pursuing")
    assert len(listed(ana)) == 2
    assert "Showing the first 2 of 3." in ana.get("/calls").text
    assert len(exported(ana)) == 3


def test_a_call_outlives_the_model_that_made_it(site: Site) -> None:
    ana = site.browser("ana")
    say(site, ana, site.clients("ana")[0], "pursuing")
    site.change(update(Feedback).values(product="no longer sold"))
    (row,) = listed(ana)
    assert row[1] == "no longer sold"
    assert (row[3], row[4]) == ("", "–")
