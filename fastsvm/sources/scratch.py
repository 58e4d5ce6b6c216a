"""Rows that are computed once and read many times, in a file without a name.

The file is removed from its folder as soon as it is open, where the system allows it. So its space is free again when
the process ends, however that happens.
"""

import hashlib
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from fastsvm.sources.base import Source
from fastsvm.sources.block import DenseBlock
from fastsvm.sources.dense import DenseSource

__all__ = ["ScratchSource"]


class ScratchSource(DenseSource):
    """Dense rows, computed from those of `origin`, in a temporary file, which `append` fills and `close` removes.

    The file is written in stripes of `width` columns, all by default, one after another, each row by row. Without a
    `folder` it is in that of the system's temporary files. If no file can be made there, OSError names the folder.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: np.dtype | type,
        folder: str | None,
        origin: Source,
        width: int | None = None,
    ) -> None:
        self.shape, self.dtype, self._width = shape, np.dtype(dtype), width or max(1, shape[1])
        self._folder, self._origin = str(Path(folder or tempfile.gettempdir())), origin
        self._lock = threading.Lock()
        try:
            self._file: Any = tempfile.TemporaryFile(prefix="fastsvm-", dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise type(error)(error.errno, f"no scratch file can be made: {error.strerror}", self._folder) from error
        weakref.finalize(self._lock, self._file.close)  # which copies with smaller blocks have, too

    def append(self, rows: np.ndarray) -> None:
        """Write rows, or those of a stripe, after those written before.

        If the disk is full, or fails, OSError names the folder and says how much the file needs.
        """
        left = np.ascontiguousarray(rows, self.dtype).view(np.uint8).reshape(-1).data
        try:
            while len(left):
                left = left[self._file.write(left) :]
        except OSError as error:
            raise type(error)(
                error.errno,
                f"a scratch file of {self.nbytes / 1e6:.0f} MB cannot be written: {error.strerror}. Free some space, "
                "name another folder, raise the memory or ask for fewer features",
                self._folder,
            ) from error

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()

    def _filled(self, spans: list[tuple[int, int]], values: np.ndarray) -> DenseBlock:
        return self.reads.timed(lambda: self._read(spans, values))

    def _read(self, spans: list[tuple[int, int]], values: np.ndarray) -> DenseBlock:
        n, d = self.shape
        for first in range(0, d, self._width):
            columns, place = slice(first, min(d, first + self._width)), 0
            for start, stop in spans:
                rows = slice(place, place + stop - start)
                place += stop - start
                # Rows of a stripe that is not all of the file are scattered in memory.
                part = values[rows] if self._width >= d else np.empty(values[rows, columns].shape, self.dtype)
                self._fill(part, first * n + start * part.shape[1], stop)
                if self._width < d:
                    values[rows, columns] = part
        return DenseBlock(values)

    def _fill(self, part: np.ndarray, first: int, stop: int) -> None:
        """Read values from the `first` of the file on, which belong to rows before `stop`."""
        left = part.view(np.uint8).reshape(-1).data
        with self._lock:  # the position in the file is shared by all threads
            self._file.seek(first * self.dtype.itemsize)
            while len(left):
                count = self._file.readinto(left)
                if not count:
                    raise OSError(f"a scratch file in {self._folder} has lost rows: it ends before row {stop}")
                left = left[count:]

    def digest(self) -> str:
        """Return a digest of what the rows are computed from."""
        origin = self._origin.digest()
        return hashlib.blake2b(repr((self.shape, str(self.dtype), origin)).encode(), digest_size=16).hexdigest()
