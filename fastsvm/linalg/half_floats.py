"""Values in float16 as float32: NumPy takes longer for them than for a product with a few weights."""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import HAS_HALF_FLOATS, half_as_single

__all__ = ["as_float32", "write_float32"]


@jit
def _widen(halves, values):
    """Write numbers, given by their bits in float16, to `values`."""
    for i in range(halves.size):
        values[i] = half_as_single(halves[i])


def write_float32(values: np.ndarray, out: np.ndarray) -> None:
    """Write a C-contiguous array of float16 to one of float32."""
    if HAS_HALF_FLOATS:
        _widen(values.reshape(-1).view(np.uint16), out.reshape(-1))
    else:
        out[...] = values


def as_float32(values: np.ndarray) -> np.ndarray:
    """Return an array of float16 as a C-contiguous one of float32."""
    found = np.empty(values.shape, np.float32)
    write_float32(np.ascontiguousarray(values), found)
    return found
