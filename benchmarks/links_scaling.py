"""
What product links cost per positive, against the size of the data: for growing parts of the purchases, where baskets
grow too, and for growing parts of the clients, where they do not.

python benchmarks/links_scaling.py --data DIR    public sets and made-up ones, with a picture; about 3 minutes
python benchmarks/links_scaling.py --quick       small made-up data; nothing is written

Candidates are counted for each pair of purchases of a client, Σ_u |bought(u)|² in all; passes over a product's table
cost its buyers × its candidates, at most 500. Parts are fitted in turns, and the cheapest of three fits counts, by the
time of all cores together, which other programs disturb less than the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from common import RESULTS, add_data_option, citeulike_a, costs, movielens_1m, parser, save
from matplotlib.figure import Figure

from ocular import Interactions
from ocular.data.datasets import online_retail
from ocular.evidence import EvidenceConfig, fit_product_links
from ocular.plots import save_figure
from ocular.plots.drawing import new_picture, set_title, style_axes, theme_named
from ocular.solver.config import FitConfig
from ocular.synthetic import b2b

FRACTIONS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
PURCHASES, CLIENTS = PARTS = ("purchases", "clients")
EVIDENCE = EvidenceConfig(links=1.0, link_regularization=100.0)
PER_POSITIVE, PER_PAIR = "microseconds per positive", "nanoseconds per pair"
MARKERS = "oDs^"

Rows = dict[str, dict[float, dict[str, float]]]  # kind of part -> fraction -> what was measured


def take_part(data: Interactions, part: str, fraction: float) -> Interactions:
    """A random part of the purchases, or all purchases of a random part of the clients."""
    rng = np.random.default_rng(0)
    if part == PURCHASES:
        return data.where(rng.random(data.nnz) < fraction)
    return data.where((rng.random(data.n_users) < fraction)[data.pair_users])


def fit(data: Interactions) -> None:
    fit_product_links(data, EVIDENCE, FitConfig())


def measure(name: str, data: Interactions) -> Rows:
    parts = {(part, fraction): take_part(data, part, fraction) for part in PARTS for fraction in FRACTIONS}
    for smaller in parts.values():
        smaller.by_item  # noqa: B018  built once, outside of the clock
    found = costs({key: partial(fit, smaller) for key, smaller in parts.items()})
    rows: Rows = {part: {} for part in PARTS}
    for (part, fraction), smaller in parts.items():
        took, pairs = found[part, fraction].cores, float((smaller.by_user.degrees.astype(np.float64) ** 2).sum())
        row = {"positives": smaller.nnz, "pairs": pairs, "seconds": took}
        rows[part][fraction] = row | {PER_POSITIVE: 1e6 * took / smaller.nnz, PER_PAIR: 1e9 * took / pairs}
        print(f"{name:15}{fraction:>5.0%} of the {part:10}{smaller.nnz:>11,} positives {took:>8.3f} s "
              f"{1e6 * took / smaller.nnz:>7.2f} µs per positive {1e9 * took / pairs:>7.2f} ns per pair")  # fmt: skip
    for part in PARTS:
        first, last = rows[part][FRACTIONS[0]], rows[part][1.0]
        size, growth = (last[column] / first[column] for column in ("positives", PER_POSITIVE))
        print(f"{name:15}{size:.0f} times the positives by more {part}: {growth:.2f} times the cost per positive")
    return rows


def draw(results: dict[str, Rows]) -> Figure:
    colors = theme_named("light")
    figure = new_picture((10.0, 4.4), colors)
    for at, part in enumerate(PARTS, start=1):
        axes = figure.add_subplot(1, len(PARTS), at)
        for (name, rows), color, marker in zip(results.items(), colors.palette, MARKERS, strict=False):
            xs, ys = ([row[column] for row in rows[part].values()] for column in ("positives", PER_POSITIVE))
            axes.plot(xs, ys, color=color, marker=marker, ms=5, lw=1.6, label=name, zorder=3)
        axes.set(xlabel="positives", ylabel=PER_POSITIVE, xscale="log", ylim=0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        style_axes(axes, colors)
        set_title(axes, f"Links, for parts of the {part}", colors)
        if at == 1:
            axes.legend(frameon=False, fontsize=9, labelcolor=colors.ink)
    return figure


def datasets(data: Path | None, quick: bool) -> dict[str, Callable[[], Interactions]]:
    if quick or data is None:
        return {"made up": lambda: b2b(4000, 300, random_state=0).interactions}
    return {
        "MovieLens-1M": lambda: movielens_1m(data),
        "CiteULike-a": lambda: citeulike_a(data),
        "Online Retail": lambda: online_retail(data / "online-retail"),
        "made up": lambda: b2b(80_000, 3000, random_state=0).interactions,
    }


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments, required=False)
    arguments.add_argument("--quick", action="store_true")
    given = arguments.parse_args()
    if given.data is None and not given.quick:
        arguments.error("expected --data DIR or OCULAR_DATA with the public data sets, or --quick")
    fit(b2b(300, 60, random_state=0).interactions)  # compiles
    results = {name: measure(name, load()) for name, load in datasets(given.data, given.quick).items()}
    figure = draw(results)
    if not given.quick:
        save("links_scaling", {"candidates": EVIDENCE.n_links, "results": results})
        save_figure(RESULTS / "links_scaling.png", figure)


if __name__ == "__main__":
    main()
