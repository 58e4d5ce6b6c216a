"""Kernels of low rank: landmarks, and features whose dot products approximate the kernel.

Landmarks by randomly pivoted Cholesky factorisation (Chen, Epperly, Tropp and Webber 2024)
    A row is drawn with the probability of its squared distance from the span of the rows drawn before, in feature
    space. The distances are the diagonal of K - F Fᵀ with the partial factor F. Blocks of proposals are drawn at once,
    and those that a draw one by one would not have made are rejected, so that the distribution is the same (Epperly,
    Tropp and Webber 2024, Embrace rejection: kernel matrix approximation by accelerated randomly pivoted Cholesky,
    algorithm 2.1). Memory: F, of n values for each row drawn. Cost: n kernel values and n times the number of rows for
    each.

Nyström features, whitened (Williams and Seeger 2001)
    With the kernel matrix of the landmarks, K_MM = U S Uᵀ, the features of a row x are φ(x) = S^-½ Uᵀ k_M(x).
    Directions of small eigenvalues are left out, because they would be rounding error. The dot product φ(x)ᵀ φ(z) is
    the kernel of the projections of x and z on the span of the landmarks in feature space. So K minus its approximation
    is positive semi-definite, and Σ k(x, x) - ‖φ(x)‖² measures what is lost: the trace error. Cost: m³ once, and m
    kernel values and m r multiplications a row, for m landmarks and rank r. Memory: 3 m² values.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, scratch_array, spans
from fastsvm.kernel_matrix.expansion import run_pieces
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, Rows
from fastsvm.linalg.row_products import add_panel_products, panels_of
from fastsvm.sources import Source
from fastsvm.tuning import current_tuning

_INDEFINITE = 1e-6  # A negative eigenvalue of this share of the largest is no rounding error.
_EXHAUSTED = 1e-9  # What is left of a diagonal may be rounding if it is below this share.
JITTER = 1e-12
"""This share of a diagonal is added to it, or rounding could make a matrix indefinite that is factorised."""


class RandomPivots:
    """Rows drawn so far, in their order, and the partial Cholesky factor of the weighted kernel matrix, in float64."""

    def __init__(self, gram: Gram, weight: np.ndarray, rng: np.random.RandomState, pool: Pool) -> None:
        self.rows = np.zeros(0, np.int64)
        self._gram, self._weight, self._rng, self._pool = gram, weight, rng, pool
        self._tuning = current_tuning().products
        self._diagonal = gram.diagonal()
        self._left = self._diagonal.copy()
        # It is that of D K D with the diagonal matrix D of the square roots of the weights.
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


class NystroemMap(NamedTuple):
    """The map from kernel values with the landmarks to features."""

    square: np.ndarray  # It is K_MM.
    whitening: np.ndarray  # It is S^-½ Uᵀ, shape (rank, n_landmarks), for the largest eigenvalue first.

    @property
    def rank(self) -> int:
        """Number of features."""
        return len(self.whitening)

    @classmethod
    def of(cls, pairwise: PairwiseKernel, landmarks: Source, rank_tol: float, pool: Pool) -> "NystroemMap":
        """Return the map of landmarks as the kernel multiplies them, by eigenvalues above `rank_tol` of the largest."""
        m = len(landmarks)
        square = np.empty((m, m))
        Gram(pairwise, landmarks, pool).rows(np.arange(m), square, np.arange(m))
        square = (square + square.T) / 2
        values, vectors = linalg.eigh(square)
        if values[0] < -_INDEFINITE * max(abs(values[-1]), np.finfo(float).tiny):
            raise ValueError(
                "Landmarks need a kernel that is positive semi-definite, and its values are not: the smallest "
                f"eigenvalue of the kernel matrix of {m} landmarks is {values[0]:.3g}, the largest {values[-1]:.3g}. "
                "Choose another kernel, or other parameters."
            )
        kept = np.flatnonzero(values > rank_tol * values[-1])[::-1]
        if len(kept) == 0:
            raise ValueError("The kernel values of all landmarks are 0: scale the features, or raise coef0.")
        return cls(square, np.ascontiguousarray(vectors[:, kept].T / np.sqrt(values[kept])[:, None]))

    def write(
        self, pairing: tuple[PairwiseKernel, Source, Source], out: np.ndarray, pool: Pool, by_row: bool = False
    ) -> None:
        """Write the features of rows to `out`, shape (n_rows, rank); `pairing` is kernel, landmarks and rows in memory.

        With `by_row`, which takes up to twice the time, the features of a row have the same bits beside any other rows.
        """
        pairwise, landmarks, rows = pairing
        block, m = rows.read(0, len(rows)), self.whitening.shape[1]
        operand, slots = pairwise.prepare(landmarks.read(0, m)), np.arange(m)
        if by_row:
            panels = panels_of(np.ascontiguousarray(self.whitening, pairwise.dtype)).copy()
        else:
            factor = np.ascontiguousarray(self.whitening.T, pairwise.dtype)

        def piece(a: int, b: int) -> None:
            part = block.slice(a, b)
            tile = scratch_array("features", (m, b - a), pairwise.dtype)
            pairwise.tile(operand, part, pairwise.terms(part), Rows(tile, slots, 0))
            if not by_row:
                out[a:b] = tile.T @ factor
                return
            products = scratch_array("products", (b - a, panels.shape[0] * panels.shape[2]), pairwise.dtype)
            add_panel_products(np.ascontiguousarray(tile.T), panels, products)
            out[a:b] = products[:, : self.rank]

        run_pieces(pairwise, pool, piece, spans(len(out), current_tuning().products.piece_rows))

    def trace_error(self, pairing: tuple[PairwiseKernel, Source, Source], pool: Pool) -> float:
        """Return the share of Σ k(x, x) over some rows that the features do not have; `pairing` is as for `write`."""
        pairwise, _, rows = pairing
        features = np.empty((len(rows), self.rank))
        self.write(pairing, features, pool)
        total = float(Gram(pairwise, rows, pool).diagonal().sum())
        return max(0.0, 1.0 - float(np.square(features).sum()) / total) if total > 0 else 0.0
