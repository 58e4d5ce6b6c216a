"""The inverse of a symmetric positive definite matrix, from its blocked Cholesky factor.

One thread computes each tile, so that results have the same bits for any number of threads; those of LAPACK's own
threads would not. The algorithm is left-looking (Golub and Van Loan, Matrix Computations, section 4.2.6): each panel is
written once, after products with all panels before it.
"""

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans
from fastsvm.tuning import current_tuning

__all__ = ["Inverse"]


class Inverse:
    """The inverse of a symmetric positive definite matrix in float64, which is overwritten by its Cholesky factor.

    `numpy.linalg.LinAlgError` is raised if the matrix is not positive definite.
    """

    def __init__(self, matrix: np.ndarray, pool: Pool) -> None:
        self._lower, self._pool, self._tile = matrix, pool, current_tuning().products.tile
        self._panels = list(spans(len(matrix), self._tile))
        self._triangles: list[np.ndarray] = []  # inverses of diagonal tiles: products release the GIL, solves do not
        for panel in self._panels:
            below = [(panel[1] + a, panel[1] + b) for a, b in spans(len(matrix) - panel[1], self._tile)]
            pool.run(self._update, [(panel, rows) for rows in [panel, *below]])
            pool.run(self._solve_panel, [(panel, rows) for rows in below])

    def _update(self, panel: tuple[int, int], rows: tuple[int, int]) -> None:
        """Subtract the products with earlier panels from some rows of a panel; factorise the diagonal tile."""
        here, before = slice(*panel), slice(0, panel[0])
        tile = self._lower[slice(*rows), here]
        tile -= self._lower[slice(*rows), before] @ self._lower[here, before].T
        if rows == panel:
            tile[:] = linalg.cholesky(tile, lower=True, check_finite=False)
            self._triangles.append(linalg.solve_triangular(tile, np.eye(len(tile)), lower=True, check_finite=False))

    def _solve_panel(self, panel: tuple[int, int], rows: tuple[int, int]) -> None:
        """Multiply a panel's rows below the diagonal by the inverse of its transposed triangle."""
        below = self._lower[slice(*rows), slice(*panel)]
        below[:] = below @ self._triangles[-1].T

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """Return the inverse times a vector, or times a matrix of shape (m, k)."""
        out = np.array(vectors, np.float64)
        self._forward(out)
        return self.half_times(out)

    def half_times(self, vectors: np.ndarray) -> np.ndarray:
        """Return L⁻ᵀ times a vector or matrix, where L is the Cholesky factor."""
        out = np.array(vectors, np.float64)
        for (start, stop), triangle in reversed(list(zip(self._panels, self._triangles, strict=True))):
            out[start:stop] -= self._lower[stop:, start:stop].T @ out[stop:]
            out[start:stop] = triangle.T @ out[start:stop]
        return out

    def halves(self, places: np.ndarray) -> np.ndarray:
        """Return the columns `places` of L⁻¹, as rows.

        Their Gram matrix is the submatrix of the inverse at `places`. Their sum with weights w, passed to `half_times`,
        is the inverse times the vector with w at `places` and zeros elsewhere.
        """
        units = np.zeros((len(self._lower), len(places)))
        units[places, np.arange(len(places))] = 1
        parts = list(spans(len(places), self._tile))
        out = np.empty(units.shape[::-1])

        def solve(a: int, b: int) -> None:
            part = np.ascontiguousarray(units[:, a:b])
            self._forward(part, places[a:b].min())
            out[a:b] = part.T

        self._pool.run(solve, parts)
        return out

    def _forward(self, vectors: np.ndarray, first: int = 0) -> None:
        """Replace vectors or columns v by L⁻¹ v; their elements before `first` are zero."""
        for (start, stop), triangle in zip(self._panels, self._triangles, strict=True):
            if stop > first:
                vectors[start:stop] = triangle @ vectors[start:stop]
                vectors[stop:] -= self._lower[stop:, start:stop] @ vectors[start:stop]
