"""The attributes of one side's rows, as the likelihood takes them: arrays without names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.errors import DataError


class Categories(NamedTuple):
    """An attribute of which each row has one value."""

    codes: NDArray[Any]  # (n,) from 0 to n_values − 1, −1 where it is not known
    n_values: int


class Tags(NamedTuple):
    """An attribute of which each row may have any number of values."""

    values: sp.csr_array  # (n, n_values) of 0 and 1
    observed: NDArray[np.bool_] | None = None  # (n,) where the values are known; None: everywhere


@dataclass(frozen=True, eq=False)
class Attributes:
    """
    The attributes of all rows of one side, as arrays.

    An attribute with one value per row has weights for each value but the last, one with any number for each value.
    """

    starts: NDArray[np.int64]  # (n_attributes + 1,) the first weights of each attribute
    exclusive: NDArray[np.bool_]  # (n_attributes,) whether a row has one value of it
    observed: NDArray[np.bool_]  # (n, n_attributes)
    ends: NDArray[np.int64]  # (n + 1,)
    values: NDArray[np.int32]  # row r has the values of the weights values[ends[r]:ends[r + 1]], ascending

    @classmethod
    def of(cls, n_rows: int, columns: Sequence[Categories | Tags]) -> Attributes:
        """Return the attributes of `n_rows` rows; raise where a column does not describe them."""
        parts, observed, sizes = [], [], []
        for column in columns:
            if isinstance(column, Categories):
                known, part = _one_of(column, n_rows)
            else:
                known, part = _any_of(column, n_rows)
            parts.append(part)
            observed.append(known)
            sizes.append(part.shape[1])
        if not parts:
            raise DataError("expected at least one attribute, got none; leave attributes out")
        shown = sp.csr_array(sp.hstack(parts, format="csr"))
        shown.sort_indices()
        return cls(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.array([isinstance(column, Categories) for column in columns]),
            np.column_stack(observed),
            shown.indptr.astype(np.int64),
            shown.indices.astype(np.int32),
        )

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def n_weights(self) -> int:
        return int(self.starts[-1])

    def groups(self) -> list[tuple[int, int]]:
        """Return the first and the last + 1 weights of each softmax."""
        found: list[tuple[int, int]] = []
        for (first, last), exclusive in zip(pairwise(self.starts.tolist()), self.exclusive, strict=True):
            found += [(first, last)] if exclusive else [(at, at + 1) for at in range(first, last)]
        return found

    def take(self, rows: NDArray[np.integer[Any]]) -> Attributes:
        """Return the given rows, in the given order."""
        shown = Adjacency(self.ends, self.values).take(rows)
        return Attributes(self.starts, self.exclusive, self.observed[rows], shown.indptr, shown.indices)

    def fingerprint(self) -> str:
        """Return a digest of all attributes."""
        digest = hashlib.sha256()
        for array in (self.starts, self.exclusive, self.observed, self.ends, self.values):
            digest.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @cached_property
    def by_weight(self) -> Adjacency:
        """The rows that have the value of each weight."""
        turned = Adjacency(self.ends, self.values).matrix(self.n_weights).tocsc()
        return Adjacency(turned.indptr.astype(np.int64), turned.indices.astype(np.int32))

    def initial_weights(self, n_coclusters: int) -> NDArray[np.float32]:
        """Return weights that explain the values by how often they occur: intercepts alone, (L, K + 1)."""
        weights = np.zeros((self.n_weights, n_coclusters + 1), dtype=np.float32)
        frequency, known = self.by_weight.degrees, self.observed.sum(axis=0)
        for b, (first, last) in enumerate(pairwise(self.starts.tolist())):
            here = frequency[first:last]
            rest = known[b] - (here.sum() if self.exclusive[b] else here)
            weights[first:last, -1] = np.log((rest + 0.5) / (here + 0.5))
        return weights


class SideAttributes(NamedTuple):
    """The attributes of users and of items, where there are any."""

    users: Attributes | None = None
    items: Attributes | None = None

    def fingerprint(self) -> str:
        """Return a digest of all attributes; empty where there are none."""
        digests = ["" if side is None else side.fingerprint() for side in self]
        return "-".join(digests) if any(digests) else ""

    def weight_shapes(self, n_coclusters: int) -> dict[str, tuple[int, int]]:
        """Return the shape of the weights of each side that has attributes, by the name of the state's field."""
        names = "user_attribute_weights", "item_attribute_weights"
        sides = zip(names, self, strict=True)
        return {name: (side.n_weights, n_coclusters + 1) for name, side in sides if side is not None}


def _one_of(column: Categories, n_rows: int) -> tuple[NDArray[np.bool_], sp.csr_array]:
    codes, n = np.asarray(column.codes), column.n_values
    if codes.shape != (n_rows,) or not np.issubdtype(codes.dtype, np.integer):
        raise DataError(f"expected {n_rows} whole numbers as codes of an attribute, got {codes.dtype} {codes.shape}")
    if n < 2:
        raise DataError(f"expected an attribute with at least 2 values, got {n}; leave it out, it tells nothing apart")
    if len(codes) and (codes.min() < -1 or codes.max() >= n):
        wrong = codes.min() if codes.min() < -1 else codes.max()
        raise DataError(f"expected codes of an attribute from 0 to {n - 1}, or -1 where it is not known, got {wrong}")
    rows = np.flatnonzero((codes >= 0) & (codes < n - 1))  # the last value needs no weights
    ones = np.ones(len(rows), dtype=np.int8)
    return codes >= 0, sp.csr_array((ones, (rows, codes[rows])), shape=(n_rows, n - 1))


def _any_of(column: Tags, n_rows: int) -> tuple[NDArray[np.bool_], sp.csr_array]:
    values = sp.csr_array(column.values)
    values.sum_duplicates()
    values.eliminate_zeros()
    if values.shape[0] != n_rows or values.shape[1] < 1:
        raise DataError(f"expected the values of an attribute as {n_rows} rows, got a matrix of {values.shape}")
    if (values.data != 1).any():
        raise DataError("expected 0 or 1 for each value of an attribute, got other numbers")
    known = np.ones(n_rows, dtype=bool) if column.observed is None else np.asarray(column.observed, dtype=bool)
    if known.shape != (n_rows,):
        raise DataError(f"expected for {n_rows} rows whether an attribute is known, got shape {known.shape}")
    if (np.diff(values.indptr)[~known] > 0).any():
        raise DataError("expected no values of an attribute in rows where it is not known, got some")
    return known, values
