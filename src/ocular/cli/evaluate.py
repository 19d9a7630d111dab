"""ocular evaluate: how good the recommendations of several models are on held-out purchases."""

from __future__ import annotations

import warnings
from contextlib import suppress
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.parameters import FIT_PARAMETERS, default_of, parameter_option
from ocular.cli.present import Interrupted, Row, format_option, phrase, render
from ocular.cli.reading import interactions_options, numbers, read_interactions

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions
    from ocular.evaluation.protocol import Method

OCULAR_MODELS = ("ocular", "r-ocular")
EXPECTED_VALUES = {  # option -> what a message asks for
    "coclusters": "whole numbers such as 20,50,100",
    "regularization": "numbers such as 10,30,100",
    "tol": "numbers such as 1e-4,1e-3",
}


@click.command(short_help="Measure recommendations on held-out purchases.")
@interactions_options
@click.option(
    "--models",
    default="ocular",
    show_default=True,
    metavar="A,B",
    help="Models: ocular, r-ocular, evidence, wals, bpr, user-knn, item-knn, ease, slim, rp3beta, popularity.",
)
@click.option(
    "--model",
    "saved",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Saved model to measure on what SOURCE has beyond its own purchases; nothing is fitted.",
)
@parameter_option("--coclusters", metavar="K,…", help="Numbers of co-clusters to try.")
@parameter_option("--regularization", metavar="λ,…", help="Values of λ to try; r-ocular takes twice as much.")
@parameter_option("--tol", metavar="T,…", help="Tolerances to try; a larger one stops earlier.")
@click.option(
    "--tune",
    type=click.Choice(["none", "validation", "test"]),
    help="Data to choose parameters on.  [default: validation if several values are given, else none]",
)
@click.option(
    "--instances", default=1, show_default=True, type=click.IntRange(min=1), help="Random splits; the paper has 10."
)
@click.option("--test-share", default=0.25, show_default=True, help="Share of the purchases to hold out.")
@click.option("--backtest", metavar="DATE", help="Hold out what was first bought on or after this date; needs --time.")
@click.option(
    "--metric",
    type=click.Choice(["recall", "map", "ndcg", "precision"]),
    default="recall",
    show_default=True,
    help="Metric that decides which model is best.",
)
@click.option(
    "--at", "cutoff", default=50, show_default=True, type=click.IntRange(min=1), help="Recommendations per client."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the splits and of the random starts.")
@click.option("--threads", type=int, metavar="N", help="Number of threads.  [default: all cores]")
@click.option(
    "--feedback",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="CSV that the application exports: adds feedback_auc.",
)
@click.option("--reliability", type=click.Path(path_type=Path), help="Reliability diagram to write: PNG, SVG or PDF.")
@click.option(
    "--save",
    "save_folder",
    metavar="MODELS",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the models: keeps the result in quality.json, for the application's page How well it works.",
)
@format_option("table", "json", "csv")  # fmt: skip
def evaluate(
    source: tuple[str, ...],
    models: str,
    saved: Path | None,
    feedback: Path | None,
    reliability: Path | None,
    save_folder: Path | None,
    form: str,
    **options: Any,
) -> None:
    """
    Hold out purchases of SOURCE, fit on the others, and measure what is recommended; the best model comes first.

    \b
    ocular evaluate purchases.csv --client company --product sku
    ocular evaluate purchases.csv --client company --product sku --models ocular,user-knn,ease,popularity
    ocular evaluate purchases.csv --client company --product sku --coclusters 20,50 --regularization 3,10,30
    ocular evaluate purchases.csv --client company --product sku --models ocular,wals,ease --tune validation
    ocular evaluate purchases.csv --client company --product sku --time day --backtest 2024-07-01
    ocular evaluate purchases.csv --client company --product sku --models ocular,popularity --save models
    ocular evaluate since.csv --client company --product sku --model model

    --tune chooses the parameters of every model from a grid; where values are given for OCuLaR, from those. Validation
    data are a random part of the training data; with --backtest they are its last purchases.

    \b
    recall, map, ndcg, precision  means over the clients with held-out purchases, as in the paper
    coverage           share of the products that are recommended to at least one client
    novelty            mean surprise of a recommendation, in bits
    p                  of the paired t-test over clients against the best model
    calibration_error  mean distance between confidence and hit rate of 20 recommendations per client
    calibrated_error   the same after calibration
    feedback_auc       probability that a recommendation marked pursuing or won scores higher than one marked
                       not a fit or lost; 0.5 is chance
    """
    from ocular.evaluation.feedback import read_feedback
    from ocular.evaluation.protocol import backtest, compare
    from ocular.evaluation.quality import QUALITY_FILE, record_of, save_quality
    from ocular.storage import check_writable

    if saved is not None:
        _evaluate_saved(saved, source, form, options)
        return
    methods = _methods(models, options)
    date = _backtest_date(options)
    if save_folder is not None:
        check_writable(save_folder / QUALITY_FILE)
    if reliability is not None:
        from ocular.plots import check_picture_name

        check_writable(check_picture_name(reliability))
    interactions = read_interactions(source, options)
    pairs = None if feedback is None else read_feedback(feedback, interactions)
    shared = {
        "tune": options["tune"],
        "metric": options["metric"],
        "M": options["cutoff"],
        "random_state": options["seed"],
        "report": lambda line: click.echo(line, err=True),
    }
    by_date = date is not None
    try:
        if by_date:
            comparison = backtest(interactions, date, methods, **shared)
        else:
            splits = {"instances": options["instances"], "test_share": options["test_share"]}
            comparison = compare(interactions, methods, **splits, **shared)
        rows = comparison.rows()
        for row in rows:
            row.update(calibration_error=None, calibrated_error=None, feedback_auc=None)
            method = next(method for method in methods if method.name == row["model"])
            if pairs is not None:
                row["feedback_auc"] = _feedback_auc(interactions, method, row, options, pairs)
            if row["model"] in OCULAR_MODELS and not by_date:
                row.update(_calibration(interactions, method, row, options, reliability, several=len(methods) > 1))
    except KeyboardInterrupt:
        raise Interrupted("no table; the lines above have what was measured, the same command begins again") from None
    if save_folder is not None:
        held_out = None if by_date else options["test_share"]
        record = record_of(rows, options["metric"], options["cutoff"], options["tune"], held_out, options["backtest"])
        save_quality(save_folder, interactions.fingerprint(), record)
        click.echo(f"written to {save_folder / QUALITY_FILE}", err=True)
    if form == "table":
        click.echo(f"{render([_shown(row) for row in rows], 'table')}\n\n{_note(rows, options)}")
    else:
        click.echo(render([row | {"tuned_on": options["tune"]} for row in rows], form))


def _evaluate_saved(saved: Path, source: tuple[str, ...], form: str, options: dict[str, Any]) -> None:
    """Measure a saved model on purchases that it was not fitted on."""
    from ocular.errors import ConfigError
    from ocular.evaluation.saved import measure_saved
    from ocular.model import load

    context, from_user = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    others = (
        "models",
        "coclusters",
        "regularization",
        "tol",
        "tune",
        "backtest",
        "feedback",
        "reliability",
        "save_folder",
    )
    given = [name for name in others if context.get_parameter_source(name) == from_user]
    if given:
        option = "--save" if given[0] == "save_folder" else f"--{given[0]}"
        raise ConfigError(f"expected no {option} with --model, which fits and keeps nothing; leave one out")
    model = load(saved)
    scores, n_new, n_unknown = measure_saved(model, read_interactions(source, options), options["cutoff"])
    row = {"model": saved.name, **scores.to_dict()}
    if form != "table":
        click.echo(render([row | {"new_pairs": n_new, "unknown_pairs": n_unknown}], form))
        return
    unknown = f" Pairs with a client or product that it does not know: {n_unknown:,}." if n_unknown else ""
    note = f"{n_new:,} pairs that the model was not fitted on, of {len(scores.users):,} clients.{unknown}"
    click.echo(f"{render([row], form)}\n\n{note}")


def _backtest_date(options: dict[str, Any]) -> datetime | str | None:
    """Return the date of --backtest, which may be written like those of the purchases."""
    from ocular.errors import ConfigError

    date: str | None = options["backtest"]
    if date is None:
        return None
    if options["time_column"] is None:
        raise ConfigError("expected the column with the dates of the purchases for --backtest, got none; pass --time")
    if options["date_format"] is not None:
        with suppress(ValueError):  # it is then a date such as 2024-07-01, or refused
            return datetime.strptime(date, options["date_format"])
    return date


def _note(rows: list[Row], options: dict[str, Any]) -> str:
    """Return what the table does not say: how parameters were chosen, and who does not count."""
    date = options["backtest"]
    validation = "validation data" if date is None else f"the last purchases before {date}"
    chosen = {
        "none": "given",
        "validation": f"tuned on {validation}",
        "test": "tuned on the test data, as in the paper",
    }
    note = f"Parameters {chosen[options['tune']]}. * best by {options['metric']}@{options['cutoff']}."
    left_out = rows[0]["left_out"]
    return note + (f" {left_out:,} clients have no held-out purchases and do not count." if left_out else "")


def _own_settings(options: dict[str, Any]) -> list[dict[str, Any]]:
    """
    Return every combination of OCuLaR's parameters: the values given, else the default or, with --tune, the grid.

    Several values need tuning even without --tune: options["tune"] is set accordingly.
    """
    from ocular.errors import ConfigError
    from ocular.evaluation.protocol import SETTINGS

    grid = options["tune"] in ("validation", "test")
    values = {}
    for option, expected in EXPECTED_VALUES.items():
        parameter = FIT_PARAMETERS[option]
        default = default_of(parameter)
        if options[option] is not None:
            values[parameter] = numbers(options[option], type(default), f"--{option} as {expected}")
            if options["tune"] == "none" and len(values[parameter]) > 1:
                raise ConfigError(f"expected one value of --{option} with --tune none, got {options[option]}")
        else:
            values[parameter] = [setting[parameter] for setting in SETTINGS["ocular"]] if grid else [default]
        values[parameter] = list(dict.fromkeys(values[parameter]))
    settings = [dict(zip(values, point, strict=True)) for point in product(*values.values())]
    options["tune"] = options["tune"] or ("validation" if len(settings) > 1 else "none")
    return settings


def _methods(models: str, options: dict[str, Any]) -> list[Method]:
    """Return the models, each with the settings to choose from."""
    from ocular.evaluation.protocol import RELATIVE, Method

    own_settings, methods = _own_settings(options), []
    for name in dict.fromkeys(name.strip() for name in models.split(",")):
        if name in OCULAR_MODELS:
            scale = RELATIVE if name == "r-ocular" else 1.0
            settings = [{**p, "regularization": scale * p["regularization"]} for p in own_settings]
            methods.append(Method(name, [{**setting, "n_threads": options["threads"]} for setting in settings]))
        else:
            methods.append(Method(name) if options["tune"] == "none" else Method.tunable(name))
    return methods


def _fitted(method: Method, row: Row, options: dict[str, Any], train: Interactions) -> Any:
    model = method.make(row["parameters"], options["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train)
    if getattr(model, "interrupted_", False):
        raise KeyboardInterrupt
    return model


def _feedback_auc(interactions: Interactions, method: Method, row: Row, options: dict[str, Any], pairs: Any) -> float:
    from ocular.evaluation.feedback import feedback_auc, without_feedback

    return feedback_auc(_fitted(method, row, options, without_feedback(interactions, pairs)), pairs)


def _calibration(
    interactions: Interactions,
    method: Method,
    row: Row,
    options: dict[str, Any],
    reliability: Path | None,
    several: bool,
) -> Row:
    """Return the expected calibration errors on the first instance; draw the reliability diagram if asked to."""
    from ocular.data.splits import random_split
    from ocular.errors import DataError
    from ocular.evaluation.calibration import collect_outcomes, cross_check

    train, test = random_split(interactions, options["test_share"], options["seed"])
    model = _fitted(method, row, options, train)
    try:
        before, after = cross_check(collect_outcomes(model, test), options["seed"])
    except DataError as error:
        picture = "" if reliability is None else " and no reliability diagram"
        click.echo(f"note: no calibration error{picture} ({phrase(error)})", err=True)
        return {}
    if reliability is not None:
        from ocular.plots import plot_reliability, save_figure

        file = reliability.with_stem(f"{reliability.stem}-{method.name}") if several else reliability
        save_figure(file, plot_reliability(after, before=before))
        click.echo(f"reliability diagram of {method.name} in {file}", err=True)
    return {"calibration_error": round(before.error, 4), "calibrated_error": round(after.error, 4)}


def _shown(row: Row) -> Row:
    """Return a row as the table shows it."""
    from ocular.evaluation.comparison import short_parameters

    parameters = short_parameters(row["parameters"]) or None
    shown = {"model": row["model"] + (" *" if row["best"] else ""), "parameters": parameters}
    error = row["standard_error"]
    for name, value in row.items():
        if "@" in name:
            shown[name] = value
            if error is not None and "standard_error" not in shown:
                shown["standard_error"] = error
    return shown | {
        "p": row["p_value"],
        "calibration_error": row["calibration_error"],
        "calibrated_error": row["calibrated_error"],
        "feedback_auc": row["feedback_auc"],
        "seconds": row["fit_seconds"],
    }
