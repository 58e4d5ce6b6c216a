"""The two-class problems of a fit, solved one after the other with one cache."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastsvm.budget import Plan
from fastsvm.estimators._watch import Watch
from fastsvm.gram import Gram
from fastsvm.row_cache import RowCache
from fastsvm.solvers.active_set import ActiveSet
from fastsvm.solvers.drive import Limits, StopReason, drive
from fastsvm.solvers.smo import SMO, Problem, State
from fastsvm.sources import Source

__all__ = ["OneVsOneFit", "Outcome", "TwoClass"]


class TwoClass(NamedTuple):
    """Rows of two classes: their numbers (increasing), labels ±1 and upper bounds."""

    rows: np.ndarray
    y: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, upper: np.ndarray, first: int, second: int) -> "TwoClass":
        """Return the problem of two classes, the first of them positive."""
        rows = np.flatnonzero((labels == first) | (labels == second))
        return cls(rows, np.where(labels[rows] == first, 1.0, -1.0), upper[rows])


class Outcome(NamedTuple):
    """What the problems gave, one entry each, and the worst reason for stopping."""

    beta: list[np.ndarray]
    intercept: np.ndarray
    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray
    n_steps: np.ndarray
    stop_reason: StopReason


class OneVsOneFit:
    """Two-class problems over the rows of one kernel matrix.

    Parameters
    ----------
    gram : Gram
        Kernel matrix of all rows.
    pairs : list of TwoClass
        The problems.
    labels : ndarray of int64
        Class number of every row, -1 for rows that are in no problem.
    spent : Plan
        Sizes of working set and cache.
    tol : float
        Largest violation at the end.
    """

    def __init__(self, gram: Gram, pairs: list[TwoClass], labels: np.ndarray, spent: Plan, tol: float) -> None:
        self.gram, self.pairs, self.labels = gram, pairs, labels
        self._spent, self._tol = spent, tol
        self._begin: list[np.ndarray | None] = [None] * len(pairs)
        self._solved: list[tuple] = []
        self._current: tuple[SMO, State] | None = None
        self._passes = 0
        self._untouched = StopReason.CALLBACK  # why problems were not begun

    def start(self, multipliers: list[np.ndarray]) -> None:
        """Begin at the multipliers of an earlier fit, one array over all rows for each problem."""
        self._begin = [alpha[pair.rows] for alpha, pair in zip(multipliers, self.pairs, strict=True)]

    @property
    def passes(self) -> int:
        """Passes over the rows so far, those of a pair's rows counted by their share."""
        return round(self._passes)

    def multipliers(self) -> list[np.ndarray]:
        """Return α of every problem over all rows; for those not yet begun, where they would begin."""
        reached = [solution.alpha for solution, _, _ in self._solved]
        if self._current is not None:
            reached.append(self._current[1].alpha)
        reached += self._begin[len(reached) :]
        result = [np.zeros(len(self.labels)) for _ in self.pairs]
        for full, alpha, pair in zip(result, reached, self.pairs, strict=True):
            if alpha is not None:
                full[pair.rows] = alpha
        return result

    def run(self, limits: Limits, watch: Watch, attributes: Callable[[], dict[str, Any]]) -> None:
        """Solve all problems; `attributes` gives those of a model that stops now."""
        longest = max(len(pair.rows) for pair in self.pairs)
        arena = np.empty(min(self._spent.cache_bytes, longest**2 * self.gram.dtype.itemsize), np.uint8)
        for number, pair in enumerate(self.pairs):
            watch.begin(number)
            gram = self.gram.take(pair.rows, self._rows_of(pair)) if self._is_part(pair) else self.gram
            rows = RowCache(gram, arena)
            active = self._active(len(pair.rows))
            solver = SMO(Problem(pair.y, pair.upper), rows, self._tol, self._spent.working_set, gram.pool, active)
            self._current = solver, solver.init(self._begin[number])

            def observe(state, report, solver=solver, rows=rows):
                self._current = solver, state
                bytes_read = self.gram.source.reads.nbytes
                return watch.observe(report, rows.counts, bytes_read, attributes)

            state, reason, n_steps = drive(solver, self._current[1], limits, observe)
            solved = solver.finish(state), reason, n_steps
            self._current = None  # first, so that an interrupt finds no problem twice
            self._solved.append(solved)
            self._passes += gram.passes * len(pair.rows) / len(self.labels)
            watch.end()
            if watch.stopped:
                return
            if time.perf_counter() >= limits.deadline:
                self._untouched = StopReason.MAX_TIME
                return

    def _active(self, n_rows: int) -> ActiveSet | None:
        capacity = self._spent.active_set
        return ActiveSet(capacity, self.gram.dtype, self.gram.pool) if 0 < capacity < n_rows else None

    def _is_part(self, pair: TwoClass) -> bool:
        return len(pair.rows) < len(self.labels)

    def _rows_of(self, pair: TwoClass) -> Source:
        rows = self.gram.source.take(pair.rows)
        return rows.in_memory() if self._spent.part_resident else rows

    def outcome(self) -> Outcome:
        """Return what was reached; problems not yet begun have no support vectors and offset 0."""
        solved = list(self._solved)
        if self._current is not None:
            solver, state = self._current
            solved.append((solver.finish(state), StopReason.CALLBACK, 0))
        missing = len(self.pairs) - len(solved)
        solutions = [solution for solution, _, _ in solved]
        reasons = [reason for _, reason, _ in solved] + [self._untouched] * missing
        worst = next((reason for reason in reasons if reason is not StopReason.CONVERGED), StopReason.CONVERGED)

        def column(values: list, dtype: type = np.float64, fill: float = 0) -> np.ndarray:
            return np.array(list(values) + [fill] * missing, dtype=dtype)

        beta = [solution.alpha * pair.y for solution, pair in zip(solutions, self.pairs, strict=False)]
        return Outcome(
            beta=beta + [np.zeros(len(pair.rows)) for pair in self.pairs[len(solved) :]],
            intercept=column(solution.intercept for solution in solutions),
            objective=column(solution.objective for solution in solutions),
            duality_gap=column((solution.duality_gap for solution in solutions), fill=np.inf),
            kkt_violation=column((solution.kkt_violation for solution in solutions), fill=np.inf),
            n_steps=column((n_steps for _, _, n_steps in solved), np.int64),
            stop_reason=worst,
        )
