"""Kernel values between two blocks of samples in float64, as exact as products allow.

Nothing here comes from the package under test.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

__all__ = ["ExactKernel"]

_WIDE = 4096  # sparse samples with fewer features are multiplied faster as dense ones
_NEAR = 1e-6
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class ExactKernel:
    """A kernel over the samples of a matrix.

    Attributes
    ----------
    X : ndarray or CSR matrix
        All samples.
    kernel : str
        "linear", "poly", "rbf", "sigmoid", "laplacian" or "exponential".
    gamma, degree, coef0 : numbers
        As in scikit-learn.
    """

    X: Any
    kernel: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        if self.kernel not in _MAPS:
            raise ValueError(f"the referee knows no kernel {self.kernel!r}, only {', '.join(_MAPS)}")

    def centre(self) -> np.ndarray | float:
        """Return what to subtract from dense samples: a common offset would cancel digits of squared distances."""
        if sparse.issparse(self.X) or self.kernel not in ("rbf", "exponential"):
            return 0.0
        mean = self.X.mean(axis=0, dtype=np.float64)
        return np.rint(mean) if self.X.dtype.kind in "iub" else mean  # products of integers stay exact

    def rows(self, indices: np.ndarray, centre: np.ndarray | float = 0.0) -> Any:
        """Return samples of X in float64, as `widened` does."""
        return self.widened(self.X[indices], centre)

    def widened(self, chosen: Any, centre: np.ndarray | float = 0.0) -> Any:
        """Return samples in float64, dense unless they are sparse and very wide."""
        if not sparse.issparse(chosen):
            return np.subtract(chosen, centre, dtype=np.float64)
        chosen = chosen.astype(np.float64)
        return chosen if chosen.shape[1] > _WIDE and self.kernel != "laplacian" else chosen.toarray()

    def between(self, A: Any, B: Any) -> np.ndarray:
        """Return the kernel values between blocks that `rows` returned."""
        return _MAPS[self.kernel](self, A, B)


def _products(A: Any, B: Any) -> np.ndarray:
    products = A @ B.T
    return products.toarray() if sparse.issparse(products) else products


def _square_norms(A: Any) -> np.ndarray:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def _square_distances(A: Any, B: Any) -> np.ndarray:
    distances = _products(A, B)
    distances *= -2
    distances += _square_norms(A)[:, None]
    distances += _square_norms(B)
    return np.maximum(distances, 0, out=distances)


def _rbf(kernel: ExactKernel, A: Any, B: Any) -> np.ndarray:
    values = _square_distances(A, B)
    values *= -kernel.gamma
    return np.exp(values, out=values)


def _exponential(kernel: ExactKernel, A: Any, B: Any) -> np.ndarray:
    values = _square_distances(A, B)
    _correct_near(values, A, B)
    np.sqrt(values, out=values)
    values *= -kernel.gamma
    return np.exp(values, out=values)


def _correct_near(values: np.ndarray, A: Any, B: Any) -> None:
    """Recompute the distances of nearly equal samples from differences, because their root magnifies rounding."""
    limit = _NEAR * (_square_norms(A)[:, None] + _square_norms(B))
    near = np.argwhere(values <= limit)
    for start in range(0, len(near), _ROWS_AT_ONCE):
        i, j = near[start : start + _ROWS_AT_ONCE].T
        values[i, j] = _square_norms(A[i] - B[j])


def _linear(kernel: ExactKernel, A: Any, B: Any) -> np.ndarray:
    return _products(A, B)


def _argument(kernel: ExactKernel, A: Any, B: Any) -> np.ndarray:
    values = _products(A, B)
    values *= kernel.gamma
    values += kernel.coef0
    return values


def _poly(kernel: ExactKernel, A: Any, B: Any) -> np.ndarray:
    return _argument(kernel, A, B) ** kernel.degree


def _sigmoid(kernel: ExactKernel, A: Any, B: Any) -> np.ndarray:
    values = _argument(kernel, A, B)
    return np.tanh(values, out=values)


def _laplacian(kernel: ExactKernel, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    values = cdist(A, B, "cityblock")
    values *= -kernel.gamma
    return np.exp(values, out=values)


_MAPS = {
    "linear": _linear,
    "poly": _poly,
    "rbf": _rbf,
    "sigmoid": _sigmoid,
    "laplacian": _laplacian,
    "exponential": _exponential,
}
