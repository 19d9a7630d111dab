"""
Communities of the purchase graph, an alternative to co-clusters.

The graph has a node for each client and each product, an edge for each purchase. Communities have the form of
scikit-learn's biclusters: rows (n_communities, n_users), columns (n_communities, n_items).

BIGCLAM (J. Yang, J. Leskovec: Overlapping community detection at scale, WSDM 2013) is our own implementation: the
libraries that have it (karateclub, and cdlib through it) do not install beside current NumPy and networkx.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import scipy.sparse as sp

from ocular.data.interactions import Interactions
from ocular.errors import DataError, MissingExtraError
from ocular.synthetic.sampling import Floats, Mask
from ocular.validation import check_choice, check_number, check_whole

FLOOR = 1e-4  # affinity of any two nodes, so that an edge outside all communities has a logarithm
SEED_NOISE = 0.1  # largest membership at the start outside the seeds: a node at 0 everywhere has no gradient
STEPS = 0.5 ** np.arange(25)  # of a line search; the first that gains enough is taken
SIGMA = 0.1  # share of the gain predicted by the slope that a step must reach


def modularity(interactions: Interactions, *, method: str = "greedy", random_state: int = 0) -> tuple[Mask, Mask]:
    """
    Find disjoint communities of large modularity with networkx.

    The method is "greedy" (Clauset, Newman, Moore) or "louvain", which is much faster and uses `random_state`. Clients
    and products without purchases are in none.
    """
    check_choice(method, "method", ("greedy", "louvain"))
    check_whole(random_state, "random_state")
    try:
        nx = import_module("networkx")
    except ImportError:
        raise MissingExtraError("modularity needs networkx; install it with: pip install 'ocular-rec[eval]'") from None
    graph = nx.from_scipy_sparse_array(purchase_graph(interactions))
    if method == "greedy":
        communities = nx.community.greedy_modularity_communities(graph)
    else:
        communities = nx.community.louvain_communities(graph, seed=random_state)
    member = np.zeros((sum(interactions.shape), len(communities)), dtype=bool)
    for k, nodes in enumerate(communities):
        member[list(nodes), k] = len(nodes) > 1  # a node without edges is alone
    return _sides(member[:, member.any(axis=0)], interactions)


def bigclam(
    interactions: Interactions, n_communities: int, *, random_state: int = 0, max_iter: int = 200
) -> tuple[Mask, Mask]:
    """
    Find overlapping communities with BIGCLAM: any two nodes have an edge with probability 1 − e^(−⟨F_u, F_v⟩).

    Unlike in OCuLaR, client–client and product–product pairs count as missing edges and nothing is regularised. A node
    is a member where its membership reaches δ = √(−log(1 − ε)), with ε the density of the graph.
    """
    graph = purchase_graph(interactions)
    F, _ = bigclam_factors(graph, n_communities, random_state=random_state, max_iter=max_iter)
    threshold = np.sqrt(-np.log1p(-min(graph.nnz / (len(F) * (len(F) - 1)), 0.999)))  # two nodes with an edge have 1
    return _sides(np.greater_equal(F, threshold), interactions)


def bigclam_factors(
    graph: sp.csr_array, n_communities: int, *, random_state: int = 0, max_iter: int = 200, tol: float = 1e-5
) -> tuple[Floats, list[float]]:
    """
    Return the memberships F (n_nodes, n_communities) of an undirected graph, and the log-likelihoods.

    The log-likelihood is given before the first and after each sweep: a line-searched projected gradient step for one
    node after the other, which costs O(edges · K).
    """
    check_whole(n_communities, "n_communities", 1)
    check_whole(max_iter, "max_iter", 1)
    check_whole(random_state, "random_state")
    check_number(tol, "tol", 0)
    F = _seeded(graph, n_communities, np.random.default_rng(random_state))
    likelihoods = [log_likelihood(graph, F)]
    for _ in range(max_iter):
        total = F.sum(axis=0)  # computed anew for each sweep, so that rounding does not add up
        for u in range(len(F)):
            near = F[graph.indices[graph.indptr[u] : graph.indptr[u + 1]]]
            # missing edges = all - itself - neighbours keeps a sweep O(edges · K)
            total -= F[u]
            F[u] = _ascend(F[u], near, total - near.sum(axis=0))
            total += F[u]
        likelihoods.append(log_likelihood(graph, F))
        if likelihoods[-1] - likelihoods[-2] <= tol * abs(likelihoods[-2]):
            break
    return F, likelihoods


def log_likelihood(graph: sp.csr_array, F: Floats) -> float:
    """Return Σ_{edges} log(1 − e^(−z)) − Σ_{other pairs} z, with z = ⟨F_u, F_v⟩."""
    u, v = sp.triu(graph, k=1).nonzero()
    z = (F[u] * F[v]).sum(axis=1)
    return float(_log_edge(z).sum() + z.sum() - ((F.sum(axis=0) ** 2).sum() - (F**2).sum()) / 2)


def purchase_graph(interactions: Interactions) -> sp.csr_array:
    """Return the symmetric adjacency matrix whose nodes are the clients, then the products."""
    if interactions.nnz == 0:
        raise DataError("expected at least one purchase, got none; a graph without edges has no communities")
    bought = interactions.to_matrix()
    return sp.csr_array(sp.block_array([[None, bought], [bought.T, None]]))


def _seeded(graph: sp.csr_array, K: int, rng: np.random.Generator) -> Floats:
    """Return a start: neighbourhoods of low conductance, none around a member of an earlier one; the rest is random."""
    degree = np.diff(graph.indptr).astype(np.float64)
    volume = degree + graph @ degree
    cut = volume - 2 * degree  # only the spokes lie inside: a purchase graph has no triangles
    conductance = cut / np.maximum(np.minimum(volume, degree.sum() - volume), 1e-9)
    F, free, k = rng.uniform(0, SEED_NOISE, (len(degree), K)), degree > 0, 0
    for u in np.lexsort((rng.random(len(degree)), conductance)):
        if free[u] and k < K:
            around = [u, *graph.indices[graph.indptr[u] : graph.indptr[u + 1]]]
            F[around, k], free[around], k = 1.0, False, k + 1
    F[:, k:] = rng.uniform(0, 1, (len(degree), K - k))
    return F


def _ascend(f: Floats, near: Floats, rest: Floats) -> Floats:
    """Return the next f (K,) of a node: near (degree, K) are its neighbours, rest (K,) the sum over all others."""
    z = near @ f
    gradient = (1.0 / np.expm1(z + FLOOR)) @ near - rest
    tried = np.maximum(f + STEPS[:, None] * gradient, 0.0)  # (steps, K)
    value = _log_edge(tried @ near.T).sum(axis=1) - tried @ rest
    gains_enough = value >= _log_edge(z).sum() - f @ rest + SIGMA * (tried - f) @ gradient
    return tried[np.argmax(gains_enough)] if gains_enough.any() else f


def _log_edge(z: Floats) -> Floats:
    return np.asarray(np.log(-np.expm1(-(z + FLOOR))))


def _sides(member: Mask, interactions: Interactions) -> tuple[Mask, Mask]:
    return member[: interactions.n_users].T, member[interactions.n_users :].T
