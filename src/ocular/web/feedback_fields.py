"""The date and the amount of feedback as people type them into a form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from ocular.web.errors import InputError

MAX_AMOUNT = 1e12
_AMOUNT = re.compile(r"(\d{1,3}(,\d{3})+|\d{1,13})(\.\d{1,6})?", re.ASCII)


def first_filled(texts: Iterable[str]) -> str:
    """Return the first text that is not blank: of a pressed button, which stands before a field of the same name."""
    return next((text for text in texts if text.strip()), "")


def read_date(text: str) -> date | None:
    """Return the day that was typed or chosen; None for nothing."""
    try:
        return date.fromisoformat(text.strip()) if text.strip() else None
    except ValueError:
        raise InputError(f"Use a date such as 2025-03-31, not {text[:40]!r}") from None


def read_amount(text: str, currency: str = "") -> float | None:
    """
    Return an amount with or without separators of thousands; None for nothing.

    >>> read_amount("4,708"), read_amount("4708.50"), read_amount("€ 12", "€"), read_amount(" ")
    (4708.0, 4708.5, 12.0, None)
    """
    plain = text.strip().removeprefix(currency).strip()
    if not plain:
        return None
    if not _AMOUNT.fullmatch(plain) or (amount := float(plain.replace(",", ""))) > MAX_AMOUNT:
        raise InputError(f"Use an amount such as 4,708 or 4708.50, not {text[:40]!r}")
    return amount
