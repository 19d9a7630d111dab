"""The options that say where a purchase history is and what its columns mean, for every command that reads one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions

COLUMNS = (
    click.argument("source"),
    click.option("--client", required=True, metavar="COL", help="Column with the client."),
    click.option("--product", required=True, metavar="COL", help="Column with the product."),
    click.option("--price", metavar="COL", help="Column with what was paid."),
    click.option("--currency", default="", metavar="SIGN", help='What to write before prices, such as "£".'),
    click.option("--quantity", metavar="COL", help="Column with the quantity; rows of zero or less are returns."),
    click.option("--time", "time_column", metavar="COL", help="Column with the date of the purchase."),
    click.option("--value", metavar="COL", help="Column with ratings, together with --min-value."),
    click.option("--min-value", type=float, help="Least rating that counts as a purchase."),
    click.option(
        "--client-attribute", multiple=True, metavar="COL", help="Column to keep for each client; repeatable."
    ),
    click.option(
        "--product-attribute", multiple=True, metavar="COL", help="Column to keep for each product; repeatable."
    ),
    click.option("--query", metavar="SQL", help="Query to run, where SOURCE is a sqlite:/// or postgresql:// address."),
    click.option("--drop-missing", is_flag=True, help="Leave out rows without a client or product."),
)


def history_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """SOURCE and its columns."""
    for add in reversed(COLUMNS):
        command = add(command)
    return command


def spark_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--spark", metavar="MASTER", help="Run on Spark: local[2], spark://host:7077, yarn or k8s://…")(
        command
    )


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    """A session that ends with the command."""
    from ocular.spark import connect

    spark = connect(master)
    try:
        yield spark
    finally:
        spark.stop()


def column_choices(options: dict[str, Any]) -> dict[str, Any]:
    """The columns that the options of `history_options` name, as `read` takes them."""
    return {
        "client": options["client"],
        "product": options["product"],
        "price": options["price"],
        "currency": options["currency"],
        "quantity": options["quantity"],
        "time": options["time_column"],
        "value": options["value"],
        "min_value": options["min_value"],
        "client_attributes": options["client_attribute"],
        "product_attributes": options["product_attribute"],
        "drop_missing": options["drop_missing"],
    }


def read_history(source: str, options: dict[str, Any]) -> Interactions:
    """What the options of `history_options` ask for."""
    from ocular.data.readers import read, read_sql
    from ocular.errors import ConfigError

    columns = column_choices(options)
    if options["query"] is not None:
        return read_sql(options["query"], source, **columns)
    if "://" in source:
        raise ConfigError(f"expected --query with the database address {source.partition('://')[0]}://…, got none")
    return read(source, **columns)


def numbers(text: str, kind: Callable[[str], Any], expected: str) -> list[Any]:
    """The values of a list such as 10,20,50."""
    from ocular.errors import ConfigError

    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"expected {expected}, got {text!r}") from None
