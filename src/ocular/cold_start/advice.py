"""Lists for a new product or a new client: who or what, how likely, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ocular.cold_start.reasons import LabelOf, NewExplanation, NewReason, NewReasons
from ocular.cold_start.rows import NewRows
from ocular.cold_start.start import ColdStart
from ocular.data.interactions import Interactions
from ocular.errors import DataError
from ocular.explain.notebook import html_table
from ocular.explain.value import ExpectedValues


@dataclass(frozen=True, eq=False)
class NewRecommendation:
    """A new product for a client, or a product for a new client; what is new has no row in the model."""

    client: Any  # its name
    product: Any
    user: int | None  # None: the client is new
    item: int | None  # None: the product is new
    confidence: float  # the model's probability
    chance: float  # to buy: how often such recommendations were bought, or the confidence without calibration
    explanation: NewExplanation
    typical_price: float | None = None
    typical_quantity: float | None = None
    value: float | None = None  # expected; None where no price is known, as of a new product

    @property
    def reasons(self) -> list[NewReason]:
        """The reasons, strongest first."""
        return self.explanation.reasons

    @property
    def reason(self) -> str | None:
        """The strongest reason in one line, without other clients' names; None where there is no reason."""
        return self.explanation.shown_reasons[0].sentence_without_names if self.reasons else None

    def text(self, *, show_clients: bool = True) -> str:
        """Return the rationale in words; `show_clients=False` names no other client."""
        return self.explanation.text(show_clients=show_clients)

    def to_dict(self, *, show_clients: bool = True) -> dict[str, Any]:
        """Return plain values with names for JSON."""
        return {
            "client": self.client,
            "product": self.product,
            "confidence": self.confidence,
            "chance": self.chance,
            "typical_price": self.typical_price,
            "typical_quantity": self.typical_quantity,
            "value": self.value,
            "base": self.explanation.base,
            "reasons": [
                {
                    "kind": reason.kind,
                    "contribution": reason.contribution,
                    "pattern": reason.pattern,
                    "text": reason.sentence if show_clients else reason.sentence_without_names,
                }
                for reason in self.reasons
            ],
            "text": self.text(show_clients=show_clients),
        }

    def __repr__(self) -> str:
        return f"NewRecommendation({self.product!r} for {self.client!r}: chance to buy {self.chance:.0%})"


class NewRecommendations(list[NewRecommendation]):
    """Recommendations of which one side is new, best first; notebooks show them as a table."""

    def __init__(self, found: Iterable[NewRecommendation], interactions: Interactions, similar: list[str]) -> None:
        super().__init__(found)
        self.interactions = interactions
        self.similar = similar  # names of the known products, or clients, whose attributes are most alike

    def rows(self) -> list[dict[str, Any]]:
        """Return a row of plain values for each."""
        names = ("client", "product", "confidence", "chance", "typical_price", "typical_quantity", "value", "reason")
        return [{"rank": n} | {name: getattr(each, name) for name in names} for n, each in enumerate(self, 1)]

    def to_frame(self) -> Any:
        """Return a row for each, in the kind of frame that the purchases came in."""
        return self.interactions.native(pl.DataFrame(self.rows(), infer_schema_length=None))

    def _repr_html_(self) -> str:
        return html_table(self.rows(), "")


class Adviser:
    """Makes lists for what is new to one fitted model."""

    def __init__(self, cold: ColdStart, values: ExpectedValues, label_of: LabelOf) -> None:
        self._cold, self._values, self._label_of = cold, values, label_of
        self._data = cold.evidence.interactions

    def clients_for(self, new: NewRows, name: str, n: int, allowed: Any) -> NewRecommendations:
        """Return the n clients most likely to buy a new product, best first."""
        self._check(new, "product", "buyers")
        rows = self._cold.product_rows(new)
        ids, _ = self._cold.clients_for(rows, new.positives, n, allowed)
        reasons = NewReasons(self._cold, new, rows, "product", self._label_of)
        found = []
        for user in ids[0][ids[0] >= 0].tolist():
            explanation = reasons.explain(user, name)
            chance = self._chance(explanation.confidence)
            found.append(
                NewRecommendation(
                    self._data.user_name(user), name, user, None, explanation.confidence, chance, explanation
                )
            )
        return NewRecommendations(found, self._data, reasons.neighbour_names())

    def products_for(self, new: NewRows, name: str, n: int, allowed: Any) -> NewRecommendations:
        """Return the n products that a new client is most likely to buy, best first."""
        self._check(new, "client", "purchases")
        rows = self._cold.client_rows(new)
        ids, _ = self._cold.products_for(rows, new.positives, n, allowed)
        reasons = NewReasons(self._cold, new, rows, "client", self._label_of)
        found = []
        for item in ids[0][ids[0] >= 0].tolist():
            explanation = reasons.explain(item, name)
            confidence, price = explanation.confidence, float(self._values.prices[item])
            found.append(
                NewRecommendation(
                    name, self._data.item_name(item), None, item, confidence, self._chance(confidence), explanation,
                    price if np.isfinite(price) else None, float(self._values.quantities[item]),
                    self._values.value(item, confidence),
                )
            )  # fmt: skip
        return NewRecommendations(found, self._data, reasons.neighbour_names())

    def _chance(self, confidence: float) -> float:
        return float(self._values.chances(np.array([confidence]))[0])

    def _check(self, new: NewRows, side: str, what: str) -> None:
        """Raise where nothing is known of what is new."""
        if not len(new.positives.indices) and not len(new.values.indices):
            features = self._cold.item_features if side == "product" else self._cold.user_features
            known = f"attributes that {side}s have ({', '.join(features.columns)}) or " if len(features) else ""
            raise DataError(f"expected {known}{what} of the new {side}, got none that the model knows")
