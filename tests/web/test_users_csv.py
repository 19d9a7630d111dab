"""Users come from a file: reviewed, stored as a whole, invited; and the data may say who has which client."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import numpy as np
import pytest
from sites import NOBODYS, Browser, Site, both_databases, label, rows_of, text_of
from sqlalchemy import delete, update

from ocular import Interactions, OCuLaR
from ocular.errors import ConfigError
from ocular.web.seller_match import find_seller_column
from ocular.web.tables import Assignment, Link, User
from ocular.web.users import add_user, check_not_last_admin, find_user, update_user

OpenSite = Callable[..., Site]
NEW = "a password that nobody knows"


def review(browser: Browser, content: str | bytes) -> httpx2.Response:
    given = content if isinstance(content, bytes) else content.encode()
    files = {"file": ("users.csv", given, "text/csv")}
    answer = browser.post("/admin/users/preview", data={"csrf": browser.csrf}, files=files)
    return browser.get(answer.headers["location"]) if answer.status_code == 303 else answer


def confirm(browser: Browser, page: httpx2.Response) -> httpx2.Response:
    found = re.search(r'name="key" value="([^"]+)"', page.text)
    assert found is not None, page.text
    answer = browser.submit("/admin/users/import", key=found[1])
    return browser.get(answer.headers["location"]) if answer.status_code == 303 else answer


def changes(page: httpx2.Response) -> dict[str, int]:
    return {name: int(n) for name, n in re.findall(r"<dt>(\w+)</dt><dd>(\d+)</dd>", page.text)}


def exported(browser: Browser) -> list[dict[str, str]]:
    text = browser.get("/admin/users/invitations.csv").text.removeprefix("\ufeff")
    return list(csv.DictReader(io.StringIO(text)))


@both_databases
def test_users_are_reviewed_stored_and_invited(site: Site) -> None:
    root = site.browser("root")
    page = review(
        root,
        "\ufeffUsername;Full name;ROLE;Team;E-mail\r\nNina.K;Nina Kalb;;NORTH;nina@example.com\r\n\r\n"
        "otto;Otto Ohm;Manager;East;\r\nana;Ana Example;seller;north;\r\nben;Ben Example;seller;south;\r\n",
    )
    assert page.status_code == 200
    assert changes(page) == {"New": 2, "Updated": 1, "Unchanged": 1}
    assert site.count(User) == 5
    done = confirm(root, page)
    assert site.count(User) == 7
    with site.database.reading() as transaction:
        people = {name: find_user(transaction, name) for name in ("nina.k", "otto", "ben")}
    assert [(user.full_name, user.role, user.team) for user in people.values()] == [
        ("Nina Kalb", "seller", "north"), ("Otto Ohm", "manager", "East"), ("Ben Example", "seller", "south"),
    ]  # fmt: skip
    links = exported(root)
    assert [row["username"] for row in links] == ["nina.k", "otto"]
    assert all(row["link"] in text_of(done) for row in links)
    assert [entry.subject for entry in site.audited("user invited")] == ["nina.k", "otto"]
    assert site.audited("users imported")[0].subject.startswith("2 new, 1 updated; users.csv")
    assert site.stranger().sign_in("nina.k", "").status_code == 401
    nina = site.stranger()
    token = links[0]["link"].rpartition("/")[2]
    assert links[0]["link"] == f"https://testserver/invitation/{token}"
    assert nina.post(f"/invitation/{token}", data={"password": NEW, "again": NEW}).status_code == 303
    assert nina.signed_in()


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("new one,N,seller,,", "Use letters, digits and . _ @ + - for a username, not 'new one'"),
        ("new,N,king,,", "Unknown role 'king'; use one of seller, manager, admin"),
        ("new,N,seller,", "expected 5 cells, got 4"),
        (f"new,{'N' * 81},seller,,", "Use at most 80 characters for a name or a team"),
        ("FIRST,N,seller,,", "Duplicate username 'first'"),
        ("root,N,seller,,", "You can't change your own role"),
        (",N,seller,,", "Use letters, digits and . _ @ + - for a username, not ''"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_nothing_is_stored(site: Site, line: str, mistake: str) -> None:
    root = site.browser("root")
    page = review(root, f"username,name,role,team,email\nfirst,First,seller,,\n{line}\n")
    assert page.status_code == 422
    assert f"Line 3: {mistake}" in text_of(page)
    assert 'name="key"' not in page.text
    assert (site.count(User), site.count(Link)) == (5, 0)


@pytest.mark.parametrize(
    "content", ["", "name,role\nNina,seller\n", "username,username\na,b\n", b"\xff\xfe\x00", "user\x00name\nx\n"]
)
def test_a_file_without_usernames_is_one_line(site: Site, content: str | bytes) -> None:
    answer = review(site.browser("root"), content)
    assert answer.status_code in {400, 422}
    assert "xpected the columns" in answer.text or "not in UTF-8" in answer.text


def test_a_second_press_adds_nobody_twice(site: Site) -> None:
    root = site.browser("root")
    page = review(root, "username\nnew\n")
    confirm(root, page)
    confirm(root, page)
    assert site.count(User) == 6
    assert len(exported(root)) == 1


def test_what_changed_after_the_review_is_not_overwritten(site: Site) -> None:
    root = site.browser("root")
    page = review(root, "username,role\nnew,seller\n")
    root.submit("/admin/users", name="new", role="manager", password=NEW)
    confirm(root, page)
    with site.database.reading() as transaction:
        assert find_user(transaction, "new").role == "seller"  # updated, not added again
    assert exported(root) == []


def test_the_invitations_are_for_who_made_them(site: Site) -> None:
    root = site.browser("root")
    confirm(root, review(root, "username\nnew\n"))
    root.submit("/admin/users", name="other", role="admin", password=NEW)
    other = site.stranger()
    other.sign_in("other", NEW)
    assert other.get("/admin/users/invitations.csv").status_code == 404


def test_a_cell_of_the_export_runs_nothing_in_a_spreadsheet(site: Site) -> None:
    root = site.browser("root")
    confirm(root, review(root, 'username,name\nnew,"=cmd()"\n'))
    assert exported(root)[0]["name"] == "'=cmd()"


# ------------------------------------------------------------------------------------------------ one by one


def test_a_user_without_a_password_gets_an_invitation(site: Site) -> None:
    root = site.browser("root")
    page = root.submit("/admin/users", name="new", role="seller", full_name="Nina New", team="north")
    found = re.search(r"<code>https://testserver/invitation/([^<]+)</code>", page.text)
    assert found is not None
    assert "Invited" in page.text
    assert found[1] not in root.get("/admin").text  # shown this once
    assert site.stranger().get(f"/invitation/{found[1]}").status_code == 200
    assert root.submit("/admin/users/invite", name="new").status_code == 200
    assert site.stranger().get(f"/invitation/{found[1]}").status_code == 404
    root.submit("/admin/users/active", name="new", active="false")
    assert root.submit("/admin/users/invite", name="new").status_code == 400


def test_the_last_administrator_stays(site: Site) -> None:
    root = site.browser("root")
    for path, fields in (("active", {"active": "false"}), ("edit", {"role": "seller"})):
        assert root.submit(f"/admin/users/{path}", name="root", **fields).status_code == 400
    assert review(root, "username,role\nroot,seller\n").status_code == 422
    # two administrators who remove each other at once: the second finds the first gone
    with site.database.writing() as transaction:
        second = add_user(transaction, "second", "admin", NEW)
        second.active = False
    with site.database.reading() as transaction, pytest.raises(ConfigError, match="the last administrator"):
        update_user(transaction, find_user(transaction, "root"), "seller", "", "")
    with site.database.reading() as transaction:
        check_not_last_admin(transaction, find_user(transaction, "second"))


def test_users_are_searched_and_come_in_pages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.web.routes.admin.USERS_PER_PAGE", 2)
    root = site.browser("root")

    def shown(**fields: object) -> list[str]:
        return [row[1] for row in rows_of(root.get("/admin", params=fields).text) if len(row) == 7][1:]

    assert [shown(page=page) for page in (1, 2, 3, 9)] == [["ana", "ben"], ["max", "root"], ["sue"], ["sue"]]
    assert shown(search="SUE example") == ["sue"]
    assert shown(search="south") == ["sue"]
    assert shown(search="manager") == ["max"]
    assert shown(search="100%_") == []


# ------------------------------------------------------------------------------------------------ the data's column


@pytest.fixture(scope="module")
def with_sellers(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The companies with a column that names their seller in several spellings."""
    names = ["ANA", "Bén Example", "Sue Example", "Nobody Known", ""]
    data = Interactions.from_pairs(
        companies.pair_users.tolist(), companies.by_user.indices.tolist(), user_labels=companies.user_labels.tolist(),
        item_labels=companies.item_labels.tolist(),
        user_attributes={"Account_Manager": np.array([names[row % 5] for row in range(companies.n_users)])},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("sellers")
    OCuLaR(4, 0.3, random_state=0).fit(data).save(folder / "model")
    return folder


@both_databases
def test_the_seller_column_proposes_assignments(open_site: OpenSite, with_sellers: Path) -> None:
    site = open_site(models=with_sellers)
    assert find_seller_column(site.interactions) == "Account_Manager"
    before, root = site.owners(), site.browser("root")
    page = root.get(root.submit("/team/assignments/match").headers["location"])
    assert changes(page) == {"New": 12, "Reassigned": 0, "Unassigned": 0, "Unchanged": 0}
    assert "Nobody Known</bdi> 4" in page.text
    assert site.owners() == before
    assert root.confirm(page).status_code == 303
    expected = {label(site.interactions, row): ("ana", "ben", "sue")[row % 5] for row in NOBODYS if row % 5 < 3}
    assert site.owners() == before | expected


def test_a_manager_is_proposed_their_own_sellers_only(open_site: OpenSite, with_sellers: Path) -> None:
    site = open_site(models=with_sellers)
    browser = site.browser("max")
    page = browser.get(browser.submit("/team/assignments/match").headers["location"])
    assert changes(page)["New"] == 8
    assert browser.confirm(page).status_code == 303
    assert set(site.owners().values()) == {"ana", "ben", "sue"}
    assert len(site.clients("sue")) == [*site.owners().values()].count("sue")


def test_a_name_that_two_sellers_share_is_matched_with_neither(open_site: OpenSite, with_sellers: Path) -> None:
    site = open_site(models=with_sellers)
    site.change(update(User).where(User.name == "ben").values(full_name="Sue Example"), delete(Assignment))
    root = site.browser("root")
    page = root.get(root.submit("/team/assignments/match").headers["location"])
    assert changes(page)["New"] == 12  # Ana's
    assert "Sue Example</bdi> 12" in page.text


def test_without_such_a_column_the_page_says_what_is_missing(site: Site) -> None:
    if find_seller_column(site.interactions) is None:
        assert "has no column seller" in site.browser("max").get("/team").text
    else:
        assert "Match sellers" in site.browser("max").get("/team").text
