"""Steps with learning rates by feature that only touch the columns in which a batch has nonzero values.

An untouched weight shrinks by the penalties alone. With h of `feature_rates`, step t leaves
    v = (h + l2 t) w  ←  sign(v) max(0, |v| - l1)
so that v and the number of the last step that touched it give the weight of any later step. Its share in the average,
    Σ_τ (τ - c) sign(v) (|v| - l1 (τ - first)) / (h + l2 τ)
over the steps τ that left it untouched, is a sum of a few terms or else an integral in closed form.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.files.storable import storable
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.dense_steps import LinearFunction, OrderedRows, Penalty, StepPlan
from fastsvm.solvers.sgd.feature_rates import INTERCEPT_REACH, FeatureRates
from fastsvm.sources import CSRBlock

__all__ = ["AdaptiveSparseModel", "adaptive_sparse_steps", "settled"]

_V, _SLOW, _SQUARES, _SUM = range(4)
_STEP, _TOTAL, _L2, _L1, _FROM = range(5)
_TINY = 1e-30  # a denominator that nothing has added to yet
_FEW = 4  # terms that are added one by one
_SHORT = 0.05  # relative growth of a denominator over which Simpson's rule is exact to 1e-8


@storable("adaptive sparse sgd model")
class AdaptiveSparseModel(NamedTuple):
    """Weights v / (h + l2 t) and their average.

    Attributes
    ----------
    table : ndarray of float64, shape (n_features, n_scores, 4)
        v, h, s and the sum of the averaged weights side by side, because steps use all of them.
    touched : ndarray of float64, shape (n_features,)
        Number of steps before the last one that touched the column.
    intercept, slowness, squares, intercept_sum : ndarray of float64, shape (n_scores,)
        Intercept, its h and s, and Σ ω_t times the intercept after step t.
    scalars : ndarray of float64, shape (5,)
        Number of steps t, Σ ω_t, the penalties l2 and l1, and the number of steps after which averaging begins.
    """

    table: np.ndarray
    touched: np.ndarray
    intercept: np.ndarray
    slowness: np.ndarray
    squares: np.ndarray
    intercept_sum: np.ndarray
    scalars: np.ndarray

    @classmethod
    def of(cls, last: LinearFunction, mean: LinearFunction, total: float) -> "AdaptiveSparseModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        k, d = last.coef.shape
        table = np.zeros((d, k, 4))
        table[:, :, _V], table[:, :, _SLOW], table[:, :, _SUM] = last.coef.T, 1.0, total * mean.coef.T
        zeros, scalars = np.zeros((2, k)), np.array([0.0, total, np.nan, np.nan, np.nan])
        return cls(table, np.zeros(d), last.intercept.astype(np.float64), *zeros, total * mean.intercept, scalars)

    def begun(self, floor: np.ndarray, n_steps: int) -> "AdaptiveSparseModel":
        """Return the model with the rates after `n_steps` steps of another model."""
        model = self.copied()
        slow = np.where(floor > 0, floor, 1.0)[:, None]
        model.table[:, :, _V] *= slow
        model.table[:, :, _SLOW] = slow
        model.touched[:] = model.scalars[_STEP] = n_steps
        model.scalars[_L2:] = 0.0, 0.0, np.inf
        return model

    def planned(self, penalty: Penalty, average_from: float) -> "AdaptiveSparseModel":
        """Return the model for other penalties."""
        wanted = np.array([penalty.l2, penalty.l1, average_from])
        if np.array_equal(self.scalars[_L2:], wanted):
            return self
        model = settled(self)
        slow, t = model.table[:, :, _SLOW], model.scalars[_STEP]
        weights = model.table[:, :, _V] / (slow + model.scalars[_L2] * t)
        model.table[:, :, _V] = weights * (slow + penalty.l2 * t)
        model.table[:, :, _SUM] -= max(0.0, t - average_from) * weights  # which the next sum begins with
        model.touched[:] = t - 1
        model.scalars[_L2:] = wanted
        return model

    def copied(self) -> "AdaptiveSparseModel":
        """Return a deep copy."""
        return AdaptiveSparseModel(*(array.copy() for array in self))

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        model = settled(self)
        coef = model.table[:, :, _V] / (model.table[:, :, _SLOW] + self.scalars[_L2] * self.scalars[_STEP])
        return LinearFunction(np.ascontiguousarray(coef.T), self.intercept.copy())

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        total = float(self.scalars[_TOTAL])
        sums = settled(self).table[:, :, _SUM].T
        return LinearFunction(sums / max(total, 1e-300), self.intercept_sum / max(total, 1e-300)), total


def settled(model: AdaptiveSparseModel) -> AdaptiveSparseModel:
    """Return a copy whose columns have all been brought to the last step, to be read only."""
    model = model.copied()
    _settle(model)
    return model


@jit
def adaptive_sparse_steps(
    loss: Loss, block: CSRBlock, rows: OrderedRows, model: AdaptiveSparseModel, plan: StepPlan, losses: np.ndarray
) -> None:
    """Take a step on each batch, in order; the last batch may have fewer rows.

    Parameters
    ----------
    losses : ndarray of float64, shape (n_steps + 1,)
        All but the last are overwritten by the sums of losses of the batches. NaN if a score is not finite.
    """
    k, most = model.intercept.size, 0
    for start in range(0, rows.places.size, plan.batch_size):
        n_values = 0
        for i in range(start, min(start + plan.batch_size, rows.places.size)):
            n_values += block.indptr[rows.places[i] + 1] - block.indptr[rows.places[i]]
        most = max(most, n_values)
    scores, slopes = np.empty((plan.batch_size, k)), np.empty((plan.batch_size, k))
    gathered = _Gathered(np.empty((most, k)), np.empty(most, np.int64), np.zeros(model.touched.size, np.int64))
    for s in range(plan.averaging.size):
        start = s * plan.batch_size
        n = min(plan.batch_size, rows.places.size - start)
        places = rows.places[start : start + n]
        if not _score(block, places, model, scores):
            losses[s] = np.nan
            return
        targets, weights = rows.targets[start : start + n], rows.weights[start : start + n]
        losses[s] = add_losses(loss, scores[:n], targets, weights, rows.balance, slopes[:n])
        n_columns = _gather(block, places, slopes, gathered)
        for q in range(n_columns):
            _move(model, gathered.columns[q], gathered.gradient[q], plan.features)
        _finish(model, slopes, n, plan, s)


class _Gathered(NamedTuple):
    """Gradient of a batch in the columns that it uses, these columns, and the place of each column plus one."""

    gradient: np.ndarray
    columns: np.ndarray
    place: np.ndarray


@jit
def _score(block, places, model, scores):
    """Write the scores of some rows, and return whether all are finite."""
    data, indices, indptr = block.data, block.indices, block.indptr  # no views in loops: reference counting is slow
    table, t, l2, l1, k = model.table, model.scalars[_STEP], model.scalars[_L2], model.scalars[_L1], scores.shape[1]
    accrued, finite = l2 * t, True
    for i in range(places.size):
        for c in range(k):
            scores[i, c] = model.intercept[c]
        for p in range(indptr[places[i]], indptr[places[i] + 1]):
            j = indices[p]
            due = l1 * max(0.0, t - model.touched[j] - 1.0) if l1 > 0 else 0.0
            for c in range(k):
                v = table[j, c, _V]
                if v != 0.0:
                    v = max(v - due, 0.0) if v > 0 else min(v + due, 0.0)
                    scores[i, c] += data[p] * v / (table[j, c, _SLOW] + accrued)
        for c in range(k):
            finite &= abs(scores[i, c]) < np.inf
    return finite


@jit
def _gather(block, places, slopes, gathered):
    """Write the mean gradient of a batch, and return the number of its columns."""
    data, indices, indptr = block.data, block.indices, block.indptr
    gradient, columns, place, k, count = gathered.gradient, gathered.columns, gathered.place, slopes.shape[1], 0
    for i in range(places.size):
        idle = True
        for c in range(k):
            idle &= slopes[i, c] == 0.0
        if idle:
            continue
        for p in range(indptr[places[i]], indptr[places[i] + 1]):
            j = indices[p]
            if place[j] == 0:
                columns[count] = j
                count += 1
                place[j] = count
                for c in range(k):
                    gradient[count - 1, c] = 0.0
            for c in range(k):
                gradient[place[j] - 1, c] += slopes[i, c] / places.size * data[p]
    for q in range(count):
        place[columns[q]] = 0
    return count


@jit
def _move(model, j, gradient, features: FeatureRates):
    """Bring a column to the last step, and take the step along its gradient."""
    _bring(model, j)
    table, t, l2, l1 = model.table, model.scalars[_STEP], model.scalars[_L2], model.scalars[_L1]
    unit = features.unit[j]
    for c in range(gradient.size):
        g, slow, v = gradient[c], table[j, c, _SLOW], table[j, c, _V]
        if g != 0.0:
            w = v / max(slow + l2 * t, _TINY)
            squares = table[j, c, _SQUARES] + (unit * g) * (unit * g)
            slow = features.floor[j] + np.sqrt(squares) / (unit * max(unit * features.score, abs(w)))
            table[j, c, _SQUARES], table[j, c, _SLOW] = squares, slow
            v = w * (slow + l2 * t) - g
        table[j, c, _V] = max(v - l1, 0.0) + min(v + l1, 0.0)
    model.touched[j] = t


@jit
def _bring(model, j):
    """Let a column take the penalties since it was touched, and add its weights since then to their sum."""
    table, scalars = model.table, model.scalars
    t, touched = scalars[_STEP], model.touched[j]
    if t <= touched:
        return
    for c in range(table.shape[1]):
        v = table[j, c, _V]
        if v == 0.0:
            continue
        size, due = abs(v), scalars[_L1] * (t - touched - 1.0)
        if scalars[_FROM] < t:
            held = _sum_held(size, table[j, c, _SLOW], touched + 1.0, scalars)
            table[j, c, _SUM] += held if v > 0 else -held
        table[j, c, _V] = max(size - due, 0.0) if v > 0 else -max(size - due, 0.0)


@jit
def _sum_held(v, slow, first, scalars):
    """Return Σ_τ ω_τ times the weight after step τ, from `first` to now, for v > 0 after step `first`."""
    t, l2, l1, start = scalars[_STEP], scalars[_L2], scalars[_L1], scalars[_FROM]
    top = v + l1 * first  # the weight after step τ is (top - l1 τ) / (slow + l2 τ)
    if t - first < _FEW:
        total, tau = 0.0, first
        while tau <= t:
            total += max(0.0, tau - start) * max(0.0, top - l1 * tau) / (slow + l2 * tau)
            tau += 1.0
        return total
    a, b = max(first - 0.5, start), t + 0.5
    if l1 > 0:
        b = min(b, top / l1)
    if b <= a:
        return 0.0
    if l2 * (b - a) <= _SHORT * (slow + l2 * a):
        m = (a + b) / 2
        ends = (a - start) * (top - l1 * a) / (slow + l2 * a) + (b - start) * (top - l1 * b) / (slow + l2 * b)
        return (b - a) / 6 * (ends + 4 * (m - start) * (top - l1 * m) / (slow + l2 * m))
    H = slow / l2  # by division of the polynomials, the rest of which belongs to the logarithm
    whole = (top + l1 * (start + H)) * (b - a) - l1 * (b * b - a * a) / 2
    return (whole - (H + start) * (top + l1 * H) * np.log1p((b - a) / (H + a))) / l2


@jit
def _finish(model, slopes, n, plan, s):
    """Move the intercepts, and count the step."""
    scalars, weight = model.scalars, plan.averaging[s]
    scalars[_STEP] += 1.0
    scalars[_TOTAL] += weight
    for c in range(model.intercept.size):
        g = 0.0
        for i in range(n):
            g += slopes[i, c] / n
        if g != 0.0 and plan.penalty.intercept_rate > 0:
            model.squares[c] += g * g
            model.slowness[c] = np.sqrt(model.squares[c]) / max(
                INTERCEPT_REACH * plan.features.score, abs(model.intercept[c])
            )
            model.intercept[c] -= g / model.slowness[c]
        model.intercept_sum[c] += weight * model.intercept[c]


@jit
def _settle(model):
    for j in range(model.touched.size):
        _bring(model, j)
