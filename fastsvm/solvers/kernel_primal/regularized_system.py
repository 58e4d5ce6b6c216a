"""Solution of kernel systems with a ridge, by Cholesky factorisation or conjugate gradients."""

import contextlib
import time
from collections.abc import Iterator

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.interface import KernelRows
from fastsvm.kernel_matrix.products import KernelProducts
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.gram_block import WorkingBlock

__all__ = ["RidgeSystem", "refused_if_indefinite"]

_MOST_ITERATIONS = 1000  # A system that takes more conjugate gradients is left as it is.


@contextlib.contextmanager
def refused_if_indefinite() -> Iterator[None]:
    """Raise ValueError with advice if a factorisation fails."""
    try:
        yield
    except linalg.LinAlgError as error:
        raise ValueError(
            "solver='primal' needs a kernel that is positive semi-definite, and its values are not, be it by their "
            "rounding: scale the features, lower C, or take solver='smo'."
        ) from error


def _check_finite(numbers: np.ndarray | float) -> None:
    """Raise ValueError if a number overflowed."""
    if not np.isfinite(numbers).all():
        raise ValueError(
            "Scores overflow: products of kernel values with multipliers are too large. Lower C or the sample weights, "
            "or scale the features."
        )


class RidgeSystem:
    """Solves (K_BB + D) x + b = v for sets B of rows and a diagonal D > 0, with given Σ x or with b = 0.

    A system of order up to `most_factorised` is solved by Cholesky factorisation. A larger one is solved by conjugate
    gradients, which need only products with kernel rows, and stop with the current iterate at `deadline`, a moment of
    time.perf_counter. The iterates stay in the set of vectors with the given sum (Gould, Hribar and Nocedal 2001).
    """

    def __init__(self, rows: KernelRows, pool: Pool, most_factorised: int, deadline: float = np.inf) -> None:
        self._rows, self._pool, self._deadline = rows, pool, deadline
        self._most = min(most_factorised, rows.n_slots)
        self._block, self._products = WorkingBlock(rows, pool), KernelProducts(rows, pool)

    def is_exact(self, inside: np.ndarray) -> bool:
        """Return whether the system of these rows is solved by factorisation."""
        return len(inside) <= self._most

    def solve(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, total: float | None, accuracy: float
    ) -> tuple[np.ndarray, float]:
        """Return x and b, for B, the diagonal of D, v, and Σ x; None for the sum means b = 0.

        `accuracy` is the final residual of conjugate gradients, relative to the initial one. A kernel that is not
        positive semi-definite, or scores that overflow, raise ValueError.
        """
        _check_finite(wanted)
        solve = self._by_factorisation if self.is_exact(inside) else self._by_conjugate_gradients
        with refused_if_indefinite(), np.errstate(over="ignore", invalid="ignore"):
            try:
                return solve(inside, ridge, wanted, total, accuracy)
            except linalg.LinAlgError:  # because kernel values are rounded by more than the ridge
                return solve(inside, ridge + self._rounding(inside), wanted, total, accuracy)

    def _rounding(self, inside: np.ndarray) -> float:
        """Return a bound on the negative eigenvalues that rounding of the kernel values may cause.

        It is proportional to the largest kernel value, which a single row far from all others may determine.
        """
        largest = float(np.abs(self._diagonal(inside)).max())
        return len(inside) * float(np.finfo(self._rows.store.dtype).eps) * largest

    def _by_factorisation(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, total: float | None, accuracy: float
    ) -> tuple[np.ndarray, float]:
        block = self._block.square(len(inside))
        self._block.gather(inside, self._rows.fetch(inside), 0, block)
        block[np.diag_indices_from(block)] += ridge
        x, of_ones = Inverse(block, self._pool).times(np.column_stack([wanted, np.ones(len(inside))])).T
        if total is None:
            return x, 0.0
        intercept = float((x.sum() - total) / of_ones.sum())
        return x - intercept * of_ones, intercept

    def _by_conjugate_gradients(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, total: float | None, accuracy: float
    ) -> tuple[np.ndarray, float]:
        diagonal = self._diagonal(inside) + ridge
        if not diagonal.min() > 0:
            raise linalg.LinAlgError
        of_ones = 1 / diagonal  # the preconditioner
        of_all = float(of_ones.sum())
        share = 0.0 if total is None else 1.0 / of_all
        x = (total or 0.0) * share * of_ones
        residual = wanted - self._product(inside, ridge, x) if x.any() else wanted.copy()
        p, square, least, b = np.zeros(len(x)), np.inf, 0.0, 0.0
        for _ in range(_MOST_ITERATIONS):
            z = of_ones * residual
            shift = share * float(z.sum())  # so that the sum of x stays, up to the rounding of what is left
            z, residual, b = z - shift * of_ones, residual - shift, b + shift
            before, square = square, float(z @ residual)
            _check_finite(square)
            least = least or max(accuracy, ROUNDING) ** 2 * square
            if square <= least or time.perf_counter() >= self._deadline:
                break
            p = z + square / before * p
            product = self._product(inside, ridge, p)
            curvature = float(p @ product)
            _check_finite(curvature)
            if curvature <= 0:
                raise linalg.LinAlgError
            length = square / curvature
            x += length * p
            residual -= length * product
        return x, b

    def _diagonal(self, inside: np.ndarray) -> np.ndarray:
        """Return the kernel of each row with itself."""
        store, parts = self._rows.store, spans(len(inside), self._rows.n_slots)
        return np.concatenate([store[self._rows.fetch(some), some] for some in (inside[a:b] for a, b in parts)])

    def _product(self, inside: np.ndarray, ridge: np.ndarray, vector: np.ndarray) -> np.ndarray:
        sums = np.zeros(self._rows.store.shape[1])
        self._products.add_rows(sums, inside, vector)
        return sums[inside] + ridge * vector
