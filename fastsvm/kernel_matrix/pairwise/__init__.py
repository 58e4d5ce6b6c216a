"""Pairwise kernels: values between a few rows made ready, the operand, and a block of others.

The only files that multiply rows with rows. A tile of products is mapped to kernel values while it is in the
processor's cache, and written where it is wanted.
"""

from fastsvm.kernel_matrix.pairwise.base import LARGEST_VALUE as LARGEST_VALUE
from fastsvm.kernel_matrix.pairwise.base import MOST_COLUMNS as MOST_COLUMNS
from fastsvm.kernel_matrix.pairwise.base import SPAN as SPAN
from fastsvm.kernel_matrix.pairwise.base import TILED_ROWS as TILED_ROWS
from fastsvm.kernel_matrix.pairwise.base import PairwiseKernel as PairwiseKernel
from fastsvm.kernel_matrix.pairwise.base import Prepared as Prepared
from fastsvm.kernel_matrix.pairwise.base import Rows as Rows
from fastsvm.kernel_matrix.pairwise.real import Operand as Operand
from fastsvm.kernel_matrix.pairwise.real import RealPairwise as RealPairwise
from fastsvm.kernel_matrix.pairwise.uint8 import Uint8Pairwise as Uint8Pairwise
from fastsvm.kernel_matrix.pairwise.uint8 import multiplies_bytes as multiplies_bytes
from fastsvm.kernel_matrix.pairwise.user import PrecomputedPairwise as PrecomputedPairwise
from fastsvm.kernel_matrix.pairwise.user import UserPairwise as UserPairwise
