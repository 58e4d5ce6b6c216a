"""Values in float16 as float32: NumPy takes longer for them than for a product with a few weights."""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import HAS_HALF_FLOATS, half_as_single

__all__ = ["as_float32", "write_runs_as_float32"]


@jit
def _widen_runs(halves, starts, lengths, values):
    """Write runs of rows, given by their bits in float16, one run after another."""
    place = 0
    for k in range(starts.size):
        for i in range(starts[k], starts[k] + lengths[k]):
            for j in range(halves.shape[1]):
                values[place, j] = half_as_single(halves[i, j])
            place += 1


def write_runs_as_float32(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    """Write runs of rows of a C-contiguous array of float16 to one of float32, one run after another.

    A run begins at a row of `starts` and has a number of rows of `lengths`. `out` may have more rows than all runs.
    """
    if HAS_HALF_FLOATS:
        _widen_runs(values.view(np.uint16), starts, lengths, out)
        return
    places = np.concatenate([np.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)])
    out[: len(places)] = values[places]


def as_float32(values: np.ndarray) -> np.ndarray:
    """Return an array of float16 as a C-contiguous one of float32."""
    found = np.empty(values.shape, np.float32)
    one_row = np.ascontiguousarray(values).reshape(1, -1)
    write_runs_as_float32(one_row, np.zeros(1, np.int64), np.ones(1, np.int64), found.reshape(1, -1))
    return found
