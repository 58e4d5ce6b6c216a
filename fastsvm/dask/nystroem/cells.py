"""Exact machines of cells on a cluster, or one for all samples: a machine is a task, to which the rows of its cell go.

Workers send rows of cells to each other; the client gets the centres, and machines with their support vectors. A batch
of machines at a time is under way, so that no more copies of rows are in memory than it needs.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from distributed import Future, get_worker
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from fastsvm._compiled.threads import at_most
from fastsvm.dask.tasks import Tasks, counting
from fastsvm.dask.worker import ShardRows, joined
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.estimators.nystroem.cells import Cells, centers_of, drawn_for_centers, nearest, number_of_cells
from fastsvm.memory import parse_memory
from fastsvm.sources import MemorySource

__all__ = ["CellPlan", "cells_of_shards", "memory_of_task"]

_BATCH = 4  # machines for each thread of the cluster
_KEPT = 2  # share of a worker's memory that tasks leave to rows


class CellPlan(NamedTuple):
    """What the machines of cells learn.

    Attributes
    ----------
    machine : SVC
        An exact machine, not fitted.
    seen : Standardization or None
        How it sees samples.
    classes, factors : ndarray of shape (n_classes,)
        Labels, and factors of C of their rows.
    memory : int or str
        Bytes of a task, or "auto".
    """

    machine: Any
    seen: Standardization | None
    classes: np.ndarray
    factors: np.ndarray
    memory: int | str


def memory_of_task(memory: int | str) -> int:
    """Return the bytes that a task may use on this worker, of which "auto" is half, shared by its threads."""
    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    if memory != "auto" or not limit:
        return parse_memory(memory)
    return int(limit) // _KEPT // worker.state.nthreads


def cells_of_shards(
    tasks: Tasks, rows: list[Future], plan: CellPlan, is_whole: bool, deadline: float, seed: int
) -> Cells:
    """Return cells and their machines.

    Parameters
    ----------
    tasks : Tasks
        How tasks are sent.
    rows : list of Future of ShardRows
        The rows of each shard.
    plan : CellPlan
        What is learnt.
    is_whole : bool
        Whether there is only one cell.
    deadline : float
        Time (of time.perf_counter) from which on no batch of machines is begun.
    seed : int
        Seed of k-means.
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
    machines: list[Any] = [None] * count
    first = 0
    while first < count and (left := deadline - time.perf_counter()) > 0:
        is_limited, n_threads = np.isfinite(left), max(1, sum(tasks.client.nthreads().values()))
        batch = range(first, min(count, first + n_threads * (1 if is_limited else _BATCH)))
        seconds = left if is_limited else None
        asked = []
        for number in batch:
            parts = [
                tasks.submit(f"cell-{number}", k, _rows_of_cell, *given, told, number)
                for k, given in enumerate(zip(rows, placed, strict=True))
            ]
            asked.append(tasks.submit("machine", number, _machine_of, parts, told, seconds, count))
        machines[batch.start : batch.stop] = tasks.gathered(asked)
        first = batch.stop
    return Cells(tasks.gathered([centers])[0], tuple(machines))


def _used_of(rows: ShardRows) -> tuple[int, int]:
    """Return the number of rows of positive weight, and that of the features."""
    return int(np.count_nonzero(rows.weight > 0)), rows.X.shape[1]


def _seen(X: Any, plan: CellPlan) -> Any:
    """Return rows as the machines see them."""
    source = MemorySource.of(X)
    return X if plan.seen is None or X.shape[0] == 0 else plan.seen.apply(source).in_memory().block.user_array()


def _some_of(rows: ShardRows, plan: CellPlan, places: np.ndarray) -> Any:
    """Return some rows of positive weight."""
    return _seen(rows.X[np.flatnonzero(rows.weight > 0)[places]], plan)


def _centers_of(parts: list[Any], n: int, count: int, seed: int) -> np.ndarray:
    """Return the centres of cells. With one thread, sums have the same bits each time."""
    none = np.empty(0)
    samples = joined([(part, none, none) for part in parts if part.shape[0]], None).X
    with threadpool_limits(1), counting("computing"):
        return centers_of(samples, count, drawn_for_centers(n, count, seed)[1])


def _placed(rows: ShardRows, plan: CellPlan, centers: np.ndarray) -> np.ndarray:
    """Return the cell of each row, -1 without weight."""
    found = np.zeros(len(rows.y), np.int32)
    with counting("computing"):
        source = MemorySource.of(rows.X)
        if len(centers) > 1 and len(found):
            for start, block in (source if plan.seen is None else plan.seen.apply(source)).blocks():
                found[start : start + block.shape[0]] = nearest(block.user_array(), centers)
    found[rows.weight <= 0] = -1
    return found


def _rows_of_cell(rows: ShardRows, cell: np.ndarray, plan: CellPlan, number: int) -> ShardRows:
    """Return the rows of a cell as a machine sees them, with numbers of classes."""
    own = np.flatnonzero(cell == number)
    labels = np.searchsorted(plan.classes, rows.y[own])
    return ShardRows(_seen(rows.X[own], plan), labels, rows.weight[own] * plan.factors[labels], None)


def _machine_of(parts: list[ShardRows], plan: CellPlan, seconds: float | None, n_cells: int) -> Any:
    """Return the machine of a cell, the number of its only class, or None without rows."""
    filled = [(part.X, part.y, part.weight) for part in parts if len(part.y)]
    if not filled:
        return None
    found = joined(filled, None)
    if (found.y == found.y[0]).all():
        return int(found.y[0])
    n_threads = get_worker().state.nthreads
    machine = clone(plan.machine).set_params(memory=memory_of_task(plan.memory), max_time=seconds)
    with at_most(max(1, n_threads // min(n_threads, n_cells))), counting("computing"):
        return machine.fit(found.X, found.y, found.weight)
