"""An affine view of a source: (x - shift) * scale for each feature."""

import numpy as np

from fastsvm.sources.base import Source, View
from fastsvm.sources.block import Block, CSRBlock, DenseBlock
from fastsvm.sources.statistics import feature_statistics


class ScaledSource(View):
    """The rows of another source, shifted and scaled when a block is read; that source is not changed and not copied.

    `shift` is subtracted from each row, shape (n_features,). The row is then multiplied by `scale`, of that shape or
    one number. With None as shift, zeros stay zero and sparse rows stay sparse. With a shift, the blocks of a sparse
    source are dense. `dtype` is the type of the scaled rows.
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

    @classmethod
    def standardized(
        cls, source: Source, dtype: np.dtype | type = np.float32, weight: np.ndarray | None = None
    ) -> "ScaledSource":
        """Return the view in which every feature has mean 0 and variance 1, after one pass over `source`.

        Mean and variance are weighted by `weight`. Constant features are only shifted, sparse sources only scaled.
        """
        uniform = weight is None or (weight == weight[0]).all()
        statistics = feature_statistics(source, None if uniform else weight)
        return cls(source, None if source.sparse else statistics.mean, statistics.scale(len(source)), dtype)

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
        return self._digest_with(self.scale, *([] if self.shift is None else [self.shift]))

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
