"""What linear models by stochastic gradient descent have in common."""

from contextlib import closing
from dataclasses import KW_ONLY
from typing import Self

import numpy as np

from fastsvm._compiled.threads import Pool, one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, documented_by, parametrised
from fastsvm.estimators.fitting.progress import MonitoredFit
from fastsvm.estimators.fitting.session import FitSession, drafted, warn_of_sgd, with_callbacks
from fastsvm.estimators.fitting.validation import (
    Attributes,
    Column,
    Samples,
    TrainingSet,
    boolean,
    check_parameters,
    either,
    forget,
    number,
    one_of,
    optional,
)
from fastsvm.estimators.linear.prediction import LinearModel, dense_coef
from fastsvm.estimators.linear.sgd_fit import LearningRate, LossCurve, SGDFitState, SGDMonitor, solver_of
from fastsvm.estimators.linear.training_task import Task, fingerprint, seed_of
from fastsvm.linalg.row_products import product_type
from fastsvm.memory import parse_memory, threads_within
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, SCHEDULES
from fastsvm.solvers.sgd.problem import LinearFunction, SGDState
from fastsvm.solvers.sgd.solver import SGD
from fastsvm.sources import ScaledSource, Source

_RULES = {
    "penalty": optional(one_of("l2", "l1", "elasticnet")),
    "alpha": number(least=0),
    "l1_ratio": number(least=0, most=1),
    "max_iter": number(integral=True, least=1),
    "tol": optional(number(least=0)),
    "shuffle": boolean,
    "eta0": number(above=0),
    "power_t": number(),
    "early_stopping": boolean,
    "validation_fraction": number(above=0, below=1),
    "n_iter_no_change": number(integral=True, least=1),
    "average": either(boolean, number(integral=True, least=0)),
    "batch_size": either(one_of("auto"), optional(number(integral=True, least=1))),
    "momentum": number(least=0, below=1),
    "clip_norm": optional(number(above=0)),
}


@parametrised
class BaseSGD(LinearModel):
    """What the classifier and the regressor have in common.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or None, default="l2"
        Penalty of the weights; the intercept is never penalised.
    alpha : float, default=1e-4
        Factor of the penalty in the objective, mean loss + alpha R(w), with R = ½‖w‖², ‖w‖₁ or a mixture.
    l1_ratio : float, default=0.15
        Share of the L1 penalty in "elasticnet", 0 to 1.
    max_iter : int, default=1000
        Largest number of epochs, which are passes over the samples that change the weights.
    tol : float or None, default=1e-3
        The fit ends when the objective of the weights returned, computed over all rows, fell by at most `tol` an epoch,
        or ten times `tol` in all, while the number of epochs doubled, or when it is no larger than that, in units of
        the objective of the best constant.
        With the default, some percent of that are left after 100 epochs. None runs `max_iter` epochs.
    shuffle : bool, default=True
        Whether samples are processed in random order, a new one each epoch.
    epsilon : float, default=0.1
        Distance from the target at which "huber" becomes linear, or below which the epsilon-insensitive losses are
        zero.
    random_state : int, RandomState or None, default=None
        Seed of the order of the samples and of the validation set.
    learning_rate : {"adagrad", "auto", "optimal", "pegasos", "invscaling", "constant", "adaptive"}, default="adagrad"
        Length of a step: "adagrad" gives each weight its own, by the gradients so far (Duchi, Hazan and Singer 2011)
        and the length of its feature, so that rare features and features of any unit learn as fast as others. Where
        few of the values are not zero, as under `batch_size`, a step is also no longer than twice the way to a loss of
        zero (Loizou, Vaswani, Laradji and Lacoste-Julien 2021, equation 3), and an L1 penalty is
        that of dual averaging (Xiao 2010). The other rates are one η for all weights in step t = 0, 1, .... "auto"
        begins with what suits the rows' lengths and falls as η₀ / (√(1 + 4 t / steps per epoch) + λ η₀ t), with the
        factor λ of ½‖w‖² in the objective, without the root if steps follow the exact gradient of a smooth loss;
        "optimal" is scikit-learn's 1 / (alpha (t₀ + t));
        "pegasos" 1 / (alpha (t + 1)); "invscaling" eta0 / (t + 1)**power_t; "constant" eta0; "adaptive" eta0, divided
        by 5 whenever the fit would otherwise end, until it is below 1e-6.
    eta0 : float, default=0.01
        Initial learning rate of "invscaling", "constant" and "adaptive".
    power_t : float, default=0.5
        Exponent of "invscaling".
    early_stopping : bool, default=False
        Whether convergence is judged by the score on a validation set. The weights with the best score are returned.
        The validation set of samples on disk consists of whole blocks.
    validation_fraction : float, default=0.1
        Share of the samples in the validation set; of a file, at most what an eighth of `memory` holds.
    n_iter_no_change : int, default=5
        Epochs before the objective is first compared, or, with `early_stopping`, without a better score at the end.
    warm_start : bool, default=False
        Begin the next fit at the weights of the last. A fit that was interrupted, or ran out of time, is resumed in the
        same epoch if samples and classes are the same.
    average : bool or int, default=True
        Return the average of the weights after each step, in which step t weighs t³ (polynomial decay, Shamir and Zhang
        2013, section 4); an int is the number of rows to be visited before it begins. False returns the weights after
        the last step.
    batch_size : "auto", int or None, default="auto"
        Rows whose mean gradient a step follows; None is all, which is gradient descent. "auto" is 1 where fewer than an
        eighth of the values are not zero, or with a loss of all classes fewer than an eightieth, and else 32, but 8 for
        at most 256 rows. In a partial fit, batches have fewer rows if it would take fewer than 64 steps, but 4 at least
        of more than 65,536 values.
    momentum : float, default=0.0
        Share of the last step that is added to a step, at least 0 and below 1. Sparse rows are then made dense, a
        batch at a time.
    clip_norm : float or None, default=None
        Largest norm of a batch's gradient; longer ones are shortened. Sparse rows as with `momentum`.
    memory : "auto", int or str, default="auto"
        What rows on disk may take in memory: bytes, or a size such as "2GB". If a third of it holds them, they are read
        once, else window after window, of 2,048 rows a thread at least. "auto" is half of what is available.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 during the fit, by statistics of one more pass over
        the samples. The stored samples do not change. `coef_` and `intercept_` are for samples as they are passed.
        Sparse samples are scaled only. Partial fits use the statistics of the first one.

    Attributes
    ----------
    objective_ : float
        Mean loss + alpha R(w) over the rows that were learnt from, of these weights.
    t_ : float
        Steps, plus one.
    converged_ : bool
        Whether the fit converged, or ran all epochs with `tol=None`.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "callback", or "stalled": a constant rate does not come closer.
    loss_curve_ : ndarray of float64
        Mean loss of each batch before its step; when there are more than 10,000, each entry is of several batches.
    history_ : dict of str to ndarray
        One entry an epoch: epoch, time (s), steps, objective (during the epoch), rate, validation_score, bytes_read.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro and Cotter (2011), Pegasos: primal estimated sub-gradient solver for SVM,
    Mathematical Programming 127. Lacoste-Julien, Schmidt and Bach (2012), A simpler approach to obtaining an O(1/t)
    convergence rate for the projected stochastic subgradient method, equation 5.
    """

    _: KW_ONLY
    penalty: str | None = "l2"
    alpha: float = 1e-4
    l1_ratio: float = 0.15
    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float | None = 1e-3
    shuffle: bool = True
    verbose: bool | int = False
    epsilon: float = 0.1
    random_state: int | np.random.RandomState | None = None
    learning_rate: str = "adagrad"
    eta0: float = 0.01
    power_t: float = 0.5
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    warm_start: bool = False
    average: bool | int = True
    batch_size: int | str | None = "auto"
    momentum: float = 0.0
    clip_norm: float | None = None
    memory: str | int = "auto"
    max_time: float | None = None
    standardize: bool = False

    def _check_parameters(self) -> None:
        check_parameters(self, _RULES | {"learning_rate": one_of(*SCHEDULES)} | self._own_rules())
        parse_memory(self.memory, enough=0)
        if self.learning_rate in ("optimal", "pegasos") and self.alpha == 0:
            raise ValueError(f"alpha must be > 0 since learning_rate={self.learning_rate!r} divides by it; found 0.")
        if self.loss == "huber" and self.epsilon == 0:
            raise ValueError("epsilon must be > 0 for loss='huber', which is zero everywhere with 0.")

    @documented_by(Learning)
    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(
        self,
        X: Samples,
        y: Column = None,
        coef_init: Column = None,
        intercept_init: Column = None,
        sample_weight: Column = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        coef_init : array-like or None
            Initial weights, in the shape of `coef_`.
        intercept_init : array-like or None
            Initial intercepts, in the shape of `intercept_`.
        """
        self._check_parameters()
        session, earlier = self._session(), self._earlier()
        forget(self)
        task, names = self._task(self._checked(X, y, sample_weight))
        is_given = coef_init is not None or intercept_init is not None
        self._fit(task, self._begin(coef_init, intercept_init, task, earlier, names), names, is_given, session)
        return self

    def _task(self, data: TrainingSet) -> tuple[Task, Attributes]:
        """Return what is to be learnt, and fitted attributes that the samples determine."""
        raise NotImplementedError

    def _fit(
        self, task: Task, start: LinearFunction | None, names: Attributes, is_given: bool, session: FitSession
    ) -> None:
        """Minimise the objective; `names` are fitted attributes beside those of the solution.

        The fit begins at `start` if the user gave it, else resumes an interrupted fit of the same task, if any.
        """
        mark = fingerprint(task) if session.can_be_resumed else ""
        last: SGDFitState | None = None if is_given else session.initial_state("_fit_state")
        if last is not None and last.fingerprint != mark:
            last = None
        session.begin()
        with Pool.open(most=threads_within(self.memory)) as pool:
            seed = seed_of(self) if last is None else last.seed
            sees_each = session.has_callbacks or session.checkpointer is not None
            solver = solver_of(self, task, pool, seed, merge=start is None, sees_each=sees_each)
            if last is not None and not solver.accepts(last.state):  # it began at given weights
                solver = solver_of(self, task, pool, seed, sees_each=sees_each)
            if last is None or not solver.accepts(last.state):
                last = SGDFitState(mark, seed, LossCurve(), solver.init(start), [])
            first, finished = last, False

            def checkpoint(state: SGDState) -> SGDFitState:
                return first._replace(state=state, curve=monitor.curve)

            def attributes(state: SGDState) -> Attributes:
                return names | self._weights(solver, state, task)

            monitored = MonitoredFit(session, self.max_iter, attributes, checkpoint, first.state, first.records)
            monitor = SGDMonitor(monitored, solver, first.curve)
            limits = Limits(max(0, self.max_iter - first.state.epoch), session.deadline)
            with session.solving(monitor, "_fit_state", lambda: None if finished else checkpoint(monitor.state)):
                try:
                    with closing(solver):
                        state, reason, _ = drive(solver, first.state, limits, monitor.observe)
                except ValueError:  # weights that overflowed are not resumed
                    finished = True
                    raise
                finished = reason in (StopReason.CONVERGED, StopReason.MAX_ITER, StopReason.STALLED)
            self.__dict__.update(attributes(state))
            self.objective_ = solver.final_objective(state)
        self._state: SGDState | None = state
        self._private = solver.problem.private
        self._rate, self._curve = LearningRate.of(solver), monitor.curve
        self.converged_ = reason is StopReason.CONVERGED or (self.tol is None and reason is StopReason.MAX_ITER)
        self.stop_reason_, self.loss_curve_ = str(reason), monitor.curve.values()
        session.finish(monitor, warn_of_sgd)

    def _partial_fit(self, task: Task, names: Attributes) -> None:
        """Run one epoch, from the state of the last partial fit."""
        last = getattr(self, "_state", None) if hasattr(self, "coef_") else None
        curve = LossCurve() if last is None else self._curve
        # Such a rate suits the samples of the first call, and decreases from call to call.
        is_derived = self.learning_rate in ("auto", BY_FEATURE)
        earlier = getattr(self, "_rate", None) if last is not None and is_derived else None
        with Pool.open(most=threads_within(self.memory)) as pool, closing(
            solver_of(self, task, pool, seed_of(self), partial=True, earlier=earlier)
        ) as solver:  # fmt: skip
            if last is None:
                self._rate = LearningRate.of(solver)
            if last is None or len(last.model.intercept) != len(task.balance):
                begin = None
                if hasattr(self, "coef_"):  # of a model that was read from a file
                    shown = LinearFunction(dense_coef(self), np.atleast_1d(self.intercept_))
                    begin = self._with_own_intercept(shown, task)
                state = solver.init(begin)
            else:
                state = solver.continued(last, getattr(self, "_private", None))
            state, _, _ = drive(solver, state, Limits(1, np.inf), lambda state, report: False)
            self.__dict__.update(names | self._weights(solver, state, task))
        self._private = None
        self._state, self._curve = state, curve.extended(np.concatenate(solver.take_losses()))
        self.loss_curve_ = self._curve.values()

    def _with_own_intercept(self, shown: LinearFunction, task: Task) -> LinearFunction:
        """Return the solver's weights for those of an earlier fit, whose intercept goes if none is fitted now."""
        begin = self._hidden(shown, task)
        return begin if self.fit_intercept else begin._replace(intercept=np.zeros_like(begin.intercept))

    def _weights(self, solver: SGD, state: SGDState, task: Task) -> Attributes:
        """Return the fitted attributes of a state."""
        coef, intercept = self._shown(solver.finish(state), task)
        coef = coef if task.of_classes else coef[0]
        return {"coef_": coef, "intercept_": intercept, "n_iter_": state.epoch, "t_": float(state.n_steps + 1)}

    def _earlier(self) -> Attributes:
        """Return weights and classes of the last fit for a warm start."""
        names = ("coef_", "intercept_", "classes_") if self.warm_start else ()
        attributes = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return attributes | {"coef_": dense_coef(self)} if "coef_" in attributes else attributes

    def _begin(
        self, coef: Column, intercept: Column, task: Task, earlier: Attributes, names: Attributes
    ) -> LinearFunction | None:
        """Return the initial weights: those that the user passed, or those of the last fit."""
        shown = 1 if self._is_pair(task) else len(task.balance)
        n_features = task.source.shape[1]
        if coef is None and intercept is None:
            same = all(name in earlier and np.array_equal(earlier[name], value) for name, value in names.items())
            if "coef_" not in earlier or not same or earlier["coef_"].size != shown * n_features:
                return None
            last = LinearFunction(earlier["coef_"], np.atleast_1d(earlier["intercept_"]))
            return self._with_own_intercept(last, task)
        coef = np.zeros((shown, n_features)) if coef is None else np.atleast_2d(np.asarray(coef, np.float64))
        intercept = np.zeros(shown) if intercept is None else np.atleast_1d(np.asarray(intercept, np.float64))
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError("coef_init or intercept_init contains NaN or infinity.")
        if coef.shape != (shown, n_features) or intercept.shape != (shown,):
            raise ValueError(
                f"coef_init must have shape ({shown}, {n_features}) and intercept_init ({shown},), found "
                f"{coef.shape} and {intercept.shape}."
            )
        return self._hidden(LinearFunction(coef, intercept), task)

    def _is_pair(self, task: Task) -> bool:
        """Return whether the solver has a score for each of two classes; `coef_` is their difference."""
        return task.of_classes and len(task.balance) == 2

    def _shown(self, linear: LinearFunction, task: Task) -> LinearFunction:
        """Return `coef_` and `intercept_` of the solver's weights."""
        if self._is_pair(task):
            linear = LinearFunction(np.diff(linear.coef, axis=0), np.diff(linear.intercept))
        return LinearFunction(*self._for_rows_as_passed(*linear))

    def _hidden(self, shown: LinearFunction, task: Task) -> LinearFunction:
        """Return the solver's weights for these `coef_` and `intercept_`: the inverse of `_shown`."""
        if self._scale is not None:
            shown = LinearFunction(shown.coef / self._scale, shown.intercept + shown.coef @ self._shift)
        if not self._is_pair(task):
            return shown
        half = LinearFunction(shown.coef / 2, shown.intercept / 2)
        return LinearFunction(np.vstack([-half.coef, half.coef]), np.concatenate([-half.intercept, half.intercept]))

    def _scaled(self, source: Source, weight: np.ndarray, again: bool = False) -> Source:
        """Return the rows, standardised if asked to: by their own statistics, or `again` by those of the first fit."""
        if again and self.standardize != (getattr(self, "_scale", None) is not None):
            self._state = None  # its weights are for another scale; the fit resumes from `coef_`
        if not (self.standardize and again and self._scale is not None):
            return self._standardized(source, weight)
        if not source.sparse:
            return ScaledSource(source, self._shift, self._scale, product_type(source.dtype))
        # Weights that were learnt from centred rows are for centred rows alone, and these are dense.
        shift = None if self._shift is None or not self._shift.any() else self._shift
        view = ScaledSource(source, shift, self._scale, np.float64)
        return view if shift is None else view.streamed_beyond(parse_memory(self.memory) // 3)
