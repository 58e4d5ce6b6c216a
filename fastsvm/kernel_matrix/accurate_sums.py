"""Sums of kernel values with bounds on their rounding errors, in float64 and in twice as many digits.

Where multipliers and kernel values are huge, F is a small difference of huge sums, and what float64 makes of it may be
further off than any tolerance. How much a sum in float64 may err is known beforehand (Higham 2002, Accuracy and
Stability of Numerical Algorithms, section 3.1). Where that is too much, it is computed in `double_floats`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit_as_written
from fastsvm._compiled.threads import spans
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, PrecomputedPairwise, RealPairwise, Rows, Uint8Pairwise
from fastsvm.kernel_matrix.rounding import UNIT
from fastsvm.kernels import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid, kernel_value
from fastsvm.linalg.double_floats import (
    FINE,
    Wide,
    added,
    clipped,
    exp,
    plus,
    quotient,
    root,
    times,
    two_product,
    two_sum,
)
from fastsvm.sources import Block, DenseBlock

SUMMED_ROWS = 32
"""Kernel rows of a sum, of which there are many: it errs by as many roundings, not by those of all rows."""

Samples = Callable[[np.ndarray], tuple[PairwiseKernel, Block]]
"""Returns the kernel in float64, and the samples of some rows of a kernel matrix."""

CACHED_VALUES = 1 << 16
"""Arrays of so many values at a time stay in the processor's cache."""

_MOST_VALUES = 5_000_000  # More kernel values are not computed in two floats: a feature of each takes nanoseconds.
_SATURATED = -math.log(FINE)  # The hyperbolic tangent of so large an argument is one in all digits.


class ValueBounds(NamedTuple):
    """Bounds on kernel values and their errors: |k(x, z)| is at most size(x) size(z).

    The error of a value in float64 is at most `error` spread(x) spread(z), that of a value in two floats at most
    `fine_error` size(x) size(z).
    """

    sizes: np.ndarray
    spreads: np.ndarray
    error: float
    fine_error: float

    @classmethod
    def of_sizes(cls, sizes: np.ndarray, error: float = 0.0, fine_error: float = 0.0) -> "ValueBounds":
        """Return bounds of which the errors are relative to the sizes."""
        return cls(sizes, sizes, error, fine_error)

    @classmethod
    def of_differences(cls, n: int, d: int) -> "ValueBounds":
        """Return the bounds for n samples of d features, where squared distances never come from norms."""
        ones = np.ones(n)
        return cls(ones, ones, (d + 8) * UNIT, max(FINE, 4 * d * UNIT**2))

    @classmethod
    def of(cls, pairwise: PairwiseKernel, block: Block) -> "ValueBounds":
        """Return the bounds for samples."""
        if not isinstance(pairwise, RealPairwise | Uint8Pairwise):
            return cls.of_sizes(np.sqrt(np.abs(diagonal(pairwise, block))))
        kernel = pairwise.of_floats
        d = block.shape[1]  # features of two samples that are not 0
        d = d if block.stored.ndim == 2 else min(d, 2 * int(np.diff(block.ends).max(initial=0)))
        fine, is_scaled, is_byte = max(FINE, 4 * d * UNIT**2), False, isinstance(pairwise, Uint8Pairwise)
        if isinstance(pairwise, RealPairwise) and pairwise.centre is not None:
            norms = DenseBlock(block.stored - pairwise.centre).sq_norms()
        else:
            norms = block.converted(np.float64).sq_norms()
        if isinstance(pairwise, Uint8Pairwise):
            d, norms, is_scaled = 1, norms * pairwise.scale**2, pairwise.scale != 1
            fine = 4 * UNIT if is_scaled else fine  # samples are not exactly the bytes times the scale
        most, dot, ones = float(norms.max(initial=0.0)), (d + 8) * UNIT, np.ones(len(norms))
        of_distance = kernel.rounding(fine, most) if is_scaled else fine  # else from sums of differences
        match kernel:
            case Linear():
                return cls.of_sizes(np.sqrt(norms), dot, fine)
            case Polynomial(degree=p, gamma=gamma, coef0=coef0):
                return cls.of_sizes((abs(gamma) * norms + abs(coef0)) ** (p / 2), (p + 1) * dot, (p + 1) * fine)
            case RBF() | Exponential() if is_byte:
                return cls(ones, ones, dot, of_distance)
            case RBF(gamma=gamma):
                # The squared distance errs by 2 dot times both squared norms. If one is less than four times the other,
                # they are at most 5/2 of their geometric mean. Else the distance is half of the longer row or more, and
                # the value so small that its error is at most 4 dot.
                spreads = np.sqrt(1 + 1.25 * abs(gamma) * norms)
                return cls(ones, spreads, 4 * dot, of_distance)
            case Laplacian():
                return cls(ones, ones, kernel.rounding(dot, d * most) + dot, of_distance)
            case Exponential():
                return cls(ones, ones, kernel.rounding(dot, most) + dot, of_distance)
            case Sigmoid():
                return cls(ones, ones, kernel.rounding(dot, most) + dot, kernel.rounding(fine, most))
        value = abs(float(kernel_value.bodies[type(kernel)](kernel, most, most, most)))
        error = kernel.rounding(dot, most) / value + dot if value else np.inf
        return cls.of_sizes(np.sqrt(value) * ones, error, np.inf)

    @classmethod
    def together(cls, parts: list["ValueBounds"]) -> "ValueBounds":
        """Return the bounds for the samples of all parts."""
        return cls(
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.spreads for part in parts]),
            max(part.error for part in parts),
            max(part.fine_error for part in parts),
        )

    def errors(self, rows: np.ndarray, coef: np.ndarray, by_parts: bool = False) -> np.ndarray:
        """Return bounds on the errors of float64 sums over some `rows`, or of sums of `SUMMED_ROWS` each."""
        n = len(coef)
        n_terms = 16 + (min(n, SUMMED_ROWS) + n // SUMMED_ROWS if by_parts else n)
        of_values = self.spreads * (self.error * float(np.abs(coef) @ self.spreads[rows]))
        largest = self.sizes * float(np.abs(coef) @ self.sizes[rows])
        return np.minimum(of_values, 2 * largest) + n_terms * UNIT * largest  # of two such values


def accurate_sums(samples: Samples, rows: np.ndarray, coef: np.ndarray, at: np.ndarray) -> Wide | None:
    """Return Σ_s coef_s K_s over some `rows`, for the columns `at`; None where that is not possible.

    It is not for a user's scalar map, for numbers that are out of range, and for very many values.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the sums are not finite then
        pairwise, support = samples(rows)
        # Sums of values of the linear kernel are products with one vector, which take less time.
        is_linear = isinstance(pairwise, RealPairwise) and type(pairwise.of_floats) is Linear and not pairwise.sparse
        if not is_linear and len(at) * len(rows) > _MOST_VALUES:
            return None
        weights = weighted_rows(support.dense(np.float64), coef) if is_linear else Wide.of(coef)
        map_ = _Map.of(pairwise)
        is_computed = isinstance(pairwise, RealPairwise | Uint8Pairwise) and not is_linear
        if is_computed and map_ is None:
            return None
        sums = Wide(np.empty(len(at)), np.empty(len(at)))
        for a, b in spans(len(at), max(1, CACHED_VALUES // max(1, len(weights.high)))):
            block, some = samples(at[a:b])[1], Wide(sums.high[a:b], sums.low[a:b])
            if not is_computed:
                _write_products(_given_values(pairwise, block, support, is_linear), weights, some)
            elif support.stored.ndim == 2:
                others = np.ascontiguousarray(support.dense(np.float64).T)
                _write_dense(map_, block.dense(np.float64), others, weights, some)
            else:
                _write_sparse(map_, block.converted(np.float64), support.converted(np.float64), weights, some)
        return sums if np.isfinite(sums.high).all() else None


def weighted_rows(rows: np.ndarray, coef: np.ndarray) -> Wide:
    """Return Σ_s coef_s x_s."""
    sums = Wide(np.empty(rows.shape[1]), np.empty(rows.shape[1]))
    _write_products(np.ascontiguousarray(rows.T), Wide.of(coef), sums)
    return sums


def diagonal(pairwise: PairwiseKernel, block: Block) -> np.ndarray:
    """Return the kernel of samples with themselves; `pairwise` is in float64."""
    if isinstance(pairwise, PrecomputedPairwise):
        return block.dense(np.float64)[np.arange(block.shape[0]), pairwise.columns]
    if isinstance(pairwise, RealPairwise) and pairwise.of_floats.translation_invariant:
        return np.full(block.shape[0], kernel_value.bodies[type(pairwise.kernel)](pairwise.kernel, 0.0, 0.0, 0.0))
    values = np.empty(block.shape[0])
    for a, b in spans(len(values), SUMMED_ROWS):
        values[a:b] = _square(pairwise, block.slice(a, b), block.slice(a, b)).diagonal()
    return values


def _square(pairwise: PairwiseKernel, block: Block, support: Block) -> np.ndarray:
    out = np.empty((block.shape[0], support.shape[0]))
    pairwise.tile(pairwise.prepare(block), support, pairwise.terms(support), Rows(out, np.arange(len(out)), 0))
    return out


def _given_values(pairwise: PairwiseKernel, block: Block, support: Block, is_linear: bool) -> np.ndarray:
    """Return kernel values that a user computed, or the samples themselves for a linear kernel."""
    if is_linear:
        return block.dense(np.float64)
    if isinstance(pairwise, PrecomputedPairwise):
        return np.ascontiguousarray(block.dense(np.float64)[:, pairwise.columns])
    return _square(pairwise, block, support)


_PRODUCT, _SQUARE, _LENGTH = range(3)  # Sums over the features: of x z, of (x - z)**2, of |x - z|.
_POWER, _EXP, _TANH = range(3)


class _Map(NamedTuple):
    """A kernel: gamma times two factors times a sum over the features, plus coef0, and a function of that.

    If `is_root`, the sum is replaced by its root.
    """

    measure: int
    function: int
    gamma: float
    factors: tuple[float, float]
    coef0: float = 0.0
    degree: int = 1
    is_root: bool = False

    @classmethod
    def of(cls, pairwise: PairwiseKernel) -> "_Map | None":
        """Return the map of a kernel, None for that of a user."""
        scale = float(getattr(pairwise, "scale", 1.0))  # that of bytes
        match getattr(pairwise, "of_floats", None):
            case Linear():
                return cls(_PRODUCT, _POWER, 1.0, (scale, scale))
            case Polynomial(degree=p, gamma=gamma, coef0=coef0):
                return cls(_PRODUCT, _POWER, float(gamma), (scale, scale), float(coef0), int(p))
            case RBF(gamma=gamma):
                return cls(_SQUARE, _EXP, -float(gamma), (scale, scale))
            case Exponential(gamma=gamma):
                return cls(_SQUARE, _EXP, -float(gamma), (scale, 1.0), is_root=True)
            case Laplacian(gamma=gamma):
                return cls(_LENGTH, _EXP, -float(gamma), (scale, 1.0))
            case Sigmoid(gamma=gamma, coef0=coef0):
                return cls(_PRODUCT, _TANH, float(gamma), (scale, scale), float(coef0))
        return None


@jit_as_written
def _measured(measure, a, b):
    """Return what a feature adds to the sum."""
    if measure == _PRODUCT:
        return two_product(a, b)
    high, low = two_sum(a, -b)
    if measure == _LENGTH:
        return (high, low) if high >= 0 else (-high, -low)
    product, error = two_product(high, high)
    return product, error + 2 * high * low


@jit_as_written
def _write_dense(map_, rows, others, weights, sums):
    """Write the sums of kernel values of dense rows, times weights; `others` has a column for each row of them."""
    n, d, m = rows.shape[0], rows.shape[1], others.shape[1]
    high, low = np.empty(m), np.empty(m)
    for i in range(n):
        high[:], low[:] = 0.0, 0.0
        for j in range(d):
            x = rows[i, j]
            if map_.measure == _PRODUCT:  # Each loop vectorises.
                for k in range(m):
                    high[k], low[k] = added(high[k], low[k], *_measured(_PRODUCT, x, others[j, k]))
            elif map_.measure == _SQUARE:
                for k in range(m):
                    high[k], low[k] = added(high[k], low[k], *_measured(_SQUARE, x, others[j, k]))
            else:
                for k in range(m):
                    high[k], low[k] = added(high[k], low[k], *_measured(_LENGTH, x, others[j, k]))
        _write_sum(map_, high, low, weights, sums, i)


@jit_as_written
def _write_sparse(map_, rows, others, weights, sums):
    """Write the same for sparse rows, whose columns are sorted."""
    m = others.indptr.size - 1
    high, low, end = np.empty(m), np.empty(m), np.int64(rows.n_features)
    for i in range(rows.indptr.size - 1):
        for k in range(m):
            a, b, of_sum, error = rows.indptr[i], others.indptr[k], 0.0, 0.0
            while a < rows.indptr[i + 1] or b < others.indptr[k + 1]:
                of_a = np.int64(rows.indices[a]) if a < rows.indptr[i + 1] else end
                of_b = np.int64(others.indices[b]) if b < others.indptr[k + 1] else end
                x, z = rows.data[a] if of_a <= of_b else 0.0, others.data[b] if of_b <= of_a else 0.0
                of_sum, error = added(of_sum, error, *_measured(map_.measure, x, z))
                a, b = a + (of_a <= of_b), b + (of_b <= of_a)
            high[k], low[k] = of_sum, error
        _write_sum(map_, high, low, weights, sums, i)


@jit_as_written
def _write_sum(map_, high, low, weights, sums, i):
    """Write sum i of kernel values, given the sums over the features, which are overwritten."""
    gamma = times(*two_product(map_.gamma, map_.factors[0]), map_.factors[1], 0.0)
    for k in range(high.size if map_.is_root else 0):
        high[k], low[k] = root(high[k], low[k])
    for k in range(high.size):
        high[k], low[k] = plus(*times(high[k], low[k], *gamma), map_.coef0, 0.0)
    if map_.function == _EXP:
        for k in range(high.size):
            high[k], low[k] = exp(high[k], low[k])
    elif map_.function == _TANH:
        for k in range(high.size):
            high[k], low[k] = _tanh(high[k], low[k])
    elif map_.degree != 1:
        base, base_low = high.copy(), low.copy()
        if map_.degree == 0:
            high[:], low[:] = 1.0, 0.0
        for _ in range(map_.degree - 1):
            for k in range(high.size):
                high[k], low[k] = times(high[k], low[k], base[k], base_low[k])
    _write_product(high, low, weights, sums, i)


@jit_as_written
def _tanh(high, low):
    """Return the hyperbolic tangent."""
    bounded = clipped(high, _SATURATED)
    low = low if bounded == high else 0.0
    up, error = exp(2 * bounded, 2 * low)
    return quotient(*plus(up, error, -1.0, 0.0), *plus(up, error, 1.0, 0.0))


@jit_as_written
def _write_products(values, weights, sums):
    """Write the products of rows of floats with the weights."""
    for i in range(values.shape[0]):
        _write_product(values[i].copy(), np.zeros(values.shape[1]), weights, sums, i)


@jit_as_written
def _write_product(high, low, weights, sums, i):
    """Write sum i, of numbers times the weights, by halves. The numbers are overwritten."""
    n = high.size
    for k in range(n):
        high[k], low[k] = times(high[k], low[k], weights.high[k], weights.low[k])
    while n > 1:
        half = (n + 1) // 2
        for k in range(n - half):
            high[k], low[k] = plus(high[k], low[k], high[half + k], low[half + k])
        n = half
    sums.high[i], sums.low[i] = (high[0], low[0]) if n > 0 else (0.0, 0.0)
