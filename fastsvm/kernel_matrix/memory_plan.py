"""What the memory that a fit may add to the process is spent on."""

from typing import NamedTuple

from fastsvm.kernel_matrix.gram import operand_rows
from fastsvm.kernel_matrix.pairwise import EXPENSIVE

__all__ = ["Need", "Plan", "plan"]

_WORKING_SET = 1024  # rows of a block of float32 that stays in the cache
_STREAMED_WORKING_SET = 1024  # for fewer passes over the file
_LEAST_ACTIVE, _MOST_ACTIVE = 2048, 8192
_MOST_NEWTON = 4000  # on more rows a Newton step costs more than the pair steps that it saves
_NEWTON_BYTES = 24  # of an element: the block, its factor, and the columns of the inverse for rows that are held
_WHOLE = 3072  # so few rows are one working set, and solved in the order of LIBSVM
_LEAST_WORKING_SET = 16
_TILE_COLUMNS = 256
_TILES = 4  # threads' tiles; not their true number, on which results must not depend
_TOUCH_COST = 2.6  # nanoseconds for memory of a value to be touched for the first time
_BLOCKS_READ = 4  # one being read, one waiting, two in use


class Plan(NamedTuple):
    """What a budget is spent on.

    Attributes
    ----------
    resident : bool
        Whether rows on disk are read into memory once.
    part_resident : bool
        Whether, if not, those of one two-class problem are.
    working_set : int
        Rows of a working set.
    cache_bytes : int
        Memory for cached kernel rows.
    active_set : int
        Rows of an active set, 0 for none.
    newton_rows : int
        Most free rows of a Newton step.
    workers : int
        Problems that are solved side by side, each with a cache and an active set of its own.
    shared : bool
        Whether the problems share kernel rows over one class.
    tile_bytes : int
        Memory for those.
    frugal : bool
        Whether caches should not touch memory before it is of use.
    """

    resident: bool
    part_resident: bool
    working_set: int
    cache_bytes: int
    active_set: int = 0
    newton_rows: int = 0
    workers: int = 1
    shared: bool = False
    tile_bytes: int = 0
    frugal: bool = False


class Need(NamedTuple):
    """What a fit asks memory for.

    Attributes
    ----------
    n_rows : int
        Rows of the largest problem.
    n_features : int
        Features.
    value_bytes : int
        Bytes of a kernel value.
    feature_bytes : int
        Bytes of a feature of the rows that are multiplied.
    stored_bytes : int
        Bytes of the rows on disk; 0 if they are in memory already.
    n_stored_rows : int
        Number of those rows.
    copied_bytes : int
        Bytes of the rows copied for one problem, 0 if none are.
    block_rows : int
        Rows of a block of the source.
    sparse : bool
        Whether blocks stay sparse when they are multiplied.
    value_cost : float
        Nanoseconds to compute a kernel value.
    tile_bytes : int
        Bytes of the kernel within all classes, if there are more than two and they may share it, else 0.
    workers : int
        Problems that may be solved side by side.
    """

    n_rows: int
    n_features: int
    value_bytes: int
    feature_bytes: int
    stored_bytes: int
    n_stored_rows: int
    copied_bytes: int
    block_rows: int
    sparse: bool = False
    value_cost: float = 5.0
    tile_bytes: int = 0
    workers: int = 1


def plan(budget: int, need: Need, cache_limit: int | None) -> Plan:
    """Divide `budget` bytes; kernel rows get what the rest leaves.

    Parameters
    ----------
    budget : int
        Bytes in all.
    need : Need
        What is asked for.
    cache_limit : int or None
        Bytes that cached rows may take at most, within the budget.

    Raises
    ------
    ValueError
        If not even a small working set fits; the message says how much is needed.
    """
    found = _divide(budget, need)
    if found.cache_bytes < _cache_floor(need, found):
        enough = budget
        while (spent := _divide(enough, need)).cache_bytes < _cache_floor(need, spent):
            enough = _megabytes(enough - spent.cache_bytes + _cache_floor(need, spent)) * 10**6
        raise ValueError(
            f"memory={budget / 1e6:.4g} MB is too little for one working set of {found.working_set} kernel rows of "
            f"{need.n_rows} values: {_megabytes(enough)} MB are enough."
        )
    least, most = _cache_floor(need, found), need.n_rows**2 * need.value_bytes
    if cache_limit is not None:
        most = min(most, max(cache_limit, least))
    found = found._replace(cache_bytes=min(found.cache_bytes, most), frugal=need.value_cost <= _TOUCH_COST)
    return _side_by_side(need, found, budget) if need.tile_bytes and not _streamed(need, found) else found


def _streamed(need: Need, spent: Plan) -> bool:
    return need.stored_bytes > 0 and not spent.resident and not spent.part_resident


def _side_by_side(need: Need, spent: Plan, budget: int) -> Plan:
    """Return the plan with as many workers as memory allows, and tiles from what they leave."""
    row_bytes = need.copied_bytes * need.n_stored_rows // need.n_rows  # the classes' copies of their rows
    worker = spent.cache_bytes + _fixed(need, spent.working_set) + _squares(need, spent.active_set, spent.newton_rows)
    left = budget - (spent.resident * need.stored_bytes) - row_bytes
    if left < worker:
        return spent
    workers = max(1, min(need.workers, left // worker))
    return spent._replace(workers=workers, shared=True, tile_bytes=min(need.tile_bytes, left - workers * worker))


def _divide(budget: int, need: Need) -> Plan:
    """Return a plan in which the cache has what is left, be it too little."""
    stored = need.stored_bytes > 0
    resident = stored and need.stored_bytes <= budget // 3
    part_resident = stored and not resident and 0 < need.copied_bytes <= budget // 3
    streamed = stored and not resident and not part_resident
    taken = (need.stored_bytes if resident else 0) + (0 if streamed else need.copied_bytes)
    size = _WORKING_SET * 4 // need.value_bytes * (2 if need.value_cost >= EXPENSIVE else 1)
    size = need.n_rows if need.n_rows <= _WHOLE else size
    size = min(_STREAMED_WORKING_SET, need.n_rows) if streamed else size
    active = _active_rows(budget, need)
    newton = min(_MOST_NEWTON, need.n_rows, int((budget / 16 / _NEWTON_BYTES) ** 0.5))
    taken += _squares(need, active, newton)
    row_bytes = need.n_rows * need.value_bytes
    while size > _LEAST_WORKING_SET and taken + _fixed(need, size) + size * row_bytes > budget:
        size = max(size // 2, _LEAST_WORKING_SET)
    return Plan(resident, part_resident, size, budget - taken - _fixed(need, size), active, newton)


def _squares(need: Need, active: int, newton: int) -> int:
    return active**2 * need.value_bytes + newton**2 * _NEWTON_BYTES


def _active_rows(budget: int, need: Need) -> int:
    """Return how many rows an active set of an eighth of the budget has, 0 if the problem is not much larger."""
    rows = min(_MOST_ACTIVE, int((budget / 8 / need.value_bytes) ** 0.5))
    return rows if _LEAST_ACTIVE <= rows <= need.n_rows // 2 else 0


def _cache_floor(need: Need, spent: Plan) -> int:
    return spent.working_set * need.n_rows * need.value_bytes


def _fixed(need: Need, size: int) -> int:
    """Return the bytes that are not cache: solver state, block, operand, tiles, blocks being read."""
    state = 64 * need.n_rows
    block = 2 * size * size * need.value_bytes
    operand = 2 * min(size, operand_rows(need.n_features, need.feature_bytes)) * need.n_features * need.feature_bytes
    columns = min(_TILE_COLUMNS, need.block_rows)
    widened = 0 if need.sparse else need.n_features * need.feature_bytes
    tiles = _TILES * columns * (widened + size * need.value_bytes)
    reading = _BLOCKS_READ * need.block_rows * need.stored_bytes // max(1, need.n_stored_rows)
    return state + block + operand + tiles + reading


def _megabytes(n_bytes: int) -> int:
    return -(-n_bytes // 10**6)
