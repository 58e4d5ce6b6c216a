"""Division of the memory budget of a fit between kernel rows, working sets and data."""

from typing import NamedTuple

import numpy as np

from fastsvm.kernel_matrix.pairwise import SPAN
from fastsvm.tuning import KernelTuning

_OPERAND_BYTES = 64 << 20  # Rows that are prepared at once take at most about so many bytes.
_REAL = np.dtype(np.float64).itemsize
_LEAST_WORKING_SET = 16  # A fit that has no memory for a working set of so many rows is refused.
# So many blocks are held at once, one being read, one waiting and two in use, and so many tiles of threads. It is a
# constant because results must not depend on the number of threads.
_AT_ONCE = 4
# Small arrays, and memory that the allocator keeps after it was freed, take this share of the memory, or so many bytes.
_RETAINED_SHARE, _MOST_RETAINED = 1 / 5, 24 << 20


def operand_rows(row_bytes: int) -> int:
    """Return how many rows are prepared at once, so that the operand stays within its memory."""
    return max(16, _OPERAND_BYTES // row_bytes)


class Plan(NamedTuple):
    """Division of a memory budget."""

    loaded: bool  # Rows on disk are read into memory once.
    part_loaded: bool  # Otherwise, the rows of one two-class problem are.
    working_set: int  # It has so many rows.
    cache_bytes: int  # Cached kernel rows have this memory.
    newton_rows: int = 0  # A Newton step has at most so many free rows.
    workers: int = 1  # So many problems are solved in parallel, each with its own cache.
    shared: bool = False  # The problems share kernel values.
    tile_bytes: int = 0  # The shared kernel values have this memory.
    recomputed: bool = False  # No kernel row is cached, because computing values is faster than reading them.


class Need(NamedTuple):
    """Sizes that determine the memory of a fit."""

    n_rows: int  # The largest problem has so many.
    row_bytes: int  # A row that is prepared for products has so many.
    value_bytes: int  # A kernel value has so many.
    stored_bytes: int  # The rows on disk have so many; 0 if they are in memory already.
    n_stored_rows: int  # The source has so many rows, in memory or on disk.
    copied_bytes: int  # The rows that are copied for one problem have so many; 0 if none are.
    block_rows: int  # A block of the source has so many.
    value_cost: float = 5.0  # A kernel value takes so many nanoseconds.
    tile_bytes: int = 0  # The kernel values that problems may share have so many.
    workers: int = 1  # So many problems may be solved in parallel.
    problem_bytes: int = 0  # The rows, labels and bounds of all problems have so many.
    recomputable: bool = False  # The solver can do without cached rows.
    held_bytes: int = 0  # So many are taken already, as by rows that were read from a file.


def plan(budget: int, need: Need, cache_limit: int | None, tuning: KernelTuning) -> Plan:
    """Return the division of `budget` bytes; cached kernel rows get what all else leaves, at most `cache_limit`.

    If not even a small working set fits, a ValueError says how much is needed.
    """
    if (division := _recomputing(budget, need, tuning)) is not None:
        return division
    division = _divide(budget, need, tuning)
    if division.loaded and division.cache_bytes < _cache_floor(need, division):
        division = _divide(budget, need, tuning, may_reside=False)
    if division.cache_bytes < _cache_floor(need, division):
        enough = budget
        while (spent := _divide(enough, need, tuning)).cache_bytes < _cache_floor(need, spent):
            enough = _megabytes(enough - spent.cache_bytes + _cache_floor(need, spent)) * 10**6
        raise ValueError(
            f"memory={budget / 1e6:.4g} MB is too little for one working set of {division.working_set} kernel rows of "
            f"{need.n_rows} values: {_megabytes(enough)} MB are enough."
        )
    least, most = _cache_floor(need, division), need.n_rows**2 * need.value_bytes
    if cache_limit is not None:
        most = min(most, max(cache_limit, least))
    division = division._replace(cache_bytes=min(division.cache_bytes, most))
    is_streamed = need.stored_bytes > 0 and not (division.loaded or division.part_loaded)
    is_divided = (need.workers > 1 or need.tile_bytes) and not is_streamed
    return _side_by_side(need, division, budget) if is_divided else division


def _recomputing(budget: int, need: Need, tuning: KernelTuning) -> Plan | None:
    """Return a plan without cached rows, if values are so cheap and a large working set fits; else None."""
    if not need.recomputable or need.n_rows <= tuning.block_rows or need.value_cost > tuning.recomputed_ns:
        return None
    loaded = need.stored_bytes > 0
    if loaded and need.stored_bytes > budget // 3:
        return None
    for large in (8 * tuning.working_set, 4 * tuning.working_set):  # solved by working sets of their own
        size, newton = min(large, need.n_rows), min(large, need.n_rows, _newton_rows(budget // 4))
        taken = need.held_bytes + need.stored_bytes + need.copied_bytes + _newton_bytes(newton) + _retained(budget)
        if taken + _fixed(need, size) <= budget:
            return Plan(loaded, False, size, 0, newton, recomputed=True)
    return None


def _side_by_side(need: Need, spent: Plan, budget: int) -> Plan:
    """Return the plan with as many workers as memory allows; shared kernel values get the remaining memory."""
    worker = spent.cache_bytes + _fixed(need, spent.working_set) + _newton_bytes(spent.newton_rows) + need.copied_bytes
    left = budget - need.held_bytes - (spent.loaded * need.stored_bytes) - _retained(budget)
    if left < worker:
        return spent
    workers = max(1, min(need.workers, left // worker))
    return spent._replace(workers=workers, shared=True, tile_bytes=min(need.tile_bytes, left - workers * worker))


def _divide(budget: int, need: Need, tuning: KernelTuning, may_reside: bool = True) -> Plan:
    """Return a plan in which the cache gets the remaining bytes, possibly too few or negative."""
    stored = need.stored_bytes > 0
    loaded = may_reside and stored and need.stored_bytes <= budget // 3
    part_loaded = stored and not loaded and 0 < need.copied_bytes <= budget // 3
    streamed = stored and not loaded and not part_loaded
    taken = need.held_bytes + (need.stored_bytes if loaded else 0) + (0 if streamed else need.copied_bytes)
    size = tuning.working_set * 4 // need.value_bytes * (2 if need.value_cost >= tuning.expensive_ns else 1)
    size = need.n_rows if tuning.whole and need.n_rows <= tuning.block_rows else size
    size = min(tuning.working_set, need.n_rows) if streamed else size  # of any type, for fewer passes over the file
    newton = min(4 * tuning.working_set, need.n_rows, _newton_rows(budget // 16))
    taken += _newton_bytes(newton) + _retained(budget)
    row_bytes = need.n_rows * need.value_bytes
    while size > _LEAST_WORKING_SET and taken + _fixed(need, size) + size * row_bytes > budget:
        size = max(size // 2, _LEAST_WORKING_SET)
    return Plan(loaded, part_loaded, size, budget - taken - _fixed(need, size), newton)


def _newton_bytes(newton: int) -> int:
    """Return the bytes of three matrices: the block, its factor, and the columns of the inverse for fixed rows."""
    return 3 * newton**2 * _REAL


def _newton_rows(n_bytes: int) -> int:
    return int((n_bytes / 3 / _REAL) ** 0.5)


def _retained(budget: int) -> int:
    """Return the bytes for small arrays, and for memory that the allocator keeps after it was freed."""
    return min(int(budget * _RETAINED_SHARE), _MOST_RETAINED)


def _cache_floor(need: Need, spent: Plan) -> int:
    return spent.working_set * need.n_rows * need.value_bytes


def _fixed(need: Need, size: int) -> int:
    """Return the bytes besides the cache: solver state, block, operand, tiles, blocks being read."""
    state = 64 * need.n_rows + need.problem_bytes
    block = 2 * size * size * need.value_bytes
    operand = 2 * min(size, operand_rows(need.row_bytes)) * need.row_bytes
    tiles = _AT_ONCE * min(SPAN, need.block_rows) * (need.row_bytes + size * need.value_bytes)
    reading = _AT_ONCE * need.block_rows * need.stored_bytes // max(1, need.n_stored_rows)
    return state + block + operand + tiles + reading


def _megabytes(n_bytes: int) -> int:
    return -(-n_bytes // 10**6)
