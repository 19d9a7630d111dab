"""
What each kind of evidence adds: patterns, links and peers alone, in pairs and all together.

python experiments/ablation.py --data DIR [--instances 3]

Weights, penalties and popularity are chosen on a validation part of the first instance's training data, for each row
anew. Rows without patterns have a single co-cluster whose memberships are regularized away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import draw_lines, parse, save

from ocular.data.datasets import citeulike, movielens, online_retail
from ocular.evaluation.protocol import Method, compare
from ocular.synthetic import b2b

M = 50
PATTERNS = {"n_coclusters": 100, "regularization": 30.0, "tol": 1e-3}
NO_PATTERNS = {"n_coclusters": 1, "regularization": 1e9}
LINKS = {"links": "auto", "link_regularization": "auto", "popularity": "auto"}
PEERS = {"peers": "auto", "peer_regularization": "auto", "popularity": "auto"}
NO_LINKS, NO_PEERS = {"links": 0.0}, {"peers": 0.0}
ROWS: dict[str, dict[str, Any]] = {
    "patterns": PATTERNS | NO_LINKS | NO_PEERS,
    "links": NO_PATTERNS | LINKS | NO_PEERS,
    "peers": NO_PATTERNS | NO_LINKS | PEERS,
    "patterns, links": PATTERNS | LINKS | NO_PEERS,
    "patterns, peers": PATTERNS | NO_LINKS | PEERS,
    "links, peers": NO_PATTERNS | LINKS | PEERS,
    "all": PATTERNS | LINKS | PEERS,
}


def main() -> None:
    given = parse(__doc__, instances=3)
    sets: dict[str, Any] = {"B2B": lambda: b2b(300, 60, random_state=0).interactions}
    if not given.quick:
        sets = {
            "MovieLens-1M": lambda: movielens(given.data / "movielens-1m", min_rating=3),
            "CiteULike-a": lambda: citeulike(given.data / "citeulike-a"),
            "Online Retail": lambda: online_retail(given.data / "online-retail"),
        }
    results: dict[str, Any] = {}
    for name, load in sets.items():
        data, results[name] = load(), {}
        print(f"{name}: mean of {given.instances} instances, recall@{M} / MAP@{M}", flush=True)
        for title, parameters in ROWS.items():
            found = compare(data, [Method("evidence", [parameters])], instances=given.instances, M=M).results[0]
            recall, precision = (found.mean(metric, M) for metric in ("recall", "map"))
            results[name][title] = {"recall": recall, "map": precision, "parameters": dict(found.parameters)}
            print(f"  {title:18}{recall:.4f} / {precision:.4f}", flush=True)
    places, titles = np.arange(len(ROWS)), list(ROWS)
    panels = {
        f"{title}@{M}": {name: (places, [rows[row][metric] for row in titles]) for name, rows in results.items()}
        for title, metric in (("recall", "recall"), ("MAP", "map"))
    }
    labels = [title.replace(", ", ",\n") for title in titles]
    save(given, "ablation", results, draw_lines(panels, "Kinds of evidence", "", xticks=places, xticklabels=labels))


if __name__ == "__main__":
    main()
