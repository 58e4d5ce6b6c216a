"""The two-class problems of a small fit, solved in few compiled calls."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.scratch import scratch_array
from fastsvm._compiled.threads import Pool
from fastsvm._compiled.writeable import writeable
from fastsvm.estimators.kernel.two_class import ClassPairs, Together, TwoClass
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows_on_demand import PADDING, SmallKernel, on_demand
from fastsvm.solvers.kernel_dual.nu.within_classes import WithinClasses
from fastsvm.solvers.kernel_dual.problem import WithIntercept
from fastsvm.solvers.kernel_dual.small.pairs import CERTIFICATE, SmallPairs, solve_pairs

__all__ = ["GivenProblems", "SmallProblems"]

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
_BATCH = 3e7  # nanoseconds of a thread's work between two looks at the clock


class GivenProblems(NamedTuple):
    """Problems to be solved.

    Attributes
    ----------
    pairs : SmallPairs
        The problems.
    alpha : ndarray of float64
        Their multipliers, feasible.
    orders : list of ndarray
        Where the multipliers of each problem stand in the user's order; empty if they are in that order.
    """

    pairs: SmallPairs
    alpha: np.ndarray
    orders: list[np.ndarray]

    @classmethod
    def of(cls, problems: Sequence[TwoClass], begin: Sequence[np.ndarray | None]) -> "GivenProblems":
        """Return problems, and the multipliers at which each begins, None for its start.

        Where totals are given, the rows with y = 1 come first. Of two multipliers of a sample they do already.
        """
        by_class = problems[0].total > 0
        orders: list[np.ndarray] = []
        ordered = problems
        if by_class and problems[0].rows_of_sample == 1:
            orders = [np.argsort(-pair.y, kind="stable") for pair in problems]
            ordered = [pair.in_order(order) for pair, order in zip(problems, orders, strict=True)]
        starts, rows, y, upper = together = Together.of(ordered)
        target = y if isinstance(problems, ClassPairs) else np.concatenate([pair.problem.target for pair in ordered])
        alpha, formulation = np.zeros(len(y)), WithinClasses if by_class else WithIntercept
        for number in range(len(problems)) if by_class or any(one is not None for one in begin) else ():
            problem, first = formulation(problems[number].problem), begin[number]
            first = problem.start() if first is None else first
            if first is not None:
                first = problem.feasible(first)
                alpha[starts[number] : starts[number + 1]] = first[orders[number]] if orders else first
        totals = np.array([pair.total for pair in problems]) if by_class else np.zeros(len(problems))
        return cls(SmallPairs(starts, rows, together.rows_of_sample, y, upper, target, totals), alpha, orders)


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
        self.tol, self._given, self._pool = tol, given, pool

    @classmethod
    def of(
        cls, gram: Gram, sizes: np.ndarray, rows_of_sample: int, tol: float, pool: Pool, budget: int
    ) -> "SmallProblems | None":
        """Return what solves problems of so many rows; None if they are not small, or decomposition is cheaper.

        Parameters
        ----------
        gram : Gram
            Kernel matrix of all rows, which are in memory.
        sizes : ndarray of int
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
        longest = int(sizes.max())
        if longest * rows_of_sample > _MOST_ROWS or pairwise.dtype != np.float64 or not gram.resident:
            return None
        cost = pairwise.cost(d) + 2.0
        values = (_USED if len(sizes) == 1 else _USED_OF_MANY) * float(np.square(sizes).sum())
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
            return cls(SmallKernel.of_square(_square(gram), gram.value_bounds()), tol, pool)
        return None

    def solve(self, given: GivenProblems, most_steps: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Solve problems in their order, and yield ranges of them that are solved, with the rows of `CERTIFICATE`.

        Their multipliers are changed in place.

        Parameters
        ----------
        given : GivenProblems
            The problems.
        most_steps : int
            Steps of a problem at most. A problem that takes more than is usual for a small one is given up.
        """
        pairs, alpha, orders = given
        sizes = np.diff(pairs.starts)
        longest, found = int(sizes.max()), np.empty((len(sizes), len(CERTIFICATE)))
        limits = self.tol, min(most_steps, _MOST_STEPS)

        def solve(first: int, last: int) -> None:
            memory = scratch_array("small rows", (longest * (longest + PADDING),), np.float64)
            solve_pairs(self._given, pairs, (first, last), limits, memory, alpha, found)

        for parts in self._batches(sizes):
            self._pool.run(solve, parts)
            first, last = parts[0][0], parts[-1][1]
            for number in range(first, last) if orders else ():
                mine = alpha[pairs.starts[number] : pairs.starts[number + 1]]
                mine[orders[number]] = mine.copy()
            yield first, last, found[first:last]

    def _batches(self, sizes: np.ndarray) -> list[list[tuple[int, int]]]:
        """Return ranges of problems that take long enough to be handed to a thread, those of a batch together."""
        if len(sizes) == 1:
            return [[(0, 1)]]
        features = self._given.values.shape[1]
        work = np.cumsum(_USED * sizes.astype(float) ** 2 * (_PER_VALUE + _PER_FEATURE * features))
        ends = np.flatnonzero(np.diff(work // _PART, append=np.inf)) + 1
        parts, batches = (
            zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True),
            work[ends - 1] // (_BATCH * self._pool.n_threads),
        )
        return [
            [part for _, part in some] for _, some in groupby(zip(batches, parts, strict=True), lambda each: each[0])
        ]


def _per_feature(n_values: int) -> float:
    return _PER_FEATURE if 8 * n_values <= _NEAR_BYTES else _PER_FAR_FEATURE


def _dense(gram: Gram) -> np.ndarray:
    parts = [block.dense(np.dtype(np.float64)) for _, block in gram.source.blocks()]
    return writeable(np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts)))


def _square(gram: Gram) -> np.ndarray:
    places = np.arange(len(gram))
    out: Any = np.empty((len(gram), len(gram)))
    gram.rows(places, out, places)
    return out
