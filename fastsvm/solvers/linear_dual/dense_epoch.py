"""Steps in the dual variables of the rows of a block, whose scores follow each other through their products.

For each block: scores of its rows in all classes in one product; steps row by row, each of which changes the scores of
the others by a row of the block's Gram matrix; the change of the weights in one product. Threads take classes one
against the rest, which have nothing to do with each other, through all blocks of a window.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.pairwise import multiplies_bytes
from fastsvm.linalg.dense_products import (
    add_products,
    mirror,
    readable_rows,
    scale_rows,
    write_byte_squares,
    write_products,
)
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Demands, Loss
from fastsvm.solvers.linear_dual.block_sweep import Books, Slab, sweep
from fastsvm.solvers.linear_dual.epoch import EpochState, Visits, class_bounds, weight_left
from fastsvm.sources import DenseBlock

__all__ = ["BlockVisits", "Layout"]

_PIECE = 1 << 17  # multiplications that are worth a thread
_TILE = 32
_CONVERTED_ROWS = 4096  # at a time
_SPARE_BYTES = 8 << 20  # of Gram matrices that are not kept, at a time


class Layout(NamedTuple):
    """How rows are taken.

    Attributes
    ----------
    block_rows : int
        Rows of a block at most.
    n_sweeps : int
        How often the rows of a block are visited before the weights follow.
    kept_blocks : int
        Blocks whose Gram matrices are kept.
    shift, scale : ndarray of float64, shape (n_features,)
        A value x is taken for (x - shift) scale; empty if for itself.
    """

    block_rows: int
    n_sweeps: int
    kept_blocks: int
    shift: np.ndarray
    scale: np.ndarray


class BlockVisits(Visits):
    """Visits to blocks of consecutive dense rows.

    Parameters
    ----------
    loss, demands, dual, values_of_row, constant, pool
        As for `Visits`.
    layout : Layout
        How rows are taken.
    dtype : numpy.dtype
        In which they are stored.
    """

    consecutive = True

    def __init__(
        self,
        loss: Loss,
        demands: Demands,
        dual: np.ndarray,
        n_features: int,
        constant: float,
        pool: Pool,
        layout: Layout,
        dtype: np.dtype,
    ) -> None:
        super().__init__(loss, demands, dual, n_features, constant, pool)
        self.layout, self.n_features, self.real = layout, n_features, product_type(dtype)
        self._map = layout.shift.astype(self.real), layout.scale.astype(self.real)
        self._as_stored = dtype in (np.uint8, self.real) and layout.scale.size == 0
        self._of_bytes = dtype == np.uint8 and layout.scale.size == 0 and multiplies_bytes(n_features)
        self._slots: dict[tuple[int, int], int] = {}
        self._grams = np.empty((0, layout.block_rows, layout.block_rows), self.real)
        self._scores = np.zeros((self.n_scores, layout.block_rows), self.real)
        self._changes = np.zeros((self.n_scores, layout.block_rows), self.real)

    def begin(self, path: EpochState) -> None:
        """Take the weights as they are, at the beginning of an epoch or within one."""
        metric = path.metric
        self._basis, self._shares = metric.basis.astype(self.real), metric.shares.astype(self.real)
        self._weights = path.weights.astype(self.real)
        self._change = np.zeros_like(self._weights)

    def end(self, path: EpochState) -> None:
        """Bring Σ β_i x_i up to date: it is so all the time."""

    def visit(
        self, block: DenseBlock, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]
    ) -> None:
        """Take the steps of some rows, blocks in random order, and rows within a block."""
        size = self._rows_at_once(block)
        for start in range(0, len(rows), size):
            stop = min(start + size, len(rows))
            values = self._readable(block.values[places[start] : places[start] + stop - start])
            later = path._replace(seen=path.seen + path.row_share * start)
            self._visit(values, rows[start:stop], later, (*seed, start))

    def _rows_at_once(self, block: DenseBlock) -> int:
        """Return how many rows are taken at a time, for what is converted and Gram matrices that are not kept."""
        step = self.layout.block_rows
        if not (self._as_stored and block.values.flags.c_contiguous):
            return max(step, _CONVERTED_ROWS // step * step)
        if self.layout.kept_blocks * step >= len(self.dual):
            return len(self.dual)
        return max(step, _SPARE_BYTES // (step * self._grams.itemsize) // step * step)

    def _visit(self, values: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]) -> None:
        turn = self._turn(rows, path, np.random.default_rng(seed))
        self._prepare(values, turn)
        turn = turn._replace(grams=self._grams)
        weights = _Weights(path.weights, path.mean, path.position, self._weights, self._change)
        moved = np.zeros(len(rows), np.uint8)
        books = Books(self.dual, self._scores, self._changes, moved, path.gaps)
        work = turn.order.size * self.n_features * self.n_scores
        apart = not self.loss.of_classes and work > _PIECE

        def some(low: int, high: int) -> None:
            _walk(self.loss, self.demands, values, turn, weights, books, (low, high))

        self.pool.run(some, class_bounds(self.n_scores, self.pool.n_threads if apart else 1))
        active = np.flatnonzero(path.shrinking.awake(rows, path.turn))
        path.shrinking.note(rows[active], moved[active], path.turn)

    def _readable(self, values: np.ndarray) -> np.ndarray:
        """Return rows in a type for which there is machine code."""
        values = readable_rows(values)
        if self._as_stored:
            return values
        out = np.empty(values.shape, self.real)
        self.pool.run(lambda a, b: scale_rows(values[a:b], *self._map, out[a:b]), spans(len(values), _TILE))
        return out

    def _turn(self, rows: np.ndarray, path: EpochState, rng: np.random.Generator) -> "_Turn":
        """Return the blocks of a window, runs cut at multiples of their size, and their rows in random order."""
        cuts = np.flatnonzero((np.diff(rows) != 1) | (rows[1:] % self.layout.block_rows == 0)) + 1
        bounds = np.concatenate([[0], cuts, [len(rows)]])
        blocks = rng.permutation(len(bounds) - 1)
        starts, lengths = bounds[blocks], np.diff(bounds)[blocks]
        awake = path.shrinking.awake(rows, path.turn)
        number = np.empty(len(blocks), np.int64)
        number[blocks] = np.arange(len(blocks))
        key = np.repeat(number, np.diff(bounds)) + rng.random(len(rows))
        order = np.argsort(key)
        order = order[awake[order]]
        ends = np.searchsorted(np.floor(key[order]), np.arange(len(blocks) + 1))
        done = (path.seen + path.row_share * np.concatenate([[0], np.cumsum(lengths)[:-1]])) / len(self.dual)
        return _Turn(
            starts, rows[starts], lengths, order, ends, np.zeros(len(blocks), np.int64), weight_left(done),
            path.metric.damping, self.constant, self.layout.n_sweeps, self._basis, self._shares, self._grams,
        )  # fmt: skip

    # --- Gram matrices -----------------------------------------------------------------------------------

    def _prepare(self, values: np.ndarray, turn: "_Turn") -> None:
        """Compute the Gram matrices that are not there, and note where each block's is."""
        missing = []
        spare = self.layout.kept_blocks
        for k in range(len(turn.starts)):
            if turn.ends[k] == turn.ends[k + 1]:
                continue
            first = int(turn.firsts[k]), int(turn.lengths[k])
            slot = self._slots.get(first)
            if slot is None:
                if len(self._slots) < self.layout.kept_blocks:
                    slot = self._slots[first] = len(self._slots)
                else:
                    slot, spare = spare, spare + 1
                missing.append((k, slot))
            turn.slots[k] = slot
        if not missing:
            return
        self._grow(1 + max(slot for _, slot in missing), len(turn.starts))

        def one(k: int, slot: int) -> None:
            start, n = int(turn.starts[k]), int(turn.lengths[k])
            self._gram(values[start : start + n], self._grams[slot])

        self.pool.run(one, missing)

    def _grow(self, n_slots: int, n_blocks: int) -> None:
        """Make room for Gram matrices, at once for all that will be kept: memory is only taken when it is touched."""
        if n_slots > len(self._grams):
            size = self.layout.block_rows
            most = min(self.layout.kept_blocks, 2 * n_blocks - len(self.dual) // -size)
            grown = np.empty((max(n_slots, most + 2 * n_blocks), size, size), self.real)
            grown[: len(self._grams)] = self._grams
            self._grams = grown

    def _gram(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the products of rows with each other, less what the metric takes from them."""
        if self._of_bytes:
            write_byte_squares(values, out)
            mirror(out, len(values))
        else:
            self._products(values, out)
        if self.constant:
            out[: len(values), : len(values)] += self.real.type(self.constant**2)
        if len(self._shares):
            self._project(values, out)

    def _products(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the products of rows with each other."""
        n, wide = len(values), values
        if values.dtype != self.real:
            wide = np.empty(values.shape, self.real)
            scale_rows(values, *self._map, wide)
        places = np.arange(n)
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            write_products(wide, places, wide, (0, stop, start, stop), out)
        mirror(out, n)

    def _project(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Take from the products of rows what the metric does."""
        n, r = len(rows), len(self._shares)
        square, parts = out[:n, :n], np.empty((r, n), self.real)
        write_products(rows, np.arange(n), self._basis, (0, n, 0, r), parts)
        parts += self.real.type(self.constant) * self._basis[:, -1:]
        with np.errstate(all="ignore"):  # what overflows here does so in the weights, for which there is an error
            square -= (parts.T * self._shares) @ parts


class _Turn(NamedTuple):
    """The blocks of a window, in the order in which they are visited.

    Attributes
    ----------
    starts, firsts, lengths : ndarray of int64, shape (n_blocks,)
        Place in the window and number of the first row, and number of rows.
    order : ndarray of int64
        Places in the window of the rows that are visited, block after block.
    ends : ndarray of int64, shape (n_blocks + 1,)
        Where in `order` the rows of each block begin.
    slots : ndarray of int64, shape (n_blocks,)
        Where the Gram matrices are.
    left : ndarray of float64, shape (n_blocks,)
        Share of the epoch that is left.
    damping, constant, n_sweeps, basis, shares
        As of `Visits`, `Layout` and `Metric`.
    grams : ndarray of shape (n_slots, block_rows, block_rows)
        Gram matrices.
    """

    starts: np.ndarray
    firsts: np.ndarray
    lengths: np.ndarray
    order: np.ndarray
    ends: np.ndarray
    slots: np.ndarray
    left: np.ndarray
    damping: np.ndarray
    constant: float
    n_sweeps: int
    basis: np.ndarray
    shares: np.ndarray
    grams: np.ndarray


class _Weights(NamedTuple):
    """Weights, their mean and Σ β_i x_i, float64; the weights in the type of products, and a change of them."""

    weights: np.ndarray
    mean: np.ndarray
    position: np.ndarray
    rounded: np.ndarray
    change: np.ndarray


@jit
def _walk(loss, demands, values, turn, held, books, bounds):
    """Take the steps of the blocks of a window, in some of the scores."""
    weights, mean, position, rounded, change = held
    dual, scores, changes, moved, gaps = books
    for k in range(turn.starts.size):
        start, n, a, b = turn.starts[k], turn.lengths[k], turn.ends[k], turn.ends[k + 1]
        if a == b:
            continue
        order, rows = turn.order[a:b] - start, values[start : start + n]
        _score(rows, order, rounded, turn.constant, bounds, scores)
        slab = Slab(turn.grams[turn.slots[k]], order, turn.firsts[k], n, turn.damping, turn.n_sweeps)
        of_block = Books(dual, scores, changes, moved[start : start + n], gaps)
        sweep(loss, demands, slab, of_block, bounds)
        places = _moved(order, changes, bounds)
        if places.size == 0:
            continue
        add_products(rows, places, changes, bounds, change)
        for c in range(bounds[0], bounds[1]):
            total = 0.0
            for place in places:
                total += float(changes[c, place])
                changes[c, place] = 0
            change[c, change.shape[1] - 1] = turn.constant * total
            for j in range(change.shape[1]):
                position[c, j] += float(change[c, j])
        if turn.shares.size:
            _project(change, turn.basis, turn.shares, bounds)
        _advance(change, turn.damping, turn.left[k], bounds, weights, mean, rounded)


@jit
def _score(rows, order, weights, constant, bounds, scores):
    """Write the scores of some rows of a block."""
    write_products(rows, order, weights, (0, order.size, bounds[0], bounds[1]), scores)
    last = weights.shape[1] - 1
    for c in range(bounds[0], bounds[1]):
        offset = weights.dtype.type(constant) * weights[c, last]
        for place in order:
            scores[c, place] += offset


@jit
def _moved(order, changes, bounds):
    """Return the places whose variables changed in some of the scores."""
    places, count = np.empty(order.size, np.int64), 0
    for place in order:
        for c in range(bounds[0], bounds[1]):
            if changes[c, place] != 0:
                places[count] = place
                count += 1
                break
    return places[:count]


@jit
def _project(change, basis, shares, bounds):
    """Take from a change of the weights what the metric does."""
    for c in range(bounds[0], bounds[1]):
        for i in range(shares.size):
            along = change.dtype.type(0)
            for j in range(change.shape[1]):
                along += change[c, j] * basis[i, j]
            along *= shares[i]
            for j in range(change.shape[1]):
                change[c, j] -= along * basis[i, j]


@jit
def _advance(change, damping, left, bounds, weights, mean, rounded):
    """Add a change to the weights and to their mean, and make it zero."""
    real = change.dtype.type
    for c in range(bounds[0], bounds[1]):
        factor = damping[c]
        for j in range(change.shape[1]):
            step = factor * float(change[c, j])
            weights[c, j] += step
            mean[c, j] += left * step
            rounded[c, j] = real(weights[c, j])
            change[c, j] = real(0)
