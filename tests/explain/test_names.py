"""Names in sentences: lists, ranges, numbers and what must not break a line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocular.explain.names import client_name, isolated, join_names, one_line, percent, product_name, quoted, shortened


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["nut"], "nut"),
        (["nut", "saw"], "nut and saw"),
        (["nut", "saw", "oar"], "nut, saw and oar"),
        (["nut", "saw", "oar", "rope"], "nut, saw, oar and 1 more"),
        ([4], "Item 4"),
        ([3, 1, 2], "Items 1-3"),
        ([4, 5], "Items 4-5"),
        ([7, 1, 2], "Items 1-2 and 7"),
        ([9, 1, 2, 5], "Items 1-2, 5 and 9"),
        ([9, 1, 7, 5, 3], "Items 9, 1, 7 and 2 more"),  # strongest first, as given
        (list(range(100)), "Items 0-99"),
        (["12", "nut"], "Item 12 and nut"),
    ],
)
def test_a_list_of_names_reads_as_english(labels: list[int | str], sentence: str) -> None:
    assert join_names(labels, "Item") == sentence


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True))
def test_ranges_hold_exactly_the_numbers(numbers: list[int]) -> None:
    said = join_names(numbers, "Client")
    assert said.startswith("Clients " if len(numbers) > 1 else "Client ")
    if "more" in said:
        assert said == "Clients {}, {}, {} and {} more".format(*numbers[:3], len(numbers) - 3)
        return
    spans = [tuple(map(int, span.split("-"))) for span in re.findall(r"\d+(?:-\d+)?", said)]
    assert [n for span in spans for n in range(span[0], span[-1] + 1)] == sorted(numbers)
    assert len(spans) <= 3


@given(st.lists(st.text("abc ", min_size=1).filter(str.strip), min_size=1, max_size=7))
def test_a_list_of_text_names_three_and_counts_the_others(names: list[str]) -> None:
    said = join_names(names, "Item", lambda name: f"<{name}>")
    assert re.findall("<(.*?)>", said) == [" ".join(name.split()) for name in names[:3]]
    assert said.endswith(f"{len(names) - 3} more") == (len(names) > 3)


def test_the_first_names_of_many_need_no_others() -> None:
    assert join_names(["nut", "saw", "oar"], "Item", total=1203) == "nut, saw, oar and 1,200 more"
    assert join_names([4, 5, 6], "Client", total=1203) == "Clients 4, 5, 6 and 1,200 more"


def test_names_and_numbers() -> None:
    assert (client_name("Acme"), client_name(6), client_name("6")) == ("Acme", "Client 6", "Client 6")
    assert (product_name("bolt"), product_name(4)) == ("bolt", "Item 4")


@pytest.mark.parametrize(
    "name",
    ["Acme\nLtd", "Acme\r\n Ltd", "Acme\tLtd", "Acme\x00Ltd", "Acme\u2028Ltd", " Acme\x85Ltd\v", "Acme \x1b Ltd"],
)
def test_a_name_is_one_line(name: str) -> None:
    assert one_line(name) == client_name(name) == "Acme Ltd"


@pytest.mark.parametrize("name", ["שלום בע״מ", "شركة النور"])
def test_right_to_left_names_are_set_apart(name: str) -> None:
    assert isolated(name) == f"\u2068{name}\u2069"


def test_other_names_stay_as_they_are() -> None:
    for name in ("Acme", "東京商事", "🚲 Räder", "Ünïcode"):
        assert isolated(name) == name
    assert shortened("a" * 40, 40) == "a" * 40
    assert shortened("abc defgh", 5) == "abc…"
    assert shortened("abcdefgh", 5) == "abcd…"


def test_marks_of_direction_do_not_reach_a_sentence() -> None:
    assert one_line("Acme \u202eevil\u2069 \u2067x") == "Acme evil x"


def test_names_with_commas_are_quoted() -> None:
    assert [quoted(name) for name in ("LANTERN, RED", "LANTERN RED")] == ["“LANTERN, RED”", "LANTERN RED"]


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.0, "0%"), (0.00004, "0%"), (0.0004, "0.04%"), (0.0094, "0.9%"), (0.0096, "1%"), (0.355, "36%"), (1.0, "100%")],
)
def test_small_shares_keep_a_digit(share: float, written: str) -> None:
    assert percent(share) == written
