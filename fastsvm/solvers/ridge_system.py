"""Systems of some of the kernel's rows and columns with a ridge, by factorisation or conjugate gradients."""

import numpy as np
from scipy import linalg

from fastsvm._threads import Pool
from fastsvm.row_cache import RowCache
from fastsvm.solvers.active_set import ActiveSet
from fastsvm.solvers.blocks import WorkingBlock
from fastsvm.solvers.inverse import Inverse
from fastsvm.solvers.products import KernelProducts

__all__ = ["NOT_POSITIVE", "RidgeSystem"]

NOT_POSITIVE = "The kernel is not positive semi-definite, as the primal problem needs: take another solver or kernel."
_MOST_ITERATIONS = 1000
_EXACT = 1e-12


class RidgeSystem:
    """Solves (K_BB + D) x = v for sets B of rows and diagonal D > 0.

    By Cholesky's factorisation if B is small, else by conjugate gradients, which need products with rows only.

    Parameters
    ----------
    rows : RowCache or ActiveSet
        The kernel.
    pool : Pool
        Threads.
    most_factorised : int
        Order of a matrix that is factorised at most.
    """

    def __init__(self, rows: RowCache | ActiveSet, pool: Pool, most_factorised: int) -> None:
        self._rows, self._pool = rows, pool
        self._most = min(most_factorised, rows.n_slots)
        self._block, self._products = WorkingBlock(rows, pool), KernelProducts(rows, pool)

    def solve(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, accuracy: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the solutions for v = `wanted` and for v = 1, to residuals of at most `accuracy`.

        Raises
        ------
        scipy.linalg.LinAlgError
            If the kernel is not positive semi-definite.
        """
        ones = np.ones(len(inside))
        if len(inside) > self._most:
            found = [self._conjugate_gradients(inside, ridge, vector, accuracy) for vector in (wanted, ones)]
            return found[0], found[1]
        block = self._block.square(len(inside))
        self._block.gather(inside, self._rows.fetch(inside), 0, block)
        block[np.diag_indices_from(block)] += ridge
        try:
            inverse = Inverse(block, self._pool)
        except linalg.LinAlgError as error:
            raise linalg.LinAlgError(NOT_POSITIVE) from error
        of_wanted, of_ones = inverse.times(np.column_stack([wanted, ones])).T
        return of_wanted, of_ones

    def _conjugate_gradients(
        self, inside: np.ndarray, ridge: np.ndarray, vector: np.ndarray, accuracy: float
    ) -> np.ndarray:
        x, residual = np.zeros(len(vector)), vector.copy()
        direction, square = residual.copy(), float(residual @ residual)
        for _ in range(_MOST_ITERATIONS):
            if np.abs(residual).max() <= max(accuracy, _EXACT):
                break
            sums = np.zeros(self._rows.store.shape[1])
            self._products.add_rows(sums, inside, direction)
            product = sums[inside] + ridge * direction
            length = square / float(direction @ product)
            x += length * direction
            residual -= length * product
            square, before = float(residual @ residual), square
            direction = residual + square / before * direction
        return x
