"""Kernel rows of a small problem inside compiled code, computed when they are first used.

A step of a solver on a hundred rows takes less time than one call from Python. So the solver of a small problem is one
call, which computes kernel rows itself. Samples are stored feature by feature, so that all values of a row are computed
side by side. Squared distances are sums of squared differences, which need no norms and cancel nothing.

The kernels are told apart by a number, not by their classes: the solver is compiled once for all of them. Other kernels
are given as the matrix of all values.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import generic, jit, outlined
from fastsvm._compiled.scalars import multiply_add
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.pairwise.base import ROUND
from fastsvm.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid, kernel_value
from fastsvm.sources import DenseBlock

_KINDS = None, RBF, Linear, Polynomial, Sigmoid  # None stands for given values.
_SQUARE, _RBF, LINEAR, _POLYNOMIAL, _SIGMOID = range(len(_KINDS))
PADDING = 16
"""A row is padded to a multiple of so many values, of which `ROUND` is one, so that none is computed by itself."""


class KernelSquare(NamedTuple):
    """All kernel values among some rows, shape (n, n)."""

    values: np.ndarray


class SmallKernel(NamedTuple):
    """The kernel among the samples of a small problem: `kind` says which, or that `values` are all its values.

    `values` are samples, shape (n, d), or kernel values, (n, n). `parameters` are degree, coefficient of the pairing,
    and constant. The bounds are those of `ValueBounds`.
    """

    kind: int
    parameters: tuple[int, float, float]
    values: np.ndarray
    sizes: np.ndarray
    spreads: np.ndarray
    error: float
    fine_error: float

    @property
    def name(self) -> str:
        """The name in `choice.KERNEL_SOLVERS` of what solves problems with this kernel."""
        return "small-matrix" if self.kind == _SQUARE else "small-rows"

    @classmethod
    def of_square(cls, values: np.ndarray, bounds: ValueBounds) -> "SmallKernel":
        """Return the kernel with these values."""
        return cls(_SQUARE, (0, 0.0, 0.0), values, *bounds)


class RowsOnDemand(NamedTuple):
    """Kernel rows among some samples, each computed when it is first used.

    There are n = m rows for the m `samples`, or two of each sample: row i and row m + i. `by_feature` has the
    samples as columns, shape (d, m) with padded rows; it is empty if the kernel values are kernel. `diagonal` is the
    kernel of each sample with itself. `store` has the computed rows, padded, in the order of their first use.
    `slot_of`, shape (n + 1,), has the slot of each row in the store or -1, and last the number of computed rows.
    `sums` is memory for a part of a row.
    """

    kernel: SmallKernel
    samples: np.ndarray
    by_feature: np.ndarray
    diagonal: np.ndarray
    store: np.ndarray
    slot_of: np.ndarray
    sums: np.ndarray


def has_rows_on_demand(kernel: Kernel) -> bool:
    """Return whether compiled code computes rows of a kernel one by one; of another, the matrix is needed."""
    return type(kernel) in _KINDS


def on_demand(pairwise: RealPairwise, values: np.ndarray) -> SmallKernel:
    """Return a kernel that `has_rows_on_demand`, among samples, float64 of shape (n, d)."""
    kernel = pairwise.of_floats
    kind = _KINDS.index(type(kernel))
    degree, gamma, coef0 = (getattr(kernel, name, 0) for name in ("degree", "gamma", "coef0"))
    bounds = ValueBounds.of_differences(*values.shape) if kind == _RBF else ValueBounds.of(pairwise, DenseBlock(values))
    return SmallKernel(kind, (int(degree), float(gamma), float(coef0)), values, *bounds)


@generic
def kernel_row(rows: KernelSquare | RowsOnDemand, i: int) -> np.ndarray:
    """Return kernel row i."""
    raise NotImplementedError


@generic
def known_row(rows: KernelSquare | RowsOnDemand, i: int) -> np.ndarray:
    """Return kernel row i, which was computed before: code that calls this is compiled in half of the time."""
    raise NotImplementedError


@generic
def diagonal_value(rows: KernelSquare | RowsOnDemand, i: int) -> float:
    """Return the kernel of sample i with itself."""
    raise NotImplementedError


@kernel_row.register(KernelSquare)
@known_row.register(KernelSquare)
def _row_of_square(rows, i):
    return rows.values[i]


@diagonal_value.register(KernelSquare)
def _diagonal_of_square(rows, i):
    return rows.values[i, i]


@kernel_row.register(RowsOnDemand)
def _row_on_demand(rows, i):
    slot, n = rows.slot_of[i], rows.slot_of.size - 1
    if slot < 0:
        slot = rows.slot_of[n]
        rows.slot_of[n] = slot + 1
        m = rows.samples.size
        for twin in range(i % m, n, m):
            rows.slot_of[twin] = slot
        _compute_kernel_row(rows, i % m, rows.store[slot, : rows.by_feature.shape[1]])
        _repeat(rows.store[slot, :n], m)
    return rows.store[slot, :n]


@known_row.register(RowsOnDemand)
def _known_row(rows, i):
    return rows.store[rows.slot_of[i], : rows.slot_of.size - 1]


@diagonal_value.register(RowsOnDemand)
def _diagonal_on_demand(rows, i):
    return rows.diagonal[i]


@outlined
def rows_among(kernel, samples, n_rows, memory):
    """Return the rows among some `samples`, one or two of each; `memory` takes as many padded rows of float64."""
    m, d = samples.size, kernel.values.shape[1] if kernel.kind != _SQUARE else 0
    width, whole = -(-m // PADDING) * PADDING, -(-n_rows // PADDING) * PADDING
    by_feature, sq_norms, diagonal = np.empty((d, width)), np.empty(width), np.empty(whole)
    slot_of = np.full(n_rows + 1, -1)
    for start in range(0, width, PADDING):
        sq_norms[start : start + PADDING] = 0.0
        for k in range(d):  # so that lines of the cache are written whole
            for i in range(start, start + PADDING):
                by_feature[k, i] = kernel.values[samples[i], k] if i < m else 0.0
                if kernel.kind != _RBF:
                    sq_norms[i] += by_feature[k, i] * by_feature[k, i]
    slot_of[n_rows] = 0
    if kernel.kind == _SQUARE:
        for i in range(m):
            diagonal[i] = kernel.values[samples[i], samples[i]]
    else:
        _map_chunk(kernel, sq_norms, diagonal[:width])
    _repeat(diagonal[:n_rows], m)
    store = memory[: m * whole].reshape(m, whole)
    return RowsOnDemand(kernel, samples, by_feature, diagonal, store, slot_of, np.empty(min(width, ROUND)))


@jit
def _repeat(row, m):
    """Copy the first m values of a row to what follows."""
    for t in range(m, row.size):
        row[t] = row[t - m]


@outlined
def _compute_kernel_row(rows, i, out):
    """Write kernel row i. Four features at a time, so that sums are loaded and stored a quarter as often."""
    kernel, by_feature = rows.kernel, rows.by_feature
    if kernel.kind == _SQUARE:
        source = kernel.values[rows.samples[i]]
        for t in range(rows.samples.size):
            out[t] = source[rows.samples[t]]
        return
    n, sums = by_feature.shape[0], rows.sums
    for start in range(0, out.size, ROUND):
        stop = min(start + ROUND, out.size)
        part = sums[: stop - start]
        for t in range(part.size):
            part[t] = 0.0
        for k in range(0, n - 3, 4):
            a, b, u, v = (
                by_feature[k, start:stop],
                by_feature[k + 1, start:stop],
                by_feature[k, i],
                by_feature[k + 1, i],
            )
            c, d = by_feature[k + 2, start:stop], by_feature[k + 3, start:stop]
            w, x = by_feature[k + 2, i], by_feature[k + 3, i]
            if kernel.kind == _RBF:
                for t in range(part.size):
                    p, q, r, s = a[t] - u, b[t] - v, c[t] - w, d[t] - x
                    total = multiply_add(q, q, multiply_add(p, p, part[t]))
                    part[t] = multiply_add(s, s, multiply_add(r, r, total))
            else:
                for t in range(part.size):
                    total = multiply_add(v, b[t], multiply_add(u, a[t], part[t]))
                    part[t] = multiply_add(x, d[t], multiply_add(w, c[t], total))
        for k in range(n - n % 4, n):
            a, u = by_feature[k, start:stop], by_feature[k, i]
            for t in range(part.size):
                p = a[t] - u
                part[t] = multiply_add(p, p, part[t]) if kernel.kind == _RBF else multiply_add(u, a[t], part[t])
        _map_chunk(kernel, part, out[start:stop])


@outlined
def _map_chunk(kernel, pairings, out):
    """Write kernel values, given squared distances for RBF and dot products for others, which need no norms."""
    degree, gamma, coef0 = kernel.parameters
    if kernel.kind == _RBF:
        for t in range(out.size):  # minus half of a squared distance is a dot product of centred samples of norm 0
            out[t] = kernel_value(RBF(gamma), pairings[t] * -0.5, 0.0, 0.0)
    elif kernel.kind == _POLYNOMIAL:
        for t in range(out.size):
            out[t] = kernel_value(Polynomial(degree, coef0, gamma), pairings[t], 0.0, 0.0)
    elif kernel.kind == _SIGMOID:
        for t in range(out.size):
            out[t] = kernel_value(Sigmoid(gamma, coef0), pairings[t], 0.0, 0.0)
    else:
        for t in range(out.size):
            out[t] = pairings[t]
