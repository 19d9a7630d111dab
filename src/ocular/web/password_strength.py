"""Which passwords are too easy to guess: common ones, keyboard rows, repetitions, a person's own names."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

from zxcvbn import zxcvbn

from ocular.errors import ConfigError

MIN_SCORE = 3  # of 0 to 4: more than a hundred million guesses
MAX_JUDGED = 72  # characters that are looked at: the time grows with the square of their number
OWN_WORDS = ("ocular", "recommender", "sales")  # those of the application
TOO_EASY = "This password is too easy to guess; use three or four unrelated words, and no names"
_turn = threading.Lock()  # the library holds the words of the person in one place for all threads


def check_strength(password: str, context: Iterable[str] = ()) -> None:
    """Raise unless a password is hard to guess, also for those who know the names in `context`."""
    words = _words(context)
    known = "|".join(map(re.escape, sorted((word for word in words if len(word) > 2), key=len, reverse=True)))
    unknown = re.sub(known, "", password.casefold())  # what a guesser who knows the names does not know
    with _turn:
        score = min(_score(password, words), _score(unknown, words))
    if score < MIN_SCORE:
        raise ConfigError(TOO_EASY)


def _score(password: str, words: list[str]) -> int:
    return int(zxcvbn(password[:MAX_JUDGED], user_inputs=words, max_length=MAX_JUDGED)["score"]) if password else 0


def _words(context: Iterable[str]) -> list[str]:
    """
    Return names as a guesser would try them: each of their words, and all of them together.

    >>> _words(["maria@acme.com", "north"])[-5:]
    ['acme', 'com', 'maria', 'mariaacmecom', 'north']
    """
    words = set[str]()
    for name in context:
        parts = re.findall(r"[^\W_]+", name.casefold())
        words.update([*parts, "".join(parts)] if parts else [])
    return [*OWN_WORDS, *sorted(words)]
