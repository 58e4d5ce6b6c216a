"""Cholesky factors: of large matrices in blocks, and in compiled code of some hundred rows, which can be deleted.

One thread computes each tile of a block, so that results have the same bits for any number of threads; those of
LAPACK's own threads would not. The algorithm is left-looking (Golub and Van Loan, Matrix Computations, section 4.2.6):
each panel is written once, after products with all panels before it.
"""

import numpy as np
from scipy import linalg

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.tuning import current_tuning


class Inverse:
    """The inverse of a float64 matrix, which its factor overwrites; LinAlgError if it is not positive definite."""

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
        """Return the columns `places` of L⁻¹, as rows. Their Gram matrix is the submatrix of the inverse there."""
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


def ridge_of(gram: np.ndarray) -> float:
    """Return what is added to the diagonal of a Gram matrix, which equal rows make singular."""
    return float(np.finfo(np.float64).eps * gram.trace())


def factor_of(gram: np.ndarray) -> np.ndarray | None:
    """Return the Cholesky factor of a Gram matrix, whose diagonal it raises; None if values overflow."""
    gram.flat[:: len(gram) + 1] += ridge_of(gram)
    try:
        return np.ascontiguousarray(linalg.cholesky(gram, lower=True, check_finite=False))
    except linalg.LinAlgError:
        return None


# --- some hundred rows in compiled code: the matrix is UᵀU, and the rows of the upper triangle U are contiguous --


@jit
def factorise(matrix, ridge):
    """Replace the upper triangle of a matrix, plus `ridge` on its diagonal, by U; return whether it is definite."""
    m = matrix.shape[0]
    for k in range(m):
        row = matrix[k, k:]
        row[0] += ridge
        j = 0
        while j + 4 <= k:  # so that the row is loaded and stored a quarter as often
            a, b, c, d = matrix[j, k:], matrix[j + 1, k:], matrix[j + 2, k:], matrix[j + 3, k:]
            u, v, w, x = a[0], b[0], c[0], d[0]
            for t in range(row.size):
                row[t] -= u * a[t] + v * b[t] + (w * c[t] + x * d[t])
            j += 4
        while j < k:
            a = matrix[j, k:]
            u = a[0]
            for t in range(row.size):
                row[t] -= u * a[t]
            j += 1
        if not row[0] > 0:
            return False
        pivot = np.sqrt(row[0])
        for t in range(row.size):
            row[t] /= pivot
    return True


@jit
def solve_factorised(factor, vector):
    """Replace a vector by the solution of the system of the first rows, as many as it has elements."""
    half_solve(factor, vector)
    solve_half(factor, vector)


@jit
def half_solve(factor, vector):
    """Replace a vector by its product with the inverse of Uᵀ."""
    for k in range(vector.size):
        row, one = factor[k], vector[k] / factor[k, k]
        vector[k] = one
        for t in range(k + 1, vector.size):
            vector[t] -= one * row[t]


@jit
def solve_half(factor, vector):
    """Replace a vector by its product with the inverse of U."""
    for k in range(vector.size - 1, -1, -1):
        row, one = factor[k], vector[k]
        for t in range(k + 1, vector.size):
            one -= row[t] * vector[t]
        vector[k] = one / row[k]


@jit
def delete_row(factor, m, place):
    """Turn the factor of m rows into that without one of them, in its first m - 1 rows."""
    # The deleted row of U is added to the triangle below by rotations (Golub and Van Loan, section 6.5.4).
    extra = np.empty(m - place)
    for t in range(place + 1, m):
        extra[t - place - 1] = factor[place, t]
    for k in range(place):
        row = factor[k]
        for t in range(place, m - 1):
            row[t] = row[t + 1]
    for k in range(place, m - 1):
        source, target, rest = factor[k + 1, k + 1 : m], factor[k, k : m - 1], extra[k - place : m - place - 1]
        length = np.sqrt(source[0] ** 2 + rest[0] ** 2)
        cosine, sine = source[0] / length, rest[0] / length
        for t in range(rest.size):
            value, other = source[t], rest[t]
            target[t] = cosine * value + sine * other
            rest[t] = cosine * other - sine * value
