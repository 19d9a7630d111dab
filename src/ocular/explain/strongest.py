"""
The strongest reasons of many recommendations at once: those that `Explanation.strongest_reason` gives for each.

Which reason is the strongest shows only after those that say the same are one, and figures that convince nobody have
gone last. So the kernel takes the steps of `finder.Reasons` and `Explanation._distinct_reasons`, but makes no list that
nobody reads: whether there is a similar client, or whether two groups are the same, is mostly clear from the first few.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.compiling import njit
from ocular.data.interactions import Adjacency
from ocular.evidence import Evidence
from ocular.explain.coclusters import Members
from ocular.explain.names import MAX_EXAMPLES
from ocular.explain.reasons import APPEAL, LINKS, MAX_NAMED, MAX_PEERS, NAMED_SHARE, PEERS, TASTE

NONE, BY_LINKS, BY_PEERS, BY_TASTE, BY_APPEAL = -1, -2, -3, -4, -5  # in place of a co-cluster's number
KIND_OF = {BY_LINKS: LINKS, BY_PEERS: PEERS, BY_TASTE: TASTE, BY_APPEAL: APPEAL}
NO_SIMILAR, AMONG_MEMBERS, AMONG_TRACES = 0, 1, 2  # where similar clients are found
NOTHING, ONLY_NAMED, OTHERS_TOO = 0, 1, 2  # what a client has in common with their peers


class Rows(NamedTuple):
    """A sparse table by row, as kernels take it."""

    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, table: sp.csr_array | sp.csc_array) -> Rows:
        """Return the rows of a table."""
        rows = sp.csr_array(table)
        return cls(*_typed(rows.indptr, rows.indices), rows.data.astype(np.float32, copy=False))

    @classmethod
    def of_pairs(cls, pairs: Adjacency) -> Rows:
        """Return who has what; there are no values."""
        return cls(*_typed(pairs.indptr, pairs.indices), np.empty(0, np.float32))


def _typed(ends: NDArray[Any], columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return ends.astype(np.int64, copy=False), columns.astype(np.int32, copy=False)


class Sides(NamedTuple):
    """What the reasons for any client's recommendations need of a model."""

    items: Rows  # y_i, over co-clusters, products, clients and values of attributes as in `ocular.evidence`
    item_members: Rows  # of co-clusters
    item_factors: Rows
    user_members: Rows
    user_factors: Rows
    buyers: Rows  # of each item
    holders: Rows  # clients with each value of an attribute of clients
    n_users: int
    ends: NDArray[np.int64]  # of the columns of co-clusters, links, peers, taste and appeal

    @classmethod
    def of(cls, evidence: Evidence, members: Members) -> Sides:
        """Return the sides of a model."""
        values = evidence.user_features
        holders = sp.csr_array((0, 0)) if values is None else values.rows.matrix(len(values)).T
        return cls(
            Rows.of(evidence.item_rows), Rows.of(members.items), Rows.of(evidence.item_factors),
            Rows.of(members.users), Rows.of(evidence.user_factors), Rows.of_pairs(evidence.interactions.by_item),
            Rows.of(holders), evidence.interactions.n_users, np.cumsum(evidence.sizes),
        )  # fmt: skip


class Strongest(NamedTuple):
    """The strongest reason of each pair of a client (row) and a recommended product (column)."""

    best: NDArray[np.int32]  # the co-cluster, or BY_LINKS and so on, or NONE
    contribution: NDArray[np.float64]  # with that of reasons that say the same
    because: NDArray[np.int32]  # the purchases that it names first, −1 for none
    similar: NDArray[np.int32]  # of peers: how many of the most similar clients bought the product, of how many
    value: NDArray[np.int32]  # of taste and appeal: the value that adds most, products' before clients'; −1 for none


def find_strongest(clients: sp.csr_array, owned: Adjacency, sides: Sides, ids: NDArray[np.int32]) -> Strongest:
    """Return the strongest reasons for the products `ids`, −1 for none, none of which their client owns."""
    found = Strongest(
        np.full(ids.shape, NONE, dtype=np.int32),
        np.zeros(ids.shape),
        np.full((*ids.shape, MAX_EXAMPLES), -1, dtype=np.int32),
        np.zeros((*ids.shape, 2), dtype=np.int32),
        np.full(ids.shape, -1, dtype=np.int32),
    )
    _find(Rows.of(clients), Rows.of_pairs(owned), sides, ids, found)
    return found


@njit(nogil=True, cache=True)
def _find(clients, owned, sides, ids, found):
    items, buyers = sides.items, sides.buyers
    K, first_peer, first_taste, first_appeal, width = sides.ends
    x, is_close = np.zeros(width, np.float32), np.zeros(width, np.bool_)
    place = np.full(K, -1, np.int64)  # of a co-cluster among those of the client
    closest, closeness = np.empty(MAX_PEERS, np.int32), np.empty(MAX_PEERS, np.float64)
    similar, likeness = np.empty(MAX_PEERS, np.int32), np.empty(MAX_PEERS, np.float64)
    linked, strength = np.empty(MAX_NAMED, np.int32), np.empty(MAX_NAMED, np.float64)
    for r in range(ids.shape[0]):
        mine = owned.columns[owned.ends[r] : owned.ends[r + 1]]
        closest[:], closeness[:], n_mine = -1, 0.0, 0
        for a in range(clients.ends[r], clients.ends[r + 1]):
            c, value = clients.columns[a], clients.values[a]
            x[c] = value
            if c < K:
                place[c] = n_mine
                n_mine += 1
            elif first_peer <= c < first_taste:
                insert(c, value, closest, closeness)
        for c in closest[closest >= 0]:
            is_close[c] = True
        held, n_held, named = _held(mine, place, n_mine, sides.item_members, sides.item_factors)
        coclusters, adds = np.empty(n_mine, np.int64), np.empty(n_mine, np.float64)
        for n in range(ids.shape[1]):
            i = ids[r, n]
            if i < 0:
                continue
            links = peers = taste = appeal = most_taste = most_appeal = 0.0
            taste_value = appeal_value = -1
            n_patterns = n_similar = n_close = 0
            linked[:], strength[:], similar[:], likeness[:] = -1, 0.0, -1, 0.0
            for a in range(items.ends[i], items.ends[i + 1]):
                c = items.columns[a]
                added = np.float64(x[c]) * np.float64(items.values[a])
                if added <= 0:
                    continue
                if c < K:
                    coclusters[n_patterns], adds[n_patterns] = c, added
                    n_patterns += 1
                elif c < first_peer:
                    links += added
                    insert(c - K, added, linked, strength)
                elif c < first_taste:
                    peers += added
                    n_similar += 1
                    n_close += is_close[c]
                    insert(c - first_peer, np.float64(x[c]), similar, likeness)
                elif c < first_appeal:
                    taste += added
                    if added > most_taste:
                        most_taste, taste_value = added, c
                else:
                    appeal += added
                    if added > most_appeal:
                        most_appeal, appeal_value = added, c
            base_rate = (buyers.ends[i + 1] - buyers.ends[i]) / max(sides.n_users - 1, 1)
            n_peers = (closest >= 0).sum()
            found.similar[r, n, 0], found.similar[r, n, 1] = n_close, n_peers

            order = np.argsort(-adds[:n_patterns], kind="mergesort")
            heads, sums = _patterns(i, coclusters[order], adds[order], place, held, n_held, sides)

            best, value, telling = NONE, 0.0, False
            n_named = _count_named(strength, links)
            counted = _telling_links(i, linked[0], buyers, base_rate) if n_named else 0
            joined = np.zeros(len(heads), np.bool_)
            if counted == 0:
                n_named = 0
            else:
                best, value, telling = BY_LINKS, links, counted == 2
                for h in range(len(heads)):
                    joined[h] = _names_within(linked[:n_named], named[place[heads[h]]])
                    value += sums[h] if joined[h] else 0.0
            in_common = _in_common(similar, mine, linked[:n_named], buyers)
            if in_common == ONLY_NAMED:
                value, in_common = value + peers, NOTHING
            for h in range(len(heads)):
                if joined[h]:
                    continue
                names = named[place[heads[h]]]
                added = sums[h]
                if in_common != NOTHING and _in_common(similar, mine, names, buyers) == ONLY_NAMED:
                    added, in_common = added + peers, NOTHING
                if best == NONE or not telling or added > value:
                    best, value, telling = heads[h], added, True
            if in_common != NOTHING:
                rate = n_close / n_peers if n_close else n_similar / (n_similar + n_peers)
                is_telling = rate > base_rate
                if best == NONE or (is_telling and not telling) or (is_telling == telling and peers > value):
                    best, value, telling = BY_PEERS, peers, is_telling
            has_taste = taste_value >= 0 and _any_has(mine, items, taste_value)
            if has_taste and (best == NONE or not telling or taste > value):
                best, value, telling = BY_TASTE, taste, True
            if appeal_value >= 0:
                counted = _telling_value(i, appeal_value - first_appeal, sides.holders, buyers, base_rate)
                is_better = best == NONE or (counted == 2 and not telling)
                if counted and (is_better or ((counted == 2) == telling and appeal > value)):
                    best, value = BY_APPEAL, appeal
            if best <= BY_TASTE:
                found.value[r, n] = (taste_value if best == BY_TASTE else appeal_value) - first_taste
            found.best[r, n], found.contribution[r, n] = best, value
            if best == BY_LINKS:
                for a in range(min(n_named, MAX_EXAMPLES)):
                    found.because[r, n, a] = linked[a]
            elif best >= 0:
                found.because[r, n] = named[place[best]]
        for c in closest[closest >= 0]:
            is_close[c] = False
        for c in clients.columns[clients.ends[r] : clients.ends[r + 1]]:
            x[c] = 0.0
            if c < K:
                place[c] = -1


@njit(nogil=True, cache=True)
def _held(mine, place, n_mine, members, factors):
    """Return the purchases in each of a client's co-clusters, how many these are, and the first to be named."""
    held, n_held = np.empty((n_mine, len(mine)), np.int32), np.zeros(n_mine, np.int64)
    named, values = np.full((n_mine, MAX_EXAMPLES), -1, np.int32), np.zeros((n_mine, MAX_EXAMPLES))
    for table in (members, factors):  # where no purchase is a member, whatever has a trace of it
        is_open = n_held == 0
        for j in mine:
            for a in range(table.ends[j], table.ends[j + 1]):
                p = place[table.columns[a]]
                if p >= 0 and is_open[p] and table.values[a] > 0:
                    held[p, n_held[p]] = j
                    n_held[p] += 1
                    insert(j, np.float64(table.values[a]), named[p], values[p])
    return held, n_held, named


@njit(nogil=True, cache=True)
def _patterns(i, coclusters, adds, place, held, n_held, sides):
    """Return the co-clusters with evidence for item i and what they add, strongest first; same evidence is one."""
    heads, sums, n = np.empty(len(coclusters), np.int64), np.empty(len(coclusters)), 0
    where = np.empty(len(coclusters), np.int64)
    for a in range(len(coclusters)):
        c = coclusters[a]
        p = place[c]
        mine = held[p, : n_held[p]]
        found = _where_similar(i, c, mine, sides)
        if found == NO_SIMILAR:
            continue
        head = n
        for h in range(n):
            q = place[heads[h]]
            is_same = n_held[q] == n_held[p] and (held[q, : n_held[q]] == mine).all()
            if is_same and _are_same_clients(i, heads[h], where[h], c, found, mine, sides):
                head = h
                break
        if head == n:
            heads[n], sums[n], where[n] = c, 0.0, found
            n += 1
        sums[head] += adds[a]
    order = np.argsort(-sums[:n], kind="mergesort")
    return heads[order], sums[order]


@njit(nogil=True, cache=True)
def _where_similar(i, c, mine, sides):
    """Return where there is a buyer of item i in a co-cluster who has one of these purchases, if there is."""
    buyers = sides.buyers
    span = buyers.columns[buyers.ends[i] : buyers.ends[i + 1]]
    if len(mine):
        for v in span:
            if _has(sides.user_members, v, c) and _shares(v, mine, buyers):
                return AMONG_MEMBERS
        for v in span:
            if _has(sides.user_factors, v, c) and _shares(v, mine, buyers):
                return AMONG_TRACES
    return NO_SIMILAR


@njit(nogil=True, cache=True)
def _are_same_clients(i, c, c_where, d, d_where, mine, sides):
    """Return whether the same buyers of item i bear two co-clusters out that hold the same purchases."""
    buyers = sides.buyers
    for v in buyers.columns[buyers.ends[i] : buyers.ends[i + 1]]:
        in_c = _has(sides.user_members if c_where == AMONG_MEMBERS else sides.user_factors, v, c)
        in_d = _has(sides.user_members if d_where == AMONG_MEMBERS else sides.user_factors, v, d)
        if in_c != in_d and _shares(v, mine, buyers):
            return False
    return True


@njit(nogil=True, cache=True)
def _has(table, row, column):
    for a in range(table.ends[row], table.ends[row + 1]):
        if table.columns[a] == column:
            return table.values[a] > 0
    return False


@njit(nogil=True, cache=True)
def _bought(user, item, buyers):
    low, high = buyers.ends[item], buyers.ends[item + 1]
    at = low + np.searchsorted(buyers.columns[low:high], user)
    return at < high and buyers.columns[at] == user


@njit(nogil=True, cache=True)
def _shares(user, items, buyers):
    for j in items:  # noqa: SIM110  Numba knows no any() of a generator
        if _bought(user, j, buyers):
            return True
    return False


@njit(nogil=True, cache=True)
def _count_named(parts, total):
    """Do what `reasons.count_named` does, with the largest parts and their sum."""
    reached = 0.0
    for n in range(len(parts)):
        if parts[n] <= 0:
            return n
        reached += parts[n]
        if reached >= NAMED_SHARE * total * (1 - 1e-9):
            return n + 1
    return len(parts)


@njit(nogil=True, cache=True)
def _telling_links(i, j, buyers, base_rate):
    """Return 0 where no other owner of item j bought item i, 2 where more did than of all clients, otherwise 1."""
    owners = buyers.ends[j + 1] - buyers.ends[j] - 1  # without the client
    few, many = (i, j) if buyers.ends[i + 1] - buyers.ends[i] < owners else (j, i)
    both = 0
    for v in buyers.columns[buyers.ends[few] : buyers.ends[few + 1]]:
        if _bought(v, many, buyers):
            both += 1
            if both / owners > base_rate:
                return 2
    return min(both, 1)


@njit(nogil=True, cache=True)
def _telling_value(i, value, holders, buyers, base_rate):
    """Do what `_telling_links` does, of the clients who have a value of an attribute."""
    n_others = holders.ends[value + 1] - holders.ends[value] - 1  # without the client
    both = 0
    for v in holders.columns[holders.ends[value] : holders.ends[value + 1]]:
        both += _bought(v, i, buyers)
    return 0 if both == 0 else 1 + (both / n_others > base_rate)


@njit(nogil=True, cache=True)
def _any_has(items, rows, column):
    for j in items:  # noqa: SIM110  Numba knows no any() of a generator
        if _has(rows, j, column):
            return True
    return False


@njit(nogil=True, cache=True)
def _names_within(links, pattern):
    """Return whether all names of one of them are among those of the other."""
    n_shared = n_pattern = 0
    for j in pattern:
        if j >= 0:
            n_pattern += 1
            n_shared += (links == j).any()
    return n_shared in (n_pattern, len(links))


@njit(nogil=True, cache=True)
def _in_common(similar, mine, names, buyers):
    """Return what a client has in common with similar ones: nothing, only what is named, or other products too."""
    found = NOTHING
    for v in similar:
        if v < 0:
            break
        for j in mine:
            if _bought(v, j, buyers):
                if not (names == j).any():
                    return OTHERS_TOO
                found = ONLY_NAMED
    return found


@njit(nogil=True, cache=True)
def insert(name, value, names, values):
    """Keep a name if its value is among the largest, which are in order."""
    if value <= values[-1]:
        return
    at = len(names) - 1
    while at > 0 and value > values[at - 1]:
        values[at], names[at] = values[at - 1], names[at - 1]
        at -= 1
    values[at], names[at] = value, name
