"""What changed from one model to the next, as numbers, sentences and a frame."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.changes.contributions import Contributions
from ocular.changes.patterns import CHANGED, GONE, NEW, PatternChange
from ocular.data.interactions import plain
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

MIN_PRICE_CHANGE = 0.1  # relative, from which a typical price is told
PATTERNS, LINKS, PEERS = range(3)  # columns of Contributions.by_kind

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
        return [self._row(at) for at in range(len(self.pairs.why))[:limit]]

    def _row(self, at: int) -> dict[str, Any]:
        pairs = self.pairs
        client = self._name("user", int(pairs.old_users[at]), int(pairs.new_users[at]))
        product = self._name("item", int(pairs.old_items[at]), int(pairs.new_items[at]))
        old_price, new_price = (_known(price) for price in self._typical_prices(at))
        return {
            "client": client,
            "product": product,
            "change": str(pairs.change[at]),
            "why": str(pairs.why[at]),
            "detail": "; ".join([*self._evidence(at), *self._price_change(old_price, new_price)]) or None,
            "rank": int(pairs.rank[at]),
            "old_confidence": _known(-np.expm1(-pairs.in_old.z[at])),
            "new_confidence": _known(-np.expm1(-pairs.in_new.z[at])),
            "old_price": old_price,
            "new_price": new_price,
        }

    def _name(self, side: str, old: int, new: int) -> Any:
        """Return the name as the newer model that has it shows it; text where the models have other kinds of keys."""
        data, row = (self.new.interactions_, new) if new >= 0 else (self.old.interactions_, old)
        name = data.user_name(row) if side == "user" else data.item_name(row)
        return str(name) if self._kinds_differ else plain(name)

    @cached_property
    def _kinds_differ(self) -> bool:
        before, now = self.old.interactions_, self.new.interactions_
        sides = (before.user_labels, now.user_labels), (before.item_labels, now.item_labels)
        has_names = any(names is not None for d in (before, now) for names in (d.user_names, d.item_names))
        return has_names or any(a.dtype.kind != b.dtype.kind for a, b in sides)

    # ------------------------------------------------------------------------------------------------ in words

    def _evidence(self, at: int) -> list[str]:
        """Return what changed most of what the models rest on: the kind, its contributions, its strongest part."""
        pairs, why = self.pairs, self.pairs.why[at]
        if why not in (NEW_EVIDENCE, EVIDENCE_GONE):
            texts = {MOVED_UP: "others dropped out of the list", DISPLACED: "others overtook it"}
            return [texts[why]] if why in texts else []
        gained = pairs.in_new.by_kind[at] - pairs.in_old.by_kind[at]
        kind = int(np.argmax(gained if why == NEW_EVIDENCE else -gained))
        before, now = pairs.in_old.by_kind[at, kind], pairs.in_new.by_kind[at, kind]
        if abs(now - before) < 1e-12:
            return ["popularity"]
        model, part = (self.new, pairs.in_new) if why == NEW_EVIDENCE else (self.old, pairs.in_old)
        return [f"{self._kind_text(model, part, at, kind)}: {before:.3f} → {now:.3f}"]

    def _kind_text(self, model: OCuLaR, part: Contributions, at: int, kind: int) -> str:
        if kind == LINKS:
            names = [str(model.interactions_.item_name(item)) for item in part.linked[at].tolist() if item >= 0]
            return f"links from {', '.join(names)}"
        if kind == PEERS:
            return "peers"
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

    def _typical_prices(self, at: int) -> tuple[float, float]:
        old, new = int(self.pairs.old_items[at]), int(self.pairs.new_items[at])
        nan = float("nan")
        return self._prices[0][old] if old >= 0 else nan, self._prices[1][new] if new >= 0 else nan


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
