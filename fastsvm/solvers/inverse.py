"""The inverse of a symmetric positive definite matrix, by its Cholesky factor, tile by tile.

Tiles and not LAPACK's own threads, because each tile is computed by one thread and so has the same bits for any number
of them (the right-looking algorithm: Golub and Van Loan, Matrix Computations, section 4.2.9).
"""

import numpy as np
from scipy import linalg

from fastsvm._threads import Pool, spans

__all__ = ["Inverse"]

_PANEL = 256
_TILE = 512
_SOLVED_COLUMNS = 32


class Inverse:
    """The inverse of a symmetric positive definite matrix.

    Parameters
    ----------
    matrix : ndarray of float64, shape (m, m)
        It is overwritten.
    pool : Pool
        Threads.

    Raises
    ------
    numpy.linalg.LinAlgError
        If it is not positive definite.
    """

    def __init__(self, matrix: np.ndarray, pool: Pool) -> None:
        self._lower, self._pool = matrix, pool
        m = len(matrix)
        for start, stop in spans(m, _PANEL):
            matrix[start:stop, start:stop] = linalg.cholesky(
                matrix[start:stop, start:stop], lower=True, check_finite=False
            )
            rows = [(stop + a, stop + b) for a, b in spans(m - stop, _TILE)]
            pool.run(self._solve_panel, [((start, stop), part) for part in rows])
            pool.run(self._update, [((start, stop), part, (rows[0][0], part[1])) for part in rows])

    def _solve_panel(self, panel: tuple[int, int], rows: tuple[int, int]) -> None:
        """Multiply a panel's rows below the diagonal by the inverse of its transposed triangle."""
        matrix, columns = self._lower, slice(*panel)
        below = matrix[slice(*rows), columns]
        below[:] = linalg.solve_triangular(matrix[columns, columns], below.T, lower=True, check_finite=False).T

    def _update(self, panel: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> None:
        """Take the panel's products off some rows right of it, as far as the diagonal."""
        matrix, inner = self._lower, slice(*panel)
        matrix[slice(*rows), slice(*columns)] -= matrix[slice(*rows), inner] @ matrix[slice(*columns), inner].T

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """Return the inverse times the columns of a matrix of shape (m, k)."""
        out = np.empty(vectors.shape)
        factor = self._lower.T, False  # upper, and in the order of Fortran, so that LAPACK copies nothing

        def solve(a: int, b: int) -> None:
            out[:, a:b] = linalg.cho_solve(factor, vectors[:, a:b], check_finite=False)

        self._pool.run(solve, spans(vectors.shape[1], _SOLVED_COLUMNS))
        return out

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return rows of the inverse, which is symmetric."""
        unit = np.zeros((len(self._lower), len(places)))
        unit[places, np.arange(len(places))] = 1
        return np.ascontiguousarray(self.times(unit).T)
