"""Arithmetic in about twice the digits of float64: numbers as unevaluated sums of two floats.

Sums and products are those of Dekker (1971, A floating-point technique for extending the available precision), element
by element. They need no more than correct rounding, which NumPy's own operations have, unlike compiled code that may
reorder sums. Products of matrices are exact but for their last addition: rows are cut into slices of so few bits that
float64 adds up the products of two slices without error, in any order (Ozaki, Ogita, Oishi and Rump 2012, Error-free
transformations of matrix multiplication).
"""

import functools
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastsvm.sources import Block, to_dense

FINE = 2.0**-90
"""Largest error of what a few of these functions return, relative to the largest number in between."""

_BITS = np.finfo(float).nmant + 1
_SPLITTER = 2.0**27 + 1  # A product with it cuts a number into two halves of its bits (Dekker 1971).
_MOST_SLICES = 5  # A row is cut into so many. What is left then is less than 2^-100 of its largest number.
_RANGE = 2.0**400  # Beyond it, or where all numbers of a matrix are below its inverse, nothing is cut.
_STEPS = 64  # A table has so many powers of two between 1 and 2.
_MOST_EXPONENT = 700.0  # Exponents beyond it count as it. In float64, exponentials overflow at 709.


class Wide(NamedTuple):
    """Numbers as sums of two floats, of which the second is the rounding error of the first."""

    high: np.ndarray
    low: np.ndarray

    @classmethod
    def of(cls, values: Any) -> "Wide":
        """Return floats as such numbers."""
        high = np.asarray(values, np.float64)
        return cls(high, np.zeros_like(high))


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _renormalized(high: np.ndarray, low: np.ndarray) -> Wide:
    total = high + low
    return Wide(total, low - (total - high))


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = _SPLITTER * a
    upper = scaled - (scaled - a)
    return upper, a - upper


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product, (p, q), (r, s) = a * b, _halves(a), _halves(b)
    return product, ((p * r - product) + p * s + q * r) + q * s


def plus(a: Wide, b: Wide) -> Wide:
    """Return a + b."""
    high, error = _two_sum(a.high, b.high)
    low, rest = _two_sum(a.low, b.low)
    high, error = _renormalized(high, error + low)
    return _renormalized(high, error + rest)


def minus(a: Wide, b: Wide) -> Wide:
    """Return a - b."""
    return plus(a, Wide(-b.high, -b.low))


def times(a: Wide, b: Wide) -> Wide:
    """Return a b."""
    high, low = _two_product(a.high, b.high)
    return _renormalized(high, low + (a.high * b.low + a.low * b.high))


def multiples(a: np.ndarray, b: Wide) -> Wide:
    """Return a b for floats a."""
    high, low = _two_product(a, b.high)
    return _renormalized(high, low + a * b.low)


def quotient(a: Wide, b: Wide) -> Wide:
    """Return a / b."""
    first = a.high / b.high
    rest = minus(a, times(Wide.of(first), b))
    return _renormalized(first, rest.high / b.high)


def root(a: Wide) -> Wide:
    """Return the square root of numbers that rounding may have left below 0, which count as 0."""
    first = np.sqrt(np.maximum(a.high, 0))
    rest = minus(a, times(Wide.of(first), Wide.of(first)))
    return _renormalized(first, np.where(first > 0, rest.high / (2 * np.where(first > 0, first, 1)), 0))


def sum_along(a: Wide, axis: int) -> Wide:
    """Return the sums along an axis, by halves."""
    a = Wide(np.moveaxis(a.high, axis, 0), np.moveaxis(a.low, axis, 0))
    while len(a.high) > 1:
        half = len(a.high) // 2
        halves = plus(*(Wide(a.high[part], a.low[part]) for part in (slice(half), slice(half, 2 * half))))
        odd = slice(2 * half, None)
        a = Wide(np.concatenate([halves.high, a.high[odd]]), np.concatenate([halves.low, a.low[odd]]))
    return Wide(a.high.sum(axis=0), a.low.sum(axis=0))  # of one number, or of none


@functools.cache
def _exponentials() -> tuple[Wide, Wide]:
    """Return ln 2 / 64, and the powers of two between 1 and 2."""
    with localcontext() as context:
        context.prec = 50
        step = Decimal(2).ln() / _STEPS
        return _parts([step]), _parts([(step * k).exp() for k in range(_STEPS)])


def _parts(numbers: list[Decimal]) -> Wide:
    high = [float(number) for number in numbers]
    return Wide(np.array(high), np.array([float(n - Decimal(h)) for n, h in zip(numbers, high, strict=True)]))


def exp(a: Wide) -> Wide:
    """Return e**a; exponents beyond -700 and 700 count as those."""
    # a = k ln 2 / 64 + r. A table has 2**(k / 64), a polynomial e**r; its first terms need more digits than a float.
    step, powers = _exponentials()
    outside = np.abs(a.high) > _MOST_EXPONENT
    a = Wide(np.clip(a.high, -_MOST_EXPONENT, _MOST_EXPONENT), np.where(outside, 0, a.low))
    k = np.rint(a.high / step.high)
    r = minus(a, times(Wide.of(k), step))
    x = r.high
    tail = x / 120 * (1 + x / 6 * (1 + x / 7 * (1 + x / 8 * (1 + x / 9 * (1 + x / 10)))))
    power = plus(_parts([1 / Decimal(24)]), Wide.of(tail))
    for term in (1 / Decimal(6), 1 / Decimal(2), Decimal(1), Decimal(1)):
        power = plus(times(power, r), _parts([term]))
    whole, place = np.divmod(k.astype(np.int64), _STEPS)
    power = times(power, Wide(powers.high[place], powers.low[place]))
    return Wide(np.ldexp(power.high, whole), np.ldexp(power.low, whole))


def products(rows: Block, others: Block) -> Wide | None:
    """Return the dot products of rows with other rows, both in float64; None if numbers are out of range."""
    d = max(2, *(int(np.diff(each.ends).max(initial=0)) for each in (rows, others)))
    bits = (_BITS - int(np.ceil(np.log2(d)))) // 2
    first, second = _slices(rows, bits), _slices(others, bits)
    if first is None or second is None:
        return None
    total = Wide.of(np.zeros((rows.shape[0], others.shape[0])))
    rest = np.zeros_like(total.high)
    for s, one in enumerate(first):
        for t, other in enumerate(second[: _MOST_SLICES - s]):
            product = to_dense(one @ other.T)
            if s + t < 2:
                total = plus(total, Wide.of(product))
            else:  # so small that a float has enough digits
                rest += product
    return plus(total, Wide.of(rest))


def _slices(block: Block, bits: int) -> list[np.ndarray | sparse.csr_matrix] | None:
    """Return matrices that add up to some rows, in which the numbers of a row are multiples of one power of two."""
    rest, row_of = block.stored, np.repeat(np.arange(block.shape[0]), np.diff(block.ends))
    if rest.size and not 1 / _RANGE < np.abs(rest).max() < _RANGE:
        return None if rest.any() else [block.user_array()]
    slices = []
    for _ in range(_MOST_SLICES):
        most = np.zeros(block.shape[0])
        np.maximum.at(most, row_of, np.abs(rest.ravel()))
        if not most.any():
            break
        unit = np.exp2(np.frexp(most)[1] + (_BITS - bits), dtype=np.float64)[row_of].reshape(rest.shape)
        part = (rest + unit) - unit
        rest = rest - part
        slices.append(block.with_stored(part).user_array())
    return slices or [block.user_array()]
