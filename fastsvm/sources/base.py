"""What a source of rows is, and one reader ahead of the computation."""

import hashlib
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fastsvm.sources.block import Block

__all__ = ["Reads", "Source", "read_ahead"]


_PATIENCE = 2.0  # seconds: who lets a garbage collector end this, inside the lock of HDF5, would wait for ever


@dataclass
class Reads:
    """How much was read from storage, by all readers of a source.

    Attributes
    ----------
    nbytes : int
        Bytes read; nothing is counted for rows that were in memory.
    seconds : float
        Time in the calls that read.
    """

    nbytes: int = 0
    seconds: float = 0.0

    def timed(self, read: Callable[[], Block]) -> Block:
        """Call `read` and count what it returns."""
        begin = time.perf_counter()
        block = read()
        self.seconds += time.perf_counter() - begin
        self.nbytes += block.nbytes
        return block


class Source(ABC):
    """Rows of a data set, wherever they are.

    A source is described by arrays, or by a path and names: it can be pickled, and a process that receives
    it opens the file anew.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and features.
    dtype : numpy.dtype
        Type of the values as they are stored.
    sparse : bool
        Whether blocks are in compressed sparse row form.
    resident : bool
        Whether the rows are in memory already.
    nbytes : int
        Bytes that the rows take when they are kept in memory as stored.
    block_rows : int
        Rows of a block in `blocks`; whole chunks of a file.
    chunk_rows : int
        Rows that cannot be read one without the others.
    reads : Reads
        Count of what was read from storage.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool = False
    resident: bool = False
    nbytes: int
    block_rows: int
    chunk_rows: int = 1
    reads: Reads

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`."""

    def buffer(self, n_rows: int) -> np.ndarray | None:
        """Return memory into which `read_all` can read so many rows, None if that allocates its own."""
        return None

    def read_all(self, spans: list[tuple[int, int]], out: np.ndarray | None = None) -> Block:
        """Return the rows of some spans, one after another, in `out` if it is given: touching new memory is slow."""
        blocks = [self.read(start, stop) for start, stop in spans]
        if len(blocks) == 1:
            return blocks[0]
        ends = np.cumsum([block.shape[0] for block in blocks])
        parts = ((np.arange(end - block.shape[0], end), block) for end, block in zip(ends, blocks, strict=True))
        return type(blocks[0]).gather(parts, int(ends[-1]))

    @abstractmethod
    def rows(self, indices: np.ndarray) -> Block:
        """Return a copy of the rows `indices`, in that order."""

    @abstractmethod
    def take(self, indices: np.ndarray) -> "Source":
        """Return the source of the rows `indices` alone, in that order."""

    def check_unchanged(self) -> None:
        """Raise ValueError if the file in which the rows are has changed since it was first looked at."""
        return  # rows in memory have no file

    def digest(self) -> str:
        """Return what tells these rows from others: a digest of all that are in memory, or of a file's version."""
        found = hashlib.blake2b(repr((self.shape, str(self.dtype), self.sparse)).encode(), digest_size=16)
        for start, stop in self._told_by():
            for array in self.read(start, stop).arrays:
                found.update(np.ascontiguousarray(array).view(np.uint8))
        return found.hexdigest()

    def _told_by(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of rows by which these are told from others."""
        return self.spans()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def spans(self, most: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the blocks in order, or of smaller ones of `most` rows, if a chunk is not larger."""
        length = self.block_rows
        if most is not None:
            length = min(length, max(1, most // self.chunk_rows) * self.chunk_rows)
        for start in range(0, self.shape[0], length):
            yield start, min(start + length, self.shape[0])

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield the number of its first row with each block of rows, in order."""
        for start, stop in self.spans():
            yield start, self.read(start, stop)

    @abstractmethod
    def in_memory(self) -> "Source":
        """Return the source of the same rows in memory, in the type in which they are stored."""


def read_ahead(items: Iterator[tuple[int, Block]], depth: int = 1) -> Iterator[tuple[int, Block]]:
    """Yield `items`, computed by a thread that is `depth` items ahead.

    One thread and no more: the HDF5 library holds one lock for all of its readers.
    """
    done = object()
    ready: queue.Queue = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def offer(item: object) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def run() -> None:
        try:
            for item in items:
                offer(item)
                if stop.is_set():
                    return
            offer(done)
        except BaseException as error:
            offer(error)

    reader = threading.Thread(target=run, name="fastsvm-reader", daemon=True)
    reader.start()
    try:
        while (item := ready.get()) is not done:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:  # also when the consumer stops early
        stop.set()
        reader.join(_PATIENCE)
