"""What people said of recommendations, handed out as a file and to programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sites import Browser, Site, both_databases, label, say
from sqlalchemy import select

from ocular.evaluation.feedback import read_feedback
from ocular.web.feedback import COLUMNS
from ocular.web.tables import Feedback, now

OpenSite = Callable[..., Site]


def exported(browser: Browser) -> list[dict[str, str]]:
    answer = browser.get("/team/feedback.csv")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="feedback.csv"'
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " ="])
def test_a_spreadsheet_runs_nothing_of_the_export(site: Site, start: str) -> None:
    bad = f'{start}HYPERLINK("http://evil.example")'
    with site.database.writing() as transaction:
        user = site.visitor("ana").user
        transaction.add(Feedback(client=bad, product=bad, user_id=user.id, status="won", reason=bad, note=bad,
                                 model=bad, confidence=0.5, pattern=None))  # fmt: skip
    (row,) = exported(site.browser("max"))
    for name in ("client", "product", "reason", "note", "model"):
        assert row[name] == f"'{bad}"
    assert row["confidence"] == "0.5"


@both_databases
def test_the_export_is_all_that_was_ever_said(site: Site) -> None:
    ana, sue = site.browser("ana"), site.browser("sue")
    mine, theirs = site.clients("ana")[0], site.clients("sue")[0]
    note = 'a "quoted", long\r\nnote; ü'
    product = say(site, ana, mine, "pursuing", note=note)
    say(site, ana, mine, "won")
    say(site, sue, theirs, "lost")
    rows = exported(site.browser("root"))
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["client"], row["status"], row["seller"], row["team"]) for row in rows] == [
        (mine, "pursuing", "ana", "north"), (mine, "won", "ana", "north"), (theirs, "lost", "sue", "south"),
    ]  # fmt: skip
    assert (rows[0]["product"], rows[0]["note"]) == (product, note)
    assert {row["model"] for row in rows} == {site.services.served.version}
    assert exported(site.browser("max")) == rows[:2]
    programs = {name: site.program(name).get("/api/v1/feedback").json() for name in ("root", "max")}
    told = [{key: "" if value is None else str(value) for key, value in row.items()} for row in programs["root"]]
    assert [{name: row[name] for name in COLUMNS} for row in told] == rows
    assert programs["max"] == programs["root"][:2]


@both_databases
def test_a_long_export_is_complete(site: Site) -> None:
    with site.database.writing() as transaction:
        user = transaction.scalars(select(Feedback.user_id)).first() or 1
        transaction.add_all(
            Feedback(client=f"c{n}", product="p", user_id=user, status="won", model="m", confidence=0.5, pattern=n)
            for n in range(1100)
        )
    assert [row["client"] for row in exported(site.browser("root"))] == [f"c{n}" for n in range(1100)]


def test_the_export_feeds_the_next_evaluation(site: Site, tmp_path: Path) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    say(site, ana, mine[0], "won", amount="4,708")
    say(site, ana, mine[1], "lost")
    say(site, ana, mine[2], "pursuing")
    say(site, ana, mine[2], "snoozed", due=str(now().date() + timedelta(7)))  # neither taken up nor refused
    path = tmp_path / "feedback.csv"
    path.write_bytes(site.browser("max").get("/team/feedback.csv").content)
    assert path.read_bytes().startswith("\ufeff".encode())  # Excel knows by it that it is UTF-8
    pairs = read_feedback(path, site.interactions)
    assert [label(site.interactions, user) for user in pairs.users] == mine[:2]
    assert pairs.taken_up.tolist() == [True, False]
    assert pairs.n_unknown == 0
