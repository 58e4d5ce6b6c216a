"""`Source`, the interface of all sources of rows; those in memory, and views of others: some rows, or scaled ones."""

import hashlib
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from scipy.sparse import csr_matrix

from fastsvm._compiled.compiler import writeable
from fastsvm.sources.block import Block, CSRBlock, DenseBlock
from fastsvm.tuning import StorageTuning, current_tuning

Item = TypeVar("Item")
Kind = TypeVar("Kind", bound=Block)
AHEAD = 2
"""So many items are computed ahead."""
_COUNTED, _COUNTED_ROWS = 1 << 17, 64  # Zeros are counted in some more values and rows than these.
_PATIENCE = 2.0  # Seconds to wait for the reader: a garbage collection within the lock of HDF5 would wait for ever.


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield `items`, which a thread computes ahead: one waits, and the next is begun."""
    done = object()
    reader = ThreadPoolExecutor(1, thread_name_prefix="fastsvm-reader")  # HDF5 has one lock for all readers
    coming: deque[Future] = deque()
    try:
        coming.extend(reader.submit(next, items, done) for _ in range(AHEAD))
        while (item := coming[0].result()) is not done:
            coming.popleft()
            coming.append(reader.submit(next, items, done))
            yield item
    finally:  # also if the consumer stops early
        running = [one for one in coming if not one.cancel()]
        reader.shutdown(wait=not wait(running, _PATIENCE).not_done)


@dataclass
class Reads:
    """Bytes that all readers of a source read from storage, not memory, and the seconds in the calls that read."""

    nbytes: int = 0
    seconds: float = 0.0

    def timed(self, read: Callable[[], Kind]) -> Kind:
        """Call `read` and count its time and the bytes that it returns."""
        begin = time.perf_counter()
        block = read()
        self.seconds += time.perf_counter() - begin
        self.nbytes += block.nbytes
        return block


def digest_of(words: str, arrays: Iterable[np.ndarray] = ()) -> str:
    """Return a digest of text and of the values of arrays."""
    digest = hashlib.blake2b(words.encode(), digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


class Origin(NamedTuple):
    """What a table or a text of samples called them. Models remember it, because rows to predict are read like them."""

    first_index: int | None = None  # It is the index of the first feature in svmlight text, 0 or 1.
    sure: bool = False  # It says whether the text itself, or the user, said so.
    label: str | None = None  # It names the column of the labels.
    id: str | None = None  # It names the column that identifies the rows.


class Source(ABC):
    """Rows of a data set, in memory or elsewhere.

    A subclass sets `shape` and `dtype` and defines `read`. All other methods have defaults; override those that the
    storage can do faster. A source can be pickled without an open handle: the receiving process opens the file again.
    """

    shape: tuple[int, int]
    dtype: np.dtype  # Values are stored in this type.
    sparse: bool = False  # Blocks of sparse sources are in compressed sparse row form.
    resident: bool = False  # The rows of a resident source are in memory already.
    block: Block | None = None  # All rows, if they are in memory unscaled.
    held: int = 0  # Bytes of rows that were loaded from a file, which count towards the memory of a fit.
    ahead: bool = False  # A thread reads the blocks of a pass, one ahead.
    chunk_rows: int = 1  # So many rows are read together.
    gathered_share: float = 0.0  # Up to this share of the rows takes less time to gather than all rows to read.
    feature_names: np.ndarray | None = None  # They are str objects, shape (n_features,).
    origin: Origin = Origin()

    @cached_property
    def tuning(self) -> StorageTuning:
        """How much is read at once."""
        return current_tuning().storage

    @cached_property
    def nbytes(self) -> int:
        """Bytes that the rows take in memory."""
        return self.shape[0] * self.shape[1] * np.dtype(self.dtype).itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in the mean, at least 1."""
        return max(1, self.nbytes // max(1, len(self)))

    @property
    def stored_bytes(self) -> int:
        """Bytes that a pass reads from storage: none of rows in memory."""
        return 0 if self.resident else self.nbytes

    @property
    def form(self) -> str:
        """The form of the rows, "CSR" or "dense"."""
        return "CSR" if self.sparse else "dense"

    @property
    def of_bytes(self) -> bool:
        """Whether the rows are dense and of bytes."""
        return self.dtype == np.uint8 and not self.sparse

    @cached_property
    def values_per_row(self) -> float:
        """Stored values of a row in the mean; a sparse one takes its own bytes and those of an int32 index."""
        if not self.sparse:
            return float(self.shape[1])
        return self.nbytes / (np.dtype(self.dtype).itemsize + np.dtype(np.int32).itemsize) / max(1, self.shape[0])

    @property
    def nonzeros_per_row(self) -> float:
        """Values of a row that are not zero, in the mean of some rows; of sparse rows those that are stored."""
        if self.sparse:
            return self.values_per_row
        values = self._some_values()
        values = values[:: max(1, min(len(values) // _COUNTED_ROWS, values.size // _COUNTED))]
        return np.count_nonzero(values != 0) / len(values)  # numpy counts bytes several times as fast

    def _some_values(self) -> np.ndarray:
        """Return the values of some rows: another pass over a file would take as long as an epoch."""
        return next(self.blocks())[1].stored

    @cached_property
    def block_rows(self) -> int:
        """Rows of a block in `blocks`."""
        return max(1, self.tuning.block_bytes * self.shape[0] // max(1, self.nbytes))

    @cached_property
    def reads(self) -> Reads:
        """Count of what was read from storage."""
        return Reads()

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`; a thread that reads ahead may call this."""

    def buffer(self, n_rows: int) -> np.ndarray | None:
        """Return memory for `n_rows` rows, to pass to `read_all`; None if `read_all` allocates its own."""
        return None

    def read_all(self, spans: list[tuple[int, int]], out: np.ndarray | None = None) -> Block:
        """Return the rows of some spans, one after another. Use `out` if given, because touching new memory is slow."""
        blocks = [self.read(start, stop) for start, stop in spans]
        if len(blocks) == 1:
            return blocks[0]
        ends = np.cumsum([block.shape[0] for block in blocks])
        parts = ((np.arange(end - block.shape[0], end), block) for end, block in zip(ends, blocks, strict=True))
        return type(blocks[0]).gather(parts, int(ends[-1]))

    def rows(self, indices: np.ndarray) -> Block:
        """Return a copy of the rows `indices`, in that order. Each block that contains some of them is read once."""
        indices = np.asarray(indices, dtype=np.int64)
        if len(indices) == 0:
            return self.read(0, 0)
        kind = CSRBlock if self.sparse else DenseBlock
        return kind.gather(self._parts(indices), len(indices))

    def _parts(self, indices: np.ndarray) -> Iterator[tuple[np.ndarray, Block]]:
        """Yield the rows `indices` block by block, with their positions in `indices`."""
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        for number in np.unique(wanted // self.block_rows):
            first, last = np.searchsorted(wanted, (number * self.block_rows, (number + 1) * self.block_rows))
            low, high = wanted[first], wanted[last - 1] + 1
            yield order[first:last], self.read(low, high).take(wanted[first:last] - low)

    def take(self, indices: np.ndarray) -> "Source":
        """Return the source of the rows `indices` alone, in that order."""
        return SubsetSource(self, indices)

    def as_passed(self, block: Block) -> np.ndarray | csr_matrix:
        """Return the rows of a block in the kind in which the user passed them: an array or a CSR matrix."""
        return block.user_array()

    def in_blocks(self, most_bytes: int) -> "Source":
        """Return the source with blocks of at most `most_bytes`, or of one chunk; rows in memory have no such bound."""
        n_rows = max(1, most_bytes // self.row_bytes // self.chunk_rows) * self.chunk_rows
        return self if self.resident or n_rows >= self.block_rows else self.changed(block_rows=n_rows)

    def changed(self, **attributes: int) -> "Source":
        """Return the source with other values of some attributes; an open file is shared."""
        source = object.__new__(type(self))  # a copy by pickle's rules would open the file again
        vars(source).update(vars(self), **attributes)
        return source

    def in_memory(self) -> "MemorySource":
        """Return a source of the rows alone in memory, in the type in which they are stored: no names, no origin."""
        return MemorySource(self.read(0, len(self)))

    def as_stored(self) -> tuple["Source", np.ndarray, np.ndarray]:
        """Return the rows as stored, and what is subtracted from and multiplied with them; empty for nothing."""
        return self.in_memory() if self.resident else self, np.empty(0), np.empty(0)

    def loaded(self) -> "Source":
        """Return the source with its rows in memory, as if they had been there before; a scaled view stays one."""
        if self.resident:
            return self
        source = self.in_memory()
        self.check_unchanged()
        source.held = source.nbytes
        return source

    def within(self, memory: int) -> "Source":
        """Return the source for a fit with so much memory, of which blocks of rows are a small part."""
        return self.in_blocks(max(self.tuning.run_bytes, memory // self.tuning.block_share))

    def compressed(self, dtype: np.dtype, most_bytes: int) -> "Source":
        """Return rows in memory in sparse form, if they take at most so many bytes then, and others as they are."""
        return self

    def widen(self, n_features: int) -> None:
        """Let rows that were text have more features, which are 0; others know how many they have."""
        return

    def check_unchanged(self) -> None:
        """Raise ValueError if the file with the rows has changed since the source was made."""
        return  # rows in memory have no file

    def digest(self) -> str:
        """Return a digest of the rows: of all values, or of some values and the size and time of their file."""
        arrays = (array for start, stop in self._digested() for array in self.read(start, stop).arrays)
        return digest_of(repr((self.shape, str(self.dtype), self.sparse)), arrays)

    def _digested(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the rows whose values `digest` uses."""
        return self.spans()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def spans(self, most: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the blocks in order. A block has at most `most` rows, or one chunk."""
        length = self.block_rows
        if most is not None:
            length = min(length, max(1, most // self.chunk_rows) * self.chunk_rows)
        for start in range(0, self.shape[0], length):
            yield start, min(start + length, self.shape[0])

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Return the blocks of rows in order, each after the number of its first row."""
        blocks = ((start, self.read(start, stop)) for start, stop in self.spans())
        return read_ahead(blocks) if self.ahead else blocks

    def whole_blocks(self) -> Iterator[tuple[int, Block]]:
        """Return what `blocks` does, but rows in memory as one block, which is no copy."""
        return self.blocks()

    def sampled(self, rows: np.ndarray, most: int) -> np.ndarray:
        """Return at most `most` of some row numbers: spread ones in memory, the first ones of a file."""
        if len(rows) <= most or not self.resident:
            return rows[:most]
        return rows[np.linspace(0, len(rows) - 1, most).astype(int)]


class MemorySource(Source):
    """Rows in memory, all of them in one block."""

    resident = True
    gathered_share = 0.5

    block: Block

    def __init__(self, block: Block) -> None:
        self.block = block
        self.shape = block.shape
        self.sparse = isinstance(block, CSRBlock)
        self.dtype = block.stored.dtype
        self.nbytes = block.nbytes
        self.values_per_row = block.stored.size / max(1, block.shape[0])
        self.block_rows = self.tuning.resident_rows

    @classmethod
    def of(cls, X: np.ndarray | sparse.csr_matrix | sparse.csr_array) -> "MemorySource":
        """Return the source of the rows of an array or a CSR matrix. They are copied only if needed."""
        if X.dtype.kind == "f" and X.dtype.itemsize > 8:  # unknown to compiled code and to BLAS
            X = X.astype(np.float64)
        if not sparse.issparse(X):
            return cls(DenseBlock(writeable(X)))
        data, indices, indptr, n_features = CSRBlock.of(X)
        return cls(CSRBlock(writeable(data), writeable(indices), writeable(indptr), n_features))

    def read(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`, a view."""
        return self.block.slice(start, stop)

    def whole_blocks(self) -> Iterator[tuple[int, Block]]:
        """Return all rows as one block."""
        yield 0, self.block

    def compressed(self, dtype: np.dtype, most_bytes: int) -> Source:
        """Return the rows in sparse form, if they take at most so many bytes then."""
        n_bytes = (dtype.itemsize + np.dtype(np.int32).itemsize) * self.nonzeros_per_row * len(self)
        return self if self.sparse or n_bytes > most_bytes else MemorySource(self.block.compressed(dtype))

    def _some_values(self) -> np.ndarray:
        return self.block.stored[:: max(1, len(self) // self.tuning.resident_rows)]

    def rows(self, indices: np.ndarray) -> Block:
        """Return a copy of the rows `indices`."""
        return self.block.take(indices)

    def in_memory(self) -> "MemorySource":
        """Return the source itself."""
        return self

    def take(self, indices: np.ndarray) -> "MemorySource":
        """Return the source of a copy of the rows `indices`."""
        return MemorySource(self.block.take(indices))


class View(Source):
    """The rows of another source, some or changed. A subclass sets `shape`, `dtype`, `nbytes` and `values_per_row`."""

    def __init__(self, source: Source) -> None:
        self.source, self.reads, self.ahead = source, source.reads, source.ahead
        self.sparse, self.resident, self.held = source.sparse, source.resident, source.held
        self.feature_names, self.origin = source.feature_names, source.origin
        self.block_rows, self.chunk_rows = source.block_rows, source.chunk_rows

    @abstractmethod
    def _of(self, source: Source) -> "View":
        """Return the same view of another source with the same rows."""

    def check_unchanged(self) -> None:
        """Raise ValueError if the file with the rows has changed since the source was made."""
        self.source.check_unchanged()

    def in_blocks(self, most_bytes: int) -> Source:
        """Return the view with blocks of at most `most_bytes`, or of as many rows as a chunk has."""
        return self._of(self.source.in_blocks(most_bytes))

    def within(self, memory: int) -> "View":
        """Return the view for a fit with so much memory, of which blocks of rows are a small part."""
        return self._of(self.source.within(memory))


class SubsetSource(View):
    """The rows `indices` of another source, in that order; if they increase, a pass reads that source in order."""

    def __init__(self, source: Source, indices: np.ndarray) -> None:
        super().__init__(source)
        self.indices = np.asarray(indices, dtype=np.int64)
        self.shape, self.dtype = (len(self.indices), source.shape[1]), source.dtype
        self.ahead = not source.resident
        self.nbytes = source.nbytes * len(self.indices) // max(1, len(source))
        self.values_per_row = source.values_per_row

    def read(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`."""
        return self.source.rows(self.indices[start:stop])

    def rows(self, indices: np.ndarray) -> Block:
        """Return a copy of the rows `indices`."""
        return self.source.rows(self.indices[indices])

    def take(self, indices: np.ndarray) -> "SubsetSource":
        """Return the source of the rows `indices` of this subset."""
        return SubsetSource(self.source, self.indices[indices])

    def _of(self, source: Source) -> "SubsetSource":
        return SubsetSource(source, self.indices)

    def digest(self) -> str:
        """Return a digest of the source and of the row numbers."""
        return digest_of(self.source.digest(), [self.indices])


class ScaledSource(View):
    """The rows of another source, shifted and scaled when a block is read; that source is not changed and not copied.

    `shift` is subtracted from each row, which is then multiplied by `scale`, a number or of shape (n_features,). With a
    shift, the blocks of a sparse source are dense.
    """

    def __init__(
        self,
        source: Source,
        shift: np.ndarray | None,
        scale: np.ndarray | float,
        dtype: np.dtype | type = np.float32,
    ) -> None:
        super().__init__(source)
        n_features = source.shape[1]
        self.shift = None if shift is None else np.broadcast_to(np.asarray(shift, dtype), n_features)
        self.scale = np.broadcast_to(np.asarray(scale, dtype), n_features)
        self.shape, self.dtype = source.shape, np.dtype(dtype)
        self.sparse = source.sparse and shift is None
        dense = source.shape[0] * source.shape[1] * self.dtype.itemsize
        wider = max(1.0, (self.dtype.itemsize + 4) / (source.dtype.itemsize + 4))
        self.nbytes = int(source.nbytes * wider) if self.sparse else dense
        self.values_per_row = source.values_per_row if self.sparse else float(source.shape[1])

    def as_stored(self) -> tuple[Source, np.ndarray, np.ndarray]:
        """Return dense rows as stored, and shift and scale; sparse ones as they are scaled."""
        if self.source.sparse:
            return super().as_stored()
        shift = np.zeros(self.shape[1]) if self.shift is None else self.shift.astype(np.float64)
        return self.source.as_stored()[0], shift, self.scale.astype(np.float64)

    def streamed_beyond(self, most_bytes: int) -> "ScaledSource":
        """Return the view, as one of rows that are not in memory if a copy of them would take more bytes there."""
        return self.streamed() if self.resident and self.nbytes > most_bytes else self

    def streamed(self) -> "ScaledSource":
        """Return the view as one of rows that are not in memory: they are scaled anew, in blocks of some megabytes."""
        view = ScaledSource(self.source, self.shift, self.scale, self.dtype)
        view.resident = False
        del view.block_rows  # now the default, some megabytes
        return view

    def _scaled(self, block: Block) -> Block:
        if self.shift is None and isinstance(block, CSRBlock):
            data = block.data.astype(self.dtype)
            data *= self.scale[block.indices]
            return block._replace(data=data)
        values = block.dense(self.dtype, np.empty(block.shape, self.dtype))
        if self.shift is not None:
            values -= self.shift
        values *= self.scale
        return DenseBlock(values)

    def read(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`, scaled."""
        return self._scaled(self.source.read(start, stop))

    def buffer(self, n_rows: int) -> np.ndarray | None:
        """Return memory for so many rows as they are stored."""
        return self.source.buffer(n_rows)

    def read_all(self, spans: list[tuple[int, int]], out: np.ndarray | None = None) -> Block:
        """Return the rows of some spans, one after another, scaled."""
        return self._scaled(self.source.read_all(spans, out))

    def rows(self, indices: np.ndarray) -> Block:
        """Return the rows `indices`, scaled."""
        return self._scaled(self.source.rows(indices))

    def take(self, indices: np.ndarray) -> "ScaledSource":
        """Return the scaled view of the rows `indices` alone."""
        return ScaledSource(self.source.take(indices), self.shift, self.scale, self.dtype)

    def digest(self) -> str:
        """Return a digest of the source, its scale and its shift."""
        return digest_of(self.source.digest(), [self.scale, *([] if self.shift is None else [self.shift])])

    def in_blocks(self, most_bytes: int) -> Source:
        """Return the view with smaller blocks, of at most so many bytes when they are scaled."""
        if self.resident != self.source.resident:
            return Source.in_blocks(self, most_bytes)
        return super().in_blocks(max(1, most_bytes * self.source.nbytes // max(1, self.nbytes)))

    def loaded(self) -> "ScaledSource":
        """Return the view of the same rows in memory."""
        return self._of(self.source.loaded())

    def _of(self, source: Source) -> "ScaledSource":
        return self if source is self.source else ScaledSource(source, self.shift, self.scale, self.dtype)
