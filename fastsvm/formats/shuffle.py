"""Shuffling of rows that need not fit in memory.

Each row draws a random 64-bit key, and the rows are sorted by key. Rows that do not fit in memory are first distributed
to files by the leading bits of their keys; then each file is sorted. Both ways give the same order, which depends on
the seed alone.
"""

import os
import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from fastsvm.formats.readers.stream import Rows, stack
from fastsvm.tuning import current_tuning

_BITS = 6  # There are 64 files per level, far fewer than a process may open.


class _Keyed(NamedTuple):
    keys: np.ndarray
    rows: Rows

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.rows.nbytes

    def take(self, index: np.ndarray) -> "_Keyed":
        return _Keyed(self.keys[index], self.rows.take(index))


class _Room(NamedTuple):
    folder: Path
    limit: int
    block_bytes: int


def shuffled(blocks: Iterable[Rows], seed: int, folder: Path, limit: int) -> Iterator[Rows]:
    """Yield the same rows in random order, which depends on the seed and on the number of rows alone.

    `limit` is the most bytes of rows in memory. `folder` is empty and receives temporary files; the caller removes it.
    """
    draw = np.random.PCG64(seed).random_raw
    keyed = (_Keyed(draw(len(rows)), rows) for rows in blocks if len(rows))
    most = min(limit // 16, current_tuning().storage.block_bytes)
    yield from _in_order(keyed, _Room(folder, limit, most), 64 - _BITS)


def _in_order(blocks: Iterator[_Keyed], room: _Room, shift: int) -> Iterator[Rows]:
    """Yield rows by increasing key; `shift` is the position of the bits that choose a file."""
    held: deque[_Keyed] = deque()
    size = 0
    for block in blocks:
        held.append(block)
        size += block.nbytes
        # One row cannot be divided. When no bits are left, all keys are equal.
        if size > room.limit and shift >= 0 and (len(held) > 1 or len(block.keys) > 1):
            break
    else:
        yield from _sorted(list(held), room.block_bytes)
        return
    for path in _deal(chain(_drain(held), blocks), room, shift):
        with open(path, "rb") as stream:
            yield from _in_order(_joined(_saved(stream), room.block_bytes), room, shift - _BITS)
        path.unlink()


def _drain(held: deque[_Keyed]) -> Iterator[_Keyed]:
    while held:
        yield held.popleft()


def _deal(blocks: Iterable[_Keyed], room: _Room, shift: int) -> list[Path]:
    """Write the rows to files by the bits of their keys above `shift`; return the files in order."""
    paths: dict[int, Path] = {}
    streams: dict[int, BinaryIO] = {}
    with ExitStack() as files:
        for block in _joined(blocks, room.limit // 4):
            home = (block.keys >> np.uint64(shift)) & np.uint64((1 << _BITS) - 1)
            for bucket in np.unique(home).tolist():
                if bucket not in streams:
                    paths[bucket] = room.folder / f"{shift}-{bucket}"
                    streams[bucket] = files.enter_context(open(paths[bucket], "wb"))
                pickle.dump(block.take(np.flatnonzero(home == bucket)), streams[bucket], protocol=5)
    return [paths[bucket] for bucket in sorted(paths)]


def _saved(stream: BinaryIO) -> Iterator[_Keyed]:
    """Yield the blocks that `_deal` wrote to a folder that belongs to this process."""
    end = os.fstat(stream.fileno()).st_size
    while stream.tell() < end:
        yield pickle.load(stream)


def _joined(blocks: Iterable[_Keyed], n_bytes: int) -> Iterator[_Keyed]:
    """Yield the same rows in blocks of at least `n_bytes`; the last one may be smaller."""
    held: list[_Keyed] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += block.nbytes
        if size >= n_bytes:
            yield _join(held)
            held, size = [], 0
    if held:
        yield _join(held)


def _join(blocks: list[_Keyed]) -> _Keyed:
    return _Keyed(np.concatenate([block.keys for block in blocks]), stack([block.rows for block in blocks]))


def _sorted(blocks: list[_Keyed], block_bytes: int) -> Iterator[Rows]:
    """Yield the rows of all blocks by increasing key, without a second copy of all rows."""
    if not blocks:
        return
    order = np.argsort(np.concatenate([block.keys for block in blocks]), kind="stable")
    starts = np.cumsum([0] + [len(block.keys) for block in blocks[:-1]])
    step = max(1, block_bytes * len(order) // sum(block.nbytes for block in blocks))
    for first in range(0, len(order), step):
        yield _gather([block.rows for block in blocks], starts, order[first : first + step])


def _gather(blocks: list[Rows], starts: np.ndarray, index: np.ndarray) -> Rows:
    """Return the rows `index`, counted through all blocks."""
    home = np.searchsorted(starts, index, side="right") - 1
    positions = [np.flatnonzero(home == k) for k in np.unique(home)]
    parts = [blocks[home[at[0]]].take(index[at] - starts[home[at[0]]]) for at in positions]
    return stack(parts).take(np.argsort(np.concatenate(positions)))
