"""Epochs over dense rows, in blocks.

For each block, one product gives the scores of its rows in all classes. Coordinate updates follow row by row; each adds
a row of the block's Gram matrix to the scores of the others. Another product changes the weights. Classes one against
the rest are independent, so that each thread takes some of them through all blocks of a window.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.dense_products import add_products, readable_rows, scale_rows, write_products
from fastsvm.linalg.half_floats import write_float32
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Demands, Loss
from fastsvm.solvers.linear_dual.epochs.block_grams import BlockGrams
from fastsvm.solvers.linear_dual.epochs.block_sweep import GramBlock, SweepState, sweep
from fastsvm.solvers.linear_dual.epochs.epoch import Epochs, EpochState, class_bounds, weight_left
from fastsvm.sources import DenseBlock

__all__ = ["DenseEpochs", "Layout"]

_PIECE = 1 << 17  # multiplications below which one thread is faster
_CONVERTED_ROWS = 4096  # at a time
_SPARE_BYTES = 8 << 20  # of uncached Gram matrices, at a time


class Layout(NamedTuple):
    """Sizes of blocks, the cache of Gram matrices, and the mapping of values.

    Attributes
    ----------
    block_rows : int
        Largest number of rows of a block.
    n_sweeps : int
        Largest number of sweeps over a block before the weights change.
    kept_blocks : int
        Number of blocks whose Gram matrices are cached.
    shift, scale : ndarray of float64, shape (n_features,)
        Values x are mapped to (x - shift) scale; empty for no mapping.
    """

    block_rows: int
    n_sweeps: int
    kept_blocks: int
    shift: np.ndarray
    scale: np.ndarray


class DenseEpochs(Epochs[DenseBlock]):
    """Runs epochs on blocks of consecutive dense rows; a window may have gaps.

    Parameters
    ----------
    loss, demands, dual, values_of_row, constant, pool
        As for `Epochs`.
    layout : Layout
        Sizes of blocks, cache and mapping.
    dtype : numpy.dtype
        Type in which rows are stored.
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
        size = layout.block_rows
        self._grams = BlockGrams(size, layout.kept_blocks, -(len(dual) // -size), constant, self.real, pool)
        self._scores = np.zeros((self.n_scores, size), self.real)
        self._changes = np.zeros((self.n_scores, size), self.real)

    def begin(self, path: EpochState) -> None:
        """Round the weights to the type of products."""
        metric = path.metric
        self._basis, self._shares = metric.basis.astype(self.real), metric.shares.astype(self.real)
        self._grams.begin(self._basis, self._shares)
        self._weights = path.weights.astype(self.real)
        self._change = np.zeros_like(self._weights)

    def end(self, path: EpochState) -> None:
        """Do nothing: `position` is always up to date."""

    def process(
        self, block: DenseBlock, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]
    ) -> None:
        """Update the variables of some rows: blocks in random order, and rows in random order within a block."""
        values, places = block.values[places[0] : places[-1] + 1], places - places[0]
        plan, moved = self._window_blocks(places, rows, path, (*seed, 0)), np.zeros(len(values), np.uint8)
        as_stored = self._as_stored and values.flags.c_contiguous
        # Blocks of all parts of the window take turns: epochs over one part after another make less progress.
        for low, high in spans(len(plan.starts), self._blocks_at_once(as_stored)):
            some = plan.part(low, high)
            if as_stored:
                self._process(values, some, path, moved)
                continue
            picked, converted = some.places(), some.moved_together()
            moved_there = np.zeros(len(picked), np.uint8)
            self._process(self._converted(values, some), converted, path, moved_there)
            moved[picked] = moved_there
        active = np.flatnonzero(path.shrinking.is_active(rows, path.turn))
        path.shrinking.update(rows[active], moved[places[active]], path.turn)

    def _blocks_at_once(self, as_stored: bool) -> int:
        """Return the number of blocks to process at a time, which bounds converted rows and uncached Gram matrices."""
        step = self.layout.block_rows
        if not as_stored:
            return max(1, _CONVERTED_ROWS // step)
        if self.layout.kept_blocks * step >= len(self.dual):
            return len(self.dual)
        return max(1, _SPARE_BYTES // (step**2 * self.real.itemsize))

    def _process(self, values: np.ndarray, plan: "_WindowBlocks", path: EpochState, moved: np.ndarray) -> None:
        slots = self._grams.slots(values, plan.starts, plan.firsts, plan.lengths, np.diff(plan.ends) > 0)
        plan = plan._replace(slots=slots, grams=self._grams.grams)
        weights = _Weights(path.weights, path.mean, path.position, self._weights, self._change)
        state = SweepState(self.dual, self._scores, self._changes, moved, path.gaps)
        work = plan.order.size * self.n_features * self.n_scores
        apart = not self.loss.of_classes and work > _PIECE

        def some(low: int, high: int) -> None:
            _process_blocks(self.loss, self.demands, values, plan, weights, state, (low, high))

        self.pool.run(some, class_bounds(self.n_scores, self.pool.n_threads if apart else 1))

    def _converted(self, values: np.ndarray, plan: "_WindowBlocks") -> np.ndarray:
        """Return the mapped rows of blocks, one block after another, in the type of products."""
        ends = np.cumsum(plan.lengths)
        out = np.empty((int(ends[-1]), values.shape[1]), self.real)
        of_halves = values.dtype == np.float16 and values.flags.c_contiguous and not self.layout.scale.size

        def one(start: int, n: int, end: int) -> None:
            if of_halves:
                return write_float32(values[start : start + n], out[end - n : end])
            scale_rows(readable_rows(values[start : start + n]), *self._map, out[end - n : end])

        self.pool.run(one, list(zip(plan.starts.tolist(), plan.lengths.tolist(), ends.tolist(), strict=True)))
        return out

    def _window_blocks(self, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple) -> "_WindowBlocks":
        """Return the blocks of a window in random order; runs of rows are cut at multiples of the block size."""
        rng = np.random.default_rng(seed)
        cuts = np.flatnonzero((np.diff(rows) != 1) | (rows[1:] % self.layout.block_rows == 0)) + 1
        bounds = np.concatenate([[0], cuts, [len(rows)]])
        blocks = rng.permutation(len(bounds) - 1)
        starts, lengths = bounds[blocks], np.diff(bounds)[blocks]
        active = path.shrinking.is_active(rows, path.turn)
        key = np.repeat(np.argsort(blocks), np.diff(bounds)) + rng.random(len(rows))  # in the order of the blocks
        order = np.argsort(key)
        order = order[active[order]]
        ends = np.searchsorted(np.floor(key[order]), np.arange(len(blocks) + 1))
        done = (path.seen + path.row_share * np.concatenate([[0], np.cumsum(lengths)[:-1]])) / len(self.dual)
        slots = np.zeros(len(blocks), np.int64)
        return _WindowBlocks(
            places[starts], rows[starts], lengths, places[order], ends, slots, weight_left(done), path.metric.damping,
            self.constant, self.layout.n_sweeps, self._basis, self._shares, self._grams.grams,
        )  # fmt: skip


class _WindowBlocks(NamedTuple):
    """The blocks of a window, in the order of processing.

    Attributes
    ----------
    starts, firsts, lengths : ndarray of int64, shape (n_blocks,)
        Place in the window and index of the first row, and number of rows.
    order : ndarray of int64
        Places in the window of the active rows, block after block.
    ends : ndarray of int64, shape (n_blocks + 1,)
        Where in `order` the rows of each block begin, and its end.
    slots : ndarray of int64, shape (n_blocks,)
        Indices of the Gram matrices in `grams`.
    left : ndarray of float64, shape (n_blocks,)
        Factors of `weight_left`.
    damping, constant, n_sweeps, basis, shares
        As in `Epochs`, `Layout` and `Metric`.
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

    def part(self, low: int, high: int) -> "_WindowBlocks":
        """Return some of the blocks."""
        first, last = self.ends[low], self.ends[min(high, len(self.starts))]
        of_block = {name: getattr(self, name)[low:high] for name in ("starts", "firsts", "lengths", "slots", "left")}
        ends = self.ends[low : high + 1] - first
        return self._replace(**of_block, order=self.order[first:last], ends=ends)

    def places(self) -> np.ndarray:
        """Return the places in the window of all rows, block after block."""
        shifts = self.starts - np.cumsum(self.lengths) + self.lengths
        return np.repeat(shifts, self.lengths) + np.arange(self.lengths.sum())

    def moved_together(self) -> "_WindowBlocks":
        """Return the same blocks with places as if each followed the one before."""
        starts = np.cumsum(self.lengths) - self.lengths
        return self._replace(starts=starts, order=self.order + np.repeat(starts - self.starts, np.diff(self.ends)))


class _Weights(NamedTuple):
    """Weights, their mean and Σ β_i x_i in float64; the weights and a change of them in the type of products."""

    weights: np.ndarray
    mean: np.ndarray
    position: np.ndarray
    rounded: np.ndarray
    change: np.ndarray


@jit
def _process_blocks(loss, demands, values, plan, arrays, state, bounds):
    """Process the blocks of a window, in the scores within `bounds`."""
    weights, mean, position, rounded, change = arrays
    dual, scores, changes, moved, gaps = state
    for k in range(plan.starts.size):
        start, n, a, b = plan.starts[k], plan.lengths[k], plan.ends[k], plan.ends[k + 1]
        if a == b:
            continue
        order, rows = plan.order[a:b] - start, values[start : start + n]
        _score(rows, order, rounded, plan.constant, bounds, scores)
        block = GramBlock(plan.grams[plan.slots[k]], order, plan.firsts[k], n, plan.damping, plan.n_sweeps)
        of_block = SweepState(dual, scores, changes, moved[start : start + n], gaps)
        sweep(loss, demands, block, of_block, bounds)
        places = _moved(order, changes, bounds)
        if places.size == 0:
            continue
        add_products(rows, places, changes, bounds, change)
        for c in range(bounds[0], bounds[1]):
            total = 0.0
            for place in places:
                total += float(changes[c, place])
                changes[c, place] = 0
            change[c, change.shape[1] - 1] = plan.constant * total
            for j in range(change.shape[1]):
                position[c, j] += float(change[c, j])
        if plan.shares.size:
            _project(change, plan.basis, plan.shares, bounds)
        _advance(change, plan.damping, plan.left[k], bounds, weights, mean, rounded)


@jit
def _score(rows, order, weights, constant, bounds, scores):
    """Write the scores of some rows of a block."""
    start = np.int64(0)  # a literal would be a type of its own
    write_products(rows, order, weights, (start, order.size, bounds[0], bounds[1]), scores)
    last = weights.shape[1] - 1
    for c in range(bounds[0], bounds[1]):
        intercept = weights.dtype.type(constant) * weights[c, last]
        for place in order:
            scores[c, place] += intercept


@jit
def _moved(order, changes, bounds):
    """Return the places of rows whose variables changed in any score within `bounds`."""
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
    """Subtract the principal directions of the metric from a change of the weights."""
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
    """Add a change to the weights and their mean, and reset it to zero."""
    real = change.dtype.type
    for c in range(bounds[0], bounds[1]):
        factor = damping[c]
        for j in range(change.shape[1]):
            step = factor * float(change[c, j])
            weights[c, j] += step
            mean[c, j] += left * step
            rounded[c, j] = real(weights[c, j])
            change[c, j] = real(0)
