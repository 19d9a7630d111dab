"""Recommendations in the words of the business: a model asked by the names of clients and products."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, overload

import numpy as np
import polars as pl
from sklearn.utils.validation import check_is_fitted

from ocular.batch import recommend_all
from ocular.cold_start.advice import Adviser, NewRecommendations
from ocular.data.interactions import Interactions, Labels, plain
from ocular.data.selection import Choice, allowed_items, allowed_users
from ocular.data.splits import as_moment
from ocular.due import DueList, Reorders, find_reorders
from ocular.explain import wording
from ocular.explain.calibration import HitRate
from ocular.explain.notebook import html_table
from ocular.explain.price import PriceEstimate, money
from ocular.explain.reasons import APPEAL, LINKS, PATTERN, PEERS, TASTE, Explanation
from ocular.explain.value import ExpectedValues
from ocular.model import OCuLaR, load
from ocular.validation import as_list, check_whole


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A product for a client, with what a person needs to decide whether to call."""

    product: Any  # its name
    confidence: float  # the model's probability
    price: PriceEstimate | None  # what similar clients paid
    explanation: Explanation
    chance: float  # to buy: how often such recommendations were bought, or the confidence without calibration
    typical_price: float | None = None  # median of what all buyers paid for a unit
    typical_quantity: float = 1.0  # median of an order
    value: float | None = None  # expected: chance × typical price × typical quantity; None for what the client has

    @property
    def client(self) -> Any:
        """The client's name."""
        return self.explanation.client

    @property
    def observed(self) -> HitRate | None:
        """How often recommendations like this one were bought; None for a model without calibration."""
        return self.explanation.observed

    @property
    def reason(self) -> str | None:
        """The strongest reason in one line, without other clients' names; None where there is no reason."""
        reason = self.explanation.strongest_reason
        return None if reason is None else wording.brief(self.explanation, reason)

    def __repr__(self) -> str:
        value = (
            ""
            if self.value is None
            else f", expected value {money(self.value, self.explanation.interactions.currency)}"
        )
        return f"Recommendation({self.product!r} for {self.client!r}: chance to buy {self.chance:.0%}{value})"

    def text(self, *, show_clients: bool = True) -> str:
        """Return the rationale in words; `show_clients=False` names no other client."""
        return self.explanation.text(show_clients=show_clients)

    def _repr_html_(self) -> str:
        return self.explanation.to_html()

    def to_dict(self, *, show_clients: bool = True) -> dict[str, Any]:
        """Return plain values with names for JSON."""
        return self.explanation.to_dict(show_clients=show_clients) | {
            "chance": self.chance,
            "typical_price": self.typical_price,
            "typical_quantity": self.typical_quantity,
            "value": self.value,
        }


class Recommendations(list[Recommendation]):
    """Recommendations, best first; notebooks show them as a table."""

    def __init__(self, recommendations: Iterable[Recommendation], interactions: Interactions, title: str = "") -> None:
        super().__init__(recommendations)
        self.interactions, self.title = interactions, title

    def __repr__(self) -> str:
        return "\n".join(["Recommendations:", *(f"  {number}. {each!r}" for number, each in enumerate(self, 1))])

    def to_frame(self) -> Any:
        """Return a row for each recommendation, in the kind of frame that the purchases came in."""
        data = self.interactions
        users, items = [each.explanation.user for each in self], [each.explanation.item for each in self]
        calibrated = any(each.observed is not None for each in self)
        columns: dict[str, Any] = {
            "client": pl.Series(
                [None if user is None else plain(data.user_labels[user]) for user in users],
                dtype=_dtype(data.user_labels),
            ),
            "rank": pl.Series(range(1, len(self) + 1), dtype=pl.Int32),
            "product": pl.Series([plain(data.item_labels[item]) for item in items], dtype=_dtype(data.item_labels)),
            "confidence": pl.Series([each.confidence for each in self], dtype=pl.Float64),
            **({"hit_rate": [each.observed and each.observed.rate for each in self]} if calibrated else {}),
            "chance": pl.Series([each.chance for each in self], dtype=pl.Float64),
            "typical_price": pl.Series([each.typical_price for each in self], dtype=pl.Float64),
            "typical_quantity": pl.Series([each.typical_quantity for each in self], dtype=pl.Float64),
            "value": pl.Series([each.value for each in self], dtype=pl.Float64),
            "reason": pl.Series([each.reason for each in self], dtype=pl.String),
        }
        return data.native(_with_names(pl.DataFrame(columns), data))

    def _repr_html_(self) -> str:
        rows = [
            {
                "client": each.client,
                "product": each.product,
                "confidence": round(each.confidence, 3),
                "chance to buy": f"{each.chance:.0%}",
                "typical price": each.typical_price,
                "value": None if each.value is None else round(each.value, 2),
                "reason": each.reason,
            }
            for each in self
        ]
        return html_table(rows, self.title)


class Advisor:
    """
    A fitted model that is asked by name.

    >>> from ocular import Interactions, OCuLaR
    >>> purchases = Interactions.from_pairs(
    ...     [0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 0, 1, 3],
    ...     user_labels=["Acme", "Bolt", "Corda", "Dory"], item_labels=["nut", "saw", "vise", "sail"],
    ... )
    >>> advisor = Advisor(OCuLaR(2, 0.1, random_state=0).fit(purchases))
    >>> advisor.recommend("Corda", n=1)[0].product
    'vise'
    >>> advisor.clients_for("vise", n=1)[0].client
    'Corda'
    """

    def __init__(self, model: OCuLaR) -> None:
        check_is_fitted(model)
        self.model = model
        self._cached_values: tuple[object, object, ExpectedValues] | None = None
        self._cached_reorders: tuple[object, object, Reorders] | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Advisor:
        """Return an advisor with the model saved in the folder `path`."""
        return cls(load(path))

    def recommend(
        self,
        client: Any,
        n: int = 5,
        *,
        also: Iterable[Any] = (),
        only: Choice | None = None,
        without: Choice | None = None,
    ) -> Recommendations:
        """
        Return the n best products for a client, best first; those in no co-cluster of the client come last.

        `also` names products to take as bought: what would be recommended if the client had them too. `only` and
        `without` choose products by name or by attribute: "Postage", ["Postage", "Fees"], {"family": "Printing"}.
        """
        user = self.model.interactions_.user_index(client)
        return self._recommend(user, n, self._basket_with(user, also), only, without)

    @overload
    def recommend_new(
        self,
        purchases: Iterable[Any] = ...,
        n: int = ...,
        *,
        attributes: None = None,
        name: str = ...,
        only: Choice | None = ...,
        without: Choice | None = ...,
    ) -> Recommendations: ...
    @overload
    def recommend_new(
        self,
        purchases: Iterable[Any] = ...,
        n: int = ...,
        *,
        attributes: Mapping[str, Any],
        name: str = ...,
        only: Choice | None = ...,
        without: Choice | None = ...,
    ) -> NewRecommendations: ...
    def recommend_new(
        self,
        purchases: Iterable[Any] = (),
        n: int = 5,
        *,
        attributes: Mapping[str, Any] | None = None,
        name: str = "the client",
        only: Choice | None = None,
        without: Choice | None = None,
    ) -> Recommendations | NewRecommendations:
        """
        Return the n best products for a client who is not in the model, by these purchases, attributes, or both.

        `attributes` are those that clients were fitted with: {"industry": "Airline", "size": "Large"}. With them the
        client borrows what similar clients have; see `ocular.cold_start`.
        """
        basket = self._basket([], as_list(purchases))
        if attributes is None:
            return self._recommend(None, n, basket, only, without)
        cold, allowed = self.model.cold_start(), allowed_items(self.model.interactions_, only, without)
        mine = ~self.model.excluded_items_ if allowed is None else allowed & ~self.model.excluded_items_
        n = min(check_whole(n, "n", 1), self.model.interactions_.n_items)
        return self._adviser().products_for(cold.new_clients(basket.by_user, [attributes]), name, n, mine)

    def clients_for_new(
        self,
        attributes: Mapping[str, Any] | None = None,
        buyers: Iterable[Any] = (),
        n: int = 50,
        *,
        name: str = "the new product",
        only: Choice | None = None,
        without: Choice | None = None,
    ) -> NewRecommendations:
        """
        Return the n clients most likely to buy a product that is not in the model, best first, without its buyers.

        `attributes` are those that products were fitted with: {"family": "Printing"}; `buyers` names its first
        clients. `only` and `without` choose clients by name or by attribute.
        """
        data, cold = self.model.interactions_, self.model.cold_start()
        users = sorted({data.user_index(buyer) for buyer in as_list(buyers)})
        rows = Interactions.from_pairs([0] * len(users), users, (1, data.n_users)).by_user
        n = min(check_whole(n, "n", 1), data.n_users)
        new = cold.new_products(rows, [attributes or {}])
        return self._adviser().clients_for(new, name, n, allowed_users(data, only, without))

    def _adviser(self) -> Adviser:
        labels = {pattern.index: pattern.label for pattern in self.model.coclusters()}
        return Adviser(self.model.cold_start(), self._values(), lambda c: labels.get(c, f"pattern {c}"))

    def clients_for(
        self, product: Any, n: int = 50, *, only: Choice | None = None, without: Choice | None = None
    ) -> Recommendations:
        """
        Return the n clients most likely to buy a product, of those who have not, best first.

        `only` and `without` choose clients by name or by attribute: {"country": ["Chile", "Peru"]}.
        """
        model, data = self.model, self.model.interactions_
        item, allowed = data.item_index(product), allowed_users(data, only, without)
        n = min(check_whole(n, "n", 1), data.n_users)
        ids, _ = model.recommend_users(item, N=n, users=None if allowed is None else np.flatnonzero(allowed))
        found = (self._valued(model.explain(user, item)) for user in ids[ids >= 0].tolist())
        return Recommendations(found, data, f"Clients for {data.item_name(item)}")

    def recommend_all(self, n: int = 5, *, only: Choice | None = None, without: Choice | None = None) -> Any:
        """
        Return the n best products for every client as a frame of the kind that the purchases came in.

        The columns are those of `ocular.batch.Batch.recommend` and `reason`, a line in words.
        """
        data = self.model.interactions_
        table = recommend_all(self.model, check_whole(n, "n", 1), allowed_items(data, only, without))
        reason = (
            pl.when(pl.col("kind") == PATTERN)
            .then(pl.format("has {} (pattern {}: {})", "because", "pattern", "pattern_label"))
            .when(pl.col("kind") == LINKS)
            .then(pl.format("clients who own {} often buy it", "because"))
            .when(pl.col("kind") == PEERS)
            .then(
                pl.when(pl.col("similar_buyers") > 0)
                .then(pl.format("{} of the {} most similar clients bought it", "similar_buyers", "similar_clients"))
                .otherwise(pl.lit("similar clients bought it"))
            )
            .when(pl.col("kind") == TASTE)
            .then(pl.format("buys products with {}", "attribute"))
            .when(pl.col("kind") == APPEAL)
            .then(pl.format("clients with {} buy it", "attribute"))
        )
        return data.native(_with_names(table.with_columns(reason=reason), data))

    def explain(self, client: Any, product: Any, *, also: Iterable[Any] = ()) -> Recommendation:
        """Return one product for a client with its reasons, whether it would be recommended or not."""
        data = self.model.interactions_
        user, item = data.user_index(client), data.item_index(product)
        return self._valued(self.model.explain(user, item, self._basket_with(user, also)))

    def due(self, client: Any, n: int = 10, as_of: str | date | np.datetime64 | None = None) -> DueList:
        """
        Return what the client buys regularly and is due to buy again, most often bought first.

        `as_of` is the day to ask for, by default that of the newest purchase; purchases after it do not count. Products
        that the model never recommends are left out. Purchases without dates raise a DataError.
        """
        user, reorders = self.model.interactions_.user_index(client), self.reorders(as_of)
        rows = reorders.due_rows(check_whole(n, "n", 1), ~self.model.excluded_items_, user)
        return reorders.due_list(rows, user)

    def due_all(self, n: int = 10, as_of: str | date | np.datetime64 | None = None) -> Any:
        """Return what is due for every client, at most n products each, as a frame like that of `due`."""
        reorders = self.reorders(as_of)
        rows = reorders.due_rows(check_whole(n, "n", 1), ~self.model.excluded_items_)
        return self.model.interactions_.native(reorders.frame(rows))

    def reorders(self, as_of: str | date | np.datetime64 | None = None) -> Reorders:
        """Return the regular purchases up to a day; those asked for last are remembered."""
        data, day = self.model.interactions_, None if as_of is None else as_moment(as_of)
        cached = self._cached_reorders
        if cached is None or cached[0] is not data or cached[1] != day:
            cached = self._cached_reorders = (data, day, find_reorders(data, day))
        return cached[2]

    def _recommend(
        self, user: int | None, n: int, basket: Interactions | None, only: Choice | None, without: Choice | None
    ) -> Recommendations:
        data = self.model.interactions_
        allowed = allowed_items(data, only, without)
        ids, _ = self.model.recommend(
            user or 0,
            basket,
            N=min(check_whole(n, "n", 1), data.n_items),
            items=None if allowed is None else np.flatnonzero(allowed),
            recalculate_user=basket is not None,
        )
        found = map(self._valued, self.model.explain_all(user, ids[ids >= 0], basket))
        return Recommendations(found, data, "" if user is None else f"For {data.user_name(user)}")

    def _valued(self, explanation: Explanation) -> Recommendation:
        values, item, confidence = self._values(), explanation.item, explanation.confidence
        price = float(values.prices[item])
        return Recommendation(
            product=explanation.product,
            confidence=confidence,
            price=explanation.price,
            explanation=explanation,
            chance=float(values.chances(np.array([confidence]))[0]),
            typical_price=price if np.isfinite(price) else None,
            typical_quantity=float(values.quantities[item]),
            value=None if explanation.owned else values.value(item, confidence),
        )

    def _values(self) -> ExpectedValues:
        """Return what recommendations are worth, by the purchases and the calibration that the model has now."""
        basis = self.model.interactions_, self.model.calibration_
        if self._cached_values is None or any(a is not b for a, b in zip(basis, self._cached_values, strict=False)):
            self._cached_values = (*basis, ExpectedValues(*basis))
        return self._cached_values[2]

    def _basket_with(self, user: int, also: Iterable[Any]) -> Interactions | None:
        """Return what the client has and more; None where there is nothing more."""
        names = as_list(also)
        return self._basket(self.model.interactions_.by_user[user], names) if names else None

    def _basket(self, owned: Iterable[int], also: Iterable[Any]) -> Interactions:
        """Return one client with the products owned and those named."""
        data = self.model.interactions_
        items = {*map(int, owned), *(data.item_index(product) for product in also)}
        return Interactions.from_pairs([0] * len(items), sorted(items), (1, data.n_items))


def _dtype(labels: Labels) -> Any:
    return pl.Int64 if np.issubdtype(labels.dtype, np.integer) else pl.String


def _with_names(table: pl.DataFrame, data: Interactions) -> pl.DataFrame:
    """Return the table with the names that are shown beside the keys, where these are not the same."""
    for column, labels, names in (
        ("client", data.user_labels, data.user_names),
        ("product", data.item_labels, data.item_names),
    ):
        if names is not None:
            shown = table[column].replace_strict(labels.tolist(), names.tolist(), default=None, return_dtype=pl.String)
            table.insert_column(table.get_column_index(column) + 1, shown.alias(f"{column}_name"))
    return table
