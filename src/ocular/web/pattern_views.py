"""What the pages of patterns show: cards for the index, the matrix of one pattern and its best whitespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ocular.explain.coclusters import CoCluster
from ocular.explain.names import client_name, product_name
from ocular.web.opportunities import Pairs
from ocular.web.pattern_index import TYPICAL_LIFT, Bubble, whitespace
from ocular.web.registry import ServedModel
from ocular.web.views import Readable

MATRIX_CLIENTS, MATRIX_PRODUCTS = 40, 25
MAX_OPENINGS, PER_CLIENT, PER_PRODUCT = 10, 3, 3  # whitespace in the list, and of it for one client and product
MAX_SCORED = 60  # clients whose whitespace is looked at
CARD_PRODUCTS, SHADES, MAX_LINES = 4, 5, 3
HIDDEN_NAME = "A client"
LETTERS_PER_RADIUS = 0.24  # of the labels in bubbles

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PatternCard:
    """A pattern in the index."""

    number: int
    label: str
    clients: int
    products: int
    penetration: float
    share: float
    whitespace: int
    mine: int  # clients of the visitor in it
    typical_products: list[str]
    traits: list[tuple[str, float, float]]  # values that are more frequent than overall


@dataclass(frozen=True)
class BubbleView:
    """A bubble with what is written in it and said of it."""

    at: Bubble
    label: str
    lines: list[str]  # of the label, as far as they fit
    text: str  # for those who do not see it
    shade: int  # by penetration
    share: float  # of sales
    mine: int  # clients of the visitor in it


@dataclass(frozen=True)
class Square:
    """A pair in the matrix of a pattern."""

    state: str  # "bought", "open" for whitespace of one's own clients, "not" for other pairs
    text: str
    address: str = ""
    shade: int = 0  # of whitespace, by the chance to buy


@dataclass(frozen=True)
class PatternRow:
    """A client in the matrix of a pattern."""

    name: str
    address: str  # "" where the visitor may not open the client
    is_mine: bool
    squares: list[Square]


@dataclass(frozen=True)
class PatternMatrix:
    """Clients × products of a pattern, one's own clients first, then the strongest."""

    products: list[tuple[str, str]]  # name and address
    rows: list[PatternRow]
    n_mine: int  # clients of the visitor in the pattern, shown or not
    hides_names: bool


@dataclass(frozen=True)
class Opening:
    """A product that a client of the visitor could buy next."""

    client: str
    client_name: str
    product: str
    product_name: str
    score: float
    chance: float
    value: float | None

    @property
    def address(self) -> str:
        """The address of the recommendation."""
        return recommendation_address(self.client, self.product)


def recommendation_address(client: str, product: str) -> str:
    """Return the address of a recommendation."""
    return f"/recommendation?client={quote(client, safe='')}&product={quote(product, safe='')}"


def product_address(product: str) -> str:
    """Return the address of a product's page."""
    return f"/product?name={quote(product, safe='')}"


def name_products(served: ServedModel, items: Rows) -> list[tuple[str, str]]:
    """Return the name and the address of each product."""
    data = served.interactions
    return [(product_name(data.item_name(i)), product_address(str(data.item_labels[i]))) for i in items.tolist()]


def view_card(served: ServedModel, pattern: CoCluster, n_mine: int) -> PatternCard:
    """Return a pattern as the index shows it."""
    names = [product_name(served.interactions.item_name(item)) for item in pattern.items[:CARD_PRODUCTS].tolist()]
    profiles = served.pattern_index.profiles(pattern.index)
    by_client = [profile for profile in profiles if profile.side == "client"]
    rows = [row for profile in (by_client or profiles)[:1] for row in profile.rows]
    return PatternCard(
        number=pattern.index,
        label=served.pattern_label(pattern.index),
        clients=len(pattern.users),
        products=len(pattern.items),
        penetration=pattern.density,
        share=pattern.share,
        whitespace=whitespace(pattern),
        mine=n_mine,
        typical_products=names,
        traits=[row for row in rows if row[1] >= TYPICAL_LIFT * row[2]][:2],
    )


def view_bubbles(served: ServedModel, mine: dict[int, int], shown: Collection[int]) -> list[BubbleView]:
    """Return the bubbles of the map, without those that a filter leaves out."""
    highest = max((pattern.density for pattern in served.patterns.values()), default=1.0)
    views = []
    for bubble in served.pattern_index.bubble_map.bubbles:
        if bubble.number not in shown:
            continue
        pattern, label = served.patterns[bubble.number], served.pattern_label(bubble.number)
        text = f"{label}: {pattern.share:.0%} of sales, {len(pattern.users):,} clients, {len(pattern.items):,} products"
        shade = 1 + min(int(SHADES * pattern.density / max(highest, 1e-12)), SHADES - 1)
        lines, n_mine = _lines(label, bubble.radius), mine[bubble.number]
        views.append(BubbleView(bubble, label, lines, text, shade, pattern.share, n_mine))
    return views


def _lines(label: str, radius: float) -> list[str]:
    """Return the label in lines that fit into a bubble, cut where it is too long."""
    width = max(int(radius * LETTERS_PER_RADIUS * 2), 4)
    lines: list[str] = []
    for word in label.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    kept = [line if len(line) <= width + 1 else f"{line[: width - 1]}…" for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        kept[-1] = f"{kept[-1][: width - 1].rstrip(' ,…')}…"
    return kept


def view_matrix(served: ServedModel, pattern: CoCluster, mine: Rows, readable: Readable) -> PatternMatrix:
    """Return the matrix with whitespace of the visitor's clients by chance to buy."""
    data = served.interactions
    is_mine = np.isin(pattern.users, mine)
    # own clients first, but never alone: the others show what is usual
    own = pattern.users[is_mine][: MATRIX_CLIENTS * 3 // 4 if not is_mine.all() else MATRIX_CLIENTS]
    users = np.concatenate([own, pattern.users[~is_mine][: MATRIX_CLIENTS - len(own)]])
    items = pattern.items[:MATRIX_PRODUCTS]
    chances = _chances(served, own, items)
    products = [str(data.item_labels[item]) for item in items.tolist()]
    rows = []
    for place, user in enumerate(users.tolist()):
        bought = np.isin(items, data.by_user[user]).tolist()
        client = str(data.user_labels[user])
        squares = [
            _square(client, product, has, chances[place, column] if place < len(own) else np.nan)
            for column, (product, has) in enumerate(zip(products, bought, strict=True))
        ]
        address = f"/client?name={quote(client, safe='')}" if place < len(own) else ""
        name = client_name(data.user_name(user)) if readable[user] else HIDDEN_NAME
        rows.append(PatternRow(name, address, place < len(own), squares))
    return PatternMatrix(name_products(served, items), rows, int(is_mine.sum()), not bool(readable[users].all()))


def _square(client: str, product: str, bought: bool, chance: float) -> Square:
    if bought:
        return Square("bought", "bought")
    if np.isnan(chance):
        return Square("not", "not bought")
    shade = min(int(chance * 10), SHADES)  # half is as dark as it gets
    return Square("open", f"not bought, chance to buy {chance:.0%}", recommendation_address(client, product), shade)


def _chances(served: ServedModel, users: Rows, items: Rows) -> NDArray[np.float64]:
    """Return (users, items) the chance to buy; nan for what a client has or is never recommended."""
    chances = np.full((len(users), len(items)), np.nan)
    if len(users):
        best, scores = served.advisor.model.recommend(users, N=len(items), items=items)
        place = np.full(served.interactions.n_items, -1)
        place[items] = np.arange(len(items))
        rows, columns = np.nonzero(best >= 0)
        found = served.opportunities.expected_values.chances(scores[rows, columns].astype(np.float64))
        chances[rows, place[best[rows, columns]]] = found
    return chances


def best_openings(served: ServedModel, users: Rows, items: Rows, closed: Pairs, n: int = MAX_OPENINGS) -> list[Opening]:
    """Return the most likely next purchases of the clients among these products, without closed ones."""
    if not len(users) or not len(items):
        return []
    users = served.opportunities.likeliest(users, items, MAX_SCORED)
    best, scores = served.advisor.model.recommend(users, N=min(PER_CLIENT, len(items)), items=items)
    order = np.argsort(-np.nan_to_num(scores.ravel(), nan=-1.0), kind="stable").tolist()
    data, values, openings = served.interactions, served.opportunities.expected_values, list[Opening]()
    times: Counter[int] = Counter()  # that a product is listed
    is_closed = set(map(tuple, closed[np.isin(closed[:, 0], users)].tolist()))
    for at in order:
        user, item, score = int(users[at // best.shape[1]]), int(best.ravel()[at]), float(scores.ravel()[at])
        if item < 0 or len(openings) == n:
            break
        if (user, item) in is_closed or times[item] == PER_PRODUCT:
            continue
        times[item] += 1
        chance = float(values.chances(np.array([score]))[0])
        openings.append(
            Opening(
                str(data.user_labels[user]), client_name(data.user_name(user)), str(data.item_labels[item]),
                product_name(data.item_name(item)), score, chance, values.value(item, score),
            )
        )  # fmt: skip
    return openings
