"""What linear support vector machines have in common: from parameters and samples to the run of a solver."""

import hashlib
from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.choice import LinearFacts, linear_solvers
from fastsvm.estimators.fitting.documentation import parametrised
from fastsvm.estimators.fitting.progress import LATEST, EpochMonitor, MonitoredFit, left_of
from fastsvm.estimators.fitting.session import FitSession, warn_of_gap
from fastsvm.estimators.fitting.validation import (
    Attributes,
    Column,
    Samples,
    TrainingSet,
    boolean,
    check_columns,
    check_parameters,
    check_squares,
    class_weights,
    either,
    encode,
    number,
    one_of,
)
from fastsvm.estimators.linear.prediction import LinearClassifier, LinearModel, LinearRegressor
from fastsvm.estimators.linear.training_task import (
    Task,
    fingerprint,
    in_pairs,
    loss_of,
    merged,
    seed_of,
    task_of_classes,
)
from fastsvm.files.storable import storable
from fastsvm.linalg.row_products import product_type
from fastsvm.losses import Demands, Loss
from fastsvm.memory import parse_memory, threads_within
from fastsvm.solvers.linear_dual.augmented_lagrangian import FewSamples
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.one_class import GivenSumAscent
from fastsvm.solvers.linear_dual.problem import PART_BYTES, PARTS, LinearProblem, LinearSettings
from fastsvm.solvers.linear_dual.sparse_rounds import WideAscent
from fastsvm.solvers.linear_primal.penalties import L1, L2
from fastsvm.solvers.linear_primal.proximal_newton import LinearPrimalState, ProximalNewton
from fastsvm.solvers.outer_loop import Limits, Report, StopReason, drive
from fastsvm.sources import Source
from fastsvm.tuning import LinearTuning, current_tuning

_RULES = {
    "dual": either(boolean, one_of("auto")),
    "intercept_scaling": number(),
    "max_iter": number(integral=True, least=1),
    "criterion": one_of("gap", "gradient"),
    "window_visits": either(one_of("auto"), number(integral=True, least=1)),
}
_SAMPLE_BYTES = 48, 8  # of a sample's label, weights, cost and number, and of its dual variable for each score
_LARGEST = 1e130  # sum of all costs: its square, times that of a row's length, does not overflow
_LEAST = float(np.finfo(np.float64).tiny)  # the least cost: smaller ones have fewer digits
_BY_EPOCHS: dict[str, Any] = {"ascent": LinearDualAscent, "rounds": WideAscent, "given-sum": GivenSumAscent}


# --- from parameters and samples to a problem and its solver -----------------------------------------------


def facts_of(estimator: "BaseLinearSVM", task: Task, loss: Loss, is_watched: bool) -> LinearFacts:
    """Return what decides which solver learns a task; `is_watched` says whether its steps are to be seen."""
    source, (n, d) = task.source, task.source.shape
    needed = 8 * (2 * source.nbytes if source.sparse else n * (d + 1)) + 32 * n * n
    return LinearFacts(
        n_samples=n, n_weights=d + 1, resident=source.resident, sparse=source.sparse, loss=loss,
        mean_values=source.values_per_row * n / max(1, d),
        l1=estimator._has_l1_penalty(), one_class=task.share is not None, by_gap=estimator.criterion == "gap",
        is_watched=is_watched, n_scores=len(task.balance), of_splits=len(task.folds) > 0,
        fits_gram=n <= d and estimator.max_time is None and needed <= parse_memory(estimator.memory, needed),
    )  # fmt: skip


def problem_of(estimator: "BaseLinearSVM", task: Task, loss: Loss) -> LinearProblem:
    """Return the problem of an estimator."""
    source, shift, scale = task.source.as_stored()
    demands = demands_of(float(estimator.C), task)
    if task.share is not None:
        return LinearProblem(source, shift, scale, loss, demands, 0.0, task.share * float(demands.costs.sum()))
    constant = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    return LinearProblem(source, shift, scale, loss, demands, constant)


def demands_of(C: float, task: Task) -> Demands:
    """Return targets and costs of the rows, which are C times their weights.

    Raises ValueError if a cost underflows, or squares of sums of costs overflow.
    """
    with np.errstate(over="ignore"):
        costs = C * task.weights
        total = float(costs.sum())
    if not total <= _LARGEST:
        raise ValueError(
            f"C times the sample weights sums up to {total:.3g}, too large to compute with: lower C, or divide the "
            "weights by a constant."
        )
    if costs.min(initial=_LEAST) < _LEAST:  # Weights of 0 may be among them.
        small = (task.weights > 0) & (costs < _LEAST)
        if small.any():
            row = int(np.argmax(small))
            raise ValueError(
                f"C times the weight of row {row} is {costs[row]:.3g}, too small to compute with: raise C or the "
                "weights, or leave such rows out with weight 0."
            )
    return Demands(task.targets, costs, task.balance, task.pairs, task.folds, task.held)


def _fingerprint_of(task: Task, problem: LinearProblem, has_l1_penalty: bool) -> str:
    """Return a digest of all that defines a problem."""
    digest = hashlib.blake2b(fingerprint(task).encode() + b"l1" * has_l1_penalty)
    total = () if problem.total is None else (problem.total,)
    digest.update(repr((problem.loss, problem.constant, problem.demands.balance.tolist(), *total)).encode())
    for array in (problem.demands.costs, problem.shift, problem.scale):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def block_rows_of(n_features: int, tuning: LinearTuning) -> int:
    """Return the number of rows of a block whose Gram matrix is kept: more if each row takes long."""
    size = tuning.block_rows if tuning.blocks else 1
    return 2 * size if n_features >= 2 * size > 2 else size


def _with_sizes(settings: LinearSettings, estimator: "BaseLinearSVM", problem: LinearProblem) -> LinearSettings:
    """Return the settings with the sizes of windows, blocks and Newton steps that the memory allows."""
    source, k, tuning, (n, d) = problem.source, problem.n_scores, settings.tuning, problem.source.shape
    memory = estimator._memory_left(128 * n * (d + 65))  # enough for copies of the rows and for Gram matrices
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
        window = max(1, min(share // 2, PARTS * PART_BYTES) * n // max(1, source.nbytes))
    kept = share // (size * size * item)
    if not tuning.cached_grams or (not source.resident and kept * size < n):  # a few would save little
        kept = 0
    return settings._replace(
        block_rows=size, kept_blocks=kept, window_rows=window,
        n_passes=0 if estimator.window_visits == "auto" else int(estimator.window_visits),
        most_values=share // (3 * 8),  # Newton steps have up to three copies of the rows in float64
        part_bytes=min(PART_BYTES, share // (2 * PARTS)),
    )  # fmt: skip


def solver_of(
    name: str, estimator: "BaseLinearSVM", problem: LinearProblem, settings: LinearSettings, pool: Pool
) -> Any:
    """Return the solver with a name of `choice.LINEAR_SOLVERS`."""
    if name in _BY_EPOCHS:
        return _BY_EPOCHS[name](problem, _with_sizes(settings, estimator, problem), pool)
    if name == "newton":
        penalty = L1() if estimator._has_l1_penalty() else L2()
        memory = parse_memory(estimator.memory) // settings.tuning.memory_share
        return ProximalNewton(problem, settings, pool, penalty, memory)
    return FewSamples(problem, settings, pool, name == "gram")


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

    If this fit may be resumed, or resumes, a fingerprint is computed. `records` has one for each epoch so far.
    """

    def __init__(
        self,
        estimator: "BaseLinearSVM",
        task: Task,
        loss: Loss,
        pool: Pool,
        session: FitSession,
        name: str,
        tuning: LinearTuning,
    ) -> None:
        problem, last = problem_of(estimator, task, loss), session.initial_state("_fit_state")
        self._last = last if isinstance(last, LinearFitState) else None
        self._fingerprint = (
            _fingerprint_of(task, problem, estimator._has_l1_penalty()) if session.can_be_resumed else ""
        )
        self._seed = 0 if self._last is None else self._last.seed
        self._finished = self._consistent = False
        self.records: list[tuple] = []
        if name in _BY_EPOCHS and self._last is None:
            self._seed = seed_of(estimator)
        settings = LinearSettings(
            estimator.tol, self._seed, criterion=estimator.criterion, deadline=session.deadline, tuning=tuning
        )
        self.solver = solver_of(name, estimator, problem, settings, pool)
        self._windows, self._deadline = (self.solver.settings.window_rows, problem.source.resident), session.deadline

    def initial_state(self) -> Any:
        """Return the state of the last fit, and take over its records, if its problem was the same and did not finish.

        Else begin at its solution if it has the same shape, or at zero.
        """
        last, solver = self._last, self.solver
        start = None if last is None else solver.start_of(last.state)
        if last is None or start is None:
            return solver.init()
        if last.fingerprint != self._fingerprint:
            return solver.init(start)
        if last.finished:
            state = solver.init(start)
            is_bounded = isinstance(state, LinearPrimalState)  # its bounds were those of a model
            return state._replace(dual_value=last.state.dual_value) if is_bounded else state
        same_windows = last.windows == self._windows
        is_whole = last.consistent and same_windows
        state = solver.adopted(last.state) if is_whole else solver.resumed(last.state, same_windows)
        self.records = last.records if state.epoch > 0 else []
        return state

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

    def checkpoint(self, state: Any) -> LinearFitState:
        """Return a checkpoint between two steps."""
        return LinearFitState(self._fingerprint, self._seed, state, self._windows, False, True, self.records)

    def last_state(self, state: Any) -> LinearFitState | None:
        """Return what the next fit resumes after this one ended or was interrupted, None if there is nothing."""
        state = self.solver.kept(state, self._finished)
        if state is None:
            return None
        return self.checkpoint(state)._replace(finished=self._finished, consistent=self._consistent)


# --- estimators ------------------------------------------------------------------------------------------


class _Monitor(EpochMonitor):
    """Records every epoch of a fit."""

    COLUMNS = ("epoch", "time", "objective", "dual_objective", "gap", "bytes_read")

    def __init__(self, fit: MonitoredFit, source: Source) -> None:
        super().__init__(fit)
        self._source = source

    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return primal and dual objective, relative gap and bytes read."""
        values = float(state.primal.sum()), report.objective, report.gap, self._source.reads.nbytes
        shown = {"gap": f"{report.gap:.2g}"}
        if self._estimator.criterion == "gap" and not self._bar.disable:
            latest = self._records[-LATEST:]
            shown |= left_of([one[1] for one in latest], [one[4] for one in latest], self._estimator.tol)
        return values, shown


@parametrised
class BaseLinearSVM(LinearModel):
    """What classification, regression and the machine of one class have in common.

    Parameters
    ----------
    C : float, default=1.0
        Factor of the losses.
    dual : bool or "auto", default="auto"
        Accepted for code written for scikit-learn: the solver works on both problems at once, which have the same
        solution.
    tol : float, default=1e-3
        The fit ends when (P - D) / P is at most this, with the objective P and a lower bound D of what it could be; of
        several classes one against the rest, or of pairs, for each of them.
    intercept_scaling : float, default=1.0
        Value of a constant feature. The intercept is its weight times this value. It is penalised like all weights; the
        larger the value, the less.
    memory : "auto", int or str, default="auto"
        Memory that the fit may use beside the weights and the dual variables: bytes, or a size such as "2GB".
        Samples on disk are read once if they fit in a third of it, else window by window in each epoch. "auto" is half
        of what is available. Samples in memory do not count. With penalty "l1", which classifiers have, each Newton
        step reads samples on disk two to five times, and a quarter of the memory holds Hessians:
        √(memory / (32 n_classes)) features at a time, at most 4,096.
    warm_start : bool, default=False
        Begin the next fit at the dual variables of the last, or after Newton steps at its weights, if there are as
        many. A fit that was interrupted, or ran out of time or epochs, is resumed if nothing has changed.
    criterion : {"gap", "gradient"}, default="gap"
        What `tol` bounds: the relative duality gap, or, as in LIBLINEAR, the violation of the optimality conditions of
        the dual problem, the projected gradient, which takes much longer to become small. Where epochs are Newton
        steps, it is that of the problem itself.
    window_visits : "auto" or int, default="auto"
        For samples on disk: how often an epoch processes each window while it is in memory. "auto" is as often as there
        is time for while the next window is read, at most 4 times. Results then depend on the speed of the machine.
        With an int they are the same for the same `random_state`.

    Attributes
    ----------
    objective_ : float
        The objective, penalty + C Σ loss, of these weights, that of the constant feature among them; of several classes
        one against the rest the sum.
    dual_objective_ : float
        Objective of feasible dual variables, a lower bound of the minimum.
    duality_gap_ : float
        `objective_` minus `dual_objective_`: an upper bound of how far the objective is from its minimum. Computed in
        float64.
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores; where epochs are Newton steps the largest
        distance of 0 from the subdifferential of the objective by a weight.
    converged_ : bool
        Whether the relative duality gap, or what `criterion` names, is within `tol`.
    solver_ : str
        Which solver ended the fit, chosen from the samples and the loss: "gram", "weights", "newton", "rounds",
        "ascent" or "given-sum".
    history_ : dict of str to ndarray
        One entry an epoch: epoch, time (s), objective (the lowest so far), dual_objective, gap (the lowest relative gap
        so far; the largest of the classes one against the rest), bytes_read.
    """

    _: KW_ONLY
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    memory: str | int = "auto"
    random_state: int | np.random.RandomState | None = None
    standardize: bool = False
    warm_start: bool = False
    verbose: bool | int = False

    _merges_rows: ClassVar[bool] = True
    """Whether equal rows in memory are merged before they are learnt."""

    def _check_parameters(self) -> None:
        check_parameters(self, _RULES | self._own_rules())
        parse_memory(self.memory, enough=0)
        if self.fit_intercept and self.intercept_scaling <= 0:
            raise ValueError(
                f"Intercept scaling is {self.intercept_scaling!r} but needs to be greater than 0. To disable fitting "
                "an intercept, set fit_intercept=False."
            )

    def _has_l1_penalty(self) -> bool:
        """Return whether ‖w‖₁ is penalised, not ½‖w‖²."""
        return False

    def _learns_pairs(self, n_classes: int) -> bool:
        """Return whether each pair of so many classes is told apart."""
        return False

    def _memory_left(self, enough: int) -> int:
        """Return the bytes that a fit may use; see `parse_memory`."""
        return parse_memory(self.memory, enough)

    def _chosen_loss(self) -> Loss:
        """Return the loss that is learnt."""
        raise NotImplementedError

    def _task(self, data: TrainingSet, loss: Loss) -> tuple[Task, Attributes]:
        """Return what a loss is to learn, and fitted attributes that the samples determine."""
        raise NotImplementedError

    def _learn(self, X: Samples, y: Column, sample_weight: Column, session: FitSession) -> None:
        loss = self._chosen_loss()
        task, names = self._task(self._checked(X, y, sample_weight), loss)
        self._fit(task, loss, names, session)

    def _fit(self, task: Task, loss: Loss, names: Attributes, session: FitSession) -> None:
        """Solve the problem; `names` are fitted attributes beside those of the solution."""
        k, n_features, tuning = len(task.balance), task.source.shape[1], current_tuning().linear
        is_watched = session.can_be_resumed or session.has_callbacks or self.max_iter < tuning.least_epochs
        solvers = linear_solvers(facts_of(self, task, loss, is_watched), tuning)
        session.begin()
        with Pool.open(most=threads_within(self.memory)) as pool:
            for solver in solvers:
                check_columns(self.memory, n_features, solver.n_copies, k)
                if solver.merges and self._merges_rows and task.source.resident:
                    task = merged(task, tuning.small_values)
                self.solver_ = solver.name
                fit = LinearFit(self, task, loss, pool, session, solver.name, tuning)
                monitor, state = self._run(fit, names, session)
                if self.stop_reason_ != StopReason.STALLED:
                    break  # else the next solver may come nearer, where rounding errors hide the way of this one
            self._conclude(fit.solver.weights(state), partial(fit.solver.dual_of, state), pool)
        session.finish(monitor, warn_of_gap)

    def _run(self, fit: LinearFit, names: Attributes, session: FitSession) -> tuple[_Monitor, Any]:
        """Take steps until the fit ends, and set the fitted attributes of the best state, which is returned too."""
        solver, state = fit.solver, fit.initial_state()

        def attributes(state: Any) -> Attributes:
            return names | self._weights(solver.weights(state), state.epoch)

        monitored = MonitoredFit(session, self.max_iter, attributes, fit.checkpoint, state, fit.records, self.solver_)
        monitor = _Monitor(monitored, solver.problem.source)
        with session.solving(monitor, "_fit_state", lambda: fit.last_state(monitor.state)):
            state, reason = fit.run(state, self.max_iter, monitor.observe)
        state, certificate = solver.finish(state)
        reason = StopReason.CONVERGED if solver.is_within(certificate) else reason
        self.__dict__.update(attributes(state))
        self.objective_, self.dual_objective_ = float(certificate.primal.sum()), float(certificate.dual.sum())
        self.duality_gap_ = max(self.objective_ - self.dual_objective_, 0.0)  # rounding may leave less
        self.kkt_violation_ = float(certificate.violation)
        self.converged_, self.stop_reason_ = reason is StopReason.CONVERGED, str(reason)
        return monitor, state

    def _conclude(self, weights: np.ndarray, dual: Callable[[], np.ndarray], pool: Pool) -> None:
        """Take the weights at the end of a fit, and what returns their dual variables; here for nothing."""

    def _weights(self, weights: np.ndarray, n_epochs: int) -> Attributes:
        """Return the fitted attributes of weights."""
        if len(weights) == 2:  # only their difference matters
            weights = np.diff(weights, axis=0)
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        coef, intercept = self._for_rows_as_passed(weights[:, :-1], scaling * weights[:, -1])
        return self._shaped(np.ascontiguousarray(coef), intercept) | {"n_iter_": n_epochs}


@parametrised
class BaseLinearClassifier(LinearClassifier, BaseLinearSVM):
    """What classifiers have in common.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        ½‖w‖², or ‖w‖₁: the smaller C, the more weights are exactly 0. "l1" is for smooth losses, of each class against
        the rest.
    """

    _: KW_ONLY
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    class_weight: dict | str | None = None

    def _task(self, data: TrainingSet, loss: Loss) -> tuple[Task, Attributes]:
        classes, labels = encode(data.y, data.weight)
        factors, coupled = class_weights(self.class_weight, classes, labels, data.weight), loss.of_classes
        source, by_pair = self._standardized(data.source, data.weight), self._learns_pairs(len(classes))
        task = task_of_classes(source, labels, data.weight, factors, coupled or by_pair)
        if by_pair:
            _check_pairs(self.memory, len(labels), len(classes))
            task = in_pairs(task)
        elif coupled:  # one of two scores would not do: what is penalised is the length of both
            task = task._replace(balance=np.ones(len(classes)))
        return task, {"classes_": classes}

    def _shaped(self, coef: np.ndarray, intercept: np.ndarray) -> dict[str, np.ndarray]:
        return {"coef_": coef, "intercept_": intercept}


def _check_pairs(memory: int | str, n: int, n_classes: int) -> None:
    """Raise ValueError if the memory does not hold a dual variable of each sample for each pair of classes."""
    n_pairs = n_classes * (n_classes - 1) // 2
    needed = 8 * n_pairs * (n + 2)
    allowed = parse_memory(memory, enough=needed)
    if needed > allowed:
        raise ValueError(
            f"multi_class='ovo' tells {n_pairs:,} pairs of {n_classes:,} classes apart. The dual variables of {n:,} "
            f"samples in all of them would take {needed / 1e9:.4g} GB, and memory allows {allowed / 1e9:.4g} GB: raise "
            "memory, or leave multi_class out."
        )


@parametrised
class BaseLinearRegressor(LinearRegressor, BaseLinearSVM):
    """What regressors have in common."""

    _: KW_ONLY
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    loss: Any
    epsilon: float

    def _chosen_loss(self) -> Loss:
        return loss_of(self.loss, epsilon=float(self.epsilon))

    def _task(self, data: TrainingSet, loss: Loss) -> tuple[Task, Attributes]:
        check_squares(data.y[data.weight > 0])
        source, total = self._standardized(data.source, data.weight), float(data.weight.sum())
        return Task(source, np.ascontiguousarray(data.y), data.weight, total, np.ones(1), of_classes=False), {}

    def _shaped(self, coef: np.ndarray, intercept: np.ndarray) -> dict[str, np.ndarray]:
        return {"coef_": coef[0], "intercept_": intercept}
