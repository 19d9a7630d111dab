"""Pages from templates; every value is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from importlib.resources import files
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ocular.due import in_days
from ocular.explain.price import money
from ocular.feedback import REASONS
from ocular.version import __version__
from ocular.web import charts, static_files

_pages = Environment(
    loader=FileSystemLoader(str(files("ocular.web") / "templates")), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, auto_reload=False,
)  # fmt: skip


def percent(share: float | None) -> str:
    """
    Return a share as text.

    >>> percent(0.654), percent(0.0004), percent(None)
    ('65%', '<0.1%', '–')
    """
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"


def percents(shares: Iterable[float]) -> list[str]:
    """
    Return the shares of a column as text, with a decimal where two would look the same without.

    >>> percents([0.101, 0.104, 0.2]), percents([0.1, 0.2])
    (['10.1%', '10.4%', '20.0%'], ['10%', '20%'])
    """
    shares = list(shares)
    plain = [percent(share) for share in shares]
    if len({*plain}) == len({*shares}):
        return plain
    return [text if share < 0.1 else f"{100 * share:.1f}%" for share, text in zip(shares, plain, strict=True)]


def written_day(text: str) -> str:
    """
    Return a day of a record the way all pages write it; a text that is no day stays.

    >>> written_day("2024-07-01"), written_day("2024-Q3")
    ('1 Jul 2024', '2024-Q3')
    """
    try:
        return date.fromisoformat(text).strftime("%-d %b %Y")
    except ValueError:
        return text


def local_address(address: str) -> str:
    """
    Return where to go after the sign-in: never to another site.

    >>> local_address("/calls"), local_address("//example.com"), local_address("https://example.com")
    ('/calls', '/', '/')
    """
    is_local = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local else "/"


def sentence(line: str) -> str:
    """
    Return the line of an error as a sentence.

    >>> sentence("expected 2 cells, got 3"), sentence("Nothing found. Try again.")
    ('Expected 2 cells, got 3.', 'Nothing found. Try again.')
    """
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", "!", "?", "…")) else ".")


_pages.filters["percent"] = percent
_pages.filters["sentence"] = sentence
_pages.filters["written_day"] = written_day
_pages.filters["percents"] = percents
_pages.filters["money"] = lambda amount, currency="": "–" if amount is None else money(amount, currency)
_pages.filters["whole_money"] = lambda amount, currency="": money(round(amount), currency).removesuffix(".00")
_pages.filters["days"] = in_days
_pages.globals |= {"version": __version__, "chart": charts, "static": static_files.address, "reasons": REASONS}


def render(
    request: Request,
    name: str,
    values: dict[str, Any],
    *,
    status_code: int = 200,
    headers: dict[str, str] | None = None,
) -> HTMLResponse:
    """Return the page of a template."""
    defaults = {
        "visitor": None,
        "path": request.url.path,
        "currency": "",
        "sso": request.app.state.services.settings.sso,
    }
    return HTMLResponse(_pages.get_template(name).render(defaults | values), status_code, headers)
