"""What people say of recommendations: kept for good, and counted."""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Callable
from datetime import timedelta

import pytest
from sites import PASSWORD, Site, both_databases, rows_of, say, text_of
from sqlalchemy import delete, select

from ocular.feedback import Status
from ocular.web import feedback
from ocular.web.app import create_app
from ocular.web.database import DatabaseError
from ocular.web.tables import Feedback, Session, now

OpenSite = Callable[..., Site]
TODAY = now().date()


def kept(site: Site) -> list[Feedback]:
    with site.database.reading() as transaction:
        return list(transaction.scalars(select(Feedback).order_by(Feedback.id)))


@both_databases
@pytest.mark.parametrize("status", list(Status))
def test_a_status_is_kept_with_everything_around_it(site: Site, status: Status) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    later = {"due": str(TODAY + timedelta(7))} if status == "snoozed" else {}
    product = say(site, browser, client, status, reason=" Too expensive ", note="Ruft im März an ✓", **later)
    found = site.services.served.advisor.explain(client, product)
    (row,) = kept(site)
    assert (row.client, row.product, row.status) == (client, product, status)
    assert (row.reason, row.note, row.user.name) == ("Too expensive", "Ruft im März an ✓", "ana")
    assert row.model == site.services.served.version
    assert row.confidence == pytest.approx(found.confidence)
    assert row.pattern == found.explanation.reasons[0].cocluster
    assert [(e.name, e.subject) for e in site.audited(f"feedback: {status}")] == [("ana", f"{client} · {product}")]
    page = text_of(browser.get("/recommendation", params={"client": client, "product": product}))
    for shown in (status, "Too expensive", "Ruft im März an ✓", "Ana Example"):
        assert shown in page


@both_databases
def test_nothing_is_overwritten_and_the_latest_word_stands(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    for status in ("pursuing", "lost", "won"):
        product = say(site, browser, client, status)
    assert [row.status for row in kept(site)] == ["pursuing", "lost", "won"]
    assert {p: row.status for p, row in feedback.latest_by_product(site.database, client).items()} == {product: "won"}
    assert [row.status for row in feedback.feedback_on(site.database, client, product)] == ["won", "lost", "pursuing"]
    tags = browser.get("/client", params={"name": client}).text.split('<span class="tag ')[1:]
    assert [tag.partition('"')[0] for tag in tags] == ["won"]


@both_databases
def test_what_is_decided_leaves_the_list_and_comes_back_when_taken_up_again(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")

    def best() -> tuple[str, int]:
        (row,) = [row for row in rows_of(browser.get("/accounts", params={"search": client}).text) if row[0] == client]
        return row[1], int(row[4])

    first, how_many = best()
    for status, there in (
        ("pursuing", True), ("not a fit", False), ("pursuing", True), ("won", False), ("lost", False),
        ("pursuing", True),
    ):  # fmt: skip
        browser.submit("/feedback", client=client, product=first, status=status)
        product, now_open = best()
        assert (product == first) == there
        assert now_open == how_many - (not there)


def test_a_client_with_everything_decided_says_so(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    for place in range(10):
        say(site, browser, client, "not a fit", place=place)
    (row,) = [row for row in rows_of(browser.get("/accounts", params={"search": client}).text) if row[0] == client]
    assert row[1:5] == ["No open recommendations", "", "–", "0"]


@pytest.mark.parametrize(
    ("back", "place"), [("client", "/client?name="), ("recommendation", "/recommendation?client=")]
)
def test_one_returns_to_the_page_where_the_feedback_was_given(site: Site, back: str, place: str) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    fields = {"client": client, "product": site.open_product(client), "status": "won"}
    answer = browser.submit("/feedback", **fields, back=back)
    assert answer.headers["location"].startswith(place)
    assert browser.get(answer.headers["location"]).status_code == 200
    assert browser.submit("/feedback", **fields, back="//evil.example").status_code == 422


def test_a_product_that_the_client_has_is_not_worth_pursuing(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    product = str(site.interactions.item_labels[site.interactions.by_user[0][0]])
    answer = browser.submit("/feedback", client=client, product=product, status="pursuing")
    assert answer.status_code == 409
    assert "already owns this product" in answer.text
    assert site.count(Feedback) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "great"},
        {"status": ""},
        {"product": "no such product"},
        {"note": "x" * 4001},
        {"reason": "x" * 501},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_feedback_that_can_not_be_kept_is_refused(site: Site, wrong: dict[str, str]) -> None:
    client = site.clients("ana")[0]
    fields = {"client": client, "product": site.open_product(client), "status": "won"} | wrong
    assert site.browser("ana").submit("/feedback", **fields).status_code in {404, 422}
    assert site.count(Feedback) == 0


@both_databases
def test_the_team_page_lists_what_stands(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    say(site, ana, mine[0], "lost")
    say(site, ana, mine[0], "won")  # in place of the loss
    say(site, ana, mine[1], "won", reason="a good call")
    say(site, site.browser("sue"), site.clients("sue")[0], "won")
    for name in ("max", "root"):
        assert (site.clients("sue")[0] in text_of(site.browser(name).get("/team"))) == (name == "root")
    listed = [[row[0], row[2], row[5]] for row in rows_of(site.browser("max").get("/team").text) if len(row) == 6][1:]
    assert listed == [[mine[1], "Won", "a good call"], [mine[0], "Won", ""]]


# ------------------------------------------------------------------------------------------------ dates and amounts


@both_databases
def test_a_date_and_an_amount_are_kept_where_the_status_has_a_use_for_them(site: Site) -> None:
    ana, mine, day = site.browser("ana"), site.clients("ana"), TODAY + timedelta(5)
    for client, status in zip(mine, Status, strict=False):
        say(site, ana, client, status, due=str(day), amount="4,708")
    assert {row.status: (row.due, row.amount) for row in kept(site)} == {
        "pursuing": (day, None), "snoozed": (day, None), "not a fit": (None, None), "won": (None, 4708.0),
        "lost": (None, None),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "amount"), [("4708.50", 4708.5), ("1,234,567.8", 1234567.8), ("0", 0.0), (" ", None), (" 4708 ", 4708.0)]
)
def test_amounts_are_read_as_people_write_them(site: Site, typed: str, amount: float | None) -> None:
    say(site, site.browser("ana"), site.clients("ana")[0], "won", amount=typed)
    assert [row.amount for row in kept(site)] == [amount]


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"status": "won", "amount": "a lot"}, "Use an amount such as 4,708 or 4708.50, not 'a lot'."),
        ({"status": "won", "amount": "4,70"}, "not '4,70'."),
        ({"status": "won", "amount": "-5"}, "not '-5'."),
        ({"status": "won", "amount": "nan"}, "not 'nan'."),
        ({"status": "won", "amount": "9" * 14}, "Use an amount"),
        ({"status": "snoozed"}, "Choose a day after today to snooze a recommendation."),
        ({"status": "snoozed", "due": str(TODAY)}, "Choose a day after today to snooze a recommendation."),
        ({"status": "pursuing", "due": "2020-01-01"}, "Choose today or a later day for a follow-up, not 2020-01-01."),
        ({"status": "pursuing", "due": "31.3.2030"}, "Use a date such as 2025-03-31, not '31.3.2030'."),
        ({"status": "pursuing", "due": "<b>"}, "not '<b>'."),
    ],
    ids=lambda given: "-".join(given.values()) if isinstance(given, dict) else None,
)
def test_a_wrong_date_or_amount_is_shown_again_with_one_line(site: Site, wrong: dict[str, str], line: str) -> None:
    client = site.clients("ana")[0]
    fields = {"client": client, "product": site.open_product(client), "note": "called", "reason": "No need"}
    page = site.browser("ana").submit("/feedback", **fields | wrong)
    assert page.status_code == 422
    assert line in text_of(page).partition('role="alert"')[2].partition("</p>")[0]
    assert site.count(Feedback) == 0
    assert f'value="{wrong["status"]}" checked' in page.text
    assert 'value="No need" checked' in page.text
    for name, typed in wrong.items():
        assert name == "status" or f'name="{name}" value="{html.escape(typed)}"' in page.text
    assert ">called</textarea>" in page.text


def test_programs_give_dates_and_amounts(site: Site) -> None:
    program, mine, day = site.program("ana"), site.clients("ana"), str(TODAY + timedelta(5))
    pairs = [{"client": client, "product": site.open_product(client)} for client in mine]
    given: list[dict[str, object]] = [{"status": "snoozed", "due": day}, {"status": "won", "amount": 4708.5}]
    for pair, more in zip(pairs, given, strict=False):
        assert program.post("/api/v1/feedback", json=pair | more).status_code == 201
    rows = site.program("max").get("/api/v1/feedback").json()
    assert [(row["status"], row["due"], row["amount"]) for row in rows] == [
        ("snoozed", day, None),
        ("won", None, 4708.5),
    ]
    for wrong in ({"status": "snoozed"}, {"status": "won", "amount": -1}, {"status": "pursuing", "due": "soon"}):
        answer = program.post("/api/v1/feedback", json=pairs[3] | wrong)
        assert answer.status_code == 422
        assert list(answer.json()) == ["error"]


@both_databases
def test_a_date_outlives_the_session_too(site: Site) -> None:
    client, browser, day = site.clients("ana")[0], site.browser("ana"), str(TODAY + timedelta(5))
    written = {"client": client, "product": site.open_product(client), "status": "snoozed", "back": "today"}
    _ = browser.csrf
    site.change(delete(Session))
    page = browser.submit("/feedback", **written, due=[day, ""])  # a button, and an empty field beside it
    page = browser.post("/sign-in", data=hidden(page.text) | {"name": "ana", "password": PASSWORD})
    assert f'name="due" value="{day}"' in page.text
    form = hidden(page.text.partition('action="/feedback"')[2])
    answer = browser.post("/feedback", data=form | {"status": "snoozed", "due": day})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert [(row.status, str(row.due)) for row in kept(site)] == [("snoozed", day)]


# ------------------------------------------------------------------------------------------------ whose it is


@both_databases
def test_what_was_said_of_a_client_is_read_by_who_has_it_now(site: Site) -> None:
    mine, root = site.clients("ana")[0], site.browser("root")
    say(site, site.browser("ana"), mine, "won")
    assert mine in text_of(site.browser("max").get("/team"))
    root.assign(f'client,seller\n"{mine}",sue\n')
    assert mine not in text_of(site.browser("max").get("/team"))
    assert len(site.browser("max").get("/team/feedback.csv").text.splitlines()) == 1
    assert site.program("max").get("/api/v1/feedback").json() == []


def test_only_the_latest_words_are_listed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.web.routes.team.MAX_LATEST", 2)
    for client in site.clients("ana")[:3]:
        say(site, site.browser("ana"), client, "won")
    listed = [row[0] for row in rows_of(site.browser("max").get("/team").text) if len(row) == 6][1:]
    assert listed == site.clients("ana")[1:3][::-1]


# ------------------------------------------------------------------------------------------------ nothing is lost


@both_databases
def test_a_note_outlives_the_session_it_was_written_in(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    note = 'Ruft "im März" an\r\n<b>✓</b>'
    written = {"client": client, "product": site.open_product(client), "status": "lost", "reason": "Too expensive",
               "note": note, "back": "client"}  # fmt: skip
    _ = browser.csrf
    site.change(delete(Session))
    page = browser.submit("/feedback", **written)
    assert page.status_code == 401
    assert "Session expired; your text is saved. Sign in to continue." in page.text
    fields = hidden(page.text)
    assert not fields.get("csrf")
    again = browser.post("/sign-in", data=fields | {"name": "ana", "password": "not this one"})
    assert again.status_code == 401
    assert hidden(again.text) == fields
    page = browser.post("/sign-in", data=fields | {"name": "ana", "password": PASSWORD})
    assert page.status_code == 200
    assert "Not saved: save again" in page.text
    assert site.count(Feedback) == 0
    assert 'value="lost" checked' in page.text
    assert 'name="reason" value="Too expensive" checked' in page.text
    assert f">{note}</textarea>" in text_of(page)
    form = hidden(page.text.partition('action="/feedback"')[2])
    answer = browser.post("/feedback", data=form | {"status": "lost", "reason": "Too expensive", "note": note})
    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/client")
    assert [(row.status, row.note) for row in kept(site)] == [("lost", note)]


def test_a_note_with_an_old_form_is_shown_again(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    written = {"client": client, "product": site.open_product(client), "status": "won", "note": "called"}
    page = browser.post("/feedback", data=written | {"csrf": "of another session"})
    assert page.status_code == 403
    assert ">called</textarea>" in page.text
    assert site.count(Feedback) == 0
    form = hidden(page.text.partition('action="/feedback"')[2])
    assert browser.post("/feedback", data=form | {"status": "won", "note": "called"}).status_code == 303


def test_a_note_that_the_database_could_not_keep_is_shown_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DatabaseError("the database does not answer")

    client, browser = site.clients("ana")[0], site.browser("ana")
    fields = {"client": client, "product": site.open_product(client), "status": "won", "note": "called"}
    _ = browser.csrf
    monkeypatch.setattr(feedback, "save_feedback", broken)
    page = browser.submit("/feedback", **fields)
    assert (page.status_code, page.headers["retry-after"]) == (503, "5")
    assert ">called</textarea>" in page.text


def test_signing_in_without_a_note_shows_none(site: Site) -> None:
    answer = site.stranger().post("/sign-in", data={"name": "ana", "password": PASSWORD, "note": "x"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def hidden(page: str) -> dict[str, str]:
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page, re.DOTALL)
    return {name: html.unescape(value) for name, value in found}


@both_databases
def test_what_was_acknowledged_survives_an_application_that_never_closed(site: Site) -> None:
    client = site.clients("ana")[0]
    product = say(site, site.browser("ana"), client, "pursuing", note="first")
    number = site.program("ana").post(
        "/api/v1/feedback", json={"client": client, "product": product, "status": "won"}
    ).json()["id"]  # fmt: skip
    again = create_app(site.settings).state.services.database  # the first one is still open
    rows = feedback.feedback_on(again, client, product)
    assert [(row.status, row.note) for row in rows] == [("won", ""), ("pursuing", "first")]
    assert rows[0].id == number
    again.close()


def test_an_answer_of_sqlite_means_that_it_is_on_the_disk(site: Site) -> None:
    with site.database.writing() as transaction:
        raw = transaction.connection().connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        assert raw.execute("pragma synchronous").fetchone() == (2,)  # FULL
        assert raw.execute("pragma journal_mode").fetchone() == ("wal",)


@both_databases
def test_feedback_that_fails_half_way_leaves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no audit, no feedback")

    browser, client = site.browser("ana"), site.clients("ana")[0]
    fields = {"client": client, "product": site.open_product(client), "status": "won", "csrf": browser.csrf}
    monkeypatch.setattr(feedback, "audit", broken)
    assert browser.post("/feedback", data=fields).status_code == 500
    assert site.count(Feedback) == 0
