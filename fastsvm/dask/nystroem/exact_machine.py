"""The exact machine of all samples on a cluster: a task, to whose worker the rows of all shards go."""

from typing import Any

import numpy as np
from distributed import Future

from fastsvm.dask.kernel.machines import MachinePlan, fitted, in_batches, learnt_rows
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import ShardRows, joined

__all__ = ["exact_machine_of_shards"]


def exact_machine_of_shards(tasks: Tasks, rows: list[Future], plan: MachinePlan, deadline: float) -> Any:
    """Return the exact machine, or None if the time is over.

    Parameters
    ----------
    tasks : Tasks
        How tasks are sent.
    rows : list of Future of ShardRows
        The rows of each shard.
    plan : MachinePlan
        What is learnt.
    deadline : float
        Time (of time.perf_counter) from which on the machine is not begun.
    """
    told = tasks.share("exact", plan)

    def ask(number: int, seconds: float | None) -> Future:
        parts = [tasks.submit("learnt", k, _learnt_of, one, told) for k, one in enumerate(rows)]
        return tasks.submit("machine", number, _machine_of, parts, told, seconds)

    return in_batches(tasks, [0], ask, deadline).get(0)


def _learnt_of(rows: ShardRows, plan: MachinePlan) -> ShardRows:
    """Return the rows of positive weight as the machine sees them, with numbers of classes."""
    return learnt_rows(rows, np.flatnonzero(rows.weight > 0), plan)


def _machine_of(parts: list[ShardRows], plan: MachinePlan, seconds: float | None) -> Any:
    filled = [(part.X, part.y, part.weight) for part in parts if len(part.y)]
    return fitted(joined(filled, None), plan, seconds, n_machines=1)
