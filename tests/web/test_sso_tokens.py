"""The matrix of forged tokens: whatever the token endpoint answers, only a token for us and this browser signs in."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import RSAKey
from oidc_support import Forger, forging, sso_settings, unsigned
from sites import Browser, Site

from ocular.web.sso import provider
from ocular.web.sso.tokens import access_token_hash
from ocular.web.tables import Identity, Session

OpenSite = Callable[..., Site]
Change = Callable[[Forger, dict[str, Any]], str]


@pytest.fixture
def forger() -> Iterator[Forger]:
    with forging() as found:
        yield found


@pytest.fixture
def sso_site(open_site: OpenSite, forger: Forger) -> Site:
    return open_site(sso=sso_settings(forger.issuer))


def begin(browser: Browser, path: str = "/sign-in/sso?next=/calls") -> dict[str, str]:
    answer = browser.get(path)
    assert answer.status_code == 303, answer.text
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


def claims_for(forger: Forger, asked: dict[str, str]) -> dict[str, Any]:
    moment = int(time.time())
    return {
        "iss": forger.issuer, "aud": "ocular", "sub": "s-1", "nonce": asked["nonce"], "iat": moment,
        "exp": moment + 300, "preferred_username": "zoe", "groups": ["sales"],
    }  # fmt: skip


def finish(browser: Browser, forger: Forger, asked: dict[str, str], token: str) -> httpx2.Response:
    forger.answer = {"access_token": "an access token", "token_type": "Bearer", "id_token": token}
    return browser.get("/sign-in/sso/callback", params={"code": "a code", "state": asked["state"]})


def attempt(site: Site, forger: Forger, change: Change) -> httpx2.Response:
    browser = site.stranger()
    asked = begin(browser)
    return finish(browser, forger, asked, change(forger, claims_for(forger, asked)))


def with_claims(**changes: Any) -> Change:
    """A token with the true signature; None leaves a claim out."""

    def change(forger: Forger, claims: dict[str, Any]) -> str:
        return forger.sign({name: value for name, value in (claims | changes).items() if value is not None})

    return change


def with_time(name: str, seconds: int) -> Change:
    return lambda forger, claims: forger.sign(claims | {name: int(time.time()) + seconds})


def two_keys(forger: Forger, claims: dict[str, Any]) -> str:
    other = RSAKey.generate_key(2048, {"kid": "two", "use": "sig", "alg": "RS256"})
    forger.published = [*forger.published, other.as_dict(private=False)]
    return forger.sign(claims, kid=None)


def hmac_with_the_public_key(forger: Forger, claims: dict[str, Any]) -> str:
    parts = ({"alg": "HS256", "kid": "one"}, claims)  # by hand: libraries refuse to sign with a public key
    signed = b".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    signature = hmac.digest(forger.key.as_pem(private=False), signed, "sha256")
    return b".".join([signed, urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def tampered(forger: Forger, claims: dict[str, Any]) -> str:
    head, _, signature = forger.sign(claims).split(".")
    return ".".join([head, forger.sign(claims | {"groups": ["admins"]}).split(".")[1], signature])


GOOD: dict[str, Change] = {
    "plain": with_claims(),
    "at_hash": with_claims(at_hash=access_token_hash("an access token", "RS256")),
    "azp": with_claims(aud=["ocular", "another"], azp="ocular"),
    "iat ahead within the skew": with_time("iat", 45),
    "expired within the skew": with_time("exp", -45),
    "no kid, one key": lambda forger, claims: forger.sign(claims, kid=None),
}
FORGED: dict[str, Change] = {
    "forged signature": lambda forger, claims: forger.sign(claims, key=RSAKey.generate_key(2048)),
    "tampered claims": tampered,
    "alg none": lambda _, claims: unsigned(claims),
    "HS256 with the public key": hmac_with_the_public_key,
    "another algorithm than the key's": lambda forger, claims: forger.sign(
        claims,
        alg="PS256",
        key=RSAKey.import_key({k: v for k, v in forger.key.as_dict(private=True).items() if k != "alg"}),
    ),
    "expired": with_time("exp", -90),
    "no exp": with_claims(exp=None),
    "exp as text": with_claims(exp="9999999999"),
    "iat ahead beyond the skew": with_time("iat", 90),
    "no iat": with_claims(iat=None),
    "not yet valid": with_time("nbf", 90),
    "wrong audience": with_claims(aud="another"),
    "two audiences, no azp": with_claims(aud=["ocular", "another"]),
    "issued to another": with_claims(azp="another"),
    "wrong issuer": with_claims(iss="https://elsewhere.example.com"),
    "changed nonce": with_claims(nonce="another"),
    "no nonce": with_claims(nonce=None),
    "no subject": with_claims(sub=None),
    "subject is a number": with_claims(sub=7),
    "wrong at_hash": with_claims(at_hash="AAAA"),
    "no kid, two keys": two_keys,
    "unknown kid": lambda forger, claims: forger.sign(claims, kid="nobody's"),
    "not a token": lambda *_: "a.b.c",
    "empty": lambda *_: "",
}


@pytest.mark.parametrize("change", GOOD.values(), ids=GOOD)
def test_a_true_token_signs_in(sso_site: Site, forger: Forger, change: Change) -> None:
    answer = attempt(sso_site, forger, change)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/calls"), answer.text
    assert sso_site.count(Session) == 1
    assert [entry.name for entry in sso_site.audited("signed in by single sign-on")] == ["zoe"]


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_token_does_not(sso_site: Site, forger: Forger, change: Change) -> None:
    answer = attempt(sso_site, forger, change)
    assert answer.status_code == 401
    assert "Single sign-on failed; try again." in answer.text
    assert (sso_site.count(Session), sso_site.count(Identity)) == (0, 0)
    assert len(sso_site.audited("single sign-on refused")) == 1


def test_state_and_code_count_once_and_in_one_browser(sso_site: Site, forger: Forger) -> None:
    browser = sso_site.stranger()
    asked = begin(browser)
    token = forger.sign(claims_for(forger, asked))
    assert finish(sso_site.stranger(), forger, asked, token).status_code == 400  # a browser that was not sent there
    assert finish(browser, forger, asked | {"state": "another"}, token).status_code == 400
    assert forger.requests.count("/token") == 0
    asked = begin(browser)
    assert finish(browser, forger, asked, forger.sign(claims_for(forger, asked))).status_code == 303
    assert forger.sent["code_verifier"]
    again = finish(browser, forger, asked, forger.sign(claims_for(forger, asked)))
    assert again.status_code == 400
    assert "begun in another window" in again.text
    assert forger.requests.count("/token") == 1


def test_a_cookie_that_we_did_not_sign_begins_nothing(sso_site: Site, forger: Forger) -> None:
    browser = sso_site.stranger()
    asked = begin(browser)
    value = browser.cookies["__Host-ocular_sso"]
    stranger = sso_site.stranger()
    stranger.headers["cookie"] = f"__Host-ocular_sso={value[:-2]}xx"
    assert finish(stranger, forger, asked, forger.sign(claims_for(forger, asked))).status_code == 400


def test_an_answer_of_another_provider_is_refused(sso_site: Site, forger: Forger) -> None:
    browser = sso_site.stranger()
    asked = begin(browser)
    params = {"code": "a code", "state": asked["state"], "iss": "https://elsewhere.example.com"}
    assert browser.get("/sign-in/sso/callback", params=params).status_code == 401
    assert forger.requests.count("/token") == 0


def test_unknown_keys_are_fetched_once_and_not_for_every_forgery(
    sso_site: Site, forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attempt(sso_site, forger, GOOD["plain"]).status_code == 303
    for _ in range(3):
        assert attempt(sso_site, forger, FORGED["unknown kid"]).status_code == 401
    assert forger.requests.count("/jwks") == 1  # they are a few seconds old
    monkeypatch.setattr(provider, "ROTATION_SECONDS", 0.0)
    forger.key = RSAKey.generate_key(2048, {"kid": "new", "use": "sig", "alg": "RS256"})
    forger.published = [forger.key.as_dict(private=False)]
    rotated = attempt(sso_site, forger, lambda forger, claims: forger.sign(claims, kid="new"))
    assert rotated.status_code == 303
    assert forger.requests.count("/jwks") == 2


def test_an_endless_answer_is_not_read(sso_site: Site, forger: Forger) -> None:
    forger.filler = 600_000
    answer = sso_site.stranger().get("/sign-in/sso")
    assert answer.status_code == 503
    assert "Single sign-on is not available at the moment" in answer.text


def test_signing_in_again_needs_a_fresh_password_of_the_same_person(sso_site: Site, forger: Forger) -> None:
    browser = sso_site.stranger()
    asked = begin(browser)
    finish(browser, forger, asked, forger.sign(claims_for(forger, asked)))
    asked = begin(browser, "/sign-in/sso/again?next=/account")
    assert (asked["prompt"], asked["max_age"]) == ("login", "60")
    moment = int(time.time())
    stale = forger.sign(claims_for(forger, asked) | {"auth_time": moment - 3600})
    assert finish(browser, forger, asked, stale).status_code == 401
    asked = begin(browser, "/sign-in/sso/again")
    other = forger.sign(claims_for(forger, asked) | {"auth_time": moment, "sub": "s-2", "preferred_username": "yan"})
    assert finish(browser, forger, asked, other).status_code == 403
    asked = begin(browser, "/sign-in/sso/again?next=/account")
    fresh = finish(browser, forger, asked, forger.sign(claims_for(forger, asked) | {"auth_time": moment}))
    assert (fresh.status_code, fresh.headers["location"]) == (303, "/account")
    session = sso_site.session_of(browser)
    assert session.method == "sso"
    assert session.authenticated_at is not None
    assert int(session.authenticated_at.timestamp()) == moment


@pytest.mark.parametrize("elsewhere", ["https://example.com", "//example.com", "/\\example.com", "javascript:alert(1)"])
def test_nobody_is_sent_to_another_site(sso_site: Site, forger: Forger, elsewhere: str) -> None:
    browser = sso_site.stranger()
    answer = browser.get("/sign-in/sso", params={"next": elsewhere})
    asked = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    back = finish(browser, forger, asked, forger.sign(claims_for(forger, asked)))
    assert (back.status_code, back.headers["location"]) == (303, "/")
