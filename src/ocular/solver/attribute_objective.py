"""
Attributes in the likelihood, in plain float64 NumPy: the definition that the kernels are tested against.

The paper models a categorical attribute A of a row (an item or, symmetrically, a user) with values a_0 … a_{J−1} by a
softmax of its memberships f. Each value but the last has weights w_ℓ and an intercept w_0ℓ; with f' = [f; 1] and
w' = [w; w_0],

    P(A = a_ℓ) = e^(−⟨w'_ℓ, f'⟩) / (1 + Σ_j e^(−⟨w'_j, f'⟩)),        P(A = a_{J−1}) = 1 / (1 + Σ_j e^(−⟨w'_j, f'⟩))

An attribute of which a row may have several values (genres, tags) is one binary attribute per value, J = 2. A row whose
value is not known adds nothing. A fit adds to Q, for each side with attributes,

    strength · ( Σ_rows Σ_attributes −log P(A = value of the row)  +  ρ Σ‖w'‖² )

The ridge ρ keeps the weights bounded: without it f → f / c, w → c w would leave the term as it is and let the penalty
of the memberships vanish; and a value that every row has would want an infinite intercept. It is multiplied by the
strength too, so that the best weights for given memberships do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocular.solver.attribute_steps import WEIGHT_RIDGE, WEIGHT_SIZES
from ocular.solver.attributes import Attributes
from ocular.solver.objective import Array, RowProblem


@dataclass(frozen=True)
class AttributeTerm:
    """The term of one side: a function of the memberships F, (n, K), and of the weights W, (L, K + 1)."""

    labels: Array  # (n, L) 1 where the row has the value that the weights belong to
    observed: Array  # (n, L) 1 where it is known whether it has
    groups: tuple[slice, ...]  # the weights of each softmax
    strength: float
    ridge: float = WEIGHT_RIDGE

    @classmethod
    def of(cls, attributes: Attributes, strength: float) -> AttributeTerm:
        """Return the term of a side's attributes."""
        labels = np.zeros((len(attributes), attributes.n_weights))
        labels[np.repeat(np.arange(len(attributes)), np.diff(attributes.ends)), attributes.values] = 1.0
        observed = np.repeat(attributes.observed, np.diff(attributes.starts), axis=1).astype(np.float64)
        return cls(labels, observed, tuple(slice(*group) for group in attributes.groups()), strength)

    def take(self, row: int) -> AttributeTerm:
        """Return the term of a single row."""
        one = slice(row, row + 1)
        return AttributeTerm(self.labels[one], self.observed[one], self.groups, self.strength, self.ridge)

    def group_values(self, F: Array, W: Array) -> Array:
        """−log P of each row and group, (n, number of groups)."""
        t = -(extended(F) @ W.T)
        columns = []
        for group in self.groups:
            normaliser = np.log1p(np.exp(t[:, group]).sum(axis=1))
            columns.append(self.observed[:, group.start] * normaliser - (self.labels[:, group] * t[:, group]).sum(1))
        return np.column_stack(columns)

    def row_values(self, F: Array, W: Array) -> Array:
        """What each row adds to Q, (n,)."""
        values: Array = self.strength * self.group_values(F, W).sum(axis=1)
        return values

    def value(self, F: Array, W: Array) -> float:
        """What the side adds to Q."""
        return float(self.row_values(F, W).sum() + self.strength * self.ridge * (W**2).sum())

    def shares(self, F: Array, W: Array) -> Array:
        """P(A = a_ℓ) of each row and value, (n, L); 0 where the attribute is not observed."""
        e = np.exp(-(extended(F) @ W.T))
        for group in self.groups:
            e[:, group] /= 1.0 + e[:, group].sum(axis=1, keepdims=True)
        return e * self.observed

    def factor_gradient(self, F: Array, W: Array) -> Array:
        """∂value / ∂F."""
        gradient: Array = self.strength * (self.labels - self.shares(F, W)) @ W[:, :-1]
        return gradient

    def factor_curvature(self, F: Array, W: Array) -> Array:
        """An upper bound of the diagonal of the Hessian in F: Σ_ℓ p_ℓ w_ℓ²."""
        bound: Array = self.strength * self.shares(F, W) @ W[:, :-1] ** 2
        return bound

    def weight_gradient(self, F: Array, W: Array) -> Array:
        """∂value / ∂W."""
        gradient: Array = self.strength * ((self.labels - self.shares(F, W)).T @ extended(F) + 2 * self.ridge * W)
        return gradient

    def weight_step(self, F: Array, W: Array) -> Array:
        """
        Return the weights after one gradient step, divided by the diagonal of the Hessian.

        Each softmax takes the size, of WEIGHT_SIZES, that lowers its value most, or stays where it is.
        """
        p = self.shares(F, W)
        curvature = self.strength * ((p * (1 - p)).T @ extended(F) ** 2 + 2 * self.ridge)
        direction = self.weight_gradient(F, W) / curvature
        sizes = (0.0, *WEIGHT_SIZES)
        values = np.array([self._weight_values(F, W - size * direction) for size in sizes])
        best = np.array(sizes)[values.argmin(axis=0)]
        out = W.copy()
        for group, size in zip(self.groups, best, strict=True):
            out[group] -= size * direction[group]
        return out

    def _weight_values(self, F: Array, W: Array) -> Array:
        """What each group adds to Q, penalty included."""
        penalty = np.array([(W[group] ** 2).sum() for group in self.groups])
        values: Array = self.strength * (self.group_values(F, W).sum(axis=0) + self.ridge * penalty)
        return values


def extended(F: Array) -> Array:
    """F' = [F, 1]."""
    return np.column_stack([F, np.ones(len(F))])


@dataclass(frozen=True)
class AttributeRowProblem(RowProblem):
    """One row's share of Q where it has attributes: the term sees the memberships, not the columns of biases."""

    term: AttributeTerm  # of this row alone
    attribute_weights: Array  # (L, K + 1)

    def value(self, f: Array) -> float:
        K = self.attribute_weights.shape[1] - 1
        return super().value(f) + float(self.term.row_values(f[None, :K], self.attribute_weights)[0])

    def slopes(self, f: Array) -> tuple[Array, Array]:
        first, second = super().slopes(f)
        K = self.attribute_weights.shape[1] - 1
        memberships = f[None, :K], self.attribute_weights
        first[:K] += self.free[:K] * self.term.factor_gradient(*memberships)[0]
        second[:K] += self.term.factor_curvature(*memberships)[0]
        return first, second
