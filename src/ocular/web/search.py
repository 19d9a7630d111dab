"""
Search by name that forgives typing errors: clients, products and patterns.

Every word of the query is compared with every word of the names at once. A word matches if it begins with the query's
word, contains it, or begins with something one or two typing errors away; a typing error is a letter too many, too few
or wrong, or two letters swapped. Cost: one for a typing error, a fraction for a longer word. The work depends on the
query and on all names, never on who asks, so that the time of an answer tells nothing of other people's clients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions, Labels, Names
from ocular.web.opportunities import fold

MAX_QUERY, MAX_WORDS = 100, 6  # letters and words of a query
MAX_LETTERS = 24  # of a word that are compared
INSIDE, MISSING = 0.8, 4.0  # cost of a match within a word, and of a query's word that the name lacks
LONGER = 0.5  # cost of a word that goes on after the query's word, times the share that the query lacks
LATER, MAX_LATER = 0.25, 3  # cost of each word before the one that matches, and how many of them count
MAX_WORSE = 2.5  # cost beyond the best match

Costs = NDArray[np.float32]


class NameIndex:
    """The words of many names, ready to be compared with a query."""

    def __init__(self, names: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        places, words, late = list[int](), list[int](), list[float]()
        for place, name in enumerate(names):
            for nth, word in enumerate(dict.fromkeys(_words(name))):
                places.append(place)
                words.append(numbers.setdefault(word, len(numbers)))
                late.append(LATER * min(nth, MAX_LATER))
        self._n_names, vocabulary = len(names), list(numbers)
        order = np.argsort(np.array(words, dtype=np.int64), kind="stable")
        ends = np.searchsorted(np.array(words, dtype=np.int64)[order], np.arange(len(vocabulary) + 1))
        # the names with each word, weighted by the cost of its place
        late_costs = np.array(late, dtype=np.float32)[order]
        self._names = Adjacency(ends.astype(np.int64), np.array(places, dtype=np.int32)[order], late_costs)
        self._text = "\n".join(["", *vocabulary, ""])
        self._lengths = np.array([len(word) for word in vocabulary], dtype=np.int64)
        self._starts = np.concatenate([[1], 1 + np.cumsum(self._lengths + 1)])[:-1]  # of the words in the text
        cut = np.array([word[:MAX_LETTERS] for word in vocabulary], dtype=f"U{MAX_LETTERS}")
        self._letters = np.ascontiguousarray(cut.view(np.uint32).reshape(-1, MAX_LETTERS).T)

    def costs(self, query: str) -> Costs:
        """Return how far each name is from the query, (n_names,): 0 for the same words, infinity where none match."""
        total, found = np.zeros(self._n_names, dtype=np.float32), np.zeros(self._n_names, dtype=bool)
        for word in _words(query[:MAX_QUERY])[:MAX_WORDS]:
            costs = self._costs_of_names(word)
            found |= costs < MISSING
            total += costs
        total[~found] = np.inf
        return total

    def _costs_of_names(self, word: str) -> Costs:
        """Return the cost of the best word of each name."""
        by_word = self._costs_of_words(word)
        matching = np.flatnonzero(by_word < MISSING)
        costs = np.full(self._n_names, MISSING, dtype=np.float32)
        having = self._names.take(matching)
        found = np.repeat(by_word[matching], having.degrees) + np.asarray(having.weights, dtype=np.float32)
        order = np.argsort(-found, kind="stable")
        costs[having.indices[order]] = found[order]  # the best is written last
        return costs

    def _costs_of_words(self, word: str) -> Costs:
        costs = np.full(len(self._lengths), MISSING, dtype=np.float32)
        if len(word) > 2 or not word.isascii():  # two letters are in half of all words, but not in Chinese ones
            inside = np.array([match.start() for match in re.finditer(re.escape(word), self._text)], dtype=np.int64)
            costs[np.searchsorted(self._starts, inside, side="right") - 1] = INSIDE
        errors = prefix_errors(self._letters, word[:MAX_LETTERS], allowed_errors(word))
        near = np.flatnonzero(errors <= allowed_errors(word))
        rest = np.maximum(1 - len(word) / self._lengths[near], 0)
        costs[near] = np.minimum(costs[near], errors[near] + LONGER * rest)
        return costs


def allowed_errors(word: str) -> int:
    """Return how many typing errors are forgiven: none in a short word, which would match any other."""
    return 0 if len(word) < 4 else 1 if len(word) < 7 else 2


def prefix_errors(letters: NDArray[np.uint32], word: str, most: int) -> NDArray[np.uint8]:
    """
    Return the typing errors between a word and the nearest beginning of each column of letters, at most `most` + 1.

    >>> words = np.array(["siemens", "simon", "acme"], dtype="U8").view(np.uint32).reshape(3, 8).T
    >>> prefix_errors(words, "seim", 2).tolist()
    [1, 2, 3]
    """
    n_letters, n_words = letters.shape
    too_many = np.full(n_words, most + 1, dtype=np.uint8)
    typed, width = [ord(letter) for letter in word], min(n_letters, len(word) + most)
    # row i, entry j: errors between the first i letters typed and the first j letters of each word
    before, row = list[NDArray[np.uint8]](), [np.full(n_words, j, dtype=np.uint8) for j in range(width + 1)]
    for i in range(1, len(typed) + 1):
        after = [np.full(n_words, i, dtype=np.uint8), *[too_many] * width]
        for j in range(max(1, i - most), min(width, i + most) + 1):
            wrong = letters[j - 1] != typed[i - 1]
            errors = np.minimum(np.minimum(row[j], after[j - 1]) + np.uint8(1), row[j - 1] + wrong)
            if i > 1 and j > 1:
                swapped = (letters[j - 1] == typed[i - 2]) & (letters[j - 2] == typed[i - 1])
                errors = np.where(swapped, np.minimum(errors, before[j - 2] + np.uint8(1)), errors)
            after[j] = errors
        before, row = row, after
    fewest = np.minimum.reduce(row[max(0, len(typed) - most) :])
    return np.minimum(fewest, too_many)


class SearchIndex:
    """The names of the clients and products of one model."""

    def __init__(self, interactions: Interactions, client_names: Sequence[str], product_names: Sequence[str]) -> None:
        self.clients = NameIndex(_with_labels(client_names, interactions.user_names, interactions.user_labels))
        self.products = NameIndex(_with_labels(product_names, interactions.item_names, interactions.item_labels))


def _with_labels(names: Sequence[str], given: Names | None, labels: Labels) -> Sequence[str]:
    """Return the names, with the keys after them where these are not the same: people search by number too."""
    if given is None:
        return names
    return [f"{name} {label}" for name, label in zip(names, labels.tolist(), strict=True)]


@dataclass(frozen=True)
class Found:
    """The names that match a query, best first: rows of the clients, products or patterns."""

    rows: list[int]
    total: int  # that match, of those who may be seen


def best_cost(costs: Costs, among: NDArray[np.int64] | None = None) -> float:
    """Return the lowest cost of the rows `among`; infinity where none match."""
    return float((costs if among is None else costs[among]).min(initial=np.inf))


def best_matches(
    costs: Costs, weights: NDArray[Any], best: float, limit: int, among: NDArray[np.int64] | None = None
) -> Found:
    """
    Return the rows that are not much worse than the `best` cost, best first; only those `among`.

    Of equal ones that with the largest weight comes first.
    """
    if not np.isfinite(best):
        return Found([], 0)
    rows = np.arange(len(costs)) if among is None else among
    matching = rows[costs[rows] <= best + MAX_WORSE]
    order = np.lexsort((matching, -weights[matching], np.round(costs[matching], 3)))[:limit]
    return Found(matching[order].tolist(), len(matching))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", fold(text))
