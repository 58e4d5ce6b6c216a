"""The exact machine of all samples, which predicts in place of the landmarks."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fastsvm.estimators.kernel.prepare import check_memory
from fastsvm.estimators.linear.training_task import Task
from fastsvm.sources import Source

__all__ = ["check_exact_memory", "exact_scores", "learnt_exactly"]


def check_exact_memory(task: Task, budget: int) -> None:
    """Raise ValueError if the memory does not suffice for the exact machine. This is done before all other work."""
    n, n_classes = int(np.count_nonzero(task.weights > 0)), int(task.targets.max()) + 1 if task.of_classes else 0
    try:
        check_memory(task.source, n, n_classes, budget, task.source.resident)
    except ValueError as error:
        raise ValueError(
            f"refine='exact' needs an exact machine of {n:,} samples, which may use memory={budget / 1e6:.4g} MB. "
            f"{error} Raise memory, or leave refine out."
        ) from error


def learnt_exactly(task: Task, make: Callable[[float], Any], deadline: float) -> Any:
    """Return the exact machine, fitted, or None if the time is over.

    The task has samples as the kernel sees them, with numbers of classes or targets. Those of weight 0 are left out.
    `make(seconds)` returns a machine that may use so many seconds, if not infinite. The fit ends at `deadline`, a
    moment of time.perf_counter.
    """
    left = deadline - time.perf_counter()
    if left <= 0:
        return None
    rows = np.flatnonzero(task.weights > 0)
    return make(left).fit(_taken(task.source, rows), task.targets[rows], task.weights[rows])


def _taken(source: Source, rows: np.ndarray) -> Source:
    """Return some samples; those of a file stay there."""
    source = source if len(rows) == len(source) else source.take(rows)
    if not source.resident:
        return source
    found = source.in_memory()
    found.held = found.nbytes if source.held else 0
    return found


def exact_scores(machine: Any, source: Source) -> np.ndarray:
    """Return the scores of samples as the kernel sees them, shape (n_samples, n_scores)."""
    found = machine.decision_function(source) if hasattr(machine, "classes_") else machine.predict(source)
    return found[:, None] if found.ndim == 1 else found
