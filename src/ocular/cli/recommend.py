"""ocular recommend: the products to offer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocular.cli.present import Row, format_option, render

if TYPE_CHECKING:
    from ocular.model import OCuLaR

CLIENTS_AT_ONCE = 10_000


@click.command(short_help="Recommend products to one client or to all.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Whom to recommend to; repeatable.")
@click.option("--all", "everybody", is_flag=True, help="All clients; needs --output.")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(min=1), help="Products for each client.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="With --all: the CSV or Parquet file to write.")
@click.option("--explain", is_flag=True, help="Say why: a reason with each product.")
@format_option
def recommend(
    model: Path, clients: tuple[str, ...], everybody: bool, count: int, output: Path | None, explain: bool, form: str
) -> None:
    """
    Recommend products from the model folder MODEL, most probable first.

    \b
    ocular recommend model --client "Acme Ltd" -n 5 --explain
    ocular recommend model --client "Acme Ltd" --format json
    ocular recommend model --all -n 10 -o recommendations.parquet
    """
    from ocular.errors import ConfigError
    from ocular.model import load

    if everybody == bool(clients) or everybody != (output is not None):
        raise ConfigError("expected --client NAME, or --all together with --output FILE; see ocular recommend --help")
    fitted = load(model)
    if output is not None:
        written = _write_all(fitted, count, output)
        click.echo(f"wrote {written:,} recommendations to {output}")
        return
    users = [fitted.interactions_.user_index(name) for name in clients]
    rows = recommendation_rows(fitted, users, count)
    reasons = [_reason(fitted, row) for row in rows] if explain else []
    if form != "table":
        rows = [row | {"reason": reason} for row, reason in zip(rows, reasons, strict=True)] if explain else rows
        reasons = []
    click.echo("\n\n".join([render(rows, form), *reasons]))


def recommendation_rows(model: OCuLaR, users: list[int], count: int) -> list[Row]:
    """One row a recommendation: client, rank, product, confidence."""
    from ocular.data.interactions import plain

    history = model.interactions_
    ids, probabilities = model.recommend(users, N=min(count, history.n_items))
    return [
        {
            "client": plain(history.user_labels[user]),
            "rank": rank + 1,
            "product": plain(history.item_labels[item]),
            "confidence": round(float(probability), 6),
        }
        for user, found, scores in zip(users, ids, probabilities, strict=True)
        for rank, (item, probability) in enumerate(zip(found, scores, strict=True))
        if item >= 0
    ]


def _reason(model: OCuLaR, row: Row) -> str:
    history = model.interactions_
    return model.explain(history.user_index(row["client"]), history.item_index(row["product"])).text()


def _write_all(model: OCuLaR, count: int, output: Path) -> int:
    """In blocks of clients, so that memory goes with what is written, not with clients × products."""
    import numpy as np
    import polars as pl
    from tqdm.auto import tqdm

    from ocular.errors import ConfigError
    from ocular.storage import write_table

    if output.suffix not in {".csv", ".parquet"}:
        raise ConfigError(f"expected an output file .csv or .parquet, got {output.name!r}")
    history = model.interactions_
    count = min(count, history.n_items)
    clients, products = pl.Series(history.user_labels.tolist()), pl.Series(history.item_labels.tolist())
    blocks = []
    for first in tqdm(range(0, history.n_users, CLIENTS_AT_ONCE), unit="block", disable=None):
        users = np.arange(first, min(first + CLIENTS_AT_ONCE, history.n_users))
        ids, probabilities = model.recommend(users, N=count)
        found = ids.ravel() >= 0
        blocks.append(
            pl.DataFrame(
                {
                    "client": clients.gather(np.repeat(users, count)[found]),
                    "rank": np.tile(np.arange(1, count + 1), len(users))[found],
                    "product": products.gather(ids.ravel()[found]),
                    "confidence": probabilities.ravel()[found],
                }
            )
        )
    table = pl.concat(blocks)
    write_table(output, table)
    return len(table)
