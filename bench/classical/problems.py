"""Which two-class problems are solved? Data with labels -1 and 1, a kernel, C and the loss."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import make_circles, make_moons

from bench import recipes
from bench.data import Data
from bench.kernel_values import ExactKernel

__all__ = ["Problem", "a9a", "digits", "digits_pair", "donut", "mnist", "mnist_pair", "moons"]

_GRID = 100  # points a side
_NO_LABELS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Problem:
    """A problem of two classes; rows to test with that have no labels are only compared by their signs."""

    data: Data
    C: float
    gamma: float = 1.0
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    squared: bool = False

    @property
    def exact(self) -> ExactKernel:
        return ExactKernel(self.data.X, self.kernel, self.gamma, self.degree, self.coef0)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return what an estimator is told, by scikit-learn's names."""
        names = "C", "kernel", "gamma", "degree", "coef0"
        return {name: getattr(self, name) for name in names}

    def matrix(self) -> np.ndarray:
        """Return the kernel values of all rows, for the squared hinge those of its dual problem: K + I / 2C."""
        exact = self.exact
        rows = exact.rows(np.arange(len(self.data.y)), exact.centre())
        K = exact.between(rows, rows)
        if self.squared:
            K[np.diag_indices_from(K)] += 1 / (2 * self.C)
        return K


def a9a(C: float) -> Problem:
    return Problem(_signed(recipes.a9a(), 1), C, gamma=0.05)


def digits(C: float) -> Problem:
    return Problem(_signed(recipes.digits_odd_even(), 1), C, gamma=0.05)


def digits_pair(squared: bool) -> Problem:
    return Problem(_pair(recipes.digits(), 3, 8), 1.0, gamma=0.1, squared=squared)


def mnist(C: float) -> Problem:
    data = recipes.mnist_pixels()
    return Problem(_signed(data._replace(y=data.y % 2, y_test=data.y_test % 2), 1), C, gamma=0.02)


def mnist_pair(n: int, squared: bool) -> Problem:
    data = _pair(recipes.mnist_pixels(), 3, 8)
    return Problem(data._replace(X=data.X[:n], y=data.y[:n]), 1.0, gamma=0.02, squared=squared)


def donut() -> Problem:
    X, labels = make_circles(500, noise=0.08, factor=0.5, random_state=0)
    return Problem(_on_grid(X, labels), 1.0, kernel="poly", degree=2, coef0=1.0)


def moons(n: int, width: float) -> Problem:
    """Return moons and the kernel exp(-‖x-z‖² / width²)."""
    X, labels = make_moons(n, noise=0.1, random_state=6)
    return Problem(_on_grid(X, labels), 1.0, gamma=1 / width**2)


def _signed(data: Data, positive: int) -> Data:
    y, y_test = (np.where(labels == positive, 1, -1) for labels in (data.y, data.y_test))
    return data._replace(y=y, y_test=y_test)


def _pair(data: Data, a: int, b: int) -> Data:
    mine, mine_too = np.isin(data.y, (a, b)), np.isin(data.y_test, (a, b))
    return _signed(Data(data.X[mine], data.y[mine], data.X_test[mine_too], data.y_test[mine_too]), b)


def _on_grid(X: np.ndarray, labels: np.ndarray) -> Data:
    """Return rows in the plane, and the points of a grid around them to compare signs at."""
    sides = [np.linspace(low - 0.5, high + 0.5, _GRID) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    return Data(X, 2 * labels - 1, grid, _NO_LABELS)
