"""The penalties ‖w‖₁ and ½‖w‖² of linear machines, as Newton's method sees them."""

from typing import Protocol

import numpy as np
from scipy import linalg

from fastsvm.solvers.linear_primal.model_minimum import minimum, violations
from fastsvm.tuning import LinearTuning

__all__ = ["L1", "L2", "Penalty"]

_INNER = 0.03  # violation at the minimum of a model, as a share of that at its centre, or of its square below 1
_RIDGE = 1e-10  # relative error of a Hessian


class Penalty(Protocol):
    """What Newton's method asks of a penalty. Weights and gradients have the shape (n_scores, n_weights)."""

    l1_ratio: float
    """1 for ‖w‖₁, 0 for ½‖w‖²."""

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the distance of 0 from the subdifferential of losses and penalty, for each weight."""

    def factors(self, combined: np.ndarray) -> np.ndarray:
        """Return for each score by what β is multiplied to be feasible, from Xᵀβ."""

    def conjugates(self, combined: np.ndarray) -> np.ndarray:
        """Return the conjugate of the penalty of each score, at a feasible Xᵀβ."""

    def target(self, hessian: np.ndarray, gradient: np.ndarray, weights: np.ndarray, deadline: float) -> np.ndarray:
        """Return the minimum of a second-order model of the losses of one score and the penalty.

        From the deadline (of time.perf_counter) on, it may be another point nearby.
        """


class L1:
    """‖w‖₁."""

    l1_ratio = 1.0

    def __init__(self, tuning: LinearTuning) -> None:
        self._faces = tuning.faces

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""
        total: np.ndarray = np.abs(weights).sum(axis=1)
        return total

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the distance of 0 from the subdifferential, for each weight."""
        return violations(gradient, weights)

    def factors(self, combined: np.ndarray) -> np.ndarray:
        """Return by what β is multiplied, so that |Xᵀβ| is 1 at most."""
        return 1 / np.maximum(1.0, np.abs(combined).max(axis=1))

    def conjugates(self, combined: np.ndarray) -> np.ndarray:
        """Return zeros: the conjugate is an indicator function."""
        return np.zeros(len(combined))

    def target(self, hessian: np.ndarray, gradient: np.ndarray, weights: np.ndarray, deadline: float) -> np.ndarray:
        """Return the minimum of a second-order model."""
        worst = violations(gradient, weights).max()
        return minimum(hessian, gradient, weights, _RIDGE, _INNER * worst * min(1.0, worst), deadline, self._faces)


class L2:
    """½‖w‖²."""

    l1_ratio = 0.0

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""
        total: np.ndarray = np.einsum("cj,cj->c", weights, weights) / 2
        return total

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the size of the derivative by each weight."""
        return np.abs(gradient + weights)

    def factors(self, combined: np.ndarray) -> np.ndarray:
        """Return ones: all β are feasible."""
        return np.ones(len(combined))

    def conjugates(self, combined: np.ndarray) -> np.ndarray:
        """Return ½‖Xᵀβ‖²."""
        return self.values(combined)

    def target(self, hessian: np.ndarray, gradient: np.ndarray, weights: np.ndarray, deadline: float) -> np.ndarray:
        """Return the minimum of a second-order model; of its diagonal, where rounding makes the model indefinite."""
        square, downhill = hessian.copy(), gradient + weights
        diagonal = square.diagonal() * (1 + _RIDGE) + 1.0
        np.fill_diagonal(square, diagonal)
        try:
            factor = linalg.cho_factor(square, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            return weights - downhill / diagonal
        return weights - linalg.cho_solve(factor, downhill, check_finite=False)
