"""Recommendations in the words of the business: a model asked by the names of clients and products."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ocular.data.interactions import Interactions
from ocular.explain.calibration import HitRate, expected_rates
from ocular.explain.price import PriceEstimate
from ocular.explain.reasons import Explanation
from ocular.model import OCuLaR, load


@dataclass(frozen=True)
class Recommendation:
    """A product for a client, with what a person needs to decide whether to call."""

    product: Any  # its name
    confidence: float  # the model's probability
    price: PriceEstimate | None
    explanation: Explanation
    value: float | None = None  # what a call is worth: price times hit rate, or times confidence without calibration

    @property
    def client(self) -> Any:
        return self.explanation.client

    @property
    def observed(self) -> HitRate | None:
        """How often recommendations like this one came true; None for a model without calibration."""
        return self.explanation.observed

    def text(self, *, show_clients: bool = True) -> str:
        return self.explanation.text(show_clients=show_clients)

    def _repr_html_(self) -> str:
        return self.explanation.to_html()

    def to_dict(self, *, show_clients: bool = True) -> dict[str, Any]:
        return self.explanation.to_dict(show_clients=show_clients) | {"value": self.value}


class Advisor:
    """
    A fitted model that is asked by name.

    >>> from ocular import Interactions, OCuLaR
    >>> history = Interactions.from_pairs(
    ...     [0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 0, 1, 3],
    ...     user_labels=["Acme", "Bolt", "Corda", "Dory"], item_labels=["nut", "saw", "vise", "sail"],
    ... )
    >>> advisor = Advisor(OCuLaR(2, 0.1, random_state=0).fit(history))
    >>> advisor.recommend("Corda", n=1)[0].product
    'vise'
    """

    def __init__(self, model: OCuLaR) -> None:
        check_is_fitted(model)
        self.model = model

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Advisor:
        """From the folder of a saved model."""
        return cls(load(path))

    def recommend(
        self, client: Any, n: int = 5, *, also: Iterable[Any] = (), without: Iterable[Any] = ()
    ) -> list[Recommendation]:
        """
        The n best products for a client, best first; those that no co-cluster speaks for come last, without a reason.

        `also` names products to take as bought: what would be recommended if the client had them too. `without` names
        products to leave out.
        """
        history = self.model.interactions_
        user, others = history.user_index(client), [history.item_index(product) for product in _listed(without)]
        return self._recommend(user, n, self._with(user, also), others)

    def recommend_new(self, products: Iterable[Any], n: int = 5) -> list[Recommendation]:
        """The n best products for a client who is not in the model and has these products."""
        return self._recommend(None, n, self._basket([], _listed(products)))

    def explain(self, client: Any, product: Any, *, also: Iterable[Any] = ()) -> Recommendation:
        """The case for one product, whether it would be recommended or not."""
        history = self.model.interactions_
        user, item = history.user_index(client), history.item_index(product)
        return self._valued(self.model.explain(user, item, self._with(user, also)))

    def _recommend(
        self, user: int | None, n: int, basket: Interactions | None, without: list[int] | None = None
    ) -> list[Recommendation]:
        n = min(n, self.model.interactions_.n_items)
        ids, _ = self.model.recommend(
            user or 0, basket, N=n, filter_items=without or None, recalculate_user=basket is not None
        )
        return [self._valued(explanation) for explanation in self.model.explain_all(user, ids[ids >= 0], basket)]

    def _valued(self, explanation: Explanation) -> Recommendation:
        confidence, price = explanation.confidence, explanation.price
        checked = bool(explanation.reasons) and not explanation.owned
        rate = float(expected_rates(self.model.calibration_, np.asarray(confidence), checked=checked))
        value = None if price is None else price.median * rate
        return Recommendation(explanation.product, confidence, price, explanation, value)

    def _with(self, user: int, also: Iterable[Any]) -> Interactions | None:
        """What the client has and more; None where there is nothing more."""
        also = _listed(also)
        return self._basket(self.model.interactions_.by_user[user], also) if also else None

    def _basket(self, owned: Iterable[int], also: Iterable[Any]) -> Interactions:
        """One client with the products owned and those named."""
        history = self.model.interactions_
        items = {*map(int, owned), *(history.item_index(product) for product in also)}
        return Interactions.from_pairs([0] * len(items), sorted(items), (1, history.n_items))


def _listed(names: Any) -> list[Any]:
    """One name is a list of one."""
    return [names] if isinstance(names, str | int) else list(names)
