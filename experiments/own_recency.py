"""
Do a client's recent purchases say more by their links than older ones? By date, beside the trend.

python experiments/own_recency.py --data DIR

Online Retail, the dates of by_date.py. In the sum of links every purchase of the client counts 2^(−age / half-life),
its age in days before the client's newest purchase, or before the newest of all; the fit is the same. Clients without
earlier purchases are left out.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from by_date import DATES, M, until
from cold_start import Ranker
from common import draw_lines, parse, save

from ocular import Interactions, OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import time_split
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

HALF_LIVES = (30.0, 60.0, 90.0, 180.0, 365.0)
DAY = np.timedelta64(1, "D")


class Ages(NamedTuple):
    """The age of every pair in days, before the client's newest purchase and before the newest of all."""

    own: np.ndarray
    overall: np.ndarray


def main() -> None:
    given = parse(__doc__)
    logging.getLogger("ocular").setLevel(logging.ERROR)
    if given.quick:
        data, dates, size = b2b(300, 60, random_state=0).interactions, ("2023-07-01",), (8, 2.0)
    else:
        data, dates, size = online_retail(given.data / "online-retail"), DATES, (100, 30.0)
    results: dict[str, Any] = {}
    for date in dates:
        train, test = time_split(until(data, date), date)
        known = train.by_user.degrees > 0
        test = test.where(known[test.pair_users])
        model = OCuLaR(*size, links="auto", tol=1e-3, random_state=0).fit(train)
        rows = {"equal": np.ones(train.nnz)}
        for name, ages in zip(Ages._fields, ages_of(train), strict=True):
            rows |= {f"{name}, {half_life:g} days": 2.0 ** (-ages / half_life) for half_life in HALF_LIVES}
        for name, weights in rows.items():
            found = measure(Ranker(scores(model, weights)), train, test, M)
            recall, precision = found.mean("recall", M), found.mean("map", M)
            results.setdefault(name, {})[date] = {"recall": recall, "map": precision}
            print(f"{date} {name:20} recall@{M} {recall:.4f} MAP@{M} {precision:.4f}", flush=True)
    means = {
        name: [np.mean([each[m] for each in by.values()]) for m in ("recall", "map")] for name, by in results.items()
    }
    for name, (recall, precision) in means.items():
        print(f"mean of {len(dates)} dates {name:20} {recall:.4f} {precision:.4f}")
    panels = {
        f"{title}@{M}": {
            name: (HALF_LIVES, [means[f"{name}, {half_life:g} days"][place] for half_life in HALF_LIVES])
            for name in Ages._fields
        }
        | {"equal": (HALF_LIVES, [means["equal"][place]] * len(HALF_LIVES))}
        for place, title in enumerate(("recall", "MAP"))
    }
    save(given, "own_recency", results, draw_lines(panels, "Own purchases by age, in links", "half-life in days"))


def ages_of(train: Interactions) -> Ages:
    """Return the age of the last purchase of every pair."""
    purchases: Any = train.purchases  # which have dates
    last = np.full(train.nnz, purchases.time.min())
    np.maximum.at(last, purchases.pair, purchases.time)
    latest = np.full(train.n_users, last.min())
    np.maximum.at(latest, train.pair_users, last)
    return Ages((latest[train.pair_users] - last) / DAY, (last.max() - last) / DAY)


def scores(model: OCuLaR, weights: np.ndarray) -> np.ndarray:
    """Return z of all clients and products, less the background, with these weights of purchases in the links."""
    evidence, data = model.evidence(), model.interactions_
    n_coclusters, n_linked = evidence.sizes[:2]
    rows = evidence.rows_of(np.arange(data.n_users))
    if n_linked:
        owned = sp.csr_array((weights.astype(np.float32), data.by_user.indices, data.by_user.indptr), shape=data.shape)
        rows = sp.hstack([rows[:, :n_coclusters], owned, rows[:, n_coclusters + n_linked :]], format="csr")
    return (rows @ evidence.item_rows.T).toarray()


if __name__ == "__main__":
    main()
