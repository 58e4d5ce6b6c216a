"""Steps with learning rates by feature that only touch the columns in which a batch has nonzero values.

An untouched weight shrinks by the penalties alone: with v and h of `feature_rates` it is
    sign(v) max(0, |v| - l1 t) / (h + l2 t)
after step t. Its share in the average, the sum of ω_τ times this over the steps τ that left it untouched, is a sum of a
few terms or else an integral by Gauss's rule.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm.files.storable import storable
from fastsvm.solvers.sgd.dense_steps import LinearFunction, Penalty
from fastsvm.solvers.sgd.feature_rates import INTERCEPT_REACH, FeatureRates
from fastsvm.solvers.sgd.lazy_steps import move, score

__all__ = ["AdaptiveSparseModel"]

_V, _SLOW, _PAIR = range(3)
_TOUCHED, _UNIT, _FLOOR, _FIRST = range(4)
_GRADIENT, _SQUARES, _SUM, _WIDTH = range(4)
_STEP, _TOTAL, _L2, _L1, _FROM = range(5)
_TINY = float(np.finfo(np.float64).tiny)  # a denominator that nothing has added to yet
_FEW = 4  # terms that are added one by one
_GROWTH = 0.25  # relative growth of a denominator over which Gauss's rule with three nodes is exact to 1e-7
_NODE = 0.6**0.5


@storable("adaptive sparse sgd model")
class AdaptiveSparseModel(NamedTuple):
    """Weights by their v and h, and their average.

    Attributes
    ----------
    pairs : ndarray of float64, shape (n_features, 2 n_scores)
        v and h for each score, side by side and apart from all else: scores read them at scattered places.
    table : ndarray of float64, shape (n_features, 3 + 3 n_scores)
        What else a step needs to know of a feature: the number of steps before the last one that touched it, u and h₀,
        and for each score the gradient of the batch, s and the sum of the averaged weights.
    intercept, squares, intercept_sum : ndarray of float64, shape (n_scores,)
        Intercept, its s, and Σ ω_t times the intercept after step t.
    scalars : ndarray of float64, shape (5,)
        Number of steps t, Σ ω_t, the penalties l2 and l1, and the number of steps after which averaging begins.
    """

    pairs: np.ndarray
    table: np.ndarray
    intercept: np.ndarray
    squares: np.ndarray
    intercept_sum: np.ndarray
    scalars: np.ndarray

    @classmethod
    def of(cls, last: LinearFunction, mean: LinearFunction, total: float) -> "AdaptiveSparseModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        k, d = last.coef.shape
        pairs, table = np.ones((d, _PAIR * k)), np.zeros((d, _FIRST + _WIDTH * k))
        pairs[:, _V::_PAIR], table[:, _FIRST + _SUM :: _WIDTH] = last.coef.T, total * mean.coef.T
        return cls(
            pairs,
            table,
            intercept=last.intercept.astype(np.float64),
            squares=np.zeros(k),
            intercept_sum=total * mean.intercept,
            scalars=np.array([0.0, total, 0.0, 0.0, np.inf]),
        )

    def begin(self, floor: np.ndarray, n_steps: int) -> None:
        """Set the rates to those after `n_steps` steps of another model."""
        slow = np.where(floor > 0, floor, 1.0)[:, None]
        self.pairs[:, _SLOW::_PAIR] = slow
        self.pairs[:, _V::_PAIR] *= slow
        self.table[:, _TOUCHED] = self.scalars[_STEP] = n_steps

    def measure(self, features: FeatureRates) -> None:
        """Take the lengths of the features."""
        self.table[:, _UNIT], self.table[:, _FLOOR] = features.unit, features.floor

    def plan(self, penalty: Penalty, n_steps: int, average_from: float) -> None:
        """Continue with other penalties after so many steps."""
        wanted = np.array([penalty.l2, penalty.l1, average_from])
        if np.array_equal(self.scalars[_L2:], wanted):
            return
        _settle(self)
        t, weights, (l2, l1) = self.scalars[_STEP], self.last().coef.T, wanted[:2]
        self.pairs[:, _V::_PAIR] = weights * (self.slowness_of_weights() + l2 * t) + np.sign(weights) * l1 * t
        self.table[:, _TOUCHED] = t
        self.scalars[_L2:] = wanted

    def copied(self) -> "AdaptiveSparseModel":
        """Return a deep copy."""
        return AdaptiveSparseModel(*(array.copy() for array in self))

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        coef = np.empty((len(self.intercept), len(self.table)))
        _write_last(self, coef)
        return LinearFunction(coef, self.intercept.copy())

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        total, coef = float(self.scalars[_TOTAL]), np.empty((len(self.intercept), len(self.table)))
        _write_mean(self, coef)
        return LinearFunction(coef, self.intercept_sum / max(total, 1e-300)), total

    def slowness_of_weights(self) -> np.ndarray:
        """Return h of all weights."""
        return self.pairs[:, _SLOW::_PAIR]


@score.register(AdaptiveSparseModel)
def _score(model, block, places, scores):
    return _scored(block, places, model, scores)


@jit_in_order
def _scored(block, places, model, scores):
    data, indices, indptr = block.data, block.indices, block.indptr  # no views in loops: reference counting is slow
    pairs, t, k, finite = model.pairs, model.scalars[_STEP], scores.shape[1], True
    accrued, due = max(model.scalars[_L2] * t, _TINY), model.scalars[_L1] * t
    for i in range(places.size):
        for c in range(k):
            scores[i, c] = model.intercept[c]
        if k == 1:  # summed in a register
            total = 0.0
            for p in range(indptr[places[i]], indptr[places[i] + 1]):
                j = indices[p]
                total += data[p] * _shrunk(pairs[j, _V], due) / (pairs[j, _SLOW] + accrued)
            scores[i, 0] += total
        else:
            for p in range(indptr[places[i]], indptr[places[i] + 1]):
                j = indices[p]
                for c in range(k):
                    v = _shrunk(pairs[j, _PAIR * c + _V], due)
                    scores[i, c] += data[p] * v / (pairs[j, _PAIR * c + _SLOW] + accrued)
        for c in range(k):
            finite &= abs(scores[i, c]) < np.inf
    return finite


@move.register(AdaptiveSparseModel)
def _move(model, block, places, slopes, plan, s):
    most = 0
    for i in range(places.size):
        most += block.indptr[places[i] + 1] - block.indptr[places[i]]
    columns = np.empty(most, np.int64)
    n_columns = _gather(block, places, slopes, model, columns)
    _move_weights(model, columns[:n_columns], plan.features.score)
    _finish(model, slopes, places.size, plan, s)


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
            if k == 1:  # without a branch that depends on the gradient
                g = table[j, _FIRST + _GRADIENT]
                table[j, _FIRST + _GRADIENT] = g + slopes[i, 0] * data[p]
                columns[count] = j
                count += g == 0.0
                continue
            for c in range(k):
                at = _FIRST + _WIDTH * c + _GRADIENT
                new &= table[j, at] == 0.0
                table[j, at] += slopes[i, c] * data[p]
            if new:
                columns[count] = j
                count += 1
    return count


@jit
def _move_weights(model, columns, size):
    """Take a step along the gradient of some columns; `size` is that of a score."""
    pairs, table, k = model.pairs, model.table, model.intercept.size
    now = _now(model.scalars)
    for q in range(columns.size):
        j = columns[q]
        first, unit = table[j, _TOUCHED] + 1.0, table[j, _UNIT]
        table[j, _TOUCHED] = now.t
        for c in range(k):
            at, pair = _FIRST + _WIDTH * c, _PAIR * c
            g, v, before = table[j, at + _GRADIENT], pairs[j, pair + _V], pairs[j, pair + _SLOW]
            table[j, at + _SUM] += _sum_since(v, before, first, now)
            if g != 0.0:
                w = _shrunk(v, now.l1 * now.t) / max(before + now.l2 * now.t, _TINY)
                squares = table[j, at + _SQUARES] + (unit * g) * (unit * g)
                slow = table[j, _FLOOR] + np.sqrt(squares) / (unit * max(unit * size, abs(w)))
                table[j, at + _SQUARES], pairs[j, pair + _SLOW], table[j, at + _GRADIENT] = squares, slow, 0.0
                pairs[j, pair + _V] = v + w * (slow - before) - g


class _Now(NamedTuple):
    """Number of steps, penalties, and the number of steps after which averaging begins: numbers, not an array."""

    t: float
    l2: float
    l1: float
    start: float


@jit
def _now(scalars):
    return _Now(scalars[_STEP], scalars[_L2], scalars[_L1], scalars[_FROM])


@jit
def _shrunk(v, due):
    """Return v without the L1 penalty that is due, zero if it is not larger."""
    return max(v - due, 0.0) + min(v + due, 0.0)


@jit
def _sum_since(v, slow, first, now):
    """Return Σ_τ ω_τ times a weight after step τ, from `first` to now."""
    if v == 0.0 or now.t < first or now.start >= now.t:
        return 0.0
    held = _sum_held(abs(v), slow, first, now)
    return held if v > 0 else -held


@jit
def _sum_held(v, slow, first, now):
    """Return `_sum_since` for v > 0."""
    t, l2, l1, start, total = now.t, now.l2, now.l1, now.start, 0.0
    if t - first < _FEW:
        tau = max(first, start)
        while tau <= t:
            x = tau - start
            total += (x * x + 0.25) * x * max(0.0, v - l1 * tau) / (slow + l2 * tau)
            tau += 1.0
        return total
    a, b = max(first - 0.5, start + 0.5), t + 0.5
    if l1 > 0:
        b = min(b, v / l1)
    while a < b:
        end, lowest = b, slow + l2 * a
        if l2 * (b - a) > _GROWTH * lowest:
            end = a + _GROWTH * lowest / l2
        middle, half = (a + end) / 2, (end - a) / 2
        x, y, z = middle - _NODE * half, middle, middle + _NODE * half
        p, q, r = x - start, y - start, z - start
        fx, dx = p * p * p * (v - l1 * x), slow + l2 * x
        fy, dy = q * q * q * (v - l1 * y), slow + l2 * y
        fz, dz = r * r * r * (v - l1 * z), slow + l2 * z
        total += half * ((5 * fx * dz + 5 * fz * dx) * dy + 8 * fy * dx * dz) / (9 * dx * dy * dz)  # one division
        a = end
    return total


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
            model.intercept[c] -= g / (np.sqrt(model.squares[c]) / longest)
        model.intercept_sum[c] += weight * model.intercept[c]


@jit
def _settle(model):
    """Add the weights since their columns were touched to their sums."""
    pairs, table, now = model.pairs, model.table, _now(model.scalars)
    for j in range(table.shape[0]):
        for c in range(model.intercept.size):
            held = _sum_since(pairs[j, _PAIR * c + _V], pairs[j, _PAIR * c + _SLOW], table[j, _TOUCHED] + 1.0, now)
            table[j, _FIRST + _WIDTH * c + _SUM] += held


@jit
def _write_last(model, out):
    """Write the weights of the last step."""
    pairs, scalars = model.pairs, model.scalars
    accrued, due = scalars[_L2] * scalars[_STEP], scalars[_L1] * scalars[_STEP]
    for j in range(out.shape[1]):
        for c in range(out.shape[0]):
            slow = pairs[j, _PAIR * c + _SLOW]
            out[c, j] = _shrunk(pairs[j, _PAIR * c + _V], due) / max(slow + accrued, _TINY)


@jit
def _write_mean(model, out):
    """Write the averaged weights."""
    pairs, table, now, total = model.pairs, model.table, _now(model.scalars), max(model.scalars[_TOTAL], _TINY)
    for j in range(out.shape[1]):
        for c in range(out.shape[0]):
            held = _sum_since(pairs[j, _PAIR * c + _V], pairs[j, _PAIR * c + _SLOW], table[j, _TOUCHED] + 1.0, now)
            out[c, j] = (table[j, _FIRST + _WIDTH * c + _SUM] + held) / total
