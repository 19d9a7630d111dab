"""ocular evaluate: how good recommendations are on purchases that were held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ocular.cli.fit import fit_and_report
from ocular.cli.present import format_option, render
from ocular.cli.reading import history_options, read_history

MODELS = {"ocular": False, "r-ocular": True}  # name -> relative
CUTOFF = 50


@click.command(short_help="Measure recommendations on held-out purchases.")
@history_options
@click.option("--models", default="ocular", show_default=True, metavar="A,B", help=f"Of {', '.join(MODELS)}.")
@click.option("--coclusters", default=100, show_default=True, metavar="K", help="Number of co-clusters.")
@click.option("--regularization", default=30.0, show_default=True, metavar="λ", help="Larger: fewer memberships.")
@click.option("--test-share", default=0.25, show_default=True, help="Share of the purchases to hold out.")
@click.option("--seed", default=0, show_default=True, help="Seed of the split and of the start.")
@click.option("--threads", type=int, help="Threads; all cores by default.")
@click.option("--reliability", type=click.Path(path_type=Path), help="Reliability diagram to write: PNG, SVG or PDF.")
@format_option("table", "json", "csv")
def evaluate(source: str, models: str, reliability: Path | None, form: str, **options: Any) -> None:
    """
    Hold out purchases of SOURCE, fit on the others, and measure what is recommended.

    \b
    ocular evaluate purchases.csv --client company --product sku
    ocular evaluate purchases.csv --client company --product sku --reliability reliability.png

    \b
    recall, map        at 50 recommendations a client, as in the paper
    calibration_error  mean distance of confidence and hit rate of the first 20 recommendations
    calibrated_error   the same for the hit rates that are shown, told by one half of the clients for the other
    """
    from ocular.data.splits import random_split
    from ocular.errors import ConfigError, DataError
    from ocular.evaluation.calibration import collect_outcomes, cross_check
    from ocular.evaluation.metrics import rank
    from ocular.model import OCuLaR
    from ocular.storage import check_writable

    names = list(dict.fromkeys(name.strip() for name in models.split(",")))
    if not set(names) <= MODELS.keys():
        wrong = next(name for name in names if name not in MODELS)
        raise ConfigError(f"expected --models of {', '.join(MODELS)}, got {wrong!r}")
    if reliability is not None:
        from ocular.explain.plots import check_picture_name, plot_reliability, save_figure

        check_writable(check_picture_name(reliability))
    history = read_history(source, options)
    train, test = random_split(history, options["test_share"], options["seed"])
    rows = []
    for name in names:
        model = OCuLaR(
            options["coclusters"],
            options["regularization"],
            relative=MODELS[name],
            n_threads=options["threads"],
            random_state=options["seed"],
        )
        fit_and_report(model, train, err=True)
        ranking = rank(model, train, test, CUTOFF)
        try:
            checked = cross_check(collect_outcomes(model, test), options["seed"])
            errors = [round(each.error, 4) for each in checked]
        except DataError as error:
            picture = "" if reliability is None else " and no reliability diagram"
            click.echo(f"note: no calibration error{picture} ({error})", err=True)
            checked, errors = None, []
        rows.append(
            {
                "model": name,
                f"recall@{CUTOFF}": round(ranking.recall, 4),
                f"map@{CUTOFF}": round(ranking.map, 4),
                "calibration_error": errors[0] if errors else None,
                "calibrated_error": errors[1] if errors else None,
                "clients": ranking.n_users,
            }
        )
        if reliability is not None and checked is not None:
            place = reliability.with_stem(f"{reliability.stem}-{name}") if len(names) > 1 else reliability
            save_figure(place, plot_reliability(*checked[1], before=checked[0]))
            click.echo(f"reliability diagram of {name} in {place}", err=True)
    click.echo(render(rows, form))
