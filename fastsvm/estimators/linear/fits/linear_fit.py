"""From an estimator's parameters and samples to the run of a solver, new or resumed."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.choice import LinearFacts
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.linear.training_task import Task, fingerprint, seed_of
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Demands, Loss
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.augmented_lagrangian import FewSamples
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.one_class import GivenSumAscent
from fastsvm.solvers.linear_dual.problem import MOST_AHEAD, PART_BYTES, LinearProblem, LinearSettings
from fastsvm.solvers.linear_dual.sparse_rounds import WideAscent
from fastsvm.solvers.linear_primal.penalties import L1, L2
from fastsvm.solvers.linear_primal.proximal_newton import ProximalNewton
from fastsvm.solvers.outer_loop import Limits, Report, StopReason, drive
from fastsvm.tuning import LinearTuning

_SAMPLE_BYTES = 48, 8  # of a sample's label, weights, cost and number, and of its dual variable for each score
_LARGEST = 1e130  # sum of all costs: its square, times that of a row's length, does not overflow
_LEAST = float(np.finfo(np.float64).tiny)  # the least cost: smaller ones have fewer digits
_BY_EPOCHS: dict[str, Any] = {"ascent": LinearDualAscent, "rounds": WideAscent, "given-sum": GivenSumAscent}


class LinearParameters(Protocol):
    """The parameters of an estimator that decide how it learns."""

    C: float
    tol: float
    criterion: str
    fit_intercept: bool
    intercept_scaling: float
    memory: int | str
    max_time: float | None
    window_visits: int | str
    random_state: int | np.random.RandomState | None

    def _has_l1_penalty(self) -> bool: ...

    def _memory_left(self) -> int: ...


def facts_of(estimator: LinearParameters, task: Task, loss: Loss, is_watched: bool) -> LinearFacts:
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


def problem_of(estimator: LinearParameters, task: Task, loss: Loss) -> LinearProblem:
    """Return the problem of an estimator."""
    source, shift, scale = task.source.as_stored()
    demands = demands_of(float(estimator.C), task)
    if task.share is not None:
        return LinearProblem(source, shift, scale, loss, demands, 0.0, task.share * float(demands.costs.sum()))
    constant = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    return LinearProblem(source, shift, scale, loss, demands, constant)


def demands_of(C: float, task: Task) -> Demands:
    """Return targets and costs of the rows; raise ValueError if a cost underflows, or squares of costs overflow."""
    return Demands(task.targets, _costs(task, C), task.balance, task.pairs)


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
    if len(costs) and costs.min() >= _LEAST:  # there is no weight of 0 either
        return costs
    small = (task.weights > 0) & (costs < _LEAST)
    if small.any():
        row = int(np.argmax(small))
        raise ValueError(
            f"C times the weight of row {row} is {costs[row]:.3g}, too small to compute with: raise C or the weights, "
            "or leave such rows out with weight 0."
        )
    return costs


def _fingerprint_of(task: Task, problem: LinearProblem) -> str:
    """Return a digest of all that defines a problem."""
    digest = hashlib.blake2b(fingerprint(task).encode())
    given = () if problem.total is None else (problem.total,)
    digest.update(repr((problem.loss, problem.constant, problem.demands.balance.tolist(), *given)).encode())
    for array in (problem.demands.costs, problem.shift, problem.scale):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def block_rows_of(n_features: int, tuning: LinearTuning) -> int:
    """Return the number of rows of a block whose Gram matrix is kept: more if each row takes long."""
    size = tuning.block_rows if tuning.blocks else 1
    return 2 * size if n_features >= 2 * size > 2 else size


def _with_sizes(settings: LinearSettings, estimator: LinearParameters, problem: LinearProblem) -> LinearSettings:
    """Return the settings with the sizes of windows, blocks and Newton steps that the memory allows."""
    source, k, memory, tuning = problem.source, problem.n_scores, estimator._memory_left(), settings.tuning
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
    return settings._replace(
        block_rows=size, kept_blocks=kept, window_rows=window,
        n_passes=0 if estimator.window_visits == "auto" else int(estimator.window_visits),
        most_values=share // (3 * 8),  # Newton steps have up to three copies of the rows in float64
        part_bytes=min(PART_BYTES, share // (2 * MOST_AHEAD)),
    )  # fmt: skip


@storable("linear fit")
class LinearFitState(NamedTuple):
    """Checkpoint of a fit, or its state at the end."""

    fingerprint: str  # It is a digest of its task, loss and constant feature; empty if the fit cannot be resumed.
    seed: int  # It decides the order of the rows.
    state: Any  # It is that of the solver.
    windows: tuple  # These are the rows of a window, and whether all rows were in memory.
    finished: bool
    consistent: bool  # The fit stopped between two steps, so that none is incomplete.
    records: list[tuple]  # Each epoch so far has one.


class LinearFit:
    """A run of a solver, named as in `choice.LINEAR_SOLVERS`, for an estimator whose parameters are valid.

    If this fit may be resumed, or resumes, a fingerprint is computed.
    """

    def __init__(
        self,
        estimator: LinearParameters,
        task: Task,
        loss: Loss,
        pool: Pool,
        session: FitSession,
        name: str,
        tuning: LinearTuning,
    ) -> None:
        problem, last = problem_of(estimator, task, loss), session.initial_state("_fit_state")
        self._last = last if isinstance(last, LinearFitState) else None
        self._fingerprint = _fingerprint_of(task, problem) if session.can_be_resumed else ""
        self._seed = 0 if self._last is None else self._last.seed
        self._finished = self._consistent = False
        settings = LinearSettings(
            estimator.tol, criterion=estimator.criterion, deadline=session.deadline, tuning=tuning
        )  # fmt: skip
        self.solver: Any
        if name in _BY_EPOCHS:
            self._seed = seed_of(estimator) if self._last is None else self._seed
            settings = _with_sizes(settings._replace(seed=self._seed), estimator, problem)
            self.solver = _BY_EPOCHS[name](problem, settings, pool)
        elif name == "newton":
            penalty = L1(tuning) if estimator._has_l1_penalty() else L2()
            self.solver = ProximalNewton(
                problem, settings, pool, penalty, parse_memory(estimator.memory) // tuning.memory_share
            )  # fmt: skip
        else:
            self.solver = FewSamples(problem, settings, pool, name == "gram")
        self._windows, self._deadline = (settings.window_rows, problem.source.resident), session.deadline

    def initial_state(self) -> tuple[Any, list[tuple]]:
        """Return the state of the last fit and its records if its problem was the same and it did not finish.

        Else begin at its solution if it has the same shape, or at zero.
        """
        last, solver = self._last, self.solver
        start = None if last is None else solver.start_of(last.state)
        if last is None or start is None:
            return solver.init(), []
        if last.finished or last.fingerprint != self._fingerprint:
            return solver.init(start), []
        same_windows = last.windows == self._windows
        is_whole = last.consistent and same_windows
        state = solver.adopted(last.state) if is_whole else solver.resumed(last.state, same_windows)
        return state, last.records if state.epoch > 0 else []

    def run(self, state: Any, n_epochs: int, watch: Callable[[Any, Report], bool]) -> tuple[Any, StopReason]:
        """Return the state after at most `n_epochs` epochs in all, and why it stopped there."""
        try:
            limits = Limits(max(0, n_epochs - state.epoch), self._deadline)
            state, reason, _ = drive(self.solver, state, limits, watch)
        finally:
            self.solver.close()
        self._consistent = True
        self._finished = reason not in (StopReason.MAX_TIME, StopReason.CALLBACK, StopReason.MAX_ITER)
        return state, reason

    def checkpoint(self, state: Any, records: list[tuple]) -> LinearFitState:
        """Return a checkpoint between two steps."""
        return LinearFitState(self._fingerprint, self._seed, state, self._windows, False, True, records)

    def last_state(self, state: Any, records: list[tuple]) -> LinearFitState | None:
        """Return what the next fit resumes after this one ended or was interrupted, None if there is nothing."""
        state = self.solver.kept(state, self._finished)
        if state is None:
            return None
        return self.checkpoint(state, records)._replace(finished=self._finished, consistent=self._consistent)
