"""Steps with learning rates by feature that only touch the columns in which a batch has nonzero values.

Weights
    An untouched weight shrinks by the penalties alone: with v and h of `feature_rates` it is
        sign(v) max(0, |v| - l1 t) / (h + l2 t)
    after step t.

Bound
    Steps are no longer than twice the way to a loss of zero, if the loss were linear: a step moves along f g instead of
    the gradient g of the batch, with
        f = min(1, ℓ / (c Σ_j g_j² / (h_j + l2 t))),  c = 1/2
    where ℓ is the mean loss of the batch. Otherwise the weight of a rare word, of which each row has few, overshoots in
    each epoch. The rates depend on g, not on f g.

Average
    Not weights are averaged but v and h, with the weights ω_t. So the average of a weight is
        Σ ω_t v_t / Σ ω_t (h_t + l2 t)
    in which its iterates weigh ω_t (h_t + l2 t). An L1 penalty is subtracted from the mean of v. With Ω_t = Σ_τ≤t ω_τ,
        Σ_τ≤t ω_τ v_τ = Ω_t v_t - Σ_τ≤t Ω_τ-1 (v_τ - v_τ-1)
    so that only touched columns cost anything.

After
    Loizou, Vaswani, Laradji and Lacoste-Julien (2021), Stochastic Polyak step-size for SGD, equation 3; Asi and Duchi
    (2019), Stochastic (approximate) proximal point methods, equation 6; Xu (2011), Towards optimal one pass large scale
    learning with averaged stochastic gradient descent, section 4.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm.files.storable import storable
from fastsvm.losses import Loss, loss_slope, loss_value
from fastsvm.solvers.sgd.dense_steps import LinearFunction, OrderedRows, Penalty, StepPlan
from fastsvm.solvers.sgd.feature_rates import FIRST_STEP, FeatureRates
from fastsvm.solvers.sgd.lazy_steps import move, score
from fastsvm.sources import CSRBlock

__all__ = ["AdaptiveSparseModel", "row_steps"]

_V, _SLOW = range(2)
_V_SHARE, _SLOW_SHARE, _SQUARES, _UNIT, _FLOOR, _GRADIENT = range(6)
_STEP, _TOTAL, _MOMENT, _L2, _L1 = range(5)
_TINY = float(np.finfo(np.float64).tiny)  # It is a denominator that nothing has added to yet.
_POLYAK = 0.5  # It is c, and the best one for convex losses (Loizou et al. 2021).


@storable("adaptive sparse sgd model")
class AdaptiveSparseModel(NamedTuple):
    """Weights by their v and h, and their average.

    `pairs`, shape (n_scores, n_features, 2), has v and h side by side and apart from all else: scores read them at
    scattered places. `table`, shape (n_scores, n_features, 6), has what else a step needs: Σ Ω_τ-1 (v_τ - v_τ-1), the
    same of h, s, u, h₀, and the gradient of the batch. `squares` is s of the intercept, and `intercept_sum` is Σ ω_t
    times the intercept after step t. `scalars` has the number of steps t, Σ ω_t, Σ ω_t t, and the penalties l2 and l1.
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
        model = cls(
            np.zeros((k, d, 2)),
            np.zeros((k, d, 6)),
            intercept=last.intercept.astype(np.float64),
            squares=np.zeros(k),
            intercept_sum=total * mean.intercept,
            scalars=np.array([0.0, total, 0.0, 0.0, 0.0]),
        )
        model.pairs[:, :, _SLOW] = 1.0
        model._write(last.coef, mean.coef)
        return model

    def begin(self, floor: np.ndarray, n_steps: int) -> None:
        """Set the rates to those after `n_steps` steps of another model."""
        last, mean = self.last().coef, self.averaged()[0].coef
        self.pairs[:, :, _SLOW] = np.where(floor > 0, floor, 1.0)
        self.table[:, :, _SLOW_SHARE] = 0.0
        self.scalars[_STEP], self.scalars[_MOMENT] = n_steps, self.scalars[_TOTAL] * n_steps
        self._write(last, mean)

    def measure(self, features: FeatureRates) -> None:
        """Take the lengths of the features."""
        self.table[:, :, _UNIT], self.table[:, :, _FLOOR] = features.unit, features.floor

    def plan(self, penalty: Penalty, n_steps: int) -> None:
        """Continue with other penalties."""
        wanted = np.array([penalty.l2, penalty.l1])
        if not np.array_equal(self.scalars[_L2:], wanted):
            last, mean = self.last().coef, self.averaged()[0].coef
            self.scalars[_L2:] = wanted
            self._write(last, mean)

    def _write(self, last: np.ndarray, mean: np.ndarray) -> None:
        """Set the weights and their average."""
        if not (last.any() or mean.any()):
            self.pairs[:, :, _V] = self.table[:, :, _V_SHARE] = 0.0
            return
        (t, total, moment, l2, l1), slow = self.scalars, self.slowness_of_weights()
        middle, mean_slow = moment / max(total, _TINY), slow - self.table[:, :, _SLOW_SHARE] / max(total, _TINY)
        self.pairs[:, :, _V] = last * (slow + l2 * t) + np.sign(last) * l1 * t
        mean_v = mean * (mean_slow + l2 * middle) + np.sign(mean) * l1 * middle
        self.table[:, :, _V_SHARE] = total * (self.pairs[:, :, _V] - mean_v)

    def moved(self, last: LinearFunction, mean: LinearFunction) -> "AdaptiveSparseModel":
        """Return the model with other weights and another average, after as many steps and with the same rates."""
        copy = AdaptiveSparseModel(*(array.copy() for array in self))
        found = copy._replace(intercept=last.intercept.copy(), intercept_sum=self.scalars[_TOTAL] * mean.intercept)
        found._write(last.coef, mean.coef)
        return found

    def part(self, c: int) -> "AdaptiveSparseModel":
        """Return a view of a score, with a copy of the scalars."""
        return AdaptiveSparseModel(*(array[c : c + 1] for array in self))._replace(scalars=self.scalars.copy())

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        coef = np.empty(self.pairs.shape[:2])
        _write_last(self, coef)
        return LinearFunction(coef, self.intercept.copy())

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        total, coef = float(self.scalars[_TOTAL]), np.empty(self.pairs.shape[:2])
        _write_mean(self, coef)
        return LinearFunction(coef, self.intercept_sum / max(total, _TINY)), total

    def slowness_of_weights(self) -> np.ndarray:
        """Return h of all weights."""
        return self.pairs[:, :, _SLOW]


@score.register(AdaptiveSparseModel)
def _score(model, block, places, scores):
    return _scored(block, places, model, scores)


@jit_in_order
def _scored(block, places, model, scores):
    data, indices, indptr = block.data, block.indices, block.indptr  # no views in loops: reference counting is slow
    pairs, t, finite = model.pairs, model.scalars[_STEP], True
    accrued, due = max(model.scalars[_L2] * t, _TINY), model.scalars[_L1] * t
    for i in range(places.size):
        start, stop = indptr[places[i]], indptr[places[i] + 1]
        for c in range(scores.shape[1]):
            total = model.intercept[c]
            if due > 0:
                for p in range(start, stop):
                    j = indices[p]
                    total += data[p] * _shrunk(pairs[c, j, _V], due) / (pairs[c, j, _SLOW] + accrued)
            else:
                for p in range(start, stop):
                    j = indices[p]
                    total += data[p] * pairs[c, j, _V] / (pairs[c, j, _SLOW] + accrued)
            scores[i, c] = total
            finite &= abs(total) < np.inf
    return finite


@jit_in_order
def row_steps(
    loss: Loss, block: CSRBlock, rows: OrderedRows, model: AdaptiveSparseModel, plan: StepPlan, losses: np.ndarray
) -> None:
    """Do what `sparse_steps` does on batches of one row, with a loss of one score, in a third of the time.

    Calls with arrays would take as long as the arithmetic of short rows.
    """
    data, indices, indptr = block.data, block.indices, block.indptr
    pairs, table, scalars, size = model.pairs[0], model.table[0], model.scalars, plan.features.score
    t, total, l2, l1 = scalars[_STEP], scalars[_TOTAL], scalars[_L2], scalars[_L1]
    moment, b, b_squares, b_sum = scalars[_MOMENT], model.intercept[0], model.squares[0], model.intercept_sum[0]
    places, targets, weights, averaging, longest = rows.places, rows.targets, rows.weights, plan.averaging, 0
    for place in places:
        longest = max(longest, indptr[place + 1] - indptr[place])
    found = np.empty((longest, 2))
    for s in range(places.size):
        start, stop = indptr[places[s]], indptr[places[s] + 1]
        accrued, due, score = max(l2 * t, _TINY), l1 * t, b
        if due > 0:
            for p in range(start, stop):
                j = indices[p]
                found[p - start, 0] = _shrunk(pairs[j, _V], due) / (pairs[j, _SLOW] + accrued)
                score += data[p] * found[p - start, 0]
        else:
            for p in range(start, stop):
                j = indices[p]
                found[p - start, 0] = pairs[j, _V] / (pairs[j, _SLOW] + accrued)
                score += data[p] * found[p - start, 0]
        if not abs(score) < np.inf:
            losses[s] = np.nan
            return
        value, slope = (
            weights[s] * loss_value(loss, score, targets[s]),
            weights[s] * loss_slope(loss, score, targets[s]),
        )
        losses[s] = value
        if slope != 0.0:
            squares, rate = 0.0, 0.0
            for p in range(start, stop):
                j, g, w = indices[p], slope * data[p], found[p - start, 0]
                table[j, _SQUARES] += (table[j, _UNIT] * g) ** 2
                slower = _slowed(table[j, _SQUARES], table[j, _UNIT], table[j, _FLOOR], size, w)
                found[p - start, 1] = slower if g != 0.0 else pairs[j, _SLOW]
                squares += g * g / max(found[p - start, 1] + l2 * (t + 1.0), _TINY)
            if plan.penalty.intercept_rate > 0:
                b_squares += slope * slope
                rate = _intercept_rate(b_squares, size, b)
                squares += slope * slope * rate
            along = _share(value, squares) * slope
            b -= along * rate
            for p in range(start, stop):
                j = indices[p]
                change = found[p - start, 1] - pairs[j, _SLOW]
                moved = found[p - start, 0] * change - along * data[p]
                pairs[j, _V] += moved
                pairs[j, _SLOW] += change
                table[j, _V_SHARE] += total * moved
                table[j, _SLOW_SHARE] += total * change
        t += 1.0
        total += averaging[s]
        moment += averaging[s] * t
        b_sum += averaging[s] * b
    scalars[_STEP], scalars[_TOTAL], scalars[_MOMENT] = t, total, moment
    model.intercept[0], model.squares[0], model.intercept_sum[0] = b, b_squares, b_sum


@move.register(AdaptiveSparseModel)
def _move(model, block, places, slopes, value, plan, s):
    idle, most = True, 0
    for i in range(places.size):
        most += block.indptr[places[i] + 1] - block.indptr[places[i]]
        for c in range(slopes.shape[1]):
            slopes[i, c] /= places.size
            idle &= slopes[i, c] == 0.0
    if not idle:
        columns, found = np.empty(most, np.int64), np.empty((3, slopes.shape[1], most))
        n_columns = _gather(block, places, slopes, model, columns, found[0])
        _move_along(model, columns[:n_columns], found, slopes, value, plan)
    _finish(model, plan.averaging[s])


@jit
def _gather(block, places, slopes, model, columns, gradient):
    """Write the columns of a batch and its mean gradient in them, and return their number."""
    data, indices, indptr, table = block.data, block.indices, block.indptr, model.table
    k, count = slopes.shape[1], 0
    if places.size == 1:
        for p in range(indptr[places[0]], indptr[places[0] + 1]):
            columns[count] = indices[p]
            for c in range(k):
                gradient[c, count] = slopes[0, c] * data[p]
            count += 1
        return count
    for i in range(places.size):
        for p in range(indptr[places[i]], indptr[places[i] + 1]):
            j, new = indices[p], True
            for c in range(k):
                new &= table[c, j, _GRADIENT] == 0.0
                table[c, j, _GRADIENT] += slopes[i, c] * data[p]
            columns[count] = j
            count += new
    n_columns = 0
    for q in range(count):
        j, empty = columns[q], True  # a column is there twice if its gradient was zero after some rows
        for c in range(k):
            gradient[c, n_columns] = table[c, j, _GRADIENT]
            empty &= table[c, j, _GRADIENT] == 0.0
            table[c, j, _GRADIENT] = 0.0
        columns[n_columns] = j
        n_columns += not empty
    return n_columns


@jit
def _move_along(model, columns, found, slopes, value, plan):
    """Take a step along the gradient `found[0]` of some columns; the rest of `found` is overwritten."""
    pairs, table, scalars, score = model.pairs, model.table, model.scalars, plan.features.score
    gradient, weights, slower, k = found[0], found[1], found[2], slopes.shape[1]
    t, total, l2, l1 = scalars[_STEP], scalars[_TOTAL], scalars[_L2], scalars[_L1]
    squares = 0.0
    for c in range(k):
        for q in range(columns.size):
            j, g = columns[q], gradient[c, q]
            weights[c, q] = _shrunk(pairs[c, j, _V], l1 * t) / max(pairs[c, j, _SLOW] + l2 * t, _TINY)
            table[c, j, _SQUARES] += (table[c, j, _UNIT] * g) ** 2
            adapted = _slowed(table[c, j, _SQUARES], table[c, j, _UNIT], table[c, j, _FLOOR], score, weights[c, q])
            slower[c, q] = adapted if g != 0.0 else pairs[c, j, _SLOW]
            squares += g * g / max(slower[c, q] + l2 * (t + 1.0), _TINY)
    rates = np.zeros(k)
    if plan.penalty.intercept_rate > 0:
        for c in range(k):
            g = _sum_of(slopes, c)
            model.squares[c] += g * g
            rates[c] = _intercept_rate(model.squares[c], score, model.intercept[c])
            squares += g * g * rates[c]
    share = _share(value, squares)
    for c in range(k):
        model.intercept[c] -= share * _sum_of(slopes, c) * rates[c]
        for q in range(columns.size):
            j = columns[q]
            change = slower[c, q] - pairs[c, j, _SLOW]
            moved = weights[c, q] * change - share * gradient[c, q]
            pairs[c, j, _V] += moved
            pairs[c, j, _SLOW] = slower[c, q]
            table[c, j, _V_SHARE] += total * moved
            table[c, j, _SLOW_SHARE] += total * change


@jit
def _slowed(squares, unit, floor, score, w):
    """Return h after a step."""
    return floor + np.sqrt(squares) / (unit * max(unit * score, abs(w)))


@jit
def _intercept_rate(squares, score, intercept):
    """Return the rate; 0 before the first slope that is not 0, as slopes of a batch may cancel."""
    return max(FIRST_STEP * score, abs(intercept)) / np.sqrt(squares) if squares > 0 else 0.0


@jit
def _share(value, squares):
    """Return f for a batch of a mean loss; `squares` is the sum of g² / (h + l2 t)."""
    return min(1.0, value / max(_POLYAK * squares, _TINY))


@jit
def _sum_of(slopes, c):
    total = 0.0
    for i in range(slopes.shape[0]):
        total += slopes[i, c]
    return total


@jit
def _shrunk(v, due):
    """Return v without the L1 penalty that is due, zero if it is not larger."""
    return max(v - due, 0.0) + min(v + due, 0.0)


@jit
def _finish(model, weight):
    """Count a step, whose iterate has a weight in the average."""
    scalars = model.scalars
    scalars[_STEP] += 1.0
    scalars[_TOTAL] += weight
    scalars[_MOMENT] += weight * scalars[_STEP]
    for c in range(model.intercept.size):
        model.intercept_sum[c] += weight * model.intercept[c]


@jit
def _write_last(model, out):
    """Write the weights of the last step."""
    pairs, scalars = model.pairs, model.scalars
    accrued, due = scalars[_L2] * scalars[_STEP], scalars[_L1] * scalars[_STEP]
    for c in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[c, j] = _shrunk(pairs[c, j, _V], due) / max(pairs[c, j, _SLOW] + accrued, _TINY)


@jit
def _write_mean(model, out):
    """Write the averaged weights."""
    pairs, table, scalars, total = model.pairs, model.table, model.scalars, max(model.scalars[_TOTAL], _TINY)
    middle = scalars[_MOMENT] / total
    accrued, due = scalars[_L2] * middle, scalars[_L1] * middle
    for c in range(out.shape[0]):
        for j in range(out.shape[1]):
            v = pairs[c, j, _V] - table[c, j, _V_SHARE] / total
            slow = pairs[c, j, _SLOW] - table[c, j, _SLOW_SHARE] / total
            out[c, j] = _shrunk(v, due) / max(slow + accrued, _TINY)
