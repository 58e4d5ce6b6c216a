"""Steps in the dual variables of one sparse row after another."""

from typing import NamedTuple

import numpy as np

from fastsvm._jit import jit
from fastsvm.scores import product_type
from fastsvm.solvers.dual_steps import ascend
from fastsvm.solvers.dual_visits import Path, Visits, class_bounds, weight_left
from fastsvm.sources import CSRBlock

__all__ = ["RowVisits"]

_PIECE = 1 << 14  # values and scores that are worth a thread


class _Turn(NamedTuple):
    """Rows in the order in which they are visited, and what is the same for all of them."""

    places: np.ndarray
    rows: np.ndarray
    damping: np.ndarray
    relief: np.ndarray
    constant: float
    left: np.ndarray


class RowVisits(Visits):
    """Visits to single rows; weights have the scores innermost, so that a row is read once for all of them."""

    consecutive = False

    def begin(self, path: Path) -> None:
        """Take the weights as they are at the beginning of an epoch."""
        path.position[:] -= self._undamped(path)
        self._weights = np.ascontiguousarray(path.weights.T)
        self._mean = np.ascontiguousarray(path.mean.T)

    def end(self, path: Path) -> None:
        """Give back what they became."""
        path.weights[:] = self._weights.T
        path.mean[:] = self._mean.T
        path.position[:] += self._undamped(path)

    @staticmethod
    def _undamped(path: Path) -> np.ndarray:
        """Return (I + M) W."""
        return path.weights / (path.metric.damping[:, None] * path.metric.relief)

    def checksum(self, path: Path) -> float:
        """Return a number that is finite if all weights are."""
        return float(self._weights.sum())

    def visit(self, block: CSRBlock, places: np.ndarray, rows: np.ndarray, path: Path, seed: tuple[int, ...]) -> None:
        """Take the steps of some rows."""
        active = np.flatnonzero(self.rests.awake(rows, path.turn))
        left = weight_left((path.seen + path.pace * active) / len(self.dual))
        block, places = _readable(block, places[active])
        turn = _Turn(places, rows[active], path.metric.damping, path.metric.relief, self.constant, left)
        moved = np.zeros(len(active), np.uint8)
        k = self.n_scores
        work = len(active) * k * (1 + self.values_of_row)
        pieces = class_bounds(k, self.pool.n_threads if work > _PIECE and not self.loss.of_classes else 1)

        def some(low: int, high: int) -> None:
            weights, bounds = (self._weights, self._mean), (low, high)
            _take(self.loss, block, turn, self.demands, self.dual, weights, bounds, moved, path.gaps)

        self.pool.run(some, pieces)
        self.rests.note(rows[active], moved, path.turn)


def _readable(block: CSRBlock, places: np.ndarray) -> tuple[CSRBlock, np.ndarray]:
    """Return rows in a type for which there is machine code, and where in the block they are."""
    kind = np.int32 if block.n_features < 2**31 else np.int64
    if block.data.dtype not in (np.float32, np.float64) or block.indices.dtype != kind:
        block, places = block.take(places), np.arange(len(places))
        data = block.data.astype(product_type(block.data.dtype), copy=False)
        block = block._replace(data=data, indices=block.indices.astype(kind, copy=False))
    return block._replace(indptr=block.indptr.astype(np.int64, copy=False)), places


@jit
def _take(loss, block, turn, demands, dual, memory, bounds, moved, gaps):
    """Take the steps of rows in some of the scores."""
    (weights, mean), (low, high) = memory, bounds
    k, last = dual.shape[1], weights.shape[0] - 1
    scores, changes, curvature = np.empty((k, 1)), np.empty(k, dual.dtype), np.empty(k)
    for t in range(turn.places.size):
        place, row = turn.places[t], turn.rows[t]
        square = _score(block, place, turn.relief, weights, low, high, scores) + turn.constant**2 * turn.relief[last]
        for c in range(low, high):
            scores[c, 0] += turn.constant * weights[last, c]
            curvature[c] = square * turn.damping[c]
        if not ascend(loss, demands, row, dual, scores, 0, curvature, bounds, changes, gaps):
            continue
        moved[t] = 1
        for c in range(low, high):
            dual[row, c] += changes[c]
            if changes[c] != 0:
                change = turn.damping[c] * changes[c]
                _add(block, place, turn.relief, change, change * turn.left[t], c, weights, mean)
                change *= turn.relief[last]
                weights[last, c] += turn.constant * change
                mean[last, c] += turn.constant * change * turn.left[t]


@jit
def _score(block, place, relief, weights, low, high, scores):
    """Write the products of a row with some columns of `weights` to the first column of `scores`; return xᵀ R x."""
    data, indices, square = block.data, block.indices, 0.0
    first, last = block.indptr[place], block.indptr[place + 1]
    for p in range(first, last):
        square += float(data[p]) * float(data[p]) * relief[indices[p]]
    for c in range(low, high):  # one after another, so that a sum does not depend on the others that a thread has
        total = 0.0
        for p in range(first, last):
            total += data[p] * weights[indices[p], c]
        scores[c, 0] = total
    return square


@jit
def _add(block, place, relief, change, share, c, weights, mean):
    """Add `change` times R x to a column of the weights, and `share` times it to that of their mean."""
    data, indices = block.data, block.indices
    for p in range(block.indptr[place], block.indptr[place + 1]):
        value = data[p] * relief[indices[p]]
        weights[indices[p], c] += change * value
        mean[indices[p], c] += share * value
