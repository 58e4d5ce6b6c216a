"""What a pairwise kernel is, and where it writes."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm.sources import Block

__all__ = ["EXPENSIVE", "PairwiseKernel", "Rows"]

EXPENSIVE = 20.0
"""Nanoseconds of a kernel value from which on few should be computed in vain, and many at once."""


class Rows(NamedTuple):
    """Where a tile is written: columns `start`... of the rows `slots` of `store`."""

    store: np.ndarray
    slots: np.ndarray
    start: int


class PairwiseKernel(Protocol):
    """Kernel values between a prepared operand and a block.

    Attributes
    ----------
    dtype, terms_dtype : numpy.dtype
        Of values, and of terms.
    feature_bytes : int
        Bytes of a feature of an operand.
    parallel : bool
        Whether tiles may be computed by several threads.
    dense_only : bool
        Whether sparse rows are made dense to be paired.
    """

    dtype: np.dtype
    terms_dtype: np.dtype
    feature_bytes: int
    parallel: bool
    dense_only: bool

    def prepare(self, block: Block) -> Any:
        """Return the operand of the rows of a block."""

    def terms(self, block: Block) -> np.ndarray:
        """Return what a tile needs to know of each row beside its products; it may be kept."""

    def tile(self, operand: Any, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block)."""

    def cost(self, n_features: int) -> float:
        """Return the nanoseconds of a value, roughly."""

    def widened(self) -> "PairwiseKernel":
        """Return a pairwise kernel of the same kernel in float64."""
