"""Passwords that are easy to guess are refused wherever one is chosen, with the same line."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command import run
from sites import PASSWORD, Site, sqlite, text_of

from ocular.errors import ConfigError
from ocular.web import password_strength
from ocular.web.credentials import MAX_PASSWORD, hash_password
from ocular.web.password_strength import MAX_JUDGED, TOO_EASY, check_strength
from ocular.web.tables import User

BREACHED = "password1234"


@pytest.mark.parametrize(
    "password",
    [BREACHED, "Password1234", "P@ssw0rd1234", "qwertyuiop12", "123456789012", "aaaaaaaaaaaa", "abcabcabcabc",
     "iloveyou1234", "letmein12345", "ocularocular1", "x" * MAX_PASSWORD],
)  # fmt: skip
def test_trivial_and_breached_passwords_are_refused(password: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hash_password(password)
    assert str(caught.value) == TOO_EASY


@pytest.mark.parametrize("password", [PASSWORD, "kettle-Orbit-ninety-fjord", "h7#Qw!2vKz9_", "ein langer weißer Zaun"])
def test_passwords_that_are_hard_to_guess_are_taken(password: str) -> None:
    hash_password(password)


def test_a_persons_own_names_are_easy_to_guess() -> None:
    password = "zeynepkarlsson1"
    check_strength(password)
    for context in (["zeynep.karlsson@acme.com"], ["zeynep", "Zeynep Karlsson"]):
        with pytest.raises(ConfigError):
            check_strength(password, context)


def test_names_of_one_person_do_not_count_for_another() -> None:
    """The library holds them in one place for all threads."""

    def judge(number: int) -> bool:
        try:
            check_strength("zeynepkarlsson1", ["zeynep karlsson"] if number % 2 else [])
        except ConfigError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(judge, range(60))) == [number % 2 == 0 for number in range(60)]


def test_a_long_password_costs_no_more_than_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, genuine = [], password_strength.zxcvbn
    monkeypatch.setattr(password_strength, "zxcvbn", lambda p, **more: judged.append(p) or genuine(p, **more))
    hash_password((PASSWORD + " and so on ") * 5)
    assert {len(password) for password in judged} == {MAX_JUDGED}
    with pytest.raises(ConfigError, match="at most"):
        hash_password("x" * 100_000)
    assert len(judged) == 2


def test_every_page_that_takes_a_new_password_refuses_it(site: Site) -> None:
    root, ana = site.browser("root"), site.browser("ana")
    invitation = re.search(r"/invitation/[\w-]+", root.submit("/admin/users/invite", name="ben").text)
    assert invitation is not None
    answers = [
        root.submit("/admin/users", name="new", role="seller", password=BREACHED),
        root.submit("/admin/users/password", name="ana", password=BREACHED),
        ana.submit("/account/password", old=PASSWORD, new=BREACHED),
        site.stranger().post(invitation[0], data={"password": BREACHED, "again": BREACHED}),
        root.submit("/admin/users/password", name="ana", password="AnaExample-north"),
    ]
    for answer in answers:
        assert answer.status_code == 400
        assert f"{TOO_EASY}." in text_of(answer)
        assert BREACHED not in answer.text
    assert site.count(User) == 5
    assert site.stranger().sign_in("ana").status_code == 303


@pytest.mark.parametrize("command", [("add", "--role", "seller"), ("password",)])
def test_the_command_line_refuses_it_in_one_line(site: Site, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "password").write_text(BREACHED)
    name = "new" if command[0] == "add" else "ana"
    done = run("users", command[0], name, *command[1:], "--password-file", tmp_path / "password",
               "--db", sqlite(tmp_path / "ocular.db"))  # fmt: skip
    assert (done.returncode, done.stderr) == (2, f"Error: {TOO_EASY}\n")
    assert site.count(User) == 5
