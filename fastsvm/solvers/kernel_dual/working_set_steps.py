"""Steps on working sets: a set is chosen, its own problem is solved, and the gradient of all rows is updated.

A working set of a thousand rows is solved by `SolveBlock`. A larger one is solved by working sets of its own. Then the
gradient of all rows changes once for many steps.
"""

from collections.abc import Callable

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.interface import KernelRows
from fastsvm.kernel_matrix.paired_rows import PairedRows
from fastsvm.kernel_matrix.products import KernelProducts
from fastsvm.kernel_matrix.recomputed_rows import RecomputedRows
from fastsvm.kernel_matrix.stored_rows import SquareRows
from fastsvm.solvers.kernel_dual.gram_block import WorkingBlock
from fastsvm.solvers.kernel_dual.problem import Formulation, KernelDualState, KernelProblem
from fastsvm.solvers.kernel_dual.working_set import select
from fastsvm.tuning import KernelTuning

__all__ = ["SolveBlock", "WorkingSetSteps"]

SolveBlock = Callable[[np.ndarray, KernelProblem, np.ndarray, np.ndarray, float, int], int]
"""Solves a block's own problem in place: block of K, problem, α, F, gap, most steps; returns the number of steps."""


class WorkingSetSteps:
    """Chooses working sets of `size` rows of a problem and solves them.

    `block` is memory for the kernel among the rows of a working set; None for new memory. `n_sets` counts working sets
    so far, as the solver counts them.
    """

    def __init__(
        self,
        formulation: Formulation,
        rows: KernelRows,
        size: int,
        pool: Pool,
        tuning: KernelTuning,
        block: WorkingBlock | None = None,
    ) -> None:
        self.rows, self.size = rows, max(2, min(size, len(formulation.problem.y), rows.n_slots))
        self.products, self.block = KernelProducts(rows, pool), block or WorkingBlock(rows, pool)
        self._formulation, self._problem, self._pool = formulation, formulation.problem, pool
        self._tuning = tuning
        self._nested: WorkingBlock | None = None
        self.n_sets = 0

    def take(
        self, state: KernelDualState, tol: float, most_steps: int, solve_block: SolveBlock
    ) -> tuple[KernelDualState, int]:
        """Choose and solve a working set; return the state, whose arrays are changed, and the number of steps.

        `solve_block` is not kept: as a method of the object that holds this one it would close a circle of references,
        and the memory of the cache would be free only after a garbage collection.
        """
        level, (low, high) = self._formulation.levelled(state)
        if high <= low:
            return state, 0
        whole = self.size == len(state.alpha)
        chosen, target = (np.arange(self.size), 0.5 * tol) if whole else self._choose(state, level, low, high, tol)
        n_steps = self._solve(state, chosen, target, most_steps, solve_block)
        return state._replace(working_set=chosen), n_steps

    def _choose(
        self, state: KernelDualState, level: np.ndarray, low: float, high: float, tol: float
    ) -> tuple[np.ndarray, float]:
        """Return a working set and the gap to which it is to be solved. `level` and its bounds are `levelled`."""
        size, tuning = self._size(state), self._tuning
        ratio = tuning.nested_gap if self.size > tuning.block_rows else tuning.set_gap
        retained = state.working_set[len(state.working_set) // 2 :][: size - 2]
        chosen = np.empty(size, np.int64)
        count = select(*self._problem.box, state.alpha, level, retained, (low, high), chosen)
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
            block = self.block.of(chosen, slots)
            self._saw(float(np.abs(np.diagonal(block)).max()))
            limit = min(limit, int(self._tuning.call_ns) // len(chosen))
            gradient = self._formulation.centred(part, alpha, gradient)
            n_steps = solve_block(block, part, alpha, gradient, target, limit)
        state.alpha[chosen] = alpha
        delta = (alpha - before) * part.y
        changed = delta != 0
        slots = self.rows.fetch(chosen[changed]) if slots is None else slots[changed]
        self.products.add(state.gradient, slots, delta[changed])
        return n_steps

    def _is_lazy(self, size: int) -> bool:
        """Return whether whole kernel rows are computed only for the rows of a working set whose multipliers change.

        The kernel among the rows of the set is then computed apart. Where rows are short, that is not worth it.
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
        problem: Formulation = type(self._formulation)(part)
        rows: KernelRows | None = self.rows.restricted(chosen)
        if rows is None:
            rows = SquareRows(self.block.of(chosen, None))
        self._nested = self._nested or WorkingBlock(rows, self._pool)
        self._nested.reuse(rows)
        sets = WorkingSetSteps(problem, rows, self._tuning.working_set, self._pool, self._tuning, self._nested)
        state, n_steps = KernelDualState(alpha, gradient, np.empty(0, np.int64)), 0
        for _ in range(self._tuning.set_steps):
            state, taken = sets.take(state, target, most_steps - n_steps, solve_block)
            n_steps += taken
            if taken == 0 or n_steps >= most_steps or problem.gap(state) <= target:
                break
        self._saw(sets.products.largest)
        return n_steps
