"""ocular fit: from a purchase history to a saved model."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.present import phrase
from ocular.cli.reading import column_choices, history_options, read_history, spark_option, spark_session

if TYPE_CHECKING:
    from ocular.model import OCuLaR


@click.command(short_help="Fit a model to a purchase history.")
@history_options
@click.option("--coclusters", default=100, show_default=True, metavar="K", help="Number of co-clusters.")
@click.option("--regularization", default=30.0, show_default=True, metavar="λ", help="Larger: fewer memberships.")
@click.option("--relative", is_flag=True, help="R-OCuLaR: weigh the purchases of clients who buy little more.")
@click.option("--bias", is_flag=True, help="Fit client, product and overall biases.")
@click.option("--max-iter", default=100, show_default=True, help="Most sweeps.")
@click.option("--tol", default=1e-4, show_default=True, help="Stop at this relative decrease of the objective.")
@click.option("--seed", default=0, show_default=True, help="Seed of the start.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@spark_option
@click.option("--device", default="cpu", show_default=True, help="Of cpu, cuda, cuda:N, auto: where to fit.")
@click.option("--no-calibration", is_flag=True, help="Skip the second fit, which finds out what confidences are worth.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="File that keeps the state, each minute.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the model.")
def fit(source: str, output: Path, checkpoint: Path | None, **options: Any) -> None:
    """
    Fit a model to SOURCE: a CSV, TSV or Parquet file, or a database address with --query.

    \b
    ocular fit purchases.csv --client company --product sku --price amount --currency "€" -o model
    ocular fit ratings.csv --client user --product movie --value stars --min-value 3 -o model
    ocular fit sqlite:///shop.db --query "SELECT * FROM sales" --client c --product p -o model
    ocular fit hdfs:///sales --client company --product sku --spark yarn --checkpoint /shared/fit.npz -o model

    A fit that is stopped with Ctrl-C saves its best state. One that was killed goes on from its --checkpoint. With
    --spark the executors read SOURCE where it is Parquet; docs/cluster.md says what they need.
    """
    from ocular.artifact import check_target
    from ocular.errors import ConfigError
    from ocular.model import OCuLaR
    from ocular.storage import check_writable

    model = OCuLaR(
        options["coclusters"],
        options["regularization"],
        relative=options["relative"],
        bias=options["bias"],
        max_iter=options["max_iter"],
        tol=options["tol"],
        device=options["device"],
        n_threads=options["threads"],
        random_state=options["seed"],
        verbose=sys.stderr.isatty(),
    )
    # what can be refused is refused before the long part
    if options["spark"] is not None and options["device"] != "cpu":
        raise ConfigError("expected either --spark or --device, got both; leave one out")
    model.config()
    check_target(output)
    check_writable(output)
    if checkpoint is not None and output.resolve() in checkpoint.resolve().parents:
        raise ConfigError(
            f"expected the checkpoint outside of the model folder, got {checkpoint}; choose another place"
        )
    if options["spark"] is not None:
        with spark_session(options["spark"]) as session:
            model = fit_on_spark(model, source, options, session, checkpoint)
            model.save(output)
    else:
        interactions = read_history(source, options)
        tell_size(interactions.shape, interactions.nnz, model.n_coclusters)
        fit_and_report(lambda: model.fit(interactions, checkpoint=checkpoint))
        model.save(output)
        if not options["no_calibration"] and not model.interrupted_:
            calibrate_and_report(model)
            model.save(output)
    click.echo(f"saved to {output}")
    if checkpoint is not None and model.converged_:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint is not None:
        click.echo(f"the same command goes on from {checkpoint}")


def fit_on_spark(model: OCuLaR, source: str, options: dict[str, Any], session: Any, checkpoint: Path | None) -> OCuLaR:
    """Fit on Spark: executors read Parquet themselves; anything else is read here and sent to them."""
    from ocular.spark.fit import fit_interactions
    from ocular.spark.interactions import SparkInteractions

    parquet = (
        source.endswith((".parquet", ".pq")) or Path(source).is_dir() or ("://" in source and not options["query"])
    )
    if parquet:
        interactions = SparkInteractions.of(source, session, column_choices(options))
    else:
        interactions = SparkInteractions.of(read_history(source, options), session)
    tell_size(interactions.shape, interactions.nnz, model.n_coclusters)
    click.echo("note: hit rates of confidences are not measured on Spark", err=True)
    return fit_and_report(lambda: fit_interactions(interactions, model, session, checkpoint=checkpoint))


def tell_size(shape: tuple[int, int], nnz: int, n_coclusters: int) -> None:
    click.echo(f"read {shape[0]:,} clients × {shape[1]:,} products, {nnz:,} pairs")
    if n_coclusters > min(shape):
        few = max(2, round(min(shape) ** 0.5))
        click.echo(
            f"note: {n_coclusters} co-clusters are more than there are clients or products; reasons get thin, "
            f"try --coclusters {few}, or let ocular search choose",
            err=True,
        )


def fit_and_report(fit: Callable[[], OCuLaR]) -> OCuLaR:
    """Fit, and tell in plain lines how it went."""
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit()
    seconds = time.perf_counter() - begun
    ended = "converged" if model.converged_ else "stopped"
    click.echo(f"{ended} after {model.n_iter_} sweeps in {seconds:.1f} s, objective {model.objective_:,.0f}")
    for warning in caught:
        click.echo(f"note: {phrase(warning.message)}", err=True)
    return model


def calibrate_and_report(model: OCuLaR) -> None:
    """Find out how often recommendations come true; too small a history is no error."""
    from ocular.errors import DataError
    from ocular.evaluation.calibration import calibrate

    try:
        found = calibrate(model)
    except (DataError, KeyboardInterrupt) as error:
        click.echo(f"note: no hit rates for confidences ({error or 'interrupted'})", err=True)
        return
    with_rates = "" if found.error_after is None else f", {found.error_after:.3f} with hit rates"
    click.echo(
        f"checked on {found.share:.0%} of the purchases, held out from a second fit: "
        f"{found.hits.sum():,} of {found.counts.sum():,} recommendations were bought, "
        f"calibration error {found.error_before:.3f}{with_rates}"
    )
