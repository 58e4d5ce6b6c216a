"""The two-class problems of a small fit, solved in few compiled calls."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.scratch import scratch_array
from fastsvm._compiled.threads import Pool
from fastsvm._compiled.writeable import writeable
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows_on_demand import PADDING, SmallKernel, on_demand
from fastsvm.solvers.kernel_dual.nu.within_classes import WithinClasses
from fastsvm.solvers.kernel_dual.problem import KernelProblem, KernelSolution, WithIntercept
from fastsvm.solvers.kernel_dual.small.pairs import CERTIFICATE, SmallPairs, solve_pairs

__all__ = ["SmallProblems", "SmallSolution"]

_MOST_ROWS = 2048  # of a problem: with more, steps on all rows leave the processor's cache
_MOST_STEPS = 20_000  # of a problem here; one that takes more is difficult
_PER_PROBLEM = 1e6  # nanoseconds that decomposition takes for a problem beside its kernel values
_SLOWER = 2.0  # times its estimate, the cost of decomposition: the slower its steps the more is gained
_PER_MATRIX = 2e5  # nanoseconds that the computation of a whole matrix takes beside its values
_PER_VALUE = 2.5  # nanoseconds of a value computed on demand
_PER_FEATURE, _PER_FAR_FEATURE = 0.06, 0.13  # for each feature, if the samples of a problem are within the cache or not
_NEAR_BYTES = 400_000
_USED, _USED_OF_MANY = 0.5, 0.2  # of the kernel rows of an only problem and of many, more or less
_PART = 1e6  # nanoseconds: work worth handing to a thread
_PARTS = 32  # for a thread, between two looks at the clock


class SmallSolution(NamedTuple):
    """What was found for a problem.

    Attributes
    ----------
    solution : KernelSolution
        Multipliers and certificate.
    n_steps : int
        Steps taken.
    rows_computed : int
        Kernel rows computed.
    is_solved : bool
        Whether the violation is within tolerance.
    """

    solution: KernelSolution
    n_steps: int
    rows_computed: int
    is_solved: bool


class SmallProblems:
    """Solves small problems over the rows of one kernel matrix.

    Parameters
    ----------
    given : SmallKernel
        The kernel.
    tol : float
        Largest violation.
    pool : Pool
        Threads.
    """

    def __init__(self, given: SmallKernel, tol: float, pool: Pool) -> None:
        self._given, self._tol, self._pool = given, tol, pool

    @classmethod
    def of(
        cls, gram: Gram, sizes: list[int], rows_of_sample: int, tol: float, pool: Pool, budget: int
    ) -> "SmallProblems | None":
        """Return what solves problems of so many rows; None if they are not small, or decomposition is cheaper.

        Parameters
        ----------
        gram : Gram
            Kernel matrix of all rows, which are in memory.
        sizes : list of int
            Samples of each problem.
        rows_of_sample : int
            Multipliers of each sample, 1 or 2.
        tol : float
            Largest violation.
        pool : Pool
            Threads that may solve problems.
        budget : int
            Bytes that this may take.
        """
        (n, d), pairwise = gram.source.shape, gram.pairwise
        longest = max(sizes)
        if longest * rows_of_sample > _MOST_ROWS or pairwise.dtype != np.float64 or not gram.resident:
            return None
        cost = pairwise.cost(d) + 2.0
        values = (_USED if len(sizes) == 1 else _USED_OF_MANY) * float(sum(size * size for size in sizes))
        by_rows = values * (_PER_VALUE + d * _per_feature(d * longest))
        square = _PER_MATRIX + n * n * cost
        by_decomposition = _SLOWER * (_PER_PROBLEM * len(sizes) + values * cost)
        memory = 8 * pool.n_threads * longest * (rows_of_sample * longest + PADDING)
        is_tried = memory + 8 * n * d <= budget and by_rows <= min(square, by_decomposition)
        if is_tried and isinstance(pairwise, RealPairwise):
            given = on_demand(pairwise.kernel, _dense(gram))
            if given is not None:
                return cls(given, tol, pool)
        if square <= by_decomposition and memory + 8 * n * n <= budget:
            return cls(SmallKernel.of_square(_square(gram)), tol, pool)
        return None

    def solve(
        self,
        problems: list[tuple[np.ndarray, KernelProblem, np.ndarray | None]],
        most_steps: int,
    ) -> Iterator[SmallSolution]:
        """Yield the solutions of problems in their order.

        Parameters
        ----------
        problems : list of tuple
            Numbers of a problem's samples, the problem, and the multipliers at which to begin, None for its start.
        most_steps : int
            Steps of a problem at most. A problem that takes more than is usual for a small one is given up.
        """
        sizes = [len(problem.y) for _, problem, _ in problems]
        starts = [0, *accumulate(sizes)]
        by_class = problems[0][1].total > 0
        orders = [_order(len(rows), problem) for rows, problem, _ in problems]
        ordered = [
            (rows, *problem[:3]) if order is None else (rows[order[: len(rows)]], *problem.take(order)[:3])
            for (rows, problem, _), order in zip(problems, orders, strict=True)
        ]
        together = ordered[0] if len(ordered) == 1 else map(np.concatenate, zip(*ordered, strict=True))
        places, y, upper, target = together
        pairs = SmallPairs(np.array(starts), places, len(y) // len(places), y, upper, target, by_class)
        alpha, found = np.zeros(starts[-1]), np.empty((len(problems), len(CERTIFICATE)))
        for (_, problem, begin), order, start in zip(problems, orders, starts[:-1], strict=True):
            formulation = (WithinClasses if by_class else WithIntercept)(problem)
            begin = formulation.start() if begin is None else begin
            if begin is not None:
                feasible = formulation.feasible(begin)
                alpha[start : start + len(begin)] = feasible if order is None else feasible[order]
        longest = max(sizes)
        limits = self._tol, min(most_steps, _MOST_STEPS)

        def solve(first: int, last: int) -> None:
            memory = scratch_array("small rows", (longest * (longest + PADDING),), np.float64)
            solve_pairs(self._given, pairs, (first, last), limits, memory, alpha, found)

        parts = self._parts(sizes)
        for k in range(0, len(parts), _PARTS * self._pool.n_threads):
            some = parts[k : k + _PARTS * self._pool.n_threads]
            self._pool.run(solve, some)
            for number in range(some[0][0], some[-1][1]):
                yield _solution(_as_given(alpha[starts[number] : starts[number + 1]], orders[number]), found[number])

    def _parts(self, sizes: list[int]) -> list[tuple[int, int]]:
        """Return ranges of problems that take long enough to be handed to a thread."""
        if len(sizes) == 1:
            return [(0, 1)]
        features = self._given.values.shape[1]
        work = np.cumsum(_USED * np.array(sizes, float) ** 2 * (_PER_VALUE + _PER_FEATURE * features))
        ends = np.flatnonzero(np.diff(work // _PART, append=np.inf)) + 1
        return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def _order(n_samples: int, problem: KernelProblem) -> np.ndarray | None:
    """Return an order of multipliers in which, where totals are given, those with y = 1 come first; else None.

    Of two multipliers of a sample they do already.
    """
    is_ordered = problem.total > 0 and len(problem.y) == n_samples
    return np.argsort(-problem.y, kind="stable") if is_ordered else None


def _as_given(alpha: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Return the multipliers in the order of the problem."""
    given = np.empty(len(alpha))
    given[slice(None) if order is None else order] = alpha
    return given


def _per_feature(n_values: int) -> float:
    return _PER_FEATURE if 8 * n_values <= _NEAR_BYTES else _PER_FAR_FEATURE


def _solution(alpha: np.ndarray, certificate: np.ndarray) -> SmallSolution:
    intercept, objective, gap, violation, n_steps, n_rows, is_solved, margin = certificate.tolist()
    solution = KernelSolution(alpha, alpha > 0, intercept, objective, gap, violation, margin)
    return SmallSolution(solution, int(n_steps), int(n_rows), bool(is_solved))


def _dense(gram: Gram) -> np.ndarray:
    parts = [block.dense(np.dtype(np.float64)) for _, block in gram.source.blocks()]
    return writeable(np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts)))


def _square(gram: Gram) -> np.ndarray:
    places = np.arange(len(gram))
    out: Any = np.empty((len(gram), len(gram)))
    gram.rows(places, out, places)
    return out
