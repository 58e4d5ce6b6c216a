"""Dense rows of arrays that are stored in tiles: chunks of HDF5, of Zarr, or none.

A tile that is compressed is unpacked as a whole, whatever part of it is read. So rows are read in whole tiles if a few
of these are a small part of the memory. Else one pass copies them to a scratch file. Parts of other tiles are read.
"""

import math
import tempfile
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastsvm.sources.base import Kind, Source, digest_of
from fastsvm.sources.block import DenseBlock
from fastsvm.tuning import StorageTuning


class DenseSource(Source):
    """Dense rows elsewhere than in memory, of which a subclass fills arrays in `_filled`."""

    @abstractmethod
    def _filled(self, spans: list[tuple[int, int]], values: np.ndarray) -> DenseBlock:
        """Return the rows of some spans, one after another, in an array of their shape, and count what was read."""

    def read(self, start: int, stop: int) -> DenseBlock:
        """Return rows `start` to `stop`."""
        return self.read_all([(start, stop)])

    def buffer(self, n_rows: int) -> np.ndarray:
        """Return memory for so many rows."""
        return np.empty((n_rows, self.shape[1]), self.dtype)

    def read_all(self, spans: list[tuple[int, int]], out: np.ndarray | None = None) -> DenseBlock:
        """Return the rows of some spans, one after another, read into `out` without a copy."""
        n_rows = sum(stop - start for start, stop in spans)
        return self._filled(spans, self.buffer(n_rows) if out is None else out[:n_rows])


class ScratchSource(DenseSource):
    """Dense rows, computed from those of `origin`, in a temporary file, which `append` fills and `close` removes.

    The file is written in stripes of `width` columns, all by default, each row by row.
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
            self._file = tempfile.TemporaryFile(prefix="fastsvm-", dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise type(error)(error.errno, f"no scratch file can be made: {error.strerror}", self._folder) from error
        weakref.finalize(self._lock, self._file.close)  # which copies with smaller blocks have, too

    def append(self, rows: np.ndarray) -> None:
        """Write rows, or those of a stripe, after those before; OSError says how much the file needs."""
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
        return digest_of(repr((self.shape, str(self.dtype), self._origin.digest())))


class TiledSource(DenseSource):
    """Dense rows in tiles. A subclass sets `shape` and `dtype`, calls `_set_tiles`, and defines `_copy` and `place`."""

    tile: tuple[int, int]  # A tile has so many rows and columns.
    is_packed: bool  # A part of a packed tile can only be read with the whole of it.

    @property
    @abstractmethod
    def place(self) -> str:
        """Name of the array, for messages."""

    @abstractmethod
    def _copy(self, start: int, stop: int, columns: tuple[int, int], out: np.ndarray) -> None:
        """Write some columns of rows `start` to `stop` to a contiguous array."""

    def _timed(self, read: Callable[[], Kind], start: int, stop: int) -> Kind:
        """Return what `read` returns of rows `start` to `stop`, and count it."""
        return self.reads.timed(read)

    def _set_tiles(self, tile: tuple[int, int] | None, is_packed: bool) -> None:
        """Set what follows from the tiles. None are single rows."""
        n, d = self.shape
        rows, columns = (1, d) if tile is None else tile
        self.tile, self.is_packed = (max(1, min(rows, n)), max(1, min(columns, d))), is_packed
        most = block_bytes(self.nbytes, self.tuning)
        self.chunk_rows = self._chunk_rows(most)
        self.block_rows = self.chunk_rows * max(1, most // (self.chunk_rows * self.row_bytes))

    def _chunk_rows(self, most_bytes: int) -> int:
        """Return the number of rows that are read together in blocks of at most so many bytes."""
        rows = self.tile[0]
        return rows if self.is_packed or rows * self.row_bytes <= most_bytes else 1

    def in_blocks(self, most_bytes: int) -> Source:
        """Return the source with blocks of at most `most_bytes`; those of packed tiles have whole tiles."""
        return Source.in_blocks(self.changed(chunk_rows=self._chunk_rows(most_bytes)), most_bytes)

    def within(self, memory: int) -> Source:
        """Return the source with small blocks; a scratch file has its rows if too many of them are packed together."""
        (rows, columns), n = self.tile, len(self)
        most = memory // self.tuning.window_share
        if not self.is_packed or rows * self.row_bytes <= most:
            return super().within(memory)
        tile_bytes = rows * columns * self.dtype.itemsize
        check_unpacked(self.place, self.tile, tile_bytes, memory, self.tuning)
        width = min(self.shape[1], max(1, most // tile_bytes) * columns)
        scratch = ScratchSource(self.shape, self.dtype, None, self, width)
        for first in range(0, self.shape[1], width):
            for start in range(0, n, rows):
                scratch.append(self._part(start, min(n, start + rows), (first, min(self.shape[1], first + width))))
        self.check_unchanged()
        return scratch.within(memory)

    def _part(self, start: int, stop: int, columns: tuple[int, int]) -> np.ndarray:
        """Return some columns of some rows."""
        out = np.empty((stop - start, columns[1] - columns[0]), self.dtype)
        return self._timed(lambda: self._tiles([(start, stop)], columns, out), start, stop).values

    def _filled(self, spans: list[tuple[int, int]], values: np.ndarray) -> DenseBlock:
        return self._timed(lambda: self._tiles(spans, (0, self.shape[1]), values), spans[0][0], spans[-1][1])

    def _tiles(self, spans: list[tuple[int, int]], columns: tuple[int, int], out: np.ndarray) -> DenseBlock:
        """Write some columns of the rows of some spans to `out`."""
        (rows, width), itemsize, place = self.tile, self.dtype.itemsize, 0
        # Columns of a tile that a cache does not hold are read apart, each of them contiguous.
        is_narrow = width < columns[1] - columns[0] and rows * width * itemsize > self.tuning.piece_bytes
        length = rows if self.is_packed else max(1, self.tuning.piece_bytes // (width * itemsize))
        for start, stop in spans:
            part = out[place : place + stop - start]
            place += stop - start
            if not is_narrow:
                if part.size:
                    self._copy(start, stop, columns, part)
                continue
            for first in range(*columns, width):
                last = min(first + width, columns[1])
                for a in range(start, stop, length):
                    b = min(a + length, stop)
                    piece = np.empty((b - a, last - first), self.dtype)
                    self._copy(a, b, (first, last), piece)
                    part[a - start : b - start, first - columns[0] : last - columns[0]] = piece
        return DenseBlock(out)


class SlicedSource(TiledSource):
    """Rows of an object that is sliced, such as an array of Zarr; with `flat`, axes after the first are features."""

    ahead = True

    def __init__(self, array: Any, flat: bool = False) -> None:
        self._array, self._lock = array, threading.Lock()
        if len(array.shape) != 2 and not (flat and len(array.shape) > 2):
            raise ValueError(f"{self.place} must have 2 dimensions, it has shape {tuple(array.shape)}.")
        dtype = _type_of(array)
        if dtype is None or dtype.kind not in "biuf":
            raise ValueError(f"{self.place} must hold numbers, it holds {array.dtype}.")
        self.shape, self.dtype = (int(array.shape[0]), math.prod(map(int, array.shape[1:]))), stored_type(dtype)
        chunks = getattr(array, "chunks", None)
        if not isinstance(chunks, tuple):
            self._set_tiles(None, is_packed=False)
        else:  # numbers, or the lengths of all chunks along each axis; of more axes, columns do not follow each other
            columns = int(np.max(chunks[1])) if len(array.shape) == 2 else self.shape[1]
            self._set_tiles((int(np.max(chunks[0])), columns), is_packed=True)

    @property
    def place(self) -> str:
        """Name of the array, for messages."""
        return f"X, a {type(self._array).__name__},"

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def _copy(self, start: int, stop: int, columns: tuple[int, int], out: np.ndarray) -> None:
        with self._lock:  # the object may not know of threads
            rows = slice(start, stop)
            is_whole = out.shape[1] == self.shape[1] or len(self._array.shape) > 2
            values = self._array[rows] if is_whole else self._array[rows, slice(*columns)]
            if np.ma.is_masked(values):
                raise ValueError(f"{self.place} contains masked values in rows {start} to {stop}; fill or remove them.")
            values = np.asarray(values)
            out[:] = values if values.ndim == 2 else values.reshape(stop - start, self.shape[1])[:, slice(*columns)]


def check_unpacked(place: str, tile: tuple[int, ...], nbytes: int, memory: int, tuning: StorageTuning) -> None:
    """Raise ValueError if the memory does not suffice to unpack a tile of so many bytes."""
    if nbytes > memory // tuning.loaded_share:
        raise ValueError(
            f"{place} is stored in chunks of {' x '.join(f'{length:,}' for length in tile)} values. Each is unpacked "
            f"whole, which takes {nbytes / 1e6:.4g} MB, and memory is {memory / 1e6:.4g} MB. Raise it to "
            f"{-(-tuning.loaded_share * nbytes // 10**6)} MB, or write the samples again in smaller chunks."
        )


def block_bytes(nbytes: int, tuning: StorageTuning) -> int:
    """Return the size of a block: large enough for full speed, but a small part of all rows."""
    return min(tuning.block_bytes, nbytes // tuning.least_blocks)


def stored_type(dtype: np.dtype) -> np.dtype:
    """Return the type in which numbers are read: bytes for bools, float64 for longer types, else their own."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float64) if dtype.kind == "f" and dtype.itemsize > 8 else dtype.newbyteorder("=")


def is_sliceable(X: object) -> bool:
    """Return whether X is sliced by rows and is neither an array in memory nor a table."""
    if isinstance(X, np.ndarray) or sparse.issparse(X) or not hasattr(X, "__getitem__"):
        return False
    if hasattr(X, "iloc") or hasattr(X, "__array_interface__") or hasattr(X, "__dlpack__"):
        return False
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(length, (int, np.integer)) for length in shape):
        return False
    return _type_of(X) is not None


def _type_of(array: object) -> np.dtype | None:
    """Return the type of the values of an array, None if NumPy does not know it."""
    dtype = getattr(array, "dtype", None)
    dtype = getattr(dtype, "numpy_dtype", dtype)
    try:
        return None if dtype is None else np.dtype(dtype)
    except TypeError:
        return None
