"""Steps with learning rates by feature that only touch the columns in which a batch has nonzero values.

An untouched weight shrinks by the penalties alone. With h of `feature_rates`, step t leaves
    v = (h + l2 t) w  ←  sign(v) max(0, |v| - l1)
so that v and the number of the last step that touched it give the weight of any later step. Its share in the average,
    Σ_τ (τ - c) sign(v) (|v| - l1 (τ - first)) / (h + l2 τ)
over the steps τ that left it untouched, is a sum of a few terms or else an integral in closed form.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm.files.storable import storable
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.dense_steps import LinearFunction, OrderedRows, Penalty, StepPlan
from fastsvm.solvers.sgd.feature_rates import INTERCEPT_REACH, FeatureRates
from fastsvm.sources import CSRBlock

__all__ = ["AdaptiveSparseModel", "adaptive_sparse_steps"]

_TOUCHED, _UNIT, _FLOOR, _FIRST = range(4)
_GRADIENT, _V, _SLOW, _SQUARES, _SUM = range(_WIDTH := 5)
_STEP, _TOTAL, _L2, _L1, _FROM = range(5)
_TINY = 1e-30  # a denominator that nothing has added to yet
_FEW = 4  # terms that are added one by one
_SHORT = 0.05  # relative growth of a denominator over which Simpson's rule is exact to 1e-8


@storable("adaptive sparse sgd model")
class AdaptiveSparseModel(NamedTuple):
    """Weights v / (h + l2 t) and their average.

    Attributes
    ----------
    table : ndarray of float64, shape (n_features, 3 + 5 n_scores)
        All that a step needs to know of a feature, because its columns are scattered in memory: the number of steps
        before the last one that touched it, u and h₀, and for each score the gradient of the batch, v, h, s and the sum
        of the averaged weights.
    intercept, slowness, squares, intercept_sum : ndarray of float64, shape (n_scores,)
        Intercept, its h and s, and Σ ω_t times the intercept after step t.
    scalars : ndarray of float64, shape (5,)
        Number of steps t, Σ ω_t, the penalties l2 and l1, and the number of steps after which averaging begins.
    """

    table: np.ndarray
    intercept: np.ndarray
    slowness: np.ndarray
    squares: np.ndarray
    intercept_sum: np.ndarray
    scalars: np.ndarray

    @classmethod
    def of(cls, last: LinearFunction, mean: LinearFunction, total: float) -> "AdaptiveSparseModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        k, d = last.coef.shape
        table = np.zeros((d, _FIRST + _WIDTH * k))
        zeros, scalars = np.zeros((2, k)), np.array([0.0, total, 0.0, 0.0, np.inf])
        model = cls(table, last.intercept.astype(np.float64), *zeros, total * mean.intercept, scalars)
        model._part(_V)[:], model._part(_SLOW)[:], model._part(_SUM)[:] = last.coef.T, 1.0, total * mean.coef.T
        return model

    def begin(self, floor: np.ndarray, n_steps: int) -> None:
        """Set the rates to those after `n_steps` steps of another model."""
        slow = self._part(_SLOW)
        slow[:] = np.where(floor > 0, floor, 1.0)[:, None]
        self._part(_V)[:] *= slow
        self.table[:, _TOUCHED] = self.scalars[_STEP] = n_steps

    def measure(self, features: FeatureRates) -> None:
        """Take the lengths of the features."""
        self.table[:, _UNIT], self.table[:, _FLOOR] = features.unit, features.floor

    def plan(self, penalty: Penalty, average_from: float) -> None:
        """Continue with other penalties."""
        wanted = np.array([penalty.l2, penalty.l1, average_from])
        if np.array_equal(self.scalars[_L2:], wanted):
            return
        _settle(self)
        t, slow, v = self.scalars[_STEP], self._part(_SLOW), self._part(_V)
        weights = v / (slow + self.scalars[_L2] * t)
        v[:] = weights * (slow + penalty.l2 * t)
        self._part(_SUM)[:] -= max(0.0, t - average_from) * weights  # which the next sum begins with
        self.table[:, _TOUCHED] = t - 1
        self.scalars[_L2:] = wanted

    def copied(self) -> "AdaptiveSparseModel":
        """Return a deep copy."""
        return AdaptiveSparseModel(*(array.copy() for array in self))

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        coef = np.empty((len(self.intercept), len(self.table)))
        _write_last(self.table, self.scalars, coef)
        return LinearFunction(coef, self.intercept.copy())

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        total, coef = float(self.scalars[_TOTAL]), np.empty((len(self.intercept), len(self.table)))
        _write_mean(self.table, self.scalars, coef)
        return LinearFunction(coef, self.intercept_sum / max(total, 1e-300)), total

    def slowness_of_weights(self) -> np.ndarray:
        """Return h of all weights."""
        return self._part(_SLOW)

    def _part(self, which: int) -> np.ndarray:
        """Return a view of one value of each weight, shape (n_features, n_scores)."""
        return self.table[:, _FIRST + which :: _WIDTH]


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
    scores, slopes, columns = np.empty((plan.batch_size, k)), np.empty((plan.batch_size, k)), np.empty(most, np.int64)
    for s in range(plan.averaging.size):
        start = s * plan.batch_size
        n = min(plan.batch_size, rows.places.size - start)
        places = rows.places[start : start + n]
        if not _score(block, places, model, scores):
            losses[s] = np.nan
            return
        targets, weights = rows.targets[start : start + n], rows.weights[start : start + n]
        losses[s] = add_losses(loss, scores[:n], targets, weights, rows.balance, slopes[:n])
        n_columns = _gather(block, places, slopes, model, columns)
        _move(model, columns[:n_columns], plan.features.score)
        _finish(model, slopes, n, plan, s)


@jit_in_order
def _score(block, places, model, scores):
    """Write the scores of some rows, and return whether all are finite."""
    data, indices, indptr = block.data, block.indices, block.indptr  # no views in loops: reference counting is slow
    table, t, l1, k = model.table, model.scalars[_STEP], model.scalars[_L1], scores.shape[1]
    accrued, finite = max(model.scalars[_L2] * t, _TINY), True
    for i in range(places.size):
        for c in range(k):
            scores[i, c] = model.intercept[c]
        if k == 1 and l1 == 0.0:  # summed in a register
            total = 0.0
            for p in range(indptr[places[i]], indptr[places[i] + 1]):
                j = indices[p]
                total += data[p] * table[j, _FIRST + _V] / (table[j, _FIRST + _SLOW] + accrued)
            scores[i, 0] += total
        else:
            for p in range(indptr[places[i]], indptr[places[i] + 1]):
                j = indices[p]
                due = l1 * max(0.0, t - table[j, _TOUCHED] - 1.0)
                for at in range(_FIRST, table.shape[1], _WIDTH):
                    v = _shrunk(table[j, at + _V], due)
                    scores[i, (at - _FIRST) // _WIDTH] += data[p] * v / (table[j, at + _SLOW] + accrued)
        for c in range(k):
            finite &= abs(scores[i, c]) < np.inf
    return finite


@jit
def _gather(block, places, slopes, model, columns):
    """Add the mean gradient of a batch to the table, write its columns, and return their number.

    A column may be written twice if a part of its gradient is zero.
    """
    data, indices, indptr, table = block.data, block.indices, block.indptr, model.table
    k, count = slopes.shape[1], 0
    for i in range(places.size):
        idle = True
        for c in range(k):
            slopes[i, c] /= places.size
            idle &= slopes[i, c] == 0.0
        if idle:
            continue
        for p in range(indptr[places[i]], indptr[places[i] + 1]):
            j, new = indices[p], True
            for c in range(k):
                at = _FIRST + _WIDTH * c + _GRADIENT
                new &= table[j, at] == 0.0
                table[j, at] += slopes[i, c] * data[p]
            if new:
                columns[count] = j
                count += 1
    return count


@jit
def _move(model, columns, score):
    """Bring columns to the last step, and take the step along their gradient."""
    table, scalars = model.table, model.scalars
    t, l2, l1 = scalars[_STEP], scalars[_L2], scalars[_L1]
    for q in range(columns.size):
        j = columns[q]
        _bring(table, scalars, j)
        unit = table[j, _UNIT]
        for at in range(_FIRST, table.shape[1], _WIDTH):
            g, v = table[j, at + _GRADIENT], table[j, at + _V]
            if g != 0.0:
                w = v / max(table[j, at + _SLOW] + l2 * t, _TINY)
                squares = table[j, at + _SQUARES] + (unit * g) * (unit * g)
                slow = table[j, _FLOOR] + np.sqrt(squares) / (unit * max(unit * score, abs(w)))
                table[j, at + _SQUARES], table[j, at + _SLOW], table[j, at + _GRADIENT] = squares, slow, 0.0
                v = w * (slow + l2 * t) - g
            if table[j, _TOUCHED] < t:
                v = _shrunk(v, l1)
            table[j, at + _V] = v
        table[j, _TOUCHED] = t


@jit
def _bring(table, scalars, j):
    """Let a column take the penalties since it was touched, and add its weights since then to their sum."""
    t, first = scalars[_STEP], table[j, _TOUCHED] + 1.0
    if t >= first:
        for at in range(_FIRST, table.shape[1], _WIDTH):
            table[j, at + _SUM] += _sum_since(table, scalars, j, at)
            table[j, at + _V] = _shrunk(table[j, at + _V], scalars[_L1] * (t - first))


@jit
def _shrunk(v, due):
    """Return v without the L1 penalty that is due."""
    return max(v - due, 0.0) + min(v + due, 0.0)


@jit
def _sum_since(table, scalars, j, at):
    """Return what a weight adds to its sum for the steps since it was touched."""
    v, first = table[j, at + _V], table[j, _TOUCHED] + 1.0
    if v == 0.0 or scalars[_STEP] < first or scalars[_FROM] >= scalars[_STEP]:
        return 0.0
    held = _sum_held(abs(v), table[j, at + _SLOW], first, scalars)
    return held if v > 0 else -held


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
            g += slopes[i, c]
        if g != 0.0 and plan.penalty.intercept_rate > 0:
            model.squares[c] += g * g
            longest = max(INTERCEPT_REACH * plan.features.score, abs(model.intercept[c]))
            model.slowness[c] = np.sqrt(model.squares[c]) / longest
            model.intercept[c] -= g / model.slowness[c]
        model.intercept_sum[c] += weight * model.intercept[c]


@jit
def _settle(model):
    for j in range(model.table.shape[0]):
        _bring(model.table, model.scalars, j)


@jit
def _write_last(table, scalars, out):
    """Write the weights of the last step."""
    t = scalars[_STEP]
    for j in range(table.shape[0]):
        due = scalars[_L1] * max(0.0, t - table[j, _TOUCHED] - 1.0)
        for c in range(out.shape[0]):
            at = _FIRST + _WIDTH * c
            out[c, j] = _shrunk(table[j, at + _V], due) / max(table[j, at + _SLOW] + scalars[_L2] * t, _TINY)


@jit
def _write_mean(table, scalars, out):
    """Write the averaged weights."""
    total = max(scalars[_TOTAL], _TINY)
    for j in range(table.shape[0]):
        for c in range(out.shape[0]):
            at = _FIRST + _WIDTH * c
            out[c, j] = (table[j, at + _SUM] + _sum_since(table, scalars, j, at)) / total
