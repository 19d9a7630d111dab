"""The checks of arguments: what passes comes back as plain Python, what does not is refused in one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ocular.errors import ConfigError, DataError, OcularError
from ocular.validation import (
    allowed_mask,
    as_list,
    check_choice,
    check_flag,
    check_id,
    check_id_list,
    check_ids,
    check_n,
    check_number,
    check_share,
    check_whole,
    random_generator,
)


def refusal(check: Callable[[], Any], kind: type[OcularError] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        check()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_come_back_as_int(value: Any) -> None:
    assert check_whole(value, "n", 3, 3) == 3
    assert type(check_whole(value, "n")) is int


@pytest.mark.parametrize("value", [-1, 1.0, "1", None, True, np.float64(1), np.bool_(True), [1], math.nan, 1j])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    message = refusal(lambda: check_whole(value, "n_jobs"))
    assert message == f"expected n_jobs to be a whole number of at least 0, got {value!r}"


def test_limits_of_whole_numbers_are_in_the_message() -> None:
    assert "a whole number from 1 to 1,000, got 1001" in refusal(lambda: check_whole(1001, "n", 1, 1000))
    assert "a whole number of at least 1,000, got 999" in refusal(lambda: check_whole(999, "n", 1000))
    assert refusal(lambda: check_n(0)) == "expected N to be a whole number from 1 to 1,000,000, got 0"
    assert check_n(np.int32(7)) == 7


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2)])
def test_numbers_come_back_as_float(value: Any) -> None:
    assert check_number(value, "x", 2, 2) == 2.0
    assert type(check_number(value, "x")) is float


@pytest.mark.parametrize("value", ["2", None, True, math.nan, math.inf, -np.inf, [2.0], 2j, np.complex64(2)])
def test_what_is_no_number_is_refused(value: Any) -> None:
    assert refusal(lambda: check_number(value, "tol")) == f"expected tol to be a number, got {value!r}"


@pytest.mark.parametrize(
    ("limits", "refused", "says"),
    [
        ({"low": 0}, -1, "a number of at least 0"),
        ({"high": 5}, 6, "a number of at most 5"),
        ({"low": 0.5, "high": 1e12}, 0.4, "a number from 0.5 to 1e+12"),
        ({"above": 0}, 0, "a number above 0"),
        ({"above": 0, "high": 1}, 2, "a number above 0, at most 1"),
    ],
)
def test_limits_of_numbers_are_in_the_message(limits: dict[str, float], refused: float, says: str) -> None:
    assert refusal(lambda: check_number(refused, "x", **limits)) == f"expected x to be {says}, got {refused}"
    assert check_number(1, "x", **limits) == 1


def test_flags_choices_and_shares() -> None:
    assert check_flag(np.bool_(True), "bias") is True
    assert refusal(lambda: check_flag(1, "bias")) == "expected bias to be True or False, got 1"
    assert check_choice("b", "init", ("a", "b")) == "b"
    for value in ("c", None, 0, np.array(["a", "b"]), ["a"]):
        assert refusal(lambda value=value: check_choice(value, "init", ("a", "b"))).startswith(
            "expected init to be one of a, b, got "
        )
    assert check_share(np.float32(0.25), "share") == 0.25
    for value in (0, 1, -0.5, math.nan, "0.5", True, None):
        message = refusal(lambda value=value: check_share(value, "share"))
        assert message == f"expected share to be between 0 and 1, got {value!r}"


def test_a_seed_gives_the_same_numbers() -> None:
    assert random_generator(np.int64(3)).integers(1000) == random_generator(3).integers(1000)
    assert refusal(lambda: random_generator(None)).startswith("expected random_state to be a whole number")


def test_ids() -> None:
    assert check_ids(3, 4, "user").tolist() == [3]
    assert check_ids(np.array([[0], [3]], dtype=np.uint8), 4, "user").dtype == np.int64
    assert check_ids([], 0, "user").shape == (0,)
    assert check_id(np.array([2]), 4, "user") == 2
    assert check_id_list([1, 2], 4, "item").tolist() == [1, 2]
    assert refusal(lambda: check_ids([0, 4], 4, "item"), DataError) == "expected item ids from 0 to 3, got 4"
    assert refusal(lambda: check_ids(-1, 4, "user"), DataError) == "expected user ids from 0 to 3, got -1"
    assert "names go through interactions_.item_index" in refusal(lambda: check_ids("nut", 4, "item"), DataError)
    assert refusal(lambda: check_id([1, 2], 4, "user"), DataError) == "expected one user id, got 2"
    message = refusal(lambda: check_id_list([[1]], 4, "user"), DataError)
    assert message == "expected user ids as one number or a list, got 2 dimensions"


def test_masks_of_ids() -> None:
    assert allowed_mask(None, None, 4, "item") is None
    assert allowed_mask([1, 2], None, 4, "item").tolist() == [False, True, True, False]
    assert allowed_mask(None, 1, 4, "item").tolist() == [True, False, True, True]
    assert allowed_mask([1, 2], [2], 4, "item").tolist() == [False, True, False, False]
    assert not allowed_mask([], None, 4, "item").any()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("nut", ["nut"]),
        (3, [3]),
        (2.5, [2.5]),
        (("a", "b"), ["a", "b"]),
        (iter(["a"]), ["a"]),
        ([], []),
        (True, [True]),
    ],
)
def test_one_name_is_a_list_of_one(given: Any, expected: list[Any]) -> None:
    assert as_list(given) == expected
