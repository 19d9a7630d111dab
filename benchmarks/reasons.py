"""
Whether reasons of all three kinds are the model, and how much of a score their sentences show, on Online Retail.

- sums: contributions of 1,000 random (client, recommended product) pairs and the base against z in float64;
- shown: the share of z that the text shows, by the client's number of products: links count with the products that they
  name, a pattern and peers with their contribution;
- deletion: the purchases that a reason of each kind names (links and patterns), or that the similar clients have in
  common with the client (peers), are taken away, and the client is folded in again: by how much z falls, against as
  many random other purchases. And the same for the purchase with the largest share in `by_product()` against one other.

python benchmarks/reasons.py --data DIR
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from common import add_data_option, parser, save

from ocular import OCuLaR
from ocular.data.datasets import online_retail
from ocular.explain.reasons import Explanation, Reason

PAIRS, OF_EACH_SIZE, RECOMMENDED, CASES = 1000, 250, 10, 150
SIZES = {"< 20": (1, 20), "20-50": (20, 50), "50-200": (50, 200), "> 200": (200, 10**9)}
TARGETS = {"< 20": 0.9, "20-50": 0.85, "50-200": 0.75, "> 200": 0.5}
KINDS = ("pattern", "links", "peers")
WEIGHTS = {"links": 2.0, "peers": 0.5, "link_regularization": 100}


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    data = online_retail(arguments.parse_args().data / "online-retail")
    model = OCuLaR(100, 30, **WEIGHTS, tol=1e-3, random_state=0).fit(data)
    rng = np.random.default_rng(0)

    users = rng.choice(data.n_users, PAIRS, replace=False)
    explanations = [explain_one(model, int(user), rng) for user in users]
    off = max(difference(model, explanation) for explanation in explanations)
    print(f"{PAIRS} recommendations: contributions and base differ from z by at most {off:.1e} (target: < 1e-5)")

    shown = {size: shares_shown(model, *limits, rng) for size, limits in SIZES.items()}
    print("products of the client   clients   share of z shown (median, lower quartile)   reasons   characters")
    for size, row in shown.items():
        print(
            f"  {size:21}  {row['clients']:>8}   {row['median']:.1%}, {row['quartile']:.1%} "
            f"(target ≥ {TARGETS[size]:.0%})   {row['reasons']:>16.1f}   {row['characters']:>10.0f}"
        )

    falls = {kind: deletion(model, of_kind(explanations, kind), rng) for kind in KINDS}
    falls["largest share in by_product"] = deletion(model, of_largest_share(explanations), rng)
    print("removed purchases of …             cases   z falls   by (median)   random ones: falls   by (median)")
    for name, row in falls.items():
        print(
            f"  {name:31}  {row['cases']:>6}   {row['falls']:>7.1%}   {row['by']:>11.1%}   "
            f"{row['random_falls']:>18.1%}   {row['random_by']:>11.1%}"
        )
    save("reasons", {"pairs": PAIRS, "largest_difference": off, "shown": shown, "deletion": falls})


def explain_one(model: OCuLaR, user: int, rng: np.random.Generator) -> Explanation:
    """Explain one of the user's first recommendations, chosen at random."""
    ids = model.recommend(user, N=RECOMMENDED)[0]
    return model.explain(user, int(rng.choice(ids[ids >= 0])))


def difference(model: OCuLaR, explanation: Explanation) -> float:
    """Return the relative difference of the contributions' sum and z by the formula, in float64."""
    assert explanation.user is not None
    user, item, evidence = explanation.user, explanation.item, model.evidence()
    config, data = evidence.config, model.interactions_
    f_u, f_i = (f[[r]].toarray()[0].astype(np.float64) for f, r in
                ((model.user_factors_, user), (model.item_factors_, item)))  # fmt: skip
    links = model.links_[:, [item]].toarray()[data.by_user[user], 0].astype(np.float64).sum()
    peers = model.peers_[:, [user]].toarray()[data.by_item[item], 0].astype(np.float64).sum()
    degrees = data.by_item.degrees
    scale = (degrees[item] / degrees.mean()) ** config.popularity / (1 + config.links + config.peers)
    z = scale * (f_u @ f_i + config.links * links + config.peers * peers) + explanation.base
    return abs(sum(reason.contribution for reason in explanation.reasons) + explanation.base - z) / z


def shares_shown(model: OCuLaR, low: int, high: int, rng: np.random.Generator) -> dict[str, float]:
    """Return what texts show of the score for clients with `low` to `high` products, and how long they are."""
    sizes = model.interactions_.by_user.degrees
    users = np.flatnonzero((sizes >= low) & (sizes < high))
    users = rng.choice(users, min(len(users), OF_EACH_SIZE), replace=False)
    explanations = [explain_one(model, int(user), rng) for user in users]
    summaries = [explanation.summary() for explanation in explanations]
    shares = [summary.shown_share for summary in summaries]
    return {
        "clients": len(users),
        "median": float(np.median(shares)),
        "quartile": float(np.quantile(shares, 0.25)),
        "reasons": float(np.mean([len(summary.shown_reasons) for summary in summaries])),
        "characters": float(np.median([len(explanation.text()) for explanation in explanations])),
    }


def of_kind(explanations: Iterable[Explanation], kind: str) -> list[tuple[Explanation, list[int]]]:
    """Return the purchases of the strongest reason of a kind, where the client has twice as many."""
    found = []
    for explanation in explanations:
        reason: Reason | None = next((each for each in explanation.reasons if each.kind == kind), None)
        if reason is not None and 0 < 2 * len(reason.named_items) <= len(explanation.client_items):
            found.append((explanation, reason.named_items))
    return found[:CASES]


def of_largest_share(explanations: Iterable[Explanation]) -> list[tuple[Explanation, list[int]]]:
    several = [explanation for explanation in explanations if len(explanation.client_items) > 1]
    return [(explanation, [next(iter(explanation.by_product()))]) for explanation in several if explanation.reasons][
        :CASES
    ]


def deletion(model: OCuLaR, cases: list[tuple[Explanation, list[int]]], rng: np.random.Generator) -> dict[str, float]:
    """Return how often and by how much z falls without the named purchases, and without as many others."""
    changes = []
    for explanation, named in cases:
        owned = explanation.client_items
        others = rng.choice(np.setdiff1d(owned, named), min(len(named), len(owned) - len(named)), replace=False)
        kept = owned, np.setdiff1d(owned, named), np.setdiff1d(owned, others)
        z = [affinity(model, items, explanation.item) for items in kept]
        changes.append((z[1] / z[0] - 1, z[2] / z[0] - 1))
    change = np.array(changes)
    (falls, random_falls), (by, random_by) = (change < 0).mean(axis=0), np.median(change, axis=0)
    return {
        "cases": len(changes),
        "falls": float(falls),
        "by": float(by),
        "random_falls": float(random_falls),
        "random_by": float(random_by),
    }


def affinity(model: OCuLaR, items: np.ndarray, item: int) -> float:
    """Return z of a client who is not in the model and has these items."""
    row = sp.csr_array((np.ones(len(items)), ([0] * len(items), items)), shape=(1, model.interactions_.n_items))
    explanation = model.explain(None, item, user_items=row)
    return sum(reason.contribution for reason in explanation.reasons) + explanation.base


if __name__ == "__main__":
    main()
