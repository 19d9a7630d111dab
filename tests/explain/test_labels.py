"""Labels of co-clusters: the dominant industry and the products that tell a co-cluster from the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ocular import Interactions, OCuLaR
from ocular.explain.coclusters import CoCluster
from ocular.explain.labels import Describer

ITEMS = ["till", "scanner", "drill", "vise", "paper"]


def two_groups(
    user_attributes: dict[str, Any] | None = None,
    item_attributes: dict[str, Any] | None = None,
    labels: list[str] = ITEMS,
) -> tuple[CoCluster, CoCluster]:
    """Eight shops with till or scanner, mostly both, eight builders with drill or vise; paper is bought by all."""
    R = np.zeros((16, 5), dtype=int)
    R[:8, :2] = R[8:, 2:4] = R[:, 4] = 1
    R[0, 0] = R[1, 1] = R[8, 2] = R[9, 3] = 0
    users, items = np.nonzero(R)
    history = Interactions.from_pairs(
        users, items, item_labels=labels, user_attributes=user_attributes, item_attributes=item_attributes
    )
    found = OCuLaR(2, 0.1, tol=0.0, max_iter=80, random_state=0).fit(history).coclusters()
    assert len(found) == 2
    first, second = sorted(found, key=lambda cocluster: 2 in cocluster.items)
    assert sorted(first.users) == list(range(8))
    assert sorted(first.items) == [0, 1, 4]
    return first, second


def column(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype=object)


def test_a_label_has_the_distinctive_products_and_not_what_everybody_buys() -> None:
    shops, builders = two_groups()
    assert set(shops.label.split(", ")) == {"till", "scanner"}
    assert set(builders.label.split(", ")) == {"drill", "vise"}
    assert shops.traits == ()


def test_a_label_begins_with_the_dominant_industry_and_family() -> None:
    industry = column(["retail"] * 6 + ["other"] * 3 + ["building"] * 7)
    family = column(["checkout", "checkout", "tools", "tools", "tools"])
    shops, builders = two_groups({"industry": industry}, {"family": family})
    assert shops.label == "retail: checkout"
    assert builders.label == "building: tools"
    (trait, product_trait) = shops.traits
    assert (trait.side, trait.attribute, trait.value) == ("client", "industry", "retail")
    assert (trait.share, trait.overall) == (6 / 8, 6 / 16)
    assert str(trait) == "retail clients: 75% (38% overall)"
    assert (product_trait.side, product_trait.value, product_trait.share) == ("product", "checkout", 2 / 3)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["a", "b", "c", "d", "e", "f", "g", "h"] * 2, "nobody dominates"),
        (["retail"] * 3 + ["other"] * 5 + ["other"] * 8, "three of eight are less than two in five, 'other' is usual"),
        (["retail"] * 16, "one value tells nothing"),
        ([f"street {n}" for n in range(16)], "an address is no category"),
        ([float(n % 2) for n in range(16)], "numbers are no categories"),
        ([None] * 16, "not known"),
    ],
)
def test_what_is_not_telling_is_not_named(values: list[Any], why: str) -> None:
    shops, _ = two_groups({"industry": column(values)})
    assert shops.traits == (), why
    assert set(shops.label.split(", ")) == {"till", "scanner"}


def test_unknown_values_count_as_not_having_it() -> None:
    shops, builders = two_groups({"industry": column(["retail"] * 4 + [None] * 4 + ["building"] * 3 + [None] * 5)})
    assert (shops.traits[0].value, shops.traits[0].share, shops.traits[0].overall) == ("retail", 0.5, 0.25)
    assert builders.traits == ()  # 3 of 8


def test_an_empty_value_is_not_known_either() -> None:
    shops, _ = two_groups({"industry": column([""] * 6 + ["retail"] * 2 + ["building"] * 8)})
    assert set(shops.label.split(", ")) == {"till", "scanner"}


def test_the_most_telling_attribute_leads() -> None:
    country = column(["Peru"] * 6 + ["Chile"] * 2 + ["Peru"] * 1 + ["Chile"] * 7)
    industry = column(["retail"] * 8 + ["building"] * 8)
    shops, _ = two_groups({"country": country, "industry": industry})
    assert [trait.attribute for trait in shops.traits] == ["industry", "country"]
    assert shops.label.startswith("retail: ")


def test_long_and_broken_names_stay_on_one_short_line() -> None:
    shops, _ = two_groups(
        {"industry": column(["re\ntail"] * 8 + ["building"] * 8)}, labels=["till\n" + "x" * 90, *ITEMS[1:]]
    )
    assert shops.label.startswith("re tail: ")
    assert "\n" not in shops.label
    assert "till " + "x" * 34 + "…" in shops.label


def test_numbered_products_are_items() -> None:
    R = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]])
    (found,) = OCuLaR(1, 0.1, tol=0.0, max_iter=50, random_state=0).fit(R).coclusters(0.3)
    assert set(found.label.split(", ")) == {"Item 0", "Item 1"}


def test_several_industries_are_named_where_they_are_half_of_the_members() -> None:
    industry = column(["aerospace"] * 3 + ["farming"] * 2 + ["a", "b", "c"] + ["building"] * 4 + ["a", "b", "c", "d"])
    shops, builders = two_groups({"industry": industry})
    assert [(trait.value, trait.share) for trait in shops.traits] == [("aerospace", 3 / 8), ("farming", 2 / 8)]
    assert shops.label.startswith("aerospace & farming: ")
    assert builders.label.startswith("building: ")  # half of the builders, the others have one each


def test_industries_that_are_less_than_half_of_the_members_together_are_not_named() -> None:
    industry = column(["aerospace"] * 3 + [*"abcde"] + ["building"] * 8)
    shops, _ = two_groups({"industry": industry})
    assert shops.traits == ()


def test_a_family_that_is_as_frequent_everywhere_is_not_named() -> None:
    shops, _ = two_groups(item_attributes={"family": column(["hardware", "a", "hardware", "b", "hardware"])})
    assert shops.traits == ()
    assert set(shops.label.split(", ")) == {"till", "scanner"}


def describer(families: list[str]) -> tuple[Describer, list[tuple[int, Any, Any]]]:
    """Two groups of four clients, who buy the first and the last three of six products."""
    R = np.zeros((8, 6), dtype=np.int64)
    R[:4, :3] = R[4:, 3:] = 1
    users, items = np.nonzero(R)
    labels = ["till", "scanner", "printer", "drill", "vise", "saw"]
    data = Interactions.from_pairs(users, items, item_labels=labels, item_attributes={"family": column(families)})
    members = [(0, np.arange(4), np.arange(3)), (1, np.arange(4, 8), np.arange(3, 6))]
    return Describer(data, sp.csr_array(np.array([[4] * 3 + [0] * 3, [0] * 3 + [4] * 3]))), members


def test_two_patterns_of_one_family_are_told_apart_by_a_product() -> None:
    """Half of the catalogue is something else, so that the family is over-represented in both."""
    data, members = describer(["tools", "tools", "x", "tools", "tools", "y"])
    plain = [label for label, _ in data.describe(members)]
    assert plain == ["till, scanner", "drill, vise"]  # two in three in both, and overall
    R = np.zeros((8, 12), dtype=np.int64)
    R[:4, :3] = R[4:, 3:6] = 1
    users, items = np.nonzero(R)
    families = column(["tools"] * 6 + ["x", "y", "z", "x", "y", "z"])
    names = ["till", "scanner", "printer", "drill", "vise", "saw", *"abcdef"]
    wide = Interactions.from_pairs(users, items, (8, 12), item_labels=names, item_attributes={"family": families})
    buyers = sp.csr_array(np.array([[4] * 3 + [0] * 9, [0] * 3 + [4] * 3 + [0] * 6]))
    found = [label for label, _ in Describer(wide, buyers).describe(members)]
    assert found == ["tools (till)", "tools (drill)"]
    kept = [label for label, _ in Describer(wide, buyers).describe(members, {0: "tools"})]
    assert kept == ["tools", "tools (drill)"]  # a label that a refit keeps stays as it is


def test_labels_that_nothing_tells_apart_are_numbered() -> None:
    data, members = describer(["x"] * 6)
    same = [(0, *members[0][1:]), (0, *members[0][1:])]
    assert [label for label, _ in data.describe(same)] == ["till, scanner", "till, scanner (2)"]
