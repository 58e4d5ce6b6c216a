"""Data of two classes with labels -1 and 1."""

import numpy as np
from sklearn.datasets import make_circles, make_moons

from bench import recipes
from bench.harness.data import Data

__all__ = ["a9a", "digits", "digits_pair", "donut", "mnist", "mnist_pair", "moons"]

_GRID = 100  # points a side
_NO_LABELS = np.empty(0, np.int64)


def a9a() -> Data:
    return _signed(recipes.a9a(), 1)


def digits() -> Data:
    return _signed(recipes.digits_odd_even(), 1)


def digits_pair() -> Data:
    return _pair(recipes.digits(), 3, 8)


def mnist() -> Data:
    data = recipes.mnist_pixels()
    return _signed(data._replace(y=data.y % 2, y_test=data.y_test % 2), 1)


def mnist_pair(n: int) -> Data:
    data = _pair(recipes.mnist_pixels(), 3, 8)
    return data._replace(X=data.X[:n], y=data.y[:n])


def donut() -> Data:
    return _on_grid(*make_circles(500, noise=0.08, factor=0.5, random_state=0))


def moons(n: int) -> Data:
    return _on_grid(*make_moons(n, noise=0.1, random_state=6))


def _signed(data: Data, positive: int) -> Data:
    y, y_test = (np.where(labels == positive, 1, -1) for labels in (data.y, data.y_test))
    return data._replace(y=y, y_test=y_test)


def _pair(data: Data, a: int, b: int) -> Data:
    mine, mine_too = np.isin(data.y, (a, b)), np.isin(data.y_test, (a, b))
    return _signed(Data(data.X[mine], data.y[mine], data.X_test[mine_too], data.y_test[mine_too]), b)


def _on_grid(X: np.ndarray, labels: np.ndarray) -> Data:
    """Return points in the plane. The test set is a grid around them without labels, to compare signs."""
    sides = [np.linspace(low - 0.5, high + 0.5, _GRID) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    return Data(X, 2 * labels - 1, grid, _NO_LABELS)
