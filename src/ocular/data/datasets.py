"""
Public data sets from a local folder. Nothing is downloaded: each has a licence that the user accepts at its source.

Every loader takes `verify=True`, which refuses a file whose number of rows is not the published one: a truncated
download is the usual cause. Checksums refuse nothing, because official and re-packed files of the same content differ;
whether a file is one of the copies that ocular was measured on is logged (logger "ocular", level INFO).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import logging
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.data.splits import Split
from ocular.data.tables import Columns, one_line, to_interactions
from ocular.data.text_files import text_frame
from ocular.data.values import to_numbers, to_times
from ocular.errors import DataError

_log = logging.getLogger("ocular")

_MOVIELENS = {  # name of the ratings: separator, published rows
    "u.data": ("\t", [100_000]),
    "ratings.dat": ("::", [1_000_209, 10_000_054]),
    "ratings.csv": (",", [20_000_263]),
}
_NETFLIX_ROWS = 100_480_507
_CITEULIKE_PAIRS = 204_986  # counting the leading counts too gives 210,537, which papers also quote
_ONLINE_RETAIL_ROWS = 541_909
_GOWALLA_PAIRS = {"train.txt": 810_128, "test.txt": 217_242}
MAX_DIGITS = 8  # of a number in a list: it also sizes the matrix

# sha256 of the files that ocular was measured on, and where they come from
_KNOWN_COPIES = {
    "3c113e75e5fdd983e02ea7c691e2ec0c86d59be7862d71eace114f1be7aa6e61": (
        "MovieLens-1M in the official row order, reassembled from GitHub Stat990-033/Timings (6a26e98a), "
        "times from dev-sumanta/dsmlai (ccdc1fec) and amahuli00/rec_system (0c28a3ba), 199,665 of them not known"
    ),
    "a5453f0b5318bcc2292c15c90fd398844edb1b08f0471a3d26515f2f95fd3e9b": (
        "CiteULike-a from GitHub js05212/citeulike-a (91b60392), packed"
    ),
    "60f57843e10f10bc7dfead6a31ee0b88652074ef3b079c7d81aeda30fd67127a": (
        "UCI Online Retail from GitHub allanvc/onlineretail (3a77afe4), written as CSV"
    ),
}

_ML100K_GENRES = (
    "unknown|Action|Adventure|Animation|Children's|Comedy|Crime|Documentary|Drama|Fantasy|Film-Noir|Horror|Musical|"
    "Mystery|Romance|Sci-Fi|Thriller|War|Western"
)
_ML1M_OCCUPATIONS = (
    "other or not specified|academic/educator|artist|clerical/admin|college/grad student|customer service|"
    "doctor/health care|executive/managerial|farmer|homemaker|K-12 student|lawyer|programmer|retired|sales/marketing|"
    "scientist|self-employed|technician/engineer|tradesman/craftsman|unemployed|writer"
)
_ML1M_WORK = {str(number): work for number, work in enumerate(_ML1M_OCCUPATIONS.split("|"))}


def movielens(folder: str | Path, min_rating: float = 3.0, *, verify: bool = True) -> Interactions:
    """
    Read MovieLens 100K, 1M, 10M or 20M: who rated what at least `min_rating`.

    The files tell which: u.data with u.item (100K), ratings.dat with movies.dat (1M, 10M), ratings.csv with movies.csv
    (20M), each also as .gz. Clients are named by their number, products by title, or "title (number)" where titles
    repeat. Kept: the time of each rating (NaT where the file says 0), the genres ("Action|War") and the year of a
    movie and, where there is u.user or users.dat, the gender, age and occupation of a user.
    """
    folder = Path(folder)
    ratings_files = [(name, path) for name in _MOVIELENS if (path := _find(folder, name)) is not None]
    if not ratings_files:
        raise DataError(
            "expected u.data and u.item (100K), ratings.dat and movies.dat (1M, 10M) or ratings.csv and movies.csv "
            f"(20M), each also as .gz, in the folder {str(folder)!r}, got none of them"
        )
    name, path = ratings_files[0]
    separator, published = _MOVIELENS[name]
    ratings = _movielens_ratings(path, separator)
    if verify:
        _refuse_truncated(path, len(ratings), *published)
        _log_copy(path)
    known_times = ratings.with_columns(pl.when(pl.col("time") != 0).then("time"))
    interactions = to_interactions(
        known_times, Columns("user", "movie", time="time", value="rating", min_value=min_rating)
    )
    movies = _in_order(interactions.item_labels, _movielens_movies(folder, name))
    users = _movielens_users(folder)
    return replace(
        interactions,
        item_labels=_distinct_titles(movies),
        item_attributes=_attributes(movies.select("genres", _year_in_title())),
        user_attributes={} if users is None else _attributes(_in_order(interactions.user_labels, users).drop("id")),
    )


def _movielens_ratings(path: Path, separator: str) -> pl.DataFrame:
    schema: dict[str, Any] = {"user": pl.Int32, "movie": pl.Int32, "rating": pl.Float32, "time": pl.Int64}
    if separator == "::":
        # polars separates by one character: every other column is empty
        schema = {name: kind for part, kind in schema.items() for name, kind in ((part, kind), (f"_{part}", pl.String))}
        del schema["_time"]
    form = separator.join(["user", "movie", "rating", "time"])
    return _read_rows(path, schema, separator[0], form, n_header=1 if separator == "," else 0).drop("^_.*$")


def _movielens_movies(folder: Path, ratings_name: str) -> pl.DataFrame:
    if ratings_name == "ratings.csv":
        path = _need(folder, "movies.csv")
        _, *movies = _checked(path, csv.reader(_lines(path)), 3)
        return _table(path, movies, ["id", "title", "genres"])
    if ratings_name == "ratings.dat":
        path = _need(folder, "movies.dat")
        return _table(path, _split(path, "::", 3), ["id", "title", "genres"])
    path = _need(folder, "u.item")
    genres = _ML100K_GENRES.split("|")
    rows = [
        (id_, title, "|".join(genre for genre, flag in zip(genres, flags, strict=True) if flag == "1"))
        for id_, title, _, _, _, *flags in _split(path, "|", 5 + len(genres))
    ]
    return _table(path, rows, ["id", "title", "genres"])


def _movielens_users(folder: Path) -> pl.DataFrame | None:
    rows: list[tuple[str | None, ...]]
    if (path := _find(folder, "u.user")) is not None:
        rows = [(id_, gender, age, work) for id_, age, gender, work, _ in _split(path, "|", 5)]
    elif (path := _find(folder, "users.dat")) is not None:
        rows = [(id_, gender, age, _ML1M_WORK.get(work)) for id_, gender, age, work, _ in _split(path, "::", 5)]
    else:
        return None
    table = _table(path, rows, ["id", "gender", "age", "occupation"])
    return table.with_columns(pl.col("age").cast(pl.Int64, strict=False))


def _year_in_title() -> pl.Expr:
    """The year of "Toy Story (1995)"; null where a title has none."""
    return pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Int64, strict=False).alias("year")


def citeulike(folder: str | Path, *, verify: bool = True) -> Interactions:
    """
    Read CiteULike-a: which articles are in whose library.

    Reads users.dat (line u: how many, then the 0-based article numbers) and, if it is there, titles.txt (line i: the
    title of article i), each also as .gz. Clients are named by their line from 0, products by title, "title (number)"
    where titles repeat, or by number without titles.txt. Where there are item-tag.dat (line i: how many, then the
    0-based numbers of the tags of article i) and tags.dat (line t: tag t), the tags are kept ("genome|ucsc").
    """
    folder = Path(folder)
    path = _need(folder, "users.dat")
    libraries = _counted_lists(path, "article")
    users = np.repeat(np.arange(len(libraries)), [len(library) for library in libraries])
    pairs = pl.DataFrame({"user": users, "article": np.concatenate([[], *libraries]).astype(np.int64)})
    if verify:
        _refuse_truncated(path, len(pairs), _CITEULIKE_PAIRS)
        _log_copy(path)
    interactions = to_interactions(pairs, Columns("user", "article"))
    tags = _citeulike_tags(folder, interactions.item_labels)
    interactions = replace(interactions, item_attributes=tags)
    titles_path = _find(folder, "titles.txt")
    if titles_path is None:
        return interactions
    titles = _lines(titles_path)
    last = interactions.item_labels[-1]
    if last >= len(titles):
        raise DataError(f"{titles_path.name}: expected a line for each article up to {last}, got {len(titles)}")
    table = pl.DataFrame({"id": np.arange(len(titles)), "title": titles})
    return replace(interactions, item_labels=_distinct_titles(_in_order(interactions.item_labels, table)))


def _counted_lists(path: Path, what: str) -> list[NDArray[np.int64]]:
    """Return the numbers of each line, which begins with how many they are."""
    lists = []
    for number, line in enumerate(_lines(path), start=1):
        count, *numbers = line.split() or [""]
        if count != str(len(numbers)) or not all(each.isdecimal() for each in numbers):
            raise DataError(
                f"{path.name}, line {number}: expected a count and as many {what} numbers, got {count!r} and "
                f"{len(numbers)} words; a truncated download is the usual cause"
            )
        lists.append(np.array(numbers, dtype=np.int64))
    return lists


def _citeulike_tags(folder: Path, articles: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the tags of articles, or nothing where the files are not there."""
    path, names_path = _find(folder, "item-tag.dat"), _find(folder, "tags.dat")
    if path is None or names_path is None:
        return {}
    lists, names = _counted_lists(path, "tag"), [name.replace("|", " ") for name in _lines(names_path)]
    last, highest = int(articles[-1]), max((int(tags.max(initial=-1)) for tags in lists), default=-1)
    if last >= len(lists) or highest >= len(names):
        raise DataError(
            f"{path.name}: expected a line for each article up to {last} and tags up to {len(names) - 1}, got "
            f"{len(lists)} lines and tags up to {highest}; fetch the files again"
        )
    texts = ["|".join(names[tag] for tag in lists[article]) for article in articles.tolist()]
    return {"tags": np.array([text or None for text in texts], dtype=object)}


def netflix(folder: str | Path, min_rating: float = 3.0, *, verify: bool = True) -> Interactions:
    """
    Read the Netflix Prize data: who rated what at least `min_rating`, with the date.

    Reads training_set/mv_*.txt (as published) or combined_data_*.txt (as on Kaggle) and, if it is there,
    movie_titles.txt or movie_titles.csv. Clients are named by their number, products by title, "title (number)" where
    titles repeat, or by number without titles; the year of a movie is kept.
    """
    folder = Path(folder)
    parts = sorted(folder.glob("training_set/mv_*.txt*")) or sorted(folder.glob("combined_data_*.txt*"))
    if not parts:
        raise DataError(
            f"expected training_set/mv_*.txt or combined_data_*.txt in the folder {str(folder)!r}, got neither"
        )
    n_rows = 0
    positives = []
    for part in parts:
        ratings = _netflix_ratings(part)
        n_rows += len(ratings)
        positives.append(ratings.filter(pl.col("rating") >= min_rating).drop("rating"))
    if verify:
        _refuse_truncated(folder, n_rows, _NETFLIX_ROWS)
    interactions = to_interactions(pl.concat(positives), Columns("user", "movie", time="date"))
    titles = _find(folder, "movie_titles.txt") or _find(folder, "movie_titles.csv")
    if titles is None:
        return interactions
    movies = _in_order(interactions.item_labels, _table(titles, _split(titles, ",", 3), ["id", "year", "title"]))
    years = movies.select(pl.col("year").cast(pl.Int64, strict=False))  # NULL where it is not known
    return replace(interactions, item_labels=_distinct_titles(movies), item_attributes=_attributes(years))


def _netflix_ratings(path: Path) -> pl.DataFrame:
    """Lines "1488844,3,2005-09-06" under headings "1:", which number the movie."""
    schema = {"user": pl.String, "rating": pl.Int8, "date": pl.Date}
    heading = pl.col("user").str.ends_with(":")
    movie = pl.when(heading).then(pl.col("user").str.strip_suffix(":")).cast(pl.Int32).forward_fill()
    try:
        lines = pl.read_csv(
            path, has_header=False, quote_char=None, schema=schema, missing_columns="insert", glob=False
        )
        ratings = lines.with_columns(movie=movie).filter(~heading).with_columns(pl.col("user").cast(pl.Int32))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{path.name}: expected lines like 1: and 1488844,3,2005-09-06, got {one_line(error)}"
        ) from error
    if ratings.null_count().sum_horizontal().item():
        raise DataError(f"{path.name}: expected lines like 1488844,3,2005-09-06, got incomplete ones")
    return ratings


def online_retail(folder: str | Path, *, verify: bool = True) -> Interactions:
    """
    Read UCI Online Retail: which client of a British wholesaler bought what, at which price and when.

    Reads online_retail.csv or .csv.gz in the folder, or the file itself: UTF-8 with the columns InvoiceNo, StockCode,
    Description, Quantity, InvoiceDate (ISO), UnitPrice, CustomerID, Country. Left out, in this order, and counted in
    the log (logger "ocular", level INFO):

    1. cancellations: InvoiceNo starts with C;
    2. rows without a CustomerID;
    3. rows whose Quantity or UnitPrice is not positive;
    4. postage, fees, manual entries, samples and gift cards: StockCode is not five digits, with or without letters
       after them.

    The keys are CustomerID and StockCode (both text); products are shown by their most frequent Description. Kept:
    price (UnitPrice in pounds), quantity, time and the first country of a client.
    """
    path = Path(folder)
    path = _need(path, "online_retail.csv") if path.is_dir() else path
    if not path.is_file():
        raise DataError(f"expected online_retail.csv or a folder with it, got {str(path)!r}, which is not there")
    frame, locate = text_frame(path, list(_ONLINE_RETAIL_COLUMNS))
    if verify:
        _refuse_truncated(path, len(frame), _ONLINE_RETAIL_ROWS)
        _log_copy(path)
    rows = frame.rename(_ONLINE_RETAIL_COLUMNS).with_columns(
        to_numbers(frame["Quantity"], locate).alias("quantity"),
        to_numbers(frame["UnitPrice"], locate).alias("price"),
        to_times(frame["InvoiceDate"], locate).alias("time"),
        pl.col("client").str.strip_chars().str.strip_suffix(".0"),  # pandas writes 17850.0
    )
    not_sales = {
        "cancelled": pl.col("invoice").str.starts_with("C"),
        "no customer": pl.col("client").fill_null("") == "",
        "quantity or price not positive": ~((pl.col("quantity") > 0) & (pl.col("price") > 0)),
        "service, fee or gift card": ~pl.col("product").str.contains(r"^\s*\d{5}[A-Za-z]*\s*$"),
    }
    for reason, unwanted in not_sales.items():
        n_before = len(rows)
        rows = rows.filter(~unwanted.fill_null(True))
        _log.info("%s: left out %s rows (%s)", path.name, f"{n_before - len(rows):,}", reason)
    columns = Columns(
        "client",
        "product",
        price="price",
        quantity="quantity",
        time="time",
        client_attributes=["country"],
        product_name="description",
        currency="£",
    )
    return to_interactions(rows, columns)


def gowalla(folder: str | Path, *, verify: bool = True) -> Split:
    """
    Read Gowalla as LightGCN's authors split it: who checked in where, (train, test) of one shape.

    Reads train.txt and test.txt, each also as .gz: a line for each user, their number and then those of their places.
    Clients and products are named by their numbers, which count from 0.
    """
    pairs = {}
    for name, published in _GOWALLA_PAIRS.items():
        path = _need(Path(folder), name)
        pairs[name] = _lists(path)
        if verify:
            _refuse_truncated(path, len(pairs[name][0]), published)
    n_users, n_items = (max(int(side[at].max(initial=-1)) for side in pairs.values()) + 1 for at in (0, 1))
    return Split(*(Interactions.from_pairs(*side, shape=(n_users, n_items)) for side in pairs.values()))


def _lists(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return users and items of lines that each begin with a user; a line without items is a user without any."""
    lines: dict[int, NDArray[np.int64]] = {}
    for number, line in enumerate(_lines(path), start=1):
        words = line.split()
        wrong = next((word for word in words if not (word.isdecimal() and len(word) <= MAX_DIGITS)), None)
        if wrong is not None or not words:
            raise DataError(
                f"{path.name}, line {number}: expected a user number and item numbers of at most {MAX_DIGITS} digits, "
                f"got {'an empty line' if wrong is None else repr(wrong[:20])}; fetch the file again"
            )
        user, *items = np.array(words, dtype=np.int64)
        if int(user) in lines:
            raise DataError(
                f"{path.name}, line {number}: expected one line for each user, got a second one of user {user}; "
                "join the two"
            )
        lines[int(user)] = np.array(items, dtype=np.int64)
    users = np.repeat(np.array(list(lines), dtype=np.int64), [len(items) for items in lines.values()])
    return users, np.concatenate([np.empty(0, dtype=np.int64), *lines.values()])


_ONLINE_RETAIL_COLUMNS = {
    "InvoiceNo": "invoice",
    "StockCode": "product",
    "Description": "description",
    "Quantity": "quantity",
    "InvoiceDate": "time",
    "UnitPrice": "price",
    "CustomerID": "client",
    "Country": "country",
}


# Files


def _find(folder: Path, name: str) -> Path | None:
    """Return the file, packed or not, or None."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _need(folder: Path, name: str) -> Path:
    path = _find(folder, name)
    if path is None:
        raise DataError(f"expected {name} or {name}.gz in the folder {str(folder)!r}, got neither")
    return path


def _lines(path: Path) -> list[str]:
    """Return the lines of a small file: UTF-8, or ISO-8859-1 as the older sets are."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path.name}: expected a file that can be read, got {one_line(error)}") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("iso-8859-1")
    # not splitlines, which also splits at the odd characters inside titles
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def _split(path: Path, separator: str, width: int) -> list[list[str]]:
    """Return the fields of a small file; the last one keeps further separators."""
    return _checked(path, (line.split(separator, width - 1) for line in _lines(path)), width)


def _checked(path: Path, rows: Iterable[list[str]], width: int) -> list[list[str]]:
    checked = []
    for number, fields in enumerate(rows, start=1):
        if len(fields) != width:
            raise DataError(f"{path.name}, line {number}: expected {width} fields, got {len(fields)}")
        checked.append(fields)
    return checked


def _table(path: Path, rows: Sequence[Sequence[str | None]], names: list[str]) -> pl.DataFrame:
    table = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    try:
        return table.with_columns(pl.col("id").cast(pl.Int64))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path.name}: expected a number first in every line, got {one_line(error)}") from error


def _read_rows(path: Path, schema: dict[str, Any], separator: str, form: str, n_header: int) -> pl.DataFrame:
    """Read a large file of numbers fast; every line must be complete."""
    try:
        rows = pl.read_csv(
            path, has_header=False, skip_rows=n_header, separator=separator, quote_char=None, schema=schema, glob=False
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path.name}: expected lines like {form}, got {one_line(error)}") from error
    incomplete = rows.select(pl.any_horizontal(pl.col(pl.Int32, pl.Float32, pl.Int64).is_null())).to_series()
    if incomplete.any():
        line = incomplete.arg_true()[0] + n_header + 1
        raise DataError(
            f"{path.name}, line {line}: expected {form}, got an incomplete line; "
            "a truncated download is the usual cause: fetch it again"
        )
    return rows


def _refuse_truncated(path: Path, n_rows: int, *published: int) -> None:
    if n_rows not in published:
        expected = " or ".join(f"{n:,}" for n in published)
        raise DataError(
            f"{path.name}: expected {expected} rows, as published, got {n_rows:,}; a truncated download or another "
            "edition is the usual cause: fetch it again, or pass verify=False to take it as it is"
        )


def _log_copy(path: Path) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    origin = _KNOWN_COPIES.get(digest, f"as many rows as published, but not a copy known to ocular (sha256 {digest})")
    _log.info("%s: %s", path.name, origin)


# Names and attributes


def _in_order(labels: NDArray[Any], table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table for the numbers in `labels`, null where it has none."""
    once = table.unique("id", keep="first", maintain_order=True)
    return pl.DataFrame({"id": labels.astype(np.int64)}).join(once, on="id", how="left", maintain_order="left")


def _attributes(table: pl.DataFrame) -> dict[str, NDArray[Any]]:
    return {column.name: column.to_numpy() for column in table}


def _distinct_titles(table: pl.DataFrame) -> NDArray[Any]:
    """Return titles as labels: the number where there is no title, and added where a title repeats."""
    numbers = table["id"].cast(pl.String)
    stripped = table["title"].str.strip_chars()
    labels = stripped.zip_with((stripped != "").fill_null(False), numbers)
    while (repeated := labels.is_duplicated()).any():
        labels = labels.zip_with(~repeated, labels + " (" + numbers + ")")
    return labels.to_numpy()
