"""Rows in memory: dense arrays and SciPy's compressed sparse rows, in the type in which they are stored."""

import numpy as np
from scipy import sparse

from fastsvm._compiled.writeable import writeable
from fastsvm.sources.base import Reads, Source
from fastsvm.sources.block import Block, CSRBlock, DenseBlock

__all__ = ["MemorySource"]

_BLOCK_ROWS = 4096  # large enough that work once per block, such as preparing support vectors, is cheap


class MemorySource(Source):
    """Rows in memory.

    Parameters
    ----------
    block : DenseBlock or CSRBlock
        All the rows.
    """

    resident = True

    def __init__(self, block: Block) -> None:
        self.block = block
        self.shape = block.shape
        self.sparse = isinstance(block, CSRBlock)
        self.dtype = block.stored.dtype
        self.nbytes = block.nbytes
        self.block_rows = _BLOCK_ROWS
        self.reads = Reads()

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

    def rows(self, indices: np.ndarray) -> Block:
        """Return a copy of the rows `indices`."""
        return self.block.take(indices)

    def in_memory(self) -> "MemorySource":
        """Return the source itself."""
        return self

    def take(self, indices: np.ndarray) -> "MemorySource":
        """Return the source of a copy of the rows `indices`."""
        return MemorySource(self.block.take(indices))
