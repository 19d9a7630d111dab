"""Signing in: what it takes, and what is kept of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from sites import GENUINE_HASHER, PASSWORD, Site, both_databases, text_of
from sqlalchemy import insert, text, update

from ocular.errors import ConfigError
from ocular.web import credentials
from ocular.web.auth import MAX_BY_ADDRESS, MAX_BY_NAME, MAX_BY_NAME_AND_ADDRESS, WINDOW, plain_address
from ocular.web.database import Database
from ocular.web.errors import TooManyError
from ocular.web.tables import Base, Failure, Session, User, now

OpenSite = Callable[..., Site]


@both_databases
def test_the_right_password_opens_the_pages(site: Site) -> None:
    browser = site.stranger()
    assert not browser.signed_in()
    answer = browser.sign_in(" ANA ", next="/client?name=x")  # as people type it
    assert (answer.status_code, answer.headers["location"]) == (303, "/client?name=x")
    assert browser.signed_in()
    assert [(entry.name, entry.address) for entry in site.audited("signed in")] == [("ana", "unknown")]


@both_databases
def test_a_wrong_password_and_an_unknown_name_are_told_alike(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.change(update(User).where(User.name == "ben").values(active=False))
    verified: list[str] = []
    genuine = credentials._hasher.verify

    class Watched:
        @staticmethod
        def verify(hashed: str, password: str) -> bool:
            verified.append(hashed)
            return genuine(hashed, password)

    monkeypatch.setattr(credentials, "_hasher", Watched)
    pages = [
        site.stranger().sign_in("ana", "a wrong password"),
        site.stranger().sign_in("nobody", "a wrong password"),
        site.stranger().sign_in("ben"),  # locked, with the right password
        site.stranger().sign_in("", ""),
    ]
    assert {page.status_code for page in pages} == {401}
    assert len({page.text for page in pages}) == 1
    assert "Incorrect username or password." in pages[0].text
    assert len(verified) == 4
    assert all(hashed.startswith("$argon2id$") for hashed in verified)
    assert [entry.name for entry in site.audited("sign-in refused")] == ["ana", "(unknown)", "ben", "(unknown)"]
    assert site.count(Session) == 0


def test_the_password_of_nobody_opens_nothing(site: Site) -> None:
    assert site.stranger().sign_in("nobody", "nobody at all").status_code == 401  # what the stand-in is a hash of


@both_databases
def test_five_refusals_lock_a_name_out_for_a_while(site: Site) -> None:
    browser = site.stranger()
    for _ in range(MAX_BY_NAME_AND_ADDRESS):
        assert browser.sign_in("Ana", "a wrong password").status_code == 401
    locked = browser.sign_in("ana")
    assert locked.status_code == 429
    assert "Too many attempts; try again in 15 minutes." in locked.text
    assert not browser.signed_in()
    assert site.stranger().sign_in("ben").status_code == 303  # the others are not
    site.change(update(Failure).values(at=now() - WINDOW - timedelta(seconds=1)))
    assert browser.sign_in("ana").status_code == 303


def test_four_refusals_do_not_and_the_right_password_forgets_them(site: Site) -> None:
    for _ in range(2):
        for _ in range(MAX_BY_NAME_AND_ADDRESS - 1):
            assert site.stranger().sign_in("ana", "a wrong password").status_code == 401
        assert site.stranger().sign_in("ana").status_code == 303


def test_an_unknown_name_is_locked_out_alike(site: Site) -> None:
    statuses = [
        site.stranger().sign_in("nobody", "a wrong password").status_code for _ in range(MAX_BY_NAME_AND_ADDRESS + 1)
    ]
    assert statuses == [401] * MAX_BY_NAME_AND_ADDRESS + [429]


@both_databases
def test_another_address_is_not_locked_out_until_there_are_many(site: Site) -> None:
    """Whoever guesses at a name keeps its owner out only after a long time."""
    site.change(insert(Failure).values([{"name": "ana", "address": "192.0.2.1"}] * (MAX_BY_NAME - 1)))
    browser = site.stranger()
    assert browser.sign_in("ana").status_code == 303
    assert browser.sign_in("ana", "a wrong password").status_code == 401
    assert browser.sign_in("ana").status_code == 429
    assert [entry.subject for entry in site.audited("locked out")] == ["the name, from any address"]


@both_databases
def test_a_lock_out_says_when_it_ends_and_is_written_down_once(site: Site) -> None:
    browser = site.stranger()
    for _ in range(MAX_BY_NAME_AND_ADDRESS):
        browser.sign_in("ana", "a wrong password")
    site.change(update(Failure).values(at=now() - timedelta(minutes=5)))
    locked = [browser.sign_in("ana") for _ in range(3)]
    assert {answer.status_code for answer in locked} == {429}
    assert 590 <= int(locked[0].headers["retry-after"]) <= 600
    assert len(site.audited("sign-in refused")) == MAX_BY_NAME_AND_ADDRESS
    assert [(e.name, e.subject) for e in site.audited("locked out")] == [("ana", "the name, from this address")]


@both_databases
@pytest.mark.parametrize(
    ("path", "fields"),
    [("/admin/users/password", {"password": PASSWORD}), ("/admin/users/active", {"active": "true"})],
)
def test_an_administrator_ends_a_lock_out(site: Site, path: str, fields: dict[str, str]) -> None:
    site.change(
        insert(Failure).values(
            [{"name": name, "address": "unknown"} for name in ["ana", "ben"] * MAX_BY_NAME_AND_ADDRESS]
        )
    )
    assert site.stranger().sign_in("ana").status_code == 429
    site.browser("root").submit(path, name="ana", **fields)
    assert site.stranger().sign_in("ana").status_code == 303
    assert site.stranger().sign_in("ben").status_code == 429


def test_a_network_of_ipv6_is_one_address(site: Site) -> None:
    gate = site.services.authenticator
    for n in range(MAX_BY_NAME_AND_ADDRESS):
        assert gate.sign_in("ana", "a wrong password", plain_address(f"2001:DB8:0:1::{n}")) is None
    with pytest.raises(TooManyError):
        gate.sign_in("ana", PASSWORD, "2001:db8:0:1:ffff::1")
    assert gate.sign_in("ana", PASSWORD, "2001:db8:0:2::1") is not None
    assert site.audited("sign-in refused")[1].address == "2001:db8:0:1::1"  # as it was


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("evil<script>", "unknown"),
        ("x" * 200, "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_addresses_are_addresses(host: str | None, address: str) -> None:
    assert plain_address(host) == address


@both_databases
def test_many_refusals_from_one_address_lock_it_out(site: Site) -> None:
    with site.database.writing() as transaction:
        transaction.add_all(Failure(name=f"name{n}", address="unknown") for n in range(MAX_BY_ADDRESS - 1))
    assert site.stranger().sign_in("ana").status_code == 303
    assert site.stranger().sign_in("one-more", "a wrong password").status_code == 401
    assert site.stranger().sign_in("ana").status_code == 429
    site.change(update(Failure).values(address="another"))
    assert site.stranger().sign_in("ana").status_code == 303


# ------------------------------------------------------------------------------------------------ what is kept


def test_signing_in_again_ends_the_session_before(site: Site) -> None:
    browser = site.browser("ana")
    old = browser.cookies[site.cookie]
    assert browser.sign_in("ben").status_code == 303
    assert browser.cookies[site.cookie] != old
    assert site.count(Session) == 1
    assert browser.sign_in("ana", "a wrong password").status_code == 401
    assert browser.signed_in()  # a mistake ends nothing


def test_a_cookie_over_plain_http_is_told_of(open_site: OpenSite) -> None:
    """A browser does not keep it; one that does, as on one's own machine, is led on."""
    browser = open_site().stranger()
    browser.base_url = "http://testserver"
    answer = browser.sign_in("ana", next="/model")
    assert answer.status_code == 303
    page = browser.get(answer.headers["location"])
    assert page.status_code == 200
    assert "Your browser did not keep you signed in, because this address begins with http://" in page.text
    assert "did not keep" not in browser.get("/sign-in").text
    browser.base_url = "https://testserver"  # as if it had been kept
    assert browser.get(answer.headers["location"]).headers["location"] == "/model"
    lenient = open_site(secure=False).stranger()
    assert lenient.sign_in("ana", next="/model").headers["location"] == "/model"


@pytest.mark.parametrize("secure", [True, False])
def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(open_site: OpenSite, secure: bool) -> None:
    cookie = open_site(secure=secure).stranger().sign_in("ana").headers["set-cookie"]
    assert cookie.startswith("__Host-ocular_session=" if secure else "ocular_session=")
    flags = {part.strip().casefold() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert ("secure" in flags) == secure
    assert not any(flag.startswith(("domain", "expires", "max-age")) for flag in flags)


@pytest.mark.parametrize(
    "then",
    ["//evil.example", "/\\evil.example", "https://evil.example/", "evil.example", "javascript:alert(1)", "\\\\evil",
     "/\t/evil.example", "/\n/evil.example", "", " //evil.example"],
)  # fmt: skip
def test_signing_in_leads_to_no_other_site(site: Site, then: str) -> None:
    browser = site.stranger()
    page = text_of(browser.get("/sign-in", params={"next": then}))
    kept = re.search(r'name="next" value="([^"]*)"', page, re.DOTALL)
    assert kept is not None
    for given in (then, kept[1]):
        place = browser.sign_in("ana", next=given).headers["location"]
        assert re.fullmatch(r"/|/[^/\\\s].*", place), place


@pytest.mark.parametrize(("password", "line"), [("elevenchars", "at least 12"), ("x" * 201, "at most 200")])
def test_a_password_too_short_or_too_long_is_refused(site: Site, password: str, line: str) -> None:
    browser = site.browser("root")
    answers = [
        browser.submit("/admin/users", name="new", role="seller", password=password),
        browser.submit("/admin/users/password", name="ana", password=password),
    ]
    for answer in answers:
        assert answer.status_code in {400, 422}
        assert f"Use {line} characters for a password." in answer.text
    assert site.count(User) == 5
    assert site.stranger().sign_in("ana").status_code == 303


@pytest.mark.parametrize("name", ["", "a b", "<b>", "../x", "é", "ana", "ANA", "x" * 81, "-x"])
def test_a_name_that_can_not_be_used_is_refused(site: Site, name: str) -> None:
    answer = site.browser("root").submit("/admin/users", name=name, role="seller", password="a long password")
    assert answer.status_code in {400, 422}
    assert site.count(User) == 5


def test_passwords_are_hashed_with_argon2id() -> None:
    hashed = GENUINE_HASHER.hash(PASSWORD)
    assert re.match(r"\$argon2id\$v=19\$m=(65536|262144),t=[3-9],p=\d", hashed)
    assert PASSWORD not in hashed
    with pytest.raises(ConfigError, match="at least 12 characters"):
        credentials.hash_password("elevenchars")


@both_databases
def test_no_secret_is_in_the_database(site: Site) -> None:
    browser, program = site.browser("ana"), site.program("ana")
    program.get("/api/v1/patterns")
    secrets = [PASSWORD, browser.cookies[site.cookie], program.headers["authorization"].removeprefix("Bearer ")]
    kept = everything_kept(site.database)
    assert credentials.digest(secrets[1]) in kept
    assert credentials.digest(secrets[2]) in kept
    for secret in secrets:
        assert secret not in kept


def everything_kept(database: Database) -> str:
    with database.reading() as transaction:
        tables = [transaction.execute(text(f"select * from {name}")).all() for name in Base.metadata.tables]
    return "\n".join(repr(row) for rows in tables for row in rows)
