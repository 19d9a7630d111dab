"""ocular search: which number of co-clusters and which regularization fit a purchase history."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.fit import calibrate_and_report, fit_and_report
from ocular.cli.present import format_option, render
from ocular.cli.reading import history_options, numbers, read_history, spark_option, spark_session

if TYPE_CHECKING:
    from ocular.evaluation.search import Point, Row, SearchResult

SHADES = "░▒▓█"
WRITTEN = 12  # λ in a heat map with numbers; more would not fit on a line
ENDS = (("n_coclusters", 1), ("regularization", 0.0))  # beyond which there is nothing
PATH = click.Path(path_type=Path)


@click.command(short_help="Find the number of co-clusters and the regularization.")
@history_options
@click.option("--coclusters", default="10,20,50,100", show_default=True, metavar="K,K", help="Numbers to try.")
@click.option("--regularization", default="1,3,10,30,100", show_default=True, metavar="λ,λ", help="Values to try.")
@click.option("--relative", is_flag=True, help="Try R-OCuLaR too.")
@click.option("--bias", is_flag=True, help="Try biases too.")
@click.option("--tol", default="1e-4", show_default=True, metavar="T,T", help="Where to stop; larger is earlier.")
@click.option("--folds", default=5, show_default=True, help="Parts to hold out in turn; 1: hold out a quarter once.")
@click.option("--metric", default="recall", show_default=True, help="Of recall, map, ndcg, precision.")
@click.option("--at", default=50, show_default=True, metavar="M", help="Recommendations a client to measure.")
@click.option("--strategy", default="grid", show_default=True, help="Of grid, random, halving.")
@click.option("--points", type=int, metavar="N", help="Draw so many points of the grid; for random and halving.")
@click.option("--warm-start", is_flag=True, help="Start each λ from the next larger one: faster, less exact.")
@click.option("--jobs", type=int, help="Processes, of one thread each; 1 by default, with --spark one for each core.")
@click.option("--devices", metavar="D,D", help="GPUs such as cuda:0,cuda:1, a process for each, instead of --jobs.")
@spark_option
@click.option("--seed", default=0, show_default=True, help="Seed of the folds, of the points drawn and of the starts.")
@click.option("--results", type=PATH, help="File that keeps what is finished; the same command goes on from it.")
@click.option("--plot", type=PATH, help="Heat map to write: PNG, SVG or PDF.")
@click.option("--refit", type=PATH, help="Folder for a model with the best values, fitted to all purchases.")
@format_option("table", "json", "csv")
def search(
    source: tuple[str, ...], results: Path | None, plot: Path | None, refit: Path | None, form: str, **options: Any
) -> None:
    """
    Measure numbers of co-clusters K and regularizations λ on held-out purchases of SOURCE.

    \b
    ocular search purchases.csv --client company --product sku --coclusters 10,20,50 --regularization 1,3,10
    ocular search purchases.csv --client company --product sku --jobs 4 --results search.jsonl --refit model
    ocular search purchases.parquet --client company --product sku --spark spark://host:7077 --results search.jsonl

    The best is the highest mean; the interpretable one has the fewest co-clusters within one standard error of it.

    \b
    grid     all points on all folds
    random   --points of them on all folds
    halving  all points on a part of the folds, the best third of them on more, and so on
    """
    from ocular.artifact import check_target
    from ocular.errors import ConfigError
    from ocular.evaluation.search import Grid
    from ocular.evaluation.search import search as measure_points
    from ocular.solver.devices import find_device
    from ocular.storage import check_writable

    grid = Grid(
        numbers(options["coclusters"], int, "--coclusters as whole numbers such as 10,20,50"),
        numbers(options["regularization"], float, "--regularization as numbers such as 1,3,10"),
        (False, True) if options["relative"] else (False,),
        (False, True) if options["bias"] else (False,),
        numbers(options["tol"], float, "--tol as numbers such as 1e-4,1e-3"),
    )
    grid.points()  # what can be refused is refused before the long part
    if plot is not None:
        from ocular.plots import check_picture_name, plot_search, save_figure

        check_writable(check_picture_name(plot))
    if refit is not None:
        check_target(refit)
        check_writable(refit)
    devices = None if options["devices"] is None else [find_device(name) for name in options["devices"].split(",")]
    if devices is not None and options["spark"] is not None:
        raise ConfigError("expected either --spark or --devices, got both; leave one out")
    history = read_history(source, options)
    chosen = {
        "metric": options["metric"],
        "M": options["at"],
        "folds": options["folds"],
        "strategy": options["strategy"],
        "n_points": options["points"],
        "random_state": options["seed"],
        "results": results,
        "warm_start": options["warm_start"],
        "progress": True,
    }
    try:
        if options["spark"] is None:
            found = measure_points(
                history, grid, n_jobs=1 if options["jobs"] is None else options["jobs"], devices=devices, **chosen
            )
        else:
            with spark_session(options["spark"]) as session:
                from ocular.spark import search as search_on_spark

                found = search_on_spark(history, grid, session, n_jobs=options["jobs"], **chosen)
    except KeyboardInterrupt:
        told = "nothing is kept without --results" if results is None else f"the same command goes on from {results}"
        click.echo(f"note: stopped; {told}", err=True)
        raise
    if form == "json":
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        click.echo(render([shown(row, found, form) for row in found.table()], form))
    if form == "table":
        click.echo(f"\n{heat_map_text(found)}\n")
        click.echo(f"best           {told_row(found.best, found)}")
        click.echo(f"interpretable  {told_row(found.interpretable, found)}")
        for advice in edges(found):
            click.echo(f"note: {advice}", err=True)
    if plot is not None:
        save_figure(plot, plot_search(found))
        click.echo(f"heat map in {plot}", err=True)
    if refit is not None:
        with redirect_stdout(sys.stderr):  # stdout is for the table
            refit_best(found.best.point, history, options["seed"], refit, devices[0] if devices else "cpu")


def refit_best(point: Point, history: Any, seed: int, folder: Path, device: str) -> None:
    """Fit to all purchases, find out what confidences are worth, save."""
    from dataclasses import asdict

    from ocular.model import OCuLaR

    model = OCuLaR(**asdict(point), random_state=seed, device=device)
    fit_and_report(lambda: model.fit(history))
    if not model.interrupted_:
        calibrate_and_report(model)
    model.save(folder)
    click.echo(f"saved to {folder}")


def shown(row: dict[str, Any], found: SearchResult, form: str) -> dict[str, Any]:
    """A row with as many digits as one reads; a table says only where a variant is on."""
    digits = {f"{found.metric}@{found.M}": 4, "error": 4, "seconds": 2}
    row = row | {name: round(row[name], n) for name, n in digits.items()}
    if form == "table":
        row |= {name: "yes" if row[name] else None for name in ("relative", "bias")}
        row["tol"] = f"{row['tol']:g}" if tells_tol(found) else None
    return row


def told_row(row: Row, found: SearchResult) -> str:
    point, error = row.point, f"± {row.error:.4f}"
    return (
        f"{point.n_coclusters} co-clusters, λ={point.regularization:g}{variant(point, found, ', ')}: "
        f"{found.metric}@{found.M} {row.mean:.4f} {error}"
    )


def edges(found: SearchResult) -> list[str]:
    """Where the best lies at the end of what was tried, a better one may lie beyond it."""
    best, advice = found.best.point, []
    for name, told in (("n_coclusters", "--coclusters"), ("regularization", "--regularization")):
        tried = sorted({getattr(row.point, name) for row in found.rows})
        value = getattr(best, name)
        if len(tried) > 1 and value in (tried[0], tried[-1]) and (name, value) not in ENDS:
            end, beyond = ("smallest", "smaller") if value == tried[0] else ("largest", "larger")
            advice.append(f"the best has the {end} {told} that was tried, {value:g}; try {beyond} ones too")
    return advice


def variant(point: Point, found: SearchResult, before: str = "") -> str:
    names = ["relative"] * point.relative + ["bias"] * point.bias + [f"tol={point.tol:g}"] * tells_tol(found)
    return before + ", ".join(names) if names else ""


def tells_tol(found: SearchResult) -> bool:
    """The default alone goes without saying."""
    from ocular.solver.config import FitConfig

    return {row.point.tol for row in found.rows} != {FitConfig.tol}


def heat_map_text(found: SearchResult) -> str:
    """K × λ in shades, with the numbers where they fit on a line; a block for each variant."""
    means = {row.point: row.mean for row in found.rows}
    low, high = min(means.values()), max(means.values())
    blocks = []
    for kind in sorted({point.variant for point in means}):
        points = {(p.n_coclusters, p.regularization): p for p in means if p.variant == kind}
        lambdas = sorted({point.regularization for point in points.values()})
        written = len(lambdas) <= WRITTEN
        width = max(8, *(len(f"{value:g}") + 1 for value in lambdas)) if written else 3
        name = variant(next(iter(points.values())), found)
        lines = [f"{name}{': ' * bool(name)}{found.metric}@{found.M}, co-clusters down, regularization across"]
        if written:
            lines.append("      " + "".join(f"{value:g} ".rjust(width) for value in lambdas).rstrip())
        else:
            first, last = f"{lambdas[0]:g}", f"{lambdas[-1]:g}"
            lines.append("      " + first + last.rjust(width * len(lambdas) - len(first) - 1))
        for K in sorted({point.n_coclusters for point in points.values()}):
            cells = []
            for value in lambdas:
                point = points.get((K, value))
                if point is None:
                    cells.append("·".center(width))
                    continue
                share = (means[point] - low) / (high - low) if high > low else 1.0
                shade = SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]
                mark = "*" if point == found.best.point else "+" if point == found.interpretable.point else " "
                number = f"{means[point]:.3f}".removeprefix("0") if written else ""
                cells.append(f"{shade * 2}{number}{mark}".rjust(width))
            lines.append(f"{K:5} {''.join(cells)}".rstrip())
        blocks.append("\n".join(lines))
    also = "" if found.best == found.interpretable else "   + interpretable"
    return "\n\n".join([*blocks, f"* best{also}   {SHADES} from {low:.3f} to {high:.3f}"])
