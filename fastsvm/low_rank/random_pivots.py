"""Rows of a kernel matrix by randomly pivoted Cholesky factorisation (Chen, Epperly, Tropp and Webber 2024).

A row is drawn with the probability of its squared distance from the span of the rows drawn before, in feature space.
The distances are the diagonal of K - F Fᵀ with the partial factor F. Blocks of proposals are drawn at once, and those
that a draw one by one would not have made are rejected, so that the distribution is the same (Epperly, Tropp and
Webber 2024, Embrace rejection: kernel matrix approximation by accelerated randomly pivoted Cholesky, algorithm 2.1).

Memory: F, of n values for each row drawn. Cost: n kernel values and n times the number of rows for each.
"""

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.tuning import current_tuning

__all__ = ["JITTER", "RandomPivots", "diagonal_of"]

_DIAGONAL = 64  # The kernel among so many rows is computed for its diagonal.
_EXHAUSTED = 1e-9  # What is left of a diagonal may be rounding if it is below this share.
JITTER = 1e-12
"""This share of a diagonal is added to it, or rounding could make a matrix indefinite that is factorised."""


class RandomPivots:
    """Rows drawn so far, in the order of the draws, and the partial Cholesky factor of the kernel matrix, in float64.

    The matrix that is factorised is D K D with the diagonal matrix D of the square roots of the rows' weights. Rows of
    weight 0 are not drawn.
    """

    def __init__(self, gram: Gram, weight: np.ndarray, rng: np.random.RandomState, pool: Pool) -> None:
        self.rows = np.zeros(0, np.int64)
        self._gram, self._weight, self._rng, self._pool = gram, weight, rng, pool
        self._tuning = current_tuning().products
        self._diagonal = diagonal_of(gram)
        self._left = self._diagonal.copy()
        self._factor = np.empty((0, len(gram)))

    def grow(self, n_rows: int) -> None:
        """Draw rows until there are `n_rows`, or none is left that the others do not span."""
        factor = np.empty((n_rows, len(self._gram)))  # a row for each row drawn
        factor[: len(self.rows)] = self._factor
        self._factor = factor
        while len(self.rows) < n_rows:
            self._left[self._left <= _EXHAUSTED * self._diagonal] = 0
            chance = self._left * self._weight
            if not chance.any():
                break
            most = min(self._tuning.tile, n_rows - len(self.rows))
            self._add(np.unique(self._rng.choice(len(chance), most, p=chance / chance.sum())))
        self._factor = self._factor[: len(self.rows)]

    def _add(self, proposed: np.ndarray) -> None:
        """Draw some of the proposed rows, and add their rows to the factor."""
        k = len(self.rows)
        proposed = self._rng.permutation(proposed)
        among = np.empty((len(proposed), len(proposed)))
        self._gram.among(proposed, 0, among)
        among -= self._factor[:k, proposed].T @ self._factor[:k, proposed]
        kept, lower = self._accepted(among, self._diagonal[proposed])
        rows = proposed[kept]
        new = self._factor[k : k + len(rows)]
        self._gram.rows(rows, new, np.arange(len(rows)))
        whitening = linalg.solve_triangular(lower, np.eye(len(rows)), lower=True)
        before = np.ascontiguousarray(self._factor[:k, rows].T)

        def reduce(a: int, b: int) -> None:
            new[:, a:b] = whitening @ (new[:, a:b] - before @ self._factor[:k, a:b])
            self._left[a:b] -= np.einsum("ij,ij->j", new[:, a:b], new[:, a:b])

        self._pool.run(reduce, spans(len(self._left), self._tuning.piece_rows))
        self._left[rows] = 0
        self.rows = np.concatenate([self.rows, rows])

    def _accepted(self, among: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which proposals are drawn, and the Cholesky factor of what is left of the kernel among them."""
        np.fill_diagonal(among, np.maximum(np.diag(among), _EXHAUSTED * diagonal))
        threshold = np.diag(among) * self._rng.random_sample(len(among))
        rest, kept = among.copy(), []
        for i in range(len(rest)):  # the first is always drawn, so that there is progress
            if i == 0 or (rest[i, i] > threshold[i] and rest[i, i] > _EXHAUSTED * diagonal[i]):
                column = rest[i:, i] / np.sqrt(rest[i, i])
                rest[i:, i:] -= np.outer(column, column)
                kept.append(i)
        chosen = among[np.ix_(kept, kept)]
        chosen[np.diag_indices_from(chosen)] += JITTER * diagonal[kept]
        return np.array(kept), linalg.cholesky(chosen, lower=True)


def diagonal_of(gram: Gram) -> np.ndarray:
    """Return k(x, x) of all rows."""
    found = np.empty(len(gram))
    for a, b in spans(len(gram), _DIAGONAL):
        among = np.empty((b - a, b - a))
        gram.among(np.arange(a, b), 0, among)
        found[a:b] = np.diag(among)
    return found
