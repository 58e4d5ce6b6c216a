"""Epochs over dense rows, in blocks.

For each block, one product gives the scores of its rows in all classes. Coordinate updates follow row by row; each adds
a row of the block's Gram matrix to the scores of the others. Another product changes the weights. Classes one against
the rest are independent, so that each thread takes some of them through all blocks of a window.

While some blocks are processed, threads that would have nothing to do prepare the next ones: they convert rows, and
compute Gram matrices. These are cached for as many blocks as fit. Many small blocks are one piece of work: a thread
that asks for the next piece holds up the others. For the same reason one compiled function does all that a block needs.
"""

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.dense_products import add_products, mirror, scale_rows
from fastsvm.linalg.row_products import product_type, readable_rows, write_products
from fastsvm.losses import least_curvature
from fastsvm.solvers.linear_dual.epochs import Epochs, EpochState, PassState, score_at, step_at, take_pass, weight_left
from fastsvm.solvers.linear_dual.problem import PARTS, PIECE_VALUES, LinearProblem, LinearSettings, class_bounds
from fastsvm.sources import DenseBlock, Window


class DenseEpochs(Epochs):
    """Runs epochs on blocks of consecutive dense rows; a window may have gaps."""

    consecutive = True

    def __init__(self, problem: LinearProblem, dual: np.ndarray, settings: LinearSettings, pool: Pool) -> None:
        super().__init__(problem, dual, settings, pool)
        dtype = problem.source.dtype
        self.n_features, self.real = problem.source.shape[1], product_type(dtype)
        self._map = problem.shift.astype(self.real), problem.scale.astype(self.real)
        self._is_mapped = problem.scale.size > 0
        self._as_stored = dtype in (np.uint8, self.real) and not self._is_mapped
        self._n_ahead = min(pool.n_threads + 2, PARTS) if pool.n_threads > 1 else 1
        size = settings.block_rows
        values = size * (size if self._as_stored else max(size, self.n_features))  # of a block while it is prepared
        self._blocks_of_part = max(1, settings.part_bytes // (values * self.real.itemsize))
        n_kept = min(settings.kept_blocks, 2 * -(len(problem.source) // -size))  # the ends of windows may cut blocks
        self._grams = BlockGrams(size, n_kept, self._n_ahead * self._blocks_of_part, problem.constant, self.real)
        self._scores = np.zeros((self.n_scores, size), self.real)
        self._changes = np.zeros((self.n_scores, size), self.real)
        self._converted: list[np.ndarray] = []

    def begin(self, path: EpochState) -> None:
        """Round the weights to the type of products."""
        metric = path.metric
        self._basis, self._shares = metric.basis.astype(self.real), metric.shares.astype(self.real)
        self._grams.begin(self._basis, self._shares)
        self._weights = path.weights.astype(self.real)
        self._change = np.zeros_like(self._weights)

    def end(self, path: EpochState) -> None:
        """Do nothing: `position` is always up to date."""

    def process(self, window: Window, path: EpochState, seed: tuple[int, ...]) -> None:
        """Update the variables of the rows of a window: blocks in random order, and rows within a block."""
        first, rows = window.places[0], window.rows
        values, places = cast(DenseBlock, window.block).values[first : window.places[-1] + 1], window.places - first
        plan, moved = self._window_blocks(places, rows, path, (*seed, 0)), np.zeros(len(values), np.uint8)
        as_stored = self._as_stored and values.flags.c_contiguous
        is_ready = as_stored and self._grams.are_cached(plan.firsts, plan.lengths)
        # Blocks of all parts of the window take turns: epochs over one part after another make less progress.
        size = len(plan.starts) if is_ready else self._blocks_of_part
        parts = (plan.part(low, high) for low, high in spans(len(plan.starts), size))
        calls = (self._preparation(values, part, as_stored, k % self._n_ahead) for k, part in enumerate(parts))
        with closing(self.pool.ahead(calls, self._n_ahead)) as prepared:
            for ready in prepared:
                self._process(ready, path, moved)
        active = np.flatnonzero(path.shrinking.is_active(rows, path.turn))
        path.shrinking.update(rows[active], moved[places[active]], path.turn, self.settings.tuning.longest_pause)

    def _preparation(
        self, values: np.ndarray, plan: "_WindowBlocks", as_stored: bool, turn: int
    ) -> Callable[[], "_Prepared"]:
        """Return what converts the rows of some blocks and computes their Gram matrices; parts have turns."""
        used, spare = np.diff(plan.ends) > 0, turn * self._blocks_of_part
        slots, missing = self._grams.slots(plan.firsts, plan.lengths, used, spare)
        plan = plan._replace(slots=slots)
        if not (as_stored or self._converted):
            shape = self._n_ahead, self._blocks_of_part * self.settings.block_rows, self.n_features
            self._converted = list(np.empty(shape, self.real))
        rows = values if as_stored else self._converted[turn]
        here = plan if as_stored else plan.moved_together()

        def prepare() -> _Prepared:
            if not as_stored:
                self._convert(values, plan.starts, plan.lengths, rows)
            blocks = np.stack([here.starts, here.lengths, slots], axis=1)[missing]
            is_finite = self._grams.fill(rows, blocks)
            return _Prepared(rows, here, None if as_stored else plan.places(), is_finite)

        return prepare

    def _convert(self, values: np.ndarray, starts: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
        """Write the mapped rows of blocks, one block after another, in the type of products."""
        runs = zip(starts.tolist(), lengths.tolist(), strict=True)
        scale_rows(readable_rows(np.concatenate([values[start : start + n] for start, n in runs])), *self._map, out)

    def _process(self, ready: "_Prepared", path: EpochState, moved: np.ndarray) -> None:
        """Update the variables of the rows of some blocks, and note which moved."""
        values, plan, picked, is_finite = ready
        if not is_finite:  # a step would be 0: by weights that are not finite, the solver sees it
            path.weights[:] = np.nan
            return
        moved_here = moved if picked is None else np.zeros(len(picked), np.uint8)
        arrays = _Arrays(
            path.weights, path.mean, path.position, self._weights, self._change, self._scores, self._changes
        )  # fmt: skip
        state = PassState(self.dual, moved_here)
        work = plan.order.size * self.n_features * self.n_scores
        apart = not self.loss.of_classes and work > PIECE_VALUES

        def some(low: int, high: int) -> None:
            _process_blocks(self.loss, self.demands, values, plan, arrays, state, (low, high))

        self.pool.run(some, class_bounds(self.n_scores, self.pool.n_threads if apart else 1))
        if picked is not None:
            moved[picked] = moved_here

    def _window_blocks(self, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple) -> "_WindowBlocks":
        """Return the blocks of a window in random order; runs of rows are cut at multiples of the block size."""
        rng = np.random.default_rng(seed)
        cuts = np.flatnonzero((np.diff(rows) != 1) | (rows[1:] % self.settings.block_rows == 0)) + 1
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
            self.constant, self.settings.tuning.sweeps, self._basis, self._shares, self._grams.grams,
        )  # fmt: skip


class _WindowBlocks(NamedTuple):
    """The blocks of a window, in the order of processing.

    `starts`, `firsts` and `lengths` are the place in the window and the index of the first row of each block, and its
    number of rows. `order` has the places in the window of the active rows, block after block, and `ends` says where in
    it those of each block begin, and its end. `slots` are the indices of the blocks' Gram matrices in `grams`. `left`
    has the factors of `weight_left`. The others are as in `Epochs`, `LinearTuning` and `Metric`.
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


class _Prepared(NamedTuple):
    """Blocks that can be processed.

    `values` are their rows, and places in `plan` are among these. `picked` has the places of the rows in the window;
    None for the same. `is_finite` says whether the squares of the rows are finite.
    """

    values: np.ndarray
    plan: _WindowBlocks
    picked: np.ndarray | None
    is_finite: bool


class _Arrays(NamedTuple):
    """Weights, their mean and Σ β_i x_i in float64; in the type of products the weights, a change of them, and scores
    and changes of variables for the rows of a block.
    """

    weights: np.ndarray
    mean: np.ndarray
    position: np.ndarray
    rounded: np.ndarray
    change: np.ndarray
    scores: np.ndarray
    changes: np.ndarray


@jit
def _process_blocks(loss, demands, values, plan, arrays, state, bounds):
    """Process the blocks of a window, in the scores within `bounds`."""
    weights, mean, position, rounded, change, scores, changes = arrays
    dual, moved = state
    for k in range(plan.starts.size):
        start, n, a, b = plan.starts[k], plan.lengths[k], plan.ends[k], plan.ends[k + 1]
        if a == b:
            continue
        order, rows = plan.order[a:b] - start, values[start : start + n]
        _score(rows, order, rounded, plan.constant, bounds, scores)
        view = GramRows(plan.grams[plan.slots[k]], order, scores, changes, plan.damping, n)
        flags = np.zeros(order.size, np.uint8)
        span = np.int64(0), order.size, plan.n_sweeps  # a literal would be a type of its own
        take_pass(loss, demands, view, plan.firsts[k] + order, span, PassState(dual, flags), bounds)
        for t in range(order.size):
            if flags[t] != 0:  # other threads may set it for other scores
                moved[start + order[t]] = 1
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


# --- Gram matrices of blocks -----------------------------------------------------------------------------


class BlockGrams:
    """Computes Gram matrices of blocks in the metric (I + M)⁻¹, but for the damping.

    Blocks have at most `block_rows` rows. `grams`, shape (n_slots, block_rows, block_rows), has `n_spare` matrices that
    are not cached, then `n_kept` that are: memory that nothing has touched costs nothing. `constant` is the value of
    the feature of the intercept.
    """

    def __init__(self, block_rows: int, n_kept: int, n_spare: int, constant: float, dtype: np.dtype) -> None:
        self.grams = np.empty((n_spare + n_kept, block_rows, block_rows), dtype)
        self._n_kept, self._n_spare = n_kept, n_spare
        self._constant = self.grams.dtype.type(constant)
        self._slots: dict[tuple[int, int], int] = {}
        self._basis = self._shares = np.empty(0, dtype)

    def begin(self, basis: np.ndarray, shares: np.ndarray) -> None:
        """Set the principal directions of the metric, and their shares."""
        self._basis, self._shares = basis, shares

    def are_cached(self, firsts: np.ndarray, lengths: np.ndarray) -> bool:
        """Return whether the Gram matrices of all these blocks are cached."""
        blocks = zip(firsts.tolist(), lengths.tolist(), strict=True)
        return self._n_kept > 0 and all(block in self._slots for block in blocks)

    def slots(
        self, firsts: np.ndarray, lengths: np.ndarray, used: np.ndarray, spare: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the slot of each block, and the indices of the blocks whose matrices `fill` must write there first.

        A block is its first row and its number of rows. Slots are indices in `grams`; 0 for blocks that are not `used`.
        Matrices that are not cached have slots from `spare` on.
        """
        slots_of, needed, missing = np.zeros(len(firsts), np.int64), np.flatnonzero(used), []
        if self._n_kept == 0:
            slots_of[needed] = np.arange(spare, spare + len(needed))
            return slots_of, needed
        for k in needed.tolist():
            block = int(firsts[k]), int(lengths[k])
            slot = self._slots.get(block)
            if slot is None:
                if len(self._slots) < self._n_kept:
                    slot = self._slots[block] = self._n_spare + len(self._slots)
                else:
                    slot, spare = spare, spare + 1
                missing.append(k)
            slots_of[k] = slot
        return slots_of, np.array(missing, np.int64)

    def fill(self, values: np.ndarray, blocks: np.ndarray) -> bool:
        """Write the Gram matrices of blocks, and return whether the squares of their rows are finite.

        A block is the place of its first row in `values`, its number of rows, and its slot.
        """
        return bool(np.isfinite(_write_grams(values, blocks, self._constant, self._basis, self._shares, self.grams)))


@jit
def _write_grams(values, blocks, constant, basis, shares, grams):
    """Write Gram matrices of blocks, whose values are first copied in their type; return the sum of their diagonals."""
    total = 0.0
    nothing = np.empty(0, grams.dtype)
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        wide = np.empty((n, values.shape[1]), grams.dtype)
        scale_rows(values[start : start + n], nothing, nothing, wide)
        _write_tiles(wide, grams[slot])
        total += _complete(wide, constant, basis, shares, grams[slot])
    return total


@jit
def _write_tiles(rows, out):
    """Write the lower triangle of a Gram matrix, in four strips: more of the upper one is not worth its calls."""
    n, first = rows.shape[0], np.int64(0)  # a literal would be a type of its own
    places, step = np.arange(n), (n + 3) // 4
    for start in range(0, n, step):
        stop = min(start + step, n)
        write_products(rows, places, rows, (first, stop, start, stop), out)


@jit
def _complete(rows, constant, basis, shares, out):
    """Complete a Gram matrix from its lower triangle.

    The square of the constant feature is added, the principal directions are subtracted, and the rest is mirrored.
    Return the sum of the diagonal before the subtraction.
    """
    n, r, first = rows.shape[0], shares.size, np.int64(0)
    square, total = constant * constant, 0.0
    for i in range(n):
        for j in range(i + 1):
            out[i, j] += square
        total += float(out[i, i])
    if r > 0:
        parts = np.empty((r, n), out.dtype)
        write_products(rows, np.arange(n), basis, (first, n, first, r), parts)
        for k in range(r):
            along, share = parts[k], shares[k]
            for i in range(n):
                along[i] += constant * basis[k, basis.shape[1] - 1]
            for i in range(n):
                factor = share * along[i]
                for j in range(i + 1):
                    out[i, j] -= factor * along[j]
    mirror(out, n)
    return total


# --- the view of a block ---------------------------------------------------------------------------------


class GramRows(NamedTuple):
    """A block of consecutive rows and its Gram matrix, which may be larger.

    `order` has the places in the block of the rows to process. `scores` and the `changes` of variables are of the rows
    of the block, shape (n_scores, at least `length`). A change of Σ β_i x_i changes the weights by the factor `damping`
    of each score.
    """

    gram: np.ndarray
    order: np.ndarray
    scores: np.ndarray
    changes: np.ndarray
    damping: np.ndarray
    length: int


@score_at.register(GramRows)
def _score_at(view, t, c):
    place = view.order[t]
    return float(view.scores[c, place]), least_curvature(float(view.gram[place, place]) * view.damping[c])


@step_at.register(GramRows)
def _step_at(view, t, c, step):
    scores, gram, place = view.scores, view.gram, view.order[t]
    view.changes[c, place] += step
    factor = scores.dtype.type(step * view.damping[c])
    for j in range(view.length):
        scores[c, j] += factor * gram[place, j]
