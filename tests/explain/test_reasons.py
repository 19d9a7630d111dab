"""Reasons against a dense reference: what they add up to, whose purchases they name, and what is told of them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from support import all_pairs, parameters_of_model

from ocular import Interactions, OCuLaR
from ocular.errors import DataError
from ocular.evidence import Evidence, EvidenceConfig
from ocular.explain.calibration import Calibration
from ocular.explain.coclusters import find_members
from ocular.explain.finder import Reasons, memberships
from ocular.explain.reasons import Explanation, Reason

BACKGROUND = 1e-4

models = pytest.mark.parametrize("which", ["model", "biased"])


@models
def test_contributions_add_up_for_every_pair(which: str, request: pytest.FixtureRequest) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    p, probabilities = parameters_of_model(model), all_pairs(model)
    affinity = p.user_factors @ p.item_factors.T
    base = p.user_bias[:, None] + p.item_bias + p.bias + BACKGROUND
    bought = model.interactions_.to_matrix().toarray() > 0
    for u, i in np.ndindex(affinity.shape):
        explanation = model.explain(u, i)
        contributions = [reason.contribution for reason in explanation.reasons]
        assert math.fsum(contributions) == pytest.approx(affinity[u, i], rel=1e-5, abs=0)
        assert contributions == sorted(contributions, reverse=True)
        assert explanation.base == pytest.approx(base[u, i], rel=1e-5)
        assert explanation.confidence == pytest.approx(1 - math.exp(-affinity[u, i] - base[u, i]), rel=1e-5)
        assert explanation.confidence == pytest.approx(probabilities[u, i], rel=1e-5)
        assert explanation.owned == bought[u, i]
        for reason in explanation.reasons:
            c = reason.cocluster
            assert reason.contribution == pytest.approx(p.user_factors[u, c] * p.item_factors[i, c], rel=1e-5)


@models
def test_evidence_are_purchases_of_members(which: str, request: pytest.FixtureRequest) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    p = parameters_of_model(model)
    bought = model.interactions_.to_matrix().toarray() > 0
    named = 0
    for u in range(0, 60, 7):
        for i in range(40):
            has, who = bought[u].copy(), bought[:, i].copy()
            has[i] = who[u] = False
            for reason in model.explain(u, i).reasons:
                c = reason.cocluster
                f_u, f_i = p.user_factors[:, c], p.item_factors[:, c]
                members = model.rows_[c].copy()
                members[u] = False
                own = np.flatnonzero(has & model.columns_[c])
                # where no member bears it out: everybody with a trace of it
                assert sorted(reason.owned_items) == (own if len(own) else np.flatnonzero(has & (f_i > 0))).tolist()
                common = bought[:, reason.owned_items].sum(axis=1)
                group = members & (common > 0)
                if not (group & who).any():
                    group = (f_u > 0) & (common > 0) & (np.arange(len(f_u)) != u)
                assert sorted(reason.similar_users) == np.flatnonzero(group & who).tolist()
                assert (np.diff(f_i[reason.owned_items]) <= 0).all()
                assert sorted(reason.other_users) == np.flatnonzero(group & ~who).tolist()
                assert (np.diff(common[reason.other_users]) <= 0).all()
                jaccard = (bought & bought[u]).sum(axis=1) / (bought | bought[u]).sum(axis=1)
                assert (np.diff((common * jaccard)[reason.similar_users]) <= 1e-12).all()
                assert reason.group == group.sum()
                assert reason.rate == pytest.approx((group & who).sum() / max(group.sum(), 1))
                assert reason.base_rate == pytest.approx(who.sum() / 59)
                named += bool((members & who).any())
    assert named > 100


def reasons(users: sp.csr_array, items: sp.csr_array, data: Interactions, user: int | None = 0) -> Reasons:
    """Reasons for client 0, from patterns only; None: the same purchases of a client who is not in the model."""
    links, peers = (sp.csr_array((n, n), dtype=np.float32) for n in (data.n_items, data.n_users))
    evidence = Evidence(EvidenceConfig(), users, items, links, peers, data)
    return Reasons(memberships(users, 0), data.by_user[0], evidence, find_members(users, items), data, user)


def test_reasons_and_counts_by_hand() -> None:
    # one co-cluster; −log 0.8 = 0.223 over a typical 0.88 and 0.76: members need 0.29 and 0.25
    # client 3 is no member, client 4 has a trace
    users = sp.csr_array(np.array([[1.0], [0.9], [0.8], [0.0], [0.1]], dtype=np.float32))
    items = sp.csr_array(np.array([[1.0], [0.7], [0.5], [0.1]], dtype=np.float32))
    history = Interactions.from_pairs([0, 0, 0, 1, 1, 2, 2, 3, 4, 4], [0, 1, 3, 0, 2, 0, 1, 2, 2, 3])
    (reason,), related = reasons(users, items, history).find(2)
    assert reason.contribution == pytest.approx(0.5)
    assert reason.owned_items == [0, 1]  # 3 is bought, but no member
    assert reason.similar_users == [1]  # 3 bought it without belonging, 4 belongs only a little
    assert reason.other_users == [2]
    assert (reason.group, reason.rate) == (2, 0.5)  # 1 and 2, without the client
    assert reason.base_rate == 3 / 4  # 1, 3 and 4 of the other four
    assert reason.kind == "pattern"
    assert related.tolist() == [0, pytest.approx(0.5 * 0.9), 0, 0, 0]
    # the same purchases of a client who is not in the model: 0 is one of the group now
    (new,), _ = reasons(users, items, history, None).find(1)
    assert (new.owned_items, new.similar_users, new.group) == ([0], [0, 2], 3)
    assert new.base_rate == 2 / 5  # nobody is left out


def test_similar_clients_have_some_of_the_purchases_named() -> None:
    # client 3 is a member who bought item 3, but has none of what client 0 has; client 2 has more of it than client 1
    users = sp.csr_array(np.array([[1.0], [1.0], [0.9], [1.0]], dtype=np.float32))
    items = sp.csr_array(np.ones((4, 1), dtype=np.float32))
    history = Interactions.from_pairs([0, 0, 1, 1, 2, 2, 2, 3, 3], [0, 1, 0, 3, 0, 1, 3, 2, 3])
    (reason,), _ = reasons(users, items, history).find(3)
    assert reason.similar_users == [2, 1]
    assert reason.group == 2


def test_a_group_is_not_only_its_buyers() -> None:
    # both members other than client 0 have not bought item 1; of two clients with a trace one has
    users = sp.csr_array(np.array([[1.0], [1.0], [1.0], [0.1], [0.1]], dtype=np.float32))
    items = sp.csr_array(np.array([[1.0], [0.5]], dtype=np.float32))
    history = Interactions.from_pairs([0, 1, 2, 3, 3, 4], [0, 0, 0, 0, 1, 0])
    (reason,), _ = reasons(users, items, history).find(1)
    assert reason.similar_users == [3]
    assert reason.group == 4  # "1 of the 1 clients in this group" would be a lie


def test_similar_clients_are_of_similar_size() -> None:
    # client 0 has items 0 to 2; of those who bought item 3 client 1 has all of these and 20 others, client 2 two of
    # them and client 3 one: likeness 3 · 3/24, 2 · 2/4 and 1 · 1/4
    big, rest = [1] * 24, list(range(24))
    history = Interactions.from_pairs([0, 0, 0, *big, 2, 2, 2, 3, 3], [0, 1, 2, *rest, 0, 1, 3, 0, 3], (4, 24))
    users = sp.csr_array(np.ones((4, 1), dtype=np.float32))
    items = sp.csr_array(np.ones((24, 1), dtype=np.float32))
    (reason,), _ = reasons(users, items, history).find(3)
    assert reason.similar_users == [2, 1, 3]


# ------------------------------------------------------------------------------------------------ what is shown of them


def explained_by(*reasons: Reason, **changes: Any) -> Explanation:
    history = Interactions.from_pairs(range(6), range(6), user_labels=list("uvwxyz"), item_labels=list("abcdef"))
    given = {"user": 0, "item": 5, "confidence": 0.5, "owned": False, "interactions": history} | changes
    return Explanation(reasons=list(reasons), client_items=np.array([0], dtype=np.int32), **given)


def because(cocluster: int, contribution: float, owned: list[int], alike: list[int]) -> Reason:
    return Reason(cocluster, contribution, owned, alike, other_users=[5])


def test_equal_reasons_are_one() -> None:
    summary = explained_by(
        because(3, 0.4, [0, 1], [2, 3]), because(5, 0.35, [2], [2]), because(7, 0.2, [1, 0], [3, 2])
    ).summary()
    assert [(reason.cocluster, reason.contribution) for reason in summary.shown_reasons] == [
        (3, pytest.approx(0.6)), (5, pytest.approx(0.35)),
    ]  # fmt: skip
    assert (summary.n_hidden, summary.rest_share) == (0, 0)


def test_together_equal_reasons_may_lead() -> None:
    summary = explained_by(because(5, 0.5, [2], [2]), because(3, 0.4, [0], [3]), because(7, 0.3, [0], [3])).summary()
    assert [reason.cocluster for reason in summary.shown_reasons] == [3, 5]


def linked(parts: list[float], owned: list[int], named: int) -> Reason:
    return Reason(-1, sum(parts), owned, [2], [3], kind="links", parts=parts, counts=[(1, 2)] * named)


def similar(contribution: float, owned: list[int]) -> Reason:
    return Reason(-1, contribution, owned, [4], [1], kind="peers", parts=[contribution], in_common=[1], n_peers=2)


def test_what_is_said_by_counts_is_not_said_again() -> None:
    """The pattern rests on the product that links name: one sentence, that of the counts, with what both add."""
    links, pattern = linked([0.3], [0], 1), because(3, 0.5, [0, 1], [2, 3])
    explanation = explained_by(pattern, links)
    (reason,) = explanation.summary().shown_reasons
    assert (reason.kind, reason.contribution, reason.merged) == ("links", pytest.approx(0.8), [pattern])
    assert (explanation.summary().n_hidden, explanation.summary().shown_share) == (0, pytest.approx(1))
    assert explanation.reasons == [pattern, links]  # complete and as they were
    assert explanation.text().count("\n") == 1


@pytest.mark.parametrize(
    ("links", "pattern", "one"),
    [
        ([0, 1], [1, 0], True),
        ([0, 1, 2, 3], [3, 1], True),  # all that the pattern has are named by the links
        ([0], [1, 2, 3, 0], False),  # the pattern names its first three, and 0 is not among them
        ([0, 4], [0, 1, 2], False),
    ],
)
def test_links_and_a_pattern_that_rest_on_the_same_products(links: list[int], pattern: list[int], one: bool) -> None:
    parts = [0.6 / len(links)] * len(links)
    shown = explained_by(linked(parts, links, len(links)), because(1, 0.4, pattern, [2])).summary().shown_reasons
    assert [reason.kind for reason in shown] == (["links"] if one else ["links", "pattern"])


def test_similar_clients_are_told_unless_all_they_share_is_named() -> None:
    links = linked([0.3, 0.3], [0, 1], 2)
    assert [r.kind for r in explained_by(links, similar(0.4, [1])).summary().shown_reasons] == ["links"]
    assert [r.kind for r in explained_by(links, similar(0.4, [1, 2])).summary().shown_reasons] == ["links", "peers"]
    # they have the products of the pattern in common and others: the sentence on the clients says more
    pattern = because(1, 0.6, [0], [2])
    assert [r.kind for r in explained_by(pattern, similar(0.4, [0, 1])).summary().shown_reasons] == ["pattern", "peers"]
    assert [r.kind for r in explained_by(pattern, similar(0.4, [0])).summary().shown_reasons] == ["pattern"]


def test_links_count_with_the_products_they_name() -> None:
    links = linked([0.4, 0.2, 0.1, 0.1], [0, 1, 2, 3], 2)
    summary = explained_by(links, because(1, 0.1, [4], [2]), base=0.1).summary()
    assert summary.shown_share == pytest.approx(0.7)  # 0.6 of links and the pattern
    assert (summary.hidden_share, summary.rest_share) == (pytest.approx(0.2), pytest.approx(0.1))
    text = explained_by(links, base=0.2).text()
    assert (
        "- Clients who own a, b and 2 more often buy f: 1 of 2 with a (50%; 0% of all clients), 1 of 2 with b." in text
    )
    assert "- 2 more products not shown (20% of the score)." in text


def test_similar_clients_are_counted_among_the_most_similar() -> None:
    """Of ten most similar clients two bought it; others who did are similar too, but no part of the ten."""
    reason = Reason(-1, 1.0, [0], [4, 7, 30, 31], list(range(40, 48)), kind="peers", n_peers=10, in_common=[3, 2, 1, 1])
    assert (reason.buyers, reason.group, reason.rate) == ([4, 7], 10, 0.2)
    none_close = Reason(-1, 1.0, [0], [30, 31], list(range(40, 50)), kind="peers", n_peers=10, in_common=[1, 1])
    assert (none_close.buyers, none_close.group) == ([30, 31], 12)


def test_weak_reasons_are_hidden_and_counted() -> None:
    weak = [because(c, 0.05, [c], [c]) for c in (3, 4)]
    summary = explained_by(because(1, 0.6, [0], [1]), because(2, 0.3, [1], [2]), *weak).summary()
    assert [reason.cocluster for reason in summary.shown_reasons] == [1, 2]
    assert (summary.n_hidden, summary.hidden_share) == (2, pytest.approx(0.1))


@pytest.mark.parametrize(("most", "shown"), [(1, 1), (2, 2), (3, 3), (9, 4), (0, 1)])
def test_at_most_so_many_are_shown(most: int, shown: int) -> None:
    summary = explained_by(*(because(c, 0.25, [c], [c]) for c in range(4))).summary(most)
    assert (len(summary.shown_reasons), summary.n_hidden) == (shown, 4 - shown)
    assert summary.hidden_share == pytest.approx(1 - shown / 4)


def test_popularity_has_its_share() -> None:
    summary = explained_by(because(1, 0.3, [0], [1]), because(2, 0.02, [1], [2]), base=0.08).summary()
    assert (summary.n_hidden, summary.hidden_share, summary.rest_share) == (1, pytest.approx(0.05), pytest.approx(0.2))


def test_what_is_shown_hidden_and_popular_is_the_whole_score() -> None:
    # the second has nobody to name; it is unsaid and must not vanish
    explanation = explained_by(because(1, 0.5, [0], [1]), because(2, 0.3, [1], []), because(3, 0.1, [2], [3]), base=0.1)
    summary = explanation.summary()
    assert sum(
        reason.contribution for reason in summary.shown_reasons
    ) + summary.hidden_share + summary.rest_share == pytest.approx(1)
    assert summary.n_hidden == 1
    alone = explained_by(because(1, 0.5, [0], [1]), because(2, 0.5, [1], []))
    assert alone.summary().hidden_share == pytest.approx(0.5)
    assert "- 1 other reason not shown (50% of the score)." in alone.text()


def test_explanations_can_be_compared(model: OCuLaR) -> None:
    for _ in range(2):
        assert (model.explain(0, 1) == model.explain(0, 1)) in (True, False)  # and no error from NumPy
    assert model.explain(0, 1) != model.explain(0, 2)


# ----------------------------------------------------------------------------------------------- clients with a new row


def test_what_would_be_is_explained_by_the_given_row(model: OCuLaR, bought: np.ndarray) -> None:
    row = bought[[0]].copy()
    (item,), _ = model.recommend(0, N=1)
    row[0, item] = 1
    (following,), (probability,) = model.recommend(0, row, N=1, recalculate_user=True)
    assert following != item
    explanation = model.explain(0, following, row)
    assert explanation.confidence == pytest.approx(float(probability), rel=1e-5)
    assert item in explanation.client_items
    assert model.explain(0, item, row).owned
    assert not model.explain(0, item).owned
    assert all(0 not in reason.similar_users for reason in explanation.reasons)
    folded = model.fold_in(row).toarray()[0].astype(float) * model.item_factors_.toarray()[following]
    assert sum(reason.contribution for reason in explanation.reasons) == pytest.approx(folded.sum(), rel=1e-5)


def test_a_client_who_is_not_in_the_model(model: OCuLaR, bought: np.ndarray) -> None:
    (item,), (probability,) = model.recommend(0, bought[[0]], N=1, recalculate_user=True)
    explanation = model.explain(None, item, bought[[0]])
    assert explanation.user is None
    assert explanation.client == "the client"
    assert explanation.confidence == pytest.approx(float(probability), rel=1e-5)
    assert explanation.text().splitlines()[0].startswith(f"Produkt №{item} is recommended to the client with")
    assert explanation.text().splitlines()[1].startswith("- The client has purchased Produkt №")
    # client 0 of the model is just one of the others
    owned_by_0 = int(np.flatnonzero(bought[0])[0])
    assert 0 in model.explain(None, owned_by_0, bought[[1]]).reasons[0].similar_users


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 0), "expected a user of the model, or user_items"),
        ((0, 0, np.ones((2, 40))), "expected user_items with one row, got 2"),
        ((None, 0, np.ones((1, 39))), "expected a column for each of 40 items, got 39"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(model: OCuLaR, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.explain(*arguments)


def test_hit_rates_are_those_of_the_calibration(named: Interactions) -> None:
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=60, random_state=0).fit(named)
    (item,), (probability,) = model.recommend(0, N=1)
    model.calibration_ = Calibration(
        np.array([0.01, probability - 1e-3]), np.zeros(2), np.array([200, 40]), np.array([10, 30])
    )
    told = model.explain(0, item)
    assert told.observed is not None
    assert told.observed[:2] == (0.75, 40)
    assert "In a back-test, 75% of 40 similar recommendations were bought." in told.text()
    assert (told.to_dict()["hit_rate"], told.to_dict()["hit_rate_of"]) == (0.75, 40)
    assert model.explain(0, int(named.by_user[0][0])).observed is None  # bought already: no recommendation
    u, i = np.argwhere(all_pairs(model) < 2 * BACKGROUND)[0]
    assert model.explain(u, i).observed is None  # below all that was recommended
    model.fit(named)
    assert model.calibration_ is None  # of the first fit


@models
def test_a_dict_is_ready_for_json_and_has_the_names(which: str, request: pytest.FixtureRequest) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    history = model.interactions_
    (item,), _ = model.recommend(3, N=1)
    explanation = model.explain(3, item)
    told = explanation.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert (told["client"], told["product"]) == (history.user_labels[3], history.item_labels[item])
    assert told["confidence"] == explanation.confidence
    assert told["owned"] is False
    assert told["text"] == explanation.text()
    assert len(told["reasons"]) == len(explanation.reasons) > 0
    for said, reason in zip(told["reasons"], explanation.reasons, strict=True):
        assert (said["cocluster"], said["contribution"]) == (reason.cocluster, reason.contribution)
        assert said["owned_items"] == history.item_labels[reason.owned_items].tolist()
        assert said["similar_users"] == history.user_labels[reason.similar_users].tolist()
        assert (said["bought_by"], said["group"]) == (len(reason.similar_users), reason.group)
        assert (said["kind"], said["rate"], said["base_rate"]) == ("pattern", reason.rate, reason.base_rate)


def test_reasons_and_explanations_print_short(model: OCuLaR) -> None:
    explanation = model.explain(3, int(model.recommend(3, N=1)[0][0]))
    confidence = f"confidence {explanation.confidence:.2g}, {len(explanation.reasons)} reasons)"
    assert repr(explanation) == f"Explanation({explanation.product!r} for 'Client 3 GmbH', {confidence}"
    assert repr(Reason(7, 0.25, [1, 2], [3], [4, 5])) == (
        "Reason(pattern 7, contribution 0.25, 2 owned items, 1 of 3 users bought it)"
    )
