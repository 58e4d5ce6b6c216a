"""Memory that a thread reuses for every tile, because touching new memory is expensive.

Helpers of a pool take over what others have given back. So there is as much of it as threads work at once, however many
take turns.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fastsvm._compiled.processor import VECTOR_BYTES
from fastsvm.tuning import current_tuning

__all__ = ["borrowed_scratch", "scratch_array"]


_own = threading.local()
_free: list[dict[str, np.ndarray]] = []  # what helpers have given back


def scratch_array(use: str, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Return an array aligned to a cache line. It is valid until the thread calls this again for the same use."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize
    for length in shape:
        size *= length
    kept = _kept()
    memory = kept.get(use)
    if memory is None or len(memory) < size:
        memory = np.empty(size + VECTOR_BYTES, np.uint8)
        memory = memory[-memory.ctypes.data % VECTOR_BYTES :]
        if size <= current_tuning().storage.block_bytes:
            kept[use] = memory
    return memory[:size].view(dtype).reshape(shape)


def _kept() -> dict[str, np.ndarray]:
    """Return the memory of the calling thread by its use."""
    if not hasattr(_own, "kept"):
        _own.kept = {}
    return _own.kept


@contextmanager
def borrowed_scratch() -> Iterator[None]:
    """Have the calling thread use memory that another has given back, and give it back, too."""
    try:
        _own.kept = _free.pop()  # the last one, which is in the cache
    except IndexError:
        _own.kept = {}
    try:
        yield
    finally:
        _free.append(_own.kept)
        del _own.kept
