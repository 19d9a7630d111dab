"""Links that work once: whoever has one chooses a password, or signs in on the machine itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sites import PASSWORD, Browser, Site, both_databases, text_of
from sqlalchemy import update
from starlette.testclient import TestClient

from ocular.web import credentials, users
from ocular.web.invitations import INVITATION_HOURS, Purpose, create_link, sign_in_link
from ocular.web.tables import Link, Session, now

NEW = "a password that nobody knows"


def link_for(site: Site, name: str, purpose: Purpose = "invitation") -> str:
    with site.database.writing() as transaction:
        return create_link(transaction, users.find_user(transaction, name), purpose, INVITATION_HOURS)


def accept(browser: Browser, token: str, password: str = NEW, again: str = NEW) -> int:
    return browser.post(f"/invitation/{token}", data={"password": password, "again": again}).status_code


@both_databases
def test_an_invitation_sets_the_password_once_and_signs_in(site: Site) -> None:
    token, old, browser = link_for(site, "ana"), site.browser("ana"), site.stranger()
    assert "Ana Example" in text_of(browser.get(f"/invitation/{token}"))
    assert accept(browser, token) == 303
    assert browser.signed_in()
    assert not old.signed_in()
    assert accept(site.stranger(), token) == 404
    assert site.stranger().get(f"/invitation/{token}").status_code == 404
    assert site.stranger().sign_in("ana", NEW).status_code == 303
    assert site.stranger().sign_in("ana", PASSWORD).status_code == 401
    assert [entry.name for entry in site.audited("invitation accepted")] == ["ana"]


def test_the_token_itself_is_not_stored(site: Site) -> None:
    token = link_for(site, "ana")
    with site.database.reading() as transaction:
        assert transaction.get(Link, token) is None
        assert transaction.get(Link, credentials.digest(token)) is not None


def test_a_new_invitation_replaces_the_last_one(site: Site) -> None:
    first, second = link_for(site, "ana"), link_for(site, "ana")
    assert site.stranger().get(f"/invitation/{first}").status_code == 404
    assert site.stranger().get(f"/invitation/{second}").status_code == 200


@pytest.mark.parametrize(
    ("password", "again", "told"),
    [("short", "short", "12"), (NEW, NEW + "x", "do not match"), (" " * 14, " " * 14, "only spaces")],
)
def test_a_password_that_does_not_do_leaves_the_link_as_it_is(site: Site, password: str, again: str, told: str) -> None:
    token, browser = link_for(site, "ana"), site.stranger()
    answer = browser.post(f"/invitation/{token}", data={"password": password, "again": again})
    assert answer.status_code == 400
    assert told in text_of(answer)
    assert not browser.signed_in()
    assert accept(browser, token) == 303


def test_an_invitation_ends_with_time_with_a_deactivation_and_with_a_new_password(site: Site) -> None:
    root = site.browser("root")
    late, locked, known = (link_for(site, name) for name in ("ana", "ben", "sue"))
    site.change(update(Link).where(Link.digest == credentials.digest(late)).values(expires=now() - timedelta(hours=1)))
    root.submit("/admin/users/active", name="ben", active="false")
    root.submit("/admin/users/password", name="sue", password=NEW)
    assert [accept(site.stranger(), token) for token in (late, locked, known, "", "x" * 5000)] == [404] * 5
    root.submit("/admin/users/active", name="ben", active="true")
    assert accept(site.stranger(), locked) == 404


def test_a_page_of_another_site_cannot_accept(site: Site) -> None:
    token = link_for(site, "ana")
    answer = site.stranger().post(
        f"/invitation/{token}", data={"password": NEW, "again": NEW}, headers={"origin": "https://evil.example"}
    )
    assert answer.status_code == 403
    assert site.stranger().get(f"/invitation/{token}").status_code == 200


# ------------------------------------------------------------------------------------------------ signing in


def from_address(site: Site, address: str) -> TestClient:
    return TestClient(site.app, base_url="https://testserver", follow_redirects=False, client=(address, 50000))


@both_databases
def test_a_sign_in_link_works_once_and_only_on_the_machine_itself(site: Site) -> None:
    with site.database.writing() as transaction:
        address = sign_in_link(transaction, users.find_user(transaction, "ana"), "https://testserver/")
    sessions = site.count(Session)
    assert from_address(site, "192.0.2.1").get(address).status_code == 404
    assert site.count(Session) == sessions
    browser = from_address(site, "127.0.0.1")
    assert browser.get(address).headers["location"] == "/"
    assert "Ana Example" in browser.get("/model").text
    assert from_address(site, "127.0.0.1").get(address).status_code == 404
    assert site.count(Session) == sessions + 1
    assert [entry.name for entry in site.audited("signed in by link")] == ["ana"]


def test_a_link_serves_its_own_purpose_only(site: Site) -> None:
    sign_in, invitation = link_for(site, "ana", "sign-in"), link_for(site, "ana")
    assert accept(site.stranger(), sign_in) == 404
    assert from_address(site, "127.0.0.1").get(f"/sign-in/once/{invitation}").status_code == 404
    assert accept(site.stranger(), invitation) == 303
