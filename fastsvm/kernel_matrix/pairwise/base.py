"""Protocol of pairwise kernels, and the destination of their values."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm.sources import Block, Source

__all__ = ["EXPENSIVE", "PairwiseKernel", "Rows"]

EXPENSIVE = 20.0
"""Nanoseconds per kernel value. From this cost on, unneeded values are avoided and needed ones computed together."""


class Rows(NamedTuple):
    """Destination of a tile: the rows `slots` of `store`, from column `start` on."""

    store: np.ndarray
    slots: np.ndarray
    start: int


class PairwiseKernel(Protocol):
    """Kernel values between a prepared operand and a block.

    Attributes
    ----------
    dtype, terms_dtype : numpy.dtype
        Types of values and of terms.
    parallel : bool
        Whether several threads may compute tiles.
    """

    dtype: np.dtype
    terms_dtype: np.dtype
    parallel: bool

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of a row of an operand."""

    def prepare(self, block: Block) -> Any:
        """Return the operand for the rows of a block."""

    def terms(self, block: Block) -> np.ndarray:
        """Return one term per row, such as its squared norm, that `tile` adds to dot products. Callers may store it."""

    def tile(self, operand: Any, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block) to `out`."""

    def cost(self, n_features: int) -> float:
        """Return the approximate nanoseconds per value."""

    def widened(self) -> "PairwiseKernel":
        """Return the pairwise kernel that computes the same kernel in float64."""
