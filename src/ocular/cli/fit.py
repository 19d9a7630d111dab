"""ocular fit: from a purchase history to a saved model."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.present import as_options

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions
    from ocular.model import OCuLaR


@click.command(short_help="Fit a model to a purchase history.")
@click.argument("source")
@click.option("--client", required=True, metavar="COL", help="Column with the client.")
@click.option("--product", required=True, metavar="COL", help="Column with the product.")
@click.option("--price", metavar="COL", help="Column with what was paid.")
@click.option("--quantity", metavar="COL", help="Column with the quantity.")
@click.option("--time", "time_column", metavar="COL", help="Column with the date of the purchase.")
@click.option("--value", metavar="COL", help="Column with ratings, together with --min-value.")
@click.option("--min-value", type=float, help="Least rating that counts as a purchase.")
@click.option("--client-attribute", multiple=True, metavar="COL", help="Column to keep for each client; repeatable.")
@click.option("--product-attribute", multiple=True, metavar="COL", help="Column to keep for each product; repeatable.")
@click.option("--query", metavar="SQL", help="Query to run, where SOURCE is a sqlite:/// or postgresql:// address.")
@click.option("--drop-missing", is_flag=True, help="Leave out rows without a client or product.")
@click.option("--coclusters", default=100, show_default=True, metavar="K", help="Number of co-clusters.")
@click.option("--regularization", default=30.0, show_default=True, metavar="λ", help="Larger: fewer memberships.")
@click.option("--relative", is_flag=True, help="R-OCuLaR: weigh the purchases of clients who buy little more.")
@click.option("--bias", is_flag=True, help="Fit client, product and overall biases.")
@click.option("--max-iter", default=100, show_default=True, help="Most sweeps.")
@click.option("--tol", default=1e-4, show_default=True, help="Stop at this relative decrease of the objective.")
@click.option("--seed", default=0, show_default=True, help="Seed of the start.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="File that keeps the state, each minute.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the model.")
def fit(source: str, output: Path, checkpoint: Path | None, **options: Any) -> None:
    """
    Fit a model to SOURCE: a CSV, TSV or Parquet file, or a database address with --query.

    \b
    ocular fit purchases.csv --client company --product sku --price amount -o model
    ocular fit ratings.csv --client user --product movie --value stars --min-value 3 -o model
    ocular fit sqlite:///shop.db --query "SELECT * FROM sales" --client c --product p -o model

    A fit that is stopped with Ctrl-C saves its best state. One that was killed goes on from its --checkpoint.
    """
    from ocular.artifact import check_target
    from ocular.errors import ConfigError
    from ocular.model import OCuLaR

    model = OCuLaR(
        options["coclusters"],
        options["regularization"],
        relative=options["relative"],
        bias=options["bias"],
        max_iter=options["max_iter"],
        tol=options["tol"],
        n_threads=options["threads"],
        random_state=options["seed"],
        verbose=sys.stderr.isatty(),
    )
    # what can be refused is refused before the long part
    model.config()
    check_target(output)
    if checkpoint is not None and output.resolve() in checkpoint.resolve().parents:
        raise ConfigError(
            f"expected the checkpoint outside of the model folder, got {checkpoint}; choose another place"
        )
    interactions = _read(source, options)
    click.echo(f"read {interactions.n_users:,} clients × {interactions.n_items:,} products, {interactions.nnz:,} pairs")
    if model.n_coclusters > min(interactions.shape):
        few = max(2, round(min(interactions.shape) ** 0.5))
        click.echo(
            f"note: {model.n_coclusters} co-clusters are more than there are clients or products; reasons get thin, "
            f"try --coclusters {few} --regularization 1",
            err=True,
        )
    fit_and_report(model, interactions, checkpoint)
    model.save(output)
    click.echo(f"saved to {output}")
    if checkpoint is not None and model.converged_:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint is not None:
        click.echo(f"the same command goes on from {checkpoint}")


def fit_and_report(model: OCuLaR, interactions: Interactions, checkpoint: Path | None = None) -> None:
    """Fit, and tell in plain lines how it went."""
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(interactions, checkpoint=checkpoint)
    seconds = time.perf_counter() - begun
    ended = "converged" if model.converged_ else "stopped"
    click.echo(f"{ended} after {model.n_iter_} sweeps in {seconds:.1f} s, objective {model.objective_:,.0f}")
    for warning in caught:
        click.echo(f"note: {as_options(str(warning.message))}", err=True)


def _read(source: str, options: dict[str, Any]) -> Interactions:
    from ocular.data.readers import read, read_sql
    from ocular.errors import ConfigError

    columns = {
        "client": options["client"],
        "product": options["product"],
        "price": options["price"],
        "quantity": options["quantity"],
        "time": options["time_column"],
        "value": options["value"],
        "min_value": options["min_value"],
        "client_attributes": options["client_attribute"],
        "product_attributes": options["product_attribute"],
        "drop_missing": options["drop_missing"],
    }
    if options["query"] is not None:
        return read_sql(options["query"], source, **columns)
    if "://" in source:
        raise ConfigError(f"expected --query with the database address {source.partition('://')[0]}://…, got none")
    return read(source, **columns)
