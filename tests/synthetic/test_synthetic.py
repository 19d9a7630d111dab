"""Made-up purchases: the truth is in them, they repeat with their seed, and a sales manager would believe them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ocular.data.interactions import Interactions
from ocular.errors import ArtifactError, ConfigError, DataError
from ocular.synthetic import B2B, b2b, names, planted, skewed
from ocular.synthetic.market import frame, write


@pytest.fixture(scope="module")
def vendor() -> B2B:
    return b2b(2000, 300)


def inside_each(interactions: Interactions, rows: Any, columns: Any) -> np.ndarray:
    """Share of positives in every co-cluster."""
    dense = interactions.to_matrix().toarray()
    return np.array([dense[np.ix_(r, c)].mean() for r, c in zip(rows, columns, strict=True)])


def outside_all(interactions: Interactions, rows: Any, columns: Any) -> float:
    elsewhere = ~(rows.T.astype(int) @ columns.astype(int)).astype(bool)
    return float(interactions.to_matrix().toarray()[elsewhere].mean())


# planted


def test_planted_coclusters_are_dense_and_the_rest_is_noise() -> None:
    made = planted(300, 200, 6, density=0.8, noise=0.05, random_state=1)
    assert made.rows.shape == (6, 300)
    assert made.columns.shape == (6, 200)
    # a pair in two co-clusters has two chances
    inside = inside_each(*made)
    assert (inside > 0.77).all()
    assert (inside < 0.90).all()
    assert outside_all(*made) == pytest.approx(0.05, abs=0.01)


def test_without_noise_every_positive_is_in_a_cocluster() -> None:
    made = planted(300, 200, 6, density=1.0)
    assert outside_all(*made) == 0
    assert (inside_each(*made) == 1).all()


def test_only_noise_is_noise() -> None:
    made = planted(400, 300, 3, density=0.0, noise=0.1)
    assert outside_all(*made) == pytest.approx(0.1, abs=0.005)
    assert (inside_each(*made) == 0).all()


@pytest.mark.parametrize(("overlap", "mean"), [(0.0, 1.0), (0.5, 1.5), (2.0, 3.0)])
def test_overlap_says_in_how_many_coclusters_a_row_is(overlap: float, mean: float) -> None:
    made = planted(1003, 507, 10, overlap=overlap)
    for member in (made.rows, made.columns):
        assert member.any(axis=0).all()
        assert member.sum(axis=0).mean() == pytest.approx(mean, rel=0.02)
    assert (made.rows.sum(axis=0).max() > 1) == (overlap > 0)


def test_sizes_are_exact() -> None:
    made = planted(100, 80, 7, users_per=30, items_per=5)
    assert (made.rows.sum(axis=1) == 30).all()
    assert (made.columns.sum(axis=1) == 5).all()


def test_planted_repeats_with_its_seed() -> None:
    one, same, other = (planted(200, 100, 5, noise=0.01, random_state=seed) for seed in (4, 4, 5))
    assert one.interactions.fingerprint() == same.interactions.fingerprint()
    assert one.rows.tobytes() == same.rows.tobytes()
    assert one.interactions.fingerprint() != other.interactions.fingerprint()


def test_planted_never_holds_all_cells() -> None:
    # 10^12 cells: as bytes a terabyte
    made = planted(2_000_000, 500_000, 2, users_per=50, items_per=50, density=1.0, noise=1e-9, random_state=3)
    assert 5_000 + 800 < made.interactions.nnz < 5_000 + 1_200


# skewed


def test_skewed_has_the_pairs_asked_for_each_once() -> None:
    made = skewed(3000, 500, 40_000)
    assert made.nnz == 40_000
    assert made.shape == (3000, 500)
    for row in range(3000):
        assert (np.diff(made.by_user[row]) > 0).all()
    assert made.by_user.indices.dtype == np.int32
    assert made.by_user.indices.min() >= 0
    assert made.by_user.indices.max() < 500


def test_skewed_popularity_has_a_long_tail() -> None:
    made = skewed(3000, 1000, 60_000)
    for degrees in (made.by_user.degrees, made.by_item.degrees):
        assert degrees.max() > 5 * degrees.mean()
        assert np.median(degrees) < degrees.mean()
    # drawn without skew the first tenth would hold a tenth
    assert np.sort(made.by_item.degrees)[-100:].sum() > 0.3 * made.nnz


def test_the_popular_are_not_the_first_rows() -> None:
    made = skewed(2000, 2000, 50_000)
    for degrees in (made.by_user.degrees, made.by_item.degrees):
        assert degrees[:1000].sum() == pytest.approx(25_000, rel=0.2)


def test_skewed_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.synthetic.sampling.DRAWS_AT_ONCE", 1_000)
    made = skewed(500, 300, 12_000)
    assert made.nnz == 12_000
    assert all((np.diff(made.by_user[row]) > 0).all() for row in range(500))
    assert (made.by_user.degrees > 0).mean() > 0.9


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 2, 2), (10, 10, 50), (3, 1000, 1500), (500, 300, 7)])
def test_skewed_is_exact_when_small_or_full(size: tuple[int, int, int]) -> None:
    assert [skewed(*size, random_state=seed).nnz for seed in range(5)] == [size[2]] * 5


def test_skewed_repeats_with_its_seed() -> None:
    one, same, other = (skewed(300, 200, 4_000, random_state=seed).fingerprint() for seed in (1, 1, 2))
    assert one == same
    assert one != other


# names


def test_names_are_unique_in_a_large_market() -> None:
    rng = np.random.default_rng(0)
    industry = rng.integers(len(names.INDUSTRIES), size=30_000)
    country = rng.integers(len(names.COUNTRIES), size=30_000)
    made = names.company_names(rng, industry, country)
    assert len(set(made)) == 30_000
    # not even the same name with another legal form: "Elmham Freight Ltd" and "Elmham Freight plc"
    forms = sorted({f for place in names.COUNTRIES.values() for f in place.legal_forms}, key=len, reverse=True)
    ending = re.compile(" (" + "|".join(map(re.escape, forms)) + ")$")
    assert all(ending.search(name) for name in made)
    assert len({ending.sub("", name) for name in made}) == 30_000
    assert any(" & " in name for name in made)
    assert not any(re.match(r"(\S+) & \1 ", name) for name in made)


def test_companies_are_called_what_they_do_where_they_are() -> None:
    industries, countries = list(names.INDUSTRIES), list(names.COUNTRIES)
    industry = np.full(200, industries.index("Machinery"))
    country = np.full(200, countries.index("Germany"))
    words = "Maschinenbau|Werkzeuge|Antriebstechnik"
    for name in names.company_names(np.random.default_rng(0), industry, country):
        assert re.search(rf" ({words}) (GmbH|AG|KG|GmbH & Co\. KG)$", name)


def test_a_word_tells_the_industry() -> None:
    for language in names.LANGUAGES:
        words = [words.get(language, words["English"]).split(",") for words in names.INDUSTRIES.values()]
        every = [word for of_one in words for word in of_one]
        assert len(set(every)) == len(every)


def test_a_product_line_is_of_one_family() -> None:
    lines = [line for family in names.FAMILIES.values() for line in family.lines.split(",")]
    assert len(set(lines)) == len(lines)
    catalog = names.catalog()
    assert len(set(catalog.names)) == len(catalog.names) >= 3000


def test_a_seller_looks_after_clients_of_one_country() -> None:
    country = np.random.default_rng(0).integers(len(names.COUNTRIES), size=5_000)
    sellers = names.seller_names(np.random.default_rng(1), country)
    homes: dict[str, set[int]] = {}
    for seller, home in zip(sellers, country.tolist(), strict=True):
        homes.setdefault(seller, set()).add(home)
    assert all(len(home) == 1 for home in homes.values())
    assert 40 < 5_000 / len(homes) <= names.CLIENTS_PER_SELLER


# b2b


def test_patterns_are_much_denser_than_the_rest(vendor: B2B) -> None:
    inside = inside_each(vendor.interactions, vendor.rows, vendor.columns)
    outside = outside_all(vendor.interactions, vendor.rows, vendor.columns)
    assert inside.min() > 0.25
    assert inside.mean() > 0.4
    assert outside < 0.03


def test_patterns_overlap_and_are_named(vendor: B2B) -> None:
    n_patterns = len(vendor.patterns)
    assert vendor.rows.shape == (n_patterns, 2000)
    assert vendor.columns.shape == (n_patterns, 300)
    assert len(set(vendor.patterns)) == n_patterns
    assert (vendor.rows.sum(axis=0) >= 2).sum() > 300
    assert (vendor.columns.sum(axis=0) >= 2).sum() > 20


def test_a_pattern_is_industries_that_buy_related_families(vendor: B2B) -> None:
    industry = vendor.interactions.user_attributes["industry"]
    family = vendor.interactions.item_attributes["family"]
    for members, bought, name in zip(vendor.rows, vendor.columns, vendor.patterns, strict=True):
        families, industries = name.split(" ", 1)[1].split(" for ")
        assert np.isin(industry[members], industries.split(" + ")).mean() > 0.7
        at_home = np.isin(family[bought], families.split(" + "))
        assert at_home.mean() > 0.6
        assert len({names.FAMILIES[it].group for it in families.split(" + ")}) == 1


def test_number_of_patterns_can_be_chosen() -> None:
    assert len(b2b(200, 60, n_patterns=5).patterns) == 5


def test_popularity_is_skewed(vendor: B2B) -> None:
    bought_by = np.sort(vendor.interactions.by_item.degrees / 2000)
    assert 0.4 < bought_by[-1] < 0.6
    assert np.median(bought_by) < 0.05
    baskets = vendor.interactions.by_user.degrees
    assert np.quantile(baskets, 0.1) <= 5
    assert baskets.max() > 4 * np.median(baskets)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (40, 5), (5, 40), (60, 3500)])
def test_nobody_without_a_purchase_and_nothing_without_a_buyer(size: tuple[int, int]) -> None:
    for seed in range(3):
        made = b2b(*size, random_state=seed)
        assert made.interactions.shape == size
        assert (made.interactions.by_user.degrees > 0).all()
        assert (made.interactions.by_item.degrees > 0).all()
        assert made.rows.any(axis=1).all()
        assert made.columns.any(axis=1).all()


def test_names_are_unique_and_some_are_foreign(vendor: B2B) -> None:
    for labels in (vendor.interactions.user_labels, vendor.interactions.item_labels):
        assert len(set(labels)) == len(labels)
    foreign = [name for name in vendor.interactions.user_labels if not name.isascii()]
    assert 100 < len(foreign) < 800
    assert {"é", "ü"} <= set("".join(foreign))
    "".join(foreign).encode("latin-1")  # nothing more exotic: what a spreadsheet can export


def test_attributes_are_there(vendor: B2B) -> None:
    clients, products = vendor.interactions.user_attributes, vendor.interactions.item_attributes
    assert set(clients["industry"]) == set(names.INDUSTRIES)
    assert set(clients["country"]) == set(names.COUNTRIES)
    assert set(clients["size"]) == {"Small", "Medium", "Large", "Enterprise"}
    assert set(products["family"]) == set(names.FAMILIES)
    assert len(set(clients["seller"])) > 15


def test_prices_follow_list_price_and_size(vendor: B2B) -> None:
    made = vendor.interactions
    purchases = made.purchases
    assert purchases is not None
    paid = purchases.columns["price"] / made.item_attributes["list_price"][made.by_user.indices[purchases.pair]]
    assert (paid <= 1.001).all()
    assert (paid > 0.5).all()
    size = made.user_attributes["size"][made.pair_users[purchases.pair]]
    means = [paid[size == it].mean() for it in ("Small", "Medium", "Large", "Enterprise")]
    assert means == sorted(means, reverse=True)
    assert means[0] - means[-1] > 0.15
    prices = made.item_attributes["list_price"]
    assert prices.max() > 50 * prices.min()


def test_purchases_are_on_working_days_of_three_years_and_some_are_repeated(vendor: B2B) -> None:
    purchases = vendor.interactions.purchases
    assert purchases is not None
    days = purchases.columns["time"].astype("datetime64[D]")
    assert np.is_busday(days).all()
    assert days.min() >= np.datetime64("2022-01-01")
    assert days.max() < np.datetime64("2025-01-01")
    assert days.max() - days.min() > np.timedelta64(1000, "D")
    repeated = np.bincount(purchases.pair)
    assert 1.2 < repeated.mean() < 2
    assert (np.diff(days)[np.diff(purchases.pair) == 0] != np.timedelta64(0, "D")).all()
    assert (purchases.columns["quantity"] >= 1).all()


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for folder, seed in (("one", 1), ("same", 1), ("other", 2)):
        write(b2b(150, 40, random_state=seed), tmp_path / folder)
    for file in ("purchases.parquet", "coclusters.parquet"):
        one, same, other = ((tmp_path / folder / file).read_bytes() for folder in ("one", "same", "other"))
        assert one == same
        assert one != other


# frame and write


def test_frame_has_one_row_a_purchase(vendor: B2B) -> None:
    table = frame(vendor.interactions)
    assert vendor.interactions.purchases is not None
    assert table.height == len(vendor.interactions.purchases)
    assert table.columns == [
        "client", "product", "price", "quantity", "date", "seller", "industry", "country", "size", "family",
        "list_price",
    ]  # fmt: skip
    assert table.schema["date"] == pl.Date
    assert table.null_count().sum_horizontal().item() == 0


def test_frame_leads_back_to_the_history(vendor: B2B) -> None:
    table, made = frame(vendor.interactions), vendor.interactions
    again = Interactions.from_pairs(
        [made.user_index(name) for name in table["client"]],
        [made.item_index(name) for name in table["product"]],
        made.shape,
        price=table["price"].to_numpy(),
        time=table["date"].to_numpy(),
    )
    assert again.fingerprint() == made.fingerprint()
    assert again.purchases is not None
    assert made.purchases is not None
    for name in ("price", "time"):
        np.testing.assert_array_equal(again.purchases.columns[name], made.purchases.columns[name])
    industry = dict(zip(made.user_labels, made.user_attributes["industry"], strict=True))
    assert table["industry"].to_list() == [industry[name] for name in table["client"]]


def test_frame_of_bare_pairs() -> None:
    table = frame(Interactions.from_pairs([0, 1], [1, 0], user_labels=["Acme", "Bolt"]))
    assert table.rows() == [("Acme", 1), ("Bolt", 0)]


def test_frame_keeps_times_of_day_and_what_is_not_known() -> None:
    made = Interactions.from_pairs(
        [0, 1],
        [0, 0],
        time=["2024-01-01T10:30", "NaT"],
        user_attributes={"country": np.array(["Chile", None], dtype=object)},
    )
    table = frame(made)
    assert table["date"].dt.hour().to_list() == [10, None]
    assert table["country"].to_list() == ["Chile", None]


def test_frame_refuses_two_columns_of_one_name() -> None:
    made = Interactions.from_pairs([0], [0], user_attributes={"size": np.array([1]), "product": np.array([1])})
    with pytest.raises(DataError, match=r"^expected every column name once, got product twice; rename the attribute$"):
        frame(made)


def test_write_leaves_purchases_and_truth(vendor: B2B, tmp_path: Path) -> None:
    write(vendor, tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "coclusters.parquet",
        "purchases.parquet",
    ]
    assert pl.read_parquet(tmp_path / "new/folder/purchases.parquet").equals(frame(vendor.interactions))
    truth = pl.read_parquet(tmp_path / "new/folder/coclusters.parquet")
    assert truth.columns == ["pattern", "kind", "name"]
    assert truth["pattern"].unique(maintain_order=True).to_list() == list(vendor.patterns)
    third = truth.filter(pl.col("pattern") == vendor.patterns[2])
    clients = third.filter(pl.col("kind") == "client")["name"].to_list()
    products = third.filter(pl.col("kind") == "product")["name"].to_list()
    assert clients == vendor.interactions.user_labels[vendor.rows[2]].tolist()
    assert products == vendor.interactions.item_labels[vendor.columns[2]].tolist()


def test_an_interrupted_write_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(b2b(50, 20, random_state=1), tmp_path)
    before = (tmp_path / "purchases.parquet").read_bytes()

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArtifactError, match="no space left; what was there before is whole"):
        write(b2b(50, 20, random_state=2), tmp_path)
    assert (tmp_path / "purchases.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_write_refuses_a_file_as_its_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(ConfigError, match=r"^expected a folder to write to, got the file .*taken"):
            write(b2b(5, 5), folder)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: b2b(0, 5), "expected n_clients to be a whole number from 1 to 200,000, got 0"),
        (lambda: b2b(200_001, 5), "expected n_clients to be a whole number from 1 to 200,000, got 200001"),
        (lambda: b2b(5, -3), "expected n_products to be a whole number from 1 to 3,500, got -3"),
        (lambda: b2b(5, 3501), "expected n_products to be a whole number from 1 to 3,500, got 3501"),
        (lambda: b2b(5, 5, n_patterns=6), "expected n_patterns to be a whole number from 1 to 5, got 6"),
        (lambda: b2b(5, 5, random_state=-1), "expected random_state to be a whole number of at least 0, got -1"),
        (lambda: planted(0, 5, 1), "expected n_users to be a whole number of at least 1, got 0"),
        (lambda: planted(5, 5.5, 1), "expected n_items to be a whole number of at least 1, got 5.5"),
        (lambda: planted(5, 5, True), "expected n_coclusters to be a whole number of at least 1, got True"),
        (lambda: planted(5, 5, 1, users_per=6), "expected users_per to be a whole number from 1 to 5, got 6"),
        (lambda: planted(5, 5, 1, items_per=0), "expected items_per to be a whole number from 1 to 5, got 0"),
        (lambda: planted(5, 5, 1, density=1.5), "expected density to be a probability from 0 to 1, got 1.5"),
        (lambda: planted(5, 5, 1, noise=-0.1), "expected noise to be a probability from 0 to 1, got -0.1"),
        (lambda: planted(5, 5, 1, overlap=-1), "expected overlap of at least 0, got -1; 0 is a partition"),
        (lambda: skewed(5, 0, 5), "expected n_items to be a whole number of at least 1, got 0"),
        (lambda: skewed(5, 4, 11), "expected n_pairs to be a whole number from 1 to 10, got 11"),
    ],
)
def test_sizes_out_of_range_are_refused_in_one_line(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        call()
