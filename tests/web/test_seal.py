"""Seals of recommendations: only ours, only for the pair that they were made for."""

from __future__ import annotations

import pytest

from ocular.web.feedback_seal import MAX_SEAL, ShownRecommendation, make_seal, open_seal

KEY = "0" * 64
SHOWN = ShownRecommendation("first-0a1b2c3d", 0.625, 7, "Röhren & “Ventile”")


def test_a_seal_is_opened_for_its_own_pair() -> None:
    seal = make_seal(KEY, "Acme", "bolt", SHOWN)
    assert open_seal(KEY, "Acme", "bolt", seal) == SHOWN


@pytest.mark.parametrize(
    ("key", "client", "product"),
    [("1" * 64, "Acme", "bolt"), (KEY, "Bolt", "bolt"), (KEY, "Acme", "nut"), (KEY, "bolt", "Acme"), (KEY, "", "")],
)
def test_a_seal_of_another_key_or_pair_is_not_opened(key: str, client: str, product: str) -> None:
    assert open_seal(key, client, product, make_seal(KEY, "Acme", "bolt", SHOWN)) is None


@pytest.mark.parametrize("seal", ["", ".", "x.y", "e30=.x", "WzFd.\x00", "é.ü", "[" * 4000])
def test_what_is_no_seal_is_not_opened(seal: str) -> None:
    assert open_seal(KEY, "Acme", "bolt", seal) is None


def test_every_changed_letter_breaks_a_seal() -> None:
    seal = make_seal(KEY, "Acme", "bolt", SHOWN)
    for place, letter in enumerate(seal[:-1]):  # the last one has unused bits
        changed = seal[:place] + ("A" if letter != "A" else "B") + seal[place + 1 :]
        assert open_seal(KEY, "Acme", "bolt", changed) is None


def test_the_longest_seal_fits_into_its_field() -> None:
    unlikely = "".join(chr(0x20000 + 7919 * n % 40_000) for n in range(500))
    longest = ShownRecommendation("x" * 200 + "-0a1b2c3d", 0.1234567890123456, 10**6, unlikely)
    seal = make_seal(KEY, unlikely, unlikely, longest)
    assert len(seal) <= MAX_SEAL
    assert open_seal(KEY, unlikely, unlikely, seal) == longest
