"""Application of a kernel's scalar map to blocks of pairings. k(x, z) and k(z, x) have the same bits."""

from typing import Any

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import maximum, minimum
from fastsvm.kernels import kernel_value

__all__ = ["ROUND", "in_precision", "map_rest", "map_tile", "rounds_and_rest"]


def in_precision(kernel: Any, dtype: np.dtype) -> Any:
    """Return `kernel` with real parameters of type `dtype`, so that the map computes in that type."""
    real = np.dtype(dtype).type
    return type(kernel)(*(value if isinstance(value, int) else real(value) for value in kernel))


CHUNK = 32
"""Pairings mapped at once. For fewer, LLVM may use other instructions, whose roots and quotients may differ."""
ROUND = 128
"""Pairings mapped without a copy: a multiple of `CHUNK`, and of the width of vectorised loops, which need no rest."""


@jit
def map_chunks(kernel, pairings, sq_x, sq_z, out):
    """Write k for pairings whose number is a multiple of `CHUNK`."""
    for start in range(0, out.size, CHUNK):
        for i in range(start, start + CHUNK):
            out[i] = kernel_value(kernel, pairings[i], minimum(sq_x, sq_z[i]), maximum(sq_x, sq_z[i]))


@jit
def rounds_and_rest(n):
    """Return how many of n pairings fill whole rounds, and the number of the rest padded to whole chunks."""
    many = n // ROUND * ROUND
    return many, -(-(n - many) // CHUNK) * CHUNK


@jit
def map_rest(kernel, pairings, sq_x, sq_z, values, out):
    """Write k of the first pairings to `out`; `values` is a buffer for whole chunks."""
    map_chunks(kernel, pairings, sq_x, sq_z, values)
    for i in range(out.size):
        out[i] = values[i]


@jit
def map_tile(kernel, tile, sq_x, sq_z, out, slots, start):
    """Write k of the first pairings of each row of `tile` to the rows `slots` of `out`, from column `start` on.

    The smaller of two squared norms comes first, so that k(x, z) and k(z, x) have the same bits although LLVM may
    reorder the sum of the norms.
    """
    n = sq_z.size
    many, padded = rounds_and_rest(n)
    pairings, norms, values = np.zeros(padded, tile.dtype), np.zeros(padded, sq_z.dtype), np.empty(padded, out.dtype)
    for i in range(many, n):
        norms[i - many] = sq_z[i]
    for s in range(tile.shape[0]):
        source = tile[s]
        target = out[slots[s], start : start + n]
        for i in range(many):
            target[i] = kernel_value(kernel, source[i], minimum(sq_x[s], sq_z[i]), maximum(sq_x[s], sq_z[i]))
        if many < n:
            for i in range(many, n):
                pairings[i - many] = source[i]
            map_rest(kernel, pairings, sq_x[s], norms, values, target[many:])
