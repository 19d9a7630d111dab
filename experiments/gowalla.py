"""
recall@20 and NDCG@20 of OCuLaR with evidence on Gowalla, on the lists that LightGCN's authors held out.

DIR/gowalla has train.txt and test.txt of their repository. The published figures are what the authors of each method,
or of the benchmark BARS, give for the same lists; nothing is tuned here.

python experiments/gowalla.py --data DIR [--quick]
"""

from __future__ import annotations

import warnings
from typing import Any

from common import parse

from ocular import OCuLaR
from ocular.data.datasets import gowalla
from ocular.data.splits import random_split
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

M = 20
PARAMETERS: dict[str, Any] = {
    "n_coclusters": 100, "regularization": 30.0, "links": 1.0, "peers": 0.5, "link_regularization": 100.0, "tol": 1e-3,
    "random_state": 0,
}  # fmt: skip
PUBLISHED = {  # method: recall@20, and where it is from
    "SLIM": (".1699", "BARS, J. Zhu et al., SIGIR 2022"),
    "EASE": (".1765", "BARS, J. Zhu et al., SIGIR 2022"),
    "LightGCN": (".182 to .183", "X. He et al., SIGIR 2020; BARS"),
    "GF-CF": (".1849", "Y. Shen et al., CIKM 2021"),
    "SimpleX": (".1872", "K. Mao et al., CIKM 2021"),
    "BSPM-EM": (".1920", "J. Choi et al., SIGIR 2023"),
}


def main() -> None:
    given = parse(__doc__)
    parameters = PARAMETERS
    if given.quick:
        train, test = random_split(b2b(200, 60, random_state=0).interactions, 0.2, random_state=0)
        parameters = parameters | {"n_coclusters": 4, "regularization": 4.0}
    else:
        train, test = gowalla(given.data / "gowalla")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the best within max_iter is what is measured
        model = OCuLaR(**parameters).fit(train)
    scores = measure(model, train, test, M)
    print(f"{'':22}{'recall@20':>14}{'NDCG@20':>10}")
    print(f"{'OCuLaR with evidence':22}{scores.mean('recall', M):>14.4f}{scores.mean('ndcg', M):>10.4f}  {parameters}")
    for name, (recall, source) in PUBLISHED.items():
        print(f"{name:22}{recall:>14}{'':10}  {source}")


if __name__ == "__main__":
    main()
