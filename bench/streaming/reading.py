"""How fast can the file be read at all? Once through, in whole chunks, into memory that is used again.

The first pass finds nothing of it in memory, the second what the system keeps.
"""

import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.streaming.big_file import drop_from_cache
from bench.streaming.process import answer

_AT_ONCE = 4 << 20  # bytes, if chunks are not larger


def measure(told: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of a pass from the disk and of one that follows."""
    path = Path(told["path"])
    with h5py.File(path) as file:
        rows = file["X"]
        chunk_bytes = rows.chunks[0] * rows.shape[1]
        buffer = np.empty((rows.chunks[0] * max(1, _AT_ONCE // chunk_bytes), rows.shape[1]), rows.dtype)
        dropped = drop_from_cache(path)
        first_s, again_s = _pass(rows, buffer), _pass(rows, buffer)
        return {"first_s": first_s, "again_s": again_s, "mb": rows.size / 1e6, "from_disk": dropped}


def _pass(rows: h5py.Dataset, buffer: np.ndarray) -> float:
    begin = time.perf_counter()
    for start in range(0, len(rows), len(buffer)):
        stop = min(start + len(buffer), len(rows))
        rows.read_direct(buffer, np.s_[start:stop], np.s_[: stop - start])
    return time.perf_counter() - begin


if __name__ == "__main__":
    answer(measure)
