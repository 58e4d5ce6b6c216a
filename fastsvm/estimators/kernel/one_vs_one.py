"""The two-class problems of a fit, solved in sequence or in parallel on kernel rows that they share."""

import functools
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.checkpoints import Checkpointer
from fastsvm.estimators.kernel.duplicate_rows import Repeats
from fastsvm.estimators.kernel.progress import KernelMonitor
from fastsvm.estimators.kernel.small_problems import SmallProblems
from fastsvm.estimators.kernel.solver_parameter import Resources, SolverOf
from fastsvm.estimators.kernel.two_class import Outcome, TwoClass
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.cross_validation import SharedKernel
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.interface import KernelMatrix
from fastsvm.kernel_matrix.memory_plan import Plan
from fastsvm.kernel_matrix.one_vs_one import ClassTile, PairGram
from fastsvm.kernel_matrix.paired_rows import PairedRows, ProblemRows
from fastsvm.kernel_matrix.recomputed_rows import RecomputedRows, SampleRows
from fastsvm.kernel_matrix.row_cache import CacheContents, CacheCounts, RowCache
from fastsvm.multiclass import disjoint_order
from fastsvm.solvers.kernel_dual.problem import KernelSolution
from fastsvm.solvers.outer_loop import Limits, Report, Solver, StopReason, drive

__all__ = ["KernelFitState", "OneVsOneFit", "solve_paths"]

_NOT_BEGUN = KernelSolution(np.empty(0), np.empty(0, bool), 0.0, 0.0, np.inf, np.inf, 0.0)
_SNAPSHOT_SECONDS = 0.5  # between two of what a worker has reached, for a checkpoint by another


@storable("kernel problem")
class ProblemCheckpoint(NamedTuple):
    """A problem that is being solved: state, steps so far, the solver's other memory, and the cached rows."""

    state: Any
    n_steps: int
    memory: Any
    cache: CacheContents


@storable("kernel fit")
class KernelFitState(NamedTuple):
    """Checkpoint of a fit.

    Attributes
    ----------
    solved : dict of int to tuple
        Solution, stop reason and number of steps of each solved problem, by its number.
    current : dict of int to ProblemCheckpoint
        Problems that are being solved.
    passes : float
        Passes over the rows.
    """

    solved: dict[int, tuple]
    current: dict[int, ProblemCheckpoint]
    passes: float


class OneVsOneFit:
    """Two-class problems over the rows of one kernel matrix.

    Parameters
    ----------
    gram : Gram or SharedKernel
        Kernel matrix of all rows.
    pairs : list of TwoClass
        The problems.
    labels : ndarray of int64
        Class number of every row, -1 for rows that are in no problem.
    plan : callable
        Returns the plan of the memory, which a fit of small problems may not need.
    solver_of : callable
        Makes the solver of a problem.
    repeats : Repeats or None
        Rows that represent others, which are in no problem themselves.
    small : SmallProblems or None
        Solves the problems if they are small.
    """

    def __init__(
        self,
        gram: Gram | SharedKernel,
        pairs: list[TwoClass],
        labels: np.ndarray,
        plan: Callable[[], Plan],
        solver_of: SolverOf,
        repeats: Repeats | None = None,
        small: SmallProblems | None = None,
    ) -> None:
        self.gram, self.labels, self._repeats = gram, labels, repeats
        self._plan, self._solver_of, self._small = plan, solver_of, small
        self._tiles: list[ClassTile] = []
        needs_plan = small is None or len(pairs) > 1  # before the fit begins, so that it does not begin in vain
        if needs_plan and self._spent.shared and isinstance(gram, Gram):
            pairs = [pair.by_class() for pair in pairs]
            self._tiles = self._class_tiles(gram, max(pair.classes[1] for pair in pairs) + 1)
        self.pairs = pairs
        self._begin: list[np.ndarray | None] = [None] * len(pairs)
        self._n_before: dict[int, int] = {}  # steps of problems that were begun as small ones
        self._solved: dict[int, tuple] = {}
        self._current: dict[int, tuple[Solver, Any]] = {}
        self._snapshots: dict[int, ProblemCheckpoint] = {}
        self._passes = 0.0
        self._untouched = StopReason.CALLBACK  # why the other problems were not begun

    @functools.cached_property
    def _spent(self) -> Plan:
        """Sizes of working set, caches and tiles."""
        return self._plan()

    @functools.cached_property
    def _pool(self) -> Pool:
        """Threads of one problem."""
        return self.gram.pool if self._spent.workers == 1 else Pool(1)

    def _class_tiles(self, gram: Gram, n_classes: int) -> list[ClassTile]:
        """Return the tiles of all classes; the first ones are cached, as memory allows."""
        tiles, spare = [], self._spent.tile_bytes
        for label in range(n_classes):
            source = gram.source.take(np.flatnonzero(self.labels == label))
            size = len(source) ** 2 * gram.dtype.itemsize
            tiles.append(ClassTile(gram.pairwise, source, self._pool, keep=size <= spare))
            spare -= size if size <= spare else 0
        return tiles

    def has_as_many(self, multipliers: list[np.ndarray]) -> bool:
        """Return whether multipliers of an earlier fit are as many as those of this one."""
        return [len(alpha) for alpha in multipliers] == [len(self.labels) * p.rows_of_sample for p in self.pairs]

    def start(self, multipliers: list[np.ndarray]) -> None:
        """Begin at the multipliers of an earlier fit, one array over all rows for each problem."""
        n = len(self.labels)
        self._begin = [alpha[pair.places(n)] for alpha, pair in zip(multipliers, self.pairs, strict=True)]

    def resume(self, checkpoint: KernelFitState) -> None:
        """Resume a fit of the same problems."""
        for number, (solution, reason, n_steps) in checkpoint.solved.items():
            self._solved[number] = solution, StopReason(reason), n_steps
        self._snapshots, self._passes = dict(checkpoint.current), checkpoint.passes

    def checkpoint(self) -> KernelFitState:
        """Return a checkpoint, in which each problem that is being solved is as of its last snapshot."""
        return KernelFitState(dict(self._solved), dict(self._snapshots), self._passes)

    @property
    def passes(self) -> int:
        """Passes over the rows so far, those of a pair's rows counted by their share."""
        return round(self._passes)

    def multipliers(self) -> list[np.ndarray]:
        """Return α of every problem over all rows; for those not yet begun, where they would begin."""
        n = len(self.labels)
        result = [np.zeros(n * pair.rows_of_sample) for pair in self.pairs]
        for number, (full, pair) in enumerate(zip(result, self.pairs, strict=True)):
            if number in self._solved:
                full[pair.places(n)] = self._solved[number][0].alpha
            elif number in self._current:
                full[pair.places(n)] = self._current[number][1].alpha
            elif self._begin[number] is not None:
                full[pair.places(n)] = self._begin[number]
        return result

    def run(self, limits: Limits, monitor: KernelMonitor) -> None:
        """Solve all problems within the limits."""
        if self._small is not None:
            self._solve_small(self._small, limits, monitor)
            if len(self._solved) == len(self.pairs):
                return
        if not solve_paths([[self]], limits, monitor) and time.perf_counter() >= limits.deadline:
            self._untouched = StopReason.MAX_TIME

    def _solve_small(self, small: SmallProblems, limits: Limits, monitor: KernelMonitor) -> None:
        """Solve small problems. What is left for `solve` begins at the multipliers that were reached."""
        numbers = [number for number in range(len(self.pairs)) if number not in self._solved | self._snapshots]
        problems = [(self.pairs[k].rows, self.pairs[k].problem, self._begin[k]) for k in numbers]
        for number, found in zip(numbers, small.solve(problems, limits.max_steps), strict=False):
            solution, n_steps, n_rows, is_solved = found
            reason = StopReason.CONVERGED if is_solved else StopReason.MAX_ITER
            if is_solved or n_steps >= limits.max_steps:
                self._solved[number] = solution, reason, n_steps
            else:
                self._begin[number], self._n_before[number] = solution.alpha, n_steps
            counts = CacheCounts(max(0, 2 * n_steps - n_rows), n_rows, n_rows)
            report = Report(solution.kkt_violation, solution.objective, n_steps, is_solved, is_solved, False)
            self._passes += len(self.pairs[number].rows) / len(self.labels)
            stop = monitor.observe(number, report, counts, self.gram.source.reads.nbytes)
            if number in self._solved:
                monitor.end()
            if monitor.checkpointer is not None:
                facts = {"problems": len(self._solved), "of": len(self.pairs), "iteration": n_steps, "gap": report.gap}
                tree = lambda: (self.checkpoint(), monitor.records())  # noqa: E731
                monitor.checkpointer.observe(tree, facts | {"objective": report.objective})
            if stop or time.perf_counter() >= limits.deadline:
                break

    def waiting(self) -> list[int]:
        """Return the numbers of the problems that are not solved, in the order in which they are to begin."""
        order = disjoint_order([pair.classes for pair in self.pairs])
        return [number for number in order if number not in self._solved]

    @property
    def arena_bytes(self) -> int:
        """Memory that a worker needs for kernel rows."""
        longest = max(len(pair.rows) for pair in self.pairs)
        return min(self._spent.cache_bytes, longest**2 * self.gram.dtype.itemsize)

    @property
    def workers(self) -> int:
        """Problems to be solved side by side."""
        return self._spent.workers

    def rows_of(self, number: int, arena: np.ndarray) -> ProblemRows:
        """Return the kernel rows of a problem."""
        rows, pair = self._rows_of(self.pairs[number], arena), self.pairs[number]
        return rows if pair.rows_of_sample == 1 else PairedRows(rows)

    def _rows_of(self, pair: TwoClass, arena: np.ndarray) -> SampleRows:
        if self._spent.recomputed and isinstance(self.gram, Gram):
            return RecomputedRows(self.gram.part(pair.rows, in_memory=True))
        return RowCache(self._gram_of(pair), arena, self._spent.frugal)

    def follow(self, number: int, before: "OneVsOneFit") -> None:
        """Begin a problem at its solution for other bounds; multipliers at their bounds take the new ones."""
        alpha, old, new = before._solved[number][0].alpha, before.pairs[number].upper, self.pairs[number].upper
        self._begin[number] = np.where(alpha >= old, new, alpha)

    def solve(self, number: int, rows: ProblemRows, limits: Limits, monitor: KernelMonitor) -> None:
        """Solve a problem on its kernel rows."""
        pair, passes = self.pairs[number], rows.passes
        given = Resources(self._spent, self._pool, number, limits.deadline)
        solver = self._solver_of(pair.problem, rows, given)
        state, before = self._initial_state(number, solver, rows)
        self._current[number] = solver, state
        worker = _Worker(solver, rows, before)

        def observe(state: Any, report: Report) -> bool:
            self._current[number] = solver, state
            stop = monitor.observe(number, report, rows.counts, self.gram.source.reads.nbytes)
            worker.n_steps += report.n_steps
            if monitor.checkpointer is not None and not report.converged:
                self._offer_checkpoint(monitor.checkpointer, monitor, number, worker, report)
            return stop

        limits = limits._replace(max_steps=max(0, limits.max_steps - before))
        state, reason, n_steps = drive(solver, state, limits, observe)
        self._solved[number] = solver.finish(state), reason, n_steps + before
        del self._current[number]
        self._snapshots.pop(number, None)
        self._passes += (rows.passes - passes) * len(pair.rows) / len(self.labels)
        monitor.end()

    def _initial_state(self, number: int, solver: Solver, rows: ProblemRows) -> tuple[Any, int]:
        """Return the state at which a problem begins, and its number of steps before."""
        snapshot = self._snapshots.get(number)
        if snapshot is None:
            return solver.init(self._begin[number]), self._n_before.get(number, 0)
        rows.refill(snapshot.cache)
        if snapshot.memory is not None:
            solver.recall(snapshot.memory)
        return copied(snapshot.state), snapshot.n_steps

    def _offer_checkpoint(
        self, checkpointer: Checkpointer, monitor: KernelMonitor, number: int, worker: "_Worker", report: Report
    ) -> None:
        """Offer a checkpoint of all problems; those of other workers are as of their last snapshots."""
        state = self._current[number][1]
        if self._spent.workers > 1 and worker.is_due():
            self._snapshots[number] = worker.snapshot(state)

        def tree() -> tuple[KernelFitState, list]:
            self._snapshots[number] = worker.snapshot(state)
            return self.checkpoint(), monitor.records()

        facts = {"problems": len(self._solved), "of": len(self.pairs), "iteration": worker.n_steps, "gap": report.gap}
        checkpointer.observe(tree, facts | {"objective": report.objective})

    def _gram_of(self, pair: TwoClass) -> KernelMatrix:
        """Return the kernel matrix of a problem."""
        if self._tiles:
            first, second = pair.classes
            return PairGram(self._tiles[first], self._tiles[second], self._pool)
        return self.gram.part(pair.rows, self._spent.part_resident)

    def outcome(self) -> Outcome:
        """Return the solutions so far; problems not yet begun have no support vectors and intercept 0."""
        reached = self._solved | {
            number: (solver.finish(state), StopReason.CALLBACK, 0)
            for number, (solver, state) in self._current.items()
            if number not in self._solved
        }
        numbers = range(len(self.pairs))
        found = [reached.get(k, (_NOT_BEGUN, self._untouched, 0)) for k in numbers]
        reasons = [reason for _, reason, _ in found if reason is not StopReason.CONVERGED]
        expanded = [
            self._expanded(pair, solution.alpha if k in reached else np.zeros(len(pair.y)))
            for k, pair, (solution, _, _) in zip(numbers, self.pairs, found, strict=True)
        ]
        labels = self.labels if self._repeats is None else self.labels[self._repeats.first]
        within = self._within([self.pairs[k].of_rows(one[0].within) for k, one in reached.items()])
        of_problem = [(*solution[2:], n_steps) for solution, _, n_steps in found]
        intercept, objective, gap, violation, margin, n_steps = np.array([*zip(*of_problem, strict=True)], np.float64)
        certificate = intercept, objective, gap, violation, margin, n_steps.astype(np.int64)
        rows, beta = [rows for rows, _ in expanded], [beta for _, beta in expanded]
        return Outcome(rows, beta, labels, within, *certificate, reasons[0] if reasons else StopReason.CONVERGED)

    def _within(self, rows: list[np.ndarray]) -> np.ndarray:
        """Return the union of some rows, with those that they represent."""
        inside = np.zeros(len(self.labels), bool)
        for each in rows:
            inside[each] = True
        return np.flatnonzero(inside if self._repeats is None else inside[self._repeats.first])

    def _expanded(self, pair: TwoClass, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and their y α, repeated rows included."""
        if self._repeats is None:
            return pair.rows, pair.coefficients(alpha)
        full = np.zeros(len(self.labels))
        full[pair.rows] = pair.coefficients(alpha)
        beta = np.sign(full[self._repeats.first]) * self._repeats.spread(np.abs(full))
        rows = np.flatnonzero(beta)
        return rows, beta[rows]


def solve_paths(paths: list[list[OneVsOneFit]], limits: Limits, monitor: KernelMonitor) -> bool:
    """Solve the problems of many fits and return whether none is left.

    The fits of a path share their rows and differ in their bounds. Each problem is solved for one fit of the path
    after the other, from the solution before, with the same cached kernel rows. A worker takes the next problem that
    no other worker has begun. The solution of a problem does not depend on the worker.
    """
    fits = [fit for path in paths for fit in path]
    waiting = deque((path, number) for path in paths for number in path[0].waiting())
    arena_bytes = max(fit.arena_bytes for fit in fits)

    def solve(path: list[OneVsOneFit], number: int, arena: np.ndarray) -> None:
        rows, before = path[0].rows_of(number, arena), None
        for fit in path:
            if before is not None:
                fit.follow(number, before)
            fit.solve(number, rows, limits, monitor)
            before = fit

    def worker() -> None:
        arena = np.empty(arena_bytes, np.uint8)
        while not monitor.stopped:
            try:
                path, number = waiting.popleft()
            except IndexError:  # nothing is left, or another worker took it
                return
            try:
                solve(path, number, arena)
            except BaseException:
                monitor.stopped = True  # the other workers
                raise
            if time.perf_counter() >= limits.deadline:
                return

    try:
        fits[0].gram.pool.run(worker, [()] * fits[0].workers)
    except BaseException:
        monitor.stopped = True  # the workers, if it was this thread that was interrupted
        raise
    return not waiting


class _Worker:
    """Takes snapshots of a problem that is being solved."""

    def __init__(self, solver: Solver, rows: ProblemRows, n_steps: int) -> None:
        self.solver, self.rows, self.n_steps = solver, rows, n_steps
        self._next = 0.0

    def is_due(self) -> bool:
        """Return whether the last snapshot is old."""
        return time.perf_counter() >= self._next

    def snapshot(self, state: Any) -> ProblemCheckpoint:
        """Return what is needed to resume from here."""
        self._next = time.perf_counter() + _SNAPSHOT_SECONDS
        return ProblemCheckpoint(copied(state), self.n_steps, self.solver.memory(), self.rows.contents())


def copied(state: Any) -> Any:
    """Return a copy of a state, whose arrays are changed in place."""
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else value for value in state))
