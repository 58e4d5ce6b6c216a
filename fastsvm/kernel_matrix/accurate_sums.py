"""Sums of kernel values with bounds on their rounding errors, in float64 and in twice as many digits.

Where multipliers and kernel values are huge, F is a small difference of huge sums, and what float64 makes of it may be
further off than any tolerance. How much a sum in float64 may err is known beforehand (Higham 2002, Accuracy and
Stability of Numerical Algorithms, section 3.1). Where that is too much, it is computed in `double_floats`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.threads import spans
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, PrecomputedPairwise, RealPairwise, Rows, Uint8Pairwise
from fastsvm.kernel_matrix.rounding import SEEN, UNIT
from fastsvm.kernels import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid, kernel_value
from fastsvm.linalg import double_floats as wide
from fastsvm.linalg.double_floats import FINE, Wide
from fastsvm.sources import Block, DenseBlock, to_dense

SUMMED_ROWS = 32
"""Kernel rows of a sum, of which there are many: it errs by as many roundings, not by those of all rows."""

Samples = Callable[[np.ndarray], tuple[PairwiseKernel, Block]]
"""Returns the kernel in float64, and the samples of some rows of a kernel matrix."""

CACHED_VALUES = 1 << 16
"""Arrays of so many values at a time stay in the processor's cache."""

_MOST_VALUES = 5_000_000  # More kernel values are not computed in two floats: they take some microseconds each.
_NEAR = SEEN * UNIT  # If values err by more, distances are sums of squared differences, not of norms and products.
_MOST_DIFFERENCES = 256  # Such sums over more features take too long.
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
    def of(cls, pairwise: PairwiseKernel, block: Block, by_differences: bool = False) -> "ValueBounds":
        """Return the bounds for samples. `by_differences` says that squared distances never come from norms."""
        if not isinstance(pairwise, RealPairwise | Uint8Pairwise):
            return cls.of_sizes(np.sqrt(np.abs(diagonal(pairwise, block))))
        kernel, centre, fine = pairwise.of_floats, None, FINE
        d = block.shape[1]  # features of two samples that are not 0
        d = d if block.stored.ndim == 2 else min(d, 2 * int(np.diff(block.ends).max(initial=0)))
        norms = block.converted(np.float64).sq_norms()
        if isinstance(pairwise, Uint8Pairwise):
            by_differences, d, norms = True, 1, norms * pairwise.scale**2
            fine = FINE if pairwise.scale == 1 else 4 * UNIT  # samples are not exactly the bytes times the scale
        else:
            centre = pairwise.centre
        most, dot, ones = float(norms.max(initial=0.0)), (d + 8) * UNIT, np.ones(len(norms))
        centred = norms if centre is None else DenseBlock(block.stored - centre).sq_norms()
        near = most if centre is None else float(centred.max(initial=0.0))
        match kernel:
            case Linear():
                return cls.of_sizes(np.sqrt(norms), dot, fine)
            case Polynomial(degree=p, gamma=gamma, coef0=coef0):
                return cls.of_sizes((abs(gamma) * norms + abs(coef0)) ** (p / 2), (p + 1) * dot, (p + 1) * fine)
            case RBF() | Exponential() if by_differences:
                return cls(ones, ones, dot, _fine_error(kernel, fine, most, block.shape[1]))
            case RBF(gamma=gamma):
                # The squared distance errs by 2 dot times both squared norms. If one is less than four times the other,
                # they are at most 5/2 of their geometric mean. Else the distance is half of the longer row or more, and
                # the value so small that its error is at most 4 dot.
                spreads = np.sqrt(1 + 1.25 * abs(gamma) * centred)
                return cls(ones, spreads, 4 * dot, _fine_error(kernel, fine, most, block.shape[1]))
            case Laplacian():
                return cls(ones, ones, kernel.rounding(dot, d * near) + dot, kernel.rounding(fine, d * most))
            case Exponential():
                fine_error = _fine_error(kernel, fine, most, block.shape[1])
                return cls(ones, ones, kernel.rounding(dot, near) + dot, fine_error)
            case Sigmoid():
                return cls(ones, ones, kernel.rounding(dot, near) + dot, kernel.rounding(fine, most))
        value = abs(float(kernel_value.bodies[type(kernel)](kernel, near, near, near)))
        error = kernel.rounding(dot, near) / value + dot if value else np.inf
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

    def fine_errors(self, rows: np.ndarray, coef: np.ndarray, of_coef: float = 0.0) -> np.ndarray:
        """Return the same for `accurate_sums`, and for coefficients that err by a share `of_coef`."""
        return self.sizes * (float(np.abs(coef) @ self.sizes[rows]) * (self.fine_error + 2 * FINE + of_coef))


def accurate_sums(samples: Samples, rows: np.ndarray, coef: np.ndarray, at: np.ndarray) -> Wide | None:
    """Return Σ_s coef_s K_s over some `rows`, for the columns `at`; None where that is not possible.

    It is not for a user's scalar map, for numbers that are out of range, and for very many values.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the sums are not finite then
        return _summed(samples, rows, coef, at)


def _summed(samples: Samples, rows: np.ndarray, coef: np.ndarray, at: np.ndarray) -> Wide | None:
    pairwise, support = samples(rows)
    # Sums of values of the linear kernel are products with one vector, which take less time.
    is_linear = isinstance(pairwise, RealPairwise) and isinstance(pairwise.of_floats, Linear) and not pairwise.sparse
    weights = Wide.of(coef)
    if not is_linear and len(at) * len(rows) > _MOST_VALUES:
        return None
    if is_linear:
        weights = weighted_rows(support.dense(np.float64), coef)
    sums = Wide(np.empty(len(at)), np.empty(len(at)))
    for a, b in spans(len(at), max(1, CACHED_VALUES // max(1, len(weights.high)))):
        block = samples(at[a:b])[1]
        values = block.dense(np.float64) if is_linear else _values(pairwise, block, support)
        if values is None:
            return None
        products = wide.times(values, weights) if isinstance(values, Wide) else wide.multiples(values, weights)
        sums.high[a:b], sums.low[a:b] = wide.sum_along(products, 1)
    return sums if np.isfinite(sums.high).all() else None


def weighted_rows(rows: np.ndarray, coef: np.ndarray) -> Wide:
    """Return Σ_s coef_s x_s."""
    parts = [
        wide.sum_along(wide.multiples(rows[:, a:b], Wide.of(coef[:, None])), 0)
        for a, b in spans(rows.shape[1], max(1, CACHED_VALUES // max(1, len(rows))))
    ]
    return Wide(*(np.concatenate(each) for each in zip(*parts, strict=True)))


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


def _values(pairwise: PairwiseKernel, block: Block, support: Block) -> Wide | None:
    """Return kernel values; those that a user computed are given."""
    if isinstance(pairwise, PrecomputedPairwise):
        return Wide.of(block.dense(np.float64)[:, pairwise.columns])
    if not isinstance(pairwise, RealPairwise | Uint8Pairwise):
        return Wide.of(_square(pairwise, block, support))
    kernel, scale = pairwise.of_floats, pairwise.scale if isinstance(pairwise, Uint8Pairwise) else 1.0
    if type(kernel) not in (Linear, Polynomial, RBF, Exponential, Sigmoid, Laplacian):
        return None
    rows, others = block.converted(np.float64), support.converted(np.float64)
    if isinstance(kernel, Laplacian):
        return wide.exp(wide.times(Wide.of(-kernel.gamma), _apart(rows, others, _length)))
    if isinstance(kernel, RBF | Exponential) and _takes_differences(kernel, rows, others, scale):
        return _of_squared(kernel, _apart(rows, others, _square_of))
    dot = wide.products(rows, others)
    if dot is None:
        return None
    dot = _scaled(dot, scale)
    match kernel:
        case Linear():
            return dot
        case RBF() | Exponential():
            return _of_squared(kernel, _squared_distances(rows, others, dot, scale))
        case Polynomial(degree=p, gamma=gamma, coef0=coef0):
            base = wide.plus(wide.times(Wide.of(gamma), dot), Wide.of(coef0))
            power = Wide.of(np.ones(base.high.shape))
            for bit in f"{p:b}":
                power = wide.times(power, power)
                power = wide.times(power, base) if bit == "1" else power
            return power
        case Sigmoid(gamma=gamma, coef0=coef0):
            argument = _clipped(wide.plus(wide.times(Wide.of(gamma), dot), Wide.of(coef0)), _SATURATED)
            up, one = wide.exp(wide.plus(argument, argument)), Wide.of(1.0)
            return wide.quotient(wide.minus(up, one), wide.plus(up, one))
    return None


def _squared_distances(rows: Block, others: Block, dot: Wide, scale: float) -> Wide:
    norms = [_own_products(each, scale) for each in (rows, others)]
    total = wide.plus(Wide(*(part[:, None] for part in norms[0])), norms[1])
    return wide.minus(total, wide.plus(dot, dot))


def _own_products(rows: Block, scale: float) -> Wide:
    """Return the squared norms of rows."""
    lengths = np.diff(rows.ends)
    values = np.zeros((len(lengths), lengths.max(initial=0)))
    values[np.arange(values.shape[1]) < lengths[:, None]] = rows.stored.ravel()
    return _scaled(wide.sum_along(wide.times(Wide.of(values), Wide.of(values)), 1), scale)


def _scaled(squares: Wide, scale: float) -> Wide:
    """Return products of two samples for those of their bytes."""
    return squares if scale == 1 else wide.times(squares, wide.times(Wide.of(scale), Wide.of(scale)))


def _of_squared(kernel: RBF | Exponential, squared: Wide) -> Wide:
    """Return the kernel of squared distances."""
    distance = squared if isinstance(kernel, RBF) else wide.root(squared)
    return wide.exp(wide.times(Wide.of(-kernel.gamma), distance))


def _fine_error(kernel: RBF | Exponential, fine: float, sq_norm: float, n_features: int) -> float:
    """Return a bound on the error of values in two floats: from norms, or from differences where that is too much."""
    by_norms = kernel.rounding(fine, sq_norm)
    # Samples whose bytes are scaled in float64 have errors of their own.
    return min(by_norms, _NEAR) if fine == FINE and n_features <= _MOST_DIFFERENCES else by_norms


def _takes_differences(kernel: RBF | Exponential, rows: Block, others: Block, scale: float) -> bool:
    if scale != 1 or rows.shape[1] > _MOST_DIFFERENCES:
        return False
    most = max(float(each.sq_norms().max(initial=0.0)) for each in (rows, others))
    return kernel.rounding(FINE, most) > _NEAR


def _clipped(values: Wide, most: float) -> Wide:
    return Wide(np.clip(values.high, -most, most), np.where(np.abs(values.high) > most, 0.0, values.low))


def _length(apart: Wide) -> Wide:
    return Wide(*(part * np.sign(apart.high) for part in apart))


def _square_of(apart: Wide) -> Wide:
    return wide.times(apart, apart)


def _apart(rows: Block, others: Block, measure: Callable[[Wide], Wide]) -> Wide:
    """Return the sums over the features of a measure of the differences of rows."""
    columns = np.union1d(rows.columns(), others.columns())
    x, z = (to_dense(each.user_array()[:, columns]) for each in (rows, others))
    total = Wide.of(np.zeros((len(x), len(z))))
    for of_x, of_z in zip(x.T, z.T, strict=True):
        total = wide.plus(total, measure(wide.minus(Wide.of(of_x[:, None]), Wide.of(of_z))))
    return total
