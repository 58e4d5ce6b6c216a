"""Sums of kernel rows: updates of a gradient, and products of the kernel matrix with vectors."""

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.interface import KernelRows

__all__ = ["KernelProducts"]


class KernelProducts:
    """Products of the kernel matrix with sparse vectors.

    `drift` is Σ |coef| of all that was added since the sums were recomputed; the solver that recomputes them sets it to
    0. `largest` is the largest diagonal value of the kernel that the solver saw. Times the drift it bounds what was
    added.
    """

    def __init__(self, rows: KernelRows, pool: Pool) -> None:
        self._rows, self._pool = rows, pool
        self.drift, self.largest = np.inf, 1.0

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
        self._rows.add(sums, slots, coef, self._pool)
        self.drift += float(np.abs(coef).sum())

    def add_rows(self, sums: np.ndarray, rows: np.ndarray, coef: np.ndarray) -> None:
        """Add Σ_i coef_i K_i over any number of rows. If not all fit the cache, cached rows come first."""
        most = self._rows.n_slots
        first = self._rows.cached(rows) if len(rows) > most else np.ones(len(rows), bool)
        for group in (first, ~first):
            for a, b in spans(int(group.sum()), most):
                self.add(sums, self._rows.fetch(rows[group][a:b]), coef[group][a:b])

    def times(self, coef: np.ndarray) -> np.ndarray:
        """Return the kernel matrix times a vector."""
        sums, some = np.zeros(len(coef)), np.flatnonzero(coef)
        self.add_rows(sums, some, coef[some])
        return sums
