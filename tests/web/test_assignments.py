"""Assignments from a CSV file: looked at first, then all of it or nothing."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from sites import NOBODYS, Site, both_databases, label, text_of
from sqlalchemy import delete, event
from sqlalchemy.exc import IntegrityError

from ocular import Interactions, OCuLaR
from ocular.web import uploads, users
from ocular.web.assignments import Preview
from ocular.web.database import DatabaseError, lock
from ocular.web.errors import NotFoundError
from ocular.web.tables import Assignment, User

OpenSite = Callable[..., Site]


def errors(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 422
    return re.findall(r"<li>(.*?)</li>", text_of(answer), re.DOTALL)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@both_databases
def test_a_preview_changes_nothing_and_the_button_all(site: Site) -> None:
    mine, free = site.clients("ana"), label(site.interactions, NOBODYS[0])
    before = site.owners()
    lines = [f"{quoted(mine[0])},BEN", f"{quoted(mine[1])},ana", f"{quoted(mine[2])},", f"{quoted(free)}, ana "]
    browser = site.browser("max")
    content = "\n".join(["Client , SELLER", *lines, "", " , "])
    page = browser.preview(content)
    assert page.status_code == 200
    assert re.findall(r"<dt>(\w+)</dt><dd>(\d+)</dd>", page.text) == [
        ("New", "1"), ("Reassigned", "1"), ("Unassigned", "1"), ("Unchanged", "1"),
    ]  # fmt: skip
    assert site.owners() == before
    assert site.audited("assignments imported") == []
    answer = browser.confirm(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/team")
    after = before | {mine[0]: "ben", free: "ana"}
    del after[mine[2]]
    assert site.owners() == after
    (entry,) = site.audited("assignments imported")
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    file = f"clients.csv, {len(content.encode())} bytes, sha256 {digest}"
    assert (entry.name, entry.subject) == ("max", f"1 new, 1 changed, 1 freed; {file}")


def test_freed_clients_are_the_managers_and_no_sellers(site: Site) -> None:
    client, max_ = site.clients("ana")[0], site.browser("max")
    max_.assign(f"client,seller\n{quoted(client)},\n")
    statuses = [site.browser(name).get("/client", params={"name": client}).status_code for name in ("ana", "max")]
    assert statuses == [404, 200]


def test_columns_may_stand_in_either_order_and_after_a_mark(site: Site) -> None:
    client = site.clients("ana")[0]
    browser = site.browser("max")
    page = browser.preview(f"seller;client\nben;{client}\n".replace(";", ",").encode("utf-8-sig"))
    assert browser.confirm(page).status_code == 303
    assert site.owners()[client] == "ben"


@both_databases
def test_every_mistake_is_told_with_its_line_and_nothing_is_changed(site: Site) -> None:
    mine, theirs, before = site.clients("ana"), site.clients("sue")[0], site.owners()
    lines = [
        "client,seller",
        f"{quoted(mine[0])},ben",
        "Unknown & Co,ana",
        f"{quoted(mine[1])},nobody",
        f"{quoted(mine[2])},sue",
        f"{quoted(theirs)},ana",
        "",
        f"{quoted(mine[0])},ana",
        f"{quoted(mine[3])},ana,more",
        quoted(mine[4]),
        f"{quoted(mine[5])},max",
    ]
    content = "\n".join(lines)
    browser = site.browser("max")
    assert errors(browser.preview(content)) == [
        "Line 3: Client not found: 'Unknown & Co'",
        "Line 4: Seller not found in your team: 'nobody'",
        "Line 5: Seller not found in your team: 'sue'",
        f"Line 6: Client not found: {theirs!r}",
        f"Line 8: Duplicate client {mine[0]!r}",
        "Line 9: expected 2 cells, got 3",
        "Line 10: expected 2 cells, got 1",
        "Line 11: Seller not found in your team: 'max'",
    ]
    assert 'name="key"' not in browser.preview(content).text  # nothing to press
    assert site.owners() == before


@both_databases
def test_an_administrator_moves_clients_between_teams(site: Site) -> None:
    mine, theirs = site.clients("ana")[0], site.clients("sue")[0]
    content = f"client,seller\n{quoted(mine)},sue\n{quoted(theirs)},ana\n"
    assert site.browser("root").assign(content).status_code == 303
    assert (site.owners()[mine], site.owners()[theirs]) == ("sue", "ana")


@both_databases
def test_a_file_is_read_again_after_the_preview(site: Site) -> None:
    """What was right when it was looked at may not be any more."""
    free = label(site.interactions, NOBODYS[0])
    browser, content = site.browser("max"), f"client,seller\n{quoted(free)},ana\n"
    page = browser.preview(content)
    site.browser("root").assign(f"client,seller\n{quoted(free)},sue\n")
    answer = browser.confirm(page)
    assert answer.status_code == 409
    assert "othing was changed. Line 2: Client not found" in answer.text
    assert site.owners()[free] == "sue"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "Line 1: expected the columns client and seller, got "),
        ("client|seller\nx|ana\n", "Line 1: expected the columns client and seller, got client|seller"),
        ("client,seller,team\n", "Line 1: expected the columns client and seller, got client, seller, team"),
        ("client,client\n", "Line 1: expected the columns client and seller, got client, client"),
        ("client,seller\n" + "x" * 200_000 + ",ana\n", "Line 2: field larger than field limit (131072)"),
        ("client,seller\n<b>bold</b>,ana\n", "Line 2: Client not found: '<b>bold</b>'"),
    ],
    ids=["empty", "bars", "more", "twice", "endless", "markup"],
)
def test_another_file_is_refused(site: Site, content: str, told: str) -> None:
    answer = site.browser("max").preview(content)
    assert [error.strip() for error in errors(answer)] == [told.strip()]
    assert "<b>" not in answer.text


@pytest.mark.parametrize(
    "content", ["client,seller\nGrünbach,ana".encode("latin-1"), b"PK\x03\x04\xff\xfe", b"\xff\xfec\0"]
)
def test_other_bytes_than_utf_8_are_refused(site: Site, content: bytes) -> None:
    answer = site.browser("max").preview(content)
    assert answer.status_code == 400
    assert "The file is not in UTF-8; save it as CSV UTF-8" in answer.text


def test_many_mistakes_are_cut_short(site: Site) -> None:
    answer = site.browser("max").preview("client,seller\n" + "nobody,ana\n" * 70)
    assert len(errors(answer)) == 50
    assert "70 lines have errors" in answer.text
    assert "+20 more" in answer.text


def test_a_file_that_can_be_looked_at_can_be_kept(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("max")
    page = browser.preview(f"client,seller\n{quoted(client)},ben\n" + " , \n" * 200_000)
    assert page.status_code == 200
    assert browser.confirm(page).status_code == 303
    assert site.owners()[client] == "ben"


@both_databases
def test_a_seller_who_is_gone_in_the_meantime_undoes_the_whole_file(site: Site) -> None:
    mine, before, root = site.clients("ana"), site.owners(), site.browser("root")
    root.submit("/admin/users", name="gone", role="seller", team="north", password="a long password")
    lines = [*(f"{quoted(client)},ben" for client in mine[:5]), f"{quoted(mine[5])},gone"]
    browser = site.browser("max")
    page = browser.preview("\n".join(["client,seller", *lines]))
    assert page.status_code == 200
    site.change(delete(User).where(User.name == "gone"))
    answer = browser.confirm(page)
    assert answer.status_code == 409
    assert "nothing was changed. line 7: seller not found in your team: 'gone'" in text_of(answer).lower()
    assert site.owners() == before


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_files_of_any_spreadsheet_are_read(site: Site, delimiter: str) -> None:
    client = site.clients("ana")[0]
    assert site.browser("max").assign(f"client{delimiter}seller\n{quoted(client)}{delimiter}ben\n").status_code == 303
    assert site.owners()[client] == "ben"


@both_databases
def test_assignments_are_exported_as_they_can_be_read_in_again(site: Site) -> None:
    max_ = site.browser("max")
    answer = max_.get("/team/assignments.csv")
    assert answer.content.startswith("\ufeff".encode())
    rows = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))
    mine = {name: owner for name, owner in site.owners().items() if owner in {"ana", "ben"}}
    assert rows[0] == ["client", "seller"]
    assert dict(rows[1:]) == mine
    assert f"<dt>Unchanged</dt><dd>{len(mine)}</dd>" in max_.preview(answer.content).text
    everything = site.browser("root").get("/team/assignments.csv")
    assert len(everything.text.splitlines()) == 1 + len(site.owners())


def test_what_others_have_is_refused_like_what_nobody_has(site: Site) -> None:
    theirs, browser = site.clients("sue")[0], site.browser("max")
    texts = [errors(browser.preview(f"client,seller\n{quoted(name)},ana\n"))[0] for name in (theirs, "No Such AG")]
    assert texts[0].replace(repr(theirs), "") == texts[1].replace("'No Such AG'", "")
    told = errors(site.browser("root").preview("client,seller\nNo Such AG,ana\n"))
    assert told == ["Line 2: Client not found: 'No Such AG'"]


# ------------------------------------------------------------------------------------------------ between two pages


def test_a_look_is_followed_by_a_page_that_can_be_opened_again(site: Site) -> None:
    browser = site.browser("max")
    answer = browser.upload(f"client,seller\n{quoted(site.clients('ana')[0])},ben\n")
    assert (answer.status_code, answer.headers["location"]) == (303, "/team/assignments")
    pages = [browser.get("/team/assignments") for _ in range(2)]
    assert [page.status_code for page in pages] == [200, 200]
    shown = [re.sub(r'name="csrf" value="[^"]+"', "", page.text) for page in pages]
    assert shown[0] == shown[1]
    assert site.browser("root").get("/team/assignments").status_code == 404  # nobody else's
    assert browser.confirm(pages[0]).status_code == 303
    assert browser.get("/team/assignments").headers["location"] == "/team"


@both_databases
def test_the_button_may_be_pressed_twice(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("max")
    page = browser.preview(f"client,seller\n{quoted(client)},ben\n")
    assert [browser.confirm(page).status_code for _ in range(2)] == [303, 303]
    assert site.owners()[client] == "ben"
    assert len(site.audited("assignments imported")) == 1


def test_a_file_that_could_not_be_kept_is_still_there(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client, browser = site.clients("ana")[0], site.browser("max")
    page = browser.preview(f"client,seller\n{quoted(client)},ben\n")

    def broken(*_: object) -> None:
        raise DatabaseError("the database does not answer")

    with monkeypatch.context() as patch:
        patch.setattr("ocular.web.routes.team.save_assignments", broken)
        assert browser.confirm(page).status_code == 503
    assert browser.confirm(page).status_code == 303
    assert site.owners()[client] == "ben"


def test_a_new_file_takes_the_place_of_the_one_before(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("max")
    first = browser.preview(f"client,seller\n{quoted(client)},ben\n")
    browser.preview(f"client,seller\n{quoted(client)},\n")
    answer = browser.confirm(first)
    assert answer.status_code == 404
    assert "Upload expired; choose the file again." in answer.text
    assert site.owners()[client] == "ana"


@both_databases
def test_files_wait_for_a_while_and_only_so_many(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_BYTES", 100)
    kept, other = uploads.Uploads(site.database), uploads.Uploads(site.database)  # as in two processes
    first, second = (kept.store(user, "x.csv", b"x" * 40, Preview()) for user in (1, 2))
    assert [other.find(user) for user in (1, 2)] == [first, second]
    third = kept.store(3, "x.csv", b"x" * 40, Preview())
    with pytest.raises(NotFoundError):
        other.find(1)  # the oldest
    assert [other.find(user) for user in (2, 3)] == [second, third]
    fourth = kept.store(4, "x.csv", b"x" * 200, Preview())  # alone it may be as large as a request
    with site.database.writing() as transaction:
        assert other.take(transaction, fourth) == b"x" * 200
    with site.database.writing() as transaction:
        assert kept.take(transaction, fourth) is None  # once
    assert kept.find(4).done
    with pytest.raises(NotFoundError):
        kept.find(3)
    monkeypatch.setattr(uploads, "MAX_AGE", -1.0)
    kept.store(5, "x.csv", b"x", Preview())
    with pytest.raises(NotFoundError):
        kept.find(5)


@both_databases
def test_many_clients_take_as_many_statements_as_few(site: Site) -> None:
    browser, statements = site.browser("root"), []

    @event.listens_for(site.database._engine, "before_cursor_execute")
    def count(*given: object) -> None:
        statements.append(given[2])

    def taken(clients: list[str], seller: str) -> int:
        page = browser.preview("client,seller\n" + "".join(f"{quoted(client)},{seller}\n" for client in clients))
        statements.clear()
        assert browser.confirm(page).status_code == 303
        return len(statements)

    assert taken(site.clients("ana")[:1], "ben") == taken(site.clients("sue"), "ben")
    assert taken(site.clients("sue"), "ben") < taken(site.clients("sue"), "ana")  # who stays is not written


# ------------------------------------------------------------------------------------------------ two at once


def in_background(action: Callable[[], httpx2.Response]) -> Callable[[], httpx2.Response]:
    """Start it; the result waits for its end."""
    found: list[httpx2.Response] = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()

    def result() -> httpx2.Response:
        thread.join()
        return found[0]

    return result


@both_databases
def test_of_two_imports_the_second_sees_the_first(site: Site) -> None:
    free, browser = label(site.interactions, NOBODYS[0]), site.browser("max")
    page = browser.preview(f"client,seller\n{quoted(free)},ana\n")
    with site.database.writing() as transaction:
        lock(transaction, Assignment)
        transaction.add(Assignment(client=free, user_id=site.visitor("sue").user.id))
        transaction.flush()
        answer = in_background(lambda: browser.confirm(page))
        time.sleep(0.5)
    assert answer().status_code == 409
    assert "Client not found" in answer().text
    assert site.owners()[free] == "sue"


@both_databases
def test_a_name_that_two_take_at_once_is_taken(site: Site) -> None:
    root = site.browser("root")
    _ = root.csrf
    with site.database.writing() as transaction:
        users.add_user(transaction, "new", "seller", "a long password")
        answer = in_background(
            lambda: root.submit("/admin/users", name="new", role="seller", password="another password")
        )
        time.sleep(0.5)
    assert answer().status_code == 400
    assert "Username taken: 'new'" in text_of(answer())
    assert site.count(User) == 6


def test_a_broken_rule_is_a_conflict_of_one_line(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IntegrityError("insert", {}, sqlite3.IntegrityError("UNIQUE constraint failed"))

    browser = site.browser("max")
    page = browser.preview(f"client,seller\n{quoted(site.clients('ana')[0])},ben\n")
    monkeypatch.setattr("ocular.web.routes.team.save_assignments", broken)
    answer = browser.confirm(page)
    assert answer.status_code == 409
    assert "Someone else just changed this; reload and try again." in answer.text


# ------------------------------------------------------------------------------------------------ strange names

STRANGE = ['Comma, "Quote" & Sons', "Two\nLines Ltd", "=1+1", "O'Neil; DROP TABLE users", "שלום בע״מ"]


@pytest.fixture(scope="module")
def strange_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = Interactions.from_pairs(
        [0, 0, 1, 1, 2, 2, 3, 3, 4],
        [0, 1, 0, 1, 0, 2, 1, 2, 0],
        user_labels=STRANGE,
        item_labels=["nut", "saw", "vise"],
    )
    folder = tmp_path_factory.mktemp("strange")
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(history).save(folder / "strange")
    return folder


@both_databases
@pytest.mark.parametrize(
    "client",
    STRANGE,
    ids=range(len(STRANGE)),
)
def test_names_with_commas_quotes_and_line_breaks_arrive(open_site: OpenSite, strange_model: Path, client: str) -> None:
    site = open_site(models=strange_model)
    browser = site.browser("root")
    page = browser.preview(f"client,seller\n{quoted(client)},ana\n")
    assert page.status_code == 200, errors(page)
    answer = browser.confirm(page)
    assert answer.status_code == 303, text_of(answer)
    assert site.owners()[client] == "ana"
    assert site.browser("ana").get("/client", params={"name": client}).status_code == 200


def test_the_line_after_a_name_of_two_lines_is_counted_right(open_site: OpenSite, strange_model: Path) -> None:
    content = f"client,seller\n{quoted(STRANGE[1])},ana\nnobody,ana\n"
    answer = open_site(models=strange_model).browser("root").preview(content)
    assert errors(answer) == ["Line 4: Client not found: 'nobody'"]
