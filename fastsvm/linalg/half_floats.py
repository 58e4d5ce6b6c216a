"""Values in float16 as float32: NumPy takes longer for them than for a product with a few weights.

The bits of exponent and mantissa are moved to their places in float32, and the exponent is raised by the difference of
the offsets, 112; that of infinity and NaN twice. A number below the normal ones is given the least exponent, whose
value is subtracted from it, which is exact.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.processor import JIT_DISABLED

__all__ = ["as_float32"]

_PIECE = 8192  # values that stay in the processor's cache between the two loops


_MAGNITUDE, _NORMAL, _INFINITE = np.uint32(0x7FFF), np.uint32(0x0400), np.uint32(0x7C00)
_BELOW, _OFFSET, _BEYOND = np.uint32(113 << 23), np.uint32(112 << 23), np.uint32(224 << 23)
_MANTISSA, _SIGN = np.uint32(13), np.uint32(16)
_LEAST, _ZERO = np.float32(2.0**-14), np.float32(0)


@jit
def _widen(halves, bits, values):
    """Write numbers, given by their bits in float16, to `values`, whose bits are `bits`."""
    for first in range(0, halves.size, _PIECE):
        part, out, real = halves[first : first + _PIECE], bits[first : first + _PIECE], values[first : first + _PIECE]
        for i in range(part.size):
            number = np.uint32(part[i]) & _MAGNITUDE
            offset = _BELOW if number < _NORMAL else (_BEYOND if number >= _INFINITE else _OFFSET)
            out[i] = (number << _MANTISSA) + offset
        for i in range(part.size):
            real[i] -= _LEAST if (np.uint32(part[i]) & _MAGNITUDE) < _NORMAL else _ZERO
        for i in range(part.size):
            out[i] |= (np.uint32(part[i]) & ~_MAGNITUDE) << _SIGN


def as_float32(values: np.ndarray) -> np.ndarray:
    """Return an array of float16 as a C-contiguous one of float32."""
    if JIT_DISABLED:
        return values.astype(np.float32, order="C")
    found = np.empty(values.shape, np.float32)
    flat = found.reshape(-1)
    _widen(np.ascontiguousarray(values).reshape(-1).view(np.uint16), flat.view(np.uint32), flat)
    return found
