"""Evaluators: kernel values between a few rows made ready, the operand, and a block of others.

The only files that multiply rows with rows. A tile of products is mapped to kernel values while it is in the
processor's cache, and written where it is wanted.
"""

from fastsvm.evaluators.base import DEAR, Evaluator, Rows
from fastsvm.evaluators.bytes import ByteEvaluator, multiplies_bytes
from fastsvm.evaluators.given import CallableEvaluator, PrecomputedEvaluator
from fastsvm.evaluators.vectors import VectorEvaluator

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
