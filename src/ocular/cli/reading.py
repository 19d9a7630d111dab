"""The options that say where purchases are and what their columns mean, for every command that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions

COLUMNS = (
    click.argument("source", nargs=-1, required=True),
    click.option("--client", required=True, metavar="COL", help="Column with the client."),
    click.option("--product", required=True, metavar="COL", help="Column with the product."),
    click.option("--price", metavar="COL", help="Column with the price of one unit."),
    click.option("--currency", default="", metavar="SIGN", help='What to write before prices, such as "£".'),
    click.option("--quantity", metavar="COL", help="Column with the quantity; rows of zero or less are returns."),
    click.option("--keep-returned", is_flag=True, help="Count what was bought and fully returned as purchases."),
    click.option("--time", "time_column", metavar="COL", help="Column with the date of the purchase."),
    click.option("--value", metavar="COL", help="Column with ratings, together with --min-value."),
    click.option("--min-value", type=float, help="Least rating that counts as a purchase."),
    click.option(
        "--client-attribute", multiple=True, metavar="COL", help="Column to keep for each client; repeatable."
    ),
    click.option(
        "--product-attribute", multiple=True, metavar="COL", help="Column to keep for each product; repeatable."
    ),
    click.option("--client-name", metavar="COL", help="Column with the name to show for a client."),
    click.option("--product-name", metavar="COL", help="Column with the name to show for a product."),
    click.option(
        "--query", metavar="SQL", help="Query to run, where SOURCE is a database: sqlite:///…, postgresql://…, .duckdb."
    ),
    click.option("--encoding", metavar="NAME", help="Encoding of text files, such as cp1252.  [default: detected]"),
    click.option("--decimal", default=".", show_default=True, metavar="SIGN", help="Decimal point, or comma."),
    click.option("--thousands", metavar="SIGN", help="Sign between thousands, as in 1.234,56."),
    click.option("--date-format", metavar="FORMAT", help="How dates are written: %d.%m.%Y for 31.01.2024."),
    click.option("--drop-missing", is_flag=True, help="Leave out rows without a client or product."),
)


def interactions_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE, one or more of them, and the options of its columns."""
    for add in reversed(COLUMNS):
        command = add(command)
    return command


def spark_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--spark", metavar="MASTER", help="Run on Spark: local[2], spark://host:7077, yarn or k8s://…")(
        command
    )


@contextmanager
def spark_session(master: str) -> Iterator[Any]:
    """Return a session that ends with the command."""
    from ocular.spark import connect

    spark = connect(master)
    try:
        yield spark
    finally:
        spark.stop()


def column_choices(options: dict[str, Any]) -> dict[str, Any]:
    """Return the columns and formats that `interactions_options` name, as `read` and Spark take them."""
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
        "client_name": options["client_name"],
        "product_name": options["product_name"],
        "keep_returned": options["keep_returned"],
        "decimal": options["decimal"],
        "thousands": options["thousands"],
        "date_format": options["date_format"],
    }


def read_interactions(sources: str | Sequence[str], options: dict[str, Any]) -> Interactions:
    """Read what the options of `interactions_options` ask for."""
    from ocular.data.readers import read

    places = [sources] if isinstance(sources, str) else list(sources)
    return read(places, query=options["query"], encoding=options["encoding"], **column_choices(options))


def read_refusals(place: str, options: dict[str, Any]) -> Interactions | list[tuple[str, str]]:
    """
    Read pairs that are known not to fit.

    They stand in columns named as those of the purchases or client and product, in the application's export of
    feedback, or in its database.
    """
    from ocular.data.feedback_refusals import is_database, is_feedback, read_feedback_refusals
    from ocular.data.readers import read
    from ocular.errors import DataError, UnknownNameError

    if is_database(place) or is_feedback(place):
        pairs = read_feedback_refusals(place)
        click.echo(f"{len(pairs):,} refusals in the feedback", err=True)
        return pairs
    columns = {"client": options["client"], "product": options["product"]}
    settings = {"encoding": options["encoding"], "drop_missing": options["drop_missing"]}
    try:
        try:
            return read(place, **columns, **settings)
        except UnknownNameError as error:
            try:
                return read(place, client="client", product="product", **settings)
            except UnknownNameError:
                raise error from None
    except DataError as error:
        raise DataError("refusals: ", *error.args) from None


def spark_place(sources: Sequence[str], options: dict[str, Any]) -> str | None:
    """Return the one place that the executors read themselves: Parquet, here or at an address; None for all else."""
    if len(sources) != 1 or options["query"] is not None:
        return None
    from ocular.data.files import is_model

    place, parquet = sources[0], (".parquet", ".pq")
    if is_model(Path(place)):
        return None  # its tables are Parquet, but not of purchases: the local read refuses it
    if Path(place).is_dir():
        return place if any(file.suffix in parquet for file in Path(place).rglob("*")) else None
    return place if place.endswith(parquet) or "://" in place else None


def numbers(text: str, kind: Callable[[str], Any], expected: str) -> list[Any]:
    """Return the values of a list such as 10,20,50."""
    from ocular.errors import ConfigError

    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"expected {expected}, got {text!r}") from None
