"""Mini-batch gradient steps that only touch the columns in which a batch has nonzero values.

Weights are w = s v, so that one multiplication of s applies the L2 penalty to all of them. The L1 penalty is
cumulative: when a batch uses a column, the column takes all the penalty that accrued since its last use (Tsuruoka,
Tsujii and Ananiadou 2009, figure 2). The average Σ ω_t s_t v_t equals S v - u with S = Σ ω_t s_t. A step that changes v
by δ adds S δ to u (Bottou's averaged SGD; Xu 2011, section 4).
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import generic, jit, jit_in_order
from fastsvm.files.storable import storable
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.dense_steps import LinearFunction, OrderedRows, StepPlan
from fastsvm.sources import CSRBlock

__all__ = ["SparseModel", "move", "score", "settle", "sparse_steps"]

_SMALLEST = 1e-5  # Below it, s is multiplied into the weights, before it underflows.
_SCALE, _SUM, _TOTAL, _DUE = range(4)


@storable("sparse sgd model")
class SparseModel(NamedTuple):
    """Weights s v and their average.

    `vectors`, shape (n_features, 2 n_scores), has v and u side by side because steps use both. `paid`, shape
    (n_features, n_scores), is the L1 penalty that each weight has taken. `intercept_sum` is Σ ω_t times the intercept
    after step t. `scalars` has s, S, Σ ω_t, and the L1 penalty accrued so far.
    """

    vectors: np.ndarray
    paid: np.ndarray
    intercept: np.ndarray
    intercept_sum: np.ndarray
    scalars: np.ndarray

    @classmethod
    def of(cls, last: LinearFunction, mean: LinearFunction, total: float) -> "SparseModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        vectors = np.hstack([last.coef.T, -total * mean.coef.T]).astype(np.float64)
        intercept, intercept_sum = last.intercept.astype(np.float64), total * mean.intercept
        scalars = np.array([1.0, 0.0, total, 0.0])
        return cls(np.ascontiguousarray(vectors), np.zeros(last.coef.T.shape), intercept, intercept_sum, scalars)

    def moved(self, last: LinearFunction, mean: LinearFunction) -> "SparseModel":
        """Return the model with other weights and another average, after as many steps."""
        return SparseModel.of(last, mean, float(self.scalars[_TOTAL]))

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        k = len(self.intercept)
        return LinearFunction(
            np.ascontiguousarray((self.scalars[_SCALE] * self.vectors[:, :k]).T), self.intercept.copy()
        )

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        total, k = float(self.scalars[_TOTAL]), len(self.intercept)
        coef = (self.scalars[_SUM] * self.vectors[:, :k] - self.vectors[:, k:]).T / max(total, 1e-300)
        return LinearFunction(np.ascontiguousarray(coef), self.intercept_sum / max(total, 1e-300)), total


@generic
def score(model: Any, block: CSRBlock, places: np.ndarray, scores: np.ndarray) -> bool:
    """Write the scores of some rows, and return whether all are finite."""
    raise NotImplementedError


@generic
def move(
    model: Any, block: CSRBlock, places: np.ndarray, slopes: np.ndarray, value: float, plan: StepPlan, s: int
) -> None:
    """Take step `s` of a plan on some rows, and average; their losses have the slopes `slopes` and the mean `value`."""
    raise NotImplementedError


@jit
def sparse_steps(
    loss: Loss, block: CSRBlock, rows: OrderedRows, model: Any, plan: StepPlan, losses: np.ndarray
) -> None:
    """Take a step on each batch, in order; the last batch may have fewer rows.

    `losses`, shape (n_steps + 1,), are overwritten, but for the last, by the sums of losses of the batches. They are
    NaN if a score is not finite.
    """
    k = model.intercept.size
    scores, slopes = np.empty((plan.batch_size, k)), np.empty((plan.batch_size, k))
    for s in range(plan.rates.size):
        start = s * plan.batch_size
        n = min(plan.batch_size, rows.places.size - start)
        places = rows.places[start : start + n]
        if not score(model, block, places, scores):
            losses[s] = np.nan
            return
        targets, weights = rows.targets[start : start + n], rows.weights[start : start + n]
        losses[s] = add_losses(loss, scores[:n], targets, weights, rows.balance, slopes[:n])
        move(model, block, places, slopes[:n], losses[s] / n, plan, s)


@score.register(SparseModel)
def _score(model, block, places, scores):
    return _scored(block, places, model, scores)


@jit_in_order
def _scored(block, places, model, scores):
    data, indices, indptr = block.data, block.indices, block.indptr  # no views in loops: reference counting is slow
    V, scale, k = model.vectors, model.scalars[_SCALE], scores.shape[1]
    finite = True
    for i in range(places.size):
        start, stop = indptr[places[i]], indptr[places[i] + 1]
        if k == 1:  # summed in a register
            total = 0.0
            for p in range(start, stop):
                total += data[p] * V[indices[p], 0]
            scores[i, 0] = total
        else:
            for c in range(k):
                scores[i, c] = 0.0
            for p in range(start, stop):
                for c in range(k):
                    scores[i, c] += data[p] * V[indices[p], c]
        for c in range(k):
            scores[i, c] = scale * scores[i, c] + model.intercept[c]
            finite &= abs(scores[i, c]) < np.inf
    return finite


@move.register(SparseModel)
def _move(model, block, places, slopes, value, plan, s):
    data, indices, indptr = block.data, block.indices, block.indptr
    V, scalars, intercept = model.vectors, model.scalars, model.intercept
    rate, penalty, n, k = plan.rates[s], plan.penalty, places.size, slopes.shape[1]
    scalars[_SCALE] *= max(0.0, 1.0 - rate * penalty.l2)
    if scalars[_SCALE] < _SMALLEST:
        _rescale(model)
    step, grown = -rate / (n * scalars[_SCALE]), scalars[_SUM]
    scalars[_DUE] += rate * penalty.l1
    for i in range(n):
        idle = True
        for c in range(k):
            idle &= slopes[i, c] == 0.0
            intercept[c] -= penalty.intercept_rate * rate / n * slopes[i, c]
        if idle:
            continue
        for c in range(k):
            change = step * slopes[i, c]
            for p in range(indptr[places[i]], indptr[places[i] + 1]):
                V[indices[p], c] += change * data[p]
                V[indices[p], k + c] += grown * change * data[p]
    if penalty.l1 > 0:
        for i in range(n):
            for p in range(indptr[places[i]], indptr[places[i] + 1]):
                _pay(model, indices[p])
    weight = plan.averaging[s]
    scalars[_SUM] += weight * scalars[_SCALE]
    scalars[_TOTAL] += weight
    for c in range(k):
        model.intercept_sum[c] += weight * intercept[c]


@jit
def _rescale(model):
    """Multiply s into v and fold S v into u, then reset s to 1 and S to 0.

    Otherwise s would underflow, and S v - u would cancel.
    """
    scale, total = model.scalars[_SCALE], model.scalars[_SUM]
    V, k = model.vectors, model.intercept.size
    for j in range(V.shape[0]):
        for c in range(k):
            V[j, k + c] -= total * V[j, c]
            V[j, c] *= scale
    model.scalars[_SUM], model.scalars[_SCALE] = 0.0, 1.0


@jit
def _pay(model, j):
    """Apply the accrued L1 penalty to the weights of a column."""
    scale, due = model.scalars[_SCALE], model.scalars[_DUE]
    V, paid, k = model.vectors, model.paid, model.intercept.size
    for c in range(k):
        before, had = scale * V[j, c], paid[j, c]
        after = max(0.0, before - (due + had)) if before > 0 else min(0.0, before + (due - had))
        paid[j, c] += after - before
        V[j, k + c] += model.scalars[_SUM] * (after - before) / scale
        V[j, c] = after / scale


@jit
def settle(model: SparseModel) -> None:
    """Apply the accrued L1 penalty to all weights."""
    for j in range(model.vectors.shape[0]):
        _pay(model, j)
