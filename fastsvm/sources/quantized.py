"""Rows whose values are quantized to at most 256 levels, such as pixels / 255 or features that are 0 or 1.

Such rows are an affine function of bytes. Their dot products can be computed exactly, as integers, and a copy takes one
byte per value.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.sources.base import MemorySource, Source
from fastsvm.sources.block import Block, CSRBlock, DenseBlock
from fastsvm.tuning import current_tuning

_LEVELS = np.iinfo(np.uint8).max + 1
_FINE = 1e-2  # The tolerance is at most this share of the distance between levels.
_ROUNDING = 4  # It is so many units in the last place of the largest level: values may be rounded several times.
_SAMPLE_ROWS = 63  # So many rows tell levels of values.


class Quantization(NamedTuple):
    """The affine map from bytes b to values, offset + scale b; offset is 0 if all values are multiples of the scale."""

    scale: float
    offset: float

    def times(self, factor: float) -> "Quantization":
        """Return the map to `factor` times the values."""
        return self if factor == 1 else Quantization(self.scale * factor, self.offset * factor)

    def convert(self, block: Block, pool: Pool) -> DenseBlock | None:
        """Return the bytes of a block, or None if a value is not a level."""
        if self == IDENTITY and isinstance(block, DenseBlock) and block.values.dtype == np.uint8:
            return block
        n, d = block.shape
        out = np.empty((n, d), np.uint8)
        failed: list[int] = []

        def convert(a: int, b: int) -> None:
            if not failed and not self._write(block.slice(a, b), out[a:b]):
                failed.append(a)

        pool.run(convert, spans(n, max(1, current_tuning().storage.piece_bytes // (8 * d))))
        return None if failed else DenseBlock(out)

    def _write(self, block: Block, out: np.ndarray) -> bool:
        if isinstance(block, CSRBlock):
            data = np.empty(len(block.data), np.uint8)
            if not self._invert(block.data, data):
                return False
            CSRBlock(data, block.indices, block.indptr, block.n_features).dense(np.uint8, out)
            return True
        return self._invert(block.values.ravel(), out.ravel())

    def holds(self, block: Block) -> np.ndarray:
        """Return for each row whether all its values are levels."""
        values, holds = block.stored.ravel(), np.zeros(block.shape[0], bool)
        map_ = self._map(values.dtype)
        if map_ is not None:
            _hold(np.ascontiguousarray(values, map_.offset.dtype), block.ends, *map_, holds)
        return holds

    def _invert(self, values: np.ndarray, out: np.ndarray) -> bool:
        map_ = self._map(values.dtype)
        return map_ is not None and bool(_to_bytes(np.ascontiguousarray(values, map_.offset.dtype), *map_, out))

    def _map(self, dtype: np.dtype) -> "_Map | None":
        """Return the map for values of a type, or None if the type is too coarse."""
        real = np.float32 if dtype in (np.float32, np.float16) else np.float64
        slack = 0.0
        if np.frexp(self.scale)[0] != 0.5:  # not a power of two, so values are rounded
            largest = max(abs(self.offset), abs(self.offset + (_LEVELS - 1) * self.scale))
            slack = _ROUNDING * np.finfo(dtype if dtype.kind == "f" else real).eps * largest
            if slack > _FINE * self.scale:
                return None
        return _Map(real(self.offset), real(self.scale), real(slack))


class _Map(NamedTuple):
    """A quantization in the type in which values are computed, with the tolerance for their rounding."""

    offset: np.floating
    scale: np.floating
    slack: np.floating


IDENTITY = Quantization(1.0, 0.0)


def find_quantization(source: Source, pool: Pool) -> tuple[Quantization, Source] | None:
    """Return the quantization of rows and the source of their bytes, or None if the rows are not quantized."""
    if source.of_bytes:
        return IDENTITY, source
    if source.block is None or source.dtype.kind not in "fiu":
        return None
    quantization = _guess(source)  # by some rows; it is checked for every value, up to rounding
    converted = None if quantization is None else quantization.convert(source.block, pool)
    return None if quantization is None or converted is None else (quantization, MemorySource(converted))


def _guess(source: Source) -> Quantization | None:
    """Return a quantization that fits the values of some rows, or None."""
    rows = np.unique(np.linspace(0, len(source) - 1, _SAMPLE_ROWS).astype(np.int64))
    block = source.rows(rows)
    with np.errstate(invalid="ignore"):
        values = np.unique(block.stored.astype(np.float64))
    if source.sparse:
        values = np.union1d(values, [0.0])
    if not 2 <= len(values) <= _LEVELS or not np.isfinite(values).all():
        return None
    low, high = values[0], values[-1]
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
        steps, inverse = width / np.diff(values).min(), 1 / width
    if not (steps < _LEVELS and np.isfinite(inverse) and np.isfinite(width)):
        return None
    scale = width / max(1, round(steps))
    if abs(1 / scale - round(1 / scale)) < 1e-4:  # pixels / 255: the exact scale, without the rounding of the values
        scale = 1 / round(1 / scale) if scale < 1 else scale
    if low >= 0 and abs(low / scale - round(low / scale)) < 1e-3 and high / scale < _LEVELS - 0.5:
        low = 0.0
    elif source.sparse:
        return None
    return Quantization(float(scale), float(low))


@jit
def _to_bytes(values, offset, scale, slack, out):
    """Write rint((v - offset) / scale) and return whether the map reproduces all values from these bytes."""
    inverse = 1 / scale
    worst, top = slack - slack, slack - slack + 255
    half = top / 510
    for i in range(values.size):
        level = np.floor((values[i] - offset) * inverse + half)
        level = min(max(level, worst), top)
        out[i] = np.uint8(np.int32(level))
    exact = 0
    for i in range(values.size):
        exact += abs(offset + scale * out[i] - values[i]) <= slack
    return exact == values.size


@jit
def _hold(values, bounds, offset, scale, slack, out):
    """Write whether the map takes all values between two bounds back to themselves."""
    longest = 0
    for i in range(out.size):
        longest = max(longest, bounds[i + 1] - bounds[i])
    levels = np.empty(longest, np.uint8)
    for i in range(out.size):
        row = values[bounds[i] : bounds[i + 1]]
        out[i] = _to_bytes(row, offset, scale, slack, levels[: row.size])
