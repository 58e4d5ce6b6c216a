"""Evaluators: kernel values between a few rows made ready, the operand, and a block of others.

The only files that multiply rows with rows. A tile of products is mapped to kernel values while it is in the
processor's cache, and written where it is wanted.
"""

from fastsvm.kernel_matrix.pairwise.base import DEAR, Evaluator, Rows
from fastsvm.kernel_matrix.pairwise.real import VectorEvaluator
from fastsvm.kernel_matrix.pairwise.uint8 import ByteEvaluator, multiplies_bytes
from fastsvm.kernel_matrix.pairwise.user import CallableEvaluator, PrecomputedEvaluator

__all__ = [
    "DEAR",
    "ByteEvaluator",
    "CallableEvaluator",
    "Evaluator",
    "PrecomputedEvaluator",
    "Rows",
    "VectorEvaluator",
    "multiplies_bytes",
]
