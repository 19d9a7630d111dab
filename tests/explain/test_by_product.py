"""How much of a score rests on each purchase: by hand, in sum, and by taking purchases away."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from ocular import Interactions, OCuLaR
from ocular.evidence import Evidence, EvidenceConfig
from ocular.explain.coclusters import find_members
from ocular.explain.explainer import Client, Explainer
from ocular.explain.pulls import Pulls
from ocular.synthetic import planted

BACKGROUND = 0.01
WEIGHTS = {"links": 0.8, "peers": 0.5, "popularity": -0.3, "link_regularization": 5.0}


def pull(z: float) -> float:
    return 1 / (1 - math.exp(-z))


def test_shares_by_hand() -> None:
    """Client 0 has items 0 and 1, which are divided between a co-cluster, a link and a peer; item 2 is explained."""
    data = Interactions.from_pairs([0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2])
    users = sp.csr_array(np.array([[1.0], [1.0], [0.5]], dtype=np.float32))
    items = sp.csr_array(np.array([[0.5], [0.25], [1.0]], dtype=np.float32))
    links = sp.csr_array(([0.4], ([0], [2])), shape=(3, 3), dtype=np.float32)
    peers = sp.csr_array(([0.6, 0.2], ([1, 2], [0, 0])), shape=(3, 3), dtype=np.float32)
    evidence = Evidence(EvidenceConfig(links=2.0, peers=1.0), users, items, links, peers, data)
    members, item_bias = find_members(users, items), np.array([0.1, 0.2, 0.0], dtype=np.float32)
    explainer = Explainer(evidence, item_bias, 0.05, BACKGROUND, members, data, None)
    client = Client(0, data.by_user[0], users[[0]], 0.3, peers[:, [0]])
    (explanation,) = explainer.explain(client, [2])
    assert {reason.kind for reason in explanation.reasons} == {"pattern", "links", "peers"}
    # the patterns' own affinity of items 0 and 1: background, three biases and the memberships
    p = [0.5 * pull(BACKGROUND + 0.05 + 0.3 + 0.1 + 0.5), 0.25 * pull(BACKGROUND + 0.05 + 0.3 + 0.2 + 0.25)]
    # the peers' own: client 1 has both, client 2 has item 1 only
    q = [pull(BACKGROUND + 0.6), pull(BACKGROUND + 0.6 + 0.2)]
    pattern, link, first, second = (part / 4 for part in (1.0, 2 * 0.4, 0.6, 0.2))
    added = [
        pattern * p[0] / sum(p) + link + first * q[0] / sum(q),
        pattern * p[1] / sum(p) + first * q[1] / sum(q) + second,
    ]
    assert explanation.by_product() == pytest.approx({0: added[0] / sum(added), 1: added[1] / sum(added)}, rel=1e-6)
    told = explanation.to_dict(max_names=1)["by_product"]
    assert told == [{"product": 0, "share": pytest.approx(added[0] / sum(added))}]


@pytest.fixture(scope="module")
def market() -> OCuLaR:
    data = planted(120, 50, 4, overlap=0.4, density=0.6, noise=0.03, random_state=2).interactions
    return OCuLaR(4, 0.5, tol=1e-5, max_iter=300, random_state=0, **WEIGHTS).fit(data)


@pytest.mark.parametrize("bias", [False, True])
def test_shares_sum_to_one(market: OCuLaR, bias: bool) -> None:
    model = market
    if bias:
        model = OCuLaR(4, 0.5, bias=True, relative=True, tol=1e-4, random_state=0, **WEIGHTS).fit(market.interactions_)
    for user in range(0, 120, 5):
        owned = model.interactions_.by_user[user].tolist()
        for explanation in model.explain_all(user, range(50)):
            shares = explanation.by_product()
            if not explanation.reasons:
                assert shares == {}
                continue
            assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
            assert set(shares) == {*owned} - {explanation.item}  # a purchase is no evidence for itself
            assert all(share >= 0 for share in shares.values())
            assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_removing_the_product_with_the_largest_share_costs_most(market: OCuLaR) -> None:
    """Against another purchase of the same client, drawn at random: both are taken away and the rest is folded in."""
    rng, bought = np.random.default_rng(0), market.interactions_.to_matrix().toarray()
    lost: list[tuple[float, float]] = []
    for user in range(0, 120, 3):
        item = int(market.recommend(user, N=1)[0][0])
        strongest, *others = market.explain(user, item).by_product()
        z = [affinity(market, without(bought[user], j), item) for j in (None, strongest, rng.choice(others))]
        lost.append((z[0] - z[1], z[0] - z[2]))
    falls = np.array(lost)
    assert (falls[:, 0] > 0).mean() > 0.95
    assert (falls[:, 0] > falls[:, 1]).mean() > 0.8
    assert falls[:, 0].mean() > 1.5 * falls[:, 1].mean()


def affinity(model: OCuLaR, row: np.ndarray, item: int) -> float:
    explanation = model.explain(None, item, user_items=row)
    return sum(reason.contribution for reason in explanation.reasons)


def without(row: np.ndarray, item: int | None) -> np.ndarray:
    left = row[None].copy()
    if item is not None:
        left[0, item] = 0
    return left


def test_what_no_purchase_holds_up_is_divided_as_the_rest_is() -> None:
    """The purchases have nothing in the co-cluster, and the peer has none of them: away from the optimum."""
    data = Interactions.from_pairs([0, 0, 1], [0, 1, 2])
    nothing, one_user = sp.csr_array((3, 1)), sp.csr_array(np.ones((1, 1)))
    peers = sp.csr_array(([0.5], ([1], [0])), shape=(2, 1))
    pulls = Pulls(np.array([0, 1], dtype=np.int32), one_user, nothing, np.full(2, 0.1), peers, 0.1, data)
    assert pulls.shares(2, [(0, 1.0)], [], [(1, 1.0)]) == {0: 0.5, 1: 0.5}
    assert pulls.shares(2, [(0, 1.0)], [(1, 0.3), (0, 0.1)], []) == pytest.approx({1: 0.75, 0: 0.25})
    assert pulls.shares(0, [(0, 1.0)], [], []) == {1: 1.0}
    nobody = Pulls(np.array([2], dtype=np.int32), one_user, nothing, np.full(1, 0.1), peers, 0.1, data)
    assert nobody.shares(2, [(0, 1.0)], [], []) == {}


def test_a_client_with_other_purchases_is_not_their_own_peer(market: OCuLaR) -> None:
    row = market.interactions_.by_user.take(np.array([3])).matrix(50)
    for explanation in market.explain_all(3, range(50), user_items=row):
        for reason in explanation.reasons:
            assert 3 not in reason.similar_users + reason.other_users
