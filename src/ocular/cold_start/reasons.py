"""Why a new product suits a client, or a product a new client: exact contributions, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.cold_start.rows import NewRows
from ocular.cold_start.start import ColdStart
from ocular.data.attributes import Features
from ocular.explain.names import MAX_EXAMPLES, client_name, join_names, joined, percent, product_name, quoted
from ocular.explain.reasons import APPEAL, KINDS, LINKS, MIN_SHARE, PATTERN, PEERS, TASTE
from ocular.explain.wording import appeal_sentence, taste_sentence

MAX_REASONS = 3
N_CLOSEST, MIN_SHARING = 20, 5  # clients most like a new one, or those with all its attributes where there are enough
LabelOf = Callable[[int], str]  # of a co-cluster


@dataclass(frozen=True)
class NewReason:
    """What one kind of evidence adds to the score of a pair of which one side is new."""

    kind: str  # "pattern", "links", "peers", "taste" or "appeal"
    contribution: float  # to z
    sentence: str
    sentence_without_names: str  # that names no client
    pattern: int | None = None  # the co-cluster that adds most, of patterns
    group: tuple[int, ...] = ()  # clients whose purchases the sentence counts, of peers and appeal of a new client
    is_telling: bool = True  # of that group more bought the product than of all clients


@dataclass(frozen=True)
class NewExplanation:
    """The reasons for a pair of which one side is new, strongest first; with `base` they add up to z."""

    confidence: float
    reasons: list[NewReason]
    base: float  # biases and background
    product: str
    client: str
    neighbours: list[str] = field(default_factory=list)  # the known products, or clients, that are most alike

    @property
    def shown_reasons(self) -> list[NewReason]:
        """The first reasons that carry a good part of the score and count different clients; one at least."""
        min_contribution, shown = MIN_SHARE * sum(reason.contribution for reason in self.reasons), list[NewReason]()
        for reason in sorted(self.reasons, key=lambda reason: not reason.is_telling):
            enough = reason.is_telling and reason.contribution >= min_contribution
            repeated = bool(reason.group) and any(reason.group == other.group for other in shown)
            if not shown or (enough and not repeated):
                shown.append(reason)
        return shown[:MAX_REASONS]

    def text(self, *, show_clients: bool = True) -> str:
        """Return the rationale in words; `show_clients=False` names no other client."""
        confidence = f"{self.confidence:.2f}" if self.confidence >= 0.01 else f"{self.confidence:.1g}"
        head = f"{quoted(self.product)} suits {quoted(self.client)} with confidence {confidence}"
        if not self.reasons:
            return f"{head}: the model has no reason; this is the background probability of any pair."
        points = [r.sentence if show_clients else r.sentence_without_names for r in self.shown_reasons]
        return "\n".join([f"{head} because:", *(f"- {point}" for point in points)])


class NewReasons:
    """Finds the reasons for pairs of one new product and known clients, or of one new client and known products."""

    def __init__(self, cold: ColdStart, new: NewRows, row: sp.csr_array, side: str, label_of: LabelOf) -> None:
        """Take the new row as `ColdStart.product_rows` or `client_rows` has it; `side` is "product" or "client"."""
        self._cold, self._new, self._row, self._label_of = cold, new, row, label_of
        self._is_product = side == "product"
        self._evidence = cold.for_products if self._is_product else cold.for_clients
        self._data = self._evidence.interactions
        self._ends = np.cumsum([0, *self._evidence.sizes])
        weights = new.neighbours.data
        self._neighbours = new.neighbours.indices[np.argsort(-weights, kind="stable")].tolist()
        self._features = cold.item_features if self._is_product else cold.user_features
        self._words = _words(self._features, new.values.indices)
        article = "an" if self._words[:1].lower() in [*"aeiou"] else "a"
        self._adjective = f"{article} {self._words} {self._features.side}" if self._words else ""

    def neighbour_names(self, n: int = 5) -> list[str]:
        """Return the names of the known rows that are most alike by their attributes."""
        return [self._own_name(row) for row in self._neighbours[:n]]

    def explain(self, other: int, new_name: str) -> NewExplanation:
        """Return the reasons for the pair with a known client, or a known product."""
        x = self._evidence.rows_of(np.array([other])) if self._is_product else self._evidence.item_rows[[other]]
        product = sp.coo_array(x.multiply(self._row))
        biases = self._cold.biases.users if self._is_product else self._cold.biases.items
        base = self._cold.product_base if self._is_product else self._cold.client_base
        base += float(biases[other])
        reasons = []
        for at, kind in enumerate(KINDS):
            inside = (product.col >= self._ends[at]) & (product.col < self._ends[at + 1]) & (product.data > 0)
            columns, parts = product.col[inside] - self._ends[at], product.data[inside].astype(np.float64)
            if len(columns):
                order = np.lexsort((columns, -parts))
                reasons.append(self._reason(kind, other, new_name, columns[order].tolist(), parts[order]))
        reasons.sort(key=lambda reason: -reason.contribution)
        z = base + sum(reason.contribution for reason in reasons)
        names = (new_name, self._other_name(other)) if self._is_product else (self._other_name(other), new_name)
        return NewExplanation(float(-np.expm1(-z)), reasons, base, *names, self.neighbour_names())

    def _reason(
        self, kind: str, other: int, new_name: str, columns: list[int], parts: NDArray[np.float64]
    ) -> NewReason:
        def say(names_clients: bool) -> str:
            if self._is_product:
                return self._of_product(kind, other, columns, names_clients)
            return self._of_client(kind, other, new_name, columns, names_clients)

        pattern = columns[0] if kind == PATTERN else None
        group, is_telling = (), True
        if not self._is_product and kind in (PEERS, APPEAL):
            bought = self._bought(other)
            clients = self._closest(bought) if kind == PEERS else self._features.holders[columns[0]]
            group, is_telling = tuple(clients.tolist()), bool(bought[clients].mean() > bought.mean())
        return NewReason(kind, float(parts.sum()), say(True), say(False), pattern, group, is_telling)

    def _bought(self, item: int) -> NDArray[np.bool_]:
        """Return (n_users,) who bought a product."""
        bought = np.zeros(self._data.n_users, dtype=bool)
        bought[self._data.by_item[item]] = True
        return bought

    def _closest(self, bought: NDArray[np.bool_]) -> NDArray[np.int64]:
        """
        Return the clients most like a new one, ascending: those with all its attributes, where they are few.

        Of the others N_CLOSEST, or twice as many until one of them bought the product.
        """
        size = len(self._sharing) if MIN_SHARING <= len(self._sharing) <= N_CLOSEST else N_CLOSEST
        while size < len(self._by_closeness) and not bought[self._by_closeness[:size]].any():
            size = max(N_CLOSEST, 2 * size)
        return np.sort(self._by_closeness[:size])

    @cached_property
    def _sharing(self) -> set[int]:
        """The clients with purchases that have all attributes of the new one; none where it has no attributes."""
        singles = _singles(self._features, self._new.values.indices)
        buying = set(np.flatnonzero(self._data.by_user.degrees).tolist())
        return buying.intersection(*(self._features.holders[value].tolist() for value in singles)) if singles else set()

    @cached_property
    def _by_closeness(self) -> NDArray[np.int64]:
        """All clients that count for a new one: by their attributes, then by their part in the score."""
        n_users = self._data.n_users
        alike, weights, sharing = self._new.neighbours.toarray()[0], np.zeros(n_users), np.zeros(n_users)
        sharing[[*self._sharing]] = 1
        at = KINDS.index(PEERS)
        part = self._row[:, self._ends[at] : self._ends[at + 1]]
        weights[part.indices] = part.data
        counts = sharing + alike + weights > 0
        closest: NDArray[np.int64] = np.lexsort((-weights, -alike, -sharing))[: int(counts.sum())]
        return closest

    def _of_product(self, kind: str, user: int, columns: list[int], names_clients: bool) -> str:
        """Return the sentence on a new product for a known client."""
        client = quoted(self._other_name(user))
        if kind == PATTERN:
            label = self._label_of(columns[0])
            described = f"As {self._adjective}, it" if self._adjective else "It"
            return f"{described} belongs to the pattern {quoted(label)}, which {client} buys from."
        if kind == LINKS:
            owned = joined([quoted(self._item_name(item)) for item in columns[:MAX_EXAMPLES]])
            similar = f" such as {joined(list(map(quoted, self.neighbour_names(2))))}" if self._neighbours else ""
            return f"{client} owns {owned}; clients who do often buy products{similar or ' like it'}."
        if kind == PEERS:
            if not names_clients:
                return f"{len(columns):,} of its first buyers are similar to {client}."
            peers = join_names([self._data.user_name(v) for v in columns], "Client", quoted)
            return f"{peers}, whose purchases are like those of {client}, bought it."
        if kind == TASTE:
            return self._taste(client, columns[0], self._data.by_user[user])
        values = self._cold.user_features.adjective(columns[0])
        return f"Its first buyers are {values} clients too."

    def _of_client(self, kind: str, item: int, new_name: str, columns: list[int], names_clients: bool) -> str:
        """Return the sentence on a known product for a new client."""
        data, product, bought = self._data, quoted(self._other_name(item)), self._bought(item)
        overall = percent(float(bought.mean()))
        if kind == PATTERN:
            label, described = self._label_of(columns[0]), f"As {self._adjective}, it" if self._adjective else "It"
            return f"{described} fits the pattern {quoted(label)}, whose clients buy {product} ({overall} of all do)."
        if kind == LINKS:
            owners = data.by_item[columns[0]]
            owned = joined([quoted(self._item_name(j)) for j in columns[:MAX_EXAMPLES]])
            both = int(bought[owners].sum())
            share = f"{both:,} of {len(owners):,} with {quoted(self._item_name(columns[0]))}"
            return f"Clients who own {owned} often buy {product}: {share} ({overall} of all clients)."
        if kind == PEERS:
            group = self._closest(bought)
            buyers = group[bought[group]]
            kind_of = f"{self._words} clients" if {*group.tolist()} == self._sharing else "clients most like it"
            rates = f"{percent(len(buyers) / len(group))}; {overall} of all clients"
            share = f"{len(buyers):,} of the {len(group):,} {kind_of} bought {product} ({rates})"
            if not names_clients:
                return f"{share}."
            return f"{share}: {join_names([data.user_name(v) for v in buyers.tolist()], 'Client', quoted)}."
        if kind == TASTE:
            return self._taste(new_name, columns[0], self._new.positives.indices)
        rate = float(bought[self._features.holders[columns[0]]].mean())
        return appeal_sentence(product, self._features.adjective(columns[0]), rate, float(bought.mean()))

    def _taste(self, client: str, value: int, owned: NDArray[np.int32]) -> str:
        features = self._cold.item_features
        held = int(np.isin(owned, features.holders[value]).sum())
        return taste_sentence(client, features.adjective(value), held, len(owned))

    def _own_name(self, row: int) -> str:
        return self._item_name(row) if self._is_product else str(client_name(self._data.user_name(row)))

    def _other_name(self, row: int) -> str:
        return str(client_name(self._data.user_name(row))) if self._is_product else self._item_name(row)

    def _item_name(self, item: int) -> str:
        return str(product_name(self._data.item_name(item)))


def _singles(features: Features, values: NDArray[np.int32]) -> list[int]:
    """Return the features that are one value, not two that come together."""
    return [value for value in values.tolist() if len(features.values[value]) == 1]


def _words(features: Features, values: NDArray[np.int32]) -> str:
    """Return the first single values of a new row as they stand before a noun: "Printing, price 10 to 20"."""
    return ", ".join(features.adjective(value) for value in _singles(features, values)[:MAX_EXAMPLES])
