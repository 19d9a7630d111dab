"""The paper's introductory example must come out as the paper tells it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "intro_example.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("intro_example", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


intro = load()


@pytest.fixture(scope="module", params=range(5))
def model(request: pytest.FixtureRequest) -> Any:
    return intro.fit(seed=request.param)


def test_confidence(model: Any) -> None:
    items, confidences = model.recommend(6, N=1)
    assert items.tolist() == [4]
    assert confidences[0] == pytest.approx(0.83, abs=0.03)


def test_the_withheld_pairs_are_the_most_probable_unknown_ones(model: Any) -> None:
    assert set(intro.recommended(model)) == {(4, 11), (5, 2), (6, 4)}
    fourth = intro.recommended(model, n=4)[-1]
    assert model.predict_proba(*fourth) < 0.05


def test_item_4_is_in_all_coclusters_and_client_6_in_two(model: Any) -> None:
    assert model.columns_[:, 4].sum() == 3
    assert model.rows_[:, 6].sum() == 2


def test_reasons(model: Any) -> None:
    evidence = [(set(reason.owned_items), set(reason.similar_users)) for reason in model.explain(6, 4).reasons]
    assert len(evidence) == 2
    assert ({1, 2, 3}, {4, 5}) in evidence
    assert ({5, 6, 7, 8, 9}, {7, 8, 9}) in evidence


@pytest.mark.parametrize("seed", range(3))
def test_communities_find_fewer(model: Any, seed: int) -> None:
    found = {method: len(pairs) for method, pairs in intro.found(model, seed=seed).items()}
    assert found["OCuLaR"] == 3
    assert found["modularity"] == 1
    assert found["BIGCLAM"] <= 1


def test_numbers_are_plain() -> None:
    outcome = json.loads(json.dumps(intro.results(intro.fit())))
    assert outcome["confidence"] == pytest.approx(0.83, abs=0.005)
    assert outcome["rationale"] == (
        "Item 4 is recommended to Client 6 with confidence 0.83 because:\n"
        "- Client 6 has purchased Items 5-9. Clients with similar purchase history (e.g., Clients 7-9) also "
        "bought Item 4 (3 of 3 in this group, 100%; 100% of all clients).\n"
        "- Moreover, Client 6 has purchased Items 1-3. Clients with similar purchase history (e.g., Clients 4-5) also "
        "bought Item 4 (2 of 2 in this group, 100%; 100% of all clients)."
    )
    assert len(outcome["probabilities"]) == 12


def test_drawing() -> None:
    lines = intro.drawing(intro.fit()).splitlines()
    assert lines[7].split() == ["6", *"·###o#####··"]
    assert "".join(lines).count("o") == 3
