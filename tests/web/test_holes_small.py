"""Small holes that were closed: each test failed before."""

from __future__ import annotations

import stat
import threading
import time
from pathlib import Path

import pytest
from sites import Site, both_databases, sqlite
from sqlalchemy import func, select, update

from ocular.errors import ConfigError
from ocular.storage import escape_formula
from ocular.web import users
from ocular.web.database import Database
from ocular.web.tables import Role, User


@pytest.mark.parametrize("sign", ["＝", "＋", "－", "＠", "\t=", "\r", "="])
def test_a_cell_that_a_spreadsheet_would_run_is_text(sign: str) -> None:
    assert escape_formula(f"{sign}1+1") == f"'{sign}1+1"


@both_databases
@pytest.mark.parametrize("field", ["since", "until"])
def test_the_last_day_of_all_is_a_day(site: Site, field: str) -> None:
    for path in ("/admin/audit", "/admin/audit.csv"):
        answer = site.browser("root").get(path, params={field: "9999-12-31"})
        assert answer.status_code == 200
    assert ("signed in" in answer.text) == (field == "until")


@both_databases
def test_two_administrators_do_not_demote_each_other(site: Site) -> None:
    site.change(update(User).where(User.name == "max").values(role="admin"))
    told: list[str] = []

    def demote_root() -> None:
        try:
            with site.database.writing() as transaction:
                users.update_user(transaction, users.find_user(transaction, "root"), "seller", "", "")
        except ConfigError as error:
            told.append(str(error))

    other = threading.Thread(target=demote_root)
    with site.database.writing() as transaction:
        users.update_user(transaction, users.find_user(transaction, "max"), "seller", "", "")
        transaction.flush()
        other.start()
        time.sleep(0.3)
    other.join()
    assert told == ["root is the last administrator; make somebody else one first"]
    with site.database.reading() as transaction:
        assert transaction.scalar(select(func.count()).where(User.role == Role.ADMIN)) == 1


@both_databases
def test_activating_somebody_again_does_not_revive_tokens(site: Site) -> None:
    program, root = site.program("ana"), site.browser("root")
    assert program.get("/api/v1/clients").status_code == 200
    for active in ("false", "true"):
        assert root.submit("/admin/users/active", name="ana", active=active).status_code == 303
    assert program.get("/api/v1/clients").status_code == 401


def test_a_new_sqlite_file_is_for_its_owner_only(tmp_path: Path) -> None:
    database = Database(sqlite(tmp_path / "new.db"))
    database.upgrade()
    files = list(tmp_path.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    database.close()
