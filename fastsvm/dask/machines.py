"""Exact machines as tasks, to whose workers the rows go that each of them learns.

Workers send rows to each other. A batch of machines at a time is under way, so that no more copies of rows are in
memory than it needs.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from distributed import Future, get_worker
from sklearn.base import BaseEstimator, clone

from fastsvm._compiled.threads import at_most
from fastsvm.dask.rows import moments_of_shards, scaling_of
from fastsvm.dask.tasks import Result, Tasks, counting
from fastsvm.dask.worker import ShardFacts, ShardRows
from fastsvm.estimators.fitting.validation import Attributes, Samples
from fastsvm.estimators.kernel.kernel_parameter import Standardization, attributes_of, geometry_of, resolve_gamma
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.memory import parse_memory
from fastsvm.sources import MemorySource


class MachinePlan(NamedTuple):
    """What exact machines learn: `machine` is one of them, not fitted."""

    machine: KernelMachine
    seen: Standardization | None  # It is how the machine sees samples.
    classes: np.ndarray
    factors: np.ndarray  # For the rows of each class, C is multiplied by them.
    memory: int | str  # A task may take so many bytes, or "auto".


def memory_of_task(memory: int | str) -> int:
    """Return the bytes that a task may use on this worker, of which "auto" is half, shared by its threads."""
    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    if memory != "auto" or not limit:
        return parse_memory(memory)
    return int(limit) // 2 // worker.state.nthreads


def seen_rows(X: Samples, plan: MachinePlan) -> Samples:
    """Return rows as the machines see them."""
    source = MemorySource.of(X)
    return X if plan.seen is None or X.shape[0] == 0 else plan.seen.apply(source).in_memory().block.user_array()


def learnt_rows(rows: ShardRows, numbers: np.ndarray, plan: MachinePlan) -> ShardRows:
    """Return some rows as a machine learns them, with numbers of classes."""
    labels = np.searchsorted(plan.classes, rows.y[numbers])
    return ShardRows(seen_rows(rows.X[numbers], plan), labels, rows.weight[numbers] * plan.factors[labels], None)


def fitted(rows: ShardRows, plan: MachinePlan, seconds: float | None, n_machines: int) -> KernelMachine:
    """Return the machine of some rows, one of so many."""
    n_threads = get_worker().state.nthreads
    machine = clone(plan.machine).set_params(memory=memory_of_task(plan.memory), max_time=seconds)
    weight = None if (rows.weight == 1).all() else rows.weight
    with at_most(max(1, n_threads // min(n_threads, n_machines))), counting("computing"):
        return machine.fit(rows.X, rows.y, weight)


def in_batches(
    tasks: Tasks, order: list[int], ask: Callable[[int, float | None], Future], deadline: float, most: float = np.inf
) -> dict[int, Result]:
    """Return the results of tasks by number; those that the time limit leaves out are missing.

    `ask(number, seconds)` sends the task of a machine, which may take so many seconds, None for any number. `order` has
    the numbers of the machines. From `deadline` (of time.perf_counter) on, no batch is begun; it has at most `most`
    machines.
    """
    results: dict[int, Result] = {}
    while len(results) < len(order) and (left := deadline - time.perf_counter()) > 0:
        is_limited, n_threads = np.isfinite(left), max(1, sum(tasks.client.nthreads().values()))
        size = max(1, int(min(n_threads * (1 if is_limited else tasks.tuning.batch), most)))
        batch = order[len(results) : len(results) + size]
        futures = [ask(number, left if is_limited else None) for number in batch]
        results |= zip(batch, tasks.gathered(futures), strict=True)
    return results


def geometry_of_shards(tasks: Tasks, rows: list[Future], whole: ShardFacts, estimator: BaseEstimator) -> Attributes:
    """Return the attributes in which a fitted model stores the geometry of the rows, and how it standardises them.

    The estimator has the parameters `gamma` and `standardize`; `whole` are the facts of all rows.
    """
    moments, seen = moments_of_shards(tasks, rows), None
    if estimator.standardize:
        shift, scale = scaling_of(moments, whole.sparse)
        seen = Standardization(None if whole.sparse else shift, scale)
        moments = moments_of_shards(tasks, rows, seen)
    statistics = moments.statistics
    gamma = resolve_gamma(estimator.gamma, whole.shape[1], statistics.variance)
    return geometry_of(gamma, statistics) | attributes_of(seen)
