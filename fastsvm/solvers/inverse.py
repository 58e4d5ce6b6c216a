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
_SOLVED_COLUMNS = 128


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
        self._panels = list(spans(len(matrix), _PANEL))
        self._triangles = []  # inverses of those on the diagonal: only products release the GIL
        for start, stop in self._panels:
            square = matrix[start:stop, start:stop]
            square[:] = linalg.cholesky(square, lower=True, check_finite=False)
            unit = np.eye(stop - start)
            self._triangles.append(linalg.solve_triangular(square, unit, lower=True, check_finite=False))
            rows = [(stop + a, stop + b) for a, b in spans(len(matrix) - stop, _TILE)]
            pool.run(self._solve_panel, [((start, stop), part) for part in rows])
            pool.run(self._update, [((start, stop), part, (stop, part[1])) for part in rows])

    def _solve_panel(self, panel: tuple[int, int], rows: tuple[int, int]) -> None:
        """Multiply a panel's rows below the diagonal by the inverse of its transposed triangle."""
        below = self._lower[slice(*rows), slice(*panel)]
        below[:] = below @ self._triangles[-1].T

    def _update(self, panel: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> None:
        """Take the panel's products off some rows right of it, as far as the diagonal."""
        matrix, inner = self._lower, slice(*panel)
        matrix[slice(*rows), slice(*columns)] -= matrix[slice(*rows), inner] @ matrix[slice(*columns), inner].T

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """Return the inverse times the columns of a matrix of shape (m, k)."""
        out = np.array(vectors, np.float64)
        self._pool.run(self._solve, [(out[:, a:b],) for a, b in spans(out.shape[1], _SOLVED_COLUMNS)])
        return out

    def _solve(self, vectors: np.ndarray) -> None:
        """Replace some columns by the inverse times them."""
        known = np.ascontiguousarray(vectors)
        steps = list(zip(self._panels, self._triangles, strict=True))
        for (start, stop), triangle in steps:
            known[start:stop] = triangle @ known[start:stop]
            known[stop:] -= self._lower[stop:, start:stop] @ known[start:stop]
        for (start, stop), triangle in reversed(steps):
            known[start:stop] -= self._lower[stop:, start:stop].T @ known[stop:]
            known[start:stop] = triangle.T @ known[start:stop]
        vectors[:] = known

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return rows of the inverse, which is symmetric."""
        unit = np.zeros((len(self._lower), len(places)))
        unit[places, np.arange(len(places))] = 1
        return np.ascontiguousarray(self.times(unit).T)
