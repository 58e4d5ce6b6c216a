"""From an estimator's parameters to a run of dual coordinate ascent, begun anew or gone on with."""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.checkpoints import may_go_on
from fastsvm.estimators.linear.training_task import Task, as_stored, fingerprint
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Demands, Loss
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_dual.state import LinearDualSettings, LinearDualState
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import DenseBlock, MemorySource, Source

__all__ = ["DualFit", "DualFitState", "merged"]

_SWEEPS = 3
_BLOCK_ROWS = ((512, 192), (128, 128), (0, 64))  # of at least so many features, so many rows
_STREAMED_ROWS = 64  # of a block whose Gram matrix is computed again in each epoch
_GRAM_SHARE, _WINDOW_SHARE = 4, 8  # of the memory; three windows are there at once
_DENSE_SHARE = 96  # bytes of the memory for a value: Newton steps have up to three copies in float64 beside all else
_MOST_WINDOW = 32 << 20  # bytes
_WINDOW_WORK = 1 << 31  # multiplications of rows in memory between two looks at the clock
_FEW_VALUES = 1 << 17  # of which repeated rows are looked for


@storable("linear dual fit")
class DualFitState(NamedTuple):
    """A fit that may be gone on with.

    Attributes
    ----------
    mark : str
        Fingerprint of its task, loss and constant feature; empty if nobody can go on with it.
    seed : int
        Of the order of the rows.
    state : LinearDualState
        Where it is.
    windows : tuple
        How its rows were cut: rows of a window, and whether they were in memory.
    over, whole : bool
        Whether it came to its end; whether it stopped between two windows, so that nothing is half done.
    records : list of tuple
        Of the epochs so far.
    """

    mark: str
    seed: int
    state: LinearDualState
    windows: tuple
    over: bool
    whole: bool
    records: list[tuple]


class DualFit:
    """A run of dual coordinate ascent for an estimator.

    Parameters
    ----------
    estimator : LinearSVC or LinearSVR
        Its parameters.
    task : Task
        What is to be learnt.
    loss : Loss
        Of a row.
    pool : Pool
        Threads.
    seed : int
        Of the order of the rows.
    """

    def __init__(self, estimator: Any, task: Task, loss: Loss, pool: Pool, seed: int) -> None:
        memory = parse_memory(estimator.memory)
        source, shift, scale = as_stored(task.source, memory)
        constant = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
        demands = Demands(task.targets, _costs(task, float(estimator.C)), task.balance)
        problem = LinearProblem(source, shift, scale, loss, demands, constant)
        self.mark = _mark(task, problem) if may_go_on(estimator) else ""
        self.settings = _settings(estimator, source, len(task.balance), memory, seed)
        self.windows = self.settings.window_rows, source.resident
        self.solver = LinearDualAscent(problem, self.settings, pool)

    def begin(self, kept: DualFitState | None) -> LinearDualState:
        """Return where to begin: where a fit of the same problem was interrupted, near the last, or at zero."""
        if kept is None or kept.state.dual.shape != (len(self.solver.rows), self.solver.n_scores):
            return self.solver.init()
        if kept.over or kept.mark != self.mark:
            return self.solver.init(kept.state.dual)
        if kept.whole and kept.windows == self.windows:
            return self.solver.adopted(kept.state)
        return self.solver.resumed(kept.state, kept.windows == self.windows)

    def run(
        self, state: LinearDualState, n_epochs: int, deadline: float, watch: Any
    ) -> tuple[LinearDualState, StopReason]:
        """Return the state after the epoch `n_epochs` at most, and why it ended there."""
        try:
            limits = Limits(max(0, n_epochs - state.epoch), deadline)
            state, reason, _ = drive(self.solver, state, limits, watch.observe)
        finally:
            self.solver.close()
            watch.close()
        return state, reason


def _costs(task: Task, C: float) -> np.ndarray:
    """Return C times the weights of the rows."""
    costs = C * task.weights
    small = (task.weights > 0) & (costs < np.finfo(np.float64).tiny)
    if small.any():
        row = int(np.argmax(small))
        raise ValueError(
            f"C times the weight of row {row} is {costs[row]:.3g}, too small to compute with: raise C or the weights, "
            "or leave such rows out with weight 0."
        )
    return costs


def _mark(task: Task, problem: LinearProblem) -> str:
    """Return a digest of all that makes up a problem."""
    digest = hashlib.blake2b(fingerprint(task).encode())
    digest.update(repr((problem.loss, problem.constant, problem.demands.balance.tolist())).encode())
    for array in (problem.demands.costs, problem.shift, problem.scale):
        digest.update(np.ascontiguousarray(array).view(np.uint8))
    return digest.hexdigest()


def _settings(estimator: Any, source: Source, k: int, memory: int, seed: int) -> LinearDualSettings:
    """Return how it is learnt."""
    n, d = source.shape
    item = product_type(source.dtype).itemsize
    if source.resident:
        size = next(rows for least, rows in _BLOCK_ROWS if d >= least)
        per_row = max(1, source.nbytes // (source.dtype.itemsize * max(1, n)) if source.sparse else d) * k
        window = max(size, _WINDOW_WORK // per_row // size * size)
    else:
        size = _STREAMED_ROWS
        window = max(1, min(memory // _WINDOW_SHARE, _MOST_WINDOW) * n // max(1, source.nbytes))
    kept = memory // _GRAM_SHARE // (size * size * item)
    if not source.resident and kept * size < n:  # a few would save little
        kept = 0
    n_visits = 0 if estimator.window_visits == "auto" else int(estimator.window_visits)
    values = memory // _DENSE_SHARE
    return LinearDualSettings(estimator.tol, seed, size, _SWEEPS, kept, window, n_visits, values, estimator.criterion)


def merged(task: Task) -> Task:
    """Return the task with rows that are repeated as one, in float64 and an order of their own, if they are few.

    Then a row of weight 2 is the same as two rows, to the last bit.
    """
    n, d = task.source.shape
    if not task.source.resident or n * d > _FEW_VALUES:
        return task
    block = task.source.in_memory().block
    rows = block.dense(np.float64)
    if not np.isfinite(rows).all():
        return task  # for the solver to say where
    used = np.flatnonzero(task.weights > 0)
    keyed = np.column_stack([task.targets[used], rows[used]])
    _, first, inverse = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(inverse.ravel(), task.weights[used])
    first = used[first]
    source = task.source.take(first)
    if isinstance(source, MemorySource) and not source.sparse:
        source = MemorySource(DenseBlock(rows[first]))  # one type, for which alone code is compiled
    return task._replace(source=source, targets=task.targets[first], weights=weights)
