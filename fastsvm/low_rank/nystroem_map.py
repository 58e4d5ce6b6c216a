"""Nyström features, whitened: their dot products approximate the kernel (Williams and Seeger 2001).

With the kernel matrix of the landmarks, K_MM = U S Uᵀ, the features of a row x are φ(x) = S^-½ Uᵀ k_M(x). Directions of
small eigenvalues are left out, because they would be rounding error. The dot product φ(x)ᵀ φ(z) is the kernel of the
projections of x and z on the span of the landmarks in feature space. So K minus its approximation is positive
semi-definite, and Σ k(x, x) - ‖φ(x)‖² measures what is lost: the trace error.

Cost: m³ once, and m kernel values and m r multiplications a row, for m landmarks and rank r. Memory: 3 m² values.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, scratch_array, spans
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, Rows
from fastsvm.linalg.row_products import add_panel_products, panels_of
from fastsvm.low_rank.random_pivots import diagonal_of
from fastsvm.sources import Source
from fastsvm.tuning import current_tuning

__all__ = ["NystroemMap"]

_INDEFINITE = 1e-6  # A negative eigenvalue of this share of the largest is no rounding error.


class NystroemMap(NamedTuple):
    """The map from kernel values with the landmarks to features.

    `square` is K_MM. `whitening`, shape (rank, n_landmarks), is S^-½ Uᵀ, for the largest eigenvalue first.
    """

    square: np.ndarray
    whitening: np.ndarray

    @property
    def rank(self) -> int:
        """Number of features."""
        return len(self.whitening)

    @classmethod
    def of(cls, pairwise: PairwiseKernel, landmarks: Source, rank_tol: float, pool: Pool) -> "NystroemMap":
        """Return the map of some landmarks in memory, which are as the kernel multiplies them, in float64.

        Eigenvalues of at most the share `rank_tol` of the largest are left out. If the kernel matrix has a negative
        eigenvalue or is zero, ValueError is raised.
        """
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
        """Write the features of some rows to `out`, shape (n_rows, rank), of any type of floats.

        `pairing` is the kernel, in whose type products are computed, the landmarks and the rows, both in memory. With
        `by_row`, the features of a row have the same bits, whatever rows are beside it, on any BLAS. It takes up to
        twice the time of the products, so that a fit, which writes all rows at once, does without.
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

        pieces = spans(len(out), current_tuning().products.piece_rows)
        if pairwise.parallel:
            pool.run(piece, pieces)
            return
        for a, b in pieces:
            piece(a, b)

    def trace_error(self, pairing: tuple[PairwiseKernel, Source, Source], pool: Pool) -> float:
        """Return the share of Σ k(x, x) over some rows that the features do not have; `pairing` is as for `write`."""
        pairwise, _, rows = pairing
        found = np.empty((len(rows), self.rank))
        self.write(pairing, found, pool)
        total = float(diagonal_of(Gram(pairwise, rows, pool)).sum())
        return max(0.0, 1.0 - float(np.square(found).sum()) / total) if total > 0 else 0.0
