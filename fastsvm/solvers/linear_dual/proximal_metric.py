"""The metric M of a proximal term ½ (W - V) M (W - V), a preconditioner of the rows.

For dense rows M = κ I + Σ_i λ_i v_i v_iᵀ, with the principal directions v_i of a sample of the rows. The norms of rows
in (I + M)⁻¹ are small although M is small in most directions: κ is in proportion to the residual norms of the rows
only. For sparse rows I + M is diagonal, large where the features are large. The metrics of all scores are equal up to
factors, so that the scores share Gram matrices.
"""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable

__all__ = ["Metric", "diagonal", "no_metric", "principal"]

_WEIGHT = 0.7  # of the proximal term, in multiples of cost times mean ‖x‖²
_WEAK = 0.1  # weight below which no proximal term is needed
_CERTAIN = 4  # sampled rows per principal direction
_LOST_DIGITS = 2**9  # the least 1 - s_i in units of rounding, which limits cancellation in Gram matrices


@storable("proximal metric")
class Metric(NamedTuple):
    """M for each score c: (I + M_c)⁻¹ = (I - Σ_i s_i v_i v_iᵀ) R / (1 + κ_c), with either no s_i or R = I."""

    kappa: np.ndarray  # κ is the weight in all directions.
    scaling: np.ndarray  # The diagonal of R is a further damping of each weight.
    basis: np.ndarray  # The rows v_i are orthonormal; the shape is (n_directions, n_weights).
    shares: np.ndarray  # s_i = λ_i / (1 + κ + λ_i) is the reduction in these directions.

    @property
    def damping(self) -> np.ndarray:
        """1 / (1 + κ) for each score."""
        return 1 / (1 + self.kappa)

    @property
    def mean_damping(self) -> np.ndarray:
        """Mean damping of each score in the principal directions, or over the features."""
        more = 1 - float(self.shares.mean()) if len(self.shares) else float(self.scaling.mean())
        return self.damping * more

    @property
    def vanishes(self) -> bool:
        """Whether there is no proximal term."""
        return len(self.shares) == 0 and not self.kappa.any() and bool((self.scaling == 1).all())

    def weaker(self, factor: float) -> "Metric":
        """Return `factor` times the metric; zero if that is too weak to matter."""
        more, strong = self.shares / (1 - self.shares), 1 / self.scaling - 1
        if factor * (self.kappa.max() + more.max(initial=0.0) + strong.max()) < _WEAK:
            return no_metric(*self._shape)
        mean = self.kappa.mean()
        more = factor * (1 + mean) * more
        scaling = 1 / (1 + factor * strong)
        return Metric(factor * self.kappa, scaling, self.basis, more / (1 + factor * mean + more))

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.kappa), len(self.scaling)

    def solve(self, weights: np.ndarray) -> np.ndarray:
        """Return (I + M)⁻¹ times each row of weights."""
        return self.damping[:, None] * self.scaling * (weights - ((weights @ self.basis.T) * self.shares) @ self.basis)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Return M times each row of weights."""
        more = self.shares / (1 - self.shares)
        strong = (1 + self.kappa)[:, None] * (1 / self.scaling - 1) + self.kappa[:, None]
        return strong * weights + (1 + self.kappa)[:, None] * (((weights @ self.basis.T) * more) @ self.basis)


def no_metric(n_scores: int, n_weights: int) -> Metric:
    """Return the metric M = 0."""
    return Metric(np.zeros(n_scores), np.ones(n_weights), np.zeros((0, n_weights)), np.zeros(0))


def diagonal(costs: np.ndarray, squares: np.ndarray) -> Metric:
    """Return the metric of sparse rows, which is small for rare features.

    M_j is proportional to the root mean square of feature j. Among diagonal metrics with the same mean norm of rows,
    this one has the smallest trace. `costs` is the mean cost of a row in each score, and `squares` the mean x² of each
    feature, with the constant feature last.
    """
    roots = np.sqrt(squares)
    least = _WEIGHT * costs.min() * roots.sum() * roots
    if _WEIGHT * costs.max() * squares.sum() < _WEAK:
        return no_metric(len(costs), len(squares))
    size = _WEIGHT * squares.sum()
    kappa = (1 + costs * size) / (1 + costs.min() * size) - 1
    return Metric(kappa, 1 / (1 + least), np.zeros((0, len(squares))), np.zeros(0))


def principal(costs: np.ndarray, sample: np.ndarray, most: int, eps: float) -> Metric:
    """Return the metric with at most `most` principal directions of a sample of rows.

    `costs` is the mean cost of a row in each score. Rows have the constant feature, and long ones are shortened. `eps`
    is the machine precision of products.
    """
    m, width = sample.shape
    squares, vectors = np.linalg.eigh(sample @ sample.T / m)
    squares, vectors = np.maximum(squares[::-1], 0), vectors[:, ::-1]
    count = min(most, max(1, m // _CERTAIN), np.count_nonzero(squares > 1e-9 * squares[0]))
    rest = squares[count:].sum()
    lengths = count * squares[:count] - rest  # λ_i is proportional to these
    chosen = lengths > 0
    if not chosen.any():
        return _isotropic(costs, squares.sum(), width)
    factor = 2 * _WEIGHT * costs
    if factor.mean() * lengths.max() < _WEAK:
        return no_metric(len(costs), width)
    kappa, more = factor * rest, factor.mean() * lengths[chosen]
    kappa = np.where(kappa < _WEAK, 0.0, kappa)
    basis = (sample.T @ vectors[:, :count][:, chosen]).T
    basis = np.ascontiguousarray(basis / np.linalg.norm(basis, axis=1, keepdims=True))
    shares = np.minimum(more / (1 + kappa.mean() + more), 1 - _LOST_DIGITS * eps)
    return Metric(kappa, np.ones(width), basis, shares)


def _isotropic(costs: np.ndarray, mean_square: float, width: int) -> Metric:
    """Return the metric κ I for rows with the given mean of ‖x‖²."""
    kappa = _WEIGHT * costs * mean_square
    return no_metric(len(costs), width)._replace(kappa=np.where(kappa < _WEAK, 0.0, kappa))
