"""ocular recommend: the products to offer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocular.cli.present import Row, format_option, render
from ocular.cli.reading import spark_option, spark_session

if TYPE_CHECKING:
    from ocular.advisor import Recommendation
    from ocular.model import OCuLaR

CLIENTS_AT_ONCE = 10_000


@click.command(short_help="Recommend products to one client or to all.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Whom to recommend to; repeatable.")
@click.option("--all", "everybody", is_flag=True, help="All clients; needs --output.")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(min=1), help="Products for each client.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="With --all: the CSV or Parquet file to write, with --spark a folder.",
)
@click.option("--explain", is_flag=True, help="Say why: a reason with each product.")
@click.option("--hide-clients", is_flag=True, help="With --explain: name no other client.")
@spark_option
@format_option("table", "json", "csv")
def recommend(
    model: Path,
    clients: tuple[str, ...],
    everybody: bool,
    count: int,
    output: Path | None,
    explain: bool,
    hide_clients: bool,
    spark: str | None,
    form: str,
) -> None:
    """
    Recommend products from the model folder MODEL, most probable first.

    \b
    ocular recommend model --client "Acme Ltd" -n 5 --explain
    ocular recommend model --client "Acme Ltd" --format json
    ocular recommend model --all -n 10 -o recommendations.parquet
    ocular recommend model --all -n 10 -o recommendations --spark spark://host:7077

    The hit rate says how often recommendations with such a confidence came true on held-out purchases, the price is
    what similar clients paid, the value is price times hit rate. With --all every product comes with the co-cluster
    that speaks for it most and with what the client has of it; with --spark the output is a folder of Parquet files.
    """
    from ocular.advisor import Advisor
    from ocular.errors import ConfigError

    if everybody == bool(clients) or everybody != (output is not None):
        raise ConfigError("expected --client NAME, or --all together with --output FILE; see ocular recommend --help")
    if spark is not None and not everybody:
        raise ConfigError("expected --all together with --spark, got single clients; leave --spark out")
    if output is not None and ((output.suffix not in {".csv", ".parquet"} and spark is None) or explain):
        what = "no --explain with --all" if explain else f"an output file .csv or .parquet, got {output.name!r}"
        raise ConfigError(f"expected {what}")
    advisor = Advisor.load(model)
    if output is not None and spark is not None:
        with spark_session(spark) as session:
            from ocular.spark import recommend as recommend_on_spark

            written = recommend_on_spark(advisor.model, session, output, count)
        click.echo(f"wrote {written:,} recommendations to the folder {output}")
        return
    if output is not None:
        written = _write_all(advisor.model, count, output)
        click.echo(f"wrote {written:,} recommendations to {output}")
        return
    found = [
        (rank + 1, recommendation)
        for client in clients
        for rank, recommendation in enumerate(advisor.recommend(client, count))
    ]
    rows = [recommendation_row(rank, recommendation) for rank, recommendation in found]
    reasons = [each.text(show_clients=not hide_clients) for _, each in found] if explain else []
    if form != "table":
        rows = [row | {"reason": reason} for row, reason in zip(rows, reasons, strict=True)] if explain else rows
        reasons = []
    click.echo("\n\n".join([render(rows, form), *reasons]))


def recommendation_row(rank: int, recommendation: Recommendation) -> Row:
    """Client, rank, product, confidence, hit rate, price and value; None for what is not known."""
    price, observed = recommendation.price, recommendation.observed
    return {
        "client": recommendation.client,
        "rank": rank,
        "product": recommendation.product,
        "confidence": round(recommendation.confidence, 6),
        "hit_rate": None if observed is None else round(observed.rate, 4),
        "price": None if price is None else price.median,
        "price_low": None if price is None else price.low,
        "price_high": None if price is None else price.high,
        "value": None if recommendation.value is None else round(recommendation.value, 2),
    }


def _write_all(model: OCuLaR, count: int, output: Path) -> int:
    """In blocks of clients, so that memory goes with what is written, not with clients × products."""
    import polars as pl
    from tqdm.auto import tqdm

    from ocular.batch import Batch, Clients
    from ocular.storage import write_table

    batch, n_users = Batch(model), model.interactions_.n_users
    starts = tqdm(range(0, n_users, CLIENTS_AT_ONCE), unit="block", disable=None)
    table = pl.concat(
        batch.recommend(Clients.of(model, first, min(first + CLIENTS_AT_ONCE, n_users)), count) for first in starts
    )
    if output.suffix == ".csv":  # for a spreadsheet: a name that looks like a formula is marked as text
        text = pl.selectors.string()
        table = table.with_columns(text.str.replace(r"^([=+\-@\t\r])", "'${1}"))
    write_table(output, table)
    return len(table)
