"""Arithmetic in about twice the digits of float64: numbers as unevaluated sums of two floats, `high` and `low`.

Sums and products are those of Dekker (1971, A floating-point technique for extending the available precision). They
need correct rounding, and operations in the order in which they are written.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit_as_written

FINE = 2.0**-90
"""Largest error of what a few of these functions return, relative to the largest number in between."""

_SPLITTER = 2.0**27 + 1  # A product with it cuts a number into two halves of its bits (Dekker 1971).


class Wide(NamedTuple):
    """Numbers as sums of two floats, of which the second is the rounding error of the first."""

    high: np.ndarray
    low: np.ndarray

    @classmethod
    def of(cls, values: Any) -> "Wide":
        """Return floats as such numbers."""
        high = np.asarray(values, np.float64)
        return cls(high, np.zeros_like(high))


@jit_as_written
def two_sum(a, b):
    """Return a + b for floats."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@jit_as_written
def _renormalized(high, low):
    total = high + low
    return total, low - (total - high)


@jit_as_written
def two_product(a, b):
    """Return a b for floats, whose bits are cut into halves."""
    product, scaled_a, scaled_b = a * b, _SPLITTER * a, _SPLITTER * b
    p, r = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    q, s = a - p, b - r
    return product, ((p * r - product) + p * s + q * r) + q * s


@jit_as_written
def plus(high, low, other, other_low):
    """Return the sum of two numbers."""
    high, error = two_sum(high, other)
    low, rest = two_sum(low, other_low)
    high, error = _renormalized(high, error + low)
    return _renormalized(high, error + rest)


@jit_as_written
def added(high, low, more, more_low):
    """Return a sum, for terms that are added to it, which takes less time than `plus`."""
    total, error = two_sum(high, more)
    error += low + more_low
    high = total + error
    return high, error - (high - total)


@jit_as_written
def times(high, low, other, other_low):
    """Return the product of two numbers."""
    product, error = two_product(high, other)
    return _renormalized(product, error + (high * other_low + low * other))
