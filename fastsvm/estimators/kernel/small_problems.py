"""The two-class problems of a small fit, solved in few compiled calls."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool, scratch_array
from fastsvm.estimators.kernel.two_class import ClassPairs, Together, TwoClass
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.rows_on_demand import PADDING, SmallKernel, on_demand
from fastsvm.solvers.kernel_dual.problem import WithinClasses, WithIntercept
from fastsvm.solvers.kernel_dual.small import CERTIFICATE, PairLimits, SmallPairs, solve_pairs
from fastsvm.tuning import KernelTuning

__all__ = ["GivenProblems", "SmallProblems"]


class GivenProblems(NamedTuple):
    """Problems to be solved, with feasible multipliers.

    `orders` says where the multipliers of each problem stand in the user's order; empty if they are in that order.
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
    """Solves small problems over the rows of one kernel matrix; `name` is one of `choice.KERNEL_SOLVERS`."""

    def __init__(self, given: SmallKernel, name: str, tol: float, pool: Pool, tuning: KernelTuning) -> None:
        self.name, self.tol, self._given, self._pool, self._tuning = name, tol, given, pool, tuning

    @classmethod
    def of(cls, gram: Gram, solver: str, tol: float, pool: Pool, tuning: KernelTuning) -> "SmallProblems | None":
        """Return the solver of a name in `choice.KERNEL_SOLVERS` over the rows of a matrix; None if it is another."""
        if solver == "small-rows":
            return cls(on_demand(gram.pairwise.kernel, _dense(gram)), solver, tol, pool, tuning)  # type: ignore[attr-defined]
        if solver == "small-matrix":
            return cls(SmallKernel.of_square(_square(gram), gram.value_bounds()), solver, tol, pool, tuning)
        return None

    def solve(self, given: GivenProblems, most_steps: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Solve problems in their order, and yield ranges of them that are solved, with the rows of `CERTIFICATE`.

        Their multipliers are changed in place. A problem that takes more than `most_steps`, or more than is usual for a
        small one, is given up.
        """
        pairs, alpha, orders = given
        sizes = np.diff(pairs.starts)
        longest, found = int(sizes.max()), np.empty((len(sizes), len(CERTIFICATE)))
        limits = PairLimits.of(self.tol, most_steps, self._tuning)

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
        of_value = 1 + self._given.values.shape[1] / PADDING  # Nanoseconds: so many features at a time are multiplied.
        work = np.cumsum(of_value * sizes.astype(float) ** 2)
        ends = np.flatnonzero(np.diff(work // self._tuning.task_ns, append=np.inf)) + 1
        parts, batches = (
            zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True),
            work[ends - 1] // (self._tuning.call_ns * self._pool.n_threads),
        )
        return [
            [part for _, part in some] for _, some in groupby(zip(batches, parts, strict=True), lambda each: each[0])
        ]


def _dense(gram: Gram) -> np.ndarray:
    parts = [block.dense(np.dtype(np.float64)) for _, block in gram.source.blocks()]
    return writeable(np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts)))


def _square(gram: Gram) -> np.ndarray:
    places = np.arange(len(gram))
    out: Any = np.empty((len(gram), len(gram)))
    gram.rows(places, out, places)
    return out
