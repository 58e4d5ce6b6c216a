"""Arithmetic in about twice the digits of float64: numbers as unevaluated sums of two floats, `high` and `low`.

Sums and products are those of Dekker (1971, A floating-point technique for extending the available precision). They
need correct rounding, and operations in the order in which they are written.
"""

import operator
from decimal import Decimal, localcontext
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit_as_written

FINE = 2.0**-90
"""Largest error of what a few of these functions return, relative to the largest number in between."""

_SPLITTER = 2.0**27 + 1  # A product with it cuts a number into two halves of its bits (Dekker 1971).
_STEPS = 64  # A table has so many powers of two between 1 and 2.
_MOST_EXPONENT = 700.0  # Exponents beyond it count as it. In float64, exponentials overflow at 709.
_ROUNDING = 1.5 * 2**52  # A sum with it is rounded to an integer.


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


@jit_as_written
def quotient(high, low, other, other_low):
    """Return the quotient of two numbers."""
    first = high / other
    product, error = times(first, 0.0, other, other_low)
    return _renormalized(first, plus(high, low, -product, -error)[0] / other)


@jit_as_written
def root(high, low):
    """Return the square root of a number that is not negative."""
    first = np.sqrt(high)
    product, error = two_product(first, first)
    return _renormalized(first, plus(high, low, -product, -error)[0] / (2 * first) if first > 0 else 0.0)


@jit_as_written
def clipped(value, most):
    """Return a float between -`most` and `most`."""
    return -most if value < -most else most if value > most else value


def _exponentials() -> Wide:
    """Return the powers of two between 1 and 2, and 1/24, 1/6, 1/2 and ln 2 / 64."""
    with localcontext() as context:
        context.prec = 50
        step = Decimal(2).ln() / _STEPS
        powers = accumulate([step.exp()] * (_STEPS - 1), operator.mul, initial=Decimal(1))
        numbers = [*powers, *(1 / Decimal(k) for k in (24, 6, 2)), step]
        high = [float(number) for number in numbers]
        return Wide(np.array(high), np.array([float(n - Decimal(h)) for n, h in zip(numbers, high, strict=True)]))


_HIGH, _LOW = _exponentials()  # Compiled code knows that nothing changes them, and vectorises.


@jit_as_written
def exp(high, low):
    """Return e to the power of a number; exponents beyond -700 and 700 count as those."""
    # The exponent is k ln 2 / 64 + r. The table has 2**(k / 64), and a polynomial is e**r; all but its last terms need
    # more digits than a float.
    bounded = clipped(high, _MOST_EXPONENT)
    step, step_low = _HIGH[-1], _LOW[-1]
    shifted = bounded / step + _ROUNDING
    k = shifted - _ROUNDING
    product, error = times(k, 0.0, step, step_low)
    x, x_low = plus(bounded, low if bounded == high else 0.0, -product, -error)
    power = x / 120 * (1 + x / 6 * (1 + x / 7 * (1 + x / 8 * (1 + x / 9 * (1 + x / 10)))))
    power, rest = two_sum(_HIGH[_STEPS], power)
    rest += _LOW[_STEPS]
    power, rest = plus(*times(power, rest, x, x_low), _HIGH[_STEPS + 1], _LOW[_STEPS + 1])
    power, rest = plus(*times(power, rest, x, x_low), _HIGH[_STEPS + 2], _LOW[_STEPS + 2])
    power, rest = plus(*times(power, rest, x, x_low), 1.0, 0.0)
    power, rest = plus(*times(power, rest, x, x_low), 1.0, 0.0)
    bits = np.float64(shifted).view(np.int64)  # the last ones are those of k
    place = bits & (_STEPS - 1)
    power, rest = times(power, rest, _HIGH[place], _LOW[place])
    factor = np.int64(((bits - place) << 46) + (1023 << 52)).view(np.float64)  # a power of two, by its exponent
    return power * factor, rest * factor
