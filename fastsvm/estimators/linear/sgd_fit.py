"""From the parameters of an estimator, and the samples, to the settings of gradient descent."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score

from fastsvm._compiled.compilations import work_clock
from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.progress import EpochMonitor, MonitoredFit
from fastsvm.estimators.fitting.validation import check_columns
from fastsvm.estimators.linear import training_task
from fastsvm.estimators.linear.training_task import Task, merged
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import block_scores
from fastsvm.linalg.row_products import product_type
from fastsvm.losses import Loss, loss_slope
from fastsvm.memory import parse_memory
from fastsvm.solvers.outer_loop import Report
from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, FIRST_STEP, Schedule
from fastsvm.solvers.sgd.private_features import merged_features
from fastsvm.solvers.sgd.problem import LinearFunction, Penalty, SGDProblem, SGDSettings, SGDState
from fastsvm.solvers.sgd.solver import SGD, uses_sparse_steps
from fastsvm.sources import Block, Source, check_finite, to_dense
from fastsvm.tuning import SGDTuning, current_tuning

_MOST_POINTS = 10_000  # A loss curve has at most so many points.
_COPIES = 2  # Steps are taken on a copy of the weights. Of more copies, only the features that occur are touched.


@storable("loss curve")
class LossCurve(NamedTuple):
    """Mean losses of batches; when there are many, each point is the mean of several in a row, `per_point`."""

    per_point: int = 1
    points: np.ndarray = np.empty(0)
    rest: np.ndarray = np.empty(0)  # These losses do not make up a point yet.

    def extended(self, losses: np.ndarray) -> "LossCurve":
        """Return the curve with the losses of more batches."""
        size, rest = self.per_point, np.concatenate([self.rest, losses])
        whole = len(rest) // size * size
        more = rest[:whole].reshape(-1, size).mean(axis=1) if size > 1 else rest
        points = np.concatenate([self.points, more])
        rest = rest[whole:]
        while len(points) > _MOST_POINTS:
            even = len(points) // 2 * 2
            rest = np.concatenate([np.repeat(points[even:], size), rest])
            points = points[:even].reshape(-1, 2).mean(axis=1)
            size *= 2
        return LossCurve(size, points, rest)

    def values(self) -> np.ndarray:
        """Return the curve; the last point may be of fewer batches."""
        return np.append(self.points, self.rest.mean()) if len(self.rest) else self.points.copy()


@storable("sgd fit")
class SGDFitState(NamedTuple):
    """Checkpoint of a fit, or its state when it was interrupted."""

    fingerprint: str  # It is a digest of its task; empty if the fit cannot be resumed.
    seed: int  # It decides the order of the rows, and the validation set.
    curve: LossCurve  # It has the losses so far.
    state: SGDState
    records: list[tuple]  # Each epoch so far has one.


class SGDMonitor(EpochMonitor):
    """Records every epoch of gradient descent, and adds the loss of every mini-batch to `curve`."""

    COLUMNS = ("epoch", "time", "steps", "objective", "rate", "validation_score", "bytes_read")

    def __init__(self, fit: MonitoredFit, solver: SGD, curve: LossCurve) -> None:
        super().__init__(fit)
        self._solver, self.curve = solver, curve

    def observe(self, state: SGDState, report: Report) -> bool:
        """Record the losses of a window, and an epoch if one ended; return whether a callback asks to stop."""
        for losses in self._solver.take_losses():
            self.curve = self.curve.extended(losses)
        return super().observe(state, report)

    def _record(self, state: SGDState, report: Report) -> bool:
        """Record the epochs of a step, of which only the last one has a time that was measured."""
        read, before = self._solver.problem.source.reads.nbytes, self._records[-1][1] if self._records else 0.0
        *earlier, self._last = self._solver.take_epochs()
        each = (work_clock() - self._begin - before) / (len(earlier) + 1)
        self._records += [(n, before + k * each, *facts, np.nan, read) for k, (n, *facts) in enumerate(earlier, 1)]
        return super()._record(state, report)

    def row(self, state: SGDState, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return steps, objective, rate, validation score and bytes read."""
        score = self._solver.score if self._solver.validate is not None else np.nan
        read = self._solver.problem.source.reads.nbytes
        return (*self._last[1:], score, read), {"objective": f"{report.objective:.4g}"}


class LearningRate(NamedTuple):
    """What later partial fits take over from the first one."""

    schedule: Schedule
    intercept_rate: float
    score: float

    @classmethod
    def of(cls, solver: SGD) -> "LearningRate":
        """Return the learning rate of a solver."""
        return cls(solver.settings.schedule, solver.settings.penalty.intercept_rate, solver.settings.score)


def solver_of(
    estimator: BaseEstimator,
    task: Task,
    pool: Pool,
    seed: int,
    partial: bool = False,
    earlier: LearningRate | None = None,
    merge: bool = False,
    sees_each: bool = True,
) -> SGD:
    """Return the solver of a task for an estimator, whose parameters are valid.

    `seed` decides the order of the rows, and the validation set. A `partial` fit is one of several: there is no test of
    convergence, and no validation set. It has the learning rate of the `earlier` ones, or chooses one. If
    `merge`, in a fit that begins at zero, features that occur in one row only may be merged.
    """
    check_columns(estimator.memory, task.source.shape[1], _COPIES, len(task.balance))
    tuning = current_tuning().sgd
    if not partial and np.count_nonzero(task.weights) <= tuning.few_rows:
        task = merged(task, current_tuning().linear.small_values)
    memory = parse_memory(estimator.memory, 2 * task.source.tuning.loaded_share * task.source.nbytes)
    source, shift, scale = task.source.as_stored()
    weights = task.weights * (np.count_nonzero(task.weights) / task.total)
    validate = None
    if estimator.early_stopping and not partial:
        held = _held_out(task, source, estimator.validation_fraction, seed, memory)
        validate = _validator(task, held)
        weights[held] = 0
    problem = SGDProblem(source, shift, scale, task.targets, weights, task.balance)
    penalty = _penalty(estimator, 1.0)
    sparse = uses_sparse_steps(problem, loss_of(estimator), penalty, tuning)
    if sparse:
        most = memory // source.tuning.loaded_share
        source = source.compressed(product_type(source.dtype), most)
        may_merge = merge and tuning.private and estimator.learning_rate == BY_FEATURE and penalty.l1 == 0
        found = merged_features(source, tuning.private_share) if may_merge and source.nbytes <= most else None
        source, private = found or (source, None)
        problem = problem._replace(source=source, private=private)
    score = _usual_score(task) if earlier is None else earlier.score
    settings = _settings(estimator, problem, task.source, score, memory, sparse, not partial)
    settings = settings._replace(seed=seed if estimator.shuffle else None, tol=None if partial else settings.tol)
    if earlier is not None:
        schedule = earlier.schedule._replace(alpha=settings.schedule.alpha)
        rate = earlier.intercept_rate * estimator.fit_intercept
        penalty = settings.penalty._replace(intercept_rate=rate)
        settings = settings._replace(schedule=schedule, penalty=penalty)
    return SGD(problem, settings, pool, validate, sees_each)


# --- the lengths of rows, and what rate suits them ----------------------------------------------------


class Lengths(NamedTuple):
    """Estimates of the lengths of the rows.

    `sq_norm` is the mean squared norm, with the constant feature of the intercept. `intercept_rate` is the square of
    that feature, which multiplies the intercept's learning rate; 0 if there is no intercept. `similarity` is the mean
    squared cosine of two rows. If it is large, a step on one row changes the scores of others.
    """

    sq_norm: float
    intercept_rate: float
    similarity: float

    @classmethod
    def of(cls, source: Source, weights: np.ndarray, fit_intercept: bool, tuning: SGDTuning) -> "Lengths":
        """Return estimates from a sample of the rows of positive weight."""
        used = source.sampled(np.flatnonzero(weights > 0), source.tuning.resident_rows)
        block = source.rows(used)
        with np.errstate(all="ignore"):  # the epochs report values that are not finite
            norms = block.sq_norms()
            mean = float(np.average(norms, weights=weights[used]))
            some = np.linspace(0, len(used) - 1, min(tuning.paired, len(used))).astype(int)
            similarity = _similarity(block.take(some), norms[some])
        if not (0 < mean < np.inf and np.isfinite(similarity)):
            return cls(1.0, float(fit_intercept), 1.0)
        intercept_rate = fit_intercept * max(1.0, tuning.intercept_share * mean)
        return cls(mean + intercept_rate, intercept_rate, similarity)


def _similarity(block: Block, norms: np.ndarray) -> float:
    """Return the mean squared product of two different rows, relative to their mean squared norm squared."""
    m = len(norms)
    if m < 2:
        return 1.0
    mean = float(norms.mean())
    unit = float(np.exp2(-np.round(np.log2(mean) / 2))) if 0 < mean < np.inf else 1.0  # against overflow and underflow
    rows = block.converted(np.float64).user_array() * unit
    norms, mean = norms * unit**2, mean * unit**2
    squares = float(np.square(to_dense(rows @ rows.T)).sum())
    return max(0.0, squares - float(np.square(norms).sum())) / (m * (m - 1)) / max(mean**2, 1e-300)


def suitable_rate(lengths: Lengths, loss: Loss, batch_size: float, tuning: SGDTuning) -> float:
    """Return the initial learning rate; `batch_size` is infinite if a batch is all rows.

    A step on one row changes its score by the rate times its squared norm. This change should be a fraction of the
    margin. The fraction may be larger if the scores of other rows change less. A step on a mini-batch is a mean and
    may be longer, until it overshoots in the direction that the rows have in common or is unstable on a curved loss.
    """
    unlike = 1.0 if np.isinf(batch_size) else (tuning.similar / max(lengths.similarity, 1e-300)) ** 0.5
    smooth = loss.bounded and np.isfinite(loss.curvature)  # the next step reverts one that is too long
    gain = min(tuning.most_gain, max(1.0, unlike) * (min(1.0, 0.5 / loss.curvature) if smooth else FIRST_STEP))
    stable = not loss.bounded or (np.isinf(batch_size) and np.isfinite(loss.curvature))
    longest = 1 / loss.curvature if stable else gain * tuning.longest
    return min(longest, gain * batch_size) / lengths.sq_norm


# --- settings --------------------------------------------------------------------------------------------


def _settings(
    estimator: BaseEstimator, problem: SGDProblem, source: Source, score: float, memory: int, sparse: bool, whole: bool
) -> SGDSettings:
    """Return the settings for scores of a usual size, and `whole` data, or a part of them that others follow."""
    n_rows, tuning = int(np.count_nonzero(problem.weights)), current_tuning().sgd
    lengths = None
    if estimator.learning_rate == "auto":
        lengths = Lengths.of(source, problem.weights, estimator.fit_intercept, tuning)
    penalty = _penalty(estimator, float(estimator.fit_intercept) if lengths is None else lengths.intercept_rate)
    usual = tuning.batch_of_few if n_rows <= tuning.few_rows else tuning.batch
    if sparse:
        usual = 1  # larger batches of sparse rows take no less time
    elif not whole:  # a pass over few rows needs more steps, which take long if rows have many values
        least = 1 if n_rows * problem.source.shape[1] <= tuning.few_values else tuning.batch_of_values
        usual = min(usual, max(least, n_rows // tuning.least_steps))
    size = estimator.batch_size
    size = n_rows if size is None else usual if size == "auto" else int(size)
    batch_size = min(size, n_rows)
    everything = whole and batch_size == n_rows
    average = estimator.average
    averaged = 0 if isinstance(average, (bool, np.bool_)) else average
    loss = loss_of(estimator)
    alpha = float(estimator.alpha) if lengths is None else penalty.l2  # without ½‖w‖² there is no strong convexity
    first = _first_rate(estimator, lengths, np.inf if everything else batch_size, score, tuning)
    exact = everything and np.isfinite(loss.curvature)  # steps need not become shorter
    n_steps = np.inf if exact else max(1 if whole else tuning.stream_steps, -(-n_rows // batch_size))
    window_rows = _window_rows(problem.source, sparse, batch_size, memory, tuning)
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
        window_rows=window_rows,
        partial=not whole,
        sparse=sparse and batch_size <= window_rows,
        tuning=tuning,
    )


def _window_rows(source: Source, sparse: bool, batch_size: int, memory: int, tuning: SGDTuning) -> int:
    """Return the number of rows of a window; in memory it consists of whole mini-batches."""
    if not source.resident:
        return max(1, memory // source.tuning.window_share // source.row_bytes)
    most = max(tuning.window_bytes, 3 * 8 * _COPIES * source.shape[1])  # a weight has its sum and penalty beside it
    n_values = source.nonzeros_per_row if sparse else source.shape[1]  # however, and in whatever type, they are stored
    return max(1, int(most / (np.dtype(np.float64).itemsize * max(n_values, 1.0))) // batch_size) * batch_size


def _usual_score(task: Task) -> float:
    """Return the size of a score: a margin, or the standard deviation of the targets, or their size if it is zero."""
    used = task.weights > 0
    if task.of_classes or not used.any():
        return 1.0
    targets, shares = task.targets[used], task.weights[used] / task.weights.sum()
    mean = float(shares @ targets)
    largest = float(np.abs(targets - mean).max()) or 1.0  # whose square may overflow, or underflow
    deviation = largest * float(shares @ ((targets - mean) / largest) ** 2) ** 0.5
    return deviation or abs(mean) or 1.0


def loss_of(estimator: BaseEstimator) -> Loss:
    """Return the loss that an estimator's parameters name."""
    margin = float(getattr(estimator, "margin", 1.0))
    return training_task.loss_of(estimator.loss, epsilon=float(estimator.epsilon), margin=margin)


def _penalty(estimator: BaseEstimator, intercept_rate: float) -> Penalty:
    """Return penalties, momentum and clipping; `intercept_rate` is in multiples of the weights' learning rate."""
    l1_share = {"l2": 0.0, "l1": 1.0, "elasticnet": float(estimator.l1_ratio), None: 0.0}[estimator.penalty]
    alpha = 0.0 if estimator.penalty is None else float(estimator.alpha)
    clip = np.inf if estimator.clip_norm is None else float(estimator.clip_norm)
    return Penalty(alpha * (1 - l1_share), alpha * l1_share, float(estimator.momentum), clip, intercept_rate)


def _first_rate(
    estimator: BaseEstimator, lengths: Lengths | None, batch_size: float, score: float, tuning: SGDTuning
) -> float:
    """Return the initial learning rate, by the lengths of the rows if it adapts to them; `score` is the usual score."""
    loss = loss_of(estimator)
    unit = score if np.isinf(loss.curvature) else 1.0  # beside a kink, slopes do not grow with the unit of the targets
    if lengths is not None:
        return unit * suitable_rate(lengths, loss, batch_size, tuning)
    if estimator.learning_rate == BY_FEATURE:  # for rows of length 1; the solver measures the features
        longest = suitable_rate(Lengths(1.0, 0.0, 1.0), loss, batch_size, tuning)
        if loss.bounded and np.isfinite(loss.curvature) and not loss.of_classes:
            steepest = abs(float(loss_slope(loss, -1e9 * score, 1.0)))  # maybe far less than a score, as of "huber"
            unit = max(1.0, FIRST_STEP * score / steepest / min(1.0, 0.5 / loss.curvature))
        return unit * (longest if np.isinf(batch_size) else longest * tuning.boldness)
    if estimator.learning_rate == "optimal":  # that of scikit-learn, after Bottou: as if a typical weight were α^-¼
        typical = estimator.alpha**-0.25
        return typical if loss.of_classes else typical / max(1.0, float(loss_slope(loss, -typical, 1.0)))
    return float(estimator.eta0)


# --- validation ------------------------------------------------------------------------------------------


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
        most = memory // source.tuning.window_share // task.source.row_bytes
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
        scores = np.concatenate(parts)
        if not task.of_classes:
            return r2_score(targets, scores[:, 0], sample_weight=weights)
        if scores.shape[1] == 1:
            return accuracy_score(targets > 0, scores[:, 0] > 0, sample_weight=weights)
        return accuracy_score(targets, scores.argmax(axis=1), sample_weight=weights)

    return validate
