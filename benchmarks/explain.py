"""
Whether explanations are the model and not a story about it, on MovieLens-1M (and how fast they come, on Online Retail).

- sums: contributions of 1,000 random (client, recommended product) pairs against ⟨f_u, f_i⟩ in float64;
- faithfulness: the strongest reason's purchases are taken from the client, who is folded in again; the recommended
  product must lose score. Beside it: as many other purchases of the same client, chosen at random from those that no
  reason names, and from all that the strongest one does not name (the other reasons' are among them);
- speed: two hundred explanations as text, with price and hit rate, of a loaded model.

python benchmarks/explain.py --data DIR
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import add_data_option, movielens_1m, parser, save, seconds

from ocular import Advisor, OCuLaR
from ocular.data.datasets import online_retail
from ocular.evaluation.calibration import calibrate

PAIRS, K, REGULARIZATION = 1000, 100, 30.0
EXPLANATIONS, OF_EACH = 200, 5


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    given = arguments.parse_args()
    model = OCuLaR(K, REGULARIZATION, random_state=0).fit(movielens_1m(given.data))
    rng = np.random.default_rng(0)
    users = rng.choice(model.interactions_.n_users, PAIRS, replace=False)
    items = model.recommend(users, N=10)[0][np.arange(PAIRS), rng.integers(10, size=PAIRS)]

    off = largest_difference(model, users, items)
    print(f"{PAIRS} pairs: contributions differ from ⟨f_u, f_i⟩ by at most {off:.1e} relative (target: < 1e-5)")

    falls = faithfulness(model, users, items, rng)
    print("the recommended product's score without …      cases  falls   by a tenth or more  mean change")
    for removed, (cases, falling, clearly, change) in falls.items():
        print(f"  {removed:42} {cases:>7}  {falling:6.1%}  {clearly:18.1%}  {change:11.1%}")
    print("  (target: the reason's own purchases ≥ 95 %, others far less often)")

    took = explaining_time(given.data)
    print(f"{EXPLANATIONS} explanations of a loaded model (Online Retail): {took:.2f} s (target: < 1 s)")
    save(
        "explain",
        {
            "pairs": PAIRS,
            "largest_difference": off,
            "score_falls": falls,
            "explanations": EXPLANATIONS,
            "seconds": took,
        },
    )


def largest_difference(model: OCuLaR, users: np.ndarray, items: np.ndarray) -> float:
    """Return the largest relative difference of the sum of contributions and the inner product of the factors."""
    worst = 0.0
    for user, item in zip(users.tolist(), items.tolist(), strict=True):
        total = sum(reason.contribution for reason in model.explain(user, item).reasons)
        f_u, f_i = (f[[r]].toarray()[0].astype(np.float64) for f, r in
                    ((model.user_factors_, user), (model.item_factors_, item)))  # fmt: skip
        worst = max(worst, abs(total - f_u @ f_i) / max(f_u @ f_i, 1e-12))
    return worst


def faithfulness(
    model: OCuLaR, users: np.ndarray, items: np.ndarray, rng: np.random.Generator
) -> dict[str, tuple[int, float, float, float]]:
    """Return for each choice of removed purchases: cases, share that falls, and by a tenth or more, mean change."""
    removed = {"the purchases of its strongest reason": [], "as many that no reason names": [], "as many others": []}
    for user, item in zip(users.tolist(), items.tolist(), strict=True):
        has = model.interactions_.by_user[user]
        explanation = model.explain(user, item)
        own = explanation.summary().shown_reasons[0].owned_items
        named = np.concatenate([reason.owned_items for reason in explanation.reasons])
        choices = own, np.setdiff1d(has, named), np.setdiff1d(has, own)
        for cases, choice in zip(removed.values(), choices, strict=True):
            if len(choice) >= len(own):  # as many to take
                cases.append((item, has, np.setdiff1d(has, rng.choice(choice, len(own), replace=False))))
    return {name: _changes(model, cases) for name, cases in removed.items()}


def _changes(model: OCuLaR, cases: list[tuple[int, np.ndarray, np.ndarray]]) -> tuple[int, float, float, float]:
    targets = model.item_factors_[[item for item, _, _ in cases]]
    before, after = (
        np.asarray(model.fold_in(_rows(model, baskets)).multiply(targets).sum(axis=1)).ravel()
        for baskets in ([has for _, has, _ in cases], [left for _, _, left in cases])
    )
    change = after / before - 1
    return len(cases), float((change < 0).mean()), float((change <= -0.1).mean()), float(change.mean())


def _rows(model: OCuLaR, baskets: list[np.ndarray]) -> sp.csr_array:
    lengths = [len(basket) for basket in baskets]
    parts = np.ones(sum(lengths)), np.concatenate(baskets), np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array(parts, shape=(len(baskets), model.interactions_.n_items))


def explaining_time(data: Path) -> float:
    model = OCuLaR(100, 10.0, random_state=0).fit(online_retail(data / "online-retail"))
    calibrate(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        advisor = Advisor.load(f"{folder}/model")
    clients = advisor.model.interactions_.user_labels[: EXPLANATIONS // OF_EACH]
    advisor.recommend(clients[0])[0].text()  # compiles

    def explain() -> None:
        texts = [found.text() for client in clients for found in advisor.recommend(client, OF_EACH)]
        assert len(texts) == EXPLANATIONS

    return seconds(explain)


if __name__ == "__main__":
    main()
