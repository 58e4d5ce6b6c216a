"""Sums of kernel values with bounds on their rounding errors, in float64 and in twice as many digits.

Where multipliers and kernel values are huge, F is a small difference of huge sums, and what float64 makes of it may be
further off than any tolerance. How much a sum in float64 may err is known beforehand (Higham 2002, Accuracy and
Stability of Numerical Algorithms, section 3.1). Where that is too much, sums of a linear kernel, and of values that the
user computes, are those of `double_floats`.
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
from fastsvm.linalg.double_floats import FINE, Wide, plus, times
from fastsvm.sources import Block, DenseBlock

SUMMED_ROWS = 32
"""Kernel rows of a sum, of which there are many: it errs by as many roundings, not by those of all rows."""

Samples = Callable[[np.ndarray], tuple[PairwiseKernel, Block]]
"""Returns the kernel in float64, and the samples of some rows of a kernel matrix."""

CACHED_VALUES = 1 << 16
"""Arrays of so many values at a time stay in the processor's cache."""

_MOST_VALUES = 5_000_000  # More values that a user computes are not summed in two floats.


class ValueBounds(NamedTuple):
    """Bounds on kernel values and their errors: |k(x, z)| is at most size(x) size(z).

    The error of a value in float64 is at most `error` spread(x) spread(z). `accurate_sums` of values err by at most
    `fine_error` size(x) size(z) for each.
    """

    sizes: np.ndarray
    spreads: np.ndarray
    error: float
    fine_error: float = 0.0

    @classmethod
    def of_sizes(cls, sizes: np.ndarray, error: float = 0.0, fine_error: float = 0.0) -> "ValueBounds":
        """Return bounds of which the errors are relative to the sizes."""
        return cls(sizes, sizes, error, fine_error)

    @classmethod
    def of_differences(cls, n: int, d: int) -> "ValueBounds":
        """Return the bounds for n samples of d features, where squared distances never come from norms."""
        ones = np.ones(n)
        return cls(ones, ones, (d + 8) * UNIT)

    @classmethod
    def of(cls, pairwise: PairwiseKernel, block: Block) -> "ValueBounds":
        """Return the bounds for samples."""
        if not isinstance(pairwise, RealPairwise | Uint8Pairwise):
            return cls.of_sizes(np.sqrt(np.abs(diagonal(pairwise, block))))
        kernel = pairwise.of_floats
        d = block.shape[1]  # features of two samples that are not 0
        d = d if block.stored.ndim == 2 else min(d, 2 * int(np.diff(block.ends).max(initial=0)))
        fine, is_byte = max(FINE, 4 * d * UNIT**2), isinstance(pairwise, Uint8Pairwise)
        if isinstance(pairwise, RealPairwise) and pairwise.centre is not None:
            norms = DenseBlock(block.stored - pairwise.centre).sq_norms()
        else:
            norms = block.converted(np.float64).sq_norms()
        if isinstance(pairwise, Uint8Pairwise):
            d, norms = 1, norms * pairwise.scale**2
            fine = fine if pairwise.scale == 1 else 4 * UNIT  # samples are not exactly the bytes times the scale
        most, dot, ones = float(norms.max(initial=0.0)), (d + 8) * UNIT, np.ones(len(norms))
        match kernel:
            case Linear():
                return cls.of_sizes(np.sqrt(norms), dot, fine)
            case Polynomial(degree=p, gamma=gamma, coef0=coef0):
                return cls.of_sizes((abs(gamma) * norms + abs(coef0)) ** (p / 2), (p + 1) * dot)
            case RBF() | Exponential() if is_byte:
                return cls(ones, ones, dot)
            case RBF(gamma=gamma):
                # The squared distance errs by 2 dot times both squared norms. If one is less than four times the other,
                # they are at most 5/2 of their geometric mean. Else the distance is half of the longer row or more, and
                # the value so small that its error is at most 4 dot.
                spreads = np.sqrt(1 + 1.25 * abs(gamma) * norms)
                return cls(ones, spreads, 4 * dot)
            case Laplacian():
                return cls(ones, ones, kernel.rounding(dot, d * most) + dot)
            case Exponential(gamma=gamma) if isinstance(pairwise, RealPairwise):
                # Distances of near samples come from differences, unless one is short. Others err by what their squares
                # do, divided by them: by `far` times the norm of the shorter sample, or by 2 dot times that of the
                # other if it is more than 1 + sqrt(2) times as long. The value is so small then that its error is at
                # most 2 dot.
                least, share, _ = pairwise.widened().shares(d)
                short = float(norms.max(initial=0.0, where=norms < 2 * least))
                error = kernel.rounding(dot, short) + 3 * dot
                far = 1.5 * dot * abs(gamma) / math.sqrt(share)
                return cls(ones, np.sqrt(1 + far / error * np.sqrt(norms)), error)
            case Sigmoid():
                return cls(ones, ones, kernel.rounding(dot, most) + dot)
        value = abs(float(kernel_value.bodies[type(kernel)](kernel, most, most, most)))
        error = kernel.rounding(dot, most) / value + dot if value else np.inf
        return cls.of_sizes(np.sqrt(value) * ones, error)

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

    It is for the linear kernel of dense samples, whose sums are products with one vector, and for values that the user
    computes. Numbers that are out of range, and very many values, have no such sums.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the sums are not finite then
        pairwise, support = samples(rows)
        is_computed = isinstance(pairwise, RealPairwise | Uint8Pairwise)
        is_linear = type(getattr(pairwise, "of_floats", None)) is Linear and support.stored.ndim == 2
        if not is_linear and (is_computed or len(at) * len(rows) > _MOST_VALUES):
            return None
        scale = float(getattr(pairwise, "scale", 1.0))  # that of bytes
        weights = weighted_rows(scale * support.dense(np.float64), coef) if is_linear else Wide.of(coef)
        sums = Wide(np.empty(len(at)), np.empty(len(at)))
        for a, b in spans(len(at), max(1, CACHED_VALUES // max(1, len(weights.high)))):
            block = samples(at[a:b])[1]
            values = scale * block.dense(np.float64) if is_linear else _given_values(pairwise, block, support)
            _write_products(values, weights, Wide(sums.high[a:b], sums.low[a:b]))
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


def _given_values(pairwise: PairwiseKernel, block: Block, support: Block) -> np.ndarray:
    """Return kernel values that a user computed."""
    if isinstance(pairwise, PrecomputedPairwise):
        return np.ascontiguousarray(block.dense(np.float64)[:, pairwise.columns])
    return _square(pairwise, block, support)


@jit_as_written
def _write_products(values, weights, sums):
    """Write the products of rows of floats with the weights, by halves."""
    for i in range(values.shape[0]):
        high, low, n = values[i].copy(), np.zeros(values.shape[1]), values.shape[1]
        for k in range(n):
            high[k], low[k] = times(high[k], low[k], weights.high[k], weights.low[k])
        while n > 1:
            half = (n + 1) // 2
            for k in range(n - half):
                high[k], low[k] = plus(high[k], low[k], high[half + k], low[half + k])
            n = half
        sums.high[i], sums.low[i] = (high[0], low[0]) if n > 0 else (0.0, 0.0)
