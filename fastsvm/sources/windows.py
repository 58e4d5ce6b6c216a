"""Epochs over a source: its rows in random order, window by window."""

from collections.abc import Generator
from contextlib import closing
from itertools import cycle
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.sources.base import AHEAD, Source, read_ahead
from fastsvm.sources.block import Block

_GOLDEN, _FIRST, _SECOND = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Window(NamedTuple):
    """Some rows of an epoch, in the order in which a solver processes them. Valid until the next one is generated."""

    block: Block  # It holds these rows in memory, and perhaps others.
    places: np.ndarray  # They are the positions of the rows in the block.
    rows: np.ndarray  # They are the numbers of the rows in the source.


def whole_epochs(source: Source, rows: np.ndarray, seed: tuple[int, int] | None, count: int) -> Window:
    """Return the `rows` of a source in memory in the order of some epochs, one after the other.

    The second number of the seed is that of the first epoch.
    """
    assert source.block is not None
    numbers = np.concatenate([rows] * count)
    if seed is not None:
        _shuffle(numbers.reshape(count, len(rows)), seed, 0)
    return Window(source.block, numbers, numbers)


def _shuffle(orders: np.ndarray, seed: tuple[int, int], window: int) -> None:
    """Shuffle a window of each epoch in place."""
    with np.errstate(over="ignore"):  # products of the generator overflow, which code that is not compiled says
        _permute(orders, *seed, window)


@jit
def _permute(orders, seed, first, window):
    """Shuffle rows of an array (Fisher and Yates) by SplitMix64 (Steele, Lea and Flood 2014)."""
    for k in range(orders.shape[0]):
        order, state = orders[k], _mixed(_mixed(np.uint64(seed)) + np.uint64(first + k)) + np.uint64(window)
        for i in range(order.size - 1, 0, -1):
            state += _GOLDEN
            other = np.int64((_mixed(state) >> np.uint64(32)) * np.uint64(i + 1) >> np.uint64(32))
            order[i], order[other] = order[other], order[i]


@jit
def _mixed(z):
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def windows(
    source: Source,
    rows: np.ndarray,
    seed: tuple[int, int] | None,
    n_rows: int,
    first: int = 0,
    buffers: list | None = None,
    consecutive: bool = False,
) -> Generator[Window, None, None]:
    """Yield `rows` of a source, numbers that increase, once, about `n_rows` at a time, without the `first` windows.

    Rows in memory are in random order; on disk blocks are, then the rows of each window, so that the file is read in
    long runs. Without a seed, or with `consecutive` within a window, the order is that of the source. The first epoch
    adds memory to `buffers`, which later epochs reuse, because touching new memory is expensive.
    """
    if source.block is not None:
        starts = np.arange(0, len(rows), n_rows)
        if seed is not None and consecutive:
            starts = np.random.default_rng(seed).permutation(starts)
        elif seed is not None:
            rows = rows.copy()
            _shuffle(rows[None], seed, 0)
        for start in starts[first:]:
            part = rows[start : start + n_rows]
            yield Window(source.block, part, part)
        return
    spans = list(source.spans(max(n_rows // source.tuning.runs, source.tuning.run_bytes // source.row_bytes)))
    if seed is not None:
        spans = [spans[k] for k in np.random.default_rng(seed).permutation(len(spans))]
    longest = max((stop - start for start, stop in spans), default=1)
    size = max(1, n_rows // longest)
    groups = [spans[k : k + size] for k in range(0, len(spans), size)]
    buffers = [] if buffers is None else buffers
    if not buffers:
        buffers += [source.buffer(size * longest) for _ in range(AHEAD + 1)]  # one is in use
    turns = cycle(buffers)
    items = ((k, _gathered(source, rows, groups[k], next(turns))) for k in range(first, len(groups)))
    with closing(read_ahead(items)) as ready:  # else a garbage collection could close it within the lock of HDF5
        for k, (block, places, numbers) in ready:
            if seed is not None and not consecutive:
                order = np.arange(len(places))
                _shuffle(order[None], seed, k)
                places, numbers = places[order], numbers[order]
            yield Window(block, places, numbers)


def _gathered(source: Source, rows: np.ndarray, spans: list[tuple[int, int]], buffer: np.ndarray | None) -> Window:
    """Return the window of those `rows` that are in some spans, in the order of the source."""
    places, numbers, offset = [], [], 0
    for start, stop in spans:
        a, b = np.searchsorted(rows, (start, stop))
        numbers.append(rows[a:b])
        places.append(rows[a:b] - start + offset)
        offset += stop - start
    return Window(source.read_all(spans, buffer), np.concatenate(places), np.concatenate(numbers))
