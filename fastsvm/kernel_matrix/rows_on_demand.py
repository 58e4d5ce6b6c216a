"""Kernel rows of a small problem inside compiled code: those of a matrix, or computed when they are first used.

A step of a solver on a hundred rows takes less time than one call from Python. So the solver of a small problem is one
call, which computes kernel rows itself. Samples are stored feature by feature, so that all values of a row are computed
side by side. Squared distances are sums of squared differences, which need no norms and cancel nothing.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.generic import generic
from fastsvm._compiled.scalars import maximum, minimum, multiply_add
from fastsvm.kernels import Kernel, kernel_value

__all__ = [
    "PADDING",
    "KernelSquare",
    "Samples",
    "diagonal_value",
    "kernel_row",
    "n_computed",
    "rows_among",
    "samples_of",
]

_DOT, _SQ_DISTANCE, _MANHATTAN = range(3)
_CHUNK = 128  # values of a row that are computed side by side; a multiple of `PADDING`

PADDING = 16
"""A row is padded to a multiple of so many values, so that none is computed by itself."""


class KernelSquare(NamedTuple):
    """All kernel values among some rows, shape (n, n)."""

    values: np.ndarray


class Samples(NamedTuple):
    """Samples, shape (n, d), and the kernel whose values among them are computed when needed."""

    kernel: Any
    pairing: int
    values: np.ndarray


class RowsOnDemand(NamedTuple):
    """Kernel rows, each computed when it is first used.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    pairing : int
        What of two samples the kernel takes.
    by_feature : ndarray, shape (d, n) with padded rows
        The samples.
    sq_norms : ndarray, shape of a padded row
        Their squared norms, zeros unless the kernel takes dot products.
    store : ndarray
        Computed rows, in the order of their first use, padded.
    slot_of : ndarray of int64, shape (n + 1,)
        Slot of each row in the store or -1, and last the number of computed rows.
    """

    kernel: Any
    pairing: int
    by_feature: np.ndarray
    sq_norms: np.ndarray
    store: np.ndarray
    slot_of: np.ndarray


def samples_of(kernel: Kernel, values: np.ndarray) -> Samples:
    """Return samples, float64 of shape (n, d), for a kernel whose parameters are float64."""
    pairing = _DOT if kernel.pairing == "dot" else _MANHATTAN
    return Samples(kernel, _SQ_DISTANCE if pairing == _DOT and kernel.translation_invariant else pairing, values)


@generic
def rows_among(given: KernelSquare | Samples, places: np.ndarray, memory: np.ndarray) -> Any:
    """Return the kernel rows among the samples `places`. `memory` takes `len(places)` padded rows of float64."""
    raise NotImplementedError


@generic
def kernel_row(rows: KernelSquare | RowsOnDemand, i: int) -> np.ndarray:
    """Return kernel row i."""
    raise NotImplementedError


@generic
def diagonal_value(rows: KernelSquare | RowsOnDemand, i: int) -> float:
    """Return the kernel of sample i with itself."""
    raise NotImplementedError


@generic
def n_computed(rows: KernelSquare | RowsOnDemand) -> int:
    """Return how many rows were computed."""
    raise NotImplementedError


@n_computed.register(KernelSquare)
def _size_of_square(rows):
    return rows.values.shape[0]


@kernel_row.register(KernelSquare)
def _row_of_square(rows, i):
    return rows.values[i]


@diagonal_value.register(KernelSquare)
def _diagonal_of_square(rows, i):
    return rows.values[i, i]


@rows_among.register(KernelSquare)
def _part_of_square(given, places, memory):
    n = places.size
    part = memory[: n * n].reshape(n, n)
    for i in range(n):
        source, target = given.values[places[i]], part[i]
        for k in range(n):
            target[k] = source[places[k]]
    return KernelSquare(part)


@kernel_row.register(RowsOnDemand)
def _row_on_demand(rows, i):
    slot, n = rows.slot_of[i], rows.slot_of.size - 1
    if slot < 0:
        slot = rows.slot_of[n]
        rows.slot_of[i] = slot
        rows.slot_of[n] = slot + 1
        _compute(rows, i, rows.store[slot])
    return rows.store[slot, :n]


@n_computed.register(RowsOnDemand)
def _used_slots(rows):
    return rows.slot_of[rows.slot_of.size - 1]


@diagonal_value.register(RowsOnDemand)
def _diagonal_on_demand(rows, i):
    square = rows.sq_norms[i]
    return kernel_value(rows.kernel, square, square, square)


@rows_among.register(Samples)
def _none_yet(given, places, memory):
    n, d = places.size, given.values.shape[1]
    width = -(-n // PADDING) * PADDING
    by_feature, sq_norms, slot_of = np.zeros((d, width)), np.zeros(width), np.full(n + 1, -1)
    slot_of[n] = 0
    for i in range(n):
        row = given.values[places[i]]
        for k in range(d):
            by_feature[k, i] = row[k]
            if given.pairing == _DOT:
                sq_norms[i] += row[k] * row[k]
    store = memory[: n * width].reshape(n, width)
    return RowsOnDemand(given.kernel, given.pairing, by_feature, sq_norms, store, slot_of)


@jit
def _compute(rows, i, out):
    """Write kernel row i."""
    sums = np.empty(_CHUNK)
    sq_norm = rows.sq_norms[i]
    for start in range(0, out.size, _CHUNK):
        stop = min(start + _CHUNK, out.size)
        part = sums[: stop - start]
        part[:] = 0.0
        _add_features(rows, i, start, part)
        if rows.pairing == _SQ_DISTANCE:  # as a dot product of centred rows of norm 0
            for t in range(part.size):
                part[t] *= -0.5
        target, norms = out[start:stop], rows.sq_norms[start:stop]
        for t in range(part.size):
            target[t] = kernel_value(rows.kernel, part[t], minimum(sq_norm, norms[t]), maximum(sq_norm, norms[t]))


@jit
def _add_features(rows, i, start, sums):
    """Add the pairings of sample i with the samples from `start` on, in the order of the features.

    Four features at a time, so that sums are loaded and stored a quarter as often.
    """
    n, stop, k = rows.by_feature.shape[0], start + sums.size, 0
    while k + 4 <= n:
        a, b = rows.by_feature[k, start:stop], rows.by_feature[k + 1, start:stop]
        c, d = rows.by_feature[k + 2, start:stop], rows.by_feature[k + 3, start:stop]
        u, v = rows.by_feature[k, i], rows.by_feature[k + 1, i]
        w, x = rows.by_feature[k + 2, i], rows.by_feature[k + 3, i]
        if rows.pairing == _DOT:
            for t in range(sums.size):
                total = multiply_add(v, b[t], multiply_add(u, a[t], sums[t]))
                sums[t] = multiply_add(x, d[t], multiply_add(w, c[t], total))
        elif rows.pairing == _SQ_DISTANCE:
            for t in range(sums.size):
                p, q, r, s = a[t] - u, b[t] - v, c[t] - w, d[t] - x
                sums[t] = multiply_add(s, s, multiply_add(r, r, multiply_add(q, q, multiply_add(p, p, sums[t]))))
        else:
            for t in range(sums.size):
                sums[t] += abs(a[t] - u) + abs(b[t] - v) + (abs(c[t] - w) + abs(d[t] - x))
        k += 4
    for k in range(n - n % 4, n):
        a, u = rows.by_feature[k, start:stop], rows.by_feature[k, i]
        if rows.pairing == _DOT:
            for t in range(sums.size):
                sums[t] = multiply_add(u, a[t], sums[t])
        elif rows.pairing == _SQ_DISTANCE:
            for t in range(sums.size):
                p = a[t] - u
                sums[t] = multiply_add(p, p, sums[t])
        else:
            for t in range(sums.size):
                sums[t] += abs(a[t] - u)
