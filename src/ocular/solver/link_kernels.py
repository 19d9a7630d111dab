"""
The links of a target on the CPU: `objective.LinkProblem` in float32, compiled by Numba.

The features of a target's positives become a small table of bytes, a row for each positive and a column for each
candidate, that stays in the caches while it is passed over again and again; products with zeros cost less than looking
up where the ones are.
"""

import math

import numpy as np
from numba import njit

ROOM = 32  # columns are padded to a multiple of this, so that vector loops have no scalar tail
ZERO, ONE = np.float32(0), np.float32(1)
MEAN_AFFINITY = 0.5  # of the positives at the start

# reassociation lets sums become vector code; a target is always summed in the same order, whatever thread it runs in
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
compiled = njit(nogil=True, fastmath=FASTMATH, cache=True, error_model="numpy")
# helpers become part of the kernel, as in kernels.py: the bytes would depend on whether it came from Numba's cache
inlined = njit(nogil=True, fastmath=FASTMATH, forceinline=True, error_model="numpy")


@compiled
def fit_targets(
    target_ends, positives,  # of each target: the entities that are positive
    entity_ends, features,  # of each entity: its features
    totals,  # (n_features,) number of entities with each
    weights,  # (n_entities,) of a positive
    skip_itself, n_links, ridge, background, relaxation, max_iter, tol, max_rows, max_features, min_link,
    columns, strengths, sizes, first, last,
):  # fmt: skip
    """
    Links of the targets `first` to `last` − 1, into the rows of `columns` and `strengths` from 0 on.

    `sizes`, (n_targets,), says how many each target has. A target with more than `max_rows` positives is fitted on
    every n-th of them, and of an entity with more than `max_features` features every n-th is counted as a candidate.
    """
    n_features = len(totals)
    seen = np.zeros(n_features, np.float32)  # weight of the positives that have the feature
    count = np.zeros(n_features, np.float32)  # their number
    place = np.zeros(n_features, np.int32)  # its column in the table
    touched = np.empty(n_features, np.int32)
    table = np.zeros((0, 0), np.uint8)
    for t in range(first, last):
        begin, n_positives = target_ends[t], target_ends[t + 1] - target_ends[t]
        sizes[t] = 0
        if n_positives == 0:
            continue
        step = -(-n_positives // max_rows)
        n_rows = -(-n_positives // step)
        rows = positives[begin : begin + n_positives : step]
        scale = np.float32(n_positives / n_rows)
        n_touched = _count(rows, entity_ends, features, weights, scale, max_features, count, seen, touched)
        if skip_itself:
            count[t] = ZERO
        chosen = columns[t - first]
        n = _choose(touched[:n_touched], count, totals, n_links, chosen)
        width = (n // ROOM + 1) * ROOM  # column 0 takes every feature that is no candidate
        if table.shape[1] != width or table.shape[0] < n_rows:
            table = np.zeros((n_rows, width), np.uint8)
        else:
            table[:n_rows] = 0
        s, cost = np.zeros(width, np.float32), np.zeros(width, np.float32)
        for k in range(n):
            j = chosen[k]
            place[j] = k + 1
            cost[k + 1] = max(np.float32(totals[j]) - count[j], ZERO) + seen[j]
        for r in range(n_rows):
            for a in range(entity_ends[rows[r]], entity_ends[rows[r] + 1]):
                table[r, place[features[a]]] = 1
        _start(s[1:], chosen[:n], count, totals, n_rows, scale)
        _minimise(table[:n_rows], rows, weights, cost, s, n, scale, ridge, background, relaxation, max_iter, tol)
        size = 0
        for k in range(n):
            place[chosen[k]] = 0
            if s[k + 1] >= min_link:
                chosen[size], strengths[t - first, size] = chosen[k], s[k + 1]
                size += 1
        sizes[t] = size
        for k in range(n_touched):
            j = touched[k]
            seen[j], count[j] = ZERO, ZERO


@inlined
def _count(rows, entity_ends, features, weights, scale, max_features, count, seen, touched):
    """How many of the rows have each feature, and their weight; returns how many features there are."""
    n = 0
    for e in rows:
        begin, end = entity_ends[e], entity_ends[e + 1]
        step = max(-(-(end - begin) // max_features), 1)
        more, weight = scale * np.float32(step), scale * np.float32(step) * weights[e]
        for a in range(begin, end, step):
            j = features[a]
            if count[j] == ZERO:
                touched[n] = j
                n += 1
            count[j] += more
            seen[j] += weight
    return n


@inlined
def _choose(touched, count, totals, n_links, chosen):
    """The features with the largest count / √total, at most n_links; of equal ones those that came first."""
    scores = np.empty(len(touched), np.float32)
    for k in range(len(touched)):
        scores[k] = -count[touched[k]] / math.sqrt(totals[touched[k]])
    limit, room = ZERO, n_links
    if len(touched) > n_links:
        limit = np.partition(scores, n_links - 1)[n_links - 1]
        for k in range(len(touched)):
            room -= scores[k] < limit
    n = 0
    for k in range(len(touched)):
        if scores[k] > limit or scores[k] == ZERO:
            continue
        if len(touched) > n_links and scores[k] == limit:
            if room == 0:
                continue
            room -= 1
        chosen[n] = touched[k]
        n += 1
    return n


@inlined
def _start(s, chosen, count, totals, n_rows, scale):
    """In proportion to the share of a feature's entities that are positive, scaled to a mean affinity."""
    total = 0.0
    for k in range(len(chosen)):
        s[k] = count[chosen[k]] / np.float32(totals[chosen[k]])
        total += s[k] * count[chosen[k]]
    if total > 0:
        factor = np.float32(MEAN_AFFINITY * n_rows * scale / total)
        for k in range(len(chosen)):
            s[k] *= factor


@inlined
def _minimise(table, rows, weights, cost, s, n, scale, ridge, background, relaxation, max_iter, tol):
    """
    Minimise in place, by EM steps: seen as a sum of Poisson counts of which at least one happened, a positive owes
    s_j / (1 − e^(−z)) events to the feature j.

    Steps are over-relaxed, which saves half of them; one that makes the objective worse is taken back and followed by a
    plain one, which never does.
    """
    n_rows, width = table.shape
    events, plain = np.empty(width, np.float32), s.copy()
    relaxed, lowest = False, np.inf
    for _ in range(max_iter):
        events[:] = ZERO
        value = 0.0
        for r in range(n_rows):
            row, z = table[r], ZERO
            for k in range(width):
                z += np.float32(row[k]) * s[k]
            gap = math.expm1(-(z + background))
            weight = weights[rows[r]]
            value -= weight * (math.log(-gap) + z)
            pull = -weight / np.float32(gap)
            for k in range(width):
                events[k] += pull * np.float32(row[k])
        value *= scale
        for k in range(1, n + 1):
            value += s[k] * (cost[k] + ridge * s[k])
        if value > lowest and relaxed:
            s[:], relaxed = plain, False
            continue
        if lowest - value < tol * abs(value):
            break
        lowest = value
        for k in range(1, n + 1):
            if s[k] > ZERO:
                owed = scale * events[k] * s[k]
                plain[k] = 2 * owed / (cost[k] + math.sqrt(cost[k] * cost[k] + 8 * ridge * owed))
                s[k] *= np.float32((plain[k] / s[k]) ** relaxation)
        relaxed = True
