"""Steps that only touch the columns in which a batch has nonzero values.

Weights
    A weight is the regularised leader of its gradients: with the penalties A accrued so far it is
        w = sign(v) max(0, |v| - l1 A) / (h + l2 A)
    so that an untouched weight takes its penalties at once. A step with the weight a along the gradient g is
        v ← v + w (h' - h) - a f g,  h ← h',  A ← A + a
    With learning rates by feature (`learning_rates`), a = 1 and h grows with the gradients. With one rate η_t for all,
    h = 1 and a = η_t (1 + l2 A) / (1 - η_t l2): without an L1 penalty these are the steps of `solver`, with one those
    of dual averaging.

Bound
    With rates by feature, steps are no longer than twice the way to a loss of zero, if the loss were linear:
        f = min(1, ℓ / (c Σ_j g_j² / (h_j + l2 A))),  c = 1/2
    where ℓ is the mean loss of the batch. Otherwise the weight of a rare word, of which each row has few, overshoots in
    each epoch. The rates depend on g, not on f g. Elsewhere f = 1.

Average
    The averages of weights with the weights ω_t are quotients of averages of v and of h + l2 A, with weights α_t:
        shrunk(Σ α_t v_t, l1 Σ α_t A_t) / Σ α_t (h_t + l2 A_t)
    By feature α_t = ω_t, else ω_t / (1 + l2 A_t), by which this is the average of weights if there is no L1 penalty.
    With M_t = Σ_τ≤t α_τ,
        Σ_τ≤t α_τ v_τ = M_t v_t - Σ_τ≤t M_τ-1 (v_τ - v_τ-1)
    so that only touched columns cost anything.

After
    Loizou, Vaswani, Laradji and Lacoste-Julien (2021), Stochastic Polyak step-size for SGD, equation 3; Asi and Duchi
    (2019), Stochastic (approximate) proximal point methods, equation 6; Xiao (2010), Dual averaging methods for
    regularized stochastic learning and online optimization; Xu (2011), Towards optimal one pass large scale learning
    with averaged stochastic gradient descent, section 4.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.linalg.sparse_products import readable, unsigned
from fastsvm.losses import add_losses, in_score, loss_slope, loss_value
from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, FIRST_STEP, FeatureLengths, FeatureRates, added_lengths
from fastsvm.solvers.sgd.problem import LinearFunction, OrderedRows, Penalty, SGDProblem, SGDSettings, StepPlan
from fastsvm.sources import CSRBlock, Window

_V, _SLOW = range(2)
_SHARE = _SLOW  # With one rate for all there is no h, and the sum of the average is beside v.
_V_SHARE, _SLOW_SHARE, _SQUARES, _UNIT, _FLOOR, _GRADIENT = range(6)
_ACCRUED, _DUE, _SHARES, _ACCRUED_SUM, _DUE_SUM, _TOTAL, _L2, _L1 = range(8)
_TINY = float(np.finfo(np.float64).tiny)  # It is a denominator that nothing has added to yet.
_POLYAK = 0.5  # It is c, and the best one for convex losses (Loizou et al. 2021).
_MOST_WEIGHTS = 1 << 19  # More do not fit in the cache: then a thread takes the steps of one score at a time.
_SMALLEST = 1e-5  # A smaller scale 1 / (1 + l2 A) is multiplied into the weights, before it underflows.


@storable("lazy sgd model")
class SparseModel(NamedTuple):
    """Weights by their v and h, and their average, in float64.

    `pairs`, shape (n_scores, n_features, 2), has v and h side by side and apart from all else: scores read them at
    scattered places. `table`, shape (n_scores, n_features, 6), has what else a step needs: Σ M_τ-1 (v_τ - v_τ-1), the
    same sum of h, s, u, h₀ and the gradient of the batch. With one rate for all, h is part of what accrued: the first
    of these sums takes its place in `pairs`, and `table` has no columns. `squares` is s of the intercept, and
    `intercept_sum` is Σ ω_t times the intercept after step t. `scalars` has l2 A, l1 A, M, Σ α_t l2 A_t, Σ α_t l1 A_t,
    Σ ω_t, l2 and l1.
    """

    pairs: np.ndarray
    table: np.ndarray
    intercept: np.ndarray
    squares: np.ndarray
    intercept_sum: np.ndarray
    scalars: np.ndarray

    @classmethod
    def of(cls, last: LinearFunction, mean: LinearFunction, total: float, by_feature: bool) -> "SparseModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        k, d = last.coef.shape
        model = cls(
            np.zeros((k, d, 2)), np.zeros((k, d, 6 if by_feature else 0)), np.zeros(k), np.zeros(k), np.zeros(k),
            np.array([0.0 if by_feature else 1.0, 0.0, 0.0, 0.0, 0.0, total, 0.0, 0.0]),
        )  # fmt: skip
        if total > 0 or any(array.any() for array in (*last, *mean)):  # else the memory of zeros stays untouched
            if by_feature:
                model.pairs[:, :, _SLOW] = 1.0
            model.write(last, mean)
        return model

    def write(self, last: LinearFunction, mean: LinearFunction) -> None:
        """Set the weights and their average, after as many steps and with the same rates."""
        scalars = self.scalars
        accrued, due, total = scalars[_ACCRUED], scalars[_DUE], scalars[_TOTAL]
        scalars[_SHARES:_TOTAL] = total, total * accrued, total * due
        self.intercept[:], self.intercept_sum[:] = last.intercept, total * mean.intercept
        share, slow = self.pairs[:, :, _SHARE], np.zeros(())
        if self.table.size:
            share, slow = self.table[:, :, _V_SHARE], self.pairs[:, :, _SLOW]
            self.table[:, :, _SLOW_SHARE] = 0.0
        if not (last.coef.any() or mean.coef.any()):
            self.pairs[:, :, _V] = share[:] = 0.0
            return
        self.pairs[:, :, _V] = last.coef * (slow + accrued) + np.sign(last.coef) * due
        share[:] = total * (self.pairs[:, :, _V] - mean.coef * (slow + accrued) - np.sign(mean.coef) * due)

    def prepare(self, penalty: Penalty, n_steps: int, features: FeatureRates | None, begins: bool) -> None:
        """Continue with a penalty after so many steps, and with other rates by feature, which may begin."""
        wanted, is_adaptive = np.array([penalty.l2, penalty.l1]), self.table.shape[2] > 0
        if begins or not np.array_equal(self.scalars[_L2:], wanted):
            last, (mean, _) = self.last(), self.averaged()
            self.scalars[_L2:], self.scalars[_DUE] = wanted, 0.0
            if is_adaptive:
                self.scalars[_ACCRUED], self.scalars[_DUE] = wanted * n_steps
            if begins and features is not None:
                self.pairs[:, :, _SLOW] = np.where(features.floor > 0, features.floor, 1.0)
            self.write(last, mean)
        if features is not None:
            self.table[:, :, _UNIT], self.table[:, :, _FLOOR] = features.unit, features.floor

    def part(self, start: int, stop: int) -> "SparseModel":
        """Return a view of the scores `start` to `stop`, with a copy of the scalars."""
        return SparseModel(*(array[start:stop] for array in self))._replace(scalars=self.scalars.copy())

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


class SparseSteps:
    """Takes the steps of windows on a `SparseModel`; threads share scores whose losses are apart."""

    dtype = np.dtype(np.float64)

    def __init__(self, problem: SGDProblem, settings: SGDSettings, pool: Pool) -> None:
        self.problem, self.settings, self.pool = problem, settings, pool

    def model(self, last: LinearFunction, mean: LinearFunction, total: float) -> SparseModel:
        """Return a model with weights and an average, whose averaging weights sum to `total`."""
        return SparseModel.of(last, mean, total, self.settings.schedule.name == BY_FEATURE)

    def rows(self, window: Window) -> tuple[CSRBlock, np.ndarray]:
        """Return the rows of a window, compressed if they are dense, and their numbers."""
        return readable(window.block, window.places)

    def lengths(
        self, earlier: FeatureLengths | None, window: Window, stored: tuple[CSRBlock, np.ndarray], weights: np.ndarray
    ) -> FeatureLengths:
        """Return the lengths of features with the first rows of a window."""
        block, numbers = stored[0], stored[1][: len(weights)]
        order = np.argsort(numbers, kind="stable")  # as they lie in memory, which is faster to read
        sums = np.zeros((block.n_features, 2))
        _add_squares(block, numbers[order], weights[order], sums)
        return added_lengths(earlier, weights, sums)

    def take(self, model: SparseModel, block: CSRBlock, rows: OrderedRows, plan: StepPlan) -> np.ndarray:
        """Take the steps, and return the sums of losses of the batches and, last, of the remaining rows."""
        loss, k, block = self.settings.loss, len(rows.balance), block._replace(indices=unsigned(block).indices)
        by_row = not loss.of_classes and plan.batch_size == 1 and plan.features.unit.size > 0
        by_row = by_row and self.settings.tuning.single_rows
        if loss.of_classes or (k == 1 and not by_row):
            losses = np.zeros(len(plan.rates) + 1)
            _batch_steps(loss, block, rows, model, plan, losses)
            return losses
        n_shares = min(k, self.pool.n_threads) if by_row and model.pairs.size <= 2 * _MOST_WEIGHTS else k
        shares = list(spans(k, -(-k // n_shares)))
        sums, parts = np.zeros((k, len(plan.rates) + 1)), [model.part(*share) for share in shares]

        def some(number: int, start: int, stop: int) -> None:
            own = plan._replace(ends=plan.ends[start:stop])
            if by_row:
                _row_steps(loss, block, rows, parts[number], own, start, sums[start:stop])
                return
            is_own = rows.targets == start
            factors = np.where(is_own, rows.balance[start] * rows.weights, rows.weights)
            alone = rows._replace(targets=np.where(is_own, 1.0, -1.0), weights=factors, balance=np.ones(1))
            _batch_steps(loss, block, alone, parts[number], own, sums[start])

        self.pool.run(some, [(number, *share) for number, share in enumerate(shares)])
        model.scalars[:] = parts[0].scalars
        return sums.sum(axis=0)


@jit
def _add_squares(block: CSRBlock, numbers, weights, sums):
    """Add the weights of nonzero values and of their squares to the sums of each feature."""
    data, indices, indptr = block.data, block.indices, block.indptr
    for i in range(numbers.size):
        for p in range(indptr[numbers[i]], indptr[numbers[i] + 1]):
            x = np.float64(data[p])
            sums[indices[p], 0] += weights[i] if x != 0 else 0.0
            sums[indices[p], 1] += weights[i] * x * x


# --- batches of one row, and losses of one score ---------------------------------------------------------


@jit_in_order
def _row_steps(loss, block, rows, model, plan, first, losses):
    """Do what `_batch_steps` does by feature on batches of one row, with losses of one score, in half of the time.

    The scores of the model begin with score `first` of the problem. Each has a row of `losses`. Calls with arrays would
    take as long as the arithmetic of short rows.
    """
    data, indices, indptr, numbers = block.data, block.indices, block.indptr, rows.numbers
    pairs, table, scalars, size = model.pairs, model.table, model.scalars, plan.features.score
    intercept, k, longest = model.intercept, model.intercept.size, 0
    for place in numbers:
        longest = max(longest, indptr[place + 1] - indptr[place])
    now = np.empty((longest, 2))
    for s in range(numbers.size):
        start, stop = indptr[numbers[s]], indptr[numbers[s] + 1]
        accrued, due, shares = max(scalars[_ACCRUED], _TINY), scalars[_DUE], scalars[_SHARES]
        for c in range(k):
            score = intercept[c]
            for p in range(start, stop):
                j, v = indices[p], pairs[c, indices[p], _V]
                now[p - start, 0] = (_shrunk(v, due) if due > 0 else v) / (pairs[c, j, _SLOW] + accrued)
                score += data[p] * now[p - start, 0]
            if not abs(score) < np.inf:
                losses[c, s] = np.nan
                return
            target, weight = in_score(rows.targets[s], rows.weights[s], rows.balance, first + c)
            losses[c, s] = weight * loss_value(loss, score, target)
            slope = weight * loss_slope(loss, score, target)
            if slope == 0.0:
                continue
            squares, rate = 0.0, 0.0
            for p in range(start, stop):
                j, g, w = indices[p], slope * data[p], now[p - start, 0]
                table[c, j, _SQUARES] += (table[c, j, _UNIT] * g) ** 2
                slower = _slowed(table[c, j, _SQUARES], table[c, j, _UNIT], table[c, j, _FLOOR], size, w)
                now[p - start, 1] = slower if g != 0.0 else pairs[c, j, _SLOW]
                squares += g * g / (now[p - start, 1] + accrued + scalars[_L2])
            if plan.penalty.intercept_rate > 0:
                model.squares[c] += slope * slope
                rate = _intercept_rate(model.squares[c], size, intercept[c])
                squares += slope * slope * rate
            along = _bound(losses[c, s], squares) * slope
            intercept[c] -= along * rate
            for p in range(start, stop):
                j = indices[p]
                change = now[p - start, 1] - pairs[c, j, _SLOW]
                moved = now[p - start, 0] * change - along * data[p]
                pairs[c, j, _V] += moved
                pairs[c, j, _SLOW] += change
                table[c, j, _V_SHARE] += shares * moved
                table[c, j, _SLOW_SHARE] += shares * change
        scalars[_ACCRUED] += scalars[_L2]
        scalars[_DUE] += scalars[_L1]
        _count(scalars, plan.averaging[s], plan.averaging[s])
        for c in range(k):
            model.intercept_sum[c] += plan.averaging[s] * intercept[c]
        if (s + 1) % plan.epoch_rows == 0 and s < plan.ends.shape[1] * plan.epoch_rows:
            _write_end(model, plan.ends[:, s // plan.epoch_rows])


# --- batches of several rows, and losses of all scores ---------------------------------------------------


@jit
def _batch_steps(loss, block, rows, model, plan, losses):
    """Take a step on each batch, in order; the last batch of an epoch may have fewer rows.

    `losses`, shape (n_steps + 1,), are overwritten, but for the last, by the sums of losses of the batches. They are
    NaN if a score is not finite.
    """
    k, start = model.intercept.size, 0
    scores, slopes = np.empty((plan.batch_size, k)), np.empty((plan.batch_size, k))
    for s in range(plan.rates.size):
        epoch = start // plan.epoch_rows
        n = min(plan.batch_size, rows.numbers.size - start, (epoch + 1) * plan.epoch_rows - start)
        numbers = rows.numbers[start : start + n]
        if not _write_scores(block, numbers, model, scores):
            losses[s] = np.nan
            return
        targets, weights = rows.targets[start : start + n], rows.weights[start : start + n]
        losses[s] = add_losses(loss, scores[:n], targets, weights, rows.balance, slopes[:n])
        _step(model, block, numbers, slopes[:n], losses[s] / n, plan, s)
        start += n
        if start == (epoch + 1) * plan.epoch_rows and epoch < plan.ends.shape[1]:
            _write_end(model, plan.ends[:, epoch])


@jit_in_order
def _write_scores(block, numbers, model, scores):
    """Write the scores of some rows, and return whether all are finite."""
    data, indices, indptr = block.data, block.indices, block.indptr
    pairs, finite, is_adaptive = model.pairs, True, model.table.shape[2] > 0
    accrued, due = max(model.scalars[_ACCRUED], _TINY), model.scalars[_DUE]
    for i in range(numbers.size):
        start, stop = indptr[numbers[i]], indptr[numbers[i] + 1]
        for c in range(scores.shape[1]):
            total = model.intercept[c] if is_adaptive else 0.0
            if not is_adaptive:
                for p in range(start, stop):
                    v = pairs[c, indices[p], _V]
                    total += data[p] * (_shrunk(v, due) if due > 0 else v)
                total = total / accrued + model.intercept[c]
            else:
                for p in range(start, stop):
                    j, v = indices[p], pairs[c, indices[p], _V]
                    total += data[p] * (_shrunk(v, due) if due > 0 else v) / (pairs[c, j, _SLOW] + accrued)
            scores[i, c] = total
            finite &= abs(total) < np.inf
    return finite


@jit
def _step(model, block, numbers, slopes, value, plan, s):
    """Take step `s` of a plan on a batch, whose losses have the slopes `slopes` and the mean `value`."""
    is_adaptive, idle, most, k = plan.features.unit.size > 0, True, 0, slopes.shape[1]
    for i in range(numbers.size):
        most += block.indptr[numbers[i] + 1] - block.indptr[numbers[i]]
        for c in range(k):
            slopes[i, c] /= numbers.size
            idle &= slopes[i, c] == 0.0
    scalars, weight = model.scalars, plan.averaging[s]
    share = weight
    if not is_adaptive:
        share *= _accrue(model, plan.rates[s], 1.0 / max(scalars[_ACCRUED], _TINY))
        if not idle:
            _move(block, numbers, model, slopes, plan, s)
    elif not idle:
        columns, along = np.empty(most, np.int64), np.empty((3, k, most))
        columns = columns[: _gather(block, numbers, slopes, model, columns, along[0])]
        _move_by_feature(model, columns, along, slopes, value, plan)
    if is_adaptive:
        scalars[_ACCRUED] += scalars[_L2]
    scalars[_DUE] += scalars[_L1] * (1.0 if is_adaptive else plan.rates[s] * scalars[_ACCRUED])
    _count(scalars, share, weight)
    for c in range(k):
        model.intercept_sum[c] += weight * model.intercept[c]


@jit
def _gather(block, numbers, slopes, model, columns, gradient):
    """Write the columns of a batch and its mean gradient in them, and return their number."""
    data, indices, indptr, table = block.data, block.indices, block.indptr, model.table
    k, count = slopes.shape[1], 0
    if numbers.size == 1:
        for p in range(indptr[numbers[0]], indptr[numbers[0] + 1]):
            columns[count] = indices[p]
            for c in range(k):
                gradient[c, count] = slopes[0, c] * data[p]
            count += 1
        return count
    for i in range(numbers.size):
        for p in range(indptr[numbers[i]], indptr[numbers[i] + 1]):
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
def _move(block, numbers, model, slopes, plan, s):
    """Take a step with one rate for all along the gradient of some rows."""
    data, indices, indptr = block.data, block.indices, block.indptr
    pairs, shares = model.pairs, model.scalars[_SHARES]
    rate = plan.rates[s]
    for i in range(numbers.size):
        for c in range(slopes.shape[1]):
            along = rate * model.scalars[_ACCRUED] * slopes[i, c]
            model.intercept[c] -= plan.penalty.intercept_rate * rate * slopes[i, c]
            if along == 0.0:
                continue
            for p in range(indptr[numbers[i]], indptr[numbers[i] + 1]):
                moved = -along * data[p]
                pairs[c, indices[p], _V] += moved
                pairs[c, indices[p], _SHARE] += shares * moved


@jit
def _move_by_feature(model, columns, along, slopes, value, plan):
    """Take a step with rates by feature along the gradient `along[0]` of some columns; the rest is overwritten."""
    pairs, table, scalars, score = model.pairs, model.table, model.scalars, plan.features.score
    gradient, weights, slower, k = along[0], along[1], along[2], slopes.shape[1]
    accrued, due, shares, l2 = scalars[_ACCRUED], scalars[_DUE], scalars[_SHARES], scalars[_L2]
    squares = 0.0
    for c in range(k):
        for q in range(columns.size):
            j, g = columns[q], gradient[c, q]
            weights[c, q] = _shrunk(pairs[c, j, _V], due) / max(pairs[c, j, _SLOW] + accrued, _TINY)
            table[c, j, _SQUARES] += (table[c, j, _UNIT] * g) ** 2
            adapted = _slowed(table[c, j, _SQUARES], table[c, j, _UNIT], table[c, j, _FLOOR], score, weights[c, q])
            slower[c, q] = adapted if g != 0.0 else pairs[c, j, _SLOW]
            squares += g * g / max(slower[c, q] + accrued + l2, _TINY)
    rates = np.zeros(k)
    if plan.penalty.intercept_rate > 0:
        for c in range(k):
            g = _sum_of(slopes, c)
            model.squares[c] += g * g
            rates[c] = _intercept_rate(model.squares[c], score, model.intercept[c])
            squares += g * g * rates[c]
    bound = _bound(value, squares)
    for c in range(k):
        model.intercept[c] -= bound * _sum_of(slopes, c) * rates[c]
        for q in range(columns.size):
            j = columns[q]
            change = slower[c, q] - pairs[c, j, _SLOW]
            moved = weights[c, q] * change - bound * gradient[c, q]
            pairs[c, j, _V] += moved
            pairs[c, j, _SLOW] = slower[c, q]
            table[c, j, _V_SHARE] += shares * moved
            table[c, j, _SLOW_SHARE] += shares * change


# --- what all steps have in common -----------------------------------------------------------------------


@jit
def _accrue(model, rate, scale):
    """Apply the L2 penalty of a step with one rate for all to the scale 1 / (1 + l2 A), and return it."""
    pairs, scalars = model.pairs, model.scalars
    shares = scalars[_SHARES]
    scale *= max(0.0, 1.0 - rate * scalars[_L2])
    if scale < _SMALLEST:
        for c in range(pairs.shape[0]):  # the sums of the average do not change
            for j in range(pairs.shape[1]):
                pairs[c, j, _SHARE] -= shares * pairs[c, j, _V]
                pairs[c, j, _V] *= scale
        scalars[_SHARES], scalars[_DUE], scale = 0.0, scalars[_DUE] * scale, 1.0
    scalars[_ACCRUED] = 1.0 / scale
    return scale


@jit
def _count(scalars, share, weight):
    """Count a step, whose iterate has a weight in the average, and v and h a share."""
    scalars[_SHARES] += share
    scalars[_ACCRUED_SUM] += share * scalars[_ACCRUED]
    scalars[_DUE_SUM] += share * scalars[_DUE]
    scalars[_TOTAL] += weight


@jit
def _slowed(squares, unit, floor, score, w):
    """Return h after a step."""
    return floor + np.sqrt(squares) / (unit * max(unit * score, abs(w)))


@jit
def _intercept_rate(squares, score, intercept):
    """Return the rate; 0 before the first slope that is not 0, as slopes of a batch may cancel."""
    return max(FIRST_STEP * score, abs(intercept)) / np.sqrt(squares) if squares > 0 else 0.0


@jit
def _bound(value, squares):
    """Return f for a batch of a mean loss; `squares` is the sum of g² / (h + l2 A)."""
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
def _write_last(model, out):
    """Write the weights of the last step."""
    pairs, accrued, due = model.pairs, model.scalars[_ACCRUED], model.scalars[_DUE]
    is_adaptive = model.table.shape[2] > 0
    for c in range(out.shape[0]):
        for j in range(out.shape[1]):
            slow = pairs[c, j, _SLOW] if is_adaptive else 0.0
            out[c, j] = _shrunk(pairs[c, j, _V], due) / max(slow + accrued, _TINY)


@jit
def _write_end(model, ends):
    """Write the sums that a `StepPlan` asks for."""
    coef, is_adaptive = np.empty(model.pairs.shape[:2]), model.table.shape[2] > 0
    _write_last(model, coef)
    for c in range(ends.shape[0]):
        for j in range(coef.shape[1]):
            ends[c, 0] += coef[c, j] ** 2
            ends[c, 1] += abs(coef[c, j])
            ends[c, 2] += model.pairs[c, j, _SLOW] if is_adaptive else 0.0


@jit
def _write_mean(model, out):
    """Write the averaged weights."""
    pairs, table, scalars, is_adaptive = model.pairs, model.table, model.scalars, model.table.shape[2] > 0
    shares, accrued, due = scalars[_SHARES], scalars[_ACCRUED_SUM], scalars[_DUE_SUM]
    for c in range(out.shape[0]):
        for j in range(out.shape[1]):
            v, slow = shares * pairs[c, j, _V], 0.0
            if is_adaptive:
                v = v - table[c, j, _V_SHARE]
                slow = shares * pairs[c, j, _SLOW] - table[c, j, _SLOW_SHARE]
            else:
                v = v - pairs[c, j, _SHARE]
            out[c, j] = _shrunk(v, due) / max(slow + accrued, _TINY)
