"""A short tour for new sellers: how some clients buy, who they are, what comes next and where one's own have gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.explain.coclusters import CoCluster
from ocular.explain.names import product_name
from ocular.web.opportunities import Pairs
from ocular.web.pattern_index import MAX_PROFILES, TYPICAL_LIFT, Profile
from ocular.web.pattern_views import Opening, best_openings, product_address
from ocular.web.registry import ServedModel
from ocular.web.views import view_recommendation

MAX_CORE, MAX_NEXT, MAX_GAPS, MAX_PATTERNS, MAX_OFFERED = 6, 3, 5, 4, 8
MIN_BOTH = 3  # clients who own both products, for one to be what is bought next
NEARLY_ALL = 0.75
MIN_CLIENTS = 5  # of a tour: what fewer clients buy would tell on each of them

Rows = NDArray[np.int64]


class Core(NamedTuple):
    """A product that many of the clients own."""

    name: str
    address: str
    share: float
    overall: float


class Next(NamedTuple):
    """A product that owners of another one often have too."""

    owned: str
    name: str
    both: int
    owners: int
    overall: float  # share of all clients who own it
    address: str


class Gap(NamedTuple):
    """A product that is usual and that some of one's own clients do not have."""

    name: str
    address: str
    without: int
    share: float  # of the clients of the tour who own it


@dataclass(frozen=True)
class Tour:
    """What the steps of a tour show."""

    clients: str  # who they are, as in "Insurance clients"
    n_clients: int
    n_mine: int
    typical_products: int  # median number that a client owns
    profiles: list[Profile]
    patterns: list[tuple[int, str, float]]  # number, label, share of the clients
    core: list[Core]
    core_is_nearly_all: bool
    next_products: list[Next]
    gaps: list[Gap]
    openings: list[Opening]
    pitch: str  # the strongest reason for the first opening


def topics(served: ServedModel) -> dict[str, tuple[str, str]]:
    """Return the attribute values with enough clients for a tour, by the text that a form sends: industry=Insurance."""
    known, n_users = served.pattern_index.client_categories, served.interactions.n_users
    return {
        f"{attribute}={value}": (attribute, value)
        for attribute, category in known.items()
        for value, share in zip(category.values, category.overall.tolist(), strict=True)
        if round(share * n_users) >= MIN_CLIENTS
    }


def tour_of_clients(served: ServedModel, attribute: str, value: str, mine: Rows, closed: Pairs) -> Tour:
    """Return the tour of the clients with an attribute value."""
    category = served.pattern_index.client_categories[attribute]
    users = np.flatnonzero(category.codes == category.values.index(value) + 1)
    return _tour(served, f"{value} clients", users, mine, closed, attribute)


def tour_of_pattern(served: ServedModel, pattern: CoCluster, mine: Rows, closed: Pairs) -> Tour:
    """Return the tour of the clients of a pattern."""
    return _tour(served, f"clients of “{served.pattern_label(pattern.index)}”", pattern.users, mine, closed)


def _tour(served: ServedModel, clients: str, users: Rows, mine: Rows, closed: Pairs, without: str = "") -> Tour:
    data, index = served.interactions, served.pattern_index
    counts = np.bincount(data.by_user.take(users).indices, minlength=data.n_items)
    overall = data.by_item.degrees / data.n_users
    core = np.argsort(-counts, kind="stable")[:MAX_CORE]
    core = core[counts[core] > 0]
    own = users[np.isin(users, mine)]
    own_counts = np.bincount(data.by_user.take(own).indices, minlength=data.n_items)
    gaps = [item for item in core.tolist() if own_counts[item] < len(own)]
    share = counts / max(len(users), 1)
    distinctive = np.argsort(-share * np.log(np.maximum(share, 1e-12) / np.maximum(overall, 1e-12)))[:MAX_OFFERED]
    distinctive = distinctive[share[distinctive] > TYPICAL_LIFT * overall[distinctive]]
    openings = best_openings(served, own, distinctive if len(distinctive) else core, closed, n=3)
    return Tour(
        clients=clients,
        n_clients=len(users),
        n_mine=len(own),
        typical_products=round(float(np.median(data.by_user.degrees[users]))) if len(users) else 0,
        profiles=index.profiles_of(users, without)[:MAX_PROFILES],
        patterns=[
            (pattern.index, served.pattern_label(pattern.index), n / len(users))
            for pattern, n in index.patterns_of(users)[:MAX_PATTERNS]
        ],
        core=[Core(*_named(served, i), counts[i] / len(users), overall[i]) for i in core.tolist()],
        core_is_nearly_all=len(core) > 1 and counts[core[1]] >= NEARLY_ALL * len(users),
        next_products=_next_products(served, users, core, overall),
        gaps=[Gap(*_named(served, i), len(own) - int(own_counts[i]), counts[i] / len(users)) for i in gaps[:MAX_GAPS]],
        openings=openings,
        pitch=_pitch(served, openings[0]) if openings else "",
    )


def _named(served: ServedModel, item: int) -> tuple[str, str]:
    data = served.interactions
    return product_name(data.item_name(item)), product_address(str(data.item_labels[item]))


def _next_products(served: ServedModel, users: Rows, core: Rows, overall: NDArray[np.float64]) -> list[Next]:
    """Return for the usual products the one that sets their owners apart most; each is named once."""
    data, found, taken = served.interactions, list[Next](), {*core.tolist()}
    is_member = np.zeros(data.n_users, dtype=bool)
    is_member[users] = True
    for item in core.tolist():
        owners = data.by_item[item][is_member[data.by_item[item]]]
        both = np.bincount(data.by_user.take(owners).indices, minlength=data.n_items)
        share = both / max(len(owners), 1)
        gain = share * np.log(np.maximum(share, 1e-12) / np.maximum(overall, 1e-12))
        gain[[*taken]], gain[both < MIN_BOTH] = -1.0, -1.0
        best = int(gain.argmax())
        if gain[best] > 0:
            taken.add(best)
            name, address = _named(served, best)
            owned = _named(served, item)[0]
            found.append(Next(owned, name, int(both[best]), len(owners), float(overall[best]), address))
    return found[:MAX_NEXT]


def _pitch(served: ServedModel, opening: Opening) -> str:
    """Return the strongest reason, without names of other clients."""
    nobody = np.zeros(served.interactions.n_users, dtype=bool)
    recommendation = served.advisor.explain(opening.client, opening.product)
    return view_recommendation(served, recommendation, nobody, evidence=False).strongest_reason
