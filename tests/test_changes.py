"""What a refit changed: recommendations that came and went, for the right reason, and patterns."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocular
from ocular import Interactions, OCuLaR
from ocular.changes.contributions import contributions
from ocular.changes.patterns import compare_patterns
from ocular.errors import ConfigError, DataError, UnknownNameError
from ocular.explain.reasons import KINDS, LINKS
from ocular.synthetic import planted

PARAMETERS: dict[str, Any] = {"n_coclusters": 4, "regularization": 0.5, "random_state": 0}
EVIDENCE: dict[str, Any] = PARAMETERS | {"links": 1.0, "peers": 0.5, "link_regularization": 3.0}


def purchases(n_users: int = 60, n_items: int = 40, extra: tuple[tuple[int, int], ...] = ()) -> Interactions:
    """The same market with more or fewer clients and products, and further purchases."""
    R = planted(60, 40, 4, overlap=0.3, density=0.8, noise=0.05, random_state=1).interactions.to_matrix().toarray()
    for u, i in extra:
        R[u, i] = 1
    names = {"user_labels": [f"Client {u}" for u in range(60)], "item_labels": [f"Product {i}" for i in range(40)]}
    return Interactions.from_matrix(
        R[:n_users, :n_items], user_labels=names["user_labels"][:n_users], item_labels=names["item_labels"][:n_items]
    )


def fit(data: Interactions, **options: Any) -> OCuLaR:
    parameters = options.pop("parameters", PARAMETERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return OCuLaR(**parameters).fit(data, **options)


@pytest.fixture(scope="module")
def old() -> OCuLaR:
    return fit(purchases())


@pytest.fixture
def copy(old: OCuLaR, tmp_path: Path) -> OCuLaR:
    """The same model, to be changed by hand."""
    old.save(tmp_path / "copy")
    return ocular.load(tmp_path / "copy")


def whys(changes: Any, client: str) -> dict[str, str]:
    return {row["product"]: row["why"] for row in changes.rows() if row["client"] == client}


def test_nothing_changes_between_a_model_and_itself(old: OCuLaR, copy: OCuLaR) -> None:
    changes = ocular.compare_models(old, copy)
    assert changes.jaccard == 1.0
    assert changes.unchanged == 1.0
    assert changes.rows() == []
    assert changes.patterns == []
    assert len(changes.to_frame()) == 0


def test_jaccard_is_the_mean_over_clients_of_both(old: OCuLaR) -> None:
    new = fit(purchases(50), parameters=PARAMETERS | {"regularization": 3.0})
    changes = ocular.compare_models(old, new, n=4)
    expected = []
    for u in range(50):
        a, b = (set(model.recommend(u, N=4)[0].tolist()) - {-1} for model in (old, new))
        expected.append(len(a & b) / len(a | b))
    assert changes.jaccard == pytest.approx(np.mean(expected))
    assert changes.unchanged == pytest.approx(np.mean(np.array(expected) == 1))
    assert 0.1 < changes.jaccard < 1
    assert (changes.n_new_clients, changes.n_gone_clients) == (0, 10)
    n_changed = sum(round(4 * (1 - j) / (1 + j)) for j in expected)
    came = [row for row in changes.rows() if row["change"] == "came"]
    assert len(came) == n_changed


def test_what_the_client_bought_went_for_that_reason(old: OCuLaR) -> None:
    item = int(old.recommend(7, N=1)[0][0])
    new = fit(purchases(extra=((7, item),)), start=old)
    changes = ocular.compare_models(old, new, n=5)
    assert whys(changes, "Client 7")[f"Product {item}"] == "bought meanwhile"
    assert changes.reasons["bought meanwhile"] == 1
    back = ocular.compare_models(new, old, n=5)
    assert whys(back, "Client 7")[f"Product {item}"] == "returned"


def test_clients_and_products_that_are_new_or_gone(old: OCuLaR) -> None:
    fewer = fit(purchases(55, 36), start=old)
    changes = ocular.compare_models(old, fewer, n=5)
    rows = changes.rows()
    gone = {row["product"] for row in rows if row["why"] == "product gone"}
    assert gone
    assert gone <= {f"Product {i}" for i in range(36, 40)}
    assert {row["client"] for row in rows if row["why"] == "client gone"} == {f"Client {u}" for u in range(55, 60)}
    assert all(
        row["change"] == "went" and row["new_confidence"] is None
        for row in rows
        if "gone" in row["why"] and row["why"] != "evidence gone"
    )
    back = ocular.compare_models(fewer, old, n=5)
    assert {row["client"] for row in back.rows() if row["why"] == "client new"} == {
        f"Client {u}" for u in range(55, 60)
    }
    assert {row["product"] for row in back.rows() if row["why"] == "product new"} <= {
        f"Product {i}" for i in range(36, 40)
    }
    assert back.n_new_clients == 5


def test_products_that_may_not_be_recommended_any_more(old: OCuLaR, copy: OCuLaR) -> None:
    item = int(old.recommend(3, N=1)[0][0])
    copy.excluded_items_[item] = True
    assert whys(ocular.compare_models(old, copy, n=3), "Client 3")[f"Product {item}"] == "excluded now"
    assert whys(ocular.compare_models(copy, old, n=3), "Client 3")[f"Product {item}"] == "allowed now"


def test_a_score_that_fell_is_evidence_gone_and_one_that_stayed_is_displaced(old: OCuLaR, copy: OCuLaR) -> None:
    ids = old.recommend(0, N=6)[0]
    first, last, sixth = int(ids[0]), int(ids[4]), int(ids[5])
    table = copy.item_factors_.tolil()
    table[first], table[sixth] = table[first] * 0.02, table[sixth] * 1.03  # the second is about the same
    copy.item_factors_ = table.tocsr().astype(np.float32)
    changes = ocular.compare_models(old, copy, n=5)
    found = {row["product"]: row for row in changes.rows() if row["client"] == "Client 0"}
    assert found[f"Product {first}"]["why"] == "evidence gone"
    assert found[f"Product {first}"]["detail"].startswith("patterns, above all ")
    label = old.coclusters()[int(contributions(old, np.array([0]), np.array([first])).pattern[0])].label
    assert label in found[f"Product {first}"]["detail"]
    assert found[f"Product {sixth}"]["why"] == "moved up"
    back = {row["product"]: row for row in ocular.compare_models(copy, old, n=5).rows() if row["client"] == "Client 0"}
    assert back[f"Product {first}"]["why"] == "new evidence"
    assert back[f"Product {sixth}"]["why"] == "displaced"
    assert back[f"Product {sixth}"]["detail"] == "others overtook it"
    assert f"Product {last}" not in found


def test_the_kind_of_evidence_that_changed_most_is_named(old: OCuLaR) -> None:
    both = fit(purchases(), parameters=EVIDENCE)
    changes = ocular.compare_models(fit(purchases(), parameters=EVIDENCE | {"links": 0.0}), both, n=5)
    details = [row["detail"] for row in changes.rows() if row["why"] == "new evidence"]
    assert any(detail.startswith("links from Product ") for detail in details)
    row = next(row for row in changes.rows() if (row["detail"] or "").startswith("links from "))
    u, i = both.interactions_.user_index(row["client"]), both.interactions_.item_index(row["product"])
    reason = next(reason for reason in both.explain(u, i).reasons if reason.kind == LINKS)
    names = [both.interactions_.item_name(item) for item in reason.owned_items[:3]]
    assert row["detail"] == f"links from {', '.join(names)}: 0.000 → {reason.contribution:.3f}"


@pytest.mark.parametrize("parameters", [PARAMETERS | {"bias": True}, EVIDENCE, EVIDENCE | {"popularity": -0.3}])
def test_contributions_are_those_of_the_explanation(parameters: dict[str, Any]) -> None:
    model = fit(purchases(), parameters=parameters)
    users, items = np.array([5, -1, 2, 5, 40, 3]), np.array([1, 3, 39, 0, 7, -1])
    found = contributions(model, users, items)
    for at, (u, i) in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
        if u < 0 or i < 0:
            assert np.isnan(found.z[at])
            continue
        reasons = model.explain(u, i).reasons
        sums = [sum(r.contribution for r in reasons if r.kind == kind) for kind in KINDS]
        np.testing.assert_allclose(found.by_kind[at], sums, rtol=1e-5, atol=1e-7)
        assert found.z[at] == pytest.approx(float(model.affinity(u, i)), rel=1e-5)
        linked = next((r.owned_items[:3] for r in reasons if r.kind == LINKS), [])
        assert [j for j in found.linked[at].tolist() if j >= 0] == linked


def test_a_typical_price_that_changed_is_told() -> None:
    data = purchases()
    pairs = data.pair_users, data.by_user.indices

    def priced(price: float) -> Interactions:
        names = {"user_labels": data.user_labels, "item_labels": data.item_labels}
        return Interactions.from_pairs(*pairs, price=np.full(data.nnz, price), currency="£", **names)

    old, new = fit(priced(10.0)), fit(priced(15.0), parameters=PARAMETERS | {"regularization": 3.0})
    rows = ocular.compare_models(old, new, n=4).rows()
    assert rows
    assert all(row["detail"].endswith("typical price £10.00 → £15.00") for row in rows)
    assert {(row["old_price"], row["new_price"]) for row in rows} == {(10.0, 15.0)}
    same = ocular.compare_models(old, fit(priced(10.5), parameters=PARAMETERS | {"regularization": 3.0}), n=4).rows()
    assert not any("price" in (row["detail"] or "") for row in same)


class TestPatterns:
    def test_members_who_joined_and_left_are_named(self, old: OCuLaR, copy: OCuLaR) -> None:
        pattern = old.coclusters()[1]
        leaves = int(pattern.users[0])
        joins = next(u for u in range(60) if u not in pattern.users)
        table = copy.user_factors_.tolil()
        table[leaves, pattern.index], table[joins, pattern.index] = 0.0, float(pattern.user_strengths[0])
        copy.user_factors_ = table.tocsr().astype(np.float32)
        [change] = [c for c in compare_patterns(old, copy) if c.number == pattern.index]
        assert change.status == "changed"
        assert change.old_number == change.new_number == pattern.index
        assert f"Client {joins}" in change.clients_joined
        assert f"Client {leaves}" in change.clients_left
        assert change.products_joined == change.products_left == []
        assert change.label == copy.coclusters()[1].label

    def test_patterns_of_another_number_are_found_again(self, old: OCuLaR, copy: OCuLaR) -> None:
        columns = np.roll(np.arange(4), 1)
        copy.user_factors_ = copy.user_factors_[:, columns]
        copy.item_factors_ = copy.item_factors_[:, columns]
        assert compare_patterns(old, copy) == []

    def test_new_and_gone(self, old: OCuLaR, copy: OCuLaR) -> None:
        table = copy.item_factors_.tolil()
        table[:, 2] = 0
        copy.item_factors_ = table.tocsr().astype(np.float32)
        label = next(c.label for c in old.coclusters() if c.index == 2)
        assert [(c.status, c.old_number, c.new_number, c.label) for c in compare_patterns(old, copy)] == [
            ("gone", 2, None, label)
        ]
        [new] = compare_patterns(copy, old)
        assert (new.status, new.old_number, new.new_number, new.overlap) == ("new", None, 2, 0.0)
        assert len(new.clients_joined) == len(next(c for c in old.coclusters() if c.index == 2).users)


def test_the_result_prints_short_and_becomes_json_and_a_frame(old: OCuLaR) -> None:
    new = fit(purchases(extra=((7, int(old.recommend(7, N=1)[0][0])),)), start=old)
    changes = ocular.compare_models(old, new, n=5)
    assert "60 clients in both models, 0 new, 0 gone" in repr(changes)
    assert f"mean Jaccard similarity {changes.jaccard:.3f}" in repr(changes)
    stored = json.loads(json.dumps(changes.to_dict()))
    assert stored["jaccard"] == changes.jaccard
    assert stored["recommendations"] == changes.rows()
    frame = changes.to_frame()
    assert frame.columns[:5] == ["client", "product", "change", "why", "detail"]
    assert frame.rows(named=True) == changes.rows()


def test_some_clients_only(old: OCuLaR) -> None:
    new = fit(purchases(55), parameters=PARAMETERS | {"regularization": 3.0})
    every = ocular.compare_models(old, new, n=5)
    one = ocular.compare_models(old, new, n=5, clients="Client 4")
    assert one.rows() == [row for row in every.rows() if row["client"] == "Client 4"]
    assert len(one.jaccards) == 1
    gone = ocular.compare_models(old, new, n=5, clients=["Client 59"])
    assert {row["why"] for row in gone.rows()} == {"client gone"}
    assert gone.to_dict()["jaccard"] is None
    with pytest.raises(UnknownNameError, match="no client named 'Client 4711'"):
        ocular.compare_models(old, new, clients=["Client 4711"])


def test_what_cannot_be_compared_is_refused(old: OCuLaR) -> None:
    with pytest.raises(ConfigError, match="expected two fitted models, got str; load them"):
        ocular.compare_models(old, "model")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected two fitted models, got OCuLaR"):
        ocular.compare_models(OCuLaR(), old)
    with pytest.raises(DataError, match="expected two models of the same clients, got none of the same name"):
        ocular.compare_models(old, fit(purchases().to_matrix()))
    with pytest.raises(ConfigError, match="expected N to be"):
        ocular.compare_models(old, old, n=0)
