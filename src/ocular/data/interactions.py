"""Who bought what: the positive pairs in both orientations, the names, and every amount that was paid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ocular.data.export import facts_html, purchases_frame, to_native
from ocular.data.lookup import Lookup
from ocular.errors import DataError, Parameter

Labels = NDArray[Any]  # the key of each row: text or whole numbers, each once
Names = NDArray[Any]  # what is shown for each row: text, not always distinct
Attributes = Mapping[str, NDArray[Any]]  # column name -> a value for each row; None where it is not known


@dataclass(frozen=True)
class Adjacency:
    """
    One orientation of the positives: row r holds indices[indptr[r]:indptr[r + 1]], ascending.

    What a fit knows of the rows besides goes with them: how much each positive weighs, and what was refused.
    """

    indptr: NDArray[np.int64]  # (n_rows + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    weights: NDArray[np.float32] | None = None  # (nnz,) above 0; None: all weigh 1
    refused: Adjacency | None = None  # as many rows: unknown pairs that are known not to fit

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        return self.indices[self.indptr[row] : self.indptr[row + 1]]

    @property
    def degrees(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    def take(self, rows: NDArray[np.integer[Any]]) -> Adjacency:
        """Return the given rows, in the given order."""
        indptr = np.concatenate([[0], np.cumsum(self.degrees[rows])]).astype(np.int64)
        position = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], self.degrees[rows])
        weights = None if self.weights is None else self.weights[position]
        return Adjacency(
            indptr, self.indices[position], weights, None if self.refused is None else self.refused.take(rows)
        )

    def turned(self, n_columns: int) -> Adjacency:
        """Return the other orientation: the rows of each column."""
        values = np.ones(len(self.indices), dtype=np.int8) if self.weights is None else self.weights
        turned = sp.csr_array((values, self.indices, self.indptr), shape=(len(self), n_columns)).tocsc()
        ends, rows = turned.indptr.astype(np.int64), turned.indices.astype(np.int32)
        weights = None if self.weights is None else turned.data
        return Adjacency(ends, rows, weights, None if self.refused is None else self.refused.turned(n_columns))

    def matrix(self, n_columns: int) -> sp.csr_array:
        """Return the same rows as a scipy matrix of ones."""
        ones = np.ones(len(self.indices), dtype=np.float32)
        # 32 bits where they suffice: implicit takes no others
        indptr = self.indptr.astype(np.int32 if len(self.indices) < 2**31 else np.int64)
        return sp.csr_array((ones, self.indices, indptr), shape=(len(self), n_columns))


def rows_of(arrays: dict[str, NDArray[Any]]) -> Adjacency:
    """Take who bought what out of `Interactions.arrays`, with weights and refusals where there are any."""
    refused = None
    if "refused_indptr" in arrays:
        refused = Adjacency(arrays.pop("refused_indptr"), arrays.pop("refused_indices"))
    return Adjacency(arrays.pop("indptr"), arrays.pop("indices"), arrays.pop("weights", None), refused)


def merged(one: Adjacency | None, other: Adjacency | None) -> Adjacency | None:
    """Return what is in either of two lists of rows, of which each may be None; nothing is in both."""
    if one is None or other is None:
        return one if other is None else other
    indptr = one.indptr + other.indptr
    rows = np.concatenate([np.repeat(np.arange(len(part)), part.degrees) for part in (one, other)])
    order = np.argsort(rows, kind="stable")
    return Adjacency(indptr, np.concatenate([one.indices, other.indices])[order])


@dataclass(frozen=True)
class Purchases:
    """Every purchase, sorted by pair: repeated purchases are one positive but keep their amounts."""

    pair: NDArray[np.int64]  # (n_purchases,) position of the (user, item) pair in Interactions.by_user.indices
    price: NDArray[np.float64] | None = None  # paid for one unit; nan where it is not known
    quantity: NDArray[np.float64] | None = None
    time: NDArray[np.datetime64] | None = None  # NaT where it is not known
    currency: str = ""  # what is written before prices: "£"

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The amounts that are known, by name."""
        named = {"price": self.price, "quantity": self.quantity, "time": self.time}
        return {name: values for name, values in named.items() if values is not None}

    def take(self, rows: NDArray[Any], pair: NDArray[np.int64]) -> Purchases:
        """Return the purchases at `rows`, which now belong to the pairs `pair`."""
        return Purchases(pair, **{name: values[rows] for name, values in self.columns.items()}, currency=self.currency)


@dataclass(frozen=True)
class Payments:
    """What was paid for each item, cheapest first. Amounts of zero or less are gifts and corrections, not prices."""

    indptr: NDArray[np.int64]  # (n_items + 1,)
    buyers: NDArray[np.int32]
    prices: NDArray[np.float64]
    times: NDArray[np.int32]  # how often this buyer paid for this item

    def of(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int32]]:
        """Return the buyers of an item, what they paid and how often."""
        span = slice(self.indptr[item], self.indptr[item + 1])
        return self.buyers[span], self.prices[span], self.times[span]


@dataclass(frozen=True, eq=False)
class Interactions:
    """
    Who bought what, of n_users clients and n_items products, with every amount that is known.

    Build one with `ocular.data.readers.read` (files, frames, databases), `Interactions.from_pairs` or
    `Interactions.from_matrix`. Labels are keys; names, where there are any, are what people read.
    """

    by_user: Adjacency
    n_items: int
    user_labels: Labels
    item_labels: Labels
    purchases: Purchases | None = None
    user_attributes: Attributes = field(default_factory=dict)
    item_attributes: Attributes = field(default_factory=dict)
    user_names: Names | None = None  # None: the labels are shown
    item_names: Names | None = None
    frame_kind: str = "polars"  # the library of the frames that `native` returns

    def __post_init__(self) -> None:
        for side, labels, names, attributes, n in (
            ("client", self.user_labels, self.user_names, self.user_attributes, self.n_users),
            ("product", self.item_labels, self.item_names, self.item_attributes, self.n_items),
        ):
            for texts in (labels, names):
                if texts is not None and len(texts) != n:
                    raise DataError(f"expected {n} {side} names, one per row, got {len(texts)}")
            for name, values in attributes.items():
                if len(values) != n:
                    raise DataError(f"expected {n} values of {side} attribute {name!r}, got {len(values)}")

    @classmethod
    def from_pairs(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        shape: tuple[int, int] | None = None,
        *,
        user_labels: Iterable[Any] | None = None,
        item_labels: Iterable[Any] | None = None,
        price: ArrayLike | None = None,
        quantity: ArrayLike | None = None,
        time: ArrayLike | None = None,
        currency: str = "",
        user_attributes: Attributes | None = None,
        item_attributes: Attributes | None = None,
        user_names: Iterable[Any] | None = None,
        item_names: Iterable[Any] | None = None,
        frame_kind: str = "polars",
    ) -> Interactions:
        """
        Build Interactions from a user index and an item index for each purchase; a pair may occur many times.

        >>> Interactions.from_pairs([0, 0, 1], [0, 2, 2], user_labels=["Acme", "Bolt"])
        Interactions(2 clients × 3 products, 3 pairs)
        """
        u, i = _as_indices(users, "user"), _as_indices(items, "item")
        if u.shape != i.shape or u.ndim != 1:
            raise DataError(f"expected one user and one item per purchase, got shapes {u.shape} and {i.shape}")
        user_keys = None if user_labels is None else as_labels(user_labels)
        item_keys = None if item_labels is None else as_labels(item_labels)
        n_users, n_items = shape or (
            len(user_keys) if user_keys is not None else int(u.max(initial=-1)) + 1,
            len(item_keys) if item_keys is not None else int(i.max(initial=-1)) + 1,
        )
        if len(u) and (u.min() < 0 or i.min() < 0 or u.max() >= n_users or i.max() >= n_items):
            raise DataError(
                f"expected indices below {n_users} × {n_items} and not negative, "
                f"got users {u.min()}..{u.max()} and items {i.min()}..{i.max()}"
            )
        # one number per pair sorts by user, then item, and finds the repeated ones
        code = u * max(n_items, 1) + i
        order = np.argsort(code, kind="stable")
        code = code[order]
        first = np.ones(len(code), dtype=bool)
        first[1:] = code[1:] != code[:-1]
        distinct = code[first]
        indptr = np.searchsorted(distinct, np.arange(n_users + 1) * max(n_items, 1)).astype(np.int64)
        by_user = Adjacency(indptr, (distinct % max(n_items, 1)).astype(np.int32))

        purchases = None
        if price is not None or quantity is not None or time is not None:
            purchases = Purchases(
                np.arange(len(u)),
                _as_amounts(price, "price", "float64", len(u)),
                _as_amounts(quantity, "quantity", "float64", len(u)),
                _as_amounts(time, "time", "datetime64[s]", len(u)),
                currency,
            ).take(order, np.cumsum(first) - 1)
        return cls(
            by_user,
            n_items,
            np.arange(n_users) if user_keys is None else user_keys,
            np.arange(n_items) if item_keys is None else item_keys,
            purchases,
            dict(user_attributes or {}),
            dict(item_attributes or {}),
            None if user_names is None else np.array([*map(str, user_names)], dtype=object),
            None if item_names is None else np.array([*map(str, item_names)], dtype=object),
            frame_kind,
        )

    @classmethod
    def from_matrix(
        cls,
        X: Any,
        *,
        min_value: float | None = None,
        weighted: bool = False,
        user_labels: Iterable[Any] | None = None,
        item_labels: Iterable[Any] | None = None,
    ) -> Interactions:
        """
        Build Interactions from a users × items matrix, sparse or dense, of zeros and ones.

        `min_value` turns ratings into positives: what is stored and at least that large counts. With `weighted` values
        are the weights of the positives, above 0.
        """
        matrix = _as_csr(X)
        values = matrix.data
        if not np.isfinite(values).all():
            raise DataError("expected values 0 or 1, got NaN or infinity; replace missing values by 0")
        if min_value is not None:
            positive = (values != 0) & (values >= min_value)
        else:
            positive = values != 0
            strange = values[positive & (values != 1)]
            if len(strange) and not weighted:
                sign = "a negative value, " if strange.min() < 0 else ""
                raise DataError(
                    f"expected values 0 or 1, got {sign}{strange[strange.argmin()]:g}; pass ",
                    Parameter("min_value"),
                    " to turn ratings into positives",
                )
        n_users, n_items = matrix.shape
        indptr = np.concatenate([[0], np.cumsum(positive)])[matrix.indptr]
        interactions = cls(
            Adjacency(indptr.astype(np.int64), matrix.indices[positive].astype(np.int32)),
            n_items,
            np.arange(n_users) if user_labels is None else as_labels(user_labels),
            np.arange(n_items) if item_labels is None else as_labels(item_labels),
        )
        return interactions.weighted(values[positive]) if weighted else interactions

    @property
    def n_users(self) -> int:
        return len(self.by_user)

    @property
    def nnz(self) -> int:
        """Number of positive pairs."""
        return len(self.by_user.indices)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_users, self.n_items

    @cached_property
    def by_item(self) -> Adjacency:
        """The other orientation: item -> users."""
        return self.by_user.turned(self.n_items)

    @cached_property
    def pairs_by_item(self) -> NDArray[np.int64]:
        """The position in by_user.indices of every pair of by_item.indices."""
        return np.argsort(self.by_user.indices, kind="stable")

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """The weight of every pair in a fit, in the order of by_user.indices; None where all weigh 1."""
        return self.by_user.weights

    @property
    def refusals(self) -> Adjacency | None:
        """What each client is known not to want, user -> items; None where nothing was refused."""
        return self.by_user.refused

    def weighted(self, weights: ArrayLike | None) -> Interactions:
        """Return the same with a weight for every pair, in the order of by_user.indices; None: all weigh 1."""
        checked = None if weights is None else check_weights(weights, self.nnz)
        if checked is not None and bool((checked == 1).all()):
            checked = None  # so that nothing is done for them
        return replace(self, by_user=replace(self.by_user, weights=checked))

    def with_refusals(self, refused: Adjacency | None) -> Interactions:
        """Return the same with what each client refused, user -> items, none of which was bought; None: nothing."""
        if refused is not None and len(refused.indices) == 0:
            refused = None
        return replace(self, by_user=replace(self.by_user, refused=refused))

    @property
    def pair_users(self) -> NDArray[np.int32]:
        """The user of every pair, in the order of by_user.indices, which is the item of every pair."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.by_user.degrees)

    @cached_property
    def payments(self) -> Payments | None:
        """What was paid for each item; None where no price is known."""
        purchases = self.purchases
        if purchases is None or purchases.price is None:
            return None
        paid = (purchases.price > 0) & np.isfinite(purchases.price)
        if purchases.quantity is not None:
            paid &= ~(purchases.quantity <= 0)  # what is not known counts
        pair, prices = purchases.pair[paid], purchases.price[paid]
        items = self.by_user.indices[pair]
        order = np.lexsort((prices, items))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=self.n_items))])
        times = np.bincount(pair, minlength=self.nnz).astype(np.int32)[pair]
        return Payments(indptr, self.pair_users[pair][order], prices[order], times[order])

    def to_matrix(self) -> sp.csr_array:
        """Return a users × items matrix of float32 ones."""
        return self.by_user.matrix(self.n_items)

    @property
    def currency(self) -> str:
        """What is written before prices; empty where there are none or it was not given."""
        return "" if self.purchases is None else self.purchases.currency

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return indptr and indices of by_user and, where they are known, weights, refusals, and pair and amounts."""
        arrays: dict[str, NDArray[Any]] = {"indptr": self.by_user.indptr, "indices": self.by_user.indices}
        if self.weights is not None:
            arrays["weights"] = self.weights
        if self.refusals is not None:
            arrays |= {"refused_indptr": self.refusals.indptr, "refused_indices": self.refusals.indices}
        if self.purchases is not None:
            arrays |= {"pair": self.purchases.pair, **self.purchases.columns}
        return arrays

    def where(self, pairs: NDArray[np.bool_]) -> Interactions:
        """Return the same clients and products with only the pairs of a mask over by_user.indices."""
        if pairs.shape != (self.nnz,) or pairs.dtype != np.bool_:
            raise DataError(f"expected a mask over {self.nnz} pairs, got {pairs.dtype} of shape {pairs.shape}")
        position = np.concatenate([[0], np.cumsum(pairs)])
        purchases = self.purchases
        if purchases is not None:
            rows = np.flatnonzero(pairs[purchases.pair])
            purchases = purchases.take(rows, position[purchases.pair[rows]])
        weights = None if self.weights is None else self.weights[pairs]
        indptr = position[self.by_user.indptr].astype(np.int64)
        by_user = Adjacency(indptr, self.by_user.indices[pairs], weights, self.refusals)
        return replace(self, by_user=by_user, purchases=purchases)

    def user_index(self, name: Any) -> int:
        """Return the row of a client by its key or, where it is unique, its name; an unknown one raises."""
        return self._users.find(name)

    def item_index(self, name: Any) -> int:
        """Return the row of a product by its key or, where it is unique, its name; an unknown one raises."""
        return self._items.find(name)

    def find_user(self, name: Any) -> int | None:
        """Return the row of a client as `user_index` does, None where there is none."""
        return self._users.get(name)

    def find_item(self, name: Any) -> int | None:
        """Return the row of a product as `item_index` does, None where there is none."""
        return self._items.get(name)

    def user_name(self, user: int) -> Any:
        """Return the name of a client as it is shown."""
        return plain((self.user_labels if self.user_names is None else self.user_names)[user])

    def item_name(self, item: int) -> Any:
        """Return the name of a product as it is shown."""
        return plain((self.item_labels if self.item_names is None else self.item_names)[item])

    def to_frame(self) -> Any:
        """
        Return a row for each purchase, or for each pair where no amounts are known, in the caller's kind of frame.

        The columns are client, product, client_name and product_name where there are names, and those of price,
        quantity and time that are known.

        >>> Interactions.from_pairs([0, 1], [0, 0], user_labels=["Acme", "Bolt"], price=[2.5, 3.0]).to_frame().rows()
        [('Acme', 0, 2.5), ('Bolt', 0, 3.0)]
        """
        return self.native(purchases_frame(self))

    def native(self, table: Any) -> Any:
        """Return a polars frame as the kind of frame that the purchases came in, such as pandas."""
        return to_native(table, self.frame_kind)

    @property
    def user_rows(self) -> dict[str, int]:
        """The row of each client by its key as text."""
        return self._users.rows

    @property
    def item_rows(self) -> dict[str, int]:
        """The row of each product by its key as text."""
        return self._items.rows

    @cached_property
    def _users(self) -> Lookup:
        return Lookup(self.user_labels, self.user_names, "client")

    @cached_property
    def _items(self) -> Lookup:
        return Lookup(self.item_labels, self.item_names, "product")

    def fingerprint(self) -> str:
        """Return a digest of who bought what, which tells whether a checkpoint belongs to these purchases."""
        digest = hashlib.sha256(f"{self.shape}".encode())
        digest.update(self.by_user.indptr.tobytes())
        digest.update(self.by_user.indices.tobytes())
        for name, values in self.arrays().items():
            if name == "weights" or name.startswith("refused"):
                digest.update(name.encode() + values.tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"Interactions({self.n_users:,} clients × {self.n_items:,} products, {self.nnz:,} pairs)"

    def _repr_html_(self) -> str:
        return facts_html(self)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        # NumPy would make an object array of it, which scikit-learn's searches fail on far from here
        raise DataError(
            "expected a matrix, got Interactions; pass interactions.to_matrix() to scikit-learn, or use ocular.search"
        )


def check_weights(weights: ArrayLike, n: int) -> NDArray[np.float32]:
    """Return a weight above 0 for each of n pairs, or raise."""
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected a number as the weight of each pair, got others ({error})") from error
    if given.shape != (n,):
        raise DataError(f"expected a weight for each of {n:,} pairs, got shape {given.shape}")
    wrong = given[~(np.isfinite(given) & (given.astype(np.float32) > 0))]
    if len(wrong):
        wrong_ones = f"{wrong[0]:g} ({len(wrong):,} of {n:,})"
        raise DataError(f"expected weights above zero, got {wrong_ones}; leave out pairs that must not count")
    return given.astype(np.float32)


def plain(label: Any) -> Any:
    """Return a label as Python's own type: JSON does not take NumPy's numbers."""
    return label.item() if isinstance(label, np.generic) else label


def _as_indices(values: ArrayLike, kind: str) -> NDArray[np.int64]:
    given = np.asarray(values)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise DataError(f"expected whole numbers as {kind} indices, got {given.dtype}; map names to 0, 1, … first")
    return given.astype(np.int64)


def _as_amounts(values: ArrayLike | None, name: str, dtype: str, n: int) -> NDArray[Any] | None:
    if values is None:
        return None
    try:
        amounts = np.asarray(values).astype(dtype)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected a {name} of type {dtype}, got a value that is not ({error})") from error
    if amounts.shape != (n,):
        raise DataError(f"expected one {name} for each of {n} purchases, got shape {amounts.shape}")
    return amounts


def _as_csr(X: Any) -> sp.csr_array:
    if not sp.issparse(X):
        try:
            X = np.atleast_2d(np.asarray(X))
        except ValueError as error:
            raise DataError(f"expected a users × items matrix, got rows of different length ({error})") from error
    if X.ndim != 2:
        raise DataError(f"expected a users × items matrix, got {X.ndim} dimensions")
    if not (
        np.issubdtype(X.dtype, np.bool_) or np.issubdtype(X.dtype, np.integer) or np.issubdtype(X.dtype, np.floating)
    ):
        raise DataError(f"expected numbers 0 or 1, got a matrix of {X.dtype}")
    matrix = sp.csr_array(X)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # not in the caller's hands
        matrix.sum_duplicates()
    return matrix


def as_labels(labels: Iterable[Any]) -> Labels:
    """Return keys as an array of text or of whole numbers, or raise where they are mixed or repeated."""
    if isinstance(labels, np.ndarray) and np.issubdtype(labels.dtype, np.integer):
        numbers = labels.astype(np.int64)
        repeated = len(numbers) - len(np.unique(numbers))
        if repeated:
            raise DataError(f"expected every name once, got {repeated} repeated")
        return numbers
    given = list(labels)
    kinds = {type(label).__name__ for label in given}
    whole = all(isinstance(label, int | np.integer) and not isinstance(label, bool) for label in given)
    if not whole and not all(isinstance(label, str) for label in given):
        raise DataError(f"expected names that are all text or all whole numbers, got {', '.join(sorted(kinds))}")
    if len(set(given)) != len(given):
        raise DataError(f"expected every name once, got {len(given) - len(set(given))} repeated")
    return np.array(given, dtype=np.int64 if whole else object)
