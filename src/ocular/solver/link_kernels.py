"""
The links of a target on the CPU: `objective.LinkProblem` in float32, compiled by Numba.

The features of a target's positives become a small table of bytes, a row for each positive and a column for each
candidate, that stays in the caches while it is passed over again and again; products with zeros cost less than looking
up where the ones are.
"""

import math

import numpy as np

from ocular.compiling import njit

ROOM = 32  # columns are padded to a multiple of this, so that vector loops have no scalar tail
ZERO, ONE = np.float32(0), np.float32(1)
MIN_COST = np.float32(1e-3)
MEAN_AFFINITY = 0.5  # of the positives at the start
SCAN = 8  # where more than this part of all features are seen, all are gone through
SHIFT = 18  # of a float32, so that its sign, exponent and 5 bits are left

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
    pair_weights,  # (n_positives,) besides, or None
    refused_ends, refused,  # of each target: the entities that refused it, or None
    refusal,  # by how much more than 1 they weigh
    itself,  # (n_targets,) the feature that is the target, −1 where there is none: it is no candidate
    n_links, ridge, background, relaxation, max_iter, tol, max_rows, max_features, min_link, kept_share,
    columns, strengths, sizes, first, last,
):  # fmt: skip
    """
    Links of the targets `first` to `last` − 1, into the rows of `columns` and `strengths` from 0 on.

    `sizes`, (n_targets,), says how many each target has. A target with more than `max_rows` positives is fitted on
    every n-th of them, and of an entity with more than `max_features` features every n-th is counted as a candidate.
    """
    n_features = len(totals)
    count = np.zeros(n_features, np.int32)  # how many of the positives have the feature
    place = np.zeros(n_features, np.uint32)  # its column in the table
    touched, norms = np.empty(n_features, np.int32), _norms(totals)
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
        n_touched = count_features(rows, entity_ends, features, max_features, count, touched)
        if itself[t] >= 0:
            count[itself[t]] = 0
        chosen = columns[t - first]
        n = choose(touched[:n_touched], count, norms, n_links, chosen)
        width = (n // ROOM + 1) * ROOM  # column 0 takes every feature that is no candidate
        if table.shape[1] != width or table.shape[0] < n_rows:
            table = np.zeros((n_rows, width), np.uint8)
        else:
            table[:n_rows] = 0
        s, cost, shares = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32)
        for k in range(n):
            j = chosen[k]
            place[j] = k + 1
            cost[k + 1] = totals[j]
            shares[k + 1] = np.float32(count[j]) / totals[j]
        row_weights = np.empty(n_rows, np.float32)
        for r in range(n_rows):
            row_weights[r] = weights[rows[r]]
            if pair_weights is not None:
                row_weights[r] *= pair_weights[begin + r * step]
            for a in range(entity_ends[rows[r]], entity_ends[rows[r] + 1]):
                table[r, place[features[a]]] = 1
        _start(table[:n_rows], row_weights, scale, shares, s, cost)
        if pair_weights is not None:
            for k in range(1, n + 1):  # a sample of light positives may take off more than there is
                cost[k] = max(cost[k], MIN_COST)
        if refused_ends is not None:
            for e in refused[refused_ends[t] : refused_ends[t + 1]]:
                for a in range(entity_ends[e], entity_ends[e + 1]):
                    cost[place[features[a]]] += refusal
        _minimise(table[:n_rows], row_weights, cost, s, n, scale, ridge, background, relaxation, max_iter, tol)
        for k in range(n):
            place[chosen[k]] = 0
        sizes[t] = keep_strongest(chosen[:n], s[1 : n + 1], min_link, kept_share, strengths[t - first])
        clear(count, touched[:n_touched])


@inlined
def _norms(totals):
    """1 / √total of each feature."""
    norms = np.empty(len(totals), np.float32)
    for j in range(len(totals)):
        norms[j] = ONE / np.sqrt(max(totals[j], ONE))
    return norms


@inlined
def count_features(rows, entity_ends, features, max_features, count, touched):
    """Count how many of the rows have each feature; returns how many features they have, listed in `touched`."""
    n_seen = 0
    for e in rows:
        begin, end = entity_ends[e], entity_ends[e + 1]
        step = max(-(-(end - begin) // max_features), 1)
        n_seen += (end - begin) // step
        for a in range(begin, end, step):
            count[features[a]] += step
    n = 0
    if n_seen > len(count) // SCAN:
        for j in range(len(count)):
            touched[n] = j
            n += count[j] > 0
        return n
    for e in rows:  # few of very many features: looking for them among all would take longer
        begin, end = entity_ends[e], entity_ends[e + 1]
        step = max(-(-(end - begin) // max_features), 1)
        for a in range(begin, end, step):
            j = features[a]
            if count[j] > 0:
                touched[n] = j
                count[j] = -count[j]  # has been listed
                n += 1
    for k in range(n):
        count[touched[k]] = -count[touched[k]]
    return n


@inlined
def clear(count, touched):
    """Set the counts back to zero."""
    if len(touched) > len(count) // SCAN:
        count[:] = 0
    else:
        for j in touched:
            count[j] = 0


@inlined
def choose(touched, count, norms, n_links, chosen):
    """
    The features with the largest count / √total, at most n_links, into `chosen`; of equal ones those that come first.

    A histogram by the leading bits of the scores finds the few that are near the limit, and only these are sorted.
    """
    scores = np.empty(len(touched), np.float32)
    for k in range(len(touched)):
        scores[k] = np.float32(count[touched[k]]) * norms[touched[k]]
    limit, room = ZERO, n_links
    if len(touched) > n_links:
        bits = scores.view(np.uint32)  # of positive numbers: in their order
        bins = np.zeros(1 << (32 - SHIFT), np.int32)
        for k in range(len(touched)):
            bins[bits[k] >> SHIFT] += 1
        last, above = len(bins) - 1, 0  # the bin of the limit, and how many are in those above it
        while last > 0 and above + bins[last] < n_links:
            above += bins[last]
            last -= 1
        near, n = np.empty(bins[last], np.float32), 0
        for k in range(len(touched)):
            if bits[k] >> SHIFT == last:
                near[n] = scores[k]
                n += 1
        near.sort()
        limit = near[n - (n_links - above)]
        for k in range(n):
            above += near[k] > limit
        room = n_links - above  # for those at the limit
    n = 0
    for k in range(len(touched)):
        if scores[k] < limit or scores[k] == ZERO:
            continue
        if len(touched) > n_links and scores[k] == limit:
            if room == 0:
                continue
            room -= 1
        chosen[n] = touched[k]
        n += 1
    return n


@inlined
def keep_strongest(chosen, s, min_link, kept_share, strengths):
    """
    Move the strongest links that carry `kept_share` of all to the front, in their order, and return how many they are.

    Half of all links carry a few hundredths of the affinity; without them rankings take half the time.
    """
    total, n = 0.0, 0
    strong = np.empty(len(s) + 1, np.float32)
    for value in s:
        total += value
        strong[n] = value
        n += value >= min_link
    strongest = np.sort(strong[:n])[::-1]
    limit, carried = min_link, 0.0
    for value in strongest:
        carried += value
        limit = max(value, min_link)
        if carried >= kept_share * total:
            break
    size = 0
    for k in range(len(s)):
        if s[k] >= limit:
            chosen[size], strengths[size] = chosen[k], s[k]
            size += 1
    return size


@inlined
def _start(table, weights, scale, shares, s, cost):
    """
    Start in proportion to the share of a feature's entities that are positive, scaled to a mean affinity.

    `cost` is the number of entities with each feature, as if a positive weighed 1; what more it weighs is added, since
    the passes count it as a gain.
    """
    total, width = 0.0, len(s)
    for r in range(len(table)):
        row, z = table[r], ZERO
        more = scale * (weights[r] - ONE)
        for k in range(width):
            z += np.float32(row[k]) * shares[k]
        if more != ZERO:
            for k in range(width):
                cost[k] += more * np.float32(row[k])
        total += float(z)
    if total > 0:
        factor = np.float32(MEAN_AFFINITY * len(table) / total)
        for k in range(width):
            s[k] = factor * shares[k]


@inlined
def _minimise(table, weights, cost, s, n, scale, ridge, background, relaxation, max_iter, tol):
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
            weight = weights[r]
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
