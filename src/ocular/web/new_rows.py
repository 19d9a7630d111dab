"""What to offer a prospect, and whom to offer a new product, within what the visitor may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ocular.cold_start.advice import NewRecommendations
from ocular.errors import UnknownNameError
from ocular.web.auth import Visitor
from ocular.web.errors import NotFoundError
from ocular.web.registry import ServedModel
from ocular.web.services import Services


def products_for_prospect(
    served: ServedModel, attributes: Mapping[str, str], owned: Iterable[str], n: int
) -> NewRecommendations:
    """Return the n best products for a company that is not a client yet; an unknown name is not found."""
    try:
        return served.advisor.recommend_new(owned, n, attributes=attributes, name="the prospect")
    except UnknownNameError as error:  # of a product or an attribute, which everybody may read
        raise NotFoundError(str(error)) from error


def clients_for_product(
    services: Services,
    served: ServedModel,
    visitor: Visitor,
    attributes: Mapping[str, str],
    buyers: Sequence[str],
    n: int,
) -> NewRecommendations:
    """Return the n best clients for a new product, of those that the visitor may see; so must its buyers be."""
    for buyer in buyers:  # a name that is hidden must not be confirmed
        services.visibility.find_client(served, visitor, buyer)
    data, clients = served.interactions, services.visibility.clients_of(served, visitor)
    only = None if len(clients) == data.n_users else data.user_labels[clients].tolist()
    try:
        return served.advisor.clients_for_new(attributes, buyers, n, only=only)
    except UnknownNameError as error:  # of an attribute
        raise NotFoundError(str(error)) from error
