"""The loop of tutorials: gradient descent on mini-batches, with NumPy alone."""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["NumpyLoop"]

_BATCH = 200


class NumpyLoop:
    """A linear classifier: samples in random order, a constant learning rate, averaged weights."""

    def __init__(self, loss: str, alpha: float, max_iter: int, eta0: float) -> None:
        self._slopes, self._alpha, self._max_iter, self._eta0 = _SLOPES[loss], alpha, max_iter, eta0

    def fit(self, X: Any, y: np.ndarray) -> "NumpyLoop":
        """Fit; X is an array or a CSR matrix."""
        classes, codes = np.unique(y, return_inverse=True)
        right = np.eye(len(classes), dtype=X.dtype)[codes]
        if len(classes) == 2 and self._slopes is _hinge_slopes:
            right = right[:, 1:]
        W, b = np.zeros((X.shape[1], right.shape[1]), X.dtype), np.zeros(right.shape[1], X.dtype)
        W_sum, b_sum, n_steps = np.zeros_like(W), np.zeros_like(b), 0
        rng = np.random.default_rng(0)
        for _ in range(self._max_iter):
            order = rng.permutation(len(y))
            for start in range(0, len(y), _BATCH):
                rows = order[start : start + _BATCH]
                batch = X[rows]
                slopes = self._slopes(batch @ W + b, right[rows]) / len(rows)
                W -= self._eta0 * (batch.T @ slopes + self._alpha * W)
                b -= self._eta0 * slopes.sum(axis=0)
                W_sum += W
                b_sum += b
                n_steps += 1
        self.coef_, self.intercept_ = W_sum.T / n_steps, b_sum / n_steps
        return self


def _hinge_slopes(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    signs = 2 * right - 1
    return -signs * (signs * scores < 1)


def _softmax_slopes(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True) - right


_SLOPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "hinge": _hinge_slopes,
    "softmax": _softmax_slopes,
}
