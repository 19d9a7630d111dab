"""Files and frames become the same Interactions; what is wrong with them is said in one line that tells where."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ocular.data.interactions import Interactions
from ocular.data.readers import read
from ocular.errors import ConfigError, DataError, UnknownNameError

SALES = """client,product,price,quantity,day,region
Bolt,saw,10.5,1,2024-01-31,north
Acme,nut,0.25,100,2024-02-01,
Acme,saw,,2,,south
Acme,nut,0.30,50,2024-03-01,west
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: str | bytes, name: str = "sales.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def refused(source: Any, error: type[Exception] = DataError, **columns: Any) -> str:
    """The message, which is one line."""
    with pytest.raises(error) as caught:
        read(source, **{"client": "client", "product": "product", **columns})
    message = str(caught.value)
    assert "\n" not in message
    return message


def pairs(interactions: Interactions) -> set[tuple[Any, Any]]:
    matrix = interactions.to_matrix().tocoo()
    return {(interactions.user_labels[u], interactions.item_labels[i]) for u, i in zip(*matrix.coords, strict=True)}


def amounts_of(interactions: Interactions, client: str, product: str) -> dict[str, list[Any]]:
    u, i = interactions.user_index(client), interactions.item_index(product)
    pair = interactions.by_user.indptr[u] + list(interactions.by_user[u]).index(i)
    assert interactions.purchases is not None
    rows = interactions.purchases.pair == pair
    return {name: values[rows].tolist() for name, values in interactions.purchases.columns.items()}


class TestTextFiles:
    def test_who_bought_what_sorted_by_name(self, write: Write) -> None:
        interactions = read(write(SALES), client="client", product="product")
        assert interactions.user_labels.tolist() == ["Acme", "Bolt"]
        assert interactions.item_labels.tolist() == ["nut", "saw"]
        assert interactions.to_matrix().toarray().tolist() == [[1, 1], [0, 1]]
        assert interactions.purchases is None

    def test_all_amounts_of_a_repeated_purchase_are_kept(self, write: Write) -> None:
        interactions = read(
            write(SALES), client="client", product="product", price="price", quantity="quantity", time="day"
        )
        assert interactions.nnz == 3
        bought = amounts_of(interactions, "Acme", "nut")
        assert bought["price"] == [0.25, 0.30]
        assert bought["quantity"] == [100, 50]
        assert [str(day.date()) for day in bought["time"]] == ["2024-02-01", "2024-03-01"]
        unknown = amounts_of(interactions, "Acme", "saw")
        assert np.isnan(unknown["price"])
        assert unknown["time"] == [None]

    def test_names_are_text_without_surrounding_space(self, write: Write) -> None:
        interactions = read(write("client,product\n007, 12\n 007 ,013\n"), client="client", product="product")
        assert pairs(interactions) == {("007", "12"), ("007", "013")}

    def test_the_order_of_rows_does_not_matter(self, write: Write) -> None:
        header, *rows = SALES.splitlines(keepends=True)
        forward = read(write(SALES, "a.csv"), client="client", product="product")
        backward = read(write(header + "".join(rows[::-1]), "b.csv"), client="client", product="product")
        assert forward.fingerprint() == backward.fingerprint()
        assert forward.user_labels.tolist() == backward.user_labels.tolist()

    @pytest.mark.parametrize(
        ("name", "separator"),
        [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t"), ("a.txt", "|"), ("a.txt", ","), ("A.CSV", ",")],
    )
    @pytest.mark.parametrize("packed", [False, True])
    def test_separators_and_packing(self, write: Write, name: str, separator: str, packed: bool) -> None:
        content = SALES.replace(",", separator).encode()
        path = write(gzip.compress(content) if packed else content, name + ".gz" if packed else name)
        interactions = read(path, client="client", product="product", price="price")
        assert pairs(interactions) == {("Bolt", "saw"), ("Acme", "nut"), ("Acme", "saw")}
        assert amounts_of(interactions, "Bolt", "saw")["price"] == [10.5]

    def test_what_spreadsheets_write(self, write: Write) -> None:
        content = b'\xef\xbb\xbfclient, product \r\n"Acme, Inc.","5"" pipe"\r\nBolt,"two\r\nlines"\r\n\r\n'
        interactions = read(write(content), client="client", product="product")
        assert pairs(interactions) == {("Acme, Inc.", '5" pipe'), ("Bolt", "two\r\nlines")}

    def test_blank_lines_are_skipped_and_counted(self, write: Write) -> None:
        content = "\nclient,product,price\n\na,b,1\n   \nc,d,2\n\n"
        assert pairs(read(write(content), client="client", product="product")) == {("a", "b"), ("c", "d")}
        message = refused(write(content + "e,f,three\n"), price="price")
        assert message.startswith("sales.csv, line 8: expected a number in column 'price', got 'three'")

    def test_an_empty_last_column_is_not_a_short_row(self, write: Write) -> None:
        interactions = read(
            write("client,product,region\na,b,\nc,d,\n"),
            client="client",
            product="product",
            client_attributes=["region"],
        )
        assert interactions.user_attributes["region"].tolist() == [None, None]

    def test_attributes_are_the_first_known_value(self, write: Write) -> None:
        interactions = read(write(SALES), client="client", product="product", client_attributes=["region"])
        assert interactions.user_attributes["region"].tolist() == ["south", "north"]
        interactions = read(write(SALES), client="client", product="product", product_attributes="region")
        assert interactions.item_attributes["region"].tolist() == ["west", "north"]

    def test_home_folder(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(write(SALES).parent))
        assert read("~/sales.csv", client="client", product="product").nnz == 3


class TestBrokenTextFiles:
    @pytest.mark.parametrize(
        ("rows", "line", "what"),
        [
            ("a,b,1\nc,d,2,3\n", 3, "expected 3 fields as in the header, got 4"),
            ("a,b,1\nc,d\n", 3, "expected 3 fields as in the header, got 2"),
            ("a,b,1\nc", 3, "expected 3 fields as in the header, got 1"),
            ("a,b,\nc,d\ne,f,\n", 3, "expected 3 fields as in the header, got 2"),
            ('a,"b\nb\nb",1\nc,d\n', 5, "expected 3 fields as in the header, got 2"),
            ('a,"b\nb",1\nc,d,2,3\n', 4, "expected 3 fields as in the header, got 4"),
            ('a,b,1\nc,"d,2\ne,f,3\n', 3, "expected closed quotes"),
            ('a,b,1\nc,"d"x,2\n', 3, "expected closed quotes"),
            ('a,b,1\nc,5" pipe,2\ne,f,3\n', 3, "expected closed quotes, got a single quote in a field"),
            ("a,b,1\nc,d,2.5 EUR\n", 3, "expected a number in column 'price', got '2.5 EUR'; write it like 1234.5"),
            ('a,"b\nb",1\nc,d,x\n', 4, "expected a number in column 'price', got 'x'"),
            ("a,b,1\nc,d,inf\n", 3, "expected a finite number in column 'price', got 'inf'"),
        ],
    )
    def test_the_line_is_named(self, write: Write, rows: str, line: int, what: str) -> None:
        message = refused(write("client,product,price\n" + rows), price="price")
        assert message.startswith(f"sales.csv, line {line}: {what}")

    def test_a_line_far_down_a_packed_file(self, write: Write) -> None:
        good = "client,product\n" + "a,b\n" * 50_000
        path = write(gzip.compress((good + "c\n" + "a,b\n" * 10).encode()), "sales.csv.gz")
        assert refused(path).startswith("sales.csv.gz, line 50002: expected 2 fields as in the header, got 1")

    def test_not_utf8(self, write: Write) -> None:
        message = refused(write("client,product\nAcme,nut\nCafé,saw\n".encode("latin-1")))
        assert message == (
            'sales.csv, line 3: expected UTF-8 text, got byte 0xe9; pass encoding="cp1252" '
            "if a Windows program wrote the file, or save it as UTF-8"
        )

    def test_unknown_column_names_the_nearest_and_all(self, write: Write) -> None:
        message = refused(write(SALES), UnknownNameError, client="clients")
        assert message == (
            "sales.csv: no column named 'clients'; did you mean 'client'? "
            "(columns: client, product, price, quantity, day, region)"
        )

    def test_two_columns_of_the_same_name(self, write: Write) -> None:
        path = write("client,client,product\na,b,c\n")
        assert refused(path) == "sales.csv: expected one column named 'client', got 2; rename the others"

    def test_two_other_columns_of_the_same_name_do_no_harm(self, write: Write) -> None:
        path = write("x,client,x,product\n1,a,2,b\n")
        assert pairs(read(path, client="client", product="product")) == {("a", "b")}

    @pytest.mark.parametrize(
        ("content", "what"),
        [
            ("", "sales.csv: expected a header and rows, got an empty file"),
            ("\n \n", "sales.csv: expected a header and rows, got an empty file"),
            ("client,product\n", "sales.csv: expected rows after the header, got none"),
            ("client,product\n\n\n", "expected at least one purchase, got no rows"),
        ],
    )
    def test_nothing_there(self, write: Write, content: str, what: str) -> None:
        assert refused(write(content)) == what

    def test_a_truncated_packed_file(self, write: Write) -> None:
        rows = "".join(f"{n},{n * n}\n" for n in range(5000))
        packed = gzip.compress(f"client,product\n{rows}".encode())
        message = refused(write(packed[: len(packed) // 2], "sales.csv.gz"))
        assert message == "sales.csv.gz: expected a file that can be read, got unexpected end of file"

    def test_no_such_file(self, tmp_path: Path) -> None:
        message = refused(tmp_path / "none.csv")
        assert message == f"expected a file or folder, got '{tmp_path / 'none.csv'}', which is not there"

    def test_unsupported_file(self, write: Write) -> None:
        message = refused(write("", "sales.xlsx"))
        assert message == "expected .csv, .tsv, .txt (also .gz) or .parquet, got 'sales.xlsx'; save it as one of them"


class TestMissingNames:
    content = "client,product,price\na,b,1\n,c,2\nd, ,3\n  ,,x\ne,f,4\n"

    def test_refused_with_how_many_and_the_first_line(self, write: Write) -> None:
        assert refused(write(self.content)) == (
            "sales.csv, line 3: expected 'client' and 'product' in every row, got 3 without; "
            "fill them in, or pass drop_missing=True to leave them out"
        )

    def test_left_out_on_request_whatever_else_they_hold(self, write: Write) -> None:
        interactions = read(write(self.content), client="client", product="product", price="price", drop_missing=True)
        assert pairs(interactions) == {("a", "b"), ("e", "f")}
        assert interactions.purchases is not None
        assert interactions.purchases.columns["price"].tolist() == [1, 4]

    def test_lines_are_still_right_after_leaving_rows_out(self, write: Write) -> None:
        message = refused(write(self.content + "g,h,y\n"), price="price", drop_missing=True)
        assert message.startswith("sales.csv, line 7: expected a number in column 'price', got 'y'")

    def test_a_row_of_separators_is_missing_names_not_a_blank_line(self, write: Write) -> None:
        assert "line 3: expected 'client' and 'product'" in refused(write("client\tproduct\na\tb\n\t\n", "sales.tsv"))

    def test_nothing_left(self, write: Write) -> None:
        message = refused(write("client,product\n,a\n"), drop_missing=True)
        assert message == "expected at least one purchase, got none in 1 rows"

    def test_in_a_frame(self) -> None:
        frame = pl.DataFrame({"client": ["a", None, "c"], "product": [1, 2, None]})
        assert refused(frame).startswith("row 1: expected 'client' and 'product' in every row, got 2 without")


class TestValues:
    ratings = "client,product,stars\na,x,5\nb,x,3\na,y,1\nc,z,2.5\n"

    def test_min_value_turns_ratings_into_positives(self, write: Write) -> None:
        interactions = read(write(self.ratings), client="client", product="product", value="stars", min_value=3)
        assert pairs(interactions) == {("a", "x"), ("b", "x")}
        assert interactions.user_labels.tolist() == ["a", "b"]  # c and its z have no positive
        assert interactions.item_labels.tolist() == ["x"]

    def test_zeros_are_no_purchases(self, write: Write) -> None:
        path = write("client,product,bought\na,x,1\nb,x,0\na,y,1.0\n")
        assert pairs(read(path, client="client", product="product", value="bought")) == {("a", "x"), ("a", "y")}
        flags = pl.DataFrame({"client": ["a", "b"], "product": ["x", "y"], "bought": [False, True]})
        assert pairs(read(flags, client="client", product="product", value="bought")) == {("b", "y")}

    @pytest.mark.parametrize("value", ["5", "-1", "0.5"])
    def test_other_values_need_a_threshold(self, write: Write, value: str) -> None:
        message = refused(write(f"client,product,stars\na,x,1\nb,y,{value}\n"), value="stars")
        assert message == (
            f"sales.csv, line 3: expected 0 or 1 in column 'stars', got '{value}'; "
            "pass min_value to turn ratings into positives"
        )

    @pytest.mark.parametrize("min_value", [None, 3])
    @pytest.mark.parametrize("value", ["", "nan"])
    def test_missing_values_are_refused(self, write: Write, value: str, min_value: float | None) -> None:
        message = refused(write(f"client,product,stars\na,x,1\nb,y,{value}\n"), value="stars", min_value=min_value)
        assert message.startswith("sales.csv, line 3: expected a value in column 'stars', got ")

    def test_missing_values_in_pandas(self) -> None:
        frame = pd.DataFrame({"client": ["a", "b"], "product": ["x", "y"], "stars": [1.0, np.nan]})
        assert refused(frame, value="stars").startswith("row 1: expected a value in column 'stars'")

    def test_threshold_above_everything(self, write: Write) -> None:
        message = refused(write(self.ratings), value="stars", min_value=6)
        assert message == "expected at least one purchase with 'stars' at least 6, got none in 4 rows"

    def test_threshold_without_a_column(self, write: Write) -> None:
        message = refused(write(self.ratings), ConfigError, min_value=3)
        assert message == "expected a column to compare with min_value=3; name it with value"
        assert "got nan" in refused(write(self.ratings), ConfigError, value="stars", min_value=float("nan"))

    def test_one_column_for_both(self, write: Write) -> None:
        message = refused(write(self.ratings), ConfigError, product="client")
        assert message == "expected two columns, one of clients and one of products, got 'client' twice"


class TestTimes:
    def read_times(self, days: Any) -> list[str]:
        frame = pl.DataFrame({"client": [f"{n:02}" for n in range(len(days))], "product": ["x"] * len(days)})
        interactions = read(frame.with_columns(days.alias("day")), client="client", product="product", time="day")
        assert interactions.purchases is not None
        assert interactions.purchases.time is not None
        assert interactions.purchases.time.dtype == "datetime64[s]"
        return [str(time) for time in interactions.purchases.time]

    @pytest.mark.parametrize(
        ("written", "read_as"),
        [
            ("2024-01-31", "2024-01-31T00:00:00"),
            ("2024-01-31 14:30", "2024-01-31T14:30:00"),
            ("2024-01-31T14:30", "2024-01-31T14:30:00"),
            ("2024-01-31 14:30:15", "2024-01-31T14:30:15"),
            ("2024-01-31T14:30:15.9", "2024-01-31T14:30:15"),
            ("2024-01-31T14:30:15Z", "2024-01-31T14:30:15"),
            ("2024-01-31T14:30:15+02:00", "2024-01-31T12:30:15"),
            ("2024-01-31 14:30:15.5-0530", "2024-01-31T20:00:15"),
            ("2024-01-31 14:30+02", "2024-01-31T12:30:00"),
            ("1706711415", "2024-01-31T14:30:15"),
            ("", "NaT"),
        ],
    )
    def test_forms(self, written: str, read_as: str) -> None:
        assert self.read_times(pl.Series([written])) == [read_as]

    def test_forms_may_be_mixed(self) -> None:
        written = pl.Series(["2024-01-31", None, "2024-01-31T14:30Z", "2024-01-31 01:02:03"])
        expected = ["2024-01-31T00:00:00", "NaT", "2024-01-31T14:30:00", "2024-01-31T01:02:03"]
        assert self.read_times(written) == expected

    def test_columns_of_dates_and_numbers(self) -> None:
        day = pd.Timestamp("2024-01-31 14:30:15")
        zoned = pl.Series([day, None]).dt.replace_time_zone("Europe/Berlin")
        assert self.read_times(pl.Series([day, None])) == ["2024-01-31T14:30:15", "NaT"]
        assert self.read_times(pl.Series([day.date(), None])) == ["2024-01-31T00:00:00", "NaT"]
        assert self.read_times(zoned) == ["2024-01-31T13:30:15", "NaT"]
        assert self.read_times(pl.Series([1706711415, None])) == ["2024-01-31T14:30:15", "NaT"]
        assert self.read_times(pl.Series([1706711415.0, float("nan")])) == ["2024-01-31T14:30:15", "NaT"]

    @pytest.mark.parametrize("written", ["2024-02-30", "yesterday", "2024-01-31 25:00"])
    def test_not_a_date(self, write: Write, written: str) -> None:
        message = refused(write(f"client,product,day\na,x,2024-01-01\nb,y,{written}\n"), time="day")
        assert message.startswith(f"sales.csv, line 3: expected a date in column 'day', got '{written}'; write it like")

    @pytest.mark.parametrize("written", ["20240131", "1706711415000"])
    def test_numbers_that_are_not_seconds(self, write: Write, written: str) -> None:
        message = refused(write(f"client,product,day\na,x,{written}\n"), time="day")
        assert message.startswith("sales.csv, line 2: expected seconds since 1970 or ISO dates in column 'day'")


class Stream:
    """What only has Arrow's stream, as many libraries do."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "arrow": pa.table,
    "arrow batch": pa.record_batch,
    "arrow stream": Stream,
    "duckdb": lambda columns: duckdb.from_arrow(pa.table(columns)),
}
KINDS = {"pandas": pd.DataFrame, "arrow": pa.Table, "arrow batch": pa.Table}  # the others give polars


class TestFrames:
    @pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
    def test_every_frame_reads_the_same(self, make: Callable[..., Any]) -> None:
        columns = {"client": [10, 9, 10], "product": ["b ", "a", "a"], "price": [1.5, None, 2.5], "other": [[], [], []]}
        interactions = read(make(columns), client="client", product="product", price="price")
        assert interactions.user_labels.tolist() == [9, 10]  # sorted as numbers
        assert interactions.item_labels.tolist() == ["a", "b"]
        assert amounts_of(interactions, "10", "a")["price"] == [2.5]
        assert np.isnan(amounts_of(interactions, "9", "a")["price"])

    @pytest.mark.parametrize("kind", FRAMES)
    def test_the_same_kind_of_frame_comes_back(self, kind: str) -> None:
        columns: dict[str, list[Any]] = {"client": ["b", "a"], "product": [1, 2], "price": [1.5, 2.5]}
        interactions = read(FRAMES[kind](columns), client="client", product="product", price="price")
        frame = interactions.where(np.array([True, True])).to_frame()
        assert isinstance(frame, KINDS.get(kind, pl.DataFrame))
        assert pl.DataFrame(frame).rows() == [("a", 2, 2.5), ("b", 1, 1.5)]
        assert isinstance(interactions.native(pl.DataFrame({"any": [1]})), KINDS.get(kind, pl.DataFrame))

    @pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
    def test_unknown_column(self, make: Callable[..., Any]) -> None:
        message = refused(make({"client": [1], "prodcut": [2]}), UnknownNameError)
        assert "frame: no column named 'product'; did you mean 'prodcut'? (columns: client, prodcut)" in message

    def test_whole_numbers_survive_a_missing_one_in_pandas(self) -> None:
        frame = pd.DataFrame({"client": [17850.0, np.nan, 13047.0], "product": ["a", "b", "c"]})
        interactions = read(frame, client="client", product="product", drop_missing=True)
        assert interactions.user_labels.tolist() == [13047, 17850]
        assert interactions.user_labels.dtype == np.int64

    def test_pandas_types(self) -> None:
        frame = pd.DataFrame(
            {
                "client": pd.Categorical(["x", "y"]),
                "product": pd.array([2, 1], dtype="Int64"),
                "price": pd.array([None, 3], dtype="Int64"),
                "day": pd.to_datetime(["2024-01-31", None], utc=True),
                "grade": ["A", None],
            },
            index=[7, 7],
        )
        interactions = read(
            frame, client="client", product="product", price="price", time="day", client_attributes=["grade"]
        )
        assert pairs(interactions) == {("x", 2), ("y", 1)}
        assert amounts_of(interactions, "y", "1")["price"] == [3]
        assert interactions.user_attributes["grade"].tolist() == ["A", None]

    def test_attributes_keep_their_type(self) -> None:
        frame = pl.DataFrame(
            {"client": ["a", "a", "b"], "product": [1, 2, 1], "staff": [None, 12, 7], "score": [None, None, 0.5]}
        )
        interactions = read(frame, client="client", product="product", client_attributes=["staff", "score"])
        assert interactions.user_attributes["staff"].tolist() == [12, 7]
        assert interactions.user_attributes["staff"].dtype == np.int64
        np.testing.assert_array_equal(interactions.user_attributes["score"], [np.nan, 0.5])

    def test_fractions_are_not_names(self) -> None:
        frame = pd.DataFrame({"client": [1.0, 2.5], "product": ["a", "b"]})
        assert refused(frame) == (
            "row 1: expected names or whole numbers in column 'client', got 2.5; convert the column to text or integers"
        )

    def test_floats_too_large_to_be_exact_are_not_names(self) -> None:
        assert "row 0" in refused(pl.DataFrame({"client": [2.0**53], "product": ["a"]}))

    def test_numbers_too_large_for_a_label(self) -> None:
        frame = pl.DataFrame({"client": [1, 2**63], "product": ["a", "b"]}, schema_overrides={"client": pl.UInt64})
        assert refused(frame).startswith("row 1: expected whole numbers below 2^63 in column 'client'")

    def test_mixed_types_in_pandas(self) -> None:
        frame = pd.DataFrame({"client": [1, "b", None], "product": ["a", "b", "c"]})
        assert refused(frame) == (
            "expected one type of value in column 'client', got int and str; "
            "convert it, for example with frame['client'].astype(str)"
        )

    @pytest.mark.parametrize(("client", "kind"), [([True], "Boolean"), ([b"a"], "Binary"), ([[1]], "List")])
    def test_types_that_are_not_names(self, client: list[Any], kind: str) -> None:
        message = refused(pl.DataFrame({"client": client, "product": ["a"]}))
        assert message.startswith(f"expected names or whole numbers in column 'client', got {kind}")

    def test_types_that_are_not_amounts(self) -> None:
        frame = pl.DataFrame({"client": ["a"], "product": ["b"], "other": [[1]]})
        assert refused(frame, price="other") == "expected numbers in column 'other', got List(Int64)"
        assert refused(frame, time="other") == "expected dates in column 'other', got List(Int64)"

    def test_no_rows(self) -> None:
        frame = pl.DataFrame(schema={"client": pl.String, "product": pl.String})
        assert refused(frame) == "expected at least one purchase, got no rows"

    def test_not_a_frame(self) -> None:
        assert refused({}) == "expected a path or a frame such as pandas, polars or Arrow, got dict"
        assert refused([1, 2]) == "expected a list of paths, got int"
        assert refused([]) == "expected a list of paths, got an empty list"

    def test_returns_are_not_purchases(self, caplog: pytest.LogCaptureFixture) -> None:
        frame = pl.DataFrame(
            {"client": ["a", "a", "b"], "product": ["x", "x", "x"], "price": [2, 2, 2], "quantity": [3, -1, -1]}
        )
        with caplog.at_level("INFO", logger="ocular"):
            interactions = read(frame, client="client", product="product", price="price", quantity="quantity")
        assert pairs(interactions) == {("a", "x")}
        assert amounts_of(interactions, "a", "x") == {"price": [2.0], "quantity": [3.0]}
        assert "left out 2 rows with a quantity of zero or less" in caplog.text

    def returns(self, **options: Any) -> Interactions:
        """a returned all x in two parts, b a part of x, c bought at an unknown quantity; y was returned unbought."""
        rows = [("a", "x", 0.1), ("a", "x", -0.3), ("a", "x", 0.2), ("b", "x", 3.0), ("b", "x", -1.0), ("c", "x", None)]
        rows += [("c", "x", -5.0), ("d", "y", -1.0), ("d", "z", 2.0), ("a", "z", 1.0)]
        frame = pl.DataFrame(rows, schema=["client", "product", "quantity"], orient="row")
        return read(frame, client="client", product="product", quantity="quantity", **options)

    def test_what_was_fully_returned_was_not_bought(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO", logger="ocular"):
            interactions = self.returns()
        assert pairs(interactions) == {("b", "x"), ("c", "x"), ("d", "z"), ("a", "z")}
        assert amounts_of(interactions, "b", "x") == {"quantity": [3.0]}
        assert [record.getMessage() for record in caplog.records] == [
            "left out 4 rows with a quantity of zero or less (returns)",
            "left out 1 pairs of a client and a product that were fully returned",
        ]

    def test_what_was_fully_returned_is_kept_on_request(self) -> None:
        interactions = self.returns(keep_returned=True)
        assert pairs(interactions) == {("a", "x"), ("b", "x"), ("c", "x"), ("d", "z"), ("a", "z")}
        assert amounts_of(interactions, "a", "x") == {"quantity": [0.1, 0.2]}

    def test_a_return_from_before_the_first_purchase_cancels_nothing(self) -> None:
        """a returned before it bought, b after, c on the same day; of d the day of the return is not known."""
        frame = pl.DataFrame(
            {
                "client": ["a", "a", "b", "b", "c", "c", "d", "d", "e"],
                "product": ["x"] * 9,
                "quantity": [-2, 2, 2, -2, 2, -2, 2, -2, 1],
                "day": [None if month is None else f"2024-0{month}-01" for month in (1, 2, 2, 3, 2, 2, 2, None, 2)],
            }
        )
        columns = {"client": "client", "product": "product", "quantity": "quantity"}
        assert pairs(read(frame, time="day", **columns)) == {("a", "x"), ("e", "x")}
        assert pairs(read(frame, **columns)) == {("e", "x")}

    def test_everything_returned(self) -> None:
        frame = pl.DataFrame({"client": ["a", "a"], "product": ["x", "x"], "quantity": [2, -2]})
        assert refused(frame, quantity="quantity") == "expected at least one purchase, got none in 2 rows"

    def test_negative_prices_without_a_quantity_are_reported(self, caplog: pytest.LogCaptureFixture) -> None:
        frame = pl.DataFrame({"client": ["a", "a", "b"], "product": ["x", "x", "y"], "price": [2.0, -2.0, None]})
        with caplog.at_level("WARNING", logger="ocular"):
            interactions = read(frame, client="client", product="product", price="price")
        assert pairs(interactions) == {("a", "x"), ("b", "y")}
        assert [record.getMessage() for record in caplog.records] == [
            "1 of 3 purchases have a negative 'price'; they count as purchases, because no quantity column says which "
            "are returns"
        ]

    def test_amounts_that_are_not_positive_stay(self) -> None:
        frame = pl.DataFrame({"client": ["a"], "product": ["b"], "price": [-2], "quantity": [None]})
        interactions = read(frame, client="client", product="product", price="price", quantity="quantity")
        assert amounts_of(interactions, "a", "b")["price"] == [-2.0]


class TestNames:
    sales = (
        "sku,article,company,title\n"
        "1,nut,a,Acme\n1,Nut M8,a,Acme\n1, Nut M8,b,\n2,saw,b,Bolt\n3,saw,c,Acme\n4,,c,Acme\n"
    )

    def read(self, write: Write) -> Interactions:
        return read(write(self.sales), client="company", product="sku", client_name="title", product_name="article")

    def test_the_most_frequent_name_is_shown_and_the_key_where_there_is_none(self, write: Write) -> None:
        interactions = self.read(write)
        assert interactions.item_labels.tolist() == ["1", "2", "3", "4"]
        assert [interactions.item_name(row) for row in range(4)] == ["Nut M8", "saw", "saw", "4"]
        assert [interactions.user_name(row) for row in range(3)] == ["Acme", "Bolt", "Acme"]

    def test_rows_are_found_by_key_and_by_unique_name(self, write: Write) -> None:
        interactions = self.read(write)
        assert interactions.item_index("1") == interactions.item_index("Nut M8") == 0
        assert interactions.user_index("Bolt") == interactions.user_index("b") == 1
        with pytest.raises(UnknownNameError, match=r"^2 products are named 'saw': '2', '3'; use one of these keys$"):
            interactions.item_index("saw")
        with pytest.raises(UnknownNameError, match=r"^no product named 'nut' among 4; did you mean 'Nut M8'\?$"):
            interactions.item_index("nut")

    def test_names_survive_filters_and_frames(self, write: Write) -> None:
        interactions = self.read(write)
        assert interactions.where(np.ones(interactions.nnz, dtype=bool)).item_name(0) == "Nut M8"
        frame = interactions.to_frame()
        assert frame.columns == ["client", "product", "client_name", "product_name"]
        assert frame.row(0) == ("a", "1", "Acme", "Nut M8")

    def test_without_names_the_keys_are_shown(self, write: Write) -> None:
        interactions = read(write(self.sales), client="company", product="sku")
        assert interactions.item_names is None
        assert interactions.item_name(0) == "1"
        assert interactions.to_frame().columns == ["client", "product"]


class TestParquet:
    frame = pl.DataFrame({"client": [1, 2], "product": ["a", "b"], "price": [1.0, None]})

    def test_file(self, tmp_path: Path) -> None:
        self.frame.write_parquet(tmp_path / "sales.parquet")
        interactions = read(tmp_path / "sales.parquet", client="client", product="product", price="price")
        assert pairs(interactions) == {(1, "a"), (2, "b")}

    def test_folder_of_parts_without_unfinished_ones(self, tmp_path: Path) -> None:
        (tmp_path / "_temporary").mkdir()
        self.frame.write_parquet(tmp_path / "part-0.parquet")
        self.frame.with_columns(client=pl.col("client") + 2).write_parquet(tmp_path / "part-1.parquet")
        self.frame.with_columns(client=pl.col("client") + 4).write_parquet(tmp_path / "_temporary" / "part-2.parquet")
        (tmp_path / "_SUCCESS").touch()
        interactions = read(tmp_path, client="client", product="product")
        assert pairs(interactions) == {(1, "a"), (2, "b"), (3, "a"), (4, "b")}

    def test_folder_without_files(self, tmp_path: Path) -> None:
        (tmp_path / "sales.xlsx").touch()
        assert refused(tmp_path) == f"expected .parquet or .csv files in the folder '{tmp_path}', got none"

    def test_not_parquet(self, write: Write) -> None:
        assert refused(write(SALES, "sales.parquet")).startswith("sales.parquet: expected Parquet, got a file that")

    def test_unknown_column(self, tmp_path: Path) -> None:
        self.frame.write_parquet(tmp_path / "sales.parquet")
        message = refused(tmp_path / "sales.parquet", UnknownNameError, product="produkt")
        assert "sales.parquet: no column named 'produkt'; did you mean 'product'?" in message
