"""The links of a target by least squares on the CPU: `objective.SquaresProblem` in float32, compiled by Numba."""

import numpy as np

from ocular.solver.link_kernels import ZERO, choose, clear, compiled, count_features, inlined, keep_strongest


@compiled
def count_pairs(feature_ends, holders, entity_ends, features, gram, first, last):
    """Count the entities that have both features, for the rows `first` to `last` − 1 of `gram`."""
    for j in range(first, last):
        row = gram[j]
        for a in range(feature_ends[j], feature_ends[j + 1]):
            for b in range(entity_ends[holders[a]], entity_ends[holders[a] + 1]):
                row[features[b]] += np.float32(1)


@compiled
def fit_targets(
    target_ends, positives, entity_ends, features, gram, norms, itself, n_links, ridge, max_iter, tol, max_features,
    min_link, kept_share, columns, strengths, sizes, first, last,
):  # fmt: skip
    """Links of the targets `first` to `last` − 1, into `columns`, `strengths` and `sizes` as in `link_kernels`."""
    n_features = len(norms)
    count, touched = np.zeros(n_features, np.int32), np.empty(n_features, np.int32)
    sub = np.empty((n_links, n_links), np.float32)  # rows of the candidates' Gram matrix, filled when needed
    for t in range(first, last):
        rows, chosen = positives[target_ends[t] : target_ends[t + 1]], columns[t - first]
        n_touched = count_features(rows, entity_ends, features, max_features, count, touched)
        if itself[t] >= 0:
            count[itself[t]] = 0
        n = choose(touched[:n_touched], count, norms, n_links, chosen)
        s, slope, filled = np.zeros(n, np.float32), np.empty(n, np.float32), np.zeros(n, np.bool_)
        for k in range(n):
            slope[k] = -np.float32(count[chosen[k]])
        clear(count, touched[:n_touched])
        _minimise(gram, chosen[:n], ridge, max_iter, tol, s, slope, sub, filled)
        sizes[t] = keep_strongest(chosen[:n], s, min_link, kept_share, strengths[t - first])


@inlined
def _minimise(gram, chosen, ridge, max_iter, tol, s, slope, sub, filled):
    """
    Minimise in place, one coordinate after the other, until a pass gains less than `tol` of what all have gained.

    `slope` is half the gradient. Most candidates stay zero and cost one look at their slope.
    """
    n, gained = len(s), 0.0
    for _ in range(max_iter):
        gain = 0.0
        for k in range(n):
            curvature = gram[chosen[k], chosen[k]] + ridge
            new = max(s[k] - slope[k] / curvature, ZERO)
            change = new - s[k]
            if change == ZERO:
                continue
            if not filled[k]:
                filled[k] = True
                for m in range(n):
                    sub[k, m] = gram[chosen[k], chosen[m]]
                sub[k, k] += ridge
            gain -= change * (2 * slope[k] + curvature * change)
            s[k] = new
            row = sub[k]
            for m in range(n):
                slope[m] += change * row[m]
        gained += gain
        if gain <= tol * gained:
            break
