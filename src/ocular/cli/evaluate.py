"""ocular evaluate: how good recommendations are on purchases that were held out, for several models side by side."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.present import Row, format_option, render
from ocular.cli.reading import history_options, numbers, read_history

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions
    from ocular.evaluation.feedback import Judged
    from ocular.evaluation.protocol import Method

OWN = ("ocular", "r-ocular")
OWN_PARAMETERS = (  # option, parameter, default, what is expected
    ("coclusters", "n_coclusters", 100, "whole numbers such as 20,50,100"),
    ("regularization", "regularization", 30.0, "numbers such as 10,30,100"),
    ("tol", "tol", 1e-4, "numbers such as 1e-4,1e-3"),
)


@click.command(short_help="Measure recommendations on held-out purchases.")
@history_options
@click.option(
    "--models",
    default="ocular",
    show_default=True,
    metavar="A,B",
    help="Of ocular, r-ocular, wals, bpr, user-knn, item-knn, ease, popularity.",
)
@click.option("--coclusters", metavar="K,…", help="Numbers of co-clusters to try.  [default: 100]")
@click.option("--regularization", metavar="λ,…", help="λ to try; r-ocular: twice that.  [default: 30]")
@click.option("--tol", metavar="T,…", help="Where to stop; larger is earlier.  [default: 1e-4]")
@click.option(
    "--tune",
    type=click.Choice(["none", "validation", "test"]),
    help="Where each model's parameters are chosen.  [default: validation if several are given, else none]",
)
@click.option(
    "--instances", default=1, show_default=True, type=click.IntRange(min=1), help="Random splits; the paper: 10."
)
@click.option("--test-share", default=0.25, show_default=True, help="Share of the purchases to hold out.")
@click.option("--backtest", metavar="DATE", help="Hold out what was first bought on or after this date; needs --time.")
@click.option(
    "--metric",
    type=click.Choice(["recall", "map", "ndcg", "precision"]),
    default="recall",
    show_default=True,
    help="What decides which is best.",
)
@click.option(
    "--at", "cutoff", default=50, show_default=True, type=click.IntRange(min=1), help="Recommendations a client."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the splits and the starts.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@click.option(
    "--feedback",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What people made of recommendations, exported by the application.",
)
@click.option("--reliability", type=click.Path(path_type=Path), help="Reliability diagram to write: PNG, SVG or PDF.")
@format_option("table", "json", "csv")  # fmt: skip
def evaluate(
    source: tuple[str, ...], models: str, feedback: Path | None, reliability: Path | None, form: str, **options: Any
) -> None:
    """
    Hold out purchases of SOURCE, fit on the others, and measure what is recommended; the best model comes first.

    \b
    ocular evaluate purchases.csv --client company --product sku
    ocular evaluate purchases.csv --client company --product sku --models ocular,user-knn,ease,popularity
    ocular evaluate purchases.csv --client company --product sku --coclusters 20,50 --regularization 3,10,30
    ocular evaluate purchases.csv --client company --product sku --models ocular,wals,ease --tune validation
    ocular evaluate purchases.csv --client company --product sku --time day --backtest 2024-07-01

    --tune chooses the parameters of every model from a grid; where values are given for OCuLaR, from those.

    \b
    recall, map, ndcg, precision  means over the clients who have something to find, as in the paper
    coverage          share of the products that is recommended to anybody
    novelty           mean surprise of a recommendation, in bits
    p                 of the paired t-test over clients against the best model
    calibration_error  mean distance of confidence and hit rate of the first 20 recommendations
    calibrated_error   the same for the hit rates that are shown, told by one half of the clients for the other
    judged            chance that what people took up scores above what they refused (--feedback)
    """
    from ocular.evaluation.feedback import read_judged
    from ocular.evaluation.protocol import backtest, compare
    from ocular.storage import check_writable

    methods = _methods(models, options)
    if reliability is not None:
        from ocular.plots import check_picture_name

        check_writable(check_picture_name(reliability))
    history = read_history(source, options)
    judged = None if feedback is None else read_judged(feedback, history)
    shared = {
        "tune": options["tune"],
        "metric": options["metric"],
        "M": options["cutoff"],
        "random_state": options["seed"],
        "report": lambda line: click.echo(line, err=True),
    }
    if options["backtest"] is not None:
        found = backtest(history, options["backtest"], methods, **shared)
    else:
        found = compare(history, methods, instances=options["instances"], test_share=options["test_share"], **shared)
    rows = found.rows()
    for row in rows:
        row.update(calibration_error=None, calibrated_error=None, judged=None)
        method = next(method for method in methods if method.name == row["model"])
        if judged is not None:
            row["judged"] = _judged(history, method, row, options, judged)
        if row["model"] in OWN and options["backtest"] is None:
            row.update(_calibration(history, method, row, options, reliability, several=len(methods) > 1))
    chosen = {
        "none": "given",
        "validation": "tuned on validation data",
        "test": "tuned on the test data, as in the paper",
    }
    if form == "table":
        left_out = rows[0]["left_out"]
        note = f"\n\nParameters {chosen[options['tune']]}. * best by {options['metric']}@{options['cutoff']}."
        note += f" {left_out:,} clients have nothing to find and do not count." if left_out else ""
        click.echo(render([_shown(row) for row in rows], "table") + note)
    else:
        click.echo(render([row | {"tuned_on": options["tune"]} for row in rows], form))


def _own_settings(options: dict[str, Any]) -> list[dict[str, Any]]:
    """
    Every combination of OCuLaR's parameters: those that are given, and of the others the default or, where --tune asks
    for a choice, all values of our grid. Several values ask for a choice by themselves: options["tune"] then says so.
    """
    from ocular.errors import ConfigError
    from ocular.evaluation.protocol import SETTINGS

    grid = options["tune"] in ("validation", "test")
    values = {}
    for option, parameter, default, such in OWN_PARAMETERS:
        if options[option] is not None:
            values[parameter] = numbers(options[option], type(default), f"--{option} as {such}")
            if options["tune"] == "none" and len(values[parameter]) > 1:
                raise ConfigError(f"expected one value of --{option} with --tune none, got {options[option]}")
        else:
            values[parameter] = [setting[parameter] for setting in SETTINGS["ocular"]] if grid else [default]
        values[parameter] = list(dict.fromkeys(values[parameter]))
    settings = [dict(zip(values, point, strict=True)) for point in product(*values.values())]
    options["tune"] = options["tune"] or ("validation" if len(settings) > 1 else "none")
    return settings


def _methods(models: str, options: dict[str, Any]) -> list[Method]:
    """The models asked for, each with the settings to choose from."""
    from ocular.evaluation.protocol import RELATIVE, Method

    own, methods = _own_settings(options), []
    for name in dict.fromkeys(name.strip() for name in models.split(",")):
        if name in OWN:
            scale = RELATIVE if name == "r-ocular" else 1.0
            settings = [{**p, "regularization": scale * p["regularization"]} for p in own]
            methods.append(Method(name, [{**setting, "n_threads": options["threads"]} for setting in settings]))
        else:
            methods.append(Method(name) if options["tune"] == "none" else Method.tunable(name))
    return methods


def _judged(history: Interactions, method: Method, row: Row, options: dict[str, Any], judged: Judged) -> float:
    from ocular.evaluation.feedback import leave_out, measure_judged

    model = method.make(row["parameters"], options["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(leave_out(history, judged))
    return measure_judged(model, judged)


def _calibration(
    history: Interactions, method: Method, row: Row, options: dict[str, Any], reliability: Path | None, several: bool
) -> Row:
    """Expected calibration errors on the first instance, and the diagram where one is asked for."""
    from ocular.data.splits import random_split
    from ocular.errors import DataError
    from ocular.evaluation.calibration import collect_outcomes, cross_check

    train, test = random_split(history, options["test_share"], options["seed"])
    model = method.make(row["parameters"], options["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train)
    try:
        before, after = cross_check(collect_outcomes(model, test), options["seed"])
    except DataError as error:
        picture = "" if reliability is None else " and no reliability diagram"
        click.echo(f"note: no calibration error{picture} ({error})", err=True)
        return {}
    if reliability is not None:
        from ocular.plots import plot_reliability, save_figure

        place = reliability.with_stem(f"{reliability.stem}-{method.name}") if several else reliability
        save_figure(place, plot_reliability(after, before=before))
        click.echo(f"reliability diagram of {method.name} in {place}", err=True)
    return {"calibration_error": round(before.error, 4), "calibrated_error": round(after.error, 4)}


def _shown(row: Row) -> Row:
    """A row as the table has it."""
    short = {"n_coclusters": "K", "factors": "K", "regularization": "λ"}
    given = {name: value for name, value in row["parameters"].items() if name != "n_threads"}
    names = " ".join(f"{short.get(name, name)}={value:g}" for name, value in given.items())
    shown = {"model": row["model"] + (" *" if row["best"] else ""), "parameters": names or None}
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
        "judged": row["judged"],
        "seconds": row["fit_seconds"],
    }
