"""From an estimator's parameters to a run of Newton's method, new or resumed."""

from typing import Any, NamedTuple

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.linear.fits.linear_problem import fingerprint_of, problem_of
from fastsvm.estimators.linear.progress import DualAscentMonitor
from fastsvm.estimators.linear.training_task import Task
from fastsvm.files.storable import storable
from fastsvm.losses import Loss
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_primal.penalties import L1, L2
from fastsvm.solvers.linear_primal.proximal_newton import LinearPrimalSettings, LinearPrimalState, ProximalNewton
from fastsvm.solvers.linear_primal.some_rows import weights_of_some_rows
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.tuning import LinearTuning

__all__ = ["PrimalFit", "PrimalFitState"]


@storable("linear primal fit")
class PrimalFitState(NamedTuple):
    """Checkpoint of a fit, or its state at the end."""

    fingerprint: str  # It is a digest of its task, loss and constant feature; empty if the fit cannot be resumed.
    state: LinearPrimalState
    resident: bool  # All rows were in memory.
    finished: bool
    consistent: bool  # The fit stopped between two steps, so that no Hessian is incomplete.
    records: list[tuple]  # Each step so far has one.


class PrimalFit:
    """A run of Newton's method for an estimator, whose parameters are valid, with a smooth loss.

    `last` is a checkpoint or the end of an earlier fit. If this fit may be resumed, or resumes, a fingerprint is
    computed. `solver` is the method's name in `choice.LINEAR_SOLVERS`.
    """

    def __init__(
        self,
        estimator: Any,
        task: Task,
        loss: Loss,
        pool: Pool,
        last: PrimalFitState | None,
        session: FitSession,
        solver: str,
        tuning: LinearTuning,
    ) -> None:
        memory = parse_memory(estimator.memory)
        problem = problem_of(estimator, task, loss)
        self._fingerprint, self._last = fingerprint_of(task, problem) if session.can_be_resumed else "", last
        self._resident = problem.source.resident
        self._finished = self._consistent = False
        penalty = L1(tuning) if estimator._has_l1_penalty() else L2()
        self._deadline, most = session.deadline, memory // tuning.memory_share
        settings = LinearPrimalSettings(estimator.tol, estimator.criterion, most, penalty, session.deadline, tuning)
        self.solver = ProximalNewton(problem, settings, pool)
        self._pool = pool

    def initial_state(self) -> LinearPrimalState:
        """Return the state of the last fit if its problem was the same and it did not finish.

        Else begin at its weights if there are as many, or at those of some rows, or at zero.
        """
        last, solver = self._last, self.solver
        if last is None or last.state.weights.shape != (solver.n_scores, solver.n_weights):
            return solver.init(weights_of_some_rows(solver.problem, solver.settings, self._pool))
        if last.finished or last.fingerprint != self._fingerprint:
            return solver.init(last.state.weights)
        if last.consistent and last.resident == self._resident:
            return last.state
        return solver.init(last.state.weights)._replace(epoch=last.state.epoch)

    def run(
        self, state: LinearPrimalState, n_steps: int, monitor: DualAscentMonitor
    ) -> tuple[LinearPrimalState, StopReason]:
        """Return the state after at most `n_steps` steps in all, and why it stopped there."""
        limits = Limits(max(0, n_steps - state.epoch), self._deadline)
        state, reason, _ = drive(self.solver, state, limits, monitor.observe)
        self._consistent = True
        self._finished = reason not in (StopReason.MAX_TIME, StopReason.CALLBACK, StopReason.MAX_ITER)
        return state, reason

    def checkpoint(self, state: LinearPrimalState, records: list[tuple]) -> PrimalFitState:
        """Return a checkpoint between two steps."""
        return PrimalFitState(self._fingerprint, state, self._resident, False, True, records)

    def last_state(self, state: LinearPrimalState, records: list[tuple]) -> PrimalFitState:
        """Return what the next fit resumes after this one ended or was interrupted."""
        if self._finished:  # the next one takes the weights alone
            state = state._replace(models=(), scores=state.scores[:, :0])
        return self.checkpoint(state, records)._replace(finished=self._finished, consistent=self._consistent)
