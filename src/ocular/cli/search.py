"""ocular search: find the number of co-clusters and the regularization."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.fit import fit_and_report, save_and_calibrate
from ocular.cli.parameters import AUTO, parameter_option
from ocular.cli.present import Interrupted, format_option, render
from ocular.cli.reading import interactions_options, numbers, read_interactions, spark_option, spark_session

if TYPE_CHECKING:
    from ocular.evaluation.search import GridPoint, SearchResult, SearchRow

SHADES = "░▒▓█"
MAX_NUMBERED = 12  # values of λ in a heat map with numbers; more would not fit on a line
LIMITS = (("n_coclusters", 1), ("regularization", 0.0))  # there are no smaller values
WEIGHTS = ("links", "peers", "popularity", "link_regularization", "peer_regularization")
PATH = click.Path(path_type=Path)


@click.command(short_help="Find the number of co-clusters and the regularization.")
@interactions_options
@click.option("--coclusters", default="10,20,50,100", show_default=True, metavar="K,…", help="Values to try.")
@click.option("--regularization", default="1,3,10,30,100", show_default=True, metavar="λ,…", help="Values to try.")
@click.option("--relative", is_flag=True, help="Try R-OCuLaR too.")
@click.option("--bias", is_flag=True, help="Try biases too.")
@parameter_option("--tol", metavar="T,…", help="Tolerances to try; a larger one stops earlier.")
@click.option(
    "--links", default=AUTO, show_default=True, metavar="auto|0", help="Measure with links and peers, or without."
)
@click.option("--link-regularization", type=float, metavar="μ", help="Penalty of links.  [default: chosen]")
@click.option("--peer-regularization", type=float, metavar="ν", help="Penalty of peers.  [default: chosen]")
@click.option("--folds", default=5, show_default=True, help="Parts to hold out in turn; 1 holds out a quarter once.")
@click.option("--metric", default="recall", show_default=True, help="Metric: recall, map, ndcg or precision.")
@click.option("--at", default=50, show_default=True, metavar="M", help="Recommendations per client.")
@click.option("--strategy", default="grid", show_default=True, help="Strategy: grid, random or halving.")
@click.option("--points", type=int, metavar="N", help="Size of the random sample of the grid, for random and halving.")
@click.option("--warm-start", is_flag=True, help="Start each λ from the next larger one: faster, less exact.")
@click.option("--jobs", type=int, metavar="N", help="Processes of one thread each.  [default: 1; all cores on Spark]")
@click.option("--devices", metavar="D,…", help="GPUs such as cuda:0,cuda:1, a process for each, instead of --jobs.")
@spark_option
@click.option("--seed", default=0, show_default=True, help="Seed of the folds, of the sample and of the random starts.")
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

    Points are measured with links and peers. Their weights are chosen for every point on the same held-out purchases,
    without another fit. --links 0 measures patterns alone, the model of the paper.

    \b
    grid     all combinations on all folds
    random   a random sample of --points combinations on all folds
    halving  all combinations on some of the folds, the best third of them on more, and so on
    """
    from ocular.artifact import check_target
    from ocular.errors import ConfigError
    from ocular.evaluation.search import Grid
    from ocular.evaluation.search import search as measure_points
    from ocular.solver.devices import find_device
    from ocular.storage import check_writable

    tolerances = (
        None if options["tol"] is None else numbers(options["tol"], float, "--tol as numbers such as 1e-4,1e-3")
    )
    grid = Grid(
        numbers(options["coclusters"], int, "--coclusters as whole numbers such as 10,20,50"),
        numbers(options["regularization"], float, "--regularization as numbers such as 1,3,10"),
        (False, True) if options["relative"] else (False,),
        (False, True) if options["bias"] else (False,),
        **({} if tolerances is None else {"tol": tolerances}),
    )
    grid.points()  # raises for a bad value before the long part
    if plot is not None:
        from ocular.plots import check_picture_name, plot_search, save_figure

        check_writable(check_picture_name(plot))
    if refit is not None:
        check_target(refit)
        check_writable(refit)
    devices = None if options["devices"] is None else [find_device(name) for name in options["devices"].split(",")]
    if devices is not None and options["spark"] is not None:
        raise ConfigError("expected either --spark or --devices, got both; leave one out")
    interactions = read_interactions(source, options)
    settings = {
        "metric": options["metric"],
        "M": options["at"],
        "folds": options["folds"],
        "strategy": options["strategy"],
        "n_points": options["points"],
        "random_state": options["seed"],
        "results": results,
        "warm_start": options["warm_start"],
        "links": weight_of_links(options["links"]),
        "link_regularization": options["link_regularization"],
        "peer_regularization": options["peer_regularization"],
        "progress": True,
    }
    try:
        if options["spark"] is None:
            n_jobs = 1 if options["jobs"] is None else options["jobs"]
            result = measure_points(interactions, grid, n_jobs=n_jobs, devices=devices, **settings)
        else:
            with spark_session(options["spark"]) as session:
                from ocular.spark import search as search_on_spark

                result = search_on_spark(interactions, grid, session, n_jobs=options["jobs"], **settings)
    except KeyboardInterrupt:
        kept = "nothing is kept without --results" if results is None else f"the same command goes on from {results}"
        raise Interrupted(f"the search is not finished; {kept}") from None
    if form == "json":
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        click.echo(render([rounded(row, result, form) for row in result.table()], form))
    if form == "table":
        click.echo(f"\n{heat_map_text(result)}\n")
        click.echo(f"best           {describe(result.best, result)}")
        click.echo(f"interpretable  {describe(result.interpretable, result)}")
        for advice in edge_advice(result):
            click.echo(f"note: {advice}", err=True)
    if plot is not None:
        save_figure(plot, plot_search(result))
        click.echo(f"heat map in {plot}", err=True)
    if refit is not None:
        with redirect_stdout(sys.stderr):  # stdout is for the table
            refit_best(result.best_params_, interactions, options["seed"], refit, devices[0] if devices else "cpu")


def weight_of_links(text: str) -> float | str:
    """Return the number that was given, or the text for the search to judge."""
    try:
        return float(text)
    except ValueError:
        return text


def refit_best(params: dict[str, Any], interactions: Any, seed: int, folder: Path, device: str) -> None:
    """Fit the best parameters to all purchases, calibrate and save the model."""
    from ocular.model import OCuLaR

    model = OCuLaR(**params, random_state=seed, device=device)
    fit_and_report(lambda: model.fit(interactions))
    save_and_calibrate(model, folder)
    click.echo(f"saved to {folder}")


def rounded(row: dict[str, Any], result: SearchResult, form: str) -> dict[str, Any]:
    """Return a row with as many digits as people read; a table shows variants only where they are on."""
    digits = {f"{result.metric}@{result.M}": 4, "error": 4, "seconds": 2}
    row = row | {name: round(row[name], n) for name, n in digits.items()}
    if form == "table":
        row |= {name: "yes" if row[name] else None for name in ("relative", "bias")}
        row["tol"] = f"{row['tol']:g}" if several_tols(result) else None
        row |= {name: f"{row[name]:g}" for name in WEIGHTS if name in row}
    return row


def describe(row: SearchRow, result: SearchResult) -> str:
    """Return a row in words."""
    point = row.point
    named = {} if row.weights is None else row.weights._asdict()
    weights = "".join(f", {name.replace('_', ' ')} {value:g}" for name, value in named.items())
    return (
        f"{point.n_coclusters} co-clusters, λ={point.regularization:g}{variant(point, result, ', ')}: "
        f"{result.metric}@{result.M} {row.mean:.4f} ± {row.error:.4f}{weights}"
    )


def edge_advice(result: SearchResult) -> list[str]:
    """Return advice where the best lies at the edge of the grid: a better one may lie beyond it."""
    best, advice = result.best.point, []
    for name, option in (("n_coclusters", "--coclusters"), ("regularization", "--regularization")):
        tried = sorted({getattr(row.point, name) for row in result.rows})
        value = getattr(best, name)
        if len(tried) > 1 and value in (tried[0], tried[-1]) and (name, value) not in LIMITS:
            end, beyond = ("smallest", "smaller") if value == tried[0] else ("largest", "larger")
            advice.append(f"the best has the {end} {option} that was tried, {value:g}; try {beyond} ones too")
    return advice


def variant(point: GridPoint, result: SearchResult, before: str = "") -> str:
    """Return what distinguishes a variant, in words; nothing for the plain one."""
    names = ["relative"] * point.relative + ["bias"] * point.bias + [f"tol={point.tol:g}"] * several_tols(result)
    return before + ", ".join(names) if names else ""


def several_tols(result: SearchResult) -> bool:
    """Return whether the tolerance is worth showing: not where only the default was tried."""
    from ocular.solver.config import FitConfig

    return {row.point.tol for row in result.rows} != {FitConfig.tol}


def heat_map_text(result: SearchResult) -> str:
    """Return K × λ in shades, with the numbers where they fit on a line; a block for each variant."""
    means = {row.point: row.mean for row in result.rows}
    low, high = min(means.values()), max(means.values())
    blocks = []
    for kind in sorted({point.variant for point in means}):
        points = {(p.n_coclusters, p.regularization): p for p in means if p.variant == kind}
        lambdas = sorted({point.regularization for point in points.values()})
        numbered = len(lambdas) <= MAX_NUMBERED
        width = max(8, *(len(f"{value:g}") + 1 for value in lambdas)) if numbered else 3
        name = variant(next(iter(points.values())), result)
        lines = [f"{name}{': ' * bool(name)}{result.measure}, co-clusters down, regularization across"]
        if numbered:
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
                mark = "*" if point == result.best.point else "+" if point == result.interpretable.point else " "
                number = f"{means[point]:.3f}".removeprefix("0") if numbered else ""
                cells.append(f"{shade * 2}{number}{mark}".rjust(width))
            lines.append(f"{K:5} {''.join(cells)}".rstrip())
        blocks.append("\n".join(lines))
    also = "" if result.best == result.interpretable else "   + interpretable"
    return "\n\n".join([*blocks, f"* best{also}   {SHADES} from {low:.3f} to {high:.3f}"])
