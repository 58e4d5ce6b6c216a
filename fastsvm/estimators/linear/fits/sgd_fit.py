"""From an estimator's parameters to a run of SGD: new, resumed, or one epoch of partial fits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.validation import check_columns
from fastsvm.estimators.linear import loss_parameter
from fastsvm.estimators.linear.initial_rate import Lengths, suitable_rate
from fastsvm.estimators.linear.loss_curve import CurveParts
from fastsvm.estimators.linear.progress import SGDMonitor
from fastsvm.estimators.linear.training_task import Task, as_stored, merged
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import block_scores
from fastsvm.losses import Loss, loss_slope
from fastsvm.memory import parse_memory
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.solvers.sgd.dense_steps import LinearFunction, Penalty
from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, Schedule
from fastsvm.solvers.sgd.private_features import merged_features
from fastsvm.solvers.sgd.problem import SGDProblem, SGDSettings, SGDState
from fastsvm.solvers.sgd.solver import SGD, uses_lazy_steps
from fastsvm.sources import MemorySource, Source, check_finite
from fastsvm.tuning import SGDTuning, current_tuning

__all__ = ["LearningRate", "SGDFit", "SGDFitState", "loss_of"]

_COPIES = 2  # Steps are taken on a copy of the weights. Of more copies, only the features that occur are touched.


@storable("sgd fit")
class SGDFitState(NamedTuple):
    """Checkpoint of a fit, or its state when it was interrupted."""

    fingerprint: str  # It is a digest of its task; empty if the fit cannot be resumed.
    seed: int  # It decides the order of the rows, and the validation set.
    curve: CurveParts  # It has the losses so far.
    state: SGDState
    records: list[tuple]  # Each epoch so far has one.


class LearningRate(NamedTuple):
    """Schedule of the learning rate, the intercept's rate in multiples of it, and the size of a score."""

    schedule: Schedule
    intercept_rate: float
    score: float


class SGDFit:
    """A run of SGD for an estimator, whose parameters are valid.

    `seed` decides the order of the rows, and the validation set. A `partial` fit is one of several: there is no test of
    convergence, and no validation set. `rate` is the learning rate of an earlier partial fit, None to choose one. If
    `merge`, in a fit that begins at zero, features that occur in one row only may be merged.
    """

    def __init__(
        self,
        estimator: Any,
        task: Task,
        pool: Pool,
        seed: int,
        *,
        partial: bool = False,
        rate: "LearningRate | None" = None,
        merge: bool = False,
    ) -> None:
        check_columns(estimator.memory, task.source.shape[1], _COPIES, len(task.balance))
        self.estimator, self.seed, tuning = estimator, seed, current_tuning().sgd
        if not partial and np.count_nonzero(task.weights) <= tuning.few_rows:
            task = merged(task, current_tuning().linear.small_values)
        memory = parse_memory(estimator.memory)
        source, shift, scale = as_stored(task.source)
        weights = task.weights * (np.count_nonzero(task.weights) / task.total)
        validate = None
        if estimator.early_stopping and not partial:
            held = _held_out(task, source, estimator.validation_fraction, seed, memory)
            validate = _validator(task, held)
            weights[held] = 0
        problem = SGDProblem(source, shift, scale, task.targets, weights, task.balance)
        if merge and tuning.private and estimator.learning_rate == BY_FEATURE:
            problem = _with_merged_features(problem, _penalty(estimator, 1.0), memory, tuning)
        settings = _settings(estimator, problem, task, memory, not partial, tuning)
        settings = settings._replace(seed=seed if estimator.shuffle else None)
        if partial:
            settings = settings._replace(tol=None)
        if rate is not None:
            schedule = rate.schedule._replace(alpha=settings.schedule.alpha)
            penalty = settings.penalty._replace(intercept_rate=rate.intercept_rate * estimator.fit_intercept)
            settings = settings._replace(schedule=schedule, penalty=penalty, score=rate.score)
        self.solver = SGD(problem, settings, pool, validate)

    @property
    def rate(self) -> LearningRate:
        """The learning rate."""
        settings = self.solver.settings
        return LearningRate(settings.schedule, settings.penalty.intercept_rate, settings.score)

    def run(self, state: SGDState, n_epochs: int, deadline: float, monitor: SGDMonitor) -> tuple[SGDState, StopReason]:
        """Return the state after at most `n_epochs` epochs in all, and why it stopped there.

        After an interrupt, `monitor.state` is the latest state.
        """
        limits = Limits(max(0, n_epochs - state.epoch), deadline)
        try:
            state, reason, _ = drive(self.solver, state, limits, monitor.observe)
        finally:
            self.solver.close()
        return state, reason


def _settings(
    estimator: Any, problem: SGDProblem, task: Task, memory: int, whole: bool, tuning: SGDTuning
) -> SGDSettings:
    """Return the settings for `whole` data, or for a part of them that others follow."""
    source, n_rows = problem.source, int(np.count_nonzero(problem.weights))
    lengths = None
    if estimator.learning_rate == "auto":
        lengths = Lengths.of(task.source, problem.weights, estimator.fit_intercept, tuning)
    penalty = _penalty(estimator, float(estimator.fit_intercept) if lengths is None else lengths.intercept_rate)
    given = estimator.batch_size
    # Larger batches of sparse rows take no less time.
    usual = 1 if uses_lazy_steps(problem, penalty, tuning) else tuning.batch
    usual = tuning.batch_of_few if n_rows <= tuning.few_rows else usual
    wanted = n_rows if given is None else usual if given == "auto" else int(given)
    batch_size = min(wanted, n_rows)
    everything = whole and batch_size == n_rows
    average = estimator.average
    averaged = 0 if isinstance(average, (bool, np.bool_)) else average
    loss, score = loss_of(estimator), _usual_score(task)
    alpha = float(estimator.alpha) if lengths is None else penalty.l2  # without ½‖w‖² there is no strong convexity
    first = _first_rate(estimator, lengths, np.inf if everything else batch_size, score, tuning)
    exact = everything and np.isfinite(loss.curvature)  # steps need not become shorter
    n_steps = np.inf if exact else max(1 if whole else tuning.stream_steps, -(-n_rows // batch_size))
    return SGDSettings(
        loss=loss,
        penalty=penalty,
        schedule=Schedule(estimator.learning_rate, first, float(estimator.power_t), alpha, n_steps),
        batch_size=batch_size,
        average_from=averaged // batch_size if average else np.inf,
        score=score,
        tol=estimator.tol,
        patience=int(estimator.n_iter_no_change),
        seed=None,
        window_rows=_window_rows(source, batch_size, memory, tuning),
        partial=not whole,
        tuning=tuning,
    )


def _with_merged_features(problem: SGDProblem, penalty: Penalty, memory: int, tuning: SGDTuning) -> SGDProblem:
    """Return the problem in which features that occur in one row only are merged, if it is worth it."""
    source = problem.source
    if not isinstance(source, MemorySource) or penalty.l1 > 0 or not uses_lazy_steps(problem, penalty, tuning):
        return problem
    found = None
    if source.nbytes <= memory // source.tuning.loaded_share:
        found = merged_features(source, tuning.private_share)
    return problem if found is None else problem._replace(source=found[0], private=found[1])


def _window_rows(source: Source, batch_size: int, memory: int, tuning: SGDTuning) -> int:
    """Return the number of rows of a window; in memory it consists of whole mini-batches."""
    row_bytes = max(1, source.nbytes // max(1, len(source)))
    if not source.resident:
        return max(1, memory // source.tuning.window_share // row_bytes)
    most = max(tuning.window_bytes, 3 * 8 * _COPIES * source.shape[1])  # a weight has its sum and penalty beside it
    if source.sparse:  # whatever the types of indices are
        row_bytes = max(1, round((source.dtype.itemsize + 4) * source.values_per_row))
    return max(1, most // row_bytes // batch_size) * batch_size


def _usual_score(task: Task) -> float:
    """Return the size of a score: a margin, or the standard deviation of the targets, or their size if it is zero."""
    used = task.weights > 0
    if task.of_classes or not used.any():
        return 1.0
    targets, weights = task.targets[used], task.weights[used]
    mean = np.average(targets, weights=weights)
    largest = float(np.abs(targets - mean).max()) or 1.0  # whose square may overflow, or underflow
    deviation = largest * np.average(((targets - mean) / largest) ** 2, weights=weights) ** 0.5
    return float(deviation or abs(mean) or 1.0)


def loss_of(estimator: Any) -> Loss:
    """Return the loss that an estimator's parameters name."""
    margin = float(getattr(estimator, "margin", 1.0))
    return loss_parameter.loss_of(estimator.loss, epsilon=float(estimator.epsilon), margin=margin)


def _penalty(estimator: Any, intercept_rate: float) -> Penalty:
    """Return penalties, momentum and clipping; `intercept_rate` is in multiples of the weights' learning rate."""
    l1_share = {"l2": 0.0, "l1": 1.0, "elasticnet": float(estimator.l1_ratio), None: 0.0}[estimator.penalty]
    alpha = 0.0 if estimator.penalty is None else float(estimator.alpha)
    clip = np.inf if estimator.clip_norm is None else float(estimator.clip_norm)
    return Penalty(alpha * (1 - l1_share), alpha * l1_share, float(estimator.momentum), clip, intercept_rate)


def _first_rate(estimator: Any, lengths: Lengths | None, batch_size: float, score: float, tuning: SGDTuning) -> float:
    """Return the initial learning rate, by the lengths of the rows if it adapts to them; `score` is the usual score."""
    loss = loss_of(estimator)
    unit = score if np.isinf(loss.curvature) else 1.0  # beside a kink, slopes do not grow with the unit of the targets
    if lengths is not None:
        return unit * suitable_rate(lengths, loss, batch_size, tuning)
    if estimator.learning_rate == BY_FEATURE:  # for rows of length 1; the solver measures the features
        longest = suitable_rate(Lengths(1.0, 0.0, 1.0), loss, batch_size, tuning)
        return unit * (longest if np.isinf(batch_size) else longest / tuning.caution)
    if estimator.learning_rate == "optimal":  # that of scikit-learn, after Bottou: as if a typical weight were α^-¼
        typical = estimator.alpha**-0.25
        return typical if loss.of_classes else typical / max(1.0, float(loss_slope(loss, -typical, 1.0)))
    return float(estimator.eta0)


def _held_out(task: Task, source: Source, fraction: float, seed: int, memory: int) -> np.ndarray:
    """Return the validation set: a share of each class, or, of a file, whole blocks that fit in memory."""
    used, rng = task.weights > 0, np.random.default_rng((seed, 1))
    if source.resident:
        labels = task.targets if task.of_classes else np.zeros(len(used))
        parts = []
        for label in np.unique(labels[used]):
            members = np.flatnonzero(used & (labels == label))
            count = max(len(members) > 1, round(fraction * len(members)))
            parts.append(rng.permutation(members)[:count])
        held = np.sort(np.concatenate(parts))
    else:
        runs = list(source.spans())
        most = memory // source.tuning.window_share // max(1, task.source.nbytes // max(1, len(source)))
        wanted = min(fraction * used.sum(), most)
        chosen: list[np.ndarray] = []
        for k in rng.permutation(len(runs)):
            if sum(map(len, chosen)) >= wanted:
                break
            start, stop = runs[k]
            chosen.append(start + np.flatnonzero(used[start:stop]))
        held = np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))[: int(wanted)]
    least = 1 if task.of_classes else 2  # of one number there is no variance to explain
    if len(held) < least or len(held) == used.sum():
        raise ValueError(
            f"early_stopping needs a validation set and a training set: of {used.sum()} samples, validation_fraction="
            f"{fraction} holds out {len(held)}. Change validation_fraction, or set early_stopping=False."
        )
    return held


def _validator(task: Task, held: np.ndarray) -> Callable[[LinearFunction], float]:
    """Return a function that scores weights on the validation set: accuracy, or R² for real targets."""
    block, targets, weights = task.source.rows(held), task.targets[held], task.weights[held]
    try:
        check_finite(block, 0)
    except ValueError:
        for k, row in enumerate(held):
            check_finite(block.slice(k, k + 1), row)

    def validate(linear: LinearFunction) -> float:
        pieces = spans(len(held), current_tuning().products.piece_rows)
        parts = [block_scores(block.slice(a, b), *linear) for a, b in pieces]
        found = np.concatenate(parts)
        if not task.of_classes:
            return r2_score(targets, found[:, 0], sample_weight=weights)
        if found.shape[1] == 1:
            return accuracy_score(targets > 0, found[:, 0] > 0, sample_weight=weights)
        return accuracy_score(targets, found.argmax(axis=1), sample_weight=weights)

    return validate
