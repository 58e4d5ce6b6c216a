"""The loops of the tutorials, with the estimator's interface: NumPy on the whole kernel matrix, one rate, all at once.

The dual problem is that without an offset, which is found afterwards; the primal one has an offset. Both start at zero.
Unless told not to, they record the objective after each epoch, the dual one by outer products, as the formula is read.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["DualLoop", "Kernel", "Loop", "PrimalLoop", "Recipe", "gaussian", "quadratic"]

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Recipe(NamedTuple):
    """How a loop is run."""

    rate: float
    epochs: int = 500
    C: float = 1.0
    recorded: bool = True


def gaussian(width: float) -> Kernel:
    """Return the kernel exp(-‖x-z‖² / width²)."""

    def values(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.exp(-(np.linalg.norm(A[:, None] - B[None], axis=2) ** 2) / width**2)

    return values


def quadratic(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return (1 + A @ B.T) ** 2


class Loop:
    """What both loops have in common: epochs, and the answer in scikit-learn's layout."""

    sign = 1.0  # of the objective that falls

    def __init__(self, kernel: Kernel, recipe: Recipe) -> None:
        self.kernel, self.recipe = kernel, recipe

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Loop":
        self.losses_: list[float] = []
        K, state = self.kernel(X, X), (np.zeros(len(y)), 0.0)
        for _ in range(self.recipe.epochs):
            state = self._epoch(K, y, *state)
            if self.recipe.recorded:
                self.losses_.append(self._loss(K, y, *state))
        beta, intercept = self._answer(K, y, *state)
        self.support_, self.dual_coef_, self.intercept_ = np.arange(len(y)), beta[None], np.array([intercept])
        return self

    def _epoch(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> tuple[np.ndarray, float]:
        raise NotImplementedError

    def _loss(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> float:
        raise NotImplementedError

    def _answer(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> tuple[np.ndarray, float]:
        return coef, offset


class DualLoop(Loop):
    """Projected gradient ascent."""

    sign = -1.0

    def _epoch(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> tuple[np.ndarray, float]:
        return np.clip(coef + self.recipe.rate * (1 - y * (K @ (coef * y))), 0, self.recipe.C), offset

    def _loss(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> float:
        return float(coef.sum() - 0.5 * np.sum(np.outer(coef, coef) * np.outer(y, y) * K))

    def _answer(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> tuple[np.ndarray, float]:
        free = np.flatnonzero((coef > 0) & (coef < self.recipe.C))
        return coef * y, float(np.mean(y[free] - K[free] @ (coef * y))) if len(free) else 0.0


class PrimalLoop(Loop):
    """Descent along a subgradient."""

    def _epoch(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> tuple[np.ndarray, float]:
        rate, C = self.recipe.rate, self.recipe.C
        scores = K @ coef
        inside = y * (scores + offset) < 1
        pull = C * np.where(inside, y, 0)
        return coef - rate * (scores - K @ pull), offset + rate * float(pull.sum())

    def _loss(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, offset: float) -> float:
        scores = K @ coef
        return float(0.5 * coef @ scores + self.recipe.C * np.maximum(0, 1 - y * (scores + offset)).sum())
