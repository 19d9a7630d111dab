"""People are added, changed and told apart by administrators, and change their own password."""

from __future__ import annotations

import re

import pytest
from sites import NOBODYS, PASSWORD, Site, both_databases, label, rows_of, text_of

from ocular.web.tables import User
from ocular.web.users import find_user


def person(site: Site, name: str) -> User:
    with site.database.reading() as transaction:
        return find_user(transaction, name)


@both_databases
def test_role_team_and_full_name_are_changed(site: Site) -> None:
    root, ben = site.browser("root"), site.browser("ben")
    answer = root.submit("/admin/users/edit", name="ben", role="manager", full_name=" Ben B. ", team="south")
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin")
    found = person(site, "ben")
    assert (found.role, found.full_name, found.team) == ("manager", "Ben B.", "south")
    assert ben.get("/team").status_code == 200  # at once
    (entry,) = site.audited("user changed")
    assert entry.subject == "ben: seller, 'north', 'Ben Example' → manager, 'south', 'Ben B.'"


def test_a_changed_team_shows_other_clients_at_once(site: Site) -> None:
    max_, client = site.browser("max"), site.clients("sue")[0]
    assert max_.get("/accounts", params={"search": client}).text.count("/client?") == 0
    site.browser("root").submit("/admin/users/edit", name="sue", role="seller", team="north")
    assert max_.get("/accounts", params={"search": client}).text.count("/client?") == 1


@both_databases
def test_a_team_in_other_capitals_is_the_same_team(site: Site) -> None:
    root = site.browser("root")
    root.submit("/admin/users", name="new", role="seller", team=" NORTH ", password="a long password")
    assert person(site, "new").team == "north"
    root.submit("/admin/users/edit", name="new", role="seller", team="South")
    assert person(site, "new").team == "south"
    root.submit("/admin/users/edit", name="new", role="seller", team="East  Side")
    assert person(site, "new").team == "East Side"
    root.submit("/admin/users/edit", name="new", role="seller", team="east side")
    assert person(site, "new").team == "east side"  # nobody else spells it otherwise


def test_a_form_with_a_mistake_comes_back_with_what_was_typed(site: Site) -> None:
    root = site.browser("root")
    fields = {"name": "new one", "role": "manager", "full_name": "Nora New", "team": "east"}
    answer = root.submit("/admin/users", **fields, password="a long password")
    assert answer.status_code == 400
    page = text_of(answer)
    assert "Use letters, digits and . _ @ + - for a username, not 'new one'" in page
    for name in ("name", "full_name", "team"):
        assert f'name="{name}" value="{fields[name]}"' in page
    assert '<option value="manager" selected>Manager</option>' in page.partition("Add user")[2]
    assert "a long password" not in page


def test_a_wrong_change_comes_back_beside_its_person(site: Site) -> None:
    root = site.browser("root")
    answer = root.submit("/admin/users/edit", name="ben", role="king", full_name="Ben the First", team="north")
    assert answer.status_code == 400
    page = text_of(answer)
    assert "Unknown role 'king'; use one of seller, manager, admin" in page
    assert 'value="Ben the First"' in page
    assert page.count('<details class="manage" open>') == 1
    short = text_of(root.submit("/admin/users/password", name="ben", password="short"))
    assert "Use at least 12 characters" in short
    assert short.count('<details class="manage" open>') == 1
    assert person(site, "ben").full_name == "Ben Example"


def test_nobody_takes_the_role_from_themselves(site: Site) -> None:
    root = site.browser("root")
    assert root.submit("/admin/users/edit", name="root", role="seller").status_code == 400
    assert root.submit("/admin/users/edit", name="root", role="admin", full_name="Ruth").status_code == 303
    assert person(site, "root").full_name == "Ruth"


@pytest.mark.parametrize("path", ["/admin/users", "/admin/users/password"])
def test_a_password_of_spaces_is_refused(site: Site, path: str) -> None:
    answer = site.browser("root").submit(
        path, name="ana" if "password" in path else "new", role="seller", password=" " * 14
    )
    assert answer.status_code == 400
    assert "not only spaces" in answer.text


# ------------------------------------------------------------------------------------------------ one's own password


@both_databases
def test_people_change_their_own_password(site: Site) -> None:
    ana, other = site.browser("ana"), site.browser("ana")
    assert 'href="/account"' in ana.get("/accounts").text
    page = ana.get("/account").text
    assert re.findall(r"<dd>([^<]*)</dd>", page) == ["ana", "Seller", "north"]
    answer = ana.submit("/account/password", old=PASSWORD, new="another long password")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert not ana.signed_in()
    assert not other.signed_in()
    assert site.stranger().sign_in("ana").status_code == 401
    assert site.stranger().sign_in("ana", "another long password").status_code == 303
    assert [entry.name for entry in site.audited("password changed")] == ["ana"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("not the old one", "another long password", "Current password is incorrect."),
        ("", "another long password", "Current password is incorrect."),
        (PASSWORD, "short", "Use at least 12 characters for a password."),
    ],
)
def test_a_password_is_not_changed_without_the_old_one(site: Site, old: str, new: str, told: str) -> None:
    ana = site.browser("ana")
    answer = ana.submit("/account/password", old=old, new=new)
    assert answer.status_code == 400
    assert told in answer.text
    assert ana.signed_in()
    assert site.stranger().sign_in("ana").status_code == 303


def test_the_old_password_can_not_be_guessed_with_a_stolen_session(site: Site) -> None:
    ana = site.browser("ana")
    statuses = [ana.submit("/account/password", old="wrong", new="another long password").status_code for _ in range(6)]
    assert statuses == [400] * 5 + [429]


# ------------------------------------------------------------------------------------------------ without a team


@both_databases
def test_people_without_a_team_are_no_team(site: Site) -> None:
    root = site.browser("root")
    for name, role in (("boss", "manager"), ("solo", "seller")):
        root.submit("/admin/users", name=name, role=role, team="", password=PASSWORD)
    alone, nobodys = label(site.interactions, NOBODYS[0]), label(site.interactions, NOBODYS[1])
    assert root.assign(f'client,seller\n"{alone}",solo\n').status_code == 303
    boss = site.browser("boss")
    statuses = [boss.get("/client", params={"name": name}).status_code for name in (alone, nobodys)]
    assert statuses == [404, 200]
    assert alone not in text_of(boss.get("/accounts", params={"search": alone})).partition("<table")[2]
    assert site.browser("solo").get("/client", params={"name": alone}).status_code == 200
    solo = site.browser("solo")
    solo.submit("/feedback", client=alone, product=site.open_product(alone), status="won")
    assert alone not in text_of(boss.get("/team"))
    assert [row for row in rows_of(boss.get("/team").text) if row[1:2] == ["solo"]] == []
