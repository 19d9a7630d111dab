"""
The expected calibration error of the 20 best recommendations of every client.

A quarter of the purchases is held out for the test. Three ways to tell how likely a recommendation is to come true:

- the model's probability as it is;
- hit rates of the other half of the clients, on the same held-out purchases: what `ocular evaluate` shows;
- hit rates as a saved model has them: from a second fit inside the training data, which knows nothing of the test. A
  hit rate goes with how much there is to find: the second fit had three quarters of the purchases to find that the
  test has, so it is also compared with three quarters of them.

python benchmarks/calibration.py --data DIR
"""

from __future__ import annotations

from common import add_data_option, movielens_1m, parser, save

from ocular import OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import per_user_split, random_split
from ocular.evaluation.calibration import calibrate, collect_outcomes, cross_check
from ocular.explain.calibration import measure_reliability


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    given = arguments.parse_args()
    print("expected calibration error (target: ≤ 0.02)")
    print(f"{'':28}{'probability':>13}{'other clients':>15}{'saved, as much to find':>24}{'saved, more to find':>21}")
    results = {}
    for name, interactions, K, regularization in (
        ("MovieLens-1M", movielens_1m(given.data), 100, 30.0),
        ("Online Retail", online_retail(given.data / "online-retail"), 100, 10.0),
    ):
        train, test = per_user_split(interactions, 0.25, random_state=1)
        model = OCuLaR(K, regularization, random_state=0).fit(train)
        outcomes = collect_outcomes(model, test)
        before, after = cross_check(outcomes)
        saved = calibrate(model)
        as_much = collect_outcomes(model, random_split(test, 0.25, random_state=2).train)
        errors = {
            "probability": before.error,
            "other_clients": after.error,
            "saved_as_much": measure_reliability(saved.apply(as_much.confidences), as_much.hits).error,
            "saved_more": measure_reliability(saved.apply(outcomes.confidences), outcomes.hits).error,
        }
        results[name] = errors
        label = f"{name}, K={K}, λ={regularization:g}"
        print(f"{label:28}" + "".join(f"{e:>{w}.4f}" for e, w in zip(errors.values(), (13, 15, 24, 21), strict=True)))
    save("calibration", results)


if __name__ == "__main__":
    main()
