"""Mini-batch gradient steps on dense rows; rows in another form are made dense a few at a time."""

from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401, compiled code calls it; loaded now, its pool is limited to one thread

from fastsvm._compiled.compiler import inlined, jit
from fastsvm.files.storable import storable
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.adaptive_steps import adaptive_update, average
from fastsvm.solvers.sgd.feature_rates import FeatureRates
from fastsvm.solvers.sgd.row_loading import StoredRows, load

__all__ = [
    "Buffers",
    "DenseModel",
    "LinearFunction",
    "OrderedRows",
    "Penalty",
    "StepPlan",
    "steps",
]


_UNSEEN = 16  # A shrinkage by the L2 penalty of fewer units of rounding is accumulated first.


@storable("linear function")
class LinearFunction(NamedTuple):
    """Scores W x + b: `coef` of shape (n_scores, n_features), `intercept` of shape (n_scores,), float64."""

    coef: np.ndarray
    intercept: np.ndarray


@storable("sgd model")
class DenseModel(NamedTuple):
    """Weights, their velocity and average, and the gradient of a batch that is not yet complete.

    All arrays but the last two have one type. Their shape is (n_scores, n_features) for the features, (n_scores,) for
    the intercept. Without momentum the velocity has no rows. `squares` is s and `slowness` is h of `feature_rates`,
    which have rows only with rates by feature. With an L1 penalty `leader` is v then, else it has no columns.
    `penalties` are those that `leader` suits. `total` holds the sum of the averaging weights, and the shrinkage of
    `coef` that is not applied yet because it is within rounding of 1.
    """

    coef: np.ndarray
    intercept: np.ndarray
    velocity: np.ndarray
    velocity_intercept: np.ndarray
    mean: np.ndarray
    mean_intercept: np.ndarray
    gradient: np.ndarray
    gradient_intercept: np.ndarray
    squares: np.ndarray
    squares_intercept: np.ndarray
    slowness: np.ndarray
    slowness_intercept: np.ndarray
    leader: np.ndarray
    penalties: np.ndarray
    total: np.ndarray

    @classmethod
    def of(
        cls, last: LinearFunction, mean: LinearFunction, total: float, dtype: np.dtype, penalty: "Penalty",
        by_feature: bool,
    ) -> "DenseModel":  # fmt: skip
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        n_scores, n_features = last.coef.shape

        def zeros(is_used: bool) -> tuple[np.ndarray, np.ndarray]:
            n_rows = n_scores if is_used else 0
            return np.zeros((n_rows, n_features), dtype), np.zeros(n_rows, dtype)

        return cls(
            last.coef.astype(dtype), last.intercept.astype(dtype), *zeros(penalty.momentum > 0),
            mean.coef.astype(dtype), mean.intercept.astype(dtype), *zeros(is_used=True),
            *zeros(by_feature), *zeros(by_feature),
            np.zeros((n_scores, n_features if by_feature and penalty.l1 > 0 else 0), dtype),
            np.full(2, np.nan), np.array([total, 1.0]),
        )  # fmt: skip

    def begin(self, floor: np.ndarray, n_steps: int) -> None:
        """Set rates by feature to those of the first step."""
        self.slowness[:] = floor
        self.penalties[:] = np.nan

    def plan(self, penalty: "Penalty", n_steps: int) -> None:
        """Continue with rates by feature and other penalties after so many steps."""
        wanted = np.array([penalty.l2, penalty.l1])
        if self.leader.size and not np.array_equal(self.penalties, wanted):
            accrued, due = wanted * n_steps
            self.leader[:] = self.coef * (self.slowness + accrued) + np.sign(self.coef) * due
        self.penalties[:] = wanted

    def slowness_of_weights(self) -> np.ndarray:
        """Return h of all weights."""
        return self.slowness

    def moved(self, last: LinearFunction, mean: LinearFunction) -> "DenseModel":
        """Return the model with other weights and another average, after as many steps and with the same rates."""
        dtype = self.coef.dtype
        return self._replace(
            coef=last.coef.astype(dtype), intercept=last.intercept.astype(dtype), mean=mean.coef.astype(dtype),
            mean_intercept=mean.intercept.astype(dtype), total=np.array([self.total[0], 1.0]),
            penalties=np.full(2, np.nan),  # `plan` sets the leader anew
        )  # fmt: skip

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        return LinearFunction(self.coef.astype(np.float64), self.intercept.astype(np.float64))

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        mean = LinearFunction(self.mean.astype(np.float64), self.mean_intercept.astype(np.float64))
        return mean, float(self.total[0])

    def part(self, start: int, stop: int) -> "DenseModel":
        """Return a view of the scores `start` to `stop`, with a copy of `total`."""
        scores = DenseModel(*(array[start:stop] for array in self))
        return scores._replace(penalties=self.penalties, total=self.total.copy())


class Penalty(NamedTuple):
    """Penalties, momentum, clipping and the intercept's rate.

    `l2` and `l1` are the factors of ½ ‖w‖² and of ‖w‖₁ in the objective. `momentum` is the factor of the velocity in
    each step; 0 for none. `clip` is the largest norm of a mean gradient of a batch; infinite for none. `intercept_rate`
    is in multiples of the rate of the weights; 0 for no intercept.
    """

    l2: float
    l1: float
    momentum: float
    clip: float
    intercept_rate: float


class OrderedRows(NamedTuple):
    """Rows of a window in the order of the steps, with their targets and the weights of their losses.

    `places` is the index of each row among the stored ones. `targets` and `balance`, the class weights, are as
    `add_losses` takes them. Values x are mapped to (x - shift) scale; empty arrays for no mapping.
    """

    places: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    balance: np.ndarray
    shift: np.ndarray
    scale: np.ndarray


class Buffers(NamedTuple):
    """Buffers for a few rows: the dense rows, their scores, the slopes of their losses, and their gradient."""

    rows: np.ndarray
    scores: np.ndarray
    slopes: np.ndarray
    part: np.ndarray

    @classmethod
    def of(cls, n_rows: int, n_features: int, n_scores: int, dtype: np.dtype) -> "Buffers":
        """Return buffers for `n_rows` rows."""
        shapes = (n_rows, n_features), (n_rows, n_scores), (n_rows, n_scores), (n_scores, n_features)
        return cls(*(np.empty(shape, dtype) for shape in shapes))


class StepPlan(NamedTuple):
    """Batch size, learning rates and averaging weights of the steps on a window.

    `rates` has the learning rate of each step, in multiples of that of a feature if rates are by feature. `averaging`
    has the weight of the iterate after each step in the average. `pending` rows of the first batch were processed with
    the window before, and `before` steps were taken before. `penalty` is the same for all steps.
    """

    batch_size: int
    rates: np.ndarray
    averaging: np.ndarray
    penalty: Penalty
    pending: int
    before: int
    features: FeatureRates


@jit
def _score(stored, rows, start, n, model, buffers):
    """Load `n` rows, write their scores, and return whether all scores are finite."""
    X, scores, finite = buffers.rows[:n], buffers.scores[:n], True
    load(stored, rows.places[start : start + n], X)
    if rows.scale.size:
        for i in range(n):
            x = X[i]
            for j in range(x.size):
                x[j] = (x[j] - rows.shift[j]) * rows.scale[j]
    np.dot(X, model.coef.T, scores)
    for i in range(n):
        for c in range(scores.shape[1]):
            scores[i, c] += model.intercept[c]
            finite &= abs(scores[i, c]) < np.inf
    return finite


@jit
def _gather(model, buffers, n, first):
    """Add the gradient of `n` loaded rows to the batch gradient; overwrite it if they are the first of the batch."""
    X, slopes = buffers.rows[:n], buffers.slopes[:n]
    k, d = model.gradient.shape
    if first:
        np.dot(slopes.T, X, model.gradient)
        for c in range(k):
            model.gradient_intercept[c] = 0
    else:
        np.dot(slopes.T, X, buffers.part)
        for c in range(k):
            for j in range(d):
                model.gradient[c, j] += buffers.part[c, j]
    for i in range(n):
        for c in range(k):
            model.gradient_intercept[c] += slopes[i, c]


@inlined
def accumulate(
    loss: Loss,
    stored: StoredRows,
    rows: OrderedRows,
    span: tuple[int, int],
    first: bool,
    model: DenseModel,
    buffers: Buffers,
) -> float:
    """Add the gradient over the rows of a span to the batch gradient, and return the sum of their losses.

    If `first`, the span begins a batch, and the gradient is overwritten. Only this function is compiled for each loss
    anew.
    """
    (start, stop), height, total = span, buffers.rows.shape[0], 0.0
    for a in range(start, stop, height):
        n = min(height, stop - a)
        if not _score(stored, rows, a, n, model, buffers):
            total = np.nan  # the caller finds out why
        targets, weights = rows.targets[a : a + n], rows.weights[a : a + n]
        total += add_losses(loss, buffers.scores[:n], targets, weights, rows.balance, buffers.slopes[:n])
        _gather(model, buffers, n, first and a == start)
    return total


@jit
def _update(model: DenseModel, n_rows: int, plan: StepPlan, s: int) -> None:
    """Take step `s` of a plan along the mean gradient of `n_rows` rows, and average."""
    rate, weight, penalty = plan.rates[s], plan.averaging[s], plan.penalty
    real = model.coef.dtype.type
    along = _mean_factor(model, n_rows, penalty)
    model.total[0] += weight
    if model.slowness.size:
        adaptive_update(model, along, plan, s)
        return
    model.total[1] *= max(0.0, 1.0 - rate * penalty.l2)
    shrink, along = real(1.0), real(along)
    if abs(1.0 - model.total[1]) > _UNSEEN * np.finfo(model.coef.dtype).eps:
        shrink = real(model.total[1])
        model.total[1] = 1.0
    length, step, threshold = real(rate), real(rate * along), real(rate * penalty.l1)
    momentum = real(penalty.momentum)
    for c in range(model.coef.shape[0]):
        w, g = model.coef[c], model.gradient[c]
        if penalty.momentum > 0:
            v = model.velocity[c]
            for j in range(w.size):
                v[j] = momentum * v[j] + along * g[j]
                w[j] = shrink * w[j] - length * v[j]
            model.velocity_intercept[c] = momentum * model.velocity_intercept[c] + along * model.gradient_intercept[c]
            model.intercept[c] -= real(rate * penalty.intercept_rate) * model.velocity_intercept[c]
        else:
            for j in range(w.size):
                w[j] = shrink * w[j] - step * g[j]
            model.intercept[c] -= real(penalty.intercept_rate) * step * model.gradient_intercept[c]
        if penalty.l1 > 0:
            for j in range(w.size):
                w[j] = max(w[j] - threshold, real(0)) + min(w[j] + threshold, real(0))
        average(model, c, weight)


@jit
def _mean_factor(model: DenseModel, n_rows: int, penalty: Penalty) -> float:
    """Return what to multiply the batch gradient with: 1 / `n_rows`, or less if it is clipped.

    In the norm, the squares of the intercept count times its rate.
    """
    if penalty.clip == np.inf:
        return 1.0 / n_rows
    total = 0.0
    for c in range(model.gradient.shape[0]):
        g = model.gradient[c]
        squares = g.dtype.type(0)
        for j in range(g.size):
            squares += g[j] * g[j]
        total += squares + penalty.intercept_rate * model.gradient_intercept[c] ** 2
    return min(1.0, penalty.clip / max(np.sqrt(total) / n_rows, 1e-300)) / n_rows


@jit
def steps(
    loss: Loss,
    stored: StoredRows,
    rows: OrderedRows,
    model: DenseModel,
    plan: StepPlan,
    buffers: Buffers,
    losses: np.ndarray,
) -> None:
    """Take a step on each complete batch, in order; the gradient of the remaining rows stays in the model.

    `losses`, shape (n_steps + 1,), are overwritten by the sums of losses of the batches and of the remaining rows. They
    are NaN if a score is not finite.
    """
    start, n, pending = 0, rows.places.size, plan.pending
    for s in range(losses.size):
        stop = min(n, start + plan.batch_size - pending)
        losses[s] = accumulate(loss, stored, rows, (start, stop), pending == 0, model, buffers)
        if s < plan.rates.size:
            _update(model, pending + stop - start, plan, s)
        start, pending = stop, 0
