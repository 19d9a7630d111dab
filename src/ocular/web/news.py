"""What's new after a refit: which recommendations are new, dropped or moved for a visitor's clients, and why."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, update

from ocular.changes.result import (
    ALLOWED_NOW,
    APPEAL,
    BOUGHT,
    DISPLACED,
    EVIDENCE_GONE,
    EXCLUDED_NOW,
    LINKS,
    MIN_PRICE_CHANGE,
    MOVED_UP,
    PATTERNS,
    PEERS,
    PRODUCT_GONE,
    PRODUCT_NEW,
    RETURNED,
    TASTE,
)
from ocular.errors import OcularError
from ocular.explain.names import client_name, joined, product_name
from ocular.explain.price import money
from ocular.web.auth import Visitor
from ocular.web.database import BRIEF, Database, DatabaseError
from ocular.web.model_changes import DROPPED, MOVED, NEW, RANK, WHYS, Changes, find_changes
from ocular.web.opportunities import DEPTH, Pairs
from ocular.web.registry import LoadPrevious, ServedModel
from ocular.web.tables import ModelChanges, User

KINDS = {"new": NEW, "dropped": DROPPED, "moved": MOVED}
PLAIN = {
    PRODUCT_NEW: "New in the catalog",
    RETURNED: "Returned since the last update",
    ALLOWED_NOW: "Offered again",
    PRODUCT_GONE: "No longer in the catalog",
    BOUGHT: "Bought since the last update",
    EXCLUDED_NOW: "No longer offered",
    DISPLACED: "Overtaken by better offers",
}
GROUPS = {  # as a chart counts them
    PRODUCT_NEW: "New product", RETURNED: "Returned", ALLOWED_NOW: "Offered again", MOVED_UP: "Others dropped out",
    PRODUCT_GONE: "Product gone", BOUGHT: "Bought", EXCLUDED_NOW: "No longer offered",
    EVIDENCE_GONE: "Weaker evidence", DISPLACED: "Better offers",
}  # fmt: skip
EVIDENCE_GROUPS = {
    PATTERNS: "Buying pattern", LINKS: "Products bought together", PEERS: "Similar clients", TASTE: "Their taste",
    APPEAL: "Clients like this one",
}  # fmt: skip

_log = logging.getLogger("ocular.web")


@dataclass(frozen=True)
class NewsItem:
    """A recommendation that is new, dropped or moved."""

    client: str
    client_name: str
    product: str | None  # None where the model does not have it any more
    product_name: str
    why: str
    old_rank: int
    new_rank: int
    chance: float | None  # now; None for what was dropped
    score: float
    value: float | None


@dataclass(frozen=True)
class NewsPage:
    """A part of what is new."""

    items: list[NewsItem]
    counts: dict[str, int]  # of each kind
    reasons: list[tuple[str, int]]  # of the chosen kind, most frequent first
    n_clients: int  # with something new, dropped or moved
    number: int
    n_pages: int


class News:
    """Compares each model that is served with the one before it, in a thread of its own, and stores the result."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: threading.Thread | None = None
        self._renamed: dict[str, str] = {}

    def begin(self, served: ServedModel, load_previous: LoadPrevious) -> None:
        """Fill in what the model changed; pages that come before say that it is being prepared."""
        self._thread = threading.Thread(target=self._compare, args=(served, load_previous), name="news", daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the last comparison is done."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _compare(self, served: ServedModel, load_previous: LoadPrevious) -> None:
        comparison = served.comparison
        try:
            comparison.changes = self._read(served.version)
            previous = load_previous() if comparison.changes is None else None
            if previous is not None:
                changes = find_changes(previous[1], served.advisor.model, previous[0], DEPTH)
                comparison.changes = changes
                self._store(served.version, changes)
            self._renamed = self._read_renamed()
        except (OcularError, OSError) as error:
            _log.warning("what the model %s changed is not known: %s", served.version, error)
        except Exception:  # pages go on without it
            _log.exception("comparing the model %s with the one before it failed", served.version)
        comparison.done = True

    def _read(self, version: str) -> Changes | None:
        with self._database.reading() as transaction:
            stored = transaction.get(ModelChanges, version)
        return Changes.from_bytes(stored.changes, json.loads(stored.renamed)) if stored and stored.changes else None

    def _store(self, version: str, changes: Changes) -> None:
        """Keep the changes of this model and the names of all others."""
        with self._database.writing() as transaction:
            transaction.execute(update(ModelChanges).where(ModelChanges.version != changes.since).values(changes=b""))
            renamed = json.dumps(changes.renamed)
            transaction.merge(ModelChanges(version=version, renamed=renamed, changes=changes.to_bytes()))

    def _read_renamed(self) -> dict[str, str]:
        renamed: dict[str, str] = {}
        with self._database.reading() as transaction:
            for text in transaction.scalars(select(ModelChanges.renamed).order_by(ModelChanges.at)):
                renamed |= json.loads(text)
        return renamed

    def current_labels(self, served: ServedModel, labels: Iterable[str]) -> list[str]:
        """Return what patterns are called today: a refit may have changed a label, or a manager a name."""
        names = {pattern.label: served.pattern_label(number) for number, pattern in served.patterns.items()}
        return [self._current_label(names, label) for label in labels]

    def _current_label(self, names: dict[str, str], label: str) -> str:
        seen = set[str]()
        while label not in names and label in self._renamed and label not in seen:
            seen.add(label)
            label = self._renamed[label]
        return names.get(label, label)

    # -------------------------------------------------------------------------------------------- for a visitor

    def n_unseen(self, served: ServedModel, visitor: Visitor, clients: NDArray[np.int64], closed: Pairs) -> int:
        """Return how many recommendations are new for some clients, 0 once the visitor has looked at What's new."""
        changes = served.comparison.changes
        if changes is None or visitor.user.news == served.version:
            return 0
        chosen = np.zeros(served.interactions.n_users, dtype=bool)
        chosen[clients] = True
        new, settled = changes.rows["user"][changes.rows["kind"] == NEW], closed[chosen[closed[:, 0]]]
        return int(chosen[new].sum() - changes.is_new(*settled.T).sum())

    def mark_seen(self, served: ServedModel, visitor: Visitor) -> None:
        """Remember that the visitor has looked at What's new, if the database has time for it."""
        if served.comparison.changes is not None and visitor.user.news != served.version:
            try:
                with self._database.writing(BRIEF) as transaction:
                    transaction.execute(update(User).where(User.id == visitor.user.id).values(news=served.version))
            except DatabaseError:
                _log.warning("that %s has seen What's new is not stored", visitor.user.name)


def _of_clients(changes: Changes, served: ServedModel, clients: NDArray[np.int64], closed: Pairs) -> NDArray[np.void]:
    """Return the changes for some clients, without what is closed already; what was dropped stays."""
    chosen = np.zeros(served.interactions.n_users, dtype=bool)
    chosen[clients] = True
    rows, n_items = changes.rows[chosen[changes.rows["user"]]], served.interactions.n_items
    codes = rows["user"].astype(np.int64) * n_items + rows["item"]
    closed_codes = closed[:, 0] * n_items + closed[:, 1]
    kept: NDArray[np.void] = rows[(rows["kind"] == DROPPED) | (rows["item"] >= n_items) | ~np.isin(codes, closed_codes)]
    return kept


def news_page(
    served: ServedModel,
    changes: Changes,
    clients: NDArray[np.int64],
    closed: Pairs,
    *,
    kind: str = "new",
    number: int = 1,
    length: int = 50,
) -> NewsPage:
    """Return a part of what is new for clients, the most valuable first, without what is closed already."""
    rows, n_items = _of_clients(changes, served, clients, closed), served.interactions.n_items
    counts = {name: int((rows["kind"] == code).sum()) for name, code in KINDS.items()}
    n_clients = len(np.unique(rows["user"]))
    rows = rows[rows["kind"] == KINDS[kind]]
    score = np.nan_to_num(rows["old_score" if kind == "dropped" else "new_score"]).astype(np.float64)
    value = np.nan_to_num(served.opportunities.expected_values.values(np.minimum(rows["item"], n_items - 1), score))
    value[rows["item"] >= n_items] = 0.0
    order = np.lexsort((rows["user"], -score, -value))
    n_pages = max(1, -(-len(rows) // length))
    number = min(number, n_pages)
    shown = rows[order[(number - 1) * length : number * length]]
    items = [_item(served, changes, row) for row in shown]
    return NewsPage(items, counts, _reasons(rows), n_clients, number, n_pages)


def _reasons(rows: NDArray[np.void]) -> list[tuple[str, int]]:
    """Return how many changes have which reason."""
    why = np.where(_fell(rows), WHYS.index(DISPLACED), rows["why"].astype(np.int64))
    keys, counts = np.unique(why * 8 + rows["evidence"], return_counts=True)
    totals: dict[str, int] = {}
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        name = GROUPS.get(WHYS[key // 8]) or EVIDENCE_GROUPS[key % 8]
        totals[name] = totals.get(name, 0) + count
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def _fell(rows: Any) -> NDArray[np.bool_]:
    """Return which recommendations stayed in the list, further down."""
    fell: NDArray[np.bool_] = (rows["kind"] == MOVED) & (rows["new_rank"] > rows["old_rank"])
    return fell


def _item(served: ServedModel, changes: Changes, row: np.void) -> NewsItem:
    data, user, item = served.interactions, int(row["user"]), int(row["item"])
    known, dropped = item < data.n_items, row["kind"] == DROPPED
    score = float(np.nan_to_num(row["old_score"] if dropped else row["new_score"]))
    values = served.opportunities.expected_values
    return NewsItem(
        client=str(data.user_labels[user]),
        client_name=client_name(data.user_name(user)),
        product=str(data.item_labels[item]) if known else None,
        product_name=product_name(data.item_name(item)) if known else changes.gone[item - data.n_items],
        why=why_text(served, changes, row),
        old_rank=int(row["old_rank"]),
        new_rank=int(row["new_rank"]),
        chance=None if dropped else float(values.chances(np.array([score]))[0]),
        score=score,
        value=None if dropped or not known else values.value(item, score),
    )


def why_text(served: ServedModel, changes: Changes, row: np.void) -> str:
    """Return why a recommendation came, went or moved, in a sentence or two."""
    why, item = WHYS[row["why"]], int(row["item"])
    sentences = [f"{PLAIN[why]}."] if why in PLAIN else [_evidence_text(served, changes, row, why)]
    if item < changes.n_items and why not in (BOUGHT, EXCLUDED_NOW):
        before, price = changes.old_prices[item], served.opportunities.expected_values.prices[item]
        if abs(price - before) >= MIN_PRICE_CHANGE * before:  # False where one is not known
            currency = served.interactions.currency
            sentences.append(f"Typical price {money(before, currency)} → {money(price, currency)}.")
    return " ".join(sentences)


def _evidence_text(served: ServedModel, changes: Changes, row: np.void, why: str) -> str:
    data, item = served.interactions, int(row["item"])
    bought = changes.bought_by(int(row["user"]))
    named = [product_name(data.item_name(other)) for other in bought[:2]]
    if why == MOVED_UP:
        return f"Moved up after they bought {joined(named)}." if named else "Moved up as other products dropped out."
    kind, n_buyers = int(row["evidence"]), len(data.by_item[item]) if item < data.n_items else 0
    pattern = served.patterns.get(int(row["pattern"]))
    if why == RANK and _fell(row):
        return "Other products fit better now."
    if why == EVIDENCE_GONE:
        return f"{EVIDENCE_GROUPS[kind]}: weaker evidence than before."
    if kind == LINKS:
        linked = [int(other) for other in row["linked"] if other >= 0]
        causes = [other for other in linked if other in bought]
        if causes:
            cause = product_name(data.item_name(causes[0]))
            return f"They bought {cause}; clients who own {cause} often buy this."
        if linked:
            return f"More owners of {product_name(data.item_name(linked[0]))} bought it."
    if kind == PATTERNS and pattern is not None:
        label, members = served.pattern_label(pattern.index), set(pattern.items.tolist())
        causes = [other for other in bought if other in members]
        if causes:
            return f"They bought {product_name(data.item_name(causes[0]))}, part of the pattern “{label}”."
        return f"More clients of the pattern “{label}” bought it."
    if n_buyers > changes.old_buyers[item]:
        return f"More similar clients bought it ({n_buyers:,} buyers, was {changes.old_buyers[item]:,})."
    return f"{EVIDENCE_GROUPS[kind]}: stronger evidence than before."
