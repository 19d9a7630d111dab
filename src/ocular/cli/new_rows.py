"""--new and --new-product of ocular recommend: a client or a product that the model has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.present import Row, render

if TYPE_CHECKING:
    from ocular.advisor import Advisor

OPTIONS = {
    "new": ("--new", "Recommend products to a client who is not in the model: see --has and --attribute."),
    "new_product": ("--new-product", "List the clients to offer a product that is not in the model."),
}
LISTS = {
    "has": ("--has", "PRODUCT", "With --new: what the client has; repeatable, or several with commas."),
    "buyers": ("--buyer", "CLIENT", "With --new-product: one of its first buyers; repeatable."),
    "attributes": ("--attribute", "NAME=VALUE", "With --new or --new-product: an attribute; repeatable."),
}


def new_row_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --new, --new-product, --has, --buyer and --attribute."""
    for name, (flag, metavar, text) in reversed(LISTS.items()):
        command = click.option(flag, name, multiple=True, metavar=metavar, help=text)(command)
    for name, (flag, text) in reversed(OPTIONS.items()):
        command = click.option(flag, name, is_flag=True, help=text)(command)
    return command


def check_new(new: bool, new_product: bool, has: tuple[str, ...], buyers: tuple[str, ...], given: Any) -> None:
    """Refuse options that do not go together."""
    from ocular.errors import ConfigError

    if has and not new:
        raise ConfigError("expected --new together with --has, got --has alone; add --new")
    if buyers and not new_product:
        raise ConfigError("expected --new-product together with --buyer, got --buyer alone; add --new-product")
    if given and not (new or new_product):
        raise ConfigError("expected --new or --new-product together with --attribute, got neither; add one of them")
    if new and not (has or given):
        raise ConfigError("expected --has PRODUCT or --attribute NAME=VALUE together with --new, got neither")
    if new_product and not (buyers or given):
        raise ConfigError("expected --attribute NAME=VALUE or --buyer CLIENT together with --new-product, got neither")


def parse_attributes(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the values of each attribute, from texts of the form NAME=VALUE."""
    from ocular.errors import ConfigError

    attributes: dict[str, list[str]] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (sign and name.strip() and value.strip()):
            raise ConfigError(f"expected --attribute NAME=VALUE, such as industry=Airline, got {text!r}")
        attributes.setdefault(name.strip(), []).append(value.strip())
    return attributes


def parse_products(texts: tuple[str, ...], advisor: Advisor) -> list[str]:
    """Return the names of products; a text with commas that is no name itself is several."""
    known = advisor.model.interactions_.item_rows
    return [name for text in texts for name in ([text] if text in known else map(str.strip, text.split(",")))]


def present_new(found: Any, form: str, explain: bool, show_clients: bool) -> str:
    """Return the recommendations of which one side is new, as a table, JSON or CSV."""
    rows: list[Row] = found.rows()
    for row in rows:
        row |= {"confidence": round(row["confidence"], 6), "chance": round(row["chance"], 4)}
        if row["value"] is not None:
            row["value"] = round(row["value"], 2)
    texts = [each.text(show_clients=show_clients) for each in found] if explain else []
    if form != "table":
        rows = [row | {"reason": text} for row, text in zip(rows, texts, strict=True)] if explain else rows
        return render(rows, form)
    hidden = {name for name in ("typical_price", "typical_quantity", "value") if all(row[name] is None for row in rows)}
    short = [{name: value for name, value in row.items() if name not in hidden | {"reason"}} for row in rows]
    alike = f"Most alike by attributes: {'; '.join(found.similar)}" if found.similar and show_clients else ""
    return "\n\n".join(part for part in (render(short, "table"), alike, *texts) if part)
