"""Epochs over a source: its rows in random order, window by window."""

from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import cycle
from typing import NamedTuple

import numpy as np

from fastsvm.sources.base import AHEAD, Source, read_ahead
from fastsvm.sources.block import Block


class Window(NamedTuple):
    """Some rows of an epoch, in the order in which a solver processes them. Valid until the next one is generated."""

    block: Block  # It holds these rows in memory, and perhaps others.
    places: np.ndarray  # They are the positions of the rows in the block.
    rows: np.ndarray  # They are the numbers of the rows in the source.


def whole_epochs(source: Source, rows: np.ndarray, seeds: Sequence[tuple[int, ...] | None]) -> Window | None:
    """Return the `rows` of epochs with some seeds, one epoch after the other; None if they are not in memory."""
    if source.block is None:
        return None
    orders = [rows if seed is None else np.random.default_rng(seed).permutation(rows) for seed in seeds]
    numbers = np.concatenate([rows[:0], *orders])
    return Window(source.block, numbers, numbers)


def windows(
    source: Source,
    rows: np.ndarray,
    seed: tuple[int, ...] | None,
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
            rows = np.random.default_rng(seed).permutation(rows)
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
                order = np.random.default_rng((*seed, k)).permutation(len(places))
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
