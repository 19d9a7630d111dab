"""Co-clusters against a dense reference: members, density, strength, share and overlaps."""

from __future__ import annotations

import math
from html import escape

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import consensus_score
from support import parameters_of_model

from ocular import Interactions, OCuLaR
from ocular.explain.coclusters import CoClusters, find_members
from ocular.synthetic import Planted, planted

BACKGROUND = 1e-4

models = pytest.mark.parametrize("which", ["model", "biased", "loose"])


@pytest.fixture(scope="module")
def loose(bought: np.ndarray) -> OCuLaR:
    """More co-clusters than there are patterns, so that some stay empty and others are alike."""
    model = OCuLaR(9, 3.0, tol=0.0, max_iter=60, random_state=0).fit(bought)
    model.user_factors_ = sp.csr_array(model.user_factors_ * (np.arange(9) != 4))  # one without clients
    model.__dict__.pop("_members", None)
    return model


def dense_members(model: OCuLaR, probability: float | None) -> tuple[np.ndarray, np.ndarray]:
    """The rule of the module in words of NumPy: users × K, items × K."""
    users, items = model.user_factors_.toarray().astype(float), model.item_factors_.toarray().astype(float)
    in_users, in_items = np.zeros(users.shape, dtype=bool), np.zeros(items.shape, dtype=bool)
    for c in range(users.shape[1]):
        f_u, f_i = users[:, c], items[:, c]
        if not f_u.any() or not f_i.any():
            continue  # nobody to belong with
        typical_user, typical_item = (f_u**2).sum() / f_u.sum(), (f_i**2).sum() / f_i.sum()
        p = min(0.2, 1 - math.exp(-0.5 * typical_user * typical_item)) if probability is None else probability
        in_users[:, c] = 1 - np.exp(-f_u * typical_item) >= p
        in_items[:, c] = 1 - np.exp(-f_i * typical_user) >= p
    return in_users, in_items


@models
@pytest.mark.parametrize("probability", [None, 0.02, 0.3])
def test_coclusters_are_those_of_the_dense_reference(
    which: str, probability: float | None, request: pytest.FixtureRequest
) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    in_users, in_items = dense_members(model, probability)
    bought = model.interactions_.to_matrix().toarray().astype(float)
    p = parameters_of_model(model)
    z = p.user_factors @ p.item_factors.T + p.user_bias[:, None] + p.item_bias + p.bias + BACKGROUND
    found = model.coclusters(probability)
    there = np.flatnonzero(in_users.any(axis=0) & in_items.any(axis=0))
    assert [cocluster.index for cocluster in found] == there.tolist()
    assert len(found) >= 3
    for cocluster in found:
        c = cocluster.index
        f_u, f_i = p.user_factors[:, c], p.item_factors[:, c]
        assert sorted(cocluster.users) == np.flatnonzero(in_users[:, c]).tolist()
        assert sorted(cocluster.items) == np.flatnonzero(in_items[:, c]).tolist()
        np.testing.assert_array_equal(cocluster.user_strengths, f_u[cocluster.users])
        np.testing.assert_array_equal(cocluster.item_strengths, f_i[cocluster.items])
        assert (np.diff(cocluster.user_strengths) <= 0).all()
        assert (np.diff(cocluster.item_strengths) <= 0).all()
        assert cocluster.density == pytest.approx(bought[np.ix_(cocluster.users, cocluster.items)].mean())
        typical = (f_u**2).sum() / f_u.sum() * (f_i**2).sum() / f_i.sum()
        assert cocluster.strength == pytest.approx(1 - math.exp(-typical), rel=1e-5)
        share = (bought * np.outer(f_u, f_i) / z).sum() / bought.sum()
        assert cocluster.share == pytest.approx(share, rel=1e-5)
        shared = {
            int(o): (int((in_users[:, c] & in_users[:, o]).sum()), int((in_items[:, c] & in_items[:, o]).sum()))
            for o in range(in_users.shape[1])
            if o != c
        }
        shared = {o: both for o, both in shared.items() if both[0] * both[1] > 0}
        assert {overlap.cocluster: (overlap.users, overlap.items) for overlap in cocluster.overlaps} == shared
        pairs = [overlap.users * overlap.items for overlap in cocluster.overlaps]
        assert pairs == sorted(pairs, reverse=True)
    members = model.members(probability)
    np.testing.assert_array_equal(members.per_user, in_users.sum(axis=1))
    np.testing.assert_array_equal(members.per_item, in_items.sum(axis=1))


@models
def test_shares_and_popularity_make_up_all_purchases(which: str, request: pytest.FixtureRequest) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    p = parameters_of_model(model)
    base = p.user_bias[:, None] + p.item_bias + p.bias + BACKGROUND
    bought = model.interactions_.to_matrix().toarray() > 0
    rest = (base / (p.user_factors @ p.item_factors.T + base))[bought].mean()
    assert sum(cocluster.share for cocluster in model.coclusters(1e-9)) + rest == pytest.approx(1, rel=1e-5)


@models
def test_scikit_learns_view_agrees_with_the_members(which: str, request: pytest.FixtureRequest) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    in_users, in_items = dense_members(model, None)
    np.testing.assert_array_equal(model.rows_, in_users.T)
    np.testing.assert_array_equal(model.columns_, in_items.T)
    members = model.members()
    for c in range(model.n_coclusters):
        assert sorted(members.users_of(c)[0]) == np.flatnonzero(model.rows_[c]).tolist()
        assert sorted(members.items_of(c)[0]) == np.flatnonzero(model.columns_[c]).tolist()


def test_members_by_hand() -> None:
    # typical user (16 + 4 + 4) / 8 = 3, typical item (1 + 1) / 2 = 1; at p = 1 − 1/e users need 1, items 1/3
    users = sp.csr_array(np.array([[2.0], [4.0], [2.0], [0.0]], dtype=np.float32))
    items = sp.csr_array(np.array([[1.0], [1.0], [0.0]], dtype=np.float32))
    members = find_members(users, items, 1 - 1 / math.e)
    assert members.users_of(0)[0].tolist() == [1, 0, 2]
    assert members.users_of(0)[1].tolist() == [4, 2, 2]
    assert members.items_of(0)[0].tolist() == [0, 1]
    assert (members.per_user.tolist(), members.per_item.tolist()) == ([1, 1, 1, 0], [1, 1, 0])
    # 1 − e^(−2.5): users need 2.5, items 2.5 / 3; and 1 − e^(−4.5): users 4.5, items 1.5
    assert find_members(users, items, 1 - math.exp(-2.5)).per_user.tolist() == [0, 1, 0, 0]
    assert find_members(users, items, 1 - math.exp(-2.5)).per_item.tolist() == [1, 1, 0]
    assert find_members(users, items, 1 - math.exp(-4.5)).per_item.tolist() == [0, 0, 0]
    # a rescaling that leaves every product as it was changes nothing
    again = find_members(users * np.float32(8), items / np.float32(8), 1 - math.exp(-2.5))
    assert again.per_user.tolist() == [0, 1, 0, 0]


def test_weak_coclusters_have_members_too() -> None:
    # typical 0.02 and 0.02: a probability of 0.2 is out of reach, half of the typical affinity is not
    users = sp.csr_array(np.array([[0.02], [0.02], [0.001]], dtype=np.float32))
    items = sp.csr_array(np.array([[0.02], [0.005]], dtype=np.float32))
    assert find_members(users, items).per_user.tolist() == [1, 1, 0]
    assert find_members(users, items).per_item.tolist() == [1, 0]
    assert find_members(users, items, 0.2).per_user.tolist() == [0, 0, 0]
    # the weak of a strong one need 0.2, and not a half of the strongest
    strong = sp.csr_array(np.array([[2.0], [2.0], [0.2]], dtype=np.float32))
    assert find_members(strong, strong).per_user.tolist() == [1, 1, 1]


@pytest.mark.parametrize("relative", [False, True])
def test_planted_coclusters_are_found(relative: bool) -> None:
    truth: Planted = planted(90, 50, 3, overlap=0.3, density=0.9, noise=0.02, random_state=5)
    model = OCuLaR(3, 5.0 if relative else 1.0, relative=relative, tol=0.0, max_iter=150, random_state=0)
    model.fit(truth.interactions)
    assert consensus_score(model.biclusters_, (truth.rows, truth.columns)) > 0.9
    assert all(0.8 < cocluster.density <= 1 for cocluster in model.coclusters())
    assert sum(cocluster.share for cocluster in model.coclusters()) > 0.9


# ------------------------------------------------------------------------------------------ how a list of them is shown


def test_a_list_of_coclusters_prints_short(model: OCuLaR) -> None:
    coclusters = model.coclusters()
    first = coclusters[0]
    line = (
        f"CoCluster({first.index}, {first.label!r}, {len(first.users)} clients × {len(first.items)} products, "
        f"density {first.density:.0%})"
    )
    assert repr(first) == line
    assert repr(coclusters).splitlines()[:2] == [f"CoClusters({len(coclusters)})", f"  {line}"]
    many = CoClusters([first] * 1500, model.interactions_)
    assert repr(many).splitlines()[0] == "CoClusters(1,500)"
    assert repr(many).splitlines()[-1] == "  … 1,490 more; to_frame() has all"
    assert len(repr(many).splitlines()) == 12


def test_a_list_of_coclusters_is_a_table_in_notebooks(model: OCuLaR) -> None:
    html = model.coclusters()._repr_html_()
    assert html.startswith("<table><caption")
    assert html.count("<tr>") == 1 + len(model.coclusters())
    assert all(escape(cocluster.label) in html for cocluster in model.coclusters())


def test_a_row_per_cocluster(model: OCuLaR) -> None:
    frame = model.coclusters().to_frame()
    assert frame.columns == ["cocluster", "label", "clients", "products", "density", "strength", "share", "traits"]
    assert len(frame) == len(model.coclusters())
    for row, cocluster in zip(frame.iter_rows(named=True), model.coclusters(), strict=True):
        assert (row["cocluster"], row["label"]) == (cocluster.index, cocluster.label)
        assert (row["clients"], row["products"]) == (len(cocluster.users), len(cocluster.items))
        assert (row["density"], row["share"]) == (cocluster.density, cocluster.share)


def test_a_row_per_member(model: OCuLaR) -> None:
    frame, data = model.coclusters().members_frame(), model.interactions_
    assert frame.columns == ["cocluster", "side", "key", "name", "strength"]
    assert len(frame) == sum(len(c.users) + len(c.items) for c in model.coclusters())
    second = model.coclusters()[1]
    rows = frame.filter(cocluster=second.index, side="product")
    assert rows["key"].to_list() == data.item_labels[second.items].tolist()
    assert rows["name"].to_list() == [data.item_name(i) for i in second.items]
    assert rows["strength"].to_list() == second.item_strengths.tolist()
    clients = frame.filter(cocluster=second.index, side="client")
    assert clients["key"].to_list() == data.user_labels[second.users].tolist()


def test_frames_of_no_coclusters_have_their_columns(model: OCuLaR) -> None:
    none = CoClusters([], model.interactions_)
    assert none.to_frame().columns == model.coclusters().to_frame().columns
    assert none.members_frame().schema == model.coclusters().members_frame().schema
    assert repr(none) == "CoClusters(0)"


def test_keys_of_different_kinds_are_text() -> None:
    bought = Interactions.from_pairs([0, 0, 1, 1], [0, 1, 0, 1], item_labels=["nut", "saw"])
    frame = OCuLaR(1, 0.1, random_state=0).fit(bought).coclusters().members_frame()
    assert sorted(frame["key"].to_list()) == ["0", "1", "nut", "saw"]
