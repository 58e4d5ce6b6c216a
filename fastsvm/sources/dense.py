"""Dense rows that are read into memory of the caller."""

from abc import abstractmethod

import numpy as np

from fastsvm.sources.base import Source
from fastsvm.sources.block import DenseBlock

__all__ = ["DenseSource"]


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
