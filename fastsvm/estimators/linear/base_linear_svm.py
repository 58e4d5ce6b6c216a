"""What linear support vector machines have in common."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.choice import linear_solvers
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
    optional,
    seed,
)
from fastsvm.estimators.linear.fits.linear_fit import LinearFit, facts_of
from fastsvm.estimators.linear.prediction import LinearClassifier, LinearModel, LinearRegressor
from fastsvm.estimators.linear.training_task import Task, in_pairs, loss_of, merged, task_of_classes
from fastsvm.losses import Loss
from fastsvm.memory import parse_memory, threads_within
from fastsvm.solvers.linear_dual.problem import Certificate
from fastsvm.solvers.outer_loop import Report, StopReason
from fastsvm.sources import Source
from fastsvm.tuning import current_tuning

_RULES = {
    "C": number(above=0),
    "dual": either(boolean, one_of("auto")),
    "tol": number(above=0),
    "fit_intercept": boolean,
    "intercept_scaling": number(),
    "verbose": either(boolean, number(integral=True, least=0)),
    "max_iter": number(integral=True, least=1),
    "max_time": optional(number(above=0)),
    "warm_start": boolean,
    "random_state": seed,
    "standardize": boolean,
    "criterion": one_of("gap", "gradient"),
    "window_visits": either(one_of("auto"), number(integral=True, least=1)),
}


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
            known = self._records[-LATEST:]
            shown |= left_of([one[1] for one in known], [one[4] for one in known], self._estimator.tol)
        return values, shown


class _Run(NamedTuple):
    """What a solver came to: what was seen, its best state with the certificate, and why it ended."""

    monitor: _Monitor
    state: Any
    certificate: Certificate
    reason: StopReason


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
        step reads samples on disk two to four times, and a quarter of the memory holds Hessians:
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

    def _memory_left(self) -> int:
        """Return the bytes that a fit may use."""
        return parse_memory(self.memory)

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
                run = self._run(fit, names, session)
                if run.reason is not StopReason.STALLED:
                    break  # else the next solver may come nearer, where rounding errors hide the way of this one
            weights = fit.solver.finish(run.state)
            self._note(run, weights, names)
            self._conclude(weights, partial(fit.solver.dual_of, run.state), pool)
        session.finish(run.monitor, warn_of_gap)

    def _run(self, fit: LinearFit, names: Attributes, session: FitSession) -> "_Run":
        """Take steps until the fit ends, and certify the best state that is known."""
        solver, (state, records) = fit.solver, fit.initial_state()

        def attributes(state: Any) -> Attributes:
            return names | self._weights(solver.finish(state), state.epoch)

        def checkpoint(state: Any) -> Any:
            return fit.checkpoint(state, records)

        monitored = MonitoredFit(session, self.max_iter, attributes, checkpoint, state, records, self.solver_)
        monitor = _Monitor(monitored, solver.problem.source)
        with session.solving(monitor, "_fit_state", lambda: fit.last_state(monitor.state, records)):
            state, reason = fit.run(state, self.max_iter, monitor.observe)
        certificate = solver.certificate
        if reason is not StopReason.CONVERGED or certificate is None:
            state, certificate = solver.concluded(state)
            reason = StopReason.CONVERGED if solver.is_within(certificate) else reason
        return _Run(monitor, state, certificate, reason)

    def _note(self, run: "_Run", weights: np.ndarray, names: Attributes) -> None:
        """Set the fitted attributes."""
        primal, dual, violation = run.certificate
        self.__dict__.update(names | self._weights(weights, run.state.epoch))
        self.objective_, self.dual_objective_ = float(primal.sum()), float(dual.sum())
        self.duality_gap_ = max(self.objective_ - self.dual_objective_, 0.0)  # rounding may leave less
        self.kkt_violation_ = float(violation)
        self.converged_, self.stop_reason_ = run.reason is StopReason.CONVERGED, str(run.reason)

    def _conclude(self, weights: np.ndarray, dual: Callable[[], np.ndarray], pool: Pool) -> None:
        """Take the weights at the end of a fit, and what returns their dual variables; here for nothing."""

    def _weights(self, weights: np.ndarray, n_epochs: int) -> Attributes:
        """Return the fitted attributes of weights."""
        if self._shows_difference(len(weights)):
            weights = np.diff(weights, axis=0)
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        coef, intercept = self._for_rows_as_passed(weights[:, :-1], scaling * weights[:, -1])
        return self._shaped(np.ascontiguousarray(coef), intercept) | {"n_iter_": n_epochs}

    def _shows_difference(self, n_scores: int) -> bool:
        """Return whether there are two scores of which the difference is shown."""
        return n_scores == 2


class BaseLinearClassifier(LinearClassifier, BaseLinearSVM):
    """What classifiers have in common.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        ½‖w‖², or ‖w‖₁: the smaller C, the more weights are exactly 0. "l1" is for smooth losses, of each class against
        the rest.
    """

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


class BaseLinearRegressor(LinearRegressor, BaseLinearSVM):
    """What regressors have in common."""

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
