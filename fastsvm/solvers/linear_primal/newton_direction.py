"""Newton directions without a Hessian: by conjugate gradients, for the penalty ½‖w‖².

The direction δ solves (I + Xᵀ D X) δ = -g with the curvatures D of the losses and the gradient g of the objective. A
product with the matrix is two passes over the rows (Lin, Weng and Keerthi 2008, Trust region Newton method for
large-scale logistic regression, section 2). The system is scaled by its diagonal (Hsia, Chiang and Lin 2018,
Preconditioned conjugate gradient methods in truncated Newton frameworks for large-scale linear classification).

Memory: some vectors.
"""

from typing import Any

import numpy as np
from scipy import sparse

from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.sources import CSRBlock

__all__ = ["NewtonDirections"]

_ROWS = 4096  # of a piece of work
_MOST_PRODUCTS = 300


class NewtonDirections:
    """Newton directions for the rows of a problem in memory.

    Parameters
    ----------
    problem : LinearProblem
        The problem.
    pool : Pool
        Threads.
    """

    def __init__(self, problem: LinearProblem, pool: Pool) -> None:
        self._problem, self._pool, block = problem, pool, problem.block
        is_mapped = problem.scale.size > 0
        self._shift: Any = problem.shift if is_mapped else 0.0
        self._scale: Any = problem.scale if is_mapped else 1.0
        dtype = product_type(problem.source.dtype)
        self._rows: Any
        self._is_sparse = isinstance(block, CSRBlock)
        if isinstance(block, CSRBlock):
            self._rows = sparse.csr_matrix((block.data.astype(dtype), block.indices, block.indptr), block.shape)
        else:
            self._rows = block.values.astype(dtype, copy=False)
        n = block.shape[0]
        self._pieces = [(0, n)] if self._is_sparse else list(spans(n, _ROWS))  # slices of sparse rows are copies

    def direction(self, curvatures: np.ndarray, gradient: np.ndarray, share: float) -> np.ndarray:
        """Return δ, shape (n_weights,), up to a residual that is `share` of that of zero.

        Parameters
        ----------
        curvatures : ndarray of float64, shape (n,)
            D.
        gradient : ndarray of float64, shape (n_weights,)
            g; the weight of the constant feature is last.
        share : float
            Between 0 and 1.
        """
        scale = 1 / np.sqrt(1.0 + self._diagonal(curvatures))
        found, residual = np.zeros_like(gradient), -scale * gradient
        along, size = residual.copy(), float(residual @ residual)
        enough = share**2 * size
        for _ in range(_MOST_PRODUCTS):
            if size <= enough:
                break
            unscaled = scale * along
            image = scale * (unscaled + self._transposed(curvatures * self._products(unscaled)))
            length = size / float(along @ image)
            found += length * along
            residual -= length * image
            before, size = size, float(residual @ residual)
            along = residual + size / before * along
        return scale * found

    def _products(self, weights: np.ndarray) -> np.ndarray:
        """Return the products of weights with all rows."""
        coef, out = weights[:-1] * self._scale, np.empty(self._rows.shape[0])
        offset = self._problem.constant * weights[-1] - float(np.sum(coef * self._shift))
        narrow = coef.astype(self._rows.dtype)

        def some(a: int, b: int) -> None:
            out[a:b] = self._rows[a:b] @ narrow

        self._pool.run(some, self._pieces)
        return out + offset

    def _transposed(self, factors: np.ndarray) -> np.ndarray:
        """Return the sum of all rows times factors."""
        total = float(factors.sum())
        return np.append((self._sum(factors) - self._shift * total) * self._scale, self._problem.constant * total)

    def _diagonal(self, factors: np.ndarray) -> np.ndarray:
        """Return the sum of all squared rows times factors."""
        shift, scale, total = self._shift, self._scale, float(factors.sum())
        square = self._sum(factors, squared=True)
        if self._problem.scale.size:
            square += shift * (shift * total - 2 * self._sum(factors))
        return np.append(np.maximum(scale**2 * square, 0.0), self._problem.constant**2 * total)

    def _sum(self, factors: np.ndarray, squared: bool = False) -> np.ndarray:
        """Return the sum of all rows as stored, or of their squares, times factors."""
        narrow, parts = factors.astype(self._rows.dtype), np.empty((len(self._pieces), self._rows.shape[1]))

        def some(k: int, a: int, b: int) -> None:
            rows = self._rows[a:b]
            if squared:
                rows = rows.multiply(rows) if self._is_sparse else rows**2
            parts[k] = narrow[a:b] @ rows

        self._pool.run(some, [(k, a, b) for k, (a, b) in enumerate(self._pieces)])
        total: np.ndarray = parts.sum(axis=0)
        return total
