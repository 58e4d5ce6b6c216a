"""Bounds of the optimum with all samples as landmarks, on a cluster: tasks on the samples and features of each shard.

Rows at which all shards evaluate their expansions go from worker to worker. The client gets sums.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from distributed import Future

from fastsvm._compiled.threads import Pool
from fastsvm.dask.kernel.machines import memory_of_task
from fastsvm.dask.nystroem.landmarks import Landmarks
from fastsvm.dask.tasks import Tasks, counting
from fastsvm.dask.worker import Plan, ShardRows, problem_of, threads_of
from fastsvm.estimators.nystroem.dual_expansion import DualExpansion, Machine, Solved
from fastsvm.estimators.nystroem.exact_bounds import exact_bounds
from fastsvm.sources import MemorySource
from fastsvm.tuning import NystroemTuning

__all__ = ["BoundsPlan", "bounds_of_shards"]


class BoundsPlan(NamedTuple):
    """What the tasks of bounds have in common: what was learnt, with what features were computed, and the solution."""

    plan: Plan
    landmarks: Landmarks
    machine: Machine
    memory: int | str  # A task may take so many bytes, or "auto".
    tuning: NystroemTuning


class _OnShards:
    """The expansions of shards; each answer is the result of a task."""

    def __init__(self, tasks: Tasks, shards: Sequence[tuple[Future, ...]], plan: Future, n_rows: int) -> None:
        self._tasks, self._shards, self._plan, self.n_rows = tasks, shards, plan, n_rows
        self._numbers = count()

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._shards)

    def at(self, number: int, method: Any, *given: Any) -> Future:
        """Have the expansion of a shard do something."""
        own = *self._shards[number], self._plan, method, *given
        return self._tasks.submit("bounds", next(self._numbers), _answer, *own)

    def told(self, values: list[Future]) -> list[Any]:
        """Return answers."""
        return self._tasks.gathered(values)

    def kept(self, support: list[Future]) -> tuple["_OnShards", list[Future]]:
        """Return this: all rows of shards are in memory."""
        return self, support


def bounds_of_shards(
    tasks: Tasks, shards: Sequence[tuple[Future, Future, np.ndarray]], told: BoundsPlan
) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum of the kernel problem, of which `told` has the solution.

    A shard has samples and features as `ShardRows`, which the workers have, and its dual variables.
    """
    filled, n_rows = [one for one in shards if len(one[2])], sum(len(dual) for *_, dual in shards)
    sent = [(rows, features, tasks.share(f"dual-{k}", dual)) for k, (rows, features, dual) in enumerate(filled)]
    places = _OnShards(tasks, sent, tasks.share("machine", told), n_rows)
    return exact_bounds(places, told.machine, told.landmarks.map.square)


def _answer(rows: ShardRows, features: ShardRows, dual: np.ndarray, told: BoundsPlan, method: Any, *given: Any) -> Any:
    """Return what the expansion of a shard answers."""
    problem, source = problem_of(features, told.plan), MemorySource.of(rows.X)
    with Pool.open(threads_of(told.plan.together)) as pool, counting("computing"):
        solved = Solved(source, problem.source, problem.demands, dual)
        budget = memory_of_task(told.memory)
        return method(DualExpansion(told.landmarks.estimator, told.machine, solved, pool, budget, told.tuning), *given)
