"""The loops of tutorials as estimators: NumPy on the whole kernel matrix, one learning rate, all coefficients at once.

The dual problem has no intercept, which is computed afterwards. The primal problem has one. Both start at zero. Unless
`recorded` is False they record the objective after each epoch, the dual one by outer products, as tutorials write it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench.classical.parameters import ClassicalParameters

__all__ = ["DualLoop", "Kernel", "Loop", "PrimalLoop", "Recipe", "gaussian", "kernel_of", "quadratic"]

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Recipe(NamedTuple):
    """Learning rate, number of epochs, C, and whether the objective is recorded."""

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


def kernel_of(parameters: ClassicalParameters) -> Kernel:
    """Return the kernel as tutorials write it."""
    return gaussian(parameters.gamma**-0.5) if parameters.kernel == "rbf" else quadratic


class Loop:
    """Runs epochs, and stores the answer in scikit-learn's layout."""

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

    def _epoch(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        raise NotImplementedError

    def _loss(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> float:
        raise NotImplementedError

    def _answer(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        return coef, intercept


class DualLoop(Loop):
    """Projected gradient ascent."""

    def _epoch(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        return np.clip(coef + self.recipe.rate * (1 - y * (K @ (coef * y))), 0, self.recipe.C), intercept

    def _loss(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> float:
        return float(coef.sum() - 0.5 * np.sum(np.outer(coef, coef) * np.outer(y, y) * K))

    def _answer(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        free = np.flatnonzero((coef > 0) & (coef < self.recipe.C))
        return coef * y, float(np.mean(y[free] - K[free] @ (coef * y))) if len(free) else 0.0


class PrimalLoop(Loop):
    """Descent along a subgradient."""

    def _epoch(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        rate, C = self.recipe.rate, self.recipe.C
        scores = K @ coef
        inside = y * (scores + intercept) < 1
        loss_term = C * np.where(inside, y, 0)
        return coef - rate * (scores - K @ loss_term), intercept + rate * float(loss_term.sum())

    def _loss(self, K: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> float:
        scores = K @ coef
        return float(0.5 * coef @ scores + self.recipe.C * np.maximum(0, 1 - y * (scores + intercept)).sum())
