"""What changed from one model to the next, as numbers, sentences and a frame."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.changes.contributions import Contributions
from ocular.changes.patterns import CHANGED, GONE, NEW, PatternChange
from ocular.explain.notebook import html_table
from ocular.explain.price import money
from ocular.explain.value import typical_prices
from ocular.model import OCuLaR

CAME, WENT = "came", "went"
# why a recommendation came
CLIENT_NEW, PRODUCT_NEW, RETURNED, ALLOWED_NOW = "client new", "product new", "returned", "allowed now"
NEW_EVIDENCE, MOVED_UP = "new evidence", "moved up"
# why one went
CLIENT_GONE, PRODUCT_GONE, BOUGHT, EXCLUDED_NOW = "client gone", "product gone", "bought meanwhile", "excluded now"
EVIDENCE_GONE, DISPLACED = "evidence gone", "displaced"

NO_EVIDENCE = {MOVED_UP: "others dropped out of the list", DISPLACED: "others overtook it"}

MIN_GAIN = 1e-12  # below it no kind of evidence has changed
MIN_PRICE_CHANGE = 0.1  # relative, from which a typical price is told
PATTERNS, LINKS, PEERS, TASTE, APPEAL = range(5)  # columns of Contributions.by_kind

Ints = NDArray[np.int64]


class Pairs(NamedTuple):
    """Recommendations that came or went, client by client; rows of clients and products are −1 where one is not."""

    change: NDArray[Any]  # CAME or WENT
    why: NDArray[Any]
    rank: Ints  # in the list that it is in
    old_users: Ints
    new_users: Ints
    old_items: Ints
    new_items: Ints
    in_old: Contributions
    in_new: Contributions


@dataclass(frozen=True, eq=False, repr=False)
class ModelChanges:
    """What changed from one model to another; made by `ocular.compare_models`."""

    n: int  # length of the lists that are compared
    jaccards: NDArray[np.float64]  # similarity of the two lists of each client that is in both models
    n_new_clients: int
    n_gone_clients: int
    patterns: list[PatternChange]  # those that are new, gone or have other members
    old: OCuLaR
    new: OCuLaR
    pairs: Pairs

    @property
    def jaccard(self) -> float:
        """The mean over the clients in both models of |A ∩ B| / |A ∪ B| of their lists; nan where there is none."""
        return float(self.jaccards.mean()) if len(self.jaccards) else float("nan")

    @property
    def unchanged(self) -> float:
        """The share of these clients whose list holds the same products."""
        return float((self.jaccards == 1).mean()) if len(self.jaccards) else float("nan")

    @property
    def reasons(self) -> dict[str, int]:
        """How many recommendations came or went for each reason, most frequent first."""
        return dict(Counter(self.pairs.why.tolist()).most_common())

    def summary(self) -> str:
        """Return the whole in a few lines."""
        came = int((self.pairs.change == CAME).sum())
        status = Counter(change.status for change in self.patterns)
        whys = ", ".join(f"{why} {count:,}" for why, count in self.reasons.items())
        lines = [
            f"{len(self.jaccards):,} clients in both models, {self.n_new_clients:,} new, {self.n_gone_clients:,} gone",
            f"top {self.n}: mean Jaccard similarity {self.jaccard:.3f}; {self.unchanged:.0%} of the lists unchanged",
            f"{came:,} recommendations came, {len(self.pairs.change) - came:,} went" + (f" ({whys})" if whys else ""),
            f"patterns: {status[NEW]:,} new, {status[GONE]:,} gone, {status[CHANGED]:,} with other members",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "ModelChanges(\n  " + self.summary().replace("\n", "\n  ") + "\n)"

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.summary().replace("\n", "; "))

    def to_frame(self) -> Any:
        """
        Return a row for each recommendation that came or went, in the kind of frame of the new model's purchases.

        client, product, change ("came" or "went"), why, detail, rank in the list that it is in, confidence in both
        models and typical prices in both; null where a model does not have the client or the product.
        """
        schema: dict[str, Any] = {
                  "client": None, "product": None, "change": pl.String, "why": pl.String, "detail": pl.String,
                  "rank": pl.Int64, "old_confidence": pl.Float64, "new_confidence": pl.Float64,
                  "old_price": pl.Float64, "new_price": pl.Float64}  # fmt: skip
        rows = self.rows()
        if not rows:
            schema |= {"client": pl.String, "product": pl.String}
        columns = [pl.Series(name, [row[name] for row in rows], dtype=kind) for name, kind in schema.items()]
        return self.new.interactions_.native(pl.DataFrame(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "n": self.n,
            "clients": len(self.jaccards),
            "new_clients": self.n_new_clients,
            "gone_clients": self.n_gone_clients,
            "jaccard": self.jaccard if len(self.jaccards) else None,
            "unchanged": self.unchanged if len(self.jaccards) else None,
            "reasons": self.reasons,
            "recommendations": self.rows(),
            "patterns": [change.to_dict() for change in self.patterns],
        }

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the first recommendations that came or went, or all, as `to_frame` has them."""
        pairs, first = self.pairs, slice(limit)
        clients = self._names("user", pairs.old_users[first], pairs.new_users[first])
        products = self._names("item", pairs.old_items[first], pairs.new_items[first])
        scores = [_listed(-np.expm1(-part.z[first])) for part in (pairs.in_old, pairs.in_new)]
        prices = [
            _listed(np.where(items[first] >= 0, prices[items[first]], np.nan))
            for prices, items in zip(self._prices, (pairs.old_items, pairs.new_items), strict=True)
        ]
        return [
            {
                "client": client,
                "product": product,
                "change": change,
                "why": why,
                "detail": "; ".join([*evidence, *self._price_change(*price)]) or None,
                "rank": rank,
                "old_confidence": score[0],
                "new_confidence": score[1],
                "old_price": price[0],
                "new_price": price[1],
            }
            for client, product, change, why, evidence, rank, score, price in zip(
                clients, products, pairs.change[first].tolist(), pairs.why[first].tolist(),
                self._evidence(first), pairs.rank[first].tolist(), zip(*scores, strict=True),
                zip(*prices, strict=True), strict=True,
            )
        ]  # fmt: skip

    def _names(self, side: str, old: Ints, new: Ints) -> list[Any]:
        """Return names as the newer model that has them shows them; text where the models have other kinds of keys."""
        before, now = self.old.interactions_, self.new.interactions_
        show = (before.user_name, now.user_name) if side == "user" else (before.item_name, now.item_name)
        known: dict[tuple[int, int], Any] = {}  # a name may come many times
        for pair in set(zip(old.tolist(), new.tolist(), strict=True)):
            name = show[1](pair[1]) if pair[1] >= 0 else show[0](pair[0])
            known[pair] = str(name) if self._kinds_differ else name
        return [known[pair] for pair in zip(old.tolist(), new.tolist(), strict=True)]

    @cached_property
    def _kinds_differ(self) -> bool:
        before, now = self.old.interactions_, self.new.interactions_
        sides = (before.user_labels, now.user_labels), (before.item_labels, now.item_labels)
        has_names = any(names is not None for d in (before, now) for names in (d.user_names, d.item_names))
        return has_names or any(a.dtype.kind != b.dtype.kind for a, b in sides)

    # ------------------------------------------------------------------------------------------------ in words

    def _evidence(self, rows: slice) -> list[list[str]]:
        """Return what changed most of what the models rest on: the kind, its contributions, its strongest part."""
        pairs, whys = self.pairs, self.pairs.why[rows].tolist()
        before, now = pairs.in_old.by_kind[rows], pairs.in_new.by_kind[rows]
        gained = np.nan_to_num(now - before)
        rose, fell = gained.argmax(axis=1).tolist(), gained.argmin(axis=1).tolist()
        texts: list[list[str]] = []
        for at, why in enumerate(whys):
            if why not in (NEW_EVIDENCE, EVIDENCE_GONE):
                texts.append([NO_EVIDENCE[why]] if why in NO_EVIDENCE else [])
                continue
            is_new = why == NEW_EVIDENCE
            kind = rose[at] if is_new else fell[at]
            name = "popularity"
            if abs(gained[at, kind]) > MIN_GAIN:
                name = self._kind_text(*(self.new, pairs.in_new) if is_new else (self.old, pairs.in_old), at, kind)
                name += f": {before[at, kind]:.3f} → {now[at, kind]:.3f}"
            texts.append([name])
        return texts

    def _kind_text(self, model: OCuLaR, part: Contributions, at: int, kind: int) -> str:
        if kind == LINKS:
            names = [str(model.interactions_.item_name(item)) for item in part.linked[at].tolist() if item >= 0]
            return f"links from {', '.join(names)}"
        if kind in (PEERS, TASTE, APPEAL):
            return {PEERS: "peers", TASTE: "taste", APPEAL: "appeal"}[kind]
        number = int(part.pattern[at])
        labels = self._new_labels if model is self.new else self._old_labels
        return f"patterns, above all {number} {labels.get(number, '')}".rstrip()

    def _price_change(self, old: float | None, new: float | None) -> list[str]:
        if old is None or new is None or abs(new - old) < MIN_PRICE_CHANGE * old:
            return []
        currency = self.new.interactions_.currency
        return [f"typical price {money(old, currency)} → {money(new, currency)}"]

    @cached_property
    def _old_labels(self) -> dict[int, str]:
        return {c.index: c.label for c in self.old.coclusters()}

    @cached_property
    def _new_labels(self) -> dict[int, str]:
        return {c.index: c.label for c in self.new.coclusters()}

    @cached_property
    def _prices(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return typical_prices(self.old.interactions_), typical_prices(self.new.interactions_)


def _listed(values: NDArray[np.float64]) -> list[float | None]:
    return [value if isfinite(value) else None for value in values.tolist()]
