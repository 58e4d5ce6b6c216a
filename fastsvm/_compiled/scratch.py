"""Memory that a thread reuses for every tile, because touching new memory is expensive."""

import threading

import numpy as np

__all__ = ["scratch_array"]

_LINE = 64  # bytes of a cache line
_CACHED_BYTES = 4 << 20  # for each use, in each thread

_own = threading.local()


def scratch_array(use: str, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Return an array aligned to a cache line. It is valid until the thread calls this again for the same use."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize
    for length in shape:
        size *= length
    memory = getattr(_own, use, None)
    if memory is None or len(memory) < size:
        memory = np.empty(size + _LINE, np.uint8)
        memory = memory[-memory.ctypes.data % _LINE :]
        if size <= _CACHED_BYTES:
            setattr(_own, use, memory)
    return memory[:size].view(dtype).reshape(shape)
