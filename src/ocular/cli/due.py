"""ocular due: what clients buy regularly and are due to buy again."""

from __future__ import annotations

from pathlib import Path

import click

from ocular.cli.present import Row, format_option, render

N_PRODUCTS = 10  # by default
NOT_IN_TABLES = {"product_interval", "usual_quantity", "usual_price"}


@click.command(short_help="List what clients are due to buy again.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Client; repeatable.  [default: all clients]")
@click.option(
    "-n",
    "count",
    default=N_PRODUCTS,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Products per client.",
)
@click.option("--as-of", metavar="DATE", help="Day to ask for: 2024-01-31.  [default: that of the newest purchase]")
@format_option("table", "json", "csv")
def due(model: Path, clients: tuple[str, ...], count: int, as_of: str | None, form: str) -> None:
    """
    List the products of the model folder MODEL that a client buys regularly and has not bought for about one interval.

    \b
    ocular due model --client "Acme Ltd"
    ocular due model --client "Acme Ltd" --as-of 2024-01-31 --format json
    ocular due model --format csv > due.csv

    \b
    interval          median number of days from one purchase of the client to the next
    days_since        days since the last purchase
    overdue           days since it was due; negative where it will be due soon
    n_purchases       purchases of the client, on different days
    n_clients         clients that buy the product regularly
    product_interval  median interval of these clients
    usual_quantity    median of the client's own orders
    usual_price       median of what the client paid for a unit

    What was bought most often comes first. The purchases need dates: ocular fit --time COL.
    """
    import polars as pl

    from ocular.advisor import Advisor

    advisor = Advisor.load(model)
    frames = [advisor.due(client, count, as_of).to_frame() for client in clients]
    table = pl.concat(map(pl.DataFrame, frames)) if clients else pl.DataFrame(advisor.due_all(count, as_of))
    rows: list[Row] = table.with_columns(pl.col("last_purchase").cast(pl.String)).to_dicts()
    if form == "table":
        rows = [{name: value for name, value in row.items() if name not in NOT_IN_TABLES} for row in rows]
    click.echo(render(rows, form))
