"""From an estimator's parameters and samples to the problem of a linear machine."""

import hashlib
import math
from typing import Any

import numpy as np

from fastsvm.estimators.choice import LinearFacts
from fastsvm.estimators.linear.training_task import Task, as_stored, fingerprint
from fastsvm.losses import Demands, Loss
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.metric import mean_square
from fastsvm.solvers.linear_dual.problem import LinearProblem

__all__ = ["demands_of", "facts_of", "fingerprint_of", "problem_of"]

_LARGEST = 1e130  # sum of all costs: its square, times that of a row's length, does not overflow
_LONGER = 2.0  # times the length of the rows: the constant feature whose weight is the offset of a machine of one class


def facts_of(estimator: Any, task: Task, loss: Loss, is_watched: bool) -> LinearFacts:
    """Return what decides which solver learns a task; `is_watched` says whether its steps are to be seen."""
    source, (n, d) = task.source, task.source.shape
    needed = 8 * (2 * source.nbytes if source.sparse else n * (d + 1)) + 32 * n * n
    return LinearFacts(
        n_samples=n, n_weights=d + 1, resident=source.resident, sparse=source.sparse, loss=loss,
        mean_values=source.values_per_row * n / max(1, d),
        l1=estimator._has_l1_penalty(), one_class=task.share is not None, by_gap=estimator.criterion == "gap",
        is_watched=is_watched,
        fits_gram=estimator.max_time is None and needed <= parse_memory(estimator.memory, needed),
    )  # fmt: skip


def problem_of(estimator: Any, task: Task, loss: Loss) -> LinearProblem:
    """Return the problem of an estimator."""
    source, shift, scale = as_stored(task.source)
    constant = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    demands = demands_of(estimator, task)
    if task.share is None:
        return LinearProblem(source, shift, scale, loss, demands, constant)
    plain = LinearProblem(source, shift, scale, loss, demands, 0.0)
    length = math.sqrt(mean_square(plain))
    constant, total = _LONGER * length or 1.0, task.share * float(demands.costs.sum())
    return plain._replace(constant=constant, total=total)


def demands_of(estimator: Any, task: Task) -> Demands:
    """Return targets and costs of the rows; raise ValueError if a cost underflows, or squares of costs overflow."""
    return Demands(task.targets, _costs(task, float(estimator.C)), task.balance, task.pairs)


def _costs(task: Task, C: float) -> np.ndarray:
    """Return C times the weights; raise ValueError if one underflows, or squares of sums of them overflow."""
    with np.errstate(over="ignore"):
        costs = C * task.weights
        total = float(costs.sum())
    if not total <= _LARGEST:
        raise ValueError(
            f"C times the sample weights sums up to {total:.3g}, too large to compute with: lower C, or divide the "
            "weights by a constant."
        )
    small = (task.weights > 0) & (costs < np.finfo(np.float64).tiny)
    if small.any():
        row = int(np.argmax(small))
        raise ValueError(
            f"C times the weight of row {row} is {costs[row]:.3g}, too small to compute with: raise C or the weights, "
            "or leave such rows out with weight 0."
        )
    return costs


def fingerprint_of(task: Task, problem: LinearProblem) -> str:
    """Return a digest of all that defines a problem."""
    digest = hashlib.blake2b(fingerprint(task).encode())
    given = () if problem.total is None else (problem.total,)
    digest.update(repr((problem.loss, problem.constant, problem.demands.balance.tolist(), *given)).encode())
    for array in (problem.demands.costs, problem.shift, problem.scale):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
