"""The order in which clients and products are drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ocular.plots.ordering import arrange, chain


def group(index: int, users: Any, items: Any, share: float = 0.1) -> Any:
    users, items = np.array(users), np.array(items)
    strengths = {"user_strengths": np.linspace(2, 1, len(users)), "item_strengths": np.linspace(2, 1, len(items))}
    return SimpleNamespace(
        index=index, label=f"{index}", users=users, items=items, density=0.5, share=share, **strengths
    )


def scattered_blocks(seed: int) -> tuple[list[Any], int]:
    """Six blocks, each sharing two clients and one product with the next, shuffled; one client in none."""
    rng = np.random.default_rng(seed)
    n_users, n_items = 6 * 5 + 2, 6 * 4 + 1
    user, item = rng.permutation(n_users + 1), rng.permutation(n_items)
    blocks = [group(b, user[5 * b : 5 * b + 7], item[4 * b : 4 * b + 5]) for b in rng.permutation(6).tolist()]
    return blocks, int(user[-1])


def is_one_run(rows: Any, members: Any) -> bool:
    places = np.flatnonzero(np.isin(rows, members))
    return len(places) == len(members) and places[-1] - places[0] == len(places) - 1


@pytest.mark.parametrize("seed", range(5))
def test_planted_blocks_that_overlap_in_a_chain_are_drawn_without_gaps(seed: int) -> None:
    blocks, outsider = scattered_blocks(seed)
    shown = arrange(blocks, (33, 25), max_rows=60)
    assert sorted(shown.users) == list(range(33))
    assert sorted(shown.items) == list(range(25))
    assert all(is_one_run(shown.users, block.users) for block in blocks)
    assert all(is_one_run(shown.items, block.items) for block in blocks)
    assert shown.users[-1] == outsider


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_on_the_chain_share_members(seed: int) -> None:
    order = [block.index for block in chain(scattered_blocks(seed)[0])]
    assert order in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0])


def test_a_sample_has_the_strongest_members_of_what_explains_most() -> None:
    groups = [group(c, range(100 * c, 100 * c + 100), range(10 * c, 10 * c + 10), share=c / 100) for c in range(20)]
    shown = arrange(groups, (80_000, 3_000), max_rows=60)
    assert sorted(g.index for g in shown.coclusters) == list(range(12, 20))
    assert len(shown.users) == len(shown.items) == 60
    for c in range(12, 20):
        members = set(range(100 * c, 100 * c + 100)) & set(shown.users.tolist())
        assert members in (set(range(100 * c, 100 * c + 7)), set(range(100 * c, 100 * c + 8)))


def test_fewer_rows_show_fewer_coclusters_with_a_few_members_each() -> None:
    groups = [group(c, range(50 * c, 50 * c + 50), range(9 * c, 9 * c + 9)) for c in range(10)]
    shown = arrange(groups, (500, 90), max_rows=20)
    assert len(shown.coclusters) == 4
    assert all(np.isin(shown.users, g.users).sum() == 5 for g in shown.coclusters)


def test_nothing_to_show() -> None:
    shown = arrange([], (5, 1000), max_rows=60)
    assert shown.users.tolist() == [0, 1, 2, 3, 4]
    assert shown.items.tolist() == []
