"""Protocols: a kernel matrix, as a row cache uses it, and cached kernel rows, as solvers use them."""

from typing import Protocol

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, Rows
from fastsvm.sources import Block

__all__ = ["KernelMatrix", "KernelRows"]


class KernelMatrix(Protocol):
    """A kernel matrix that computes its rows or copies known values.

    If the share `worth_filling` of the rows is needed, computing all at once is cheaper.
    """

    dtype: np.dtype
    worth_filling: float

    def __len__(self) -> int:
        """Return the number of rows and columns."""

    @property
    def passes(self) -> int:
        """Passes over the rows of the source so far."""

    @property
    def cheap(self) -> bool:
        """Whether values are cheap to recompute."""

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows is cheaper to compute than to gather from rows in memory."""

    @property
    def resident(self) -> bool:
        """Whether all rows of the data are in memory."""

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's distinct rows `indices` to the rows `out.slots` of `out.store`, which already has others.

        `slot_of` is the slot of each of the matrix's rows in the store, or -1.
        """

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""

    def weighted_sum(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows `indices`, for the columns `at` or for all, from values in float64."""

    def samples(self, indices: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and the samples of some rows."""

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64."""


class KernelRows(Protocol):
    """Cached rows of the kernel matrix of the problem that a solver works on.

    The slots are the rows of `store`, shape (n_slots, n), which is empty if no row is stored. A row stays in its slot
    until the next call of `fetch`.
    """

    store: np.ndarray

    @property
    def n_slots(self) -> int:
        """Number of rows that fit."""

    @property
    def cheap(self) -> bool:
        """Whether recomputing all rows in float64 is cheap."""

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows is cheaper to compute than to gather from the store."""

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of the store in which the values of these rows are; `rows` itself where it is them."""

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of distinct rows; missing rows are computed."""

    def cached(self, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the rows that are cached."""

    def computed(self, rows: np.ndarray) -> np.ndarray:
        """Return newly computed rows, without caching them."""

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows, for the columns `at` or for all, from values in float64."""

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
