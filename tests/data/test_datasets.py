"""Every layout of every public set on made-up folders; the real ones where OCULAR_DATA points to them."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import public_set

from ocular.data.datasets import citeulike, gowalla, movielens, netflix, online_retail
from ocular.data.interactions import Interactions
from ocular.errors import DataError

Fill = Callable[..., Path]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Write files, given by name, into a folder; a name that ends in .gz is packed."""

    def write(files: dict[str, str], encoding: str = "utf-8") -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            content = text.encode(encoding)
            path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return tmp_path

    return write


def pairs(interactions: Interactions) -> set[tuple[Any, Any]]:
    matrix = interactions.to_matrix().tocoo()
    return {(interactions.user_labels[u], interactions.item_labels[i]) for u, i in zip(*matrix.coords, strict=True)}


def times(interactions: Interactions) -> list[str]:
    assert interactions.purchases is not None
    assert interactions.purchases.time is not None
    return [str(time) for time in interactions.purchases.time]


def refusal(load: Callable[..., Any], folder: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


ML100K = {
    "u.data": "1\t10\t3\t881250949\n1\t20\t2\t881250949\n2\t10\t5\t0\n2\t30\t4\t881250950\n",
    "u.item": (
        "10|Amélie (2001)|01-Jan-2001||http://x|0|1|0|0|0|1|0|0|0|0|0|0|0|0|0|0|0|0|0\n"
        "20|Heat (1995)|01-Jan-1995||http://x|0|1|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n"
        "30|unknown|||http://x|1|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n"
    ),
    "u.user": "1|24|M|technician|85711\n2|53|F|other|94043\n",
}
ML1M = {
    "ratings.dat": "1::10::3::978300760\n1::20::2::978302109\n2::10::5::0\n2::30::4::978301968\n",
    "movies.dat": "10::Amélie (2001)::Comedy|Romance\n20::Heat: A Story (1995)::Action\n30::Amélie (2001)::Drama\n",
    "users.dat": "1::F::1::10::48067\n2::M::56::16::70072\n",
}
ML10M = {
    "ratings.dat": "1::122::2.5::838985046\n1::185::3.5::838983525\n7::122::3::838983392\n",
    "movies.dat": "122::Boomerang (1992)::Comedy|Romance\n185::Amélie (2001)::Action\n",
}
ML20M = {
    "ratings.csv": "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,2.5,1112484676\n8,29,4.0,1112484819\n",
    "movies.csv": 'movieId,title,genres\n2,"City, The (1995)",Adventure|Children\n29,Amélie (2001),Drama\n',
}


class TestMovieLens:
    def test_100k(self, fill: Fill) -> None:
        interactions = movielens(fill(ML100K, "iso-8859-1"), verify=False)
        assert pairs(interactions) == {(1, "Amélie (2001)"), (2, "Amélie (2001)"), (2, "unknown")}
        assert interactions.item_attributes["genres"].tolist() == ["Action|Comedy", "unknown"]
        assert interactions.user_attributes["gender"].tolist() == ["M", "F"]
        assert interactions.user_attributes["age"].tolist() == [24, 53]
        assert interactions.user_attributes["occupation"].tolist() == ["technician", "other"]
        assert times(interactions) == ["1997-12-04T15:55:49", "NaT", "1997-12-04T15:55:50"]

    @pytest.mark.parametrize("packing", ["", ".gz"])
    def test_1m(self, fill: Fill, packing: str) -> None:
        files = {name + packing: text for name, text in ML1M.items()}
        interactions = movielens(fill(files, "iso-8859-1"), verify=False)
        assert interactions.user_labels.tolist() == [1, 2]
        assert pairs(interactions) == {(1, "Amélie (2001) (10)"), (2, "Amélie (2001) (10)"), (2, "Amélie (2001) (30)")}
        assert interactions.item_attributes["genres"].tolist() == ["Comedy|Romance", "Drama"]
        assert interactions.user_attributes["gender"].tolist() == ["F", "M"]
        assert interactions.user_attributes["age"].tolist() == [1, 56]
        assert interactions.user_attributes["occupation"].tolist() == ["K-12 student", "self-employed"]
        assert times(interactions) == ["2000-12-31T22:12:40", "NaT", "2000-12-31T22:32:48"]

    def test_titles_with_colons(self, fill: Fill) -> None:
        interactions = movielens(fill(ML1M, "iso-8859-1"), min_rating=1, verify=False)
        assert "Heat: A Story (1995)" in interactions.item_labels

    def test_10m_has_half_stars_and_no_users(self, fill: Fill) -> None:
        interactions = movielens(fill(ML10M), verify=False)
        assert pairs(interactions) == {(1, "Amélie (2001)"), (7, "Boomerang (1992)")}
        assert interactions.user_attributes == {}
        assert movielens(fill(ML10M), min_rating=2.5, verify=False).nnz == 3

    def test_20m(self, fill: Fill) -> None:
        interactions = movielens(fill(ML20M), verify=False)
        assert pairs(interactions) == {(1, "City, The (1995)"), (8, "Amélie (2001)")}
        assert interactions.item_attributes["genres"].tolist() == ["Adventure|Children", "Drama"]
        assert times(interactions) == ["2005-04-02T23:53:47", "2005-04-02T23:33:39"]

    def test_a_movie_without_a_title_keeps_its_number(self, fill: Fill) -> None:
        interactions = movielens(fill(ML10M | {"movies.dat": "122::Boomerang (1992)::Comedy\n"}), verify=False)
        assert interactions.item_labels.tolist() == ["Boomerang (1992)", "185"]
        assert interactions.item_attributes["genres"].tolist() == ["Comedy", None]

    def test_labels_stay_distinct_whatever_the_titles(self, fill: Fill) -> None:
        movies = "10::Hamlet::Drama\n20::Hamlet::Drama\n30::Hamlet (10)::Drama\n"
        interactions = movielens(fill(ML1M | {"movies.dat": movies}), min_rating=1, verify=False)
        assert interactions.item_labels.tolist() == ["Hamlet (10) (10)", "Hamlet (20)", "Hamlet (10) (30)"]

    @pytest.mark.parametrize(
        ("files", "name", "expected"),
        [
            (ML100K, "u.data", "100,000"),
            (ML1M, "ratings.dat", "1,000,209 or 10,000,054"),
            (ML20M, "ratings.csv", "20,000,263"),
        ],
    )
    def test_a_truncated_download_is_refused(self, fill: Fill, files: dict[str, str], name: str, expected: str) -> None:
        rows = len(files[name].splitlines()) - name.endswith(".csv")
        assert refusal(movielens, fill(files)) == (
            f"{name}: expected {expected} rows, as published, got {rows}; a truncated download or another edition "
            "is the usual cause: fetch it again, or pass verify=False to take it as it is"
        )

    def test_as_many_rows_as_published_are_taken_whatever_the_checksum(
        self, fill: Fill, caplog: pytest.LogCaptureFixture
    ) -> None:
        rows = "".join(f"{n // 100}\t{10 + n % 100}\t4\t881250949\n" for n in range(100_000))
        with caplog.at_level(logging.INFO, "ocular"):
            assert movielens(fill(ML100K | {"u.data": rows})).nnz == 100_000
        assert "u.data: as many rows as published, but not a copy known to ocular" in caplog.text

    @pytest.mark.parametrize(
        ("files", "name", "rest", "where"),
        [
            (ML1M, "ratings.dat", "2::3", "ratings.dat, line 5: expected user::movie::rating::time"),
            (ML20M, "ratings.csv", "2,3,4.5", "ratings.csv, line 5: expected user,movie,rating,time"),
        ],
    )
    def test_a_line_cut_off(self, fill: Fill, files: dict[str, str], name: str, rest: str, where: str) -> None:
        message = refusal(movielens, fill(files | {name: files[name] + rest}), verify=False)
        assert message.startswith(f"{where}, got an incomplete line")

    def test_another_file_by_that_name(self, fill: Fill) -> None:
        message = refusal(movielens, fill(ML1M | {"ratings.dat": "a::b::c::d\n"}), verify=False)
        assert message.startswith("ratings.dat: expected lines like user::movie::rating::time, got ")

    def test_missing_files_are_named(self, fill: Fill, tmp_path: Path) -> None:
        message = refusal(movielens, tmp_path)
        for name in ("u.data", "u.item", "ratings.dat", "movies.dat", "ratings.csv", "movies.csv", str(tmp_path)):
            assert name in message
        folder = fill({"ratings.dat": ML1M["ratings.dat"]})
        message = refusal(movielens, folder, verify=False)
        assert message == f"expected movies.dat or movies.dat.gz in the folder '{folder}', got neither"

    def test_a_damaged_packed_file(self, fill: Fill) -> None:
        folder = fill({"ratings.dat": ML1M["ratings.dat"], "movies.dat.gz": ML1M["movies.dat"]})
        path = folder / "movies.dat.gz"
        path.write_bytes(path.read_bytes()[:-20])
        assert refusal(movielens, folder, verify=False).startswith("movies.dat.gz: expected a file that can be read")

    @pytest.mark.parametrize(
        ("files", "name", "text", "what"),
        [
            (ML1M, "movies.dat", "10::A::B\n20\n", "movies.dat, line 2: expected 3 fields, got 1"),
            (ML1M, "movies.dat", "x::A::B\n", "movies.dat: expected a number first in every line, got "),
            (ML1M, "users.dat", "1::F\n", "users.dat, line 1: expected 5 fields, got 2"),
            (
                ML20M,
                "movies.csv",
                "movieId,title,genres\n2,A,B\n29,C\n",
                "movies.csv, line 3: expected 3 fields, got 2",
            ),
            (ML100K, "u.item", "10|A|B\n", "u.item, line 1: expected 24 fields, got 3"),
        ],
    )
    def test_broken_lists(self, fill: Fill, files: dict[str, str], name: str, text: str, what: str) -> None:
        assert refusal(movielens, fill(files | {name: text}), verify=False).startswith(what)


class TestCiteULike:
    users = "2 0 2\n0\n1 2\n"

    @pytest.mark.parametrize("packing", ["", ".gz"])
    def test_titles_name_the_articles(self, fill: Fill, packing: str) -> None:
        # the second title holds a character at which str.splitlines would split
        titles = "Networks\nUnused\x85 title\nNetworks\n"
        interactions = citeulike(
            fill({f"users.dat{packing}": self.users, f"titles.txt{packing}": titles}), verify=False
        )
        assert pairs(interactions) == {(0, "Networks (0)"), (0, "Networks (2)"), (2, "Networks (2)")}

    def test_without_titles(self, fill: Fill) -> None:
        interactions = citeulike(fill({"users.dat": self.users}), verify=False)
        assert pairs(interactions) == {(0, 0), (0, 2), (2, 2)}

    def test_a_truncated_download_is_refused(self, fill: Fill) -> None:
        message = refusal(citeulike, fill({"users.dat": self.users}))
        assert message.startswith("users.dat: expected 204,986 rows, as published, got 3;")

    @pytest.mark.parametrize("line", ["3 1", "1 x", "", "x"])
    def test_a_broken_line(self, fill: Fill, line: str) -> None:
        message = refusal(citeulike, fill({"users.dat": f"1 0\n{line}\n1 1\n"}), verify=False)
        assert message.startswith("users.dat, line 2: expected a count and as many article numbers")

    def test_too_few_titles(self, fill: Fill) -> None:
        message = refusal(citeulike, fill({"users.dat": self.users, "titles.txt": "One\nTwo\n"}), verify=False)
        assert message == "titles.txt: expected a line for each article up to 2, got 2"

    def test_missing_file(self, tmp_path: Path) -> None:
        message = refusal(citeulike, tmp_path)
        assert message == f"expected users.dat or users.dat.gz in the folder '{tmp_path}', got neither"


NETFLIX_TITLES = "1,2003,Café Planet\n2,NULL,Isle of Man, The: Review\n3,1997,Character\n"


NETFLIX_PUBLISHED = {
    "training_set/mv_0000001.txt": "1:\n1488844,3,2005-09-06\n822109,2,2005-05-13\n",
    "training_set/mv_0000002.txt": "2:\n1488844,5,2004-01-01\n",
    "training_set/mv_0000003.txt": "3:\n7,1,2004-01-02\n",
}
NETFLIX_COMBINED = {
    "combined_data_1.txt": "1:\n1488844,3,2005-09-06\n822109,2,2005-05-13\n2:\n1488844,5,2004-01-01\n",
    "combined_data_2.txt": "3:\n7,1,2004-01-02\n",
}


class TestNetflix:
    @pytest.mark.parametrize("titles", ["movie_titles.txt", "movie_titles.csv"])
    @pytest.mark.parametrize("layout", [NETFLIX_PUBLISHED, NETFLIX_COMBINED], ids=["published", "combined"])
    def test_both_layouts(self, fill: Fill, layout: dict[str, str], titles: str) -> None:
        interactions = netflix(fill(layout | {titles: NETFLIX_TITLES}, "iso-8859-1"), verify=False)
        assert pairs(interactions) == {(1488844, "Café Planet"), (1488844, "Isle of Man, The: Review")}
        assert times(interactions) == ["2005-09-06T00:00:00", "2004-01-01T00:00:00"]
        np.testing.assert_array_equal(interactions.item_attributes["year"], [2003, np.nan])

    def test_without_titles_and_another_threshold(self, fill: Fill) -> None:
        interactions = netflix(fill(NETFLIX_COMBINED), min_rating=1, verify=False)
        assert pairs(interactions) == {(1488844, 1), (822109, 1), (1488844, 2), (7, 3)}

    def test_a_truncated_download_is_refused(self, fill: Fill) -> None:
        assert "expected 100,480,507 rows, as published, got 4;" in refusal(netflix, fill(NETFLIX_PUBLISHED))

    @pytest.mark.parametrize("line", ["7,3", "7", "x,3,2005-01-01", "7,3,20"])
    def test_a_broken_line(self, fill: Fill, line: str) -> None:
        message = refusal(netflix, fill({"combined_data_1.txt": f"1:\n8,3,2005-01-01\n{line}\n"}), verify=False)
        assert message.startswith("combined_data_1.txt: expected lines like ")

    def test_ratings_before_any_movie(self, fill: Fill) -> None:
        message = refusal(netflix, fill({"combined_data_1.txt": "8,3,2005-01-01\n"}), verify=False)
        assert message.startswith("combined_data_1.txt: expected lines like ")

    def test_missing_files_are_named(self, tmp_path: Path) -> None:
        message = refusal(netflix, tmp_path)
        assert message.startswith("expected training_set/mv_*.txt or combined_data_*.txt in the folder")


RETAIL = """InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country
536365,85123A,HEART HOLDER,6,2010-12-01 08:26:00,2.55,17850,United Kingdom
536366,85123A,"HEART, WHITE",6,2010-12-02 08:26:00,2.50,17850,United Kingdom
536367,85123A,"HEART, WHITE",1,2010-12-03 08:26:00,3.00,00012,France
536368,10002,,10,2010-12-03 09:00:00,0.85,00012,Spain
C536369,10002,GLOBE,-10,2010-12-04 09:00:00,0.85,17850,United Kingdom
536370,10002,GLOBE,1,2010-12-04 09:00:00,0.85,,United Kingdom
536371,10002,GLOBE,0,2010-12-04 09:00:00,0.85,17850,United Kingdom
536372,10002,GLOBE,1,2010-12-04 09:00:00,0,17850,United Kingdom
536373,POST,POSTAGE,1,2010-12-04 09:00:00,18,17850,United Kingdom
536374,BANK CHARGES,Bank Charges,1,2010-12-04 09:00:00,15,17850,United Kingdom
536375,gift_0001_20,Gift card,1,2010-12-04 09:00:00,15,17850,United Kingdom
"""


class TestOnlineRetail:
    @pytest.mark.parametrize("name", ["online_retail.csv", "online_retail.csv.gz"])
    def test_only_sales_to_known_customers_are_kept(self, fill: Fill, name: str) -> None:
        interactions = online_retail(fill({name: RETAIL}), verify=False)
        assert pairs(interactions) == {("17850", "85123A"), ("00012", "85123A"), ("00012", "10002")}
        assert interactions.purchases is not None
        assert interactions.purchases.columns["price"].tolist() == [0.85, 3.00, 2.55, 2.50]
        assert interactions.purchases.columns["quantity"].tolist() == [10, 1, 6, 6]
        assert times(interactions)[-1] == "2010-12-02T08:26:00"
        assert interactions.user_attributes["country"].tolist() == ["France", "United Kingdom"]
        assert interactions.item_names is not None
        assert interactions.item_names.tolist() == ["10002", "HEART, WHITE"]

    def test_what_is_left_out_is_counted(self, fill: Fill, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "ocular"):
            online_retail(fill({"online_retail.csv": RETAIL}), verify=False)
        assert [record.getMessage().removeprefix("online_retail.csv: left out ") for record in caplog.records] == [
            "1 rows (cancelled)",
            "1 rows (no customer)",
            "2 rows (quantity or price not positive)",
            "3 rows (service, fee or gift card)",
        ]

    def test_the_file_itself_and_customers_that_pandas_wrote(self, fill: Fill) -> None:
        folder = fill({"mine.csv": RETAIL.replace(",17850,", ",17850.0,")})
        assert online_retail(folder / "mine.csv", verify=False).user_labels.tolist() == ["00012", "17850"]

    def test_a_truncated_download_is_refused(self, fill: Fill) -> None:
        message = refusal(online_retail, fill({"online_retail.csv": RETAIL}))
        assert message.startswith("online_retail.csv: expected 541,909 rows, as published, got 11;")

    def test_a_broken_row(self, fill: Fill) -> None:
        text = RETAIL.replace("2010-12-03 09:00:00", "12/3/2010 9:00")
        message = refusal(online_retail, fill({"online_retail.csv": text}), verify=False)
        assert message.startswith("online_retail.csv, line 5: expected a date in column 'InvoiceDate'")

    def test_missing_file(self, tmp_path: Path) -> None:
        message = refusal(online_retail, tmp_path)
        assert message.startswith("expected online_retail.csv or online_retail.csv.gz in the folder")
        message = refusal(online_retail, tmp_path / "none")
        assert message.startswith("expected online_retail.csv or a folder with it, got ")


class TestGowalla:
    train, test = "0 3 1\n2 1 \n1 0 3 2\n", "1 1\n0 4\n2\n"

    @pytest.mark.parametrize("packing", ["", ".gz"])
    def test_both_lists_have_one_shape(self, fill: Fill, packing: str) -> None:
        train, test = gowalla(fill({f"train.txt{packing}": self.train, f"test.txt{packing}": self.test}), verify=False)
        assert train.shape == test.shape == (3, 5)
        assert pairs(train) == {(0, 1), (0, 3), (1, 0), (1, 2), (1, 3), (2, 1)}
        assert pairs(test) == {(0, 4), (1, 1)}

    def test_a_truncated_download_is_refused(self, fill: Fill) -> None:
        message = refusal(gowalla, fill({"train.txt": self.train, "test.txt": self.test}))
        assert message.startswith("train.txt: expected 810,128 rows, as published, got 6;")

    @pytest.mark.parametrize(
        ("line", "got"),
        [("3 1 x", "'x'"), ("-3 1", "'-3'"), ("3 1.5", "'1.5'"), ("", "an empty line"), ("3 123456789", "'123456789'")],
    )
    @pytest.mark.parametrize("name", ["train.txt", "test.txt"])
    def test_a_broken_line(self, fill: Fill, name: str, line: str, got: str) -> None:
        folder = fill({"train.txt": self.train, "test.txt": self.test} | {name: f"0 1\n{line}\n1 1\n"})
        message = refusal(gowalla, folder, verify=False)
        assert message.startswith(f"{name}, line 2: expected a user number and item numbers")
        assert f"got {got};" in message

    def test_a_user_twice(self, fill: Fill) -> None:
        folder = fill({"train.txt": "0 1\n1 1\n0 2\n", "test.txt": self.test})
        assert refusal(gowalla, folder, verify=False).startswith(
            "train.txt, line 3: expected one line for each user, got a second one of user 0"
        )

    def test_missing_file(self, fill: Fill) -> None:
        assert refusal(gowalla, fill({"train.txt": self.train}), verify=False).startswith(
            "expected test.txt or test.txt.gz"
        )


@pytest.mark.data
class TestRealData:
    def test_movielens_1m(self) -> None:
        folder = public_set("movielens-1m")
        interactions = movielens(folder)
        assert interactions.nnz == 836_478
        assert movielens(folder, min_rating=1).shape == (6_040, 3_706)
        assert movielens(folder, min_rating=4).nnz == 575_281
        assert len(set(interactions.item_labels)) == interactions.n_items
        toy_story = interactions.item_index("Toy Story (1995)")
        assert interactions.item_attributes["genres"][toy_story] == "Animation|Children's|Comedy"
        assert np.isnat(interactions.purchases.time).sum() == 836_478 - 712_526  # type: ignore[union-attr]
        assert set(interactions.user_attributes["gender"]) == {"F", "M"}

    def test_citeulike(self) -> None:
        interactions = citeulike(public_set("citeulike-a"))
        assert interactions.shape == (5_551, 16_980)
        assert interactions.nnz == 204_986
        assert interactions.item_labels[0] == "The metabolic world of Escherichia coli is not small"
        assert len(set(interactions.item_labels)) == 16_980

    def test_online_retail(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "ocular"):
            interactions = online_retail(public_set("online-retail"))
        assert "from GitHub allanvc/onlineretail" in caplog.text
        assert "left out 9,288 rows (cancelled)" in caplog.text
        assert interactions.shape == (4_334, 3_659)
        assert interactions.nnz == 266_221
        assert interactions.item_name(interactions.item_index("85123A")) == "WHITE HANGING HEART T-LIGHT HOLDER"
        assert len(interactions.purchases) == 396_337  # type: ignore[arg-type]
