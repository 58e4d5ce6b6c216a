"""What workers do for gradient descent on a cluster: an epoch of a shard from common weights, and its objective."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.dask.tasks import counting
from fastsvm.dask.worker import ShardRows, task_of_labels, threads_of
from fastsvm.estimators.linear.fits.sgd_fit import SGDFit
from fastsvm.estimators.linear.sgd_classifier import SGDClassifier
from fastsvm.estimators.linear.training_task import Task
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Loss
from fastsvm.solvers.outer_loop import Limits, drive
from fastsvm.solvers.sgd.dense_steps import LinearFunction
from fastsvm.solvers.sgd.problem import SGDState
from fastsvm.sources import MemorySource, ScaledSource, Source

__all__ = ["Averages", "Descent", "SGDPlan", "descend", "objectives_of_shard", "sums_of_descent"]


class SGDPlan(NamedTuple):
    """What is to be learnt from all shards: `shift` and `scale` are as in `worker.Plan`."""

    settings: dict[str, Any]  # They are parameters of the local estimator.
    loss: Loss
    seed: int  # It orders the rows.
    classes: np.ndarray
    factors: np.ndarray  # They multiply the weights of the rows of each class.
    together: int  # So many shards share the threads of a worker.
    shift: np.ndarray
    scale: np.ndarray


@storable("averaged weights")
class Averages(NamedTuple):
    """The weights after the last step, and their average over the steps; of a shard, or averaged over all."""

    last: LinearFunction
    mean: LinearFunction


@storable("descent of a shard")
class Descent(NamedTuple):
    """State of a shard after a round, what the client is told, and the number of steps so far."""

    state: SGDState
    averages: Averages
    n_steps: int


def _task(rows: ShardRows, plan: SGDPlan) -> Task:
    """Return the task of a shard."""
    source: Source = MemorySource.of(rows.X)
    if plan.scale.size:
        dtype = np.dtype(np.float64) if source.sparse else product_type(source.dtype)
        source = ScaledSource(source, None if source.sparse else plan.shift, plan.scale, dtype)
    return task_of_labels(source, rows, plan, plan.loss.of_classes)


def _fit(rows: ShardRows, plan: SGDPlan, number: int, pool: Pool) -> SGDFit:
    estimator = SGDClassifier(**plan.settings, tol=None)
    return SGDFit(estimator, _task(rows, plan), pool, plan.seed + number)


def descend(
    rows: ShardRows, plan: SGDPlan, number: int, last: Descent | None, common: Averages | None
) -> Descent | None:
    """Return a shard after one more epoch, from the common weights; None if it has no rows of positive weight.

    Rates by feature and the lengths of steps go on as if the weights had been the shard's own.
    """
    if not rows.weight.any():
        return None
    with Pool.open(threads_of(plan.together)) as pool, counting("computing"):
        solver = _fit(rows, plan, number, pool).solver
        state = solver.init()
        if last is not None and common is not None:
            state = last.state._replace(model=last.state.model.moved(*common))
        try:
            state, _, _ = drive(solver, state, Limits(1, np.inf), lambda state, report: False)
        finally:
            solver.close()
    model = state.model
    return Descent(state, Averages(model.last(), solver.answer(state)), state.n_steps)


def sums_of_descent(found: Descent | None) -> tuple[Averages, int] | None:
    """Return what the client is told of a round."""
    return None if found is None else (found.averages, found.n_steps)


def objectives_of_shard(rows: ShardRows, plan: SGDPlan, weights: LinearFunction) -> tuple[float, float]:
    """Return the objectives of a shard, of some weights and of zero weights, as the solver sees it; 0 without rows."""
    if not rows.weight.any():
        return 0.0, 0.0
    with Pool.open(threads_of(plan.together)) as pool, counting("computing"):
        solver = _fit(rows, plan, 0, pool).solver
        return solver.objective(weights, exact=True), solver.at_zero
