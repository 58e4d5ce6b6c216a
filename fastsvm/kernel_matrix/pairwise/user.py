"""Kernels given by the user: a function, or precomputed values."""

from collections.abc import Callable

import numpy as np

from fastsvm.kernel_matrix.pairwise.base import COST_OF_UNKNOWN, LARGEST_VALUE, TILED_ROWS, Rows, add_tile
from fastsvm.sources import Block, Source


class UserPairwise:
    """A kernel given as a function that returns the kernel matrix, shape (a, b), of two blocks of a and b rows.

    `as_passed` returns the array or CSR matrix that the function takes for a block.
    """

    parallel = False
    dtype = terms_dtype = np.dtype(np.float64)
    summed_rows = TILED_ROWS

    def __init__(self, function: Callable, as_passed: Callable[[Block], object]) -> None:
        self.function, self._as_passed = function, as_passed

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of a row as it is stored."""
        return rows.nbytes // max(1, rows.shape[0]) + 1

    def prepare(self, block: Block) -> Block:
        """Return the block itself."""
        return block

    def terms(self, block: Block) -> np.ndarray:
        """Return zeros: the function needs no terms."""
        return np.zeros(block.shape[0])

    def tile(self, operand: Block, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write the function's values."""
        out.store[out.slots, out.start : out.start + block.shape[0]] = self._values(operand, block)

    def add_sums(self, operand: Block, coef: np.ndarray, block: Block, terms: np.ndarray, sums: np.ndarray) -> None:
        """Add the sums of the function's values."""
        add_tile(self, operand, coef, block, terms, sums)

    def _values(self, operand: Block, block: Block) -> np.ndarray:
        values = self.function(self._as_passed(operand), self._as_passed(block))
        values = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        wanted = (operand.shape[0], block.shape[0])
        if values.shape != wanted:
            raise ValueError(f"The kernel function must return shape {wanted} for such blocks, not {values.shape}.")
        if not -LARGEST_VALUE <= values.min(initial=0.0) <= values.max(initial=0.0) <= LARGEST_VALUE:
            raise ValueError(
                f"The kernel function {self.function} returned values that are NaN, or overflow in sums. Scale the "
                "features."
            )
        return values

    def cost(self, n_features: int) -> float:
        """Return a medium cost, as that of the function is unknown."""
        return COST_OF_UNKNOWN

    def widened(self) -> "UserPairwise":
        """Return itself: values are float64."""
        return self


class PrecomputedPairwise:
    """Precomputed kernel values as rows, in which `columns` are those of the training samples."""

    parallel = False
    dtype = np.dtype(np.float64)

    def __init__(self, columns: np.ndarray) -> None:
        self.columns = columns

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of the kernel values of a row."""
        return 8 * rows.shape[1]

    def cost(self, n_features: int) -> float:
        """Return zero: values are precomputed."""
        return 0.0

    def widened(self) -> "PrecomputedPairwise":
        """Return itself: values are float64."""
        return self
