"""From an estimator's parameters to a run of dual coordinate ascent, new or resumed."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.linear.fits.linear_problem import fingerprint_of, problem_of
from fastsvm.estimators.linear.progress import DualAscentMonitor
from fastsvm.estimators.linear.training_task import Task, seed_of
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Loss
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.one_class import GivenSumAscent, least_objective
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_dual.sparse_rounds import WideAscent
from fastsvm.solvers.linear_dual.state import MOST_AHEAD, PART_BYTES, LinearDualSettings, LinearDualState
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.tuning import LinearTuning

__all__ = ["DualFit", "DualFitState", "block_rows_of"]

_SAMPLE_BYTES = 48, 8  # of a sample's label, weights, cost and number, and of its dual variable for each score

_SOLVERS: dict[str, Any] = {"ascent": LinearDualAscent, "rounds": WideAscent, "given-sum": GivenSumAscent}


@storable("linear dual fit")
class DualFitState(NamedTuple):
    """Checkpoint of a fit, or its state at the end."""

    fingerprint: str  # It is a digest of its task, loss and constant feature; empty if the fit cannot be resumed.
    seed: int  # It decides the order of the rows.
    state: LinearDualState
    windows: tuple  # These are the rows of a window, and whether all rows were in memory.
    finished: bool
    consistent: bool  # The fit stopped between two windows, so that no step is incomplete.
    records: list[tuple]  # Each epoch so far has one.


class DualFit:
    """A run of dual coordinate ascent for an estimator, whose parameters are valid.

    `last` is a checkpoint or the end of an earlier fit. If this fit may be resumed, or resumes, a fingerprint is
    computed. `solver` is the ascent's name in `choice.LINEAR_SOLVERS`.
    """

    def __init__(
        self,
        estimator: Any,
        task: Task,
        loss: Loss,
        pool: Pool,
        last: DualFitState | None,
        session: FitSession,
        solver: str,
        tuning: LinearTuning,
    ) -> None:
        memory = estimator._memory_left()
        problem = problem_of(estimator, task, loss)
        source = problem.source
        self._fingerprint = fingerprint_of(task, problem) if session.can_be_resumed else ""
        seed = seed_of(estimator) if last is None else last.seed
        self._deadline, self._last = session.deadline, last
        self._settings = _settings(estimator, problem, memory, seed, tuning)._replace(deadline=session.deadline)
        self._windows = self._settings.window_rows, source.resident
        self._finished = self._consistent = False
        self.solver = _SOLVERS[solver](problem, self._settings, pool)

    def initial_state(self) -> LinearDualState:
        """Return the state of the last fit if its problem was the same and it did not finish.

        Else begin at its dual variables if there are as many, or at zero.
        """
        last = self._last
        if last is None or last.state.dual.shape != (len(self.solver.rows), self.solver.n_scores):
            return self.solver.init()
        if last.finished or last.fingerprint != self._fingerprint:
            return self.solver.init(last.state.dual)
        if last.consistent and last.windows == self._windows:
            return self.solver.adopted(last.state)
        return self.solver.resumed(last.state, last.windows == self._windows)

    def run(
        self, state: LinearDualState, n_epochs: int, monitor: DualAscentMonitor
    ) -> tuple[LinearDualState, StopReason]:
        """Return the state after at most `n_epochs` epochs in all, and why it stopped there."""
        try:
            limits = Limits(max(0, n_epochs - state.epoch), self._deadline)
            state, reason, _ = drive(self.solver, state, limits, monitor.observe)
        finally:
            self.solver.close()
        self._consistent = True
        self._finished = reason not in (StopReason.MAX_TIME, StopReason.CALLBACK, StopReason.MAX_ITER)
        return state, reason

    def checkpoint(self, state: LinearDualState, records: list[tuple]) -> DualFitState:
        """Return a checkpoint between two windows."""
        return DualFitState(self._fingerprint, self._settings.seed, state, self._windows, False, True, records)

    def last_state(self, state: LinearDualState, records: list[tuple]) -> DualFitState | None:
        """Return what the next fit resumes after this one ended or was interrupted.

        Nothing is resumed if a bad value or overflow has spread to the variables, which change in place.
        """
        if not (np.isfinite(state.dual).all() and np.isfinite(state.path.position).all()):
            return None
        return self.checkpoint(state, records)._replace(finished=self._finished, consistent=self._consistent)


def block_rows_of(n_features: int, tuning: LinearTuning) -> int:
    """Return the number of rows of a block whose Gram matrix is kept: more if each row takes long."""
    size = tuning.block_rows if tuning.blocks else 1
    return 2 * size if n_features >= 2 * size > 2 else size


def _settings(
    estimator: Any, problem: LinearProblem, memory: int, seed: int, tuning: LinearTuning
) -> LinearDualSettings:
    source, k = problem.source, problem.n_scores
    n, d = source.shape
    item = product_type(source.dtype).itemsize
    share = memory // tuning.memory_share
    if source.resident:
        size = block_rows_of(d, tuning)
        per_row = max(1, round(source.values_per_row)) * k
        window = max(size, tuning.step_work // per_row // size * size)
    else:
        beside, of_score = _SAMPLE_BYTES
        share = max(memory // 2, memory - n * (beside + of_score * k)) // tuning.memory_share
        size = -(-tuning.block_rows // 2) if tuning.blocks else 1  # Gram matrices are computed in each epoch
        window = max(1, min(share // 2, MOST_AHEAD * PART_BYTES) * n // max(1, source.nbytes))
    kept = share // (size * size * item)
    if not tuning.cached_grams or (not source.resident and kept * size < n):  # a few would save little
        kept = 0
    n_visits = 0 if estimator.window_visits == "auto" else int(estimator.window_visits)
    values = share // (3 * 8)  # Newton steps have up to three copies of the rows in float64
    found = LinearDualSettings(
        estimator.tol, seed, size, kept, window, n_visits, values, estimator.criterion,
        part_bytes=min(PART_BYTES, share // (2 * MOST_AHEAD)), tuning=tuning,
    )  # fmt: skip
    return found if problem.total is None else found._replace(least=least_objective(problem))
