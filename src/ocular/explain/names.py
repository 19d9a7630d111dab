"""Names of clients and products as they stand in a sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

MAX_EXAMPLES = 3  # names in a sentence
RIGHT_TO_LEFT = {"R", "AL"}
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # marks, not letters

Write = Callable[[str], str]  # escapes a name for the format it goes into


def client_name(label: Any) -> str:
    """Return the name, or "Client 6" where clients have numbers."""
    return _name(label, "Client")


def product_name(label: Any) -> str:
    """Return the name, or "Item 4" where products have numbers."""
    return _name(label, "Item")


def join_names(labels: Sequence[Any], noun: str, write: Write = str, total: int | None = None) -> str:
    """
    Return the first few names and how many more there are, of `total` or all that are given; numbers as ranges.

    >>> join_names(["bolt", "nut", "saw", "oar", "rope"], "Item")
    'bolt, nut, saw and 2 more'
    >>> join_names([3, 1, 2], "Item"), join_names(["007", "12", "5", "31"], "Client")
    ('Items 1-3', 'Clients 007, 12, 5 and 1 more')
    """
    total = len(labels) if total is None else total
    more = [f"{total - MAX_EXAMPLES:,} more"] if total > MAX_EXAMPLES else []
    shown = [one_line(str(label)) for label in labels[:MAX_EXAMPLES]]
    if not all(name.isdecimal() for name in shown):
        return joined([*(write(_name(label, noun)) for label in labels[:MAX_EXAMPLES]), *more])
    whole = total == len(labels) and all(isinstance(label, int) for label in labels)
    ranges = _ranges(labels) if whole else []
    numbers = ranges if 0 < len(ranges) <= MAX_EXAMPLES else [*shown, *more]
    return f"{noun}{'s' if total > 1 else ''} {joined(numbers)}"


def one_line(text: str) -> str:
    """Return the text without line breaks, control characters and marks of direction, which would break a table."""
    if text.isprintable():  # as nearly all are: only spaces are left to put right
        return " ".join(text.split())
    visible = (c for c in text if unicodedata.bidirectional(c) not in DIRECTIONS)
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in visible).split())


def isolated(text: str) -> str:
    """Return a right-to-left name between marks that set it apart, so that the sentence around it keeps its order."""
    if not text.isascii() and any(unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in text):
        return f"\u2068{text}\u2069"
    return text


def quoted(text: str) -> str:
    """
    Return a name in quotation marks where a comma in it would read as the end of the name.

    >>> quoted("LANTERN, RED"), quoted("LANTERN")
    ('“LANTERN, RED”', 'LANTERN')
    """
    return f"“{text}”" if "," in text else text


def shortened(text: str, max_length: int) -> str:
    """Return the text, cut to a length and with an ellipsis where it is longer."""
    return text if len(text) <= max_length else text[: max_length - 1].rstrip() + "…"


def percent(share: float) -> str:
    """
    Return a share as people say it, with a digit below one per cent.

    >>> percent(0.5), percent(0.004), percent(0.0)
    ('50%', '0.4%', '0%')
    """
    return f"{100 * share:.1g}%" if 0.0001 <= share < 0.0095 else f"{share:.0%}"


def _name(label: Any, noun: str) -> str:
    text = one_line(str(label))
    return f"{noun} {text}" if text.isdecimal() else text or "(no name)"


def _ranges(numbers: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def joined(parts: Sequence[str]) -> str:
    """
    Return parts as a list in a sentence.

    >>> joined(["bolt", "nut", "saw"])
    'bolt, nut and saw'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
