"""The metric of a proximal term ½ (W - V) M (W - V), in which all directions of the rows are about equally easy.

M = κ I + Σ_i λ_i v_i v_iᵀ has the principal directions v_i of a sample of the rows, so that rows are short in
(I + M)⁻¹, although M is small in most directions: κ need only be in proportion to what the rows have beside them. The
same for all scores but for factors, so that they share Gram matrices.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Metric", "isotropic", "principal"]

_WEIGHT = 0.7  # of the term, in multiples of cost times mean squared length
_WEAK = 0.1  # weight below which the problem is easy as it is
_CERTAIN = 4  # rows of a sample for each direction that is taken from it
_LOST_DIGITS = 2**9  # units of rounding, which a difference of products may lose, are to be less than what it is


class Metric(NamedTuple):
    """M for each score.

    Attributes
    ----------
    kappa : ndarray of float64, shape (n_scores,)
        Weight in all directions.
    basis : ndarray of float64, shape (n_directions, n_weights)
        Orthonormal rows v_i.
    shares : ndarray of float64, shape (n_directions,)
        λ_i / (1 + κ + λ_i), the same for all scores: by what share less the weights follow in these directions.
    """

    kappa: np.ndarray
    basis: np.ndarray
    shares: np.ndarray

    @property
    def damping(self) -> np.ndarray:
        """1 / (1 + κ) for each score."""
        return 1 / (1 + self.kappa)

    @property
    def typical(self) -> float:
        """How much more the weights are damped in the principal directions, on average."""
        return 1 - float(self.shares.mean()) if len(self.shares) else 1.0

    @property
    def vanishes(self) -> bool:
        """Whether there is no proximal term."""
        return len(self.shares) == 0 and not self.kappa.any()

    def weaker(self, factor: float) -> "Metric":
        """Return a part of the metric, none if it is weak."""
        if factor * (self.kappa.max() + (self.shares / (1 - self.shares)).max(initial=0.0)) < _WEAK:
            return Metric(0 * self.kappa, self.basis[:0], self.shares[:0])
        mean = self.kappa.mean()
        more = factor * (1 + mean) * self.shares / (1 - self.shares)
        return Metric(factor * self.kappa, self.basis, more / (1 + factor * mean + more))

    def solve(self, weights: np.ndarray) -> np.ndarray:
        """Return (I + M)⁻¹ times each row of weights."""
        return self.damping[:, None] * (weights - ((weights @ self.basis.T) * self.shares) @ self.basis)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Return M times each row of weights."""
        more = (1 + self.kappa)[:, None] * (self.shares / (1 - self.shares))
        return self.kappa[:, None] * weights + ((weights @ self.basis.T) * more) @ self.basis


def isotropic(costs: np.ndarray, mean_square: float, width: int) -> Metric:
    """Return the metric κ I.

    Parameters
    ----------
    costs : ndarray of float64, shape (n_scores,)
        Mean costs of rows.
    mean_square : float
        Mean of ‖x‖².
    width : int
        Number of weights.
    """
    kappa = _WEIGHT * costs * mean_square
    return Metric(np.where(kappa < _WEAK, 0.0, kappa), np.zeros((0, width)), np.zeros(0))


def principal(costs: np.ndarray, sample: np.ndarray, most: int, eps: float) -> Metric:
    """Return the metric with principal directions of a sample of rows.

    Parameters
    ----------
    costs : ndarray of float64, shape (n_scores,)
        Mean costs of rows.
    sample : ndarray of float64, shape (n_sampled, n_weights)
        Rows, the constant feature included.
    most : int
        Directions at most.
    eps : float
        Rounding of products.
    """
    m, width = sample.shape
    squares, vectors = np.linalg.eigh(sample @ sample.T / m)
    squares, vectors = np.maximum(squares[::-1], 0), vectors[:, ::-1]
    count = min(most, max(1, m // _CERTAIN), np.count_nonzero(squares > 1e-9 * squares[0]))
    rest = squares[count:].sum()
    lengths = count * squares[:count] - rest  # of which multiples exceed κ
    chosen = lengths > 0
    if costs.mean() * 2 * _WEIGHT * lengths.max(initial=0.0) < _WEAK or not chosen.any():
        return isotropic(costs, float(squares.sum()), width)
    factor = 2 * _WEIGHT * costs
    kappa, more = factor * rest, factor.mean() * lengths[chosen]
    kappa = np.where(kappa < _WEAK, 0.0, kappa)
    basis = (sample.T @ vectors[:, :count][:, chosen]).T
    basis = np.ascontiguousarray(basis / np.linalg.norm(basis, axis=1, keepdims=True))
    shares = np.minimum(more / (1 + kappa.mean() + more), 1 - _LOST_DIGITS * eps)
    return Metric(kappa, basis, shares)
