"""A view of some rows of a source that is not in memory."""

import hashlib
from collections.abc import Iterator

import numpy as np

from fastsvm.sources.base import Source, read_ahead
from fastsvm.sources.block import Block

__all__ = ["SubsetSource"]


class SubsetSource(Source):
    """The rows `indices` of another source, in that order.

    A block is a range of the subset's rows. With increasing `indices`, a pass reads the other source in order.

    Parameters
    ----------
    source : Source
        The source of all rows.
    indices : ndarray of int64, shape (n,)
        Row numbers.
    """

    def __init__(self, source: Source, indices: np.ndarray) -> None:
        self.source = source
        self.indices = np.asarray(indices, dtype=np.int64)
        self.shape = (len(self.indices), source.shape[1])
        self.dtype = source.dtype
        self.sparse = source.sparse
        self.resident = source.resident
        self.nbytes = source.nbytes * len(self.indices) // max(1, len(source))
        self.block_rows = source.block_rows
        self.reads = source.reads

    def read(self, start: int, stop: int) -> Block:
        """Return rows `start` to `stop`."""
        return self.source.rows(self.indices[start:stop])

    def rows(self, indices: np.ndarray) -> Block:
        """Return a copy of the rows `indices`."""
        return self.source.rows(self.indices[indices])

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield each block after the number of its first row. Blocks on disk are read one block ahead."""
        return super().blocks() if self.resident else read_ahead(super().blocks())

    def take(self, indices: np.ndarray) -> "SubsetSource":
        """Return the source of the rows `indices` of this subset."""
        return SubsetSource(self.source, self.indices[indices])

    def digest(self) -> str:
        """Return a digest of the source and of the row numbers."""
        found = hashlib.blake2b(self.source.digest().encode(), digest_size=16)
        found.update(self.indices.view(np.uint8).data)
        return found.hexdigest()

    def check_unchanged(self) -> None:
        """Raise ValueError if the file with the rows has changed since the source was made."""
        self.source.check_unchanged()
