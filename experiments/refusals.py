"""
Refusals: does a model learn from what some clients declined, for clients who were never asked?

python experiments/refusals.py

A made-up market with known patterns, and on top of it promotions: followers of a pattern were sold a product that does
not belong to it, once. A model takes that for taste and recommends the product to the other followers. Sellers show the
recommendations to a third of the clients, who decline those of promotions and, where some do so by mistake, a tenth of
the right ones. The model is fitted again with their refusals, each as an unknown of weight c. c is chosen by the
feedback of another third, and measured on the last third, who declined nothing: recommendations of promotions that are
left, and right ones, which are in a pattern of the client.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from common import draw_lines, parse, save
from numpy.typing import NDArray

from ocular import Interactions, OCuLaR
from ocular.data.interactions import Adjacency
from ocular.data.splits import per_user_split
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

WEIGHTS, SEEDS, N = (1.0, 2.0, 5.0, 10.0, 20.0), 3, 10
PROMOTIONS, SOLD = 30, 0.4  # products, and the share of a pattern's followers who bought each
FEEDBACK = {"exact": 0.0, "some by mistake": 0.1}  # share of right recommendations that are declined, too
MODELS: dict[str, dict[str, Any]] = {
    "patterns": {},
    "patterns + links": {"links": 1.0, "link_regularization": 30.0},
    "patterns + links + peers": {"links": 1.0, "link_regularization": 30.0, "peers": 1.0},
}
Mask = NDArray[np.bool_]


class Market(NamedTuple):
    """Purchases, and what is true of every pair, clients × products."""

    purchases: Interactions
    right: Mask  # the product belongs to a pattern of the client
    promoted: Mask  # the client was offered the product in a promotion, and it is not right


def make_market(n_clients: int, n_products: int, n_promotions: int, seed: int) -> Market:
    """Return a made-up market in which products were promoted to followers of a pattern that they do not belong to."""
    made, rng = b2b(n_clients, n_products, random_state=seed), np.random.default_rng(seed)
    right = (made.rows.T.astype(int) @ made.columns.astype(int)) > 0
    bought, promoted = made.interactions.to_matrix().toarray() > 0, np.zeros(right.shape, dtype=bool)
    for product in rng.choice(n_products, n_promotions, replace=False):
        pattern = rng.choice(np.flatnonzero(~made.columns[:, product]))
        offered = made.rows[pattern] & ~right[:, product]
        promoted[offered, product] = True
        bought[:, product] |= offered & (rng.random(n_clients) < SOLD)
    return Market(Interactions.from_matrix(bought.astype(int)), right, promoted)


def count(model: OCuLaR, market: Market, clients: NDArray[np.int64]) -> dict[str, float]:
    """Return how many of the N recommendations per client are of promotions, and how many are right."""
    ids, _ = model.recommend(clients, N=N)
    return {
        "promoted": float(market.promoted[clients[:, None], ids].sum(axis=1).mean()),
        "right": float(market.right[clients[:, None], ids].sum(axis=1).mean()),
    }


def declined(
    model: OCuLaR, market: Market, clients: NDArray[np.int64], mistaken: float, rng: np.random.Generator
) -> Adjacency:
    """Return the recommendations that the clients are shown and decline: of promotions, and some by mistake."""
    ids, _ = model.recommend(clients, N=N)
    refused = np.zeros(market.right.shape, dtype=int)
    shown = np.repeat(clients, N), ids.ravel()
    refused[shown] = market.promoted[shown] | (market.right[shown] & (rng.random(ids.size) < mistaken))
    return Interactions.from_matrix(refused).by_user


def run(name: str, mistaken: float, size: tuple[int, int, int], K: int, seed: int) -> dict[str, Any]:
    """Return what each weight does for the clients whose feedback chooses it, and for those who were never asked."""
    market, rng = make_market(*size, seed), np.random.default_rng(seed)
    train, hidden = per_user_split(market.purchases, 0.2, seed)
    hidden = hidden.where(market.right[hidden.pair_users, hidden.by_user.indices])  # a promotion is no taste
    asked, choosing, others = np.array_split(rng.permutation(train.n_users), 3)
    usual = {"n_coclusters": K, "regularization": 3.0, "tol": 1e-3, "random_state": seed, "n_threads": 1}
    refusals = declined(OCuLaR(**usual | MODELS[name]).fit(train), market, asked, mistaken, rng)
    found: dict[str, Any] = {"refusals": len(refusals.indices)}
    for c in WEIGHTS:
        model = OCuLaR(**usual | MODELS[name], refusal_weight=c).fit(train.with_refusals(refusals))
        scores = measure(model, train, hidden, N, n_threads=1)
        among = np.isin(scores.users, others)
        found[f"{c:g}"] = {
            "choosing": count(model, market, choosing),
            "others": count(model, market, others) | {"recall": float(scores.per_user["recall"][among].mean())},
        }
    return found


def main() -> None:
    given = parse(__doc__, needs_data=False, seeds=SEEDS)
    size, K, seeds, names = (2000, 300, PROMOTIONS), 40, range(given.seeds), list(MODELS)
    if given.quick:
        size, K, seeds, names = (300, 60, 8), 8, range(1), names[1:2]
    results: dict[str, Any] = {}
    for feedback, mistaken in FEEDBACK.items():
        for name in names:
            runs = [run(name, mistaken, size, K, seed) for seed in seeds]
            results[f"{name}, {feedback}"] = summarize(f"{name}, {feedback}", runs)
    panels = {
        title: {
            name: (WEIGHTS, [found[f"{c:g}"]["others"][metric] for c in WEIGHTS]) for name, found in results.items()
        }
        for title, metric in (
            (f"promoted among {N}", "promoted"), (f"right among {N}", "right"), (f"recall@{N}", "recall")
        )
    }  # fmt: skip
    save(given, "refusals", results, draw_lines(panels, "Clients who were never asked", "weight c of a refusal"))


def summarize(title: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Print and return the means over runs, and the weight that the feedback of those who choose prefers."""
    result: dict[str, Any] = {"refusals": float(np.mean([each["refusals"] for each in runs]))}
    print(f"{title}: {result['refusals']:.0f} refusals; of {N} recommendations to clients never asked")
    gains = {}
    for c in WEIGHTS:
        means: dict[str, Any] = defaultdict(dict)
        for group in ("choosing", "others"):
            for metric in runs[0][f"{c:g}"][group]:
                means[group][metric] = float(np.mean([each[f"{c:g}"][group][metric] for each in runs]))
        result[f"{c:g}"], others = means, means["others"]
        # what a seller counts: recommendations that are right, less those that will be declined
        gains[c] = means["choosing"]["right"] - means["choosing"]["promoted"]
        print(
            f"  c {c:4g}  promoted {others['promoted']:.3f}  right {others['right']:.3f}  "
            f"recall@{N} {others['recall']:.4f}   (right - promoted of those who choose: {gains[c]:.3f})",
            flush=True,
        )
    result["chosen"] = max(gains, key=lambda c: gains[c])
    print(f"  chosen by held-out feedback: c = {result['chosen']:g}")
    return result


if __name__ == "__main__":
    main()
