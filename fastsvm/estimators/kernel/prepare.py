"""From samples and what a machine asks of them to its problems, within a memory plan and with the time expected."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.choice import KernelFacts, kernel_solver
from fastsvm.estimators.fitting.session import warn_caller
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.duplicate_rows import Repeats
from fastsvm.estimators.kernel.kernel_parameter import (
    Attributes,
    Standardization,
    attributes_of,
    check_values,
    geometry_of,
    is_precomputed,
    resolve_gamma,
    training_pairwise,
    training_rows,
    warn_of_lengths,
    warn_of_targets,
)
from fastsvm.estimators.kernel.one_vs_one import KernelFit
from fastsvm.estimators.kernel.progress import KernelMonitor
from fastsvm.estimators.kernel.solver_parameter import MachineParameters, is_dual, most_steps, solver_of
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.memory_plan import Need, Plan, plan
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, RealPairwise, Uint8Pairwise
from fastsvm.kernel_matrix.rows_on_demand import SmallKernel, has_rows_on_demand, on_demand
from fastsvm.solvers.kernel_dual.problem import Problems
from fastsvm.solvers.outer_loop import Limits
from fastsvm.sources import Source
from fastsvm.tuning import KernelTuning

# A row of a two-class problem has a number, label, bound, multiplier, and three of its coefficient.
_PROBLEM_BYTES = np.dtype("7f8").itemsize
_RECORD_BYTES = 300  # A two-class problem has its classes, and twice its certificate and its record in the history.
_STATES = {1: 1, 2: 5}  # The state of a second multiplier of each row takes as much as four such rows.
_EXPONENT = 1.7  # Seconds grow by this power of the samples: 1.3 to 2 on tables and images of up to 300,000 samples.
# With so many matrices in float64, of the samples with each other and of their features, Newton steps have room.
_MATRICES = 48


class Statement(NamedTuple):
    """What a machine asks of its samples; `classes` is empty for one without classes.

    `labels` has the class number of each sample, -1 for those that are left out, and `upper` the bound of its
    multipliers. `problems(labels, upper)` returns the problems, also where duplicates are merged. `kinds()` has one
    number for samples of one label or target, None if all differ. `more` has attributes that are known before the
    solution.
    """

    classes: np.ndarray
    labels: np.ndarray
    upper: np.ndarray
    problems: Callable[[np.ndarray, np.ndarray], Problems]
    more: Attributes
    kinds: Callable[[], np.ndarray | None]


def enough_memory(source: Source, n_threads: int) -> int:
    """Return bytes with which a fit is planned as with any more."""
    n, d = source.shape
    return 8 * (_MATRICES + 2 * n_threads) * n * (n + d) + source.held + source.stored_bytes


def prepare(
    estimator: MachineParameters,
    data: TrainingSet,
    stated: Statement,
    budget: int,
    pool: Pool,
    observed: bool,
    tuning: KernelTuning,
) -> tuple[KernelFit, Source, Attributes]:
    """Return a fit within `budget` bytes, the samples in their own type, and the attributes that are known already.

    If the fit is `observed`, there are callbacks, which only one thread may call.
    """
    weight = data.weight if data.weighted else None
    standardization = Standardization.of(data.source, weight) if estimator.standardize else None
    held = data.source.held
    rows = training_rows(estimator, data.source, standardization, weight, budget - held, pool, tuning)
    source = rows.source
    if is_precomputed(estimator):
        if source.shape[0] != source.shape[1]:
            size = f"{source.shape[0]}x{source.shape[1]}"
            raise ValueError(f"Precomputed matrix must be a square matrix. Input is a {size} matrix.")
    elif standardization is None:
        warn_of_lengths(type(estimator).__name__, rows.statistics, source)
    if source is not data.source:
        held += source.nbytes - source.stored_bytes
    labels, upper = stated.labels, stated.upper
    gamma = resolve_gamma(estimator.gamma, source.shape[1], rows.statistics.variance)
    bound = float(upper.max())
    of_class = np.bincount(labels[labels >= 0], minlength=1)
    # Few rows are soon learnt, and multipliers of equal rows are told apart problem by problem.
    few = tuning.few_rows_of_bytes if source.of_bytes else tuning.few_rows
    may_repeat = tuning.merged and sum(sorted(of_class.tolist())[-2:]) > few
    repeats = Repeats.find(source, stated.kinds, upper, tuning) if may_repeat and is_dual(estimator) else None
    labels, upper = (labels, upper) if repeats is None else (repeats.labels(labels), repeats.bounds())
    problems = stated.problems(labels, upper)
    n = int(problems.sizes.max())
    bound *= 2 if estimator.loss == "squared_hinge" else 1  # its slope at a score of 0
    pairwise = training_pairwise(estimator, gamma, rows, bound, n, tuning)
    if not len(stated.classes):
        warn_of_targets(type(estimator).__name__, getattr(pairwise, "kernel", None), data.y, stated.upper)

    def plan_of_memory() -> Plan:
        counts = np.bincount(labels[labels >= 0], minlength=1)  # of each class; the largest two are a problem
        n = sum(sorted(counts.tolist())[-2:])
        recomputable = is_dual(estimator) and pairwise.parallel and (rows.source.resident or n == len(rows.source))
        need = _need(rows.source, pairwise, counts, n, problems.multipliers_per_sample, recomputable)
        # Pairs of classes are solved side by side where kernel values take so little time that threads would wait.
        is_divided = len(counts) > 2 and isinstance(pairwise, Uint8Pairwise) and not observed
        workers = pool.n_threads if is_divided and rows.source.resident else 1
        return _planned(estimator, budget, need._replace(held_bytes=held, workers=workers), tuning)

    if not source.resident and plan_of_memory().loaded:
        source = source.in_memory()
    gram = Gram(pairwise, source, pool, tuning=tuning)
    check_values(gram, rows.statistics.sq_norm)
    small, make = _small(estimator, gram, problems, n, budget - held), solver_of(estimator)
    try:
        task = KernelFit(gram, problems, labels, plan_of_memory, make, repeats, small, estimator.tol)
        needed = enough_memory(source, pool.n_threads) + _problem_bytes(len(stated.classes), len(labels), 1)
        if small is None or (problems.n_problems > 1 and budget < needed):
            _ = task.plan  # If memory does not suffice, the error comes before the fit begins.
    except ValueError:  # too little memory beside the samples, which may do where they are read in each pass
        if data.stored is None:
            raise
        data = data._replace(source=data.stored.within(budget), stored=None)
        return prepare(estimator, data, stated, budget, pool, observed, tuning)
    samples = source if rows.source is data.source else data.source
    return task, samples, stated.more | geometry_of(gamma, rows.statistics) | attributes_of(standardization)


def _small(
    estimator: MachineParameters, gram: Gram, problems: Problems, longest: int, budget: int
) -> SmallKernel | None:
    """Return the kernel of problems that are small, where the solver takes steps of two multipliers; else None."""
    if estimator.solver != "smo":
        return None
    (n, d), pairwise, tuning = gram.source.shape, gram.pairwise, gram.tuning
    facts = KernelFacts(
        longest=longest, n_problems=problems.n_problems, n_samples=n, n_features=d,
        multipliers_per_sample=problems.multipliers_per_sample, ns_of_value=pairwise.cost(d),
        is_exact=pairwise.dtype == np.float64 and gram.resident, memory=budget // 2, n_threads=gram.pool.n_threads,
        on_demand=isinstance(pairwise, RealPairwise) and has_rows_on_demand(pairwise.kernel),
    )  # fmt: skip
    solver = kernel_solver(facts, tuning)
    if solver == "small-rows":
        assert isinstance(pairwise, RealPairwise)
        parts = [block.dense(np.dtype(np.float64)) for _, block in gram.source.blocks()]
        samples = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return on_demand(pairwise, writeable(np.ascontiguousarray(samples)))
    if solver == "small-matrix":
        return SmallKernel.of_square(gram.square(), gram.value_bounds())
    return None


def plan_shared(estimator: MachineParameters, gram: Gram, n: int, per_sample: int, budget: int) -> Plan | None:
    """Return the plan of fits that take kernel rows from one matrix, whose share is `tile_bytes`, of `budget` bytes.

    As many workers are planned as leave memory for the matrix; None if not even half of it fits beside one. The largest
    problem has `n` rows.
    """
    whole = len(gram) ** 2 * gram.dtype.itemsize
    need = _need(gram.source, gram.pairwise, np.array([n]), n, per_sample)
    need = need._replace(copied_bytes=0, tile_bytes=whole)
    limit = whole if estimator.cache_size is None else int(estimator.cache_size * 2**20)
    for workers in range(gram.pool.n_threads if budget > 0 else 0, 0, -1):
        try:
            division = _planned(estimator, budget, need._replace(workers=workers), gram.tuning)
        except ValueError:  # not even one working set fits; a fit by itself will say so
            return None
        shared = min(division.tile_bytes, limit)
        if division.shared and shared >= (whole if workers > 1 else whole // 2):
            return division._replace(shared=False, tile_bytes=shared)
    return None


def _problem_bytes(n_classes: int, n: int, per_sample: int) -> int:
    """Return the bytes of the problems of all pairs of classes, or of one, of `n` samples in all."""
    states = _STATES[per_sample] * max(1, n_classes - 1)
    return _PROBLEM_BYTES * states * n + _RECORD_BYTES * max(1, n_classes * (n_classes - 1) // 2)


def _need(
    source: Source,
    pairwise: PairwiseKernel,
    counts: np.ndarray,
    n: int,
    per_sample: int,
    recomputable: bool = False,
) -> Need:
    """Return what is asked for by problems of classes of `counts` rows, the largest of `n` rows."""
    is_converted = isinstance(pairwise, RealPairwise) and pairwise.converts(source)
    converted = n * source.shape[1] * pairwise.dtype.itemsize if is_converted else 0
    return Need(
        n_rows=n,
        row_bytes=pairwise.row_bytes(source),
        value_bytes=pairwise.dtype.itemsize,
        problem_bytes=_problem_bytes(len(counts), int(counts.sum()), per_sample) + converted,
        stored_bytes=source.stored_bytes,
        n_stored_rows=len(source),
        copied_bytes=0 if n == len(source) else source.nbytes * n // len(source),
        block_rows=min(source.block_rows, len(source)),
        value_cost=pairwise.cost(source.shape[1]),
        recomputable=recomputable,
    )


def _planned(estimator: MachineParameters, budget: int, need: Need, tuning: KernelTuning) -> Plan:
    return plan(budget, need, None if estimator.cache_size is None else int(estimator.cache_size * 2**20), tuning)


def expected_seconds(estimator: MachineParameters, task: KernelFit) -> float:
    """Return the expected seconds of a fit. The fit of a part of the samples is timed."""
    share = min(1.0, task.gram.tuning.timed_samples / int(task.problems.sizes.max()))
    part, begin = task.part(share), time.perf_counter()
    part.run(Limits(most_steps(estimator, len(part.labels)), np.inf), KernelMonitor())
    return (time.perf_counter() - begin) * share**-_EXPONENT


def warn_of_time(estimator: MachineParameters, task: KernelFit, other: str) -> None:
    """Warn if a fit of many samples is expected to take long, and name the `other` estimator that takes less time."""
    n, tuning = int(task.problems.sizes.max()), task.gram.tuning
    if n < tuning.many_samples or estimator.solver != "smo" or estimator.max_time is not None:
        return
    seconds = expected_seconds(estimator, task)
    if seconds >= tuning.long_seconds:
        seconds = min(seconds, expected_seconds(estimator, task))  # the first one may have waited for compilation
    if seconds < tuning.long_seconds:
        return
    words = f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.2g} hours"
    warn_caller(
        f"{type(estimator).__name__} is expected to take about {words} for {n:,} different samples, by "
        f"the time that some of them took. {other} takes less, and bounds how far it is from the exact optimum. What "
        "else to try: fewer samples, or max_time, which gives the model that is reached by then.",
        UserWarning,
    )
