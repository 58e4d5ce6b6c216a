"""Pairwise kernels: values between a few rows made ready, the operand, and a block of others.

The only files that multiply rows with rows. A tile of products is mapped to kernel values while it is in the
processor's cache, and written where it is wanted.
"""

from fastsvm.kernel_matrix.pairwise.base import (
    LARGEST_VALUE,
    MOST_COLUMNS,
    SPAN,
    TILED_ROWS,
    PairwiseKernel,
    Prepared,
    Rows,
)
from fastsvm.kernel_matrix.pairwise.real import RealPairwise
from fastsvm.kernel_matrix.pairwise.uint8 import Uint8Pairwise, multiplies_bytes
from fastsvm.kernel_matrix.pairwise.user import PrecomputedPairwise, UserPairwise

__all__ = [
    "LARGEST_VALUE",
    "MOST_COLUMNS",
    "SPAN",
    "TILED_ROWS",
    "PairwiseKernel",
    "PrecomputedPairwise",
    "Prepared",
    "RealPairwise",
    "Rows",
    "Uint8Pairwise",
    "UserPairwise",
    "multiplies_bytes",
]
