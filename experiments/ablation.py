"""
What each kind of evidence adds: patterns, links and peers alone, in pairs and all together.

python experiments/ablation.py --data DIR [--only "Online Retail"] [--instances 3]

Weights and penalties are chosen on a validation part of the first instance's training data, for each row anew; only
the last row may also choose how much bestsellers count. Peers that add less than 0.3 % are left out, so that two rows
may be the same. Rows without patterns have a single co-cluster whose memberships are regularized away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from common import parse, save, saved_results
from matplotlib.figure import Figure

from ocular.data.datasets import citeulike, movielens, online_retail
from ocular.evaluation.protocol import Method, compare
from ocular.plots.drawing import new_picture, set_title, style_axes, theme_named
from ocular.synthetic import b2b

M = 50
SETS = ("MovieLens-1M", "CiteULike-a", "Online Retail")
PATTERNS = {"n_coclusters": 100, "regularization": 30.0, "tol": 1e-3}
NO_PATTERNS = {"n_coclusters": 1, "regularization": 1e9}
LINKS = {"links": "auto", "link_regularization": "auto", "popularity": 0.0}
PEERS = {"peers": "auto", "peer_regularization": "auto", "popularity": 0.0}
NO_LINKS, NO_PEERS = {"links": 0.0}, {"peers": 0.0}
ROWS: dict[str, dict[str, Any]] = {
    "patterns": PATTERNS | NO_LINKS | NO_PEERS,
    "links": NO_PATTERNS | LINKS | NO_PEERS,
    "peers": NO_PATTERNS | NO_LINKS | PEERS,
    "patterns, links": PATTERNS | LINKS | NO_PEERS,
    "patterns, peers": PATTERNS | NO_LINKS | PEERS,
    "links, peers": NO_PATTERNS | LINKS | PEERS,
    "all three": PATTERNS | LINKS | PEERS,
    "all, popularity": PATTERNS | LINKS | PEERS | {"popularity": "auto"},
}


def main() -> None:
    given = parse(__doc__, sets=SETS, instances=3)
    sets: dict[str, Any] = {"B2B": lambda: b2b(300, 60, random_state=0).interactions}
    if not given.quick:
        sets = {
            "MovieLens-1M": lambda: movielens(given.data / "movielens-1m", min_rating=3),
            "CiteULike-a": lambda: citeulike(given.data / "citeulike-a"),
            "Online Retail": lambda: online_retail(given.data / "online-retail"),
        }
    results = saved_results(given, "ablation")
    for name, load in sets.items():
        if given.only in (None, name) or given.quick:
            results[name] = measure(name, load(), given.instances)
    save(given, "ablation", results, draw(results))


def measure(name: str, data: Any, instances: int) -> dict[str, Any]:
    """Return recall, MAP and the parameters that were chosen for each row."""
    rows = {}
    print(f"{name}: mean of {instances} instances, recall@{M} / MAP@{M}", flush=True)
    for title, parameters in ROWS.items():
        found = compare(data, [Method("evidence", [parameters])], instances=instances, M=M).results[0]
        recall, precision = (found.mean(metric, M) for metric in ("recall", "map"))
        rows[title] = {"recall": recall, "map": precision, "parameters": dict(found.parameters)}
        print(f"  {title:18}{recall:.4f} / {precision:.4f}", flush=True)
    return rows


def draw(results: Mapping[str, Any]) -> Figure:
    """Draw the rows as bars with their numbers, a column for each data set."""
    colors, titles = theme_named("light"), list(ROWS)
    metrics = (("recall", f"recall@{M}"), ("map", f"MAP@{M}"))
    figure = new_picture((1.6 + 3.4 * len(results), 7.0), colors)
    for at, (name, rows) in enumerate(results.items()):
        for line, (metric, label) in enumerate(metrics):
            axes = figure.add_subplot(len(metrics), len(results), line * len(results) + at + 1)
            style_axes(axes, colors)
            values = [rows[title][metric] for title in titles]
            bars = axes.barh(np.arange(len(titles)), values, color=colors.palette[0], zorder=3)
            axes.bar_label(bars, fmt="%.4f", padding=3, fontsize=8, color=colors.ink)
            axes.set(xlabel=label, yticks=np.arange(len(titles)), yticklabels=titles if at == 0 else [])
            axes.margins(x=0.22)
            axes.invert_yaxis()
            if line == 0:
                set_title(axes, name, colors)
    return figure


if __name__ == "__main__":
    main()
