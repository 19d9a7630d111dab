"""ocular recommend: the products to offer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.present import Row, format_option, render

if TYPE_CHECKING:
    from ocular.advisor import Recommendation
    from ocular.model import OCuLaR

CLIENTS_AT_ONCE = 10_000


@click.command(short_help="Recommend products to one client or to all.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Whom to recommend to; repeatable.")
@click.option("--all", "everybody", is_flag=True, help="All clients; needs --output.")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(min=1), help="Products for each client.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="With --all: the CSV or Parquet file to write.")
@click.option("--explain", is_flag=True, help="Say why: a reason with each product.")
@click.option("--hide-clients", is_flag=True, help="With --explain: name no other client.")
@format_option("table", "json", "csv")
def recommend(
    model: Path,
    clients: tuple[str, ...],
    everybody: bool,
    count: int,
    output: Path | None,
    explain: bool,
    hide_clients: bool,
    form: str,
) -> None:
    """
    Recommend products from the model folder MODEL, most probable first.

    \b
    ocular recommend model --client "Acme Ltd" -n 5 --explain
    ocular recommend model --client "Acme Ltd" --format json
    ocular recommend model --all -n 10 -o recommendations.parquet

    The hit rate says how often recommendations with such a confidence came true on held-out purchases, the price is
    what similar clients paid, the value is price times hit rate.
    """
    from ocular.advisor import Advisor
    from ocular.errors import ConfigError

    if everybody == bool(clients) or everybody != (output is not None):
        raise ConfigError("expected --client NAME, or --all together with --output FILE; see ocular recommend --help")
    if output is not None and (output.suffix not in {".csv", ".parquet"} or explain):
        what = "no --explain with --all" if explain else f"an output file .csv or .parquet, got {output.name!r}"
        raise ConfigError(f"expected {what}")
    advisor = Advisor.load(model)
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
    import numpy as np
    import polars as pl
    from tqdm.auto import tqdm

    from ocular.storage import write_table

    history = model.interactions_
    count = min(count, history.n_items)
    clients, products = pl.Series(history.user_labels.tolist()), pl.Series(history.item_labels.tolist())
    blocks = []
    for first in tqdm(range(0, history.n_users, CLIENTS_AT_ONCE), unit="block", disable=None):
        users = np.arange(first, min(first + CLIENTS_AT_ONCE, history.n_users))
        ids, probabilities = model.recommend(users, N=count)
        found = ids.ravel() >= 0
        columns: dict[str, Any] = {
            "client": clients.gather(np.repeat(users, count)[found]),
            "rank": np.tile(np.arange(1, count + 1), len(users))[found],
            "product": products.gather(ids.ravel()[found]),
            "confidence": probabilities.ravel()[found],
        }
        if model.calibration_ is not None:
            columns["hit_rate"] = pl.Series(model.calibration_.known(columns["confidence"]), nan_to_null=True).round(4)
        blocks.append(pl.DataFrame(columns))
    table = pl.concat(blocks)
    if output.suffix == ".csv":  # for a spreadsheet: a name that looks like a formula is marked as text
        text = pl.selectors.string()
        table = table.with_columns(text.str.replace(r"^([=+\-@\t\r])", "'${1}"))
    write_table(output, table)
    return len(table)
