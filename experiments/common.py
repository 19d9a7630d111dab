"""What the experiments share: options, results on file, and lines in the colours of the product."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ocular.plots import save_figure
from ocular.plots.drawing import new_picture, set_title, style_axes, theme_named
from ocular.storage import write_file

RESULTS = Path(__file__).parent / "results"
MARKERS = "oDs^vPX*<"
MAX_INSIDE = 5  # lines whose names stand in the first panel

Line = tuple[Sequence[float], Sequence[float]]  # x, y


def parse(
    description: str | None, *, needs_data: bool = True, sets: Sequence[str] = (), **numbers: int | None
) -> argparse.Namespace:
    """Parse --data (or OCULAR_DATA), --output, --quick, --only one of `sets`, and whole numbers with their defaults."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = os.environ.get("OCULAR_DATA")
    if needs_data:
        arguments.add_argument("--data", type=Path, default=None if folder is None else Path(folder))
    if sets:
        arguments.add_argument("--only", choices=sets, help="one data set; the saved results of the others stay")
    for name, default in numbers.items():
        arguments.add_argument(f"--{name}", type=int, default=default)
    arguments.add_argument("--output", type=Path, default=RESULTS, help="folder for the JSON and the pictures")
    arguments.add_argument("--quick", action="store_true", help="small made-up data; nothing is written")
    given = arguments.parse_args()
    if needs_data and given.data is None and not given.quick:
        arguments.error("expected --data DIR or OCULAR_DATA with the public data sets, or --quick")
    return given


def save(given: argparse.Namespace, name: str, results: Mapping[str, Any], figure: Figure) -> None:
    """Write results/NAME.json and results/NAME.png, unless it was a quick run."""
    if given.quick:
        return
    write_file(given.output / f"{name}.json", lambda file: file.write((json.dumps(results, indent=2) + "\n").encode()))
    save_figure(given.output / f"{name}.png", figure)
    print(f"written: {name}.json and {name}.png in {given.output.name}/")


def saved_results(given: argparse.Namespace, name: str) -> dict[str, Any]:
    """Return what `save` wrote to results/NAME.json; nothing where there is none, or in a quick run."""
    path = given.output / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() and not given.quick else {}


def draw_lines(
    panels: Mapping[str, Mapping[str, Line]], title: str, x: str, *, n_rows: int = 1, **scales: Any
) -> Figure:
    """Draw a panel for each quantity, with a line for each method; `scales` are passed to the axes."""
    colors, n_columns = theme_named("light"), -(-len(panels) // n_rows)
    figure = new_picture((1.2 + 4.2 * n_columns, 4.4 * n_rows), colors)
    for at, (quantity, lines) in enumerate(panels.items()):
        axes = figure.add_subplot(n_rows, n_columns, at + 1)
        for number, (name, (xs, ys)) in enumerate(lines.items()):
            color = colors.palette[number % len(colors.palette)]
            marker, every = MARKERS[number % len(MARKERS)], max(1, len(xs) // 15)
            axes.plot(xs, ys, color=color, marker=marker, markevery=every, ms=5, lw=1.6, label=name, zorder=3)
        axes.set(xlabel=x, ylabel=quantity, **scales)
        if "xticks" in scales:
            axes.xaxis.minorticks_off()  # a logarithmic axis would label more than was asked for
        style_axes(axes, colors)
        if at == 0:
            set_title(axes, title, colors)
            if len(lines) <= MAX_INSIDE:
                axes.legend(frameon=False, fontsize=9, labelcolor=colors.ink)
            else:  # it would cover the lines
                handles, labels = axes.get_legend_handles_labels()
                place = {"loc": "outside lower center", "ncols": 3}
                figure.legend(handles, labels, frameon=False, fontsize=9, labelcolor=colors.ink, **place)
    return figure
