"""The shortlists of clients and the metrics of a weighting, compiled by Numba; `weight_scan` says what they are for."""

import numpy as np

from ocular.compiling import njit

SHIFT = np.uint32(20)  # of a float32, so that its sign, exponent and 3 bits are left
N_BINS = 1 << (31 - 20)  # of numbers that are not negative
ZERO, ONE = np.float32(0), np.float32(1)
N_ELSEWHERE = 64  # columns for the scores of products that are not listed: a sum in a single one would wait for itself


@njit(nogil=True, cache=True)
def find_favourites(favourites, owned_ends, owned, found, first, last):
    """The first of `favourites` that each client does not own, as many as `found` has columns."""
    is_owned = np.zeros(len(favourites), np.bool_)
    for r in range(first, last):
        is_owned[owned[owned_ends[r] : owned_ends[r + 1]]] = True
        n = 0
        for i in favourites:
            if n == found.shape[1]:
                break
            if not is_owned[i]:
                found[r, n] = i
                n += 1
        is_owned[owned[owned_ends[r] : owned_ends[r + 1]]] = False


@njit(nogil=True, cache=True)
def find_first(
    row_ends, columns, strengths, member_ends, members, member_strengths, n_items, owned_ends, owned, found, first, last
):
    """
    The places of the products with the highest scores that the client does not own, as many as `found` has columns.

    They are told apart by the leading bits of their scores: at the limit, scores within an eighth count as equal.
    """
    n_found = found.shape[1]
    score, scored = np.zeros(n_items, np.float32), np.empty(n_items + 1, np.uint32)
    bits, bins = score.view(np.uint32), np.empty(N_BINS, np.int32)
    for r in range(first, last):
        n_scored = 0
        for a in range(row_ends[r], row_ends[r + 1]):
            c, strength = columns[a], strengths[a]
            for b in range(member_ends[c], member_ends[c + 1]):
                i, more = members[b], strength * member_strengths[b]
                scored[n_scored] = i
                n_scored += score[i] == ZERO and more > ZERO
                score[i] += more
        for a in range(owned_ends[r], owned_ends[r + 1]):
            score[owned[a]] = ZERO
        bins[:] = 0
        for k in range(n_scored):
            bins[bits[scored[k]] >> SHIFT] += 1
        limit, above = N_BINS - 1, 0
        while limit > 0 and above + bins[limit] < n_found:
            above += bins[limit]
            limit -= 1
        room, n = n_found - above, 0  # for those at the limit
        for k in range(n_scored):
            i = scored[k]
            b = bits[i] >> SHIFT
            if score[i] > ZERO and (b > limit or (b == limit and room > 0)):
                room -= b == limit
                found[r, n] = i
                n += 1
        for k in range(n_scored):
            score[scored[k]] = ZERO


@njit(nogil=True, cache=True)
def score_listed(
    row_ends, columns, strengths, member_ends, members, member_strengths, n_items, sizes, places, scores, first, last
):
    """The scores of the products of each shortlist."""
    room = places.shape[1]
    elsewhere = (room + np.arange(n_items) % N_ELSEWHERE).astype(np.uint32)
    column = elsewhere.copy()  # of each product: where it is in the shortlist
    score = np.empty(room + N_ELSEWHERE, np.float32)
    for r in range(first, last):
        for k in range(sizes[r]):
            column[places[r, k]] = k
        score[:] = 0
        for a in range(row_ends[r], row_ends[r + 1]):
            c, strength = columns[a], strengths[a]
            for b in range(member_ends[c], member_ends[c + 1]):
                score[column[members[b]]] += strength * member_strengths[b]
        scores[r] = score[:room]
        for k in range(sizes[r]):
            column[places[r, k]] = elsewhere[places[r, k]]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def measure_weights(
    sizes, places, hit_ends, hits, scores, weights, scale, base, n_held_out, discounts, M, out, first, last
):
    """Recall, average precision, NDCG and precision@M of each row, ranked by the weighted sum of the scores."""
    score = np.empty(places.shape[1], np.float32)
    patterns, links, peers = weights[0], weights[1], weights[2]
    for r in range(first, last):
        size, listed = sizes[r], places[r]
        by_patterns, by_links, by_peers = scores[0, r], scores[1, r], scores[2, r]
        for k in range(size):
            score[k] = patterns * by_patterns[k] + links * by_links[k] + peers * by_peers[k]
        for part in range(3, len(weights)):
            if weights[part] > ZERO:
                weight, by_values = weights[part], scores[part, r]
                for k in range(size):
                    score[k] += weight * by_values[k]
        for k in range(size):
            score[k] = scale[listed[k]] * score[k] + base[listed[k]]
        ranks, n_hits = np.empty(hit_ends[r + 1] - hit_ends[r], np.int64), 0
        for k in hits[hit_ends[r] : hit_ends[r + 1]]:
            n_better, n_equal, own = ZERO, ZERO, score[k]
            for other in range(size):
                n_better += ONE if score[other] > own else ZERO
            for other in range(k):  # of equal scores the more popular item comes first
                n_equal += ONE if score[other] == own else ZERO
            rank = int(n_better + n_equal)
            if rank < M:
                ranks[n_hits] = rank
                n_hits += 1
        ranks = np.sort(ranks[:n_hits])
        precisions, gain, n = 0.0, 0.0, n_held_out[r]
        for hit in range(n_hits):
            precisions += (hit + 1) / (ranks[hit] + 1)
            gain += discounts[ranks[hit] + 1] - discounts[ranks[hit]]
        out[r, 0], out[r, 1] = n_hits / n, precisions / min(n, M)
        out[r, 2], out[r, 3] = gain / discounts[min(n, M)], n_hits / M
