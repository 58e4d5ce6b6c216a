"""Exact machines of cells on a cluster, or one for all samples: a machine is a task, to which the rows of its cell go.

The client gets the centres, and machines with their support vectors.
"""

from typing import Any

import numpy as np
from distributed import Future
from threadpoolctl import threadpool_limits

from fastsvm.dask.kernel.machines import MachinePlan, fitted, in_batches, learnt_rows, seen_rows
from fastsvm.dask.tasks import Tasks, counting
from fastsvm.dask.worker import ShardRows, joined
from fastsvm.estimators.nystroem.cells import Cells, centers_of, drawn_for_centers, nearest, number_of_cells
from fastsvm.sources import MemorySource

__all__ = ["cells_of_shards"]


def cells_of_shards(
    tasks: Tasks, rows: list[Future], plan: MachinePlan, is_whole: bool, deadline: float, seed: int
) -> Cells:
    """Return cells and their machines; `rows` are the `ShardRows` of each shard.

    `is_whole` says that there is only one cell. From `deadline` (of time.perf_counter) on, no batch of machines is
    begun. `seed` is that of k-means.
    """
    told = tasks.share("cells", plan)
    sizes, width = np.transpose(tasks.gathered([tasks.submit("used", k, _used_of, one) for k, one in enumerate(rows)]))
    count = number_of_cells(int(sizes.sum()), is_whole)
    centers = tasks.share("centers-0", np.zeros((1, int(width[0]))))
    if count > 1:
        drawn, _ = drawn_for_centers(int(sizes.sum()), count, seed)
        ends = np.cumsum(sizes)
        own = [drawn[(drawn >= end - n) & (drawn < end)] - (end - n) for end, n in zip(ends, sizes, strict=True)]
        parts = [tasks.submit("for-centers", k, _some_of, one, told, own[k]) for k, one in enumerate(rows)]
        centers = tasks.submit("centers", 1, _centers_of, parts, int(sizes.sum()), count, seed)
    placed = [tasks.submit("placed", k, _placed, one, told, centers) for k, one in enumerate(rows)]

    def ask(number: int, seconds: float | None) -> Future:
        parts = [
            tasks.submit(f"cell-{number}", k, _rows_of_cell, *given, told, number)
            for k, given in enumerate(zip(rows, placed, strict=True))
        ]
        return tasks.submit("machine", number, _machine_of, parts, told, seconds, count)

    found = in_batches(tasks, list(range(count)), ask, deadline)
    machines = tuple(found.get(number) for number in range(count))
    return Cells(tasks.gathered([centers])[0], machines)


def _used_of(rows: ShardRows) -> tuple[int, int]:
    """Return the number of rows of positive weight, and that of the features."""
    return int(np.count_nonzero(rows.weight > 0)), rows.X.shape[1]


def _some_of(rows: ShardRows, plan: MachinePlan, places: np.ndarray) -> Any:
    """Return some rows of positive weight."""
    return seen_rows(rows.X[np.flatnonzero(rows.weight > 0)[places]], plan)


def _centers_of(parts: list[Any], n: int, count: int, seed: int) -> np.ndarray:
    """Return the centres of cells. With one thread, sums have the same bits each time."""
    none = np.empty(0)
    samples = joined([(part, none, none) for part in parts if part.shape[0]], None).X
    with threadpool_limits(1), counting("computing"):
        return centers_of(samples, count, drawn_for_centers(n, count, seed)[1])


def _placed(rows: ShardRows, plan: MachinePlan, centers: np.ndarray) -> np.ndarray:
    """Return the cell of each row, -1 without weight."""
    found = np.zeros(len(rows.y), np.int32)
    with counting("computing"):
        source = MemorySource.of(rows.X)
        if len(centers) > 1 and len(found):
            for start, block in (source if plan.seen is None else plan.seen.apply(source)).blocks():
                found[start : start + block.shape[0]] = nearest(block.user_array(), centers)
    found[rows.weight <= 0] = -1
    return found


def _rows_of_cell(rows: ShardRows, cell: np.ndarray, plan: MachinePlan, number: int) -> ShardRows:
    """Return the rows of a cell as a machine sees them, with numbers of classes."""
    return learnt_rows(rows, np.flatnonzero(cell == number), plan)


def _machine_of(parts: list[ShardRows], plan: MachinePlan, seconds: float | None, n_cells: int) -> Any:
    """Return the machine of a cell, the number of its only class, or None without rows."""
    filled = [(part.X, part.y, part.weight) for part in parts if len(part.y)]
    if not filled:
        return None
    found = joined(filled, None)
    if (found.y == found.y[0]).all():
        return int(found.y[0])
    return fitted(found, plan, seconds, n_cells)
