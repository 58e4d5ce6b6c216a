"""Working sets: a set is chosen, its own problem is solved, and the gradient of all rows is updated.

The rows that violate the optimality conditions most are chosen. A working set of a thousand rows is solved by
`SolveBlock`, on a square block of the kernel matrix that is copied so that it fits the processor's cache. A larger one
is solved by working sets of its own. Then the gradient of all rows changes once for many steps.
"""

from collections.abc import Callable

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, scratch_array, spans
from fastsvm.kernel_matrix.pairwise import SPAN
from fastsvm.kernel_matrix.rows import KernelProducts, KernelRows, PairedRows, RecomputedRows, SquareRows
from fastsvm.solvers.kernel_dual.problem import KernelDualState, KernelProblem, freedom, levelled, violation
from fastsvm.tuning import KernelTuning

SolveBlock = Callable[[np.ndarray, KernelProblem, np.ndarray, np.ndarray, float, int], int]
"""Solves a block's own problem in place: block of K, problem, α, F, gap, most steps; returns the number of steps."""


class WorkingBlock:
    """The kernel among the rows of a working set. Values of rows that the next set retains are moved."""

    def __init__(self, rows: KernelRows, pool: Pool) -> None:
        self._rows, self._pool = rows, pool
        self._block = np.empty((0, 0), rows.store.dtype)  # of the last working set, whose rows are `_inside`
        self._inside = np.empty(0, np.int64)
        self._memory = self._spare = np.empty(0, rows.store.dtype)  # of `_block`, and what takes turns with it
        self._square = np.empty(0)  # of the last Newton step

    def reuse(self, rows: KernelRows) -> None:
        """Use the memory for other rows."""
        self._rows, self._inside = rows, np.empty(0, np.int64)

    def of(self, chosen: np.ndarray, slots: np.ndarray | None) -> np.ndarray:
        """Return the kernel among the rows `chosen`, valid until the next call; half of the last ones may be in front.

        `slots` are those of the rows, None if the values are to be computed.
        """
        q, store = len(chosen), self._rows.store
        order = np.arange(q)
        if slots is not None and store.shape == (q, q) and (chosen == order).all() and (slots == order).all():
            return store
        if np.array_equal(chosen, self._inside):
            return self._block
        first = len(self._inside) // 2
        old = self._inside[first:][:q]
        same = chosen[: len(old)] == old
        count = len(old) if same.all() else int(np.argmin(same))
        if len(self._spare) < q * q:  # else used again, as in `square`
            self._spare = np.empty(0, store.dtype)
            self._spare = np.empty(q * q, store.dtype)
        block = self._spare[: q * q].reshape(q, q)
        self._inside = np.empty(0, np.int64)  # until it is whole again
        self.gather(chosen, slots, count, block)
        self._pool.run(_complete, [(self._block, first, block, count, a, b) for a, b in _parts(0, count)])
        self._block, self._inside = block, chosen
        self._memory, self._spare = self._spare, self._memory
        return block

    def gather(self, rows: np.ndarray, slots: np.ndarray | None, first: int, block: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `block[first:]`; `slots` as for `of`."""
        if slots is None or self._rows.cheap_among:
            self._rows.among(rows, first, block)
            return
        store, columns = self._rows.store, self._rows.columns(rows)
        order, places = np.argsort(columns), first + np.argsort(slots[first:])  # memory is read in its order
        pieces = [places[a:b] for a, b in spans(len(places), SPAN)]
        self._pool.run(_gather, [(store, slots[piece], columns, order, block, piece) for piece in pieces])

    def square(self, m: int) -> np.ndarray:
        """Return memory for a float64 matrix of order m, that of before if it suffices: new memory is expensive."""
        if len(self._square) < m * m:
            self._square = np.empty(m * m)
        return self._square[: m * m].reshape(m, m)


class WorkingSetSteps:
    """Chooses working sets of `size` rows of a problem and solves them; `n_sets` is counted by the solver.

    `block` is memory for the kernel among the rows of a working set, None for new memory.
    """

    def __init__(
        self,
        problem: KernelProblem,
        rows: KernelRows,
        size: int,
        pool: Pool,
        tuning: KernelTuning,
        block: WorkingBlock | None = None,
    ) -> None:
        self.rows, self.size = rows, max(2, min(size, len(problem.y), rows.n_slots))
        self.products, self.block = KernelProducts(rows, pool), block or WorkingBlock(rows, pool)
        self._movable = WorkingBlock(rows, pool)  # of the rows that may move, where all rows are the working set
        self._problem, self._pool, self._tuning = problem, pool, tuning
        self._nested: WorkingBlock | None = None
        self.n_sets = 0

    def take(
        self, state: KernelDualState, tol: float, most_steps: int, solve_block: SolveBlock
    ) -> tuple[KernelDualState, int]:
        """Choose and solve a working set; return the state, whose arrays are changed, and the number of steps.

        `solve_block` is not kept: a circle of references would keep the cache until a garbage collection.
        """
        level, low, high = levelled(self._problem, state.alpha, state.gradient)
        if high <= low:
            return state, 0
        chosen, target = self._next(state, level, low, high, tol)
        most_steps = min(most_steps, self.size) if len(chosen) == len(state.alpha) else most_steps
        n_steps = self._solve(state, chosen, target, most_steps, solve_block)
        return state._replace(working_set=chosen), n_steps

    def _next(
        self, state: KernelDualState, level: np.ndarray, low: float, high: float, tol: float
    ) -> tuple[np.ndarray, float]:
        """Return the next working set, and the gap to which it is to be solved.

        Where all rows may be one, they are, until those that may move are few enough to pay for a copy of their values.
        """
        if self.size < len(state.alpha):
            return self._choose(state, level, low, high, tol)
        if len(state.working_set) > 0:
            movable = np.flatnonzero(settled(self._problem, state.alpha, level, low, high) <= 0)
            if len(movable) <= self._tuning.movable_share * self.size:
                return movable, max(self._tuning.set_gap * (high - low), 0.5 * tol)
        return np.arange(self.size), 0.5 * tol

    def _choose(
        self, state: KernelDualState, level: np.ndarray, low: float, high: float, tol: float
    ) -> tuple[np.ndarray, float]:
        """Return a working set and the gap to which it is to be solved. `level` and its bounds are `levelled`."""
        size, tuning = self._size(state), self._tuning
        ratio = tuning.nested_gap if self.size > tuning.block_rows else tuning.set_gap
        retained = state.working_set[len(state.working_set) // 2 :][: size - 2]
        chosen = np.empty(size, np.int64)
        count = select(self._problem, state.alpha, level, retained, low, high, chosen)
        return chosen[:count], max(ratio * (high - low), 0.5 * tol)

    @property
    def _usual_size(self) -> int:
        """Rows of a usual set where sets may have sets of their own, which pay where values are not stored for them."""
        assert isinstance(self.rows, RecomputedRows | PairedRows)  # with others, no set is so large
        return 4 * self._tuning.working_set if self.rows.cheap_restricted else self._tuning.block_rows

    def _size(self, state: KernelDualState) -> int:
        """Return how many rows the next working set has."""
        n_support = int(np.count_nonzero(state.alpha))
        if self.size <= self._tuning.block_rows:
            # As many rows as support: a larger set would compute rows that turn out to be useless.
            least = self.size if self._is_lazy(self.size) else self._tuning.working_set // 4
            return min(self.size, max(least, n_support))
        # The free rows among each other take most steps: they and as many violators should be in a set together.
        n_free = int(np.count_nonzero((state.alpha > 0) & (state.alpha < self._problem.upper)))
        if len(state.alpha) <= self.size or 2 * n_free > self._usual_size:
            return self.size
        nested, first = self._tuning.working_set, 2 * self._tuning.working_set
        if 2 * n_support <= nested:
            return nested
        # While most rows that change go to a bound and stay there, sets within a set do not pay.
        mostly_bound = 2 * n_free <= min(n_support, first)
        return first if mostly_bound and self.n_sets <= self._tuning.many_sets else self._usual_size

    def _solve(
        self, state: KernelDualState, chosen: np.ndarray, target: float, most_steps: int, solve_block: SolveBlock
    ) -> int:
        part = self._problem.take(chosen)
        slots = None if self._is_lazy(len(chosen)) else self.rows.fetch(chosen)
        before, gradient = state.alpha[chosen], state.gradient[chosen]
        alpha = before.copy()
        limit = min(most_steps, self._tuning.set_steps * len(chosen))
        if len(chosen) > self._tuning.block_rows:
            n_steps = self._solve_nested(chosen, part, alpha, gradient, target, limit, solve_block)
        else:
            is_part = len(chosen) < self.size == len(self._problem.y)
            block = (self._movable if is_part else self.block).of(chosen, slots)
            self._saw(float(np.abs(np.diagonal(block)).max()))
            limit = min(limit, int(self._tuning.call_ns) // len(chosen))
            n_steps = solve_block(block, part, alpha, centred(part, alpha, gradient), target, limit)
        state.alpha[chosen] = alpha
        delta = (alpha - before) * part.y
        changed = delta != 0
        slots = self.rows.fetch(chosen[changed]) if slots is None else slots[changed]
        self.products.add(state.gradient, slots, delta[changed])
        return n_steps

    def _is_lazy(self, size: int) -> bool:
        """Return whether whole kernel rows are computed only for the rows of a working set whose multipliers change.

        The kernel among the rows of the set is then computed apart, which is not worth it where rows are short.
        """
        return self.rows.cheap_among and self._tuning.long_rows * size <= len(self._problem.y)

    def _saw(self, diagonal: float) -> None:
        self.products.largest = max(self.products.largest, diagonal)

    def _solve_nested(
        self, chosen: np.ndarray, part: KernelProblem, alpha: np.ndarray, gradient: np.ndarray, target: float,
        most_steps: int, solve_block: SolveBlock,
    ) -> int:  # fmt: skip
        """Solve the problem of a large working set by working sets of its own; as `SolveBlock`."""
        assert isinstance(self.rows, RecomputedRows | PairedRows)  # with others, no set is so large
        rows: KernelRows | None = self.rows.restricted(chosen)
        if rows is None:
            rows = SquareRows(self.block.of(chosen, None))
        self._nested = self._nested or WorkingBlock(rows, self._pool)
        self._nested.reuse(rows)
        sets = WorkingSetSteps(part, rows, self._tuning.working_set, self._pool, self._tuning, self._nested)
        state, n_steps = KernelDualState(alpha, gradient, np.empty(0, np.int64)), 0
        for _ in range(self._tuning.set_steps):
            state, taken = sets.take(state, target, most_steps - n_steps, solve_block)
            n_steps += taken
            if taken == 0 or n_steps >= most_steps or violation(part, *state[:2]) <= target:
                break
        self._saw(sets.products.largest)
        return n_steps


def centred(problem: KernelProblem, alpha: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return F of some rows, less a number that those which exchange have in common, if there is one.

    Steps see differences only, which float32 would lose where all F are large.
    """
    level, low, high = levelled(problem, alpha, gradient)
    return level - (low + high) / 2 if problem.groups > 0 and abs(low) + abs(high) < np.inf else level


def reordered(block: np.ndarray, order: np.ndarray, pool: Pool) -> np.ndarray:
    """Return a block with its rows and columns in another order; valid until the thread calls this again."""
    q = len(order)
    out, places = scratch_array("reordered", (q, q), block.dtype), np.arange(q)
    pool.run(_gather, [(block, order[a:b], order, places, out, places[a:b]) for a, b in spans(q, SPAN)])
    return out


def _parts(start: int, stop: int) -> list[tuple[int, int]]:
    return [(start + a, start + b) for a, b in spans(stop - start, SPAN)]


@jit
def _gather(store, slots, columns, order, block, places):
    """Copy rows in `slots` of the store, at `columns`, which `order` sorts, to the rows `places` of a block."""
    for s in range(slots.size):
        source, target = store[slots[s]], block[places[s]]
        for t in order:
            target[t] = source[columns[t]]


@jit
def _complete(old, first, block, count, start, stop):
    """Complete rows `start` to `stop`, of the `count` first ones, of a block.

    Among each other they are those of the old block from `first` on, the others those of the rows below.
    """
    for s in range(start, stop):
        source, target = old[first + s, first : first + count], block[s, :count]
        for t in range(count):
            target[t] = source[t]
    values = np.empty((16, 16), block.dtype)  # a buffer, as lines of a column evict each other from the cache
    for top in range(start, stop, 16):
        height = min(16, stop - top)
        for left in range(count, block.shape[0], 16):
            width = min(16, block.shape[0] - left)
            for t in range(width):
                source, target = block[left + t, top : top + height], values[t]
                for s in range(height):
                    target[s] = source[s]
            for s in range(height):
                target = block[top + s, left : left + width]
                for t in range(width):
                    target[t] = values[t, s]


@jit
def select(problem, alpha, gradient, retained, low, high, chosen):
    """Write a working set to `chosen` and return its size: the rows `retained`, the worst violators, and next ones.

    Those of F `low` or `high` are always chosen, the others by histograms of their violations, without a sort.
    """
    y, upper = problem.y, problem.upper
    n, size, bins = y.size, chosen.size, 256
    scale = (bins - 1) / (high - low)
    taken = np.zeros(n, np.uint8)
    count = retained.size
    for t in range(count):
        chosen[t] = retained[t]
        taken[retained[t]] = 1
    rising, falling = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    lowest, highest = -1, -1
    for i in range(n):
        if low <= gradient[i] <= high:
            place = int((gradient[i] - low) * scale)
            rises, falls = freedom(y[i], alpha[i], upper[i])
            if rises and gradient[i] == low:
                lowest = i
            if falls and gradient[i] == high:
                highest = i
            if taken[i] == 0:
                rising[place] += rises
                falling[bins - 1 - place] += falls
    for i in (lowest, highest):
        if i >= 0 and taken[i] == 0:
            chosen[count] = i
            taken[i] = 1
            count += 1
    wanted = (size - count) // 2
    worst_rising, spare_rising = _threshold(rising, wanted)
    worst_falling, spare_falling = _threshold(falling, wanted)
    for i in range(n):
        if taken[i] == 0 and low <= gradient[i] <= high and count < size:
            place = int((gradient[i] - low) * scale)
            rises, falls = freedom(y[i], alpha[i], upper[i])
            take = False
            if rises and place <= worst_rising:
                # Rows of the last bin compete only for what the better bins leave.
                take = place < worst_rising or spare_rising > 0
                spare_rising -= place == worst_rising
            if falls and not take and bins - 1 - place <= worst_falling:
                take = bins - 1 - place < worst_falling or spare_falling > 0
                spare_falling -= bins - 1 - place == worst_falling
            if take:
                chosen[count] = i
                count += 1
    return count


@jit
def settled(problem, alpha, gradient, low, high):
    """Return for each row how far it is from being able to move (Joachims 1999), minus infinity if it can.

    A row whose bound is 0 never can.
    """
    y, upper = problem.y, problem.upper
    slack = np.empty(y.size)
    for i in range(y.size):
        rises, falls = freedom(y[i], alpha[i], upper[i])
        away = (gradient[i] - high) if rises else (low - gradient[i])
        slack[i] = away if away > 0 and rises != falls else -np.inf
        if not (rises or falls):
            slack[i] = np.inf
    return slack


@jit
def movable(problem, alpha, gradient):
    """Return F where it may rise, else infinity; and F where it may fall, else minus infinity."""
    y, upper = problem.y, problem.upper
    rising, falling = np.empty(y.size), np.empty(y.size)
    for i in range(y.size):
        rises, falls = freedom(y[i], alpha[i], upper[i])
        rising[i] = gradient[i] if rises else np.inf
        falling[i] = gradient[i] if falls else -np.inf
    return rising, falling


@jit
def _threshold(counts, wanted):
    """Return the bin in which the cumulative count reaches `wanted`, and how many of its rows are still wanted."""
    total = 0
    for place in range(counts.size):
        if total + counts[place] >= wanted:
            return place, wanted - total
        total += counts[place]
    return counts.size, 0
