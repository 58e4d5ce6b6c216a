"""The two-class problems of a fit, solved in sequence or in parallel on kernel rows that they share."""

import functools
import math
import time
from collections import deque
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.kernel.duplicate_rows import Repeats
from fastsvm.estimators.kernel.progress import REFRESH_SECONDS, KernelMonitor
from fastsvm.estimators.kernel.solver_parameter import Resources, SolverOf
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.memory_plan import Plan
from fastsvm.kernel_matrix.rows import (
    CacheContents,
    PairedRows,
    ProblemRows,
    RecomputedRows,
    RowCache,
    SharedKernel,
    SharedPart,
    SharedRows,
)
from fastsvm.kernel_matrix.rows_on_demand import SmallKernel
from fastsvm.kernels import in_python
from fastsvm.multiclass import by_class, by_pair, disjoint_order
from fastsvm.solvers.kernel_dual.decomposition import Decomposition
from fastsvm.solvers.kernel_dual.dual_gradient import GradientBounds, sharpened
from fastsvm.solvers.kernel_dual.problem import KernelDualState, KernelSolution, Problems, solution_at_zero, solution_of
from fastsvm.solvers.kernel_dual.small import CERTIFICATE, SmallSMO, SmallState
from fastsvm.solvers.outer_loop import Limits, Report, Solver, StopReason, copied, drive

_REASONS = list(StopReason)
_CERTIFIED = slice(len(KernelSolution._fields) - 2)  # columns of intercept, objective, gap, violation and margin
_ERRORS, _LEVELS = [2, 3], [0, 4]  # of gap and violation, and of intercept and margin
_STEPS, _IS_SOLVED, _IS_ODD = (CERTIFICATE.index(name) for name in ("n_steps", "is_solved", "is_odd"))
_CONVERGED, _MAX_ITER = (_REASONS.index(reason) for reason in (StopReason.CONVERGED, StopReason.MAX_ITER))
_OPEN = len(_REASONS)  # It stands in place of the number of a reason.


class _Running(NamedTuple):
    """A problem that is being solved, and its steps so far."""

    solver: Solver
    state: Any  # It is a NamedTuple with multipliers, `alpha`, as all states of solvers here.
    n_steps: int


@storable("kernel problem")
class ProblemCheckpoint(NamedTuple):
    """A problem that is being solved: state, steps so far, the solver's other memory, and the cached rows."""

    state: Any
    n_steps: int
    memory: tuple | None
    cache: CacheContents


@storable("kernel fit")
class KernelFitState(NamedTuple):
    """Checkpoint of a fit: solution, stop reason and steps of solved problems, current ones, and passes."""

    solved: dict[int, tuple]
    current: dict[int, ProblemCheckpoint]
    passes: float


class Solutions:
    """Solution, stop reason and number of steps of each problem, in arrays, as there may be a hundred thousand.

    The multipliers of a problem begin at its entry of `starts`, shape (n_problems + 1,). `within` marks rows on or
    within the margin. `certificate` has intercept, objective, duality gap, violation and margin in its columns, and
    `reasons` numbers of stop reasons, `_OPEN` for problems that are not solved, whose certificates are undefined.
    """

    def __init__(self, starts: np.ndarray) -> None:
        self.starts, n_problems = starts, len(starts) - 1
        self.alpha, self.within = np.zeros(starts[-1]), np.zeros(starts[-1], bool)
        self.certificate, self.n_steps = np.empty((n_problems, _CERTIFIED.stop)), np.zeros(n_problems, np.int64)
        self.reasons = np.full(n_problems, _OPEN, np.int8)

    def _part(self, number: int) -> slice:
        return slice(self.starts[number], self.starts[number + 1])

    def __len__(self) -> int:
        return int(np.count_nonzero(self.reasons != _OPEN))

    def __contains__(self, number: int) -> bool:
        return bool(self.reasons[number] != _OPEN)

    def __getitem__(self, number: int) -> tuple[KernelSolution, StopReason, int]:
        part = self._part(number)
        solution = KernelSolution(self.alpha[part], self.within[part], *self.certificate[number].tolist())
        return solution, _REASONS[self.reasons[number]], int(self.n_steps[number])

    def __setitem__(self, number: int, ended: tuple[KernelSolution, StopReason, int]) -> None:
        (alpha, within, *certificate), reason, n_steps = ended
        part = self._part(number)
        self.alpha[part], self.within[part], self.certificate[number] = alpha, False, certificate
        self.within[part][within] = True  # a mask, or the numbers of rows
        self.n_steps[number], self.reasons[number] = n_steps, _REASONS.index(StopReason(reason))

    def copy(self) -> "Solutions":
        """Return a copy, to be added to."""
        other = Solutions(self.starts)
        for name in ("alpha", "within", "certificate", "n_steps", "reasons"):
            getattr(other, name)[:] = getattr(self, name)
        return other


@jit
def _put(solutions, numbers, alpha, certificates, most_steps):
    """Write small problems that are solved or took the most steps, and return how many others there are."""
    starts, all_alpha, within, certificate, n_steps, reasons = solutions
    end, n_open = 0, 0
    for k in range(numbers.size):
        number, row = numbers[k], certificates[k]
        size = starts[number + 1] - starts[number]
        end += size
        if row[_IS_SOLVED] == 0 and row[_STEPS] < most_steps:
            n_open += 1
            continue
        for i in range(size):
            multiplier, place = alpha[end - size + i], starts[number] + i
            all_alpha[place], within[place] = multiplier, multiplier > 0
        for c in range(certificate.shape[1]):
            certificate[number, c] = row[c]
        n_steps[number], reasons[number] = row[_STEPS], _CONVERGED if row[_IS_SOLVED] > 0 else _MAX_ITER
    return n_open


class Outcome(NamedTuple):
    """Solutions, and why the fit stopped.

    The `rows` and coefficients `beta` of a problem begin at its entry of `starts`. `labels` are the classes of all
    rows, `within` the numbers of rows within a margin. `begun` is false where multipliers are the zeros of a problem
    not begun.
    """

    starts: np.ndarray
    rows: np.ndarray
    beta: np.ndarray
    labels: np.ndarray
    within: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray
    margin: np.ndarray
    n_steps: np.ndarray
    begun: np.ndarray
    stop_reason: StopReason
    passes: int


class KernelFit:
    """The problems of a fit over the rows of one kernel matrix.

    `labels` has the class number of every row, -1 for rows that are in no problem, as those that `repeats` merged.
    `plan_memory` returns the plan of the memory, `solver_of` makes the solver of a problem. `small` is the kernel of
    problems that are small, and `tol` their largest gap at the end.
    """

    def __init__(
        self,
        gram: Gram | SharedKernel,
        problems: Problems,
        labels: np.ndarray,
        plan_memory: Callable[[], Plan],
        solver_of: SolverOf,
        repeats: Repeats | None = None,
        small: SmallKernel | None = None,
        tol: float = 0.0,
    ) -> None:
        self.gram, self.labels, self._repeats = gram, labels, repeats
        self._plan_memory, self._solver_of, self.small, self._tol = plan_memory, solver_of, small, tol
        self.problems = problems
        self._begin: dict[int, np.ndarray] = {}
        self._n_before: dict[int, int] = {}  # steps of problems that were begun as small ones
        self._solved = Solutions(problems.starts)
        self._current: dict[int, _Running] = {}
        self._snapshots: dict[int, ProblemCheckpoint] = {}
        self._kept_at: dict[int, float] = {}  # when the snapshots were taken
        self._passes = 0.0
        self._folds: list[KernelFit] = []
        self._scores: np.ndarray | None = None  # of a fold, the values of the last decision function that was solved
        self._untouched = StopReason.CALLBACK  # why the other problems were not begun
        self.solved_by: str | None = None  # the name of the solver of small problems, if it solved them all

    @functools.cached_property
    def plan(self) -> Plan:
        """Division of the memory: sizes of working set, caches and tiles."""
        return self._plan_memory()

    @functools.cached_property
    def _pool(self) -> Pool:
        """Threads of one problem."""
        return self.gram.pool if self.plan.workers == 1 else Pool(1)

    def part(self, share: float) -> "KernelFit":
        """Return the fit of a random share of the samples, with the sizes of this one."""
        few = np.where(np.random.default_rng(0).random(len(self.labels)) < share, self.labels, -1)
        problems = self.problems.among(few >= 0)
        counts = np.bincount(few[few >= 0], minlength=int(problems.classes.max()) + 1)
        problems = problems.take(np.flatnonzero(counts[problems.classes].all(axis=1)))  # a class may have no sample
        return KernelFit(self.gram, problems, few, lambda: self.plan, self._solver_of)

    def add_fold(self, problems: Callable[[np.ndarray, np.ndarray], Problems], upper: np.ndarray) -> "KernelFit":
        """Return a fit that does not see rows whose bound is 0, which `run` is to solve too.

        It begins at the solution of this fit, on the same kernel rows, whose values are taken for the kernel.
        """
        if self._repeats is not None:
            upper = np.bincount(self._repeats.first, upper, len(upper))
        own = problems(self.labels, upper)
        stated = self.problems._replace(upper=own.upper, totals=own.totals)  # rows and signs are held once
        fold = KernelFit(
            self.gram, stated, self.labels, lambda: self.plan, self._solver_of, None, self.small, self._tol
        )
        fold._scores = np.full(len(self.labels), np.nan)
        self._folds.append(fold)
        return fold

    def fold_scores(self, fold: "KernelFit") -> np.ndarray | None:
        """Return the values of the decision function of a fold at all samples, which its last step left.

        None if it has several decision functions, each of other samples, or small problems.
        """
        if self.problems.n_problems > 1 or fold._scores is None or np.isnan(fold._scores[fold.problems.samples]).any():
            return None
        return fold._scores if self._repeats is None else fold._scores[self._repeats.first]

    @property
    def _n_others(self) -> int:
        """Number of classes but one, 1 if there is one problem."""
        return int(self.problems.classes.max()) if self.problems.n_problems > 1 else 1

    def has_as_many(self, multipliers: np.ndarray) -> bool:
        """Return whether multipliers of an earlier fit are as many as those of this one."""
        return np.shape(multipliers) == (self._n_others, len(self.labels) * self.problems.multipliers_per_sample)

    def start(self, multipliers: np.ndarray) -> None:
        """Begin at the multipliers of an earlier fit, as `multipliers` returns them."""
        if self.problems.n_problems == 1:
            self._begin[0] = multipliers[0, self.problems.places(len(self.labels))]
        else:
            alpha = by_pair(multipliers, self.problems.samples, self.problems.starts, self.labels)
            self._begin = dict(enumerate(np.split(alpha, self.problems.starts[1:-1])))

    def resume(self, checkpoint: KernelFitState) -> None:
        """Resume a fit of the same problems."""
        for number, (solution, reason, n_steps) in checkpoint.solved.items():
            self._solved[number] = solution, reason, n_steps
        self._snapshots, self._passes = dict(checkpoint.current), checkpoint.passes

    def checkpoint(self) -> KernelFitState:
        """Return a checkpoint, in which each problem that is being solved is as of its last snapshot."""
        solved = {number: self._solved[number] for number in np.flatnonzero(self._solved.reasons != _OPEN).tolist()}
        return KernelFitState(solved, dict(self._snapshots), self._passes)

    def multipliers(self) -> np.ndarray:
        """Return α of all rows, a row for each class but one; problems not yet begun have that of their start."""
        starts, samples = self.problems.starts, self.problems.samples
        alpha = self._solved.alpha.copy()
        reached = self._begin | {number: one.state.alpha for number, one in self._current.items()}
        for number, values in reached.items():
            if number not in self._solved:
                alpha[starts[number] : starts[number + 1]] = values
        if self.problems.n_problems > 1:
            return by_class(alpha, samples, starts, self.labels, self._n_others + 1)
        full = np.zeros((1, len(self.labels) * self.problems.multipliers_per_sample))
        full[0, self.problems.places(len(self.labels))] = alpha
        return full

    def run(self, limits: Limits, monitor: KernelMonitor) -> None:
        """Solve all problems within the limits, and those of the folds."""
        self._run(limits, monitor)
        multipliers = self.multipliers() if self._folds else np.empty(0)
        for fold in self._folds:
            if fold.waiting():  # of small problems, and of those that were solved before an interruption
                fold.start(multipliers)
                fold._run(limits, KernelMonitor())

    def _run(self, limits: Limits, monitor: KernelMonitor) -> None:
        if self.small is not None:
            self._solve_small(self.small, limits, monitor)
            if len(self._solved) == self.problems.n_problems:
                self.solved_by = self.small.name
                return
        if not solve_paths([[self]], limits, monitor) and time.perf_counter() >= limits.deadline:
            self._untouched = StopReason.MAX_TIME

    def _solve_small(self, small: SmallKernel, limits: Limits, monitor: KernelMonitor) -> None:
        """Solve small problems. What is left for `solve` begins at the multipliers that were reached."""
        numbers = (self._solved.reasons == _OPEN).nonzero()[0]
        if self._snapshots:
            numbers = np.setdiff1d(numbers, list(self._snapshots))
        problems, tuning = self.problems.take(numbers), self.gram.tuning
        solver = SmallSMO(problems, small, self._tol, limits.max_steps, self.gram.pool, tuning)
        begin = {place: self._begin[k] for place, k in enumerate(numbers.tolist()) if k in self._begin}
        n_multipliers, n_seen = len(self.labels) * problems.multipliers_per_sample, 0
        at_once = 1 if monitor.sees_each else max(1, len(numbers))

        def watch(state: SmallState, report: Report) -> bool:
            nonlocal n_seen
            before, n_seen = n_seen, state.n_done
            for a, b in spans(n_seen - before, at_once):
                some = slice(before + a, before + b)
                n_solved = self._take_over(problems, numbers, state, some, limits.max_steps)
                self._passes += (problems.starts[some.stop] - problems.starts[some.start]) / n_multipliers
                monitor.count_solved(n_solved)
                certificates = state.certificate[some]
                stop = monitor.observe_small(numbers[some], certificates, self.gram.source.reads.nbytes)
                if monitor.checkpointer is not None:
                    last = dict(zip(CERTIFICATE, certificates[-1].tolist(), strict=True))
                    facts = self._facts(int(last["n_steps"]), last["kkt_violation"], last["objective"])
                    monitor.checkpointer.observe(lambda: (self.checkpoint(), monitor.records()), facts)
                if stop:
                    return True
            return False

        drive(solver, solver.init(begin), Limits(len(numbers), limits.deadline), watch)

    def _take_over(
        self, problems: Problems, numbers: np.ndarray, state: SmallState, some: slice, max_steps: int
    ) -> int:
        """Keep the solutions of some small problems, and return how many; keep where the others are to begin."""
        certificates, starts = state.certificate[some], problems.starts
        for k in certificates[:, _IS_ODD].nonzero()[0].tolist():
            part, number = slice(starts[some.start + k], starts[some.start + k + 1]), int(numbers[some][k])
            self._check_finite(number, *certificates[k, _CERTIFIED].tolist())
            judged = self._judged(number, state.alpha[part])
            certificates[k, _CERTIFIED], certificates[k, _IS_SOLVED] = judged[2:], judged.kkt_violation <= self._tol
        alpha = state.alpha[starts[some.start] : starts[some.stop]]
        solved = self._solved
        arrays = solved.starts, solved.alpha, solved.within, solved.certificate, solved.n_steps, solved.reasons
        n_open = int(_put(arrays, numbers[some], alpha, certificates, max_steps))
        is_open = solved.reasons[numbers[some]] == _OPEN if n_open else np.empty(0)
        for k in is_open.nonzero()[0].tolist():
            part, number = slice(starts[some.start + k], starts[some.start + k + 1]), int(numbers[some][k])
            self._begin[number], self._n_before[number] = state.alpha[part].copy(), int(certificates[k, _STEPS])
        return some.stop - some.start - n_open

    def _facts(self, n_steps: int, violation: float, objective: float) -> dict[str, float]:
        """Return what a checkpoint says of the fit."""
        counts = {"problems": len(self._solved), "of": self.problems.n_problems, "iteration": n_steps}
        return counts | {"violation": violation, "objective": objective}

    def _judged(self, number: int, alpha: np.ndarray) -> KernelSolution:
        """Return the solution of a small problem with its certificate and its intercept from F in more digits."""
        problem, k = self.problems.problem(number), self.problems.multipliers_per_sample
        gram = self.gram.part(self.problems.samples_of(number), True)
        bounds = GradientBounds(problem, gram.samples, gram.value_bounds())
        beta = (alpha * problem.y).reshape(k, -1).sum(axis=0)
        support = np.flatnonzero(beta)
        sums = np.tile(gram.weighted_sum(support, beta[support]), k)
        state = KernelDualState(alpha, sums - problem.target, support)
        return solution_of(problem, *sharpened(problem, state, bounds.errors(state), self._tol, bounds), self._tol)

    def waiting(self) -> list[int]:
        """Return the numbers of the problems that are not solved, in the order in which they are to begin."""
        order = disjoint_order([(a, b) for a, b in self.problems.classes.tolist()])
        return [number for number in order if number not in self._solved]

    @property
    def arena_bytes(self) -> int:
        """Memory that a worker needs for kernel rows."""
        longest = int(self.problems.sizes.max())
        return min(self.plan.cache_bytes, longest**2 * self.gram.dtype.itemsize)

    def rows_of(self, number: int, arena: np.ndarray) -> ProblemRows:
        """Return the kernel rows of a problem."""
        rows: RowCache | RecomputedRows | SharedRows | None = None
        gram = self.gram.part(
            self.problems.samples_of(number), self.plan.part_loaded or self.plan.recomputed, self._pool
        )
        if self.plan.recomputed and isinstance(gram, Gram):
            rows = RecomputedRows(gram)
        elif isinstance(gram, SharedPart) and len(gram) > self.plan.working_set:
            rows = gram.rows_in_place()
        rows = rows or RowCache(gram, arena)
        return rows if self.problems.multipliers_per_sample == 1 else PairedRows(rows)

    def solve(
        self, number: int, rows: ProblemRows, limits: Limits, monitor: KernelMonitor, before: _Running | None = None
    ) -> _Running:
        """Solve a problem on its kernel rows, maybe from where that of another fit ended; return where it ends."""
        passes = rows.gram.passes
        means = Resources(self.plan, self._pool, number, limits.deadline, self.gram.tuning)
        solver = self._solver_of(self.problems.problem(number), rows, means)
        if self._scores is not None and isinstance(solver, Decomposition):
            solver.trust_values()
        if before is None:
            state, n_before = self._initial_state(number, solver, rows)
        else:
            # All machines that share kernel values have such a solver.
            assert isinstance(solver, Decomposition) and isinstance(before.solver, Decomposition)
            assert isinstance(before.state, KernelDualState)
            state, n_before = solver.follow(before.solver, before.state), 0
        self._current[number] = _Running(solver, state, n_before)

        def observe(state: Any, report: Report) -> bool:
            self._current[number] = _Running(solver, state, self._current[number].n_steps + report.n_steps)
            self._check_finite(number, report.objective)
            stop = monitor.observe(number, report, rows.counts, self.gram.source.reads.nbytes)
            if monitor.checkpointer is not None and not report.converged:
                self._offer_checkpoint(monitor, number, report, rows)
            return stop

        limits = limits._replace(max_steps=max(0, limits.max_steps - n_before))
        state, reason, n_steps = drive(solver, state, limits, observe)
        solution = solver.finish(state)
        self._check_finite(number, solution.objective, solution.intercept, solution.duality_gap)
        self._solved[number] = solution, reason, n_steps + n_before
        del self._current[number]
        if self._scores is not None and isinstance(state, KernelDualState):
            samples, target = self.problems.samples_of(number), self.problems.problem(number).target
            margin = solution.margin if self.problems.groups > 1 and solution.margin > 0 else 1.0
            self._scores[samples] = (state.gradient + target + solution.intercept) / margin
        self._snapshots.pop(number, None)
        self._passes += (rows.gram.passes - passes) * int(self.problems.sizes[number]) / len(self.labels)
        monitor.count_solved()
        return _Running(solver, state, n_steps)

    def _check_finite(self, number: int, *results: float) -> None:
        """Raise ValueError if a result of a problem overflowed: its sums contain each kernel value that was used."""
        if all(map(math.isfinite, results)):
            return
        self._current.pop(number, None)  # the next fit must not begin there
        problem = self.problems.problem(number)
        gram = self.gram if isinstance(self.gram, Gram) else self.gram.gram
        function = getattr(gram.pairwise, "function", "precomputed")
        kernel = in_python(gram.pairwise.kernel) if hasattr(gram.pairwise, "kernel") else function
        raise ValueError(
            f"The objective overflows: the kernel is {kernel}, bounds of the multipliers are as large as "
            f"{problem.upper.max():.3g}, and targets as large as {np.abs(problem.target).max():.3g}. If kernel "
            "values are large, scale the features (standardize=True does), or lower degree or gamma. Else lower C, the "
            "sample weights or the targets."
        )

    def _initial_state(self, number: int, solver: Solver, rows: ProblemRows) -> tuple[Any, int]:
        """Return the state at which a problem begins, and its number of steps before."""
        snapshot = self._snapshots.get(number)
        if snapshot is None:
            return solver.init(self._begin.get(number)), self._n_before.get(number, 0)
        rows.refill(snapshot.cache)
        if snapshot.memory is not None:
            solver.recall(snapshot.memory)
        return copied(snapshot.state), snapshot.n_steps

    def _offer_checkpoint(self, monitor: KernelMonitor, number: int, report: Report, rows: ProblemRows) -> None:
        """Offer a checkpoint of all problems, those of other workers as of their last snapshots."""
        assert monitor.checkpointer is not None
        solver, state, n_steps = self._current[number]

        def keep() -> None:
            self._kept_at[number] = time.perf_counter()
            self._snapshots[number] = ProblemCheckpoint(copied(state), n_steps, solver.memory(), rows.contents())

        def tree() -> tuple[KernelFitState, list]:
            keep()
            return self.checkpoint(), monitor.records()

        if self.plan.workers > 1 and time.perf_counter() >= self._kept_at.get(number, 0.0) + REFRESH_SECONDS:
            keep()

        monitor.checkpointer.observe(tree, self._facts(n_steps, report.gap, report.objective))

    def outcome(self) -> Outcome:
        """Return the solutions so far; problems not yet begun have no support vectors and intercept 0."""
        solutions, current = self._solved, {k: one for k, one in self._current.items() if k not in self._solved}
        begun = np.ones(self.problems.n_problems, bool)
        if len(solutions) < self.problems.n_problems:
            solutions = solutions.copy()
            for number in np.flatnonzero(solutions.reasons == _OPEN).tolist():
                if number in current:  # a callback asks for the model
                    solver, state, n_steps = current[number]
                    solutions[number] = solver.finish(state), StopReason.CALLBACK, n_steps
                elif number in self._n_before:
                    solution = self._judged(number, self._begin[number])
                    solutions[number] = solution, self._untouched, self._n_before[number]
                else:
                    solutions[number] = solution_at_zero(self.problems.problem(number)), self._untouched, 0
                    begun[number] = False
        starts, rows = self.problems.starts, self.problems.samples
        certificates, is_within = solutions.certificate.copy(), self.problems.per_sample(solutions.within)
        beta = self.problems.per_sample(solutions.alpha * self.problems.y)
        if self._repeats is None:
            labels, within = self.labels, rows[is_within]
            if self.problems.n_problems > 1:
                is_inside = np.zeros(len(self.labels), bool)
                is_inside[within] = True
                within = is_inside.nonzero()[0]
        else:
            labels = self.labels[self._repeats.first]
            within = np.flatnonzero(np.bincount(rows[is_within], minlength=len(labels))[self._repeats.first])
            starts, rows, beta = self._repeated(beta, certificates)
        if self.problems.multipliers_per_sample > 1:
            starts = np.array([0, len(rows)])
        reason = StopReason.of_all(_REASONS[number] for number in set(solutions.reasons.tolist()))
        intercept, objective, gap, violation, margin = certificates.T.copy()
        certificate = intercept, objective, gap, violation, margin, solutions.n_steps, begun
        return Outcome(starts, rows, beta, labels, within, *certificate, reason, round(self._passes))

    def _repeated(self, beta: np.ndarray, certificate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return starts, rows and coefficients of all rows, and add the rounding of their sums to the certificate."""
        assert self._repeats is not None
        parts = []
        ends = np.cumsum(self.problems.sizes)
        for number, mine in enumerate(np.split(beta, ends[:-1])):
            full = np.zeros(len(self.labels))
            full[self.problems.samples_of(number)] = mine
            alpha = self._repeats.spread(np.abs(full))
            off = self._repeats.rounding(np.abs(full), alpha)
            if off.any():
                # What multipliers that are off by so much may add to the gap and the violation.
                sizes, upper = self._value_sizes, self.problems.problem(number).upper
                of_decisions = float(sizes[self.problems.samples_of(number)].max() * (off @ sizes))
                of_levels = float(off.sum()) * float(np.abs(certificate[number, _LEVELS]).sum())
                certificate[number, _ERRORS] += 2 * of_decisions * float(upper.sum()) + of_levels, 2 * of_decisions
            spread = np.sign(full[self._repeats.first]) * alpha
            rows = np.flatnonzero(spread)
            parts.append((rows, spread[rows]))
        starts = np.array([0, *accumulate(len(rows) for rows, _ in parts)])
        return starts, np.concatenate([rows for rows, _ in parts]), np.concatenate([beta for _, beta in parts])

    @functools.cached_property
    def _value_sizes(self) -> np.ndarray:
        """Square roots of bounds on the kernel values of all rows, which take a pass over the samples."""
        gram = self.gram if isinstance(self.gram, Gram) else self.gram.gram
        return gram.value_bounds().sizes


def solve_paths(paths: list[list[KernelFit]], limits: Limits, monitor: KernelMonitor) -> bool:
    """Solve the problems of many fits and return whether none is left.

    The fits of a path differ in their bounds: each problem is solved for one after the other, from the solution before,
    on the same cached rows, and then for the folds of the last one. A solution does not depend on the worker.
    """
    fits = [fit for path in paths for fit in path]
    waiting = deque((path, number) for path in paths for number in path[0].waiting())
    arena_bytes = max(fit.arena_bytes for fit in fits)

    def solve(path: list[KernelFit], number: int, arena: np.ndarray) -> None:
        rows, before = path[0].rows_of(number, arena), None
        for fit in path:
            before = fit.solve(number, rows, limits, monitor, before)
        for fold in path[-1]._folds:
            fold.solve(number, rows, limits, KernelMonitor(), before)

    def worker() -> None:
        arena = np.empty(arena_bytes, np.uint8)
        while not monitor.stopped:
            if time.perf_counter() >= limits.deadline and any(len(fit._solved) for fit in fits):
                return
            try:
                path, number = waiting.popleft()
            except IndexError:  # nothing is left, or another worker took it
                return
            try:
                solve(path, number, arena)
            except BaseException:
                monitor.stopped = True  # the other workers
                raise

    try:
        fits[0].gram.pool.run(worker, [()] * fits[0].plan.workers)
    except BaseException:
        monitor.stopped = True  # the workers, if it was this thread that was interrupted
        raise
    return not waiting
