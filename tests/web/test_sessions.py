"""Sessions and tokens: how they end."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from sites import PASSWORD, Browser, Site, both_databases, rows_of
from sqlalchemy import delete, select, update

from ocular.web.tables import Session, Token, User, now

OpenSite = Callable[..., Site]


def as_administrator(site: Site, path: str, **fields: str) -> None:
    assert site.browser("root").submit(path, **fields).status_code == 303


@both_databases
def test_signing_out_ends_the_session_itself(site: Site) -> None:
    browser, other = site.browser("ana"), site.browser("ana")
    secret = browser.cookies[site.cookie]
    answer = browser.submit("/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert site.cookie not in browser.cookies
    browser.cookies.set(site.cookie, secret)  # whoever kept the cookie has nothing
    assert not browser.signed_in()
    assert other.signed_in()
    assert [entry.name for entry in site.audited("signed out")] == ["ana"]


@both_databases
@pytest.mark.parametrize("field", ["created", "seen"])
def test_a_session_ends_after_its_time_or_when_idle(site: Site, field: str) -> None:
    most = site.settings.lifetime if field == "created" else site.settings.idle
    browser = site.browser("ana")
    site.change(update(Session).values({field: now() - most + timedelta(minutes=1)}))
    assert browser.signed_in()
    site.change(update(Session).values({field: now() - most - timedelta(seconds=1)}))
    assert not browser.signed_in()
    assert browser.get("/").headers["location"] == "/sign-in?next=/"


def test_use_keeps_a_session_from_being_idle(site: Site) -> None:
    browser = site.browser("ana")
    site.change(update(Session).values(seen=now() - timedelta(minutes=5)))
    assert browser.signed_in()
    assert now() - site.session_of(browser).seen < timedelta(minutes=1)


def test_signing_in_clears_away_sessions_that_have_ended(site: Site) -> None:
    site.browser("ana")
    site.change(update(Session).values(created=now() - timedelta(days=1)))
    site.browser("ben")
    assert site.count(Session) == 1


@both_databases
@pytest.mark.parametrize(
    ("path", "fields", "comes_back"),
    [
        ("/admin/users/active", {"active": "false"}, False),
        ("/admin/users/password", {"password": "another long password"}, False),
        ("/admin/users/sign-out", {}, True),
    ],
)
def test_an_administrator_ends_sessions(site: Site, path: str, fields: dict[str, str], comes_back: bool) -> None:
    ana, ben = site.browser("ana"), site.browser("ben")
    as_administrator(site, path, name="ana", **fields)
    assert not ana.signed_in()
    assert ben.signed_in()
    assert (site.stranger().sign_in("ana").status_code == 303) == comes_back


def test_somebody_deactivated_has_no_token_and_gets_none_back(site: Site) -> None:
    program = site.program("ana")
    assert program.get("/api/v1/patterns").status_code == 200
    as_administrator(site, "/admin/users/active", name="ana", active="false")
    assert program.get("/api/v1/patterns").status_code == 401
    as_administrator(site, "/admin/users/active", name="ana", active="true")
    assert program.get("/api/v1/patterns").status_code == 401
    assert site.stranger().sign_in("ana").status_code == 303
    assert [entry.subject for entry in site.audited("user deactivated")] == ["ana"]


@pytest.mark.parametrize("name", ["root", "ROOT "])
def test_nobody_locks_themselves_out(site: Site, name: str) -> None:
    browser = site.browser("root")
    assert browser.submit("/admin/users/active", name=name, active="false").status_code == 400
    assert browser.signed_in()


def test_a_revoked_token_opens_nothing(site: Site) -> None:
    browser, program = site.browser("root"), site.program("ana")
    assert program.get("/api/v1/patterns").status_code == 200
    with site.database.reading() as transaction:
        number = transaction.scalars(select(Token.id)).one()
    assert browser.submit("/admin/tokens/revoke", number=str(number)).status_code == 303
    assert program.get("/api/v1/patterns").status_code == 401


def test_a_token_made_by_an_administrator_is_shown_once(site: Site) -> None:
    browser = site.browser("root")
    made = re.search(r"<code>([^<]+)</code>", browser.submit("/admin/tokens", name="ana", label="our CRM").text)
    assert made is not None
    assert made[1] not in browser.get("/admin").text
    program = Browser(site.app)
    program.headers["authorization"] = f"bearer {made[1]}"
    assert program.get("/api/v1/patterns").status_code == 200


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic cm9vdA==", "Bearer ü", "Bearer x y"])
def test_other_authorizations_are_refused(site: Site, authorization: str) -> None:
    headers = {"authorization": authorization.encode()}
    assert site.stranger().get("/api/v1/patterns", headers=headers).status_code == 401


def test_people_who_are_gone_leave_no_session(site: Site) -> None:
    browser, program = site.browser("ana"), site.program("ana")
    site.change(delete(User).where(User.name == "ana"))
    assert not browser.signed_in()
    assert program.get("/api/v1/patterns").status_code == 401


@both_databases
def test_a_token_ends_after_its_days(site: Site) -> None:
    root = site.browser("root")
    made = re.search(r"<code>([^<]+)</code>", root.submit("/admin/tokens", name="ana", label="our CRM").text)
    assert made is not None
    program = Browser(site.app)
    program.headers["authorization"] = f"Bearer {made[1]}"
    with site.database.reading() as transaction:
        token = transaction.scalars(select(Token)).one()
    assert abs(token.expires - now() - timedelta(days=90)) < timedelta(minutes=1)
    assert program.get("/api/v1/patterns").status_code == 200
    site.change(update(Token).values(expires=now() - timedelta(seconds=1)))
    assert program.get("/api/v1/patterns").status_code == 401
    assert f"Expired {now() - timedelta(seconds=1):%-d %b %Y}" in root.get("/admin").text


def test_tokens_are_shown_with_their_days(site: Site) -> None:
    root = site.browser("root")
    root.submit("/admin/tokens", name="ana", label="our CRM", days="30")
    (row,) = [row for row in rows_of(root.get("/admin").text) if row[0] == "our CRM"]
    day = "%-d %b %Y"
    assert row[1:6] == ["ana", "Read", f"{now():{day}}", "Never", f"{now() + timedelta(days=30):{day}}"]
    assert root.submit("/admin/tokens", name="ana", days="0").status_code == 422
    assert root.submit("/admin/tokens", name="ana", days="366").status_code == 422
    assert root.submit("/admin/tokens", name="ana", scopes="write").status_code == 400
    assert site.count(Token) == 1


@pytest.mark.parametrize("by", ["root", "ana"])
def test_a_new_password_ends_tokens(site: Site, by: str) -> None:
    program, other = site.program("ana"), site.program("ben")
    if by == "root":
        as_administrator(site, "/admin/users/password", name="ana", password="another long password")
    else:
        site.browser("ana").submit("/account/password", old=PASSWORD, new="another long password")
    assert program.get("/api/v1/patterns").status_code == 401
    assert other.get("/api/v1/patterns").status_code == 200


def test_a_program_without_a_token_is_told_what_is_expected(site: Site) -> None:
    answer = site.stranger().get("/api/v1/patterns")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("path", ["/admin/users/sign-out", "/team/assignments", "/sign-out"])
def test_a_form_asks_once_whose_session_it_is(site: Site, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    root, asked = site.browser("root"), []
    _ = root.csrf
    genuine = site.services.authenticator.visitor_of_session
    monkeypatch.setattr(site.services.authenticator, "visitor_of_session", lambda *a: asked.append(a) or genuine(*a))
    root.submit(path, name="ben", key="x")
    assert len(asked) == 1
