"""Databases: a real SQLite file and a real PostgreSQL server."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from support import postgres_server

from ocular.data import databases
from ocular.data.interactions import Interactions
from ocular.data.readers import read_sql
from ocular.errors import DataError, MissingExtraError, UnknownNameError

ROWS = [
    ("007", 1, 3, "2024-01-31", "north"),
    ("007", 2, 2.5, "2024-02-01 10:00:00", "north"),
    ("b", 1, None, None, None),
]
COLUMNS: dict[str, Any] = {
    "client": "client",
    "product": "product",
    "price": "price",
    "time": "day",
    "client_attributes": ["region"],
}


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """An SQLite file whose first 2,000 rows hold whole prices only, and a date in none."""
    path = tmp_path / "shop 1.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table sales (client text, product integer, price numeric, day text, region text)")
        connection.executemany("insert into sales values ('early', 9, 1, null, null)", [()] * 2000)
        connection.executemany("insert into sales values (?, ?, ?, ?, ?)", ROWS)
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as server:
        server.psql(
            "create table sales (client text, code char(6), product int, price numeric(10, 2), day timestamptz,"
            " region text, id uuid default gen_random_uuid(), big numeric, paid money);"
            "insert into sales values"
            " ('007', 'x', 1, 3, '2024-01-31 01:00+01', 'north', default, 12345678901234567, 3),"
            " ('007', 'y', 2, 2.50, '2024-02-01 10:00+00', 'north', default, 2, 2.5),"
            " ('b', 'x', 1, null, null, null, default, 3, null)"
        )
        yield server.get_uri()


def check(interactions: Interactions) -> None:
    """The ROWS above."""
    assert interactions.user_labels.tolist() == ["007", "b"]
    assert interactions.item_labels.tolist() == [1, 2]
    assert interactions.to_matrix().toarray().tolist() == [[1, 1], [1, 0]]
    assert interactions.user_attributes["region"].tolist() == ["north", None]
    assert interactions.purchases is not None
    np.testing.assert_array_equal(interactions.purchases.columns["price"], [3, 2.5, np.nan])
    times = interactions.purchases.columns["time"].astype(str).tolist()
    assert times == ["2024-01-31T00:00:00", "2024-02-01T10:00:00", "NaT"]


def refused(query: str, url: str, error: type[Exception] = DataError, **columns: Any) -> str:
    with pytest.raises(error) as caught:
        read_sql(query, url, **{"client": "client", "product": "product", **columns})
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestSQLite:
    def test_rows_of_a_query(self, shop: str) -> None:
        check(read_sql("select * from sales where client <> 'early'", shop, **COLUMNS))

    def test_types_that_change_after_many_rows(self, shop: str) -> None:
        interactions = read_sql("select * from sales", shop, **COLUMNS)
        assert interactions.shape == (3, 3)
        assert interactions.purchases is not None
        assert interactions.purchases.columns["price"][:2].tolist() == [3, 2.5]

    def test_relative_path(self, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
        path = Path(shop.removeprefix("sqlite:///"))
        monkeypatch.chdir(path.parent)
        assert read_sql("select * from sales", f"sqlite:///{path.name}", **COLUMNS).n_users == 3

    def test_thresholds_apply(self, shop: str) -> None:
        interactions = read_sql(
            "select * from sales where price is not null",
            shop,
            client="client",
            product="product",
            value="price",
            min_value=2,
        )
        assert interactions.user_labels.tolist() == ["007"]

    def test_row_numbers(self, shop: str) -> None:
        query = "select client, nullif(product, 1) as product from sales where client <> 'early' order by rowid"
        assert refused(query, shop).startswith("row 0: expected 'client' and 'product' in every row, got 2 without")

    def test_nothing_is_written(self, shop: str) -> None:
        assert "syntax error" in refused("delete from sales", shop)  # nothing but a query can be counted
        assert read_sql("select * from sales", shop, **COLUMNS).n_users == 3

    def test_missing_file_is_not_created(self, tmp_path: Path) -> None:
        path = tmp_path / "none.db"
        assert refused("select 1", f"sqlite:///{path}") == f"expected an SQLite file, got '{path}', which is not there"
        assert not path.exists()

    def test_unknown_column(self, shop: str) -> None:
        message = refused("select client, product as produkt from sales", shop, UnknownNameError)
        assert message == "query: no column named 'product'; did you mean 'produkt'? (columns: client, produkt)"

    def test_wrong_sql(self, shop: str) -> None:
        message = refused("select absent from sales", shop)
        assert message.startswith("expected rows from the database, got: ")
        assert message.endswith("no such column: absent; check the URL and the query")

    def test_no_rows(self, shop: str) -> None:
        assert refused("select * from sales where 0", shop) == "expected at least one purchase, got no rows"


class TestPostgreSQL:
    def test_rows_of_a_query_with_numeric_prices(self, postgres: str) -> None:
        check(read_sql("select * from sales", postgres, **COLUMNS))

    def test_driver_in_the_url_is_ignored(self, postgres: str) -> None:
        url = postgres.replace("postgresql://", "postgresql+psycopg://")
        check(read_sql("select * from sales", url, **COLUMNS))

    @pytest.mark.parametrize("form", ["postgresql://postgres@/postgres", "postgresql://postgres@:5432/postgres",
                                      "postgresql:///postgres?user=postgres"])  # fmt: skip
    def test_without_a_host_the_socket_is_found(
        self, form: str, postgres: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """ADBC's libpq looks into the temporary folder alone; a server of the system is elsewhere."""
        folder = Path(parse_qs(urlsplit(postgres).query)["host"][0])
        monkeypatch.setattr(databases, "SOCKET_FOLDERS", (Path("/nowhere"), folder))
        check(read_sql("select * from sales", form, **COLUMNS))
        monkeypatch.setenv("PGHOST", "/nowhere")  # what somebody says is not overruled
        assert "/nowhere" in refused("select * from sales", form)

    @pytest.mark.parametrize(
        "url", ["postgresql://h/d", "postgresql://u@h:5/d", "postgresql:///d?host=/x", "postgresql:///d?service=s"]
    )
    def test_a_host_that_is_named_stays(self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / ".s.PGSQL.5432").touch()
        monkeypatch.setattr(databases, "SOCKET_FOLDERS", (tmp_path,))
        assert databases._postgres_address(url) == url

    def test_padding_and_numeric_names(self, postgres: str) -> None:
        interactions = read_sql("select * from sales", postgres, client="big", product="code")
        assert interactions.user_labels.tolist() == [2, 3, 12345678901234567]  # exact, not by way of a float
        assert interactions.item_labels.tolist() == ["x", "y"]

    def test_money_would_be_cents(self, postgres: str) -> None:
        message = refused("select * from sales", postgres, price="paid")
        assert message == "expected numbers in column 'paid', got money, which arrives in cents; use paid::numeric"
        interactions = read_sql(
            "select client, product, paid::numeric from sales",
            postgres,
            client="client",
            product="product",
            price="paid",
        )
        assert interactions.purchases is not None
        np.testing.assert_array_equal(interactions.purchases.columns["price"], [3, 2.5, np.nan])

    def test_uuid_needs_a_cast(self, postgres: str) -> None:
        message = refused("select * from sales", postgres, client="id")
        assert message == ("expected names or whole numbers in column 'id', got Binary; convert the column to text")
        assert read_sql("select id::text, product from sales", postgres, client="id", product="product").n_users == 3

    def test_wrong_sql(self, postgres: str) -> None:
        message = refused("select nothing from sales", postgres)
        assert 'column "nothing" does not exist; check the URL and the query' in message


class TestSecrets:
    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://joe:hunter2@127.0.0.1:1/shop",
            "postgresql://joe:hunter%32@127.0.0.1:1/shop",
            "postgresql://joe:hunter2@no-such-host.invalid/shop",
            "postgresql://joe:hunter2@/shop?host=/nowhere",
            "postgresql:///shop?host=/nowhere&password=hunter2",
            "postgresql:///shop?host=/nowhere&password=hunter2 x",
            "postgresql:///shop?host=/nowhere&password=hunter2%zz",
            "postgresql://joe:hunter2/shop",
            "postgresql://joe:x@hunter2@127.0.0.1:1/shop",
            "postgresql://joe:x/hunter2@127.0.0.1:1/shop",
            "postgresql://joe:hunter2%zz@127.0.0.1:1/shop",
            "postgresql://joe:hunter2 @127.0.0.1:1/shop",
            "mysql://joe:hunter2@localhost/shop",
            "joe:hunter2@localhost",
        ],
    )
    def test_the_password_is_never_repeated(self, url: str) -> None:
        with pytest.raises(DataError) as caught:
            read_sql("select 1", url, client="client", product="product")
        assert "hunter" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None

    def test_special_characters_have_a_remedy(self) -> None:
        message = refused("select 1", "postgresql://joe:p@ss@localhost/shop")
        assert message == (
            "expected a URL like postgresql://user:password@host:5432/database, got another form; "
            "write special characters as percent codes (@ as %40, / as %2F)"
        )

    def test_connection_errors_say_why(self) -> None:
        assert "Connection refused" in refused("select 1", "postgresql://joe:hunter2@127.0.0.1:1/shop")

    def test_other_databases(self) -> None:
        message = refused("select 1", "mysql://localhost/shop")
        assert message == (
            "expected a database URL that starts with sqlite:/// or postgresql://, or a .duckdb file, got another"
        )


@pytest.mark.parametrize("url", ["sqlite:///{}", "postgresql://localhost/shop"])
def test_without_the_extra(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.db").touch()
    for driver in ("sqlite", "postgresql"):
        monkeypatch.setitem(sys.modules, f"adbc_driver_{driver}.dbapi", None)
    message = refused("select 1", url.format(tmp_path / "shop.db"), MissingExtraError)
    assert message.endswith("install it with: pip install 'ocular-rec[sql]'")
