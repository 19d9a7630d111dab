"""Search by name: typing errors, order, and that nobody finds the clients of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sites import Browser, Site, text_of

from ocular import Interactions, OCuLaR
from ocular.web.registry import Registry
from ocular.web.search import MAX_WORSE, NameIndex, best_cost, best_matches, prefix_errors

NAMES = [
    "Siemens AG", "Simon & Sons", "Schönacker Bildung AG", "Acme Data Guard", "Acme Storage", "Grandchamp Commerce SA",
    "日本電気株式会社", "Rack Server 100", "Rack Server 200", "Microoffice",
]  # fmt: skip


def best(query: str, names: list[str] = NAMES, limit: int = 3) -> list[str]:
    costs = NameIndex(names).costs(query)
    return [names[row] for row in best_matches(costs, np.zeros(len(names)), best_cost(costs), limit).rows]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("siemens", "Siemens AG"),
        ("Seimens", "Siemens AG"),  # two letters swapped
        ("siemes", "Siemens AG"),  # one too few
        ("siemenss", "Siemens AG"),  # one too many
        ("schonaker", "Schönacker Bildung AG"),
        ("SCHÖNACKER", "Schönacker Bildung AG"),
        ("guard acme", "Acme Data Guard"),
        ("acme stroage", "Acme Storage"),
        ("grandchmp comerce", "Grandchamp Commerce SA"),
        ("gran", "Grandchamp Commerce SA"),
        ("電気", "日本電気株式会社"),
        ("rack server 200", "Rack Server 200"),
        ("office", "Microoffice"),
        ("acme limited storage", "Acme Storage"),  # one word that no name has
    ],
)
def test_the_name_that_was_meant_comes_first(query: str, name: str) -> None:
    assert best(query)[:1] == [name]


@pytest.mark.parametrize("query", ["", "  ", "&&", "qqqq", "xy", "zimmon", "'; drop table", "\0", "%", "*" * 500])
def test_what_matches_nothing_finds_nothing(query: str) -> None:
    assert best(query) == []


def test_whole_words_come_before_longer_ones_and_these_before_typing_errors() -> None:
    names = ["Portable", "Portal", "Port", "Passport", "Part"]
    assert best("port", names, 5) == ["Port", "Portal", "Portable", "Passport", "Part"]


def test_first_words_come_before_later_ones() -> None:
    assert best("data", ["North Data", "Data North"]) == ["Data North", "North Data"]


@pytest.mark.parametrize("seed", range(3))
def test_typing_errors_are_counted_as_one_by_one(seed: int) -> None:
    """Against the definition, written out for a pair of words."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("abc"), rng.integers(1, 8))) for _ in range(60)]
    letters = np.array(words, dtype="U8").view(np.uint32).reshape(-1, 8).T
    for typed in words[:20]:
        expected = [min(distance(typed, word[:n]) for n in range(len(word) + 1)) for word in words]
        assert prefix_errors(letters, typed, 2).tolist() == [min(errors, 3) for errors in expected]


def distance(a: str, b: str) -> int:
    """Letters too many, too few or wrong, and neighbours swapped."""
    table = {(i, j): i + j for i in range(len(a) + 1) for j in range(len(b) + 1) if not i or not j}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i, j] = min(
                table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            )  # fmt: skip
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a), len(b)]


# ---------------------------------------------------------------------------------------------------------- the pages


def suggested(browser: Browser, query: str) -> dict[str, Any]:
    answer = browser.get("/search.json", params={"q": query})
    assert answer.status_code == 200
    return {group["kind"]: group for group in answer.json()}


def misspelt(name: str) -> str:
    """The name with two letters of its first long word swapped."""
    words = name.split()
    place = next(n for n, word in enumerate(words) if len(word) > 5)
    word = words[place]
    words[place] = word[:2] + word[3] + word[2] + word[4:]
    return " ".join(words)


def test_clients_products_and_patterns_are_found_and_lead_to_their_pages(site: Site) -> None:
    browser, served = site.browser("ana"), site.services.served
    pattern = next(iter(served.patterns.values()))
    for kind, name in (
        ("Clients", site.clients("ana")[0]),
        ("Products", str(site.interactions.item_labels[3])),
        ("Patterns", pattern.label),
    ):
        page = browser.get("/search", params={"q": misspelt(name)})
        assert name in text_of(page)
        result = suggested(browser, misspelt(name))[kind]["results"][0]
        assert result["name"] == name
        assert name in text_of(browser.get(result["address"]))


def test_a_seller_finds_no_client_of_others_not_even_in_a_count(site: Site) -> None:
    browser = site.browser("ana")
    for owner in ("ben", "sue"):
        for client in site.clients(owner):
            for query in (client, misspelt(client), client.split()[0]):
                found = suggested(browser, query).get("Clients", {"results": [], "total": 0})
                assert {result["name"] for result in found["results"]} <= set(site.clients("ana"))
                assert found["total"] <= 15
                others = set(map(str, site.interactions.user_labels)) - set(site.clients("ana")) - {query}
                assert not [name for name in others if name in text_of(browser.get("/search", params={"q": query}))]


def test_an_answer_is_the_same_as_if_nobody_else_had_clients(site: Site) -> None:
    """A better match of another seller must not hide one's own, or it would show that it exists."""
    browser, served, mine = site.browser("ana"), site.services.served, site.clients("ana")
    others = NameIndex([pattern.label for pattern in served.patterns.values()])
    compared = 0
    for client in (*site.clients("ben"), *site.clients("sue")):
        costs = NameIndex(mine).costs(client)
        best = min(best_cost(index.costs(client)) for index in (served.search_index.products, others))
        best = min(best, best_cost(costs))
        expected = {mine[n] for n in np.flatnonzero(costs <= best + MAX_WORSE).tolist()} if np.isfinite(best) else set()
        found = suggested(browser, client).get("Clients", {"results": [], "total": 0})
        assert found["total"] == len(expected)
        assert {result["name"] for result in found["results"]} <= expected
        compared += len(expected)
    assert compared > 10


def test_a_manager_finds_the_team_and_an_administrator_everybody(site: Site) -> None:
    for visitor, client, found in (("max", "ben", True), ("max", "sue", False), ("root", "sue", True)):
        name = site.clients(client)[0]
        results = suggested(site.browser(visitor), name).get("Clients", {"results": []})["results"]
        assert (name in [result["name"] for result in results]) == found


def test_an_empty_search_explains_itself_and_a_vain_one_says_so(site: Site) -> None:
    browser = site.browser("ana")
    assert "Typos are fine" in browser.get("/search").text
    assert "Nothing matches" in browser.get("/search", params={"q": "qqqqqq"}).text
    assert browser.get("/search.json").json() == []
    assert browser.get("/search", params={"q": "x" * 501}).status_code == 422


def test_clients_with_names_are_found_by_their_number_too(tmp_path: Path) -> None:
    data = Interactions.from_pairs(
        [0, 0, 1, 1, 2], [0, 1, 0, 1, 0], user_labels=[4711, 4712, 9000], item_labels=["a", "b"],
        user_names=["Acme", "Bolt", "Corda"],
    )  # fmt: skip
    OCuLaR(1, 0.1, random_state=0).fit(data).save(tmp_path / "models" / "first")
    registry = Registry(tmp_path / "models")
    registry.refresh()
    costs = registry.current.search_index.clients.costs("4712")
    assert np.argmin(costs) == 1
