"""What a kernel matrix offers to a cache of its rows, and what cached rows offer to solvers."""

from typing import Protocol

import numpy as np

from fastsvm.kernel_matrix.pairwise import Rows

__all__ = ["KernelMatrix", "KernelRows"]


class KernelMatrix(Protocol):
    """A kernel matrix that computes its rows, or copies them from where they are known.

    Attributes
    ----------
    dtype : numpy.dtype
        Of its values.
    worth_filling : float
        Share of the rows needed from which on it is cheaper to compute all at once.
    """

    dtype: np.dtype
    worth_filling: float

    def __len__(self) -> int:
        """Return the number of rows and columns."""

    @property
    def passes(self) -> int:
        """Passes over the rows of the source so far."""

    @property
    def expensive(self) -> bool:
        """Whether few values should be computed in vain."""

    @property
    def cheap(self) -> bool:
        """Whether values cost little to compute once more."""

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows costs less to compute than to gather from rows in memory."""

    @property
    def resident(self) -> bool:
        """Whether all rows of the data are in memory."""

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `out.slots` of `out.store`, where others are already.

        Parameters
        ----------
        indices : ndarray of int64
            Distinct rows of the matrix.
        out : Rows
            Where to write.
        slot_of : ndarray of int64, shape (n,)
            The row of the store in which each of the matrix's rows is, or -1.
        """

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""

    def weighted_sum(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows `indices`, by values in float64, in the columns `at` or in all."""


class KernelRows(Protocol):
    """Rows of a kernel matrix in memory: all that fit, for the problem that a solver steps on.

    Attributes
    ----------
    store : ndarray of shape (n_slots, n)
        The slots; a row stays in its slot until the next call of `fetch`.
    """

    store: np.ndarray

    @property
    def n_slots(self) -> int:
        """Number of rows that fit."""

    @property
    def expensive(self) -> bool:
        """Whether rows cost so much to compute that none should be in vain."""

    @property
    def cheap(self) -> bool:
        """Whether computing all rows once more, in float64, costs little."""

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows costs less to compute than to gather from the store."""

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of distinct rows, computing those that are missing."""

    def cached(self, rows: np.ndarray) -> np.ndarray:
        """Return which of the rows are in a slot now."""

    def computed(self, rows: np.ndarray) -> np.ndarray:
        """Return rows that are computed for the caller and not cached."""

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows, by values in float64, in the columns `at` or in all."""
