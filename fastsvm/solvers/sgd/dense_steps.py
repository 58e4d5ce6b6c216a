"""Steps on dense rows; rows in another form are made dense a few at a time.

All forms are one type for compiled code, which looks up the form when it runs. So each loss is compiled once for a type
of weights, not once for each form of the rows.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401, compiled code calls it; loaded now, its pool is limited to one thread

from fastsvm._compiled.compiler import inlined, jit
from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.row_products import product_type
from fastsvm.linalg.sparse_products import readable
from fastsvm.losses import add_losses
from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, FIRST_STEP, FeatureLengths, FeatureRates, added_lengths
from fastsvm.solvers.sgd.problem import LinearFunction, OrderedRows, Penalty, SGDProblem, SGDSettings, StepPlan
from fastsvm.sources import CSRBlock, Window
from fastsvm.tuning import current_tuning

_BYTES, _ROWS, _SPARSE = range(3)
_ROWS_AT_ONCE = 32  # Lengths are sums over rows that are made dense together.
_UNSEEN = 16  # A shrinkage by the L2 penalty of fewer units of rounding is accumulated first.


@storable("sgd model")
class DenseModel(NamedTuple):
    """Weights, their velocity and average, and the gradient of a batch that is not yet complete.

    All arrays but the last two have one type. Their shape is (n_scores, n_features) for the features, (n_scores,) for
    the intercept. Without momentum the velocity has no rows. `squares` is s and `slowness` is h of `learning_rates`,
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
        cls, last: LinearFunction, mean: LinearFunction, total: float, dtype: np.dtype, penalty: Penalty,
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

    def write(self, last: LinearFunction, mean: LinearFunction) -> None:
        """Set the weights and their average, after as many steps and with the same rates."""
        self.coef[:], self.intercept[:] = last
        self.mean[:], self.mean_intercept[:] = mean
        self.total[1], self.penalties[:] = 1.0, np.nan  # `prepare` sets the leader anew

    def prepare(self, penalty: Penalty, n_steps: int, features: FeatureRates | None, begins: bool) -> None:
        """Continue with a penalty after so many steps, and with other rates by feature, which may begin."""
        if begins and features is not None:
            self.slowness[:], self.penalties[:] = features.floor, np.nan
        wanted = np.array([penalty.l2, penalty.l1])
        if self.leader.size and not np.array_equal(self.penalties, wanted):
            accrued, due = wanted * n_steps
            self.leader[:] = self.coef * (self.slowness + accrued) + np.sign(self.coef) * due
        self.penalties[:] = wanted

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        return LinearFunction(self.coef.astype(np.float64), self.intercept.astype(np.float64))

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        mean = LinearFunction(self.mean.astype(np.float64), self.mean_intercept.astype(np.float64))
        return mean, float(self.total[0])


class StoredRows(NamedTuple):
    """Rows in one of three forms; the arrays of the other forms are empty.

    The forms are dense bytes, `octets`, and dense `values`, both C-contiguous; and compressed sparse rows.
    """

    form: int
    octets: np.ndarray
    values: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


class Buffers(NamedTuple):
    """Buffers for a few rows: the dense rows, their scores, the slopes of their losses, and their gradient."""

    rows: np.ndarray
    scores: np.ndarray
    slopes: np.ndarray
    part: np.ndarray


class DenseSteps:
    """Takes the steps of windows on a `DenseModel`."""

    def __init__(self, problem: SGDProblem, settings: SGDSettings, pool: Pool) -> None:
        self.problem, self.settings = problem, settings
        self.dtype = product_type(problem.source.dtype)

    def model(self, last: LinearFunction, mean: LinearFunction, total: float) -> DenseModel:
        """Return a model with weights and an average, whose averaging weights sum to `total`."""
        settings = self.settings
        return DenseModel.of(last, mean, total, self.dtype, settings.penalty, settings.schedule.name == BY_FEATURE)

    def rows(self, window: Window) -> tuple[StoredRows, np.ndarray]:
        """Return the rows of a window's block, and the numbers of the window's rows in them.

        Types and layouts that compiled code does not know are converted. Only the window's rows are, because the block
        may hold all rows in memory.
        """
        block, numbers = window.block, window.places
        kind = product_type(block.stored.dtype)
        rows = StoredRows(
            _ROWS, np.empty((0, 0), np.uint8), np.empty((0, 0), kind),
            np.empty(0, kind), np.empty(0, np.int32), np.empty(0, np.int64),
        )  # fmt: skip
        if isinstance(block, CSRBlock):
            block, numbers = readable(block, numbers)
            return rows._replace(form=_SPARSE, data=block.data, indices=block.indices, indptr=block.indptr), numbers
        values = block.values
        if values.dtype == np.uint8 and values.flags.c_contiguous:
            return rows._replace(form=_BYTES, octets=values), numbers
        if values.dtype == kind and values.flags.c_contiguous:
            return rows._replace(values=values), numbers
        return rows._replace(values=np.ascontiguousarray(values[numbers], kind)), np.arange(len(numbers))

    def lengths(
        self, earlier: FeatureLengths | None, window: Window, stored: tuple[StoredRows, np.ndarray], weights: np.ndarray
    ) -> FeatureLengths:
        """Return the lengths of features with the first rows of a window."""
        sums = np.zeros((2, self.problem.source.shape[1]))
        _add_squares(*stored, self.problem.mapping(self.dtype), weights, sums)
        return added_lengths(earlier, weights, sums.T)

    def take(self, model: DenseModel, stored: StoredRows, rows: OrderedRows, plan: StepPlan) -> np.ndarray:
        """Take the steps, and return the sums of losses of the batches and, last, of the remaining rows."""
        n, (k, d) = min(self.settings.batch_size, current_tuning().products.tile), model.coef.shape
        buffers = Buffers(*(np.empty(shape, self.dtype) for shape in ((n, d), (n, k), (n, k), (k, d))))
        losses = np.zeros(len(plan.rates) + 1)
        _steps(self.settings.loss, stored, rows, model, plan, buffers, losses)
        return losses


@jit
def load(rows: StoredRows, numbers: np.ndarray, shift: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """Write the rows `numbers`, mapped as those of an `SGDProblem`, to the dense array `out`."""
    for i in range(numbers.size):
        target, place = out[i], numbers[i]
        if rows.form == _BYTES:
            octets = rows.octets[place]
            for j in range(target.size):
                target[j] = octets[j]
        elif rows.form == _ROWS:
            values = rows.values[place]
            for j in range(target.size):
                target[j] = values[j]
        else:
            for j in range(target.size):
                target[j] = 0
            for p in range(rows.indptr[place], rows.indptr[place + 1]):
                target[rows.indices[p]] = rows.data[p]
        if scale.size:
            for j in range(target.size):
                target[j] = (target[j] - shift[j]) * scale[j]


@jit
def _add_squares(stored, numbers, mapping, weights, sums):
    """Add the weights of nonzero values and of their squares to the sums of each feature, which are rows of `sums`."""
    counts, squares = sums[0], sums[1]
    rows = np.empty((_ROWS_AT_ONCE, counts.size), stored.values.dtype)
    for start in range(0, weights.size, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, weights.size - start)
        load(stored, numbers[start : start + n], mapping[0], mapping[1], rows)
        for i in range(n):
            weight = weights[start + i]
            for j in range(counts.size):
                value = np.float64(rows[i, j])
                counts[j] += weight if value != 0.0 else 0.0
                squares[j] += weight * value * value


@jit
def _score(stored, rows, start, n, model, buffers):
    """Load `n` rows, write their scores, and return whether all scores are finite."""
    X, scores, finite = buffers.rows[:n], buffers.scores[:n], True
    load(stored, rows.numbers[start : start + n], rows.shift, rows.scale, X)
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
def _accumulate(loss, stored, rows, span, first, model, buffers):
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
        _update_by_feature(model, along, plan, s)
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
        _average(model, c, weight)


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
def _steps(loss, stored, rows, model, plan, buffers, losses):
    """Take a step on each complete batch, in order; the gradient of the remaining rows stays in the model.

    `losses`, shape (n_steps + 1,), are overwritten by the sums of losses of the batches and of the remaining rows. They
    are NaN if a score is not finite.
    """
    start, n, pending = 0, rows.numbers.size, plan.pending
    for s in range(losses.size):
        epoch = start // plan.epoch_rows
        stop = min(n, start + plan.batch_size - pending, (epoch + 1) * plan.epoch_rows)
        losses[s] = _accumulate(loss, stored, rows, (start, stop), pending == 0, model, buffers)
        if s < plan.rates.size:
            _update(model, pending + stop - start, plan, s)
        if stop == (epoch + 1) * plan.epoch_rows and epoch < plan.ends.shape[1]:
            _write_end(model, plan.ends[:, epoch])
        start, pending = stop, 0


@jit
def _write_end(model, ends):
    """Write the sums that a `StepPlan` asks for."""
    for c in range(ends.shape[0]):
        for j in range(model.coef.shape[1]):
            w = np.float64(model.coef[c, j])
            ends[c, 0] += w * w
            ends[c, 1] += abs(w)
            ends[c, 2] += model.slowness[c, j] if model.slowness.size else 0.0


@jit
def _update_by_feature(model: DenseModel, mean: float, plan: StepPlan, s: int) -> None:
    """Take step `s` of a plan along `mean` times the gradient of a `DenseModel`, and average."""
    penalty, features, weight = plan.penalty, plan.features, plan.averaging[s]
    real = model.coef.dtype.type
    along, momentum = real(mean), real(penalty.momentum)
    t = plan.before + s + 1
    l2, accrued, due = real(penalty.l2), real(penalty.l2 * t), real(penalty.l1 * t)
    zero, score = real(0.0), real(features.score)
    tiny = real(np.finfo(model.coef.dtype).tiny)  # a denominator that nothing has added to yet
    for c in range(model.coef.shape[0]):
        w, g, squares, slow, v = model.coef[c], model.gradient[c], model.squares[c], model.slowness[c], model.leader[c]
        for j in range(v.size):
            v[j] -= w[j] * slow[j]
        for j in range(w.size):
            new, unit = along * g[j], features.unit[j]
            squares[j] += (unit * new) * (unit * new)
            slower = features.floor[j] + np.sqrt(squares[j]) / (unit * max(unit * score, abs(w[j])))
            slow[j] = slower if new != zero else slow[j]  # no branch, so that this becomes vector instructions
        move, factor = g, along
        if penalty.momentum > 0:
            move, factor = model.velocity[c], real(1.0)
            for j in range(w.size):
                move[j] = momentum * move[j] + along * g[j]
        if v.size:
            for j in range(w.size):
                v[j] += w[j] * slow[j] - factor * move[j]
                w[j] = (max(v[j] - due, zero) + min(v[j] + due, zero)) / max(slow[j] + accrued, tiny)
        else:
            for j in range(w.size):
                w[j] -= (factor * move[j] + l2 * w[j]) / max(slow[j] + accrued, tiny)
        if penalty.intercept_rate > 0:
            new, step = along * model.gradient_intercept[c], along * model.gradient_intercept[c]
            if new != zero:
                model.squares_intercept[c] += new * new
                longest = max(real(FIRST_STEP) * score, abs(model.intercept[c]))
                model.slowness_intercept[c] = np.sqrt(model.squares_intercept[c]) / longest
            if penalty.momentum > 0:
                model.velocity_intercept[c] = momentum * model.velocity_intercept[c] + new
                step = model.velocity_intercept[c]
            model.intercept[c] -= step / max(model.slowness_intercept[c], tiny)
        _average(model, c, weight)


@jit
def _average(model: DenseModel, c: int, weight: float) -> None:
    """Add the weights of a score, which count so much, to their average; `total` has the weight already."""
    if weight > 0:
        share = model.coef.dtype.type(weight / model.total[0])
        w, mean = model.coef[c], model.mean[c]
        for j in range(w.size):
            mean[j] += share * (w[j] - mean[j])
        model.mean_intercept[c] += share * (model.intercept[c] - model.mean_intercept[c])
