"""Files as people have them: encodings, decimal commas, other dates, several files, folders, globs, stdin, DuckDB."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from command import run

from ocular import OCuLaR
from ocular.cli.reading import spark_place
from ocular.data.interactions import Interactions
from ocular.data.readers import read, read_sql
from ocular.errors import ConfigError, DataError, MissingExtraError, UnknownNameError
from ocular.model import load

COLUMNS: dict[str, Any] = {"client": "client", "product": "product"}
GERMAN = (
    "Kunde;Artikel;Bezeichnung;Preis;Menge;Datum\r\n"
    "Müller;007;Schraube;1.234,56;3;31.01.2024\r\n"
    "Müller;008;Öl;0,5;1;1.2.2024\r\n"
    "Größ;007;Schraube;1.000.000;2;\r\n"
)
GERMAN_COLUMNS: dict[str, Any] = {
    "client": "Kunde",
    "product": "Artikel",
    "price": "Preis",
    "quantity": "Menge",
    "time": "Datum",
    "decimal": ",",
    "thousands": ".",
    "date_format": "%d.%m.%Y",
}


def pairs(interactions: Interactions) -> set[tuple[Any, Any]]:
    matrix = interactions.to_matrix().tocoo()
    users, items = interactions.user_labels, interactions.item_labels
    return {(users[u], items[i]) for u, i in zip(*matrix.coords, strict=True)}


def refused(source: Any, error: type[Exception] = DataError, **columns: Any) -> str:
    with pytest.raises(error) as caught:
        read(source, **{**COLUMNS, **columns})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def prices(texts: list[str], **formats: Any) -> list[float]:
    frame = pl.DataFrame({"client": [f"{n:02}" for n in range(len(texts))], "product": "x", "price": texts})
    interactions = read(frame, **COLUMNS, price="price", **formats)
    assert interactions.purchases is not None
    return interactions.purchases.columns["price"].tolist()


class TestEncodings:
    def check(self, interactions: Interactions) -> None:
        assert pairs(interactions) == {("Müller", "007"), ("Müller", "008"), ("Größ", "007")}
        assert interactions.purchases is not None
        assert interactions.purchases.columns["price"].tolist() == [1_000_000, 1234.56, 0.5]
        times = interactions.purchases.columns["time"].astype(str).tolist()
        assert times == ["NaT", "2024-01-31T00:00:00", "2024-02-01T00:00:00"]

    @pytest.mark.parametrize("encoding", ["cp1252", "iso-8859-1", "CP850", "utf-16-le"])
    def test_by_name(self, tmp_path: Path, encoding: str) -> None:
        (tmp_path / "verkauf.csv").write_bytes(GERMAN.encode(encoding))
        self.check(read(tmp_path / "verkauf.csv", **GERMAN_COLUMNS, encoding=encoding))

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_detected(self, tmp_path: Path, encoding: str, pack: Callable[[bytes], bytes]) -> None:
        (tmp_path / "verkauf.csv").write_bytes(pack(GERMAN.encode(encoding)))
        self.check(read(tmp_path / "verkauf.csv", **GERMAN_COLUMNS))

    def test_big_endian_with_a_mark(self, tmp_path: Path) -> None:
        (tmp_path / "verkauf.csv").write_bytes(b"\xfe\xff" + GERMAN.encode("utf-16-be"))
        self.check(read(tmp_path / "verkauf.csv", **GERMAN_COLUMNS))

    def test_a_long_file_whose_letters_straddle_pieces(self, tmp_path: Path) -> None:
        rows = "".join(f"ü{n},é\n" for n in range(200_000))
        (tmp_path / "a.csv").write_bytes(f"client,product\n{rows}".encode("utf-16"))
        assert read(tmp_path / "a.csv", **COLUMNS).n_users == 200_000

    def test_utf16_without_a_mark_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(GERMAN.encode("utf-16-le"))
        assert refused(tmp_path / "a.csv") == (
            'a.csv, line 1: expected UTF-8 text, got byte 0x00; pass encoding="utf-16-le" if it is UTF-16, '
            "or save it as UTF-8"
        )

    def test_a_byte_that_the_encoding_does_not_have(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(b"client,product\na,b\nc,\x81\n")
        assert refused(tmp_path / "a.csv", encoding="cp1252") == (
            "a.csv, line 3: expected text in cp1252, got byte 0x81; pass another encoding"
        )

    @pytest.mark.parametrize("encoding", ["klingon", "base64", "rot13", "idna", "punycode", "utf\0-8", ""])
    def test_no_such_encoding(self, tmp_path: Path, encoding: str) -> None:
        (tmp_path / "a.csv").write_text("client,product\na,x\n")
        assert refused(tmp_path / "a.csv", ConfigError, encoding=encoding) == (
            f"expected encoding to be one such as utf-8, utf-16 or cp1252, got {encoding!r}"
        )

    def test_big_endian_utf32_with_a_mark(self, tmp_path: Path) -> None:
        (tmp_path / "verkauf.csv").write_bytes(b"\0\0\xfe\xff" + GERMAN.encode("utf-32-be"))
        self.check(read(tmp_path / "verkauf.csv", **GERMAN_COLUMNS))

    def test_lines_are_right_in_another_encoding(self, tmp_path: Path) -> None:
        (tmp_path / "verkauf.csv").write_bytes((GERMAN + "Ä;1;Ö;zwei;1;\r\n").encode("cp1252"))
        message = refused(tmp_path / "verkauf.csv", **GERMAN_COLUMNS, encoding="cp1252")
        assert message == (
            "verkauf.csv, line 5: expected a number in column 'Preis', got 'zwei'; "
            "write it like 1234,5, or leave it empty where it is not known"
        )


class TestNumbers:
    @pytest.mark.parametrize(
        ("formats", "texts", "numbers"),
        [
            ({"decimal": ","}, ["12,50", "-3", "7,", "1,5e3"], [12.5, -3, 7, 1500]),
            ({"decimal": ",", "thousands": "."}, ["1.234,56", "-1.234.567", "1234,5"], [1234.56, -1_234_567, 1234.5]),
            ({"thousands": ","}, ["1,234.56", "12,345", "0.5"], [1234.56, 12_345, 0.5]),
            ({"decimal": ",", "thousands": " "}, ["1 234,5", "1\u00a0234", "1\u202f234"], [1234.5, 1234, 1234]),
            ({"thousands": "'"}, ["1'234.5", "1’234"], [1234.5, 1234]),
        ],
    )
    def test_forms(self, formats: dict[str, str], texts: list[str], numbers: list[float]) -> None:
        assert prices(texts, **formats) == numbers

    @pytest.mark.parametrize(
        ("text", "formats", "remedy"),
        [
            ("1.234,56", {}, 'pass decimal="," and thousands="."'),
            ("1.234.567", {}, 'pass decimal="," and thousands="."'),
            ("12,5", {}, 'pass decimal=","'),
            ("1,234.5", {}, 'pass thousands=","'),
            ("1,234", {}, 'pass decimal="," where this is about one, thousands="," where it is a thousand or more'),
            ("1 234", {}, 'pass thousands=" "'),
            ("1'234.50", {}, 'pass thousands="\'"'),
            ("12.5", {"decimal": ","}, 'pass decimal="."'),
            # not 125
            ("12.5", {"decimal": ",", "thousands": "."}, "write it like 1234,5, or leave it empty"),
            ("12,5", {"thousands": ","}, "write it like 1234.5, or leave it empty"),
            ("1.23,5", {"decimal": ",", "thousands": "."}, "write it like 1234,5, or leave it empty"),
        ],
    )
    def test_what_cannot_be_read_names_the_options_to_try(
        self, text: str, formats: dict[str, str], remedy: str
    ) -> None:
        frame = pl.DataFrame({"client": ["a"], "product": ["x"], "price": [text]})
        message = refused(frame, price="price", **formats)
        assert message.startswith(f"row 0: expected a number in column 'price', got {text!r}; {remedy}")

    @pytest.mark.parametrize(
        ("texts", "notes"),
        [
            (
                ["7", "1.200", "12.000"],
                ['column \'price\': 1.200 was read as 1.2; pass decimal="," and thousands="." if it is 1200'],
            ),
            (["1.200", "1.25"], []),
            (["0.125", "1.200"], []),
            (["7", "8"], []),
        ],
    )
    def test_points_that_may_be_thousands_are_noted(
        self, texts: list[str], notes: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        assert prices(texts) == [float(text) for text in texts]
        assert caplog.messages == notes

    @pytest.mark.parametrize(
        ("formats", "message"),
        [
            ({"decimal": ",", "thousands": ","}, "expected decimal and thousands to differ, got ',' for both"),
            ({"decimal": "comma"}, "expected decimal to be one character such as . or , got 'comma'"),
            ({"decimal": None}, "expected decimal to be one character such as . or , got None"),
            ({"thousands": ""}, "expected thousands to be one character such as . or , got ''"),
            (
                {"date_format": "DD.MM"},
                "expected date_format to name day, month and year, as %d.%m.%Y does, got 'DD.MM'",
            ),
        ],
    )
    def test_senseless_formats(self, formats: dict[str, Any], message: str) -> None:
        assert refused("none.csv", ConfigError, **formats) == message


class TestDates:
    @pytest.mark.parametrize(
        ("date_format", "day"),
        [
            ("%d.%m.%Y", "31.01.2024"),
            ("%m/%d/%Y", "1/31/2024"),
            ("%Y%m%d", 20240131),
            ("%Y%m%d", 20240131.0),
            ("%d.%m.%Y %H:%M", "31.01.2024 00:00"),
            ("%d.%m.%Y %H:%M %z", "31.01.2024 02:00 +0200"),
        ],
    )
    def test_forms(self, date_format: str, day: Any) -> None:
        frame = pl.DataFrame({"client": ["a", "b"], "product": ["x", "x"], "day": [day, None]})
        interactions = read(frame, **COLUMNS, time="day", date_format=date_format)
        assert interactions.purchases is not None
        assert interactions.purchases.columns["time"].astype(str).tolist() == ["2024-01-31T00:00:00", "NaT"]

    @pytest.mark.parametrize(
        ("text", "remedy"),
        [
            ("31.01.2024", 'pass date_format="%d.%m.%Y"'),
            ("31.1.2024 14:30", 'pass date_format="%d.%m.%Y %H:%M"'),
            ("31/01/2024", 'pass date_format="%d/%m/%Y" or, where the month comes first, date_format="%m/%d/%Y"'),
        ],
    )
    def test_what_cannot_be_read_names_the_format_to_try(self, text: str, remedy: str) -> None:
        frame = pl.DataFrame({"client": ["a"], "product": ["x"], "day": [text]})
        assert refused(frame, time="day") == f"row 0: expected a date in column 'day', got {text!r}; {remedy}"

    def test_nan_is_a_missing_date(self) -> None:
        frame = pl.DataFrame({"client": ["a", "b"], "product": ["x", "x"], "day": [20240131.0, float("nan")]})
        interactions = read(frame, **COLUMNS, time="day", date_format="%Y%m%d")
        assert interactions.purchases is not None
        assert interactions.purchases.columns["time"].astype(str).tolist() == ["2024-01-31T00:00:00", "NaT"]

    def test_another_form_than_the_given_one(self) -> None:
        frame = pl.DataFrame({"client": ["a"], "product": ["x"], "day": ["2024-01-31"]})
        assert refused(frame, time="day", date_format="%d.%m.%Y") == (
            "row 0: expected a date like %d.%m.%Y in column 'day', got '2024-01-31'; check date_format"
        )

    @pytest.mark.parametrize(("text", "date_format"), [("31.01.24", "%d.%m.%Y"), ("14:30", "%H:%M")])
    def test_a_format_with_the_wrong_year_is_refused(self, text: str, date_format: str) -> None:
        frame = pl.DataFrame({"client": ["a"], "product": ["x"], "day": [text]})
        assert refused(frame, time="day", date_format=date_format) == (
            f"row 0: expected a date from 1900 on in column 'day', got {text!r}; "
            "pass a date_format with %Y for a year of four digits, %y for one of two"
        )


class TestSeveral:
    @pytest.fixture
    def sales(self, tmp_path: Path) -> Path:
        for month, rows in (("01", "a,x\n"), ("02", "b,y\n"), ("03", "c,\n")):
            folder = tmp_path / "sales" / f"month={month}"
            folder.mkdir(parents=True)
            (folder / "part.csv").write_text(f"client,product\n{rows}")
        return tmp_path / "sales"

    def test_list_folder_and_pattern(self, sales: Path, tmp_path: Path) -> None:
        both = {("a", "x"), ("b", "y")}
        january, february = sales / "month=01" / "part.csv", sales / "month=02" / "part.csv"
        assert pairs(read([january, str(february)], **COLUMNS)) == both
        assert pairs(read(sales / "month=0[12]" / "*.csv", **COLUMNS)) == both
        assert pairs(read(str(tmp_path / "**" / "month=02" / "*"), **COLUMNS)) == {("b", "y")}
        assert pairs(read(sales, **COLUMNS, drop_missing=True)) == both

    def test_a_file_that_two_patterns_match_is_read_once(self, sales: Path) -> None:
        january = sales / "month=01" / "part.csv"
        january.write_text("client,product,price\na,x,1\n")
        interactions = read([january, sales / "month=01" / "*"], **COLUMNS, price="price")
        assert interactions.purchases is not None
        assert len(interactions.purchases) == 1

    def test_a_file_spelled_in_several_ways_is_read_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "a.csv").write_text("client,product,price\nA,x,1\n")
        monkeypatch.chdir(tmp_path)
        spellings = ["a/a.csv", tmp_path / "a" / "a.csv", "a/../a/a.csv", "a"]
        interactions = read(spellings, **COLUMNS, price="price")
        assert interactions.purchases is not None
        assert len(interactions.purchases) == 1

    def test_the_file_and_line_of_a_bad_row(self, sales: Path) -> None:
        (sales / "month=03").rename(sales / "month=025")
        assert refused(sales).startswith(
            "part.csv, line 2: expected 'client' and 'product' in every row, got 1 without"
        )
        path = sales / "second.csv"
        path.write_text("client,product,price\na,x,1\na,y,two\n")
        (sales / "first.csv").write_text("client,product,price\n" + "b,x,3\n" * 5)
        message = refused([sales / "first.csv", path], price="price")
        assert message.startswith("second.csv, line 3: expected a number in column 'price', got 'two'")

    def test_columns_in_the_names_of_folders(self, sales: Path) -> None:
        read_months = read(sales, **COLUMNS, client_attributes=["month"], drop_missing=True)
        assert read_months.user_attributes["month"].tolist() == ["01", "02"]
        assert "no column named 'year'" in refused(sales, UnknownNameError, client_attributes=["year"])

    def test_no_match_and_mixed_kinds(self, sales: Path) -> None:
        assert refused(str(sales / "*.parquet")) == f"expected files that match '{sales / '*.parquet'}', got none"
        pl.DataFrame({"client": [1]}).write_parquet(sales / "a.parquet")
        assert refused(sales).startswith(f"expected files of one kind in the folder '{sales}', got Parquet and text")

    def test_parquet_of_different_widths_and_partitions(self, tmp_path: Path) -> None:
        for year, region, kind in ((2023, "North%20Sea", pl.Int32), (2024, "__HIVE_DEFAULT_PARTITION__", pl.Int64)):
            folder = tmp_path / f"year={year}" / f"region={region}"
            folder.mkdir(parents=True)
            frame = pl.DataFrame(
                {"client": [year], "product": ["x"], str(year): [0]}, schema_overrides={"client": kind}
            )
            frame.write_parquet(folder / "part-0.parquet")
        interactions = read(tmp_path, **COLUMNS, client_attributes=["year", "region"])
        assert interactions.user_labels.tolist() == [2023, 2024]
        assert interactions.user_attributes["year"].tolist() == [2023, 2024]
        assert interactions.user_attributes["region"].tolist() == ["North Sea", None]
        assert pairs(read([tmp_path / "year=2024", tmp_path / "year=2023"], **COLUMNS)) == pairs(interactions)
        by_year = read(tmp_path, client="year", product="product")
        assert by_year.user_labels.tolist() == [2023, 2024]

    def test_the_row_of_a_bad_value_in_several_parquet_files(self, tmp_path: Path) -> None:
        pl.DataFrame({"client": ["a"] * 3, "product": ["x"] * 3}).write_parquet(tmp_path / "a.parquet")
        pl.DataFrame({"client": ["a", None], "product": ["x"] * 2}).write_parquet(tmp_path / "b.parquet")
        assert refused(tmp_path).startswith("b.parquet, row 1: expected 'client' and 'product' in every row")

    def test_different_types(self, tmp_path: Path) -> None:
        pl.DataFrame({"client": ["a"], "product": ["x"]}).write_parquet(tmp_path / "a.parquet")
        pl.DataFrame({"client": [[1]], "product": ["x"]}).write_parquet(tmp_path / "b.parquet")
        assert "expected files with the same columns of the same types, got" in refused(tmp_path)


class TestWrongPaths:
    def test_a_model_is_not_purchases(self, tmp_path: Path) -> None:
        OCuLaR(2, max_iter=2).fit(np.eye(4)).save(tmp_path / "shop")
        message = refused(tmp_path / "shop")
        assert message.startswith("expected purchases, got a model folder; name the files that 'shop' was fitted to")
        assert spark_place([str(tmp_path / "shop")], {"query": None}) is None

    def test_purchases_beside_a_manifest_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "manifest.json").write_text("{}")
        (tmp_path / "a.csv").write_text("client,product\na,x\n")
        assert pairs(read(tmp_path, **COLUMNS)) == {("a", "x")}

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("slaes.csv", "; did you mean 'sales.csv'?"),
            ("sales.txt", "; did you mean 'sales.csv'?"),
            ("sales.duckdb", "; did you mean 'sales.csv'?"),
            ("customers.csv", ""),
            ("nowhere/sales.csv", ""),
        ],
    )
    def test_the_nearest_name_of_the_folder_is_suggested(self, tmp_path: Path, name: str, hint: str) -> None:
        for there in ("sales.csv", "returns.csv"):
            (tmp_path / there).touch()
        assert refused(tmp_path / name).endswith(f"{tmp_path / name}', which is not there{hint}")

    def test_standard_input_twice(self) -> None:
        assert refused(["-", "-"]) == "expected - at most once, got it 2 times; standard input can be read once"


class TestStandardInput:
    def give(self, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_text(self, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]) -> None:
        self.give(monkeypatch, pack(b"client;product\na;x\n"))
        assert pairs(read("-", **COLUMNS)) == {("a", "x")}

    def test_parquet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        content = io.BytesIO()
        pl.DataFrame({"client": [1], "product": ["x"]}).write_parquet(content)
        self.give(monkeypatch, content.getvalue())
        assert pairs(read("-", **COLUMNS)) == {(1, "x")}

    def test_a_pipe(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(b"client,product\na,x\n"))
        writer.start()
        assert pairs(read(pipe, **COLUMNS)) == {("a", "x")}
        writer.join(10)

    def test_a_bad_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.give(monkeypatch, b"client,product\na,x\nb\n")
        assert refused("-").startswith("standard input, line 3: expected 2 fields as in the header, got 1")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "https://joe:hunter2@example.org/a.csv",
            "https://…; download it first, for example with curl -O, and pass the file",
        ),
        ("s3://bucket/a.parquet", "s3://…; copy it to this machine first, or read it where it is on Spark"),
        ("postgresql://joe:hunter2@db/shop", "postgresql://…; pass query to read from a database"),
        ("file:///a.csv", "file://…; leave out file://"),
    ],
)
def test_addresses_are_refused(address: str, message: str) -> None:
    assert refused(address) == f"expected a file or folder on this machine, got an address {message}"


class TestDuckDB:
    @pytest.fixture
    def shop(self, tmp_path: Path) -> Path:
        path = tmp_path / "shop.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("create table sales (client varchar, product integer, price decimal(8, 2), day date)")
            connection.execute("insert into sales values ('a', 1, 2.5, '2024-01-31'), ('b', 2, null, null)")
        return path

    def test_the_only_table_a_named_one_and_a_query(self, shop: Path) -> None:
        everything = {("a", 1), ("b", 2)}
        interactions = read(shop, **COLUMNS, price="price", time="day")
        assert pairs(interactions) == everything
        assert interactions.purchases is not None
        np.testing.assert_array_equal(interactions.purchases.columns["price"], [2.5, np.nan])
        assert interactions.purchases.columns["time"].astype(str).tolist() == ["2024-01-31T00:00:00", "NaT"]
        assert pairs(read_sql("sales", str(shop), **COLUMNS)) == everything
        assert pairs(read_sql("select * from sales where price > 1", f"duckdb:///{shop}", **COLUMNS)) == {("a", 1)}

    def test_several_tables_are_named(self, shop: Path) -> None:
        with duckdb.connect(str(shop)) as connection:
            connection.execute("create table clients (client varchar)")
        assert refused(shop) == (
            "shop.duckdb: expected one table, got 2 (clients, sales); name a table or write a query with query"
        )
        assert read(shop, **COLUMNS, query="sales").nnz == 2

    def test_nothing_is_written(self, shop: Path) -> None:
        assert "read-only" in refused(shop, query="delete from sales")
        assert read(shop, **COLUMNS).nnz == 2

    def test_what_is_wrong(self, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "no column named 'product'" in refused(shop, UnknownNameError, query="select client from sales")
        assert refused(shop, query="select absent from sales").startswith(
            "shop.duckdb: expected rows from DuckDB, got: "
        )
        assert refused(tmp_path / "none.duckdb").endswith("none.duckdb', which is not there")
        assert refused([shop, shop.with_suffix(".csv")], ConfigError, query="sales") == (
            "expected one database with query, got 2 sources"
        )
        monkeypatch.setitem(sys.modules, "duckdb", None)
        assert refused(shop, MissingExtraError).endswith("pip install 'ocular-rec[sql]'")


def test_a_german_file_from_the_command_line(tmp_path: Path) -> None:
    rows = [f"{u:03};Käufer {u};A{i};Gerät Nr. {i};1.234,56;2;31.01.2024" for u in range(6) for i in range(3) if u != i]
    path = tmp_path / "verkauf.csv"
    path.write_bytes(("Kunde;Name;Artikel;Bezeichnung;Preis;Menge;Datum\r\n" + "\r\n".join(rows)).encode("cp1252"))
    given = ["fit", path, "--client", "Kunde", "--product", "Artikel", "--price", "Preis", "--quantity", "Menge"]
    given += ["--time", "Datum", "--client-name", "Name", "--product-name", "Bezeichnung", "--coclusters", 1]
    given += ["--regularization", 1, "--links", 0, "--no-calibration", "-o", tmp_path / "model"]
    # each refusal names the option that gets one further
    for option, value in (("encoding", "cp1252"), ("decimal", ","), ("thousands", "."), ("date-format", "%d.%m.%Y")):
        done = run(*given)
        assert done.returncode == 2
        assert f'--{option} "{value}"' in done.stderr
        given += [f"--{option}", value]
    done = run(*given)
    assert (done.returncode, done.stderr) == (0, "")
    assert "read 6 clients × 3 products, 15 pairs" in done.stdout
    interactions = load(tmp_path / "model").interactions_
    assert interactions.purchases is not None
    assert set(interactions.purchases.columns["price"]) == {1234.56}
    assert set(interactions.purchases.columns["time"].astype(str)) == {"2024-01-31T00:00:00"}
    done = run("recommend", tmp_path / "model", "--client", "000", "--format", "json")
    assert json.loads(done.stdout)


def test_several_sources_on_the_command_line(tmp_path: Path) -> None:
    for name, product in (("a", "x"), ("b", "y")):
        rows = "".join(f"c{u},{product}\n" for u in range(4))
        (tmp_path / f"{name}.csv").write_text(f"client,product\n{rows}")
    done = run("fit", tmp_path / "a.csv", tmp_path / "b.csv", "--client", "client", "--product", "product",
               "--coclusters", 1, "--no-calibration", "-o", tmp_path / "model")  # fmt: skip
    assert "read 4 clients × 2 products, 8 pairs" in done.stdout, done.stderr
