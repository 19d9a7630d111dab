"""
Davis's eighteen women and fourteen events: two groups, and women between them.

In Freeman's comparison of 21 analyses ("Finding social groups", 2003) most have the groups below, and place Pearl and
Ruth differently.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from ocular import Interactions, OCuLaR

FIRST = {"Evelyn", "Laura", "Theresa", "Brenda", "Charlotte", "Frances", "Eleanor"}
SECOND = {"Verne", "Myra", "Katherina", "Sylvia", "Nora", "Helen", "Dorothy", "Olivia", "Flora"}
BETWEEN = {"Pearl", "Ruth"}


@pytest.mark.parametrize("seed", range(3))
def test_the_two_groups_and_the_women_between_them(seed: int) -> None:
    graph = nx.davis_southern_women_graph()
    women, events = graph.graph["top"], graph.graph["bottom"]
    attended = Interactions.from_matrix(
        nx.bipartite.biadjacency_matrix(graph, women, events),
        user_labels=[name.split()[0] for name in women],
        item_labels=events,
    )
    model = OCuLaR(2, 0.2, tol=1e-6, max_iter=1000, random_state=seed).fit(attended)
    groups = [{attended.user_labels[u] for u in cocluster.users} for cocluster in model.coclusters()]
    assert sorted(groups, key=len) == [FIRST | BETWEEN, SECOND | BETWEEN]
    assert {str(name) for name in attended.user_labels[model.members().per_user == 2]} == BETWEEN
    # the strongest events of each group are the other's weakest
    strengths = model.item_factors_.toarray()
    for event, group in (("E5", FIRST), ("E12", SECOND)):
        row = strengths[attended.item_index(event)]
        column = next(c.index for c in model.coclusters() if attended.user_labels[c.users[0]] in group)
        assert row[column] > 5 * np.delete(row, column)[0]
