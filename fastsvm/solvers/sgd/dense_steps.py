"""Steps of mini-batch gradient descent on rows that are made dense a few at a time."""

from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401, because compiled code calls it: loaded now, it is held to one thread too

from fastsvm._compiled.compiler import inlined, jit
from fastsvm._compiled.generic import generic
from fastsvm.files.storable import storable
from fastsvm.losses import Loss, add_losses
from fastsvm.sources import Block, CSRBlock, DenseBlock

__all__ = ["Buffers", "Course", "Linear", "Model", "Penalty", "Rows", "steps"]


_UNSEEN = 16  # times the rounding of a weight, less than which a penalty is saved up


@storable("linear function")
class Linear(NamedTuple):
    """Scores W x + b: `coef` of shape (n_scores, n_features), `intercept` of shape (n_scores,), float64."""

    coef: np.ndarray
    intercept: np.ndarray


@storable("sgd model")
class Model(NamedTuple):
    """Weights, what is remembered of them from step to step, and the gradient of a batch that is not yet complete.

    All are arrays of one type: of shape (n_scores, n_features) those of the features, (n_scores,) those of the offset.
    A velocity that is not used has no rows. `total` has the sum of the weights of those averaged, and a factor of
    `coef` that is so near 1 that it waits for more.
    """

    coef: np.ndarray
    intercept: np.ndarray
    velocity: np.ndarray
    velocity_intercept: np.ndarray
    mean: np.ndarray
    mean_intercept: np.ndarray
    gradient: np.ndarray
    gradient_intercept: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, last: Linear, mean: Linear, total: float, dtype: np.dtype, momentum: bool) -> "Model":
        """Return a model that begins at given weights, with the mean of earlier ones."""
        n_scores, n_features = last.coef.shape
        moving = n_scores if momentum else 0
        return cls(
            last.coef.astype(dtype), last.intercept.astype(dtype),
            np.zeros((moving, n_features), dtype), np.zeros(moving, dtype),
            mean.coef.astype(dtype), mean.intercept.astype(dtype),
            np.zeros((n_scores, n_features), dtype), np.zeros(n_scores, dtype),
            np.array([total, 1.0]),
        )  # fmt: skip

    def copied(self) -> "Model":
        """Return a copy."""
        return Model(*(array.copy() for array in self))

    def last(self) -> Linear:
        """Return the weights of the last step."""
        return Linear(self.coef.astype(np.float64), self.intercept.astype(np.float64))

    def averaged(self) -> tuple[Linear, float]:
        """Return the mean weights and the sum of the weights in it."""
        mean = Linear(self.mean.astype(np.float64), self.mean_intercept.astype(np.float64))
        return mean, float(self.total[0])

    def part(self, start: int, stop: int) -> "Model":
        """Return the weights of some scores, without a copy but of `total`."""
        return Model(*(array[start:stop] for array in self[:-1]), self.total.copy())


class Penalty(NamedTuple):
    """What a step does beside following the gradient.

    Attributes
    ----------
    l2, l1 : float
        Factors of ½ ‖w‖² and of ‖w‖₁ in the objective.
    momentum : float
        Share of the last step that is taken again.
    clip : float
        Largest norm of a gradient.
    offset : float
        Rate of the offset, in multiples of that of the weights; 0 if there is none.
    """

    l2: float
    l1: float
    momentum: float
    clip: float
    offset: float


class Rows(NamedTuple):
    """Rows in the order in which they are visited.

    Attributes
    ----------
    places : ndarray of int64, shape (n,)
        Where in the block each is.
    targets : ndarray of float64, shape (n,)
        As `add_losses` takes them.
    weights : ndarray of float64, shape (n,)
        Of the rows' losses in the gradient.
    balance : ndarray of float64, shape (n_scores,)
        As `add_losses` takes it.
    shift, scale : ndarray of float, shape (n_features,)
        A value x is taken for (x - shift) scale; empty arrays if for itself.
    """

    places: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    balance: np.ndarray
    shift: np.ndarray
    scale: np.ndarray


class Buffers(NamedTuple):
    """Memory for some rows at a time: the rows, their scores, the slopes of their losses, and a part of a gradient."""

    rows: np.ndarray
    scores: np.ndarray
    slopes: np.ndarray
    part: np.ndarray

    @classmethod
    def of(cls, n_rows: int, n_features: int, n_scores: int, dtype: np.dtype) -> "Buffers":
        """Return memory for so many rows."""
        shapes = (n_rows, n_features), (n_rows, n_scores), (n_rows, n_scores), (n_scores, n_features)
        return cls(*(np.empty(shape, dtype) for shape in shapes))


@generic
def load(block: Block, places: np.ndarray, out: np.ndarray) -> None:
    """Write rows of a block, made dense, to `out`."""


@load.register(DenseBlock)
def _load_dense(block, places, out):
    for i in range(places.size):
        source, target = block.values[places[i]], out[i]
        for j in range(target.size):
            target[j] = source[j]


@load.register(CSRBlock)
def _load_sparse(block, places, out):
    for i in range(places.size):
        target = out[i]
        for j in range(target.size):
            target[j] = 0
        for p in range(block.indptr[places[i]], block.indptr[places[i] + 1]):
            target[block.indices[p]] = block.data[p]


@jit
def _score(block, rows, start, n, model, buffers):
    """Make `n` rows dense, write their scores, and return whether these are finite."""
    X, scores, finite = buffers.rows[:n], buffers.scores[:n], True
    load(block, rows.places[start : start + n], X)
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
    """Add the gradient of `n` rows to the batch's, of which they are the first or not."""
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
    loss: Loss, block: Block, rows: Rows, span: tuple[int, int], first: bool, model: Model, buffers: Buffers
) -> float:
    """Add the gradient of the loss over a span of the rows to the batch's, and return the sum of their losses.

    If `first`, they are the first of the batch. Only this is compiled for each loss anew.
    """
    (start, stop), height, total = span, buffers.rows.shape[0], 0.0
    for a in range(start, stop, height):
        n = min(height, stop - a)
        if not _score(block, rows, a, n, model, buffers):
            total = np.nan  # for the caller to find out why
        targets, weights = rows.targets[a : a + n], rows.weights[a : a + n]
        total += add_losses(loss, buffers.scores[:n], targets, weights, rows.balance, buffers.slopes[:n])
        _gather(model, buffers, n, first and a == start)
    return total


@jit
def update(model: Model, n_rows: int, rate: float, weight: float, penalty: Penalty) -> None:
    """Take a step of length `rate` along the batch's gradient, a sum over `n_rows`; average with a `weight`."""
    real = model.coef.dtype.type
    along = 1.0 / n_rows
    if penalty.clip < np.inf:
        along *= min(1.0, penalty.clip / max(_norm(model, penalty.offset) / n_rows, 1e-300))
    model.total[1] *= max(0.0, 1.0 - rate * penalty.l2)
    shrink, along = real(1.0), real(along)
    if abs(1.0 - model.total[1]) > _UNSEEN * np.finfo(model.coef.dtype).eps:
        shrink = real(model.total[1])
        model.total[1] = 1.0
    length, step, threshold = real(rate), real(rate * along), real(rate * penalty.l1)
    momentum = real(penalty.momentum)
    model.total[0] += weight
    share = real(weight / model.total[0] if weight > 0 else 0.0)
    for c in range(model.coef.shape[0]):
        w, g = model.coef[c], model.gradient[c]
        if penalty.momentum > 0:
            v = model.velocity[c]
            for j in range(w.size):
                v[j] = momentum * v[j] + along * g[j]
                w[j] = shrink * w[j] - length * v[j]
            model.velocity_intercept[c] = momentum * model.velocity_intercept[c] + along * model.gradient_intercept[c]
            model.intercept[c] -= real(rate * penalty.offset) * model.velocity_intercept[c]
        else:
            for j in range(w.size):
                w[j] = shrink * w[j] - step * g[j]
            model.intercept[c] -= real(penalty.offset) * step * model.gradient_intercept[c]
        if penalty.l1 > 0:
            for j in range(w.size):
                w[j] = max(w[j] - threshold, real(0)) + min(w[j] + threshold, real(0))
        if weight > 0:
            mean = model.mean[c]
            for j in range(w.size):
                mean[j] += share * (w[j] - mean[j])
            model.mean_intercept[c] += share * (model.intercept[c] - model.mean_intercept[c])


@jit
def _norm(model, offset):
    """Return the norm of the batch's gradient, in which that of the offset counts by its rate."""
    total = 0.0
    for c in range(model.gradient.shape[0]):
        g = model.gradient[c]
        squares = g.dtype.type(0)
        for j in range(g.size):
            squares += g[j] * g[j]
        total += squares + offset * model.gradient_intercept[c] ** 2
    return np.sqrt(total)


class Course(NamedTuple):
    """How steps are taken.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.
    rates : ndarray of float64, shape (n_steps,)
        Length of each step.
    averaging : ndarray of float64, shape (n_steps,)
        Weight of what each step reaches in the average.
    penalty : Penalty
        The same for all.
    pending : int
        Rows that the first batch has already.
    """

    batch_size: int
    rates: np.ndarray
    averaging: np.ndarray
    penalty: Penalty
    pending: int


@jit
def steps(
    loss: Loss, block: Block, rows: Rows, model: Model, course: Course, buffers: Buffers, losses: np.ndarray
) -> None:
    """Take as many steps as there are rates, on batches of rows in order; the rest waits for more.

    Parameters
    ----------
    losses : ndarray of float64, shape (n_steps + 1,)
        Sum of losses of the rows of each batch, and of the rest; it is written. NaN if a score is not finite.
    """
    start, n, pending = 0, rows.places.size, course.pending
    for s in range(losses.size):
        stop = min(n, start + course.batch_size - pending)
        losses[s] = accumulate(loss, block, rows, (start, stop), pending == 0, model, buffers)
        if s < course.rates.size:
            update(model, pending + stop - start, course.rates[s], course.averaging[s], course.penalty)
        start, pending = stop, 0
