"""How fast can the file be read? One pass in whole chunks, into memory that is reused.

Before the first pass the file is dropped from the page cache. The second pass finds what the system kept.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.streaming.big_file import drop_from_cache
from bench.workers import Watch

_AT_ONCE = 4 << 20  # bytes, if chunks are not larger


def measure(path: Path, watch: Watch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the seconds of a pass from the disk and of one that follows. There is no answer to judge."""
    with h5py.File(path) as file:
        rows = file["X"]
        chunk_bytes = rows.chunks[0] * rows.shape[1]
        buffer = np.empty((rows.chunks[0] * max(1, _AT_ONCE // chunk_bytes), rows.shape[1]), rows.dtype)
        dropped = drop_from_cache(path)
        first_s, again_s = (watch("reading", lambda: _read(rows, buffer)) for _ in range(2))
        mb = rows.size / 1e6
    return {"seconds": first_s, "first_s": first_s, "again_s": again_s, "mb": mb, "from_disk": dropped}, {}


def _read(rows: h5py.Dataset, buffer: np.ndarray) -> None:
    for start in range(0, len(rows), len(buffer)):
        stop = min(start + len(buffer), len(rows))
        rows.read_direct(buffer, np.s_[start:stop], np.s_[: stop - start])
