"""Newton directions without a Hessian: by conjugate gradients, for the penalty ½‖w‖².

The direction δ solves (I + Xᵀ D X) δ = -g with the curvatures D of the losses and the gradient g of the objective. A
product with the matrix is two passes over the rows (Lin, Weng and Keerthi 2008, Trust region Newton method for
large-scale logistic regression, section 2). The system is scaled by its diagonal (Hsia, Chiang and Lin 2018,
Preconditioned conjugate gradient methods in truncated Newton frameworks for large-scale linear classification).

Memory: some vectors, and of many sparse values up to eight sums of the features.
"""

import time
from typing import Any

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.linalg.sparse_products import add_sparse, readable, unsigned, write_sparse
from fastsvm.solvers.linear_dual.problem import PARTS, PIECE_ROWS, LinearProblem, rows_of_piece
from fastsvm.sources import CSRBlock

__all__ = ["NewtonDirections"]


class NewtonDirections:
    """Newton directions for the rows of a problem in memory."""

    def __init__(self, problem: LinearProblem, pool: Pool) -> None:
        self._problem, self._pool = problem, pool
        is_mapped = problem.scale.size > 0
        self._shift: Any = problem.shift if is_mapped else 0.0
        self._scale: Any = problem.scale if is_mapped else 1.0
        block = problem.block
        self._rows: Any = _SparseRows(block, pool) if isinstance(block, CSRBlock) else _DenseRows(problem, pool)

    def direction(
        self, curvatures: np.ndarray, gradient: np.ndarray, share: float, deadline: float = np.inf
    ) -> np.ndarray:
        """Return δ, shape (n_weights,), for curvatures D and gradient g, up to `share` of the residual of zero.

        The weight of the constant feature is last. The residual may be larger from the moment `deadline` of
        time.perf_counter on. The direction is NaN if the squares of the rows overflow.
        """
        scale = self._diagonal(curvatures)
        if not np.isfinite(scale).all():
            return np.full_like(scale, np.nan)
        scale += 1.0
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        residual = -scale * gradient
        found, along, size = np.zeros_like(residual), residual.copy(), float(residual @ residual)
        enough, image, step = share**2 * size, np.empty_like(residual), np.empty_like(residual)
        for _ in range(len(gradient)):  # in place, because fresh memory takes longer than the sums
            if size <= enough or time.perf_counter() >= deadline:
                break
            np.multiply(scale, along, out=step)
            self._transposed(curvatures * self._products(step), image)
            image += step
            image *= scale
            length = size / float(along @ image)
            found += np.multiply(length, along, out=step)
            residual -= np.multiply(length, image, out=step)
            before, size = size, float(residual @ residual)
            along *= size / before
            along += residual
        found *= scale
        return found

    def _products(self, weights: np.ndarray) -> np.ndarray:
        """Return the products of weights with all rows."""
        coef, offset = weights[:-1], self._problem.constant * weights[-1]
        if self._problem.scale.size:
            coef = coef * self._scale
            offset -= float(coef @ self._shift)
        found: np.ndarray = self._rows.products(coef)
        found += offset
        return found

    def _transposed(self, factors: np.ndarray, out: np.ndarray) -> None:
        """Write the sum of all rows times factors."""
        self._rows.add_up(factors, out[:-1])
        total = float(factors.sum())
        if self._problem.scale.size:
            out[:-1] -= self._shift * total
            out[:-1] *= self._scale
        out[-1] = self._problem.constant * total

    def _diagonal(self, factors: np.ndarray) -> np.ndarray:
        """Return the sum of all squared rows times factors."""
        out, total = np.empty(self._problem.source.shape[1] + 1), float(factors.sum())
        self._rows.add_up(factors, out[:-1], squared=True)
        if self._problem.scale.size:
            sums = np.empty(len(out) - 1)
            self._rows.add_up(factors, sums)
            out[:-1] += self._shift * (self._shift * total - 2 * sums)
            out[:-1] *= self._scale**2
            np.maximum(out, 0.0, out=out)
        out[-1] = self._problem.constant**2 * total
        return out


class _DenseRows:
    """Rows as stored, multiplied by BLAS."""

    def __init__(self, problem: LinearProblem, pool: Pool) -> None:
        block: Any = problem.block
        self._values, self._pool = block.values.astype(product_type(problem.source.dtype), copy=False), pool
        self._pieces = list(spans(len(self._values), rows_of_piece(self._values.shape[1])))

    def products(self, coef: np.ndarray) -> np.ndarray:
        """Return the product of `coef` with each row."""
        out, narrow = np.empty(len(self._values)), coef.astype(self._values.dtype)

        def some(a: int, b: int) -> None:
            out[a:b] = self._values[a:b] @ narrow

        self._pool.run(some, self._pieces)
        return out

    def add_up(self, factors: np.ndarray, out: np.ndarray, squared: bool = False) -> None:
        """Write the sum of all rows, or of their squares, times factors."""
        narrow, parts = factors.astype(self._values.dtype), np.empty((len(self._pieces), self._values.shape[1]))

        @np.errstate(over="ignore")  # `direction` looks for it
        def some(k: int, a: int, b: int) -> None:
            rows = self._values[a:b]
            parts[k] = narrow[a:b] @ (rows**2 if squared else rows)

        self._pool.run(some, [(k, a, b) for k, (a, b) in enumerate(self._pieces)])
        parts.sum(axis=0, out=out)


class _SparseRows:
    """Sparse rows. The sums of a piece are those of the same rows for any number of threads."""

    def __init__(self, block: CSRBlock, pool: Pool) -> None:
        self._block, self._places = readable(block, np.arange(block.shape[0]))
        self._pool, self._squares = pool, np.empty(0)
        n_pieces = len(block.data) // (PARTS * max(1, block.n_features))  # adding up sums takes the time of few values
        n, n_pieces = block.shape[0], min(max(1, n_pieces), PARTS)
        self._pieces = list(spans(n, max(1, -(-n // n_pieces))))
        self._parts = np.empty((len(self._pieces), 1, block.n_features))

    def products(self, coef: np.ndarray) -> np.ndarray:
        """Return the product of `coef` with each row."""
        out, weights = np.empty((1, len(self._places))), coef[None]

        def some(a: int, b: int) -> None:
            write_sparse(unsigned(self._block), self._places[a:b], weights, out[:, a:b])

        self._pool.run(some, spans(len(self._places), PIECE_ROWS))
        return out[0]

    def add_up(self, factors: np.ndarray, out: np.ndarray, squared: bool = False) -> None:
        """Write the sum of all rows, or of their squares, times factors."""
        block = self._block
        if squared:
            if not len(self._squares):
                with np.errstate(over="ignore"):  # `direction` looks for it
                    self._squares = block.data**2
            block = block._replace(data=self._squares)

        def some(k: int, a: int, b: int) -> None:
            self._parts[k] = 0.0
            add_sparse(unsigned(block.slice(a, b)), factors[a:b, None], (0, 1), self._parts[k])

        self._pool.run(some, [(k, a, b) for k, (a, b) in enumerate(self._pieces)])
        self._parts[:, 0].sum(axis=0, out=out)
