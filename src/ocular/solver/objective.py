"""
The mathematics of OCuLaR in plain float64 NumPy: the definition that every kernel is tested against.

A pair of user u and item i has the affinity z = ⟨f_u, f_i⟩ + b_u + b_i + b + background and is positive with
probability 1 − e^(−z). A fit minimises, over non-negative memberships f and biases b,

    Q = Σ_{r=1} −w_u w_ui log(1 − e^(−z))  +  Σ_{r=0} c_ui (z − background)  +  λ (Σ‖f_u‖² + Σ‖f_i‖²)

with w_u = 1 (OCuLaR) or |unknowns of u| / |positives of u| (R-OCuLaR). Biases carry no penalty. Unless weights are
given, w_ui = 1; unless pairs were refused, c_ui = 1, and c > 1 for those that were.

Everything here builds users × items arrays: it is for small data and for tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_STEP = 1.5  # of a scaled step: mild over-relaxation, a Newton step is 1
MIN_STEP = 1e-20  # a line search ends here at the latest
RESOLUTION = 1e-7  # a row stays where it is if less than this share of its value can be gained: float32 sees no more
MIN_CURVATURE = 1e-3  # without a penalty the Hessian may vanish, and a scaled step would go anywhere


@dataclass(frozen=True)
class Parameters:
    """All that a fit learns."""

    user_factors: Array  # (n_users, K)
    item_factors: Array  # (n_items, K)
    user_bias: Array  # (n_users,)
    item_bias: Array  # (n_items,)
    bias: float


def affinities(p: Parameters, background: float) -> Array:
    """The affinity z of every pair, (n_users, n_items)."""
    return p.user_factors @ p.item_factors.T + p.user_bias[:, None] + p.item_bias + p.bias + background


def probability(z: Array) -> Array:
    """P(r = 1), accurate for small z."""
    return -np.expm1(-z)


def user_weights(R: Array, relative: bool) -> Array:
    """The weight w_u of a user's positives: 1, or unknowns / positives; users without positives weigh 1."""
    positives = R.sum(axis=1)
    if not relative:
        return np.ones(len(R))
    return np.where(positives > 0, (R.shape[1] - positives) / np.maximum(positives, 1), 1.0)


def pair_weights(
    R: Array, weights: Array, given: Array | None = None, refused: Array | None = None, refusal_weight: float = 1.0
) -> Array:
    """
    The weight of every pair, (n_users, n_items): w_u w_ui of a positive, c of a refused pair, 1 of any other unknown.

    `weights` are w_u, `given` holds w_ui at the positives, and `refused` is 1 where a pair was refused.
    """
    positive = np.broadcast_to(weights[:, None], R.shape) * (1.0 if given is None else given)
    unknown = 1.0 if refused is None else np.where(refused > 0, refusal_weight, 1.0)
    return np.where(R > 0, positive, unknown)


def _of_pairs(R: Array, weights: Array) -> Array:
    return weights if weights.ndim == 2 else pair_weights(R, weights)


def objective(R: Array, p: Parameters, weights: Array, regularization: float, background: float) -> float:
    """Q of the 0/1 matrix R; `weights` are those of users, (n_users,), or of all pairs."""
    z, W = affinities(p, background), _of_pairs(R, weights)
    likelihood = W * np.where(R > 0, -np.log(probability(z)), z - background)
    penalty = regularization * ((p.user_factors**2).sum() + (p.item_factors**2).sum())
    return float(likelihood.sum() + penalty)


def gradient(R: Array, p: Parameters, weights: Array, regularization: float, background: float) -> Parameters:
    """∂Q with respect to every parameter."""
    z, W = affinities(p, background), _of_pairs(R, weights)
    slope = W * np.where(R > 0, -np.exp(-z) / probability(z), 1.0)  # of Q in z
    return Parameters(
        slope @ p.item_factors + 2 * regularization * p.user_factors,
        slope.T @ p.user_factors + 2 * regularization * p.item_factors,
        slope.sum(axis=1),
        slope.sum(axis=0),
        float(slope.sum()),
    )


@dataclass(frozen=True)
class RowProblem:
    """
    One row's share of Q, with the other side fixed: a convex function of the row f.

    A bias is a column of its own: the row holds it, and the other side holds a constant in that column.
    """

    neighbours: Array  # (m, K) the other side's rows at the positives
    other_sum: Array  # (K,) sum over all rows of the other side, refused ones c times
    weights: Array  # (m,)
    background: float
    ridge: Array  # (K,) penalty of each column
    free: Array  # (K,) 1 where the column may move, 0 where it is a constant

    def value(self, f: Array) -> float:
        affinity = self.neighbours @ f
        # zeros = total − ones keeps a sweep O(nnz·K)
        unknown = f @ self.other_sum - affinity.sum()
        seen = -(self.weights * np.log(probability(affinity + self.background))).sum()
        return float(seen + unknown + (self.ridge * f**2).sum())

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """Gradient and diagonal of the Hessian."""
        z = self.neighbours @ f + self.background
        odds = np.exp(-z) / probability(z)
        pull = 1.0 + self.weights * odds
        curvature = self.weights * odds * (1.0 + odds)
        first = self.other_sum - pull @ self.neighbours + 2 * self.ridge * f
        second = curvature @ self.neighbours**2 + 2 * self.ridge
        return first * self.free, second

    def step(self, f: Array, start: float, beta: float, sigma: float, scaled: bool) -> tuple[Array, float]:
        """
        One projected gradient step with an Armijo line search along the projection arc, and the step to start
        from next time.

        `scaled` divides the gradient by the Hessian's diagonal and remembers the step; otherwise the search is the
        paper's: plain gradient, β, β², … each time.
        """
        first, second = self.slopes(f)
        direction = first / np.maximum(second, MIN_CURVATURE) if scaled else first
        here = self.value(f)
        size = start if scaled else beta
        tried = 0
        while size > MIN_STEP:
            there = np.maximum(f - size * direction, 0.0)
            slope = first @ (there - f)
            if -slope <= RESOLUTION * abs(here):
                return f, 1.0
            if self.value(there) - here <= sigma * slope:
                return there, min(size / beta, MAX_STEP) if tried == 0 else size
            size *= beta
            tried += 1
        return f, 1.0


def sweep(
    R: Array,
    p: Parameters,
    steps: tuple[Array, Array],
    weights: Array,
    regularization: float,
    background: float,
    *,
    with_bias: bool,
    beta: float = 0.5,
    sigma: float = 0.1,
    scaled: bool = True,
    bias_scale: float = 1.0,
) -> tuple[Parameters, tuple[Array, Array]]:
    """One sweep: every item row, then every user row. `steps` are the remembered steps of users and items."""
    W = _of_pairs(R, weights)
    user_steps, item_steps = (s.copy() for s in steps)
    K = p.user_factors.shape[1]
    ridge = np.array([regularization] * K + [0.0, 0.0])

    def half(rows: Array, other: Array, pairs: Array, w: Array, steps: Array, own: int) -> Array:
        free = np.array([1.0] * K + [0.0, 0.0])
        free[own] = with_bias
        out = rows.copy()
        for r in range(len(rows)):
            seen = pairs[r] > 0
            total = np.where(seen, 1.0, w[r]) @ other
            problem = RowProblem(other[seen], total, w[r, seen], background + p.bias, ridge, free)
            out[r], steps[r] = problem.step(rows[r], float(steps[r]), beta, sigma, scaled)
        return out

    constant = bias_scale if with_bias else 0.0
    users = np.column_stack([p.user_factors, p.user_bias / bias_scale, np.full(len(R), constant)])
    items = np.column_stack([p.item_factors, np.full(R.shape[1], constant), p.item_bias / bias_scale])
    items = half(items, users, R.T, W.T, item_steps, K + 1)
    users = half(users, items, R, W, user_steps, K)
    return replace(
        p,
        user_factors=users[:, :K],
        item_factors=items[:, :K],
        user_bias=users[:, K] * bias_scale,
        item_bias=items[:, K + 1] * bias_scale,
    ), (user_steps, item_steps)


def updated_bias(R: Array, p: Parameters, weights: Array, background: float) -> float:
    """
    The overall bias after one EM step, which never increases Q.

    Seen as a count of Poisson events of which at least one happened, a positive owes b / (1 − e^(−z)) of them to b.
    """
    W = _of_pairs(R, weights)
    inverse = np.where(R > 0, W / probability(affinities(p, background)), 0.0).sum()
    pairs = W.sum()
    return float(p.bias * inverse / pairs) if pairs else p.bias  # relative, and everybody has everything


@dataclass(frozen=True)
class LinkProblem:
    """
    The links of one target t, a convex function of s ≥ 0 with one entry for each candidate feature j:

        Σ_{e positive} −w_e log(1 − e^(−(background + Σ_j x_ej s_j)))  +  Σ_{e not} c_e Σ_j x_ej s_j  +  μ Σ_j s_j²

    with c_e = 1, and c > 1 for an entity that refused the target.

    For product links t is a product, e a client and x_ej says whether the client bought product j ≠ t; for peers t is a
    client, e a product and j another client.
    """

    positives: Array  # (m, n) x of the positive entities
    unknown: Array  # (n,) sum of c_e over the other entities with each feature
    weights: Array  # (m,)
    ridge: float
    background: float

    @classmethod
    def of(
        cls,
        R: Array,
        target: int,
        ridge: float,
        background: float,
        weights: Array | None = None,
        unknown_weights: Array | None = None,
    ) -> LinkProblem:
        """
        Return the problem of a column of the 0/1 matrix R, entities × targets, all other columns its features.

        `weights` and `unknown_weights`, (n_entities,), are w_e and c_e.
        """
        x = R.copy()
        x[:, target] = 0.0  # a purchase does not explain itself
        positive = R[:, target] > 0
        w, c = (np.ones(len(R)) if given is None else given for given in (weights, unknown_weights))
        return cls(x[positive], c[~positive] @ x[~positive], w[positive], ridge, background)

    def value(self, s: Array) -> float:
        z = self.positives @ s + self.background
        seen = -(self.weights * np.log(probability(z))).sum()
        return float(seen + self.unknown @ s + self.ridge * s @ s)

    def gradient(self, s: Array) -> Array:
        z = self.positives @ s + self.background
        odds = np.exp(-z) / probability(z)
        return self.unknown - (self.weights * odds) @ self.positives + 2 * self.ridge * s


@dataclass(frozen=True)
class SquaresProblem:
    """
    The links of one target by least squares, a convex function of s ≥ 0 with one entry for each candidate feature j:

        Σ_e (r_e − Σ_j x_ej s_j)² + μ Σ_j s_j²

    over all entities e, where r_e says whether e is positive for the target and x_ej whether it has feature j.
    """

    features: Array  # (n_entities, n) x
    positive: Array  # (n_entities,) r
    ridge: float

    @classmethod
    def of(cls, R: Array, target: int, ridge: float) -> SquaresProblem:
        """Return the problem of a column of the 0/1 matrix R, entities × targets, all other columns its features."""
        x = R.copy()
        x[:, target] = 0.0  # a purchase does not explain itself
        return cls(x, R[:, target], ridge)

    def value(self, s: Array) -> float:
        rest = self.positive - self.features @ s
        return float(rest @ rest + self.ridge * s @ s)

    def gradient(self, s: Array) -> Array:
        return 2 * (self.ridge * s - self.features.T @ (self.positive - self.features @ s))
