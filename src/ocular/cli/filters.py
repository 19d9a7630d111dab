"""--only and --without: which products may be recommended, by name or by attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --only and --without."""
    for name, text in (("--without", "Never recommend"), ("--only", "Recommend only")):
        command = click.option(
            name,
            multiple=True,
            metavar="PRODUCT",
            help=f'{text} this product, or all with an attribute such as "family=Printing"; repeatable.',
        )(command)
    return command


def product_filters(interactions: Interactions, only: tuple[str, ...], without: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments `only` and `without` of the library, those that were given."""
    filters = {"only": _parse(only, interactions), "without": _parse(without, interactions)}
    return {name: value for name, value in filters.items() if value}


def _parse(values: tuple[str, ...], interactions: Interactions) -> list[str] | dict[str, list[str]]:
    """Return names, or a mapping of attribute to values where every value is of the form attribute=value."""
    from ocular.errors import ConfigError

    attributes: dict[str, list[str]] = {}
    names = []
    for value in values:
        attribute, sign, wanted = value.partition("=")
        if sign and attribute in interactions.item_attributes and value not in interactions.item_rows:
            attributes.setdefault(attribute, []).append(wanted)
        else:
            names.append(value)
    if names and attributes:
        raise ConfigError(f"expected either product names or attribute=value, got both: {', '.join(values)}")
    return names or attributes
