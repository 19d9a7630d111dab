"""Assignments from a CSV file: looked at first, then all of it or nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from sites import NOBODYS, Site, both_databases, label, text_of
from sqlalchemy import delete

from ocular import Interactions, OCuLaR
from ocular.web.tables import User

OpenSite = Callable[..., Site]


def errors(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 422
    return re.findall(r"<li>(.*?)</li>", text_of(answer), re.DOTALL)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@both_databases
def test_a_preview_changes_nothing_and_the_button_all(site: Site) -> None:
    mine, free = site.clients("ana"), label(site.history, NOBODYS[0])
    before = site.owners()
    lines = [f"{quoted(mine[0])},BEN", f"{quoted(mine[1])},ana", f"{quoted(mine[2])},", f"{quoted(free)}, ana "]
    browser = site.browser("max")
    content = "\n".join(["Client , SELLER", *lines, "", " , "])
    page = browser.preview(content)
    assert page.status_code == 200
    assert (
        "1 client would be newly assigned, 1 client would go to another seller, "
        "1 client would have no seller any more; 1 client would stay."
    ) in page.text
    assert site.owners() == before
    assert site.audited("assignments imported") == []
    answer = browser.confirm(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/team")
    after = before | {mine[0]: "ben", free: "ana"}
    del after[mine[2]]
    assert site.owners() == after
    assert [(e.name, e.subject) for e in site.audited("assignments imported")] == [
        (
            "max",
            f"1 new, 1 changed, 1 freed; clients.csv, {len(content.encode())} bytes, sha256 {sha256(content.encode())[:16]}",
        )
    ]


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
        "line 3: you have no client 'Unknown & Co'",
        "line 4: there is no seller 'nobody' in your team",
        "line 5: there is no seller 'sue' in your team",
        f"line 6: you have no client {theirs!r}",
        f"line 8: the client {mine[0]!r} stands in the file twice",
        "line 9: expected 2 cells, got 3",
        "line 10: expected 2 cells, got 1",
        "line 11: there is no seller 'max' in your team",
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
    free = label(site.history, NOBODYS[0])
    browser, content = site.browser("max"), f"client,seller\n{quoted(free)},ana\n"
    page = browser.preview(content)
    site.browser("root").assign(f"client,seller\n{quoted(free)},sue\n")
    answer = browser.confirm(page)
    assert answer.status_code == 409
    assert "othing was changed: line 2: you have no client" in answer.text
    assert site.owners()[free] == "sue"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "line 1: expected the columns client and seller, got "),
        ("client|seller\nx|ana\n", "line 1: expected the columns client and seller, got client|seller"),
        ("client,seller,team\n", "line 1: expected the columns client and seller, got client, seller, team"),
        ("client,client\n", "line 1: expected the columns client and seller, got client, client"),
        ("client,seller\n" + "x" * 200_000 + ",ana\n", "line 2: field larger than field limit (131072)"),
        ("client,seller\n<b>bold</b>,ana\n", "line 2: you have no client '<b>bold</b>'"),
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
    assert "xpected a CSV file in UTF-8, got other bytes; save it as CSV UTF-8" in answer.text


def test_many_mistakes_are_cut_short(site: Site) -> None:
    answer = site.browser("max").preview("client,seller\n" + "nobody,ana\n" * 70)
    assert len(errors(answer)) == 50
    assert "70 lines can not be used" in answer.text
    assert "… and 20 more." in answer.text


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
    assert "nothing was changed: line 7: there is no seller 'gone' in your team" in text_of(answer).lower()
    assert site.owners() == before


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
    assert errors(answer) == ["line 4: the model knows no client 'nobody'"]
