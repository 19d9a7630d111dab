"""ocular recommend: products for clients, or clients for a product."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.filters import filter_options, product_filters
from ocular.cli.new_rows import check_new, new_row_options, parse_attributes, parse_products, present_new
from ocular.cli.present import Row, format_option, render
from ocular.cli.reading import spark_option, spark_session

if TYPE_CHECKING:
    from ocular.advisor import Advisor, Recommendation
    from ocular.model import OCuLaR

N_PRODUCTS, N_CLIENTS = 5, 50  # by default
STDOUT = Path("-")
SUFFIXES = (".csv", ".parquet", ".jsonl")


@click.command(short_help="Recommend products to clients, or find clients for a product.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--client", "clients", multiple=True, metavar="NAME", help="Recommend products to this client; repeatable."
)
@click.option("--product", metavar="NAME", help="List the clients to offer this product to.")
@click.option("--all", "everybody", is_flag=True, help="Recommend products to all clients; needs --output.")
@new_row_options
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Products per client, or clients for the product.  [default: {N_PRODUCTS}, or {N_CLIENTS} with --product]",
)
@filter_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, allow_dash=True),
    help="With --all: a .csv, .parquet or .jsonl file to write, or - for standard output; with --spark a folder.",
)
@click.option("--explain", is_flag=True, help="Print the reason for each recommendation.")
@click.option("--hide-clients", is_flag=True, help="With --explain: name no other client.")
@spark_option
@format_option("table", "json", "csv")
def recommend(
    model: Path,
    clients: tuple[str, ...],
    product: str | None,
    everybody: bool,
    new: bool,
    new_product: bool,
    has: tuple[str, ...],
    buyers: tuple[str, ...],
    attributes: tuple[str, ...],
    count: int | None,
    output: Path | None,
    explain: bool,
    hide_clients: bool,
    spark: str | None,
    form: str,
    **filters: tuple[str, ...],
) -> None:
    """
    Recommend products from the model folder MODEL, most probable first; or list the clients for a product.

    \b
    ocular recommend model --client "Acme Ltd" -n 5 --explain
    ocular recommend model --client "Acme Ltd" --only family=Printing --format json
    ocular recommend model --product "Router 200" -n 20
    ocular recommend model --new --has "Router 200" --attribute industry=Airline --attribute size=Large
    ocular recommend model --new-product --attribute family=Printing --buyer "Acme Ltd" -n 20 --explain
    ocular recommend model --all -n 10 -o recommendations.parquet
    ocular recommend model --all -n 10 -o - --format json | head
    ocular recommend model --all -n 10 -o recommendations --spark spark://host:7077

    \b
    confidence        the model's probability
    chance            how often such recommendations were bought in the back-test; the confidence without one
    typical_price     median of what all buyers paid for a unit
    typical_quantity  median of an order
    value             chance × typical_price × typical_quantity

    JSON and CSV also have hit_rate, and what similar clients paid for a unit (price; price_low to price_high: 80% of
    them). Where the model has names beside the keys, client_name and product_name show them.

    With --all every recommendation has its typical price, quantity and value, and its strongest reason: the kind
    (pattern, links between products, or peers: similar clients), its share of the score, the client's purchases behind
    it or how many similar clients bought the product, and a line in words. Standard output is CSV, or JSON lines with
    --format json.

    A client or a product that the model has not seen is known by attributes that the others were fitted with, by a few
    purchases, or both; nothing is refitted.
    """
    from ocular.advisor import Advisor

    flags = {
        "--client": bool(clients), "--product": product is not None, "--all": everybody, "--new": new,
        "--new-product": new_product,
    }  # fmt: skip
    _check(flags, output, explain, spark, filters)
    check_new(new, new_product, has, buyers, attributes)
    given = parse_attributes(attributes)
    advisor = Advisor.load(model)
    choice = product_filters(advisor.model.interactions_, filters["only"], filters["without"])
    if new_product:
        clients_found = advisor.clients_for_new(given, buyers, count or N_CLIENTS)
        click.echo(present_new(clients_found, form, explain, show_clients=not hide_clients))
        return
    if new and given:
        owned = parse_products(has, advisor)
        products_found = advisor.recommend_new(owned, count or N_PRODUCTS, attributes=given, **choice)
        click.echo(present_new(products_found, form, explain, show_clients=not hide_clients))
        return
    if output is not None:
        _recommend_all(advisor, choice, count or N_PRODUCTS, output, spark, form)
        return
    if product is not None:
        found = list(enumerate(advisor.clients_for(product, count or N_CLIENTS), 1))
    elif new:
        basket = parse_products(has, advisor)
        found = list(enumerate(advisor.recommend_new(basket, count or N_PRODUCTS, **choice), 1))
    else:
        found = [
            (rank, recommendation)
            for client in clients
            for rank, recommendation in enumerate(advisor.recommend(client, count or N_PRODUCTS, **choice), 1)
        ]
    rows = [recommendation_row(rank, recommendation) for rank, recommendation in found]
    reasons = [each.text(show_clients=not hide_clients) for _, each in found] if explain else []
    if form == "table":
        click.echo("\n\n".join([render([short_row(row) for row in rows], "table"), *reasons]))
        return
    if explain:
        rows = [row | {"reason": reason} for row, reason in zip(rows, reasons, strict=True)]
    click.echo(render(rows, form))


def _check(
    flags: dict[str, bool],
    output: Path | None,
    explain: bool,
    spark: str | None,
    filters: dict[str, tuple[str, ...]],
) -> None:
    """Refuse options that do not go together."""
    from ocular.errors import ConfigError

    given, everybody = [option for option, is_given in flags.items() if is_given], flags["--all"]
    if len(given) > 1:
        *others, last = flags
        one_of = f"{', '.join(others)} and {last}"
        raise ConfigError(f"expected one of {one_of}, got {' and '.join(given)}; leave one out")
    if not given or (everybody and output is None):
        raise ConfigError(
            "expected --client NAME, --product NAME, --new, --new-product, or --all together with --output; "
            "see ocular recommend --help"
        )
    if output is not None and not everybody:
        raise ConfigError(f"expected --output only with --all, got it with {given[0]}; write to a file with >")
    single = next((flag for flag in ("--product", "--new-product") if flags[flag]), None)
    if single and any(filters.values()):
        raise ConfigError(f"expected no --only or --without with {single}, which is a single product")
    if spark is not None and not everybody:
        raise ConfigError("expected --all together with --spark, got single clients; leave --spark out")
    if everybody and explain:
        raise ConfigError("expected no --explain with --all, which has the strongest reason of each recommendation")
    if output is not None and spark is None and output != STDOUT and output.suffix not in SUFFIXES:
        remedy = (
            f"; try {output.with_suffix('.jsonl').name}, a JSON object per line" if output.suffix == ".json" else ""
        )
        raise ConfigError(f"expected an output file .csv, .parquet or .jsonl, or -, got {output.name!r}{remedy}")


def recommendation_row(rank: int, recommendation: Recommendation) -> Row:
    """Return a recommendation as a row: keys, names where the model has them, None for what is not known."""
    from ocular.data.interactions import plain

    price, observed, explanation = recommendation.price, recommendation.observed, recommendation.explanation
    data, user, item = explanation.interactions, explanation.user, explanation.item
    return {
        "client": recommendation.client if user is None else plain(data.user_labels[user]),
        **({} if data.user_names is None else {"client_name": recommendation.client}),
        "rank": rank,
        "product": plain(data.item_labels[item]),
        **({} if data.item_names is None else {"product_name": recommendation.product}),
        "confidence": round(recommendation.confidence, 6),
        "chance": round(recommendation.chance, 4),
        "hit_rate": None if observed is None else round(observed.rate, 4),
        "price": None if price is None else price.median,
        "price_low": None if price is None else price.low,
        "price_high": None if price is None else price.high,
        "typical_price": recommendation.typical_price,
        "typical_quantity": recommendation.typical_quantity,
        "value": None if recommendation.value is None else round(recommendation.value, 2),
    }


def short_row(row: Row) -> Row:
    """Return a row as a table shows it: the chance, the price and the quantity whose product is the value."""
    return {name: value for name, value in row.items() if name not in {"hit_rate", "price", "price_low", "price_high"}}


def _recommend_all(
    advisor: Advisor, choice: dict[str, Any], count: int, output: Path, spark: str | None, form: str
) -> None:
    if spark is not None:
        written = _write_on_spark(advisor.model, choice, count, output, spark)
        click.echo(f"wrote {written:,} recommendations to the folder {output}")
        return
    import polars as pl

    table = pl.DataFrame(advisor.recommend_all(count, **choice))
    if output == STDOUT:
        sys.stdout.write(table.write_ndjson() if form == "json" else _without_formulas(table).write_csv())
    else:
        _write(table, output)
        click.echo(f"wrote {len(table):,} recommendations to {output}")


def _write_on_spark(model: OCuLaR, choice: dict[str, Any], count: int, output: Path, spark: str) -> int:
    from ocular.data.selection import allowed_items
    from ocular.spark import recommend as recommend_on_spark

    allowed = allowed_items(model.interactions_, choice.get("only"), choice.get("without"))
    if allowed is not None:
        model.excluded_items_ = model.excluded_items_ | ~allowed
    with spark_session(spark) as session:
        return recommend_on_spark(model, session, output, count)


def _write(table: Any, output: Path) -> None:
    from ocular.storage import write_file, write_table

    if output.suffix == ".jsonl":
        text = table.write_ndjson()
        write_file(output, lambda file: file.write(text.encode()))
    else:
        write_table(output, _without_formulas(table) if output.suffix == ".csv" else table)


def _without_formulas(table: Any) -> Any:
    """Mark names that a spreadsheet would take for a formula as text."""
    import polars as pl

    return table.with_columns(pl.selectors.string().str.replace(r"^([=+\-@\t\r])", "'${1}"))
