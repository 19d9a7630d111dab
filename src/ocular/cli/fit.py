"""ocular fit: from purchases to a saved model."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.filters import filter_options, product_filters
from ocular.cli.parameters import (
    AUTO,
    COMMAND_DEFAULTS,
    FIT_PARAMETERS,
    given_parameters,
    number_or_auto,
    parameter_option,
)
from ocular.cli.present import Interrupted, phrase
from ocular.cli.reading import (
    column_choices,
    interactions_options,
    read_interactions,
    read_refusals,
    spark_option,
    spark_place,
    spark_session,
)

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions
    from ocular.model import OCuLaR

# where none are given, since there is no auto on Spark
SPARK_DEFAULTS = {"coclusters": 100, "regularization": 30.0, "links": 1.0, "peers": 0.0}


@click.command(short_help="Fit a model to purchases.")
@interactions_options
@parameter_option("--coclusters", type=number_or_auto, metavar="K", help="Number of co-clusters.")
@parameter_option("--regularization", type=number_or_auto, metavar="λ", help="Larger: fewer, weaker memberships.")
@parameter_option("--links", type=number_or_auto, metavar="α", help="Weight of links between products.")
@parameter_option("--peers", type=number_or_auto, metavar="β", help="Weight of links between clients.")
@parameter_option("--popularity", type=number_or_auto, metavar="P", help="Below 0 bestsellers count for less.")
@parameter_option("--trend", type=number_or_auto, metavar="T", help="Above 0 what sells now counts for more.")
@parameter_option("--trend-half-life", type=number_or_auto, metavar="DAYS", help="Half-life of recent purchases.")
@parameter_option("--link-regularization", type=number_or_auto, metavar="μ", help="Penalty of links.")
@parameter_option("--peer-regularization", type=number_or_auto, metavar="μ", help="Penalty of peers.")
@parameter_option("--link-loss", help="Loss of links: likelihood, squares (often better by date) or auto.")
@parameter_option("--taste", type=number_or_auto, metavar="γ", help="Weight of taste for product attributes.")
@parameter_option("--appeal", type=number_or_auto, metavar="δ", help="Weight of appeal to client attributes.")
@parameter_option("--metric", help="What auto goes by: balanced, recall or map.")
@parameter_option("--validation", help="Tenth of the purchases that auto goes by: random, or the latest (time).")
@click.option("--relative", is_flag=True, help="R-OCuLaR: weigh the purchases of clients who buy little more.")
@click.option("--bias", is_flag=True, help="Fit client, product and overall biases.")
@parameter_option("--half-life", metavar="TIME", help="Recent purchases weigh more: 180d, 26w, 1y. Needs --time.")
@parameter_option("--weight", help="Purchases weigh by their quantity or amount, relative to the product's median.")
@click.option(
    "--refusals",
    metavar="FILE",
    help="Pairs known not to fit, never recommended: a table, or the application's export or database.",
)
@parameter_option("--refusal-weight", type=float, metavar="C", help="Weight of refused pairs in the fit.")
@parameter_option(
    "--attribute-strength",
    type=float,
    metavar="S",
    help="How much attributes count in the fit of co-clusters, as in the paper.",
)
@parameter_option("--max-iter", type=int, metavar="N", help="Maximum number of sweeps.")
@parameter_option(
    "--tol", type=float, metavar="T", help="Stop when a sweep lowers the objective by less than this share."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random start.")
@click.option("--threads", type=int, metavar="N", help="Number of threads.  [default: all cores]")
@filter_options
@click.option("--start", type=click.Path(path_type=Path), metavar="OLD", help="Model folder to go on from.")
@spark_option
@click.option("--device", default="cpu", show_default=True, help="Where to fit: cpu, cuda, cuda:N or auto.")
@click.option(
    "--no-calibration", is_flag=True, help="Skip the back-test that measures how often recommendations are bought."
)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="File that keeps the state, written every minute.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the model.")
def fit(
    source: tuple[str, ...],
    output: Path,
    checkpoint: Path | None,
    start: Path | None,
    refusals: str | None,
    only: tuple[str, ...],
    without: tuple[str, ...],
    **options: Any,
) -> None:
    """
    Fit a model to SOURCE.

    \b
    SOURCE is
      a file             .csv, .tsv, .txt (also .gz) or .parquet
      a folder           of these; folders such as year=2024 are columns
      a pattern          "sales/2024-*.csv"
      several of these   january.csv february.csv
      -                  standard input
      a DuckDB file      shop.duckdb, with --query where it has several tables
      a database         sqlite:///FILE, postgresql://USER@HOST/NAME or duckdb:///FILE, with --query

    \b
    ocular fit purchases.csv --client company --product sku --price amount --currency "€" -o model
    ocular fit ratings.csv --client user --product movie --value stars --min-value 3 -o model
    ocular fit purchases.csv --client company --product sku --without Postage -o model
    ocular fit purchases.csv --client company --product sku --start monday -o tuesday
    ocular fit purchases.csv --client company --product sku --time date --half-life 180d -o model
    ocular fit purchases.csv --client company --product sku --refusals not-a-fit.csv -o model
    ocular fit sqlite:///shop.db --query "SELECT * FROM sales" --client c --product p -o model
    ocular fit purchases.csv --client company --product sku --coclusters 50 --links 1 --peers 0 -o model
    ocular fit hdfs:///sales --client company --product sku --spark yarn --checkpoint /shared/fit.npz -o model

    What is auto is chosen on a held-out tenth of the purchases, before the fit. --links 0 --peers 0 is the paper's
    model, co-clusters alone. With --start everything that is not given is as in the old model.

    Products that --only and --without rule out are fitted like the others, but the model never recommends them.

    With --start clients and products that OLD knows go on from there, and patterns keep their numbers and labels.

    --half-life and --weight say how much a purchase counts in the fit. Pairs in --refusals are never recommended, and
    similar clients get such products less often; of a pair that was bought the purchase counts.

    Ctrl-C ends the fit and saves its best state; a killed fit goes on from its --checkpoint. With --spark the executors
    read SOURCE where it is Parquet; docs/cluster.md says what they need.
    """
    from ocular.artifact import check_target
    from ocular.data.refusals import refusals_of
    from ocular.data.trend import has_times
    from ocular.errors import ConfigError
    from ocular.model import OCuLaR, fitted_parameters, load
    from ocular.storage import check_writable
    from ocular.tuning import RANDOM

    given = given_parameters(options)
    model = OCuLaR(**COMMAND_DEFAULTS | given, device=options["device"], verbose=sys.stderr.isatty())
    # what can be refused is refused before the long part
    if options["spark"] is not None and options["device"] != "cpu":
        raise ConfigError("expected either --spark or --device, got both; leave one out")
    if options["spark"] is not None and (only or without):
        raise ConfigError("expected no --only or --without with --spark; give them to ocular recommend")
    if options["spark"] is not None and start is not None:
        raise ConfigError("expected no --start with --spark; fit on one machine, or leave it out")
    if options["spark"] is not None and refusals is not None:
        raise ConfigError("expected no --refusals with --spark; fit on one machine, or leave them out")
    previous = None if start is None else load(start)
    if previous is not None:  # chosen anew, weights would change recommendations that the purchases do not
        model.set_params(**fitted_parameters(previous) | given)
    model.config()
    model.evidence_request()
    check_target(output)
    check_writable(output)
    if checkpoint is not None and output.resolve() in checkpoint.resolve().parents:
        raise ConfigError(
            f"expected the checkpoint outside of the model folder, got {checkpoint}; choose another place"
        )
    if options["spark"] is not None:
        with spark_session(options["spark"]) as session:
            model = fit_on_spark(model, source, options, session, checkpoint)
            save_and_calibrate(model, output, calibrate=False, checkpoint=checkpoint)
    else:
        refused: Any = None if refusals is None else read_refusals(refusals, options)
        interactions = read_interactions(source, options)
        tell_size(interactions.shape, interactions.nnz, model.n_coclusters)
        filters = product_filters(interactions, only, without)
        if previous is not None and not filters:
            filters = kept_filters(previous, interactions)
        if previous is not None and refused is None:
            refused = refusals_of(previous.interactions_)
        if checkpoint is None or not checkpoint.exists():  # which holds what was chosen
            announce_choice(model, has_dates=has_times(interactions) and model.validation != RANDOM)
        fit_and_report(
            lambda: model.fit(interactions, checkpoint=checkpoint, start=previous, refusals=refused, **filters)
        )
        save_and_calibrate(model, output, calibrate=not options["no_calibration"], checkpoint=checkpoint)
    click.echo(f"saved to {output}")
    if checkpoint is not None and model.converged_:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint is not None:
        click.echo(f"the same command goes on from {checkpoint}")


def save_and_calibrate(model: OCuLaR, output: Path, *, calibrate: bool = True, checkpoint: Path | None = None) -> None:
    """Save a model before and after its calibration, so that Ctrl-C loses nothing but the calibration."""
    model.save(output)
    if model.interrupted_:
        go_on = "" if checkpoint is None else f"; the same command goes on from {checkpoint}"
        raise Interrupted(f"the best state so far is saved to {output}, calibration skipped{go_on}")
    if calibrate:
        try:
            calibrate_and_report(model)
        except KeyboardInterrupt:
            raise Interrupted(f"the model is saved to {output}, calibration skipped") from None
        model.save(output)


def fit_on_spark(
    model: OCuLaR, source: tuple[str, ...], options: dict[str, Any], session: Any, checkpoint: Path | None
) -> OCuLaR:
    """Fit on Spark: executors read Parquet themselves; anything else is read here and sent to them."""
    from ocular.model.fitting import with_weights
    from ocular.spark.fit import check_on_spark, fit_interactions
    from ocular.spark.interactions import SparkInteractions

    fixed = {name: value for name, value in SPARK_DEFAULTS.items() if options.get(name) is None}
    if fixed:
        taken = " ".join(f"--{name} {value:g}" for name, value in fixed.items())
        click.echo(f"note: parameters are not chosen from the data on Spark; taking {taken}", err=True)
        model.set_params(**{FIT_PARAMETERS[name]: value for name, value in fixed.items()})
    check_on_spark(model)
    if (place := spark_place(source, options)) is not None:
        interactions = SparkInteractions.of(place, session, column_choices(options))
    else:
        purchases = with_weights(read_interactions(source, options), model.config())
        interactions = SparkInteractions.of(purchases, session)
    tell_size(interactions.shape, interactions.nnz, model.n_coclusters)
    click.echo("note: hit rates of confidences are not measured on Spark", err=True)
    return fit_and_report(lambda: fit_interactions(interactions, model, session, checkpoint=checkpoint))


def kept_filters(previous: OCuLaR, interactions: Interactions) -> dict[str, Any]:
    """Return the products that the old model never recommends, of those that are still there."""
    excluded = previous.interactions_.item_labels[previous.excluded_items_].tolist()
    known = set(interactions.item_labels.tolist())
    return {"without": [name for name in excluded if name in known]} if known.intersection(excluded) else {}


def announce_choice(model: OCuLaR, *, has_dates: bool) -> None:
    """Say in advance what choosing parameters costs."""
    from ocular.tuning import count_fits

    request, chooses_regularization = model.request_for(has_dates=has_dates), model.regularization == AUTO
    if chooses_regularization or not request.is_settled:
        n_fits = count_fits(request, chooses_regularization=chooses_regularization)
        click.echo(
            "choosing parameters on a held-out tenth of the purchases: "
            f"at most {n_fits} short fits, which take about as long as two or three plain ones",
            err=True,
        )


def tell_size(shape: tuple[int, int], nnz: int, n_coclusters: int | str) -> None:
    """Print what was read, and a note where there are more co-clusters than it can fill."""
    click.echo(f"read {shape[0]:,} clients × {shape[1]:,} products, {nnz:,} pairs")
    if not isinstance(n_coclusters, str) and n_coclusters > min(shape):
        suggestion = max(2, round(min(shape) ** 0.5))
        click.echo(
            f"note: {n_coclusters} co-clusters are more than there are clients or products, too many for clear "
            f"reasons; try --coclusters {suggestion}, or ocular search",
            err=True,
        )


def fit_and_report(fit: Callable[[], OCuLaR]) -> OCuLaR:
    """Fit, and print in one line how it went."""
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit()
    seconds = time.perf_counter() - begun
    if model.tuning_ is not None:
        click.echo(chosen_line(model))
    ended = "converged" if model.converged_ else "stopped"
    click.echo(f"{ended} after {model.n_iter_} sweeps in {seconds:.1f} s, objective {model.objective_:,.0f}")
    for warning in caught:
        click.echo(f"note: {phrase(warning.message)}", err=True)
    return model


def chosen_line(model: OCuLaR) -> str:
    """Return which parameters were chosen on held-out purchases, and what they are worth there."""
    choice = model.tuning_
    assert choice is not None  # noqa: S101  asked before
    evidence, config = choice.evidence, choice.config  # a fit that was interrupted may have less
    weights = (
        f"links {evidence.links:g} (penalty {evidence.link_regularization:g}), peers {evidence.peers:g} "
        f"(penalty {evidence.peer_regularization:g}), popularity {evidence.popularity:g}"
    )
    weights += "".join(
        f", {part} {getattr(evidence, part):g}" for part in ("taste", "appeal") if getattr(evidence, part)
    )
    if evidence.trend:
        weights += f", trend {evidence.trend:g} (half-life {evidence.trend_half_life:g} days)"
    measured = f"{choice.metric}@{choice.M} {choice.value:.4f}, patterns alone {choice.patterns_alone:.4f}"
    return f"parameters: {config.n_coclusters} co-clusters, λ {config.regularization:g}, {weights}; {measured}"


def calibrate_and_report(model: OCuLaR) -> None:
    """Measure how often recommendations are bought; too few purchases for that are no error."""
    from ocular.errors import DataError
    from ocular.evaluation.calibration import calibrate

    try:
        calibrate(model)
    except DataError as error:
        click.echo(f"note: no hit rates ({phrase(error)})", err=True)
        return
    click.echo(calibration_line(model))


def calibration_line(model: OCuLaR) -> str:
    """Return how often recommendations were bought in the back-test of a model that has one."""
    calibration = model.calibration_
    assert calibration is not None  # noqa: S101  asked before
    after = "" if calibration.error_after is None else f"; {calibration.error_after:.3f} after calibration"
    return (
        f"Back-test on a held-out {calibration.share:.0%}: {calibration.hits.sum():,} of "
        f"{calibration.counts.sum():,} recommendations were bought "
        f"(calibration error {calibration.error_before:.3f}{after})"
    )
