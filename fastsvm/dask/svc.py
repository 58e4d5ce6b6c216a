"""Kernel support vector classification on a cluster: a task for each pair of classes, to whose worker their rows go.

The client gets the coefficients of each pair, and every support vector once.
"""

import time
from typing import NamedTuple

import numpy as np
from distributed import Future, get_worker
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from fastsvm._compiled.threads import at_most
from fastsvm.dask.estimator import DecisionMixin, DistributedEstimator, made_from
from fastsvm.dask.rows import ClusterFit, ShardRows, joined, moments_of_shards, rows_of_shards
from fastsvm.dask.tasks import Tasks, counting
from fastsvm.estimators.fitting.session import warn_of_violation
from fastsvm.estimators.fitting.validation import Attributes, Samples
from fastsvm.estimators.kernel.kernel_parameter import (
    PRIVATE_ATTRIBUTES,
    Standardization,
    attributes_of,
    geometry_of,
    is_precomputed,
    resolve_gamma,
)
from fastsvm.estimators.kernel.machines import classifiers
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.memory import parse_memory
from fastsvm.multiclass import class_pairs, disjoint_order
from fastsvm.solvers.outer_loop import StopReason
from fastsvm.sources import MemorySource, to_dense

_WITHOUT = {
    "learning_rate", "selection", "probability", "cache_size", "warm_start", "verbose", "coef_", "solver_",
}  # fmt: skip


@made_from(classifiers.SVC, _WITHOUT)
class SVC(DecisionMixin, DistributedEstimator):
    """C-support vector classification on the workers of a Dask cluster, exact: each pair of classes is a task.

    The problem of `fastsvm.SVC`. The samples of a pair go from the workers that hold them to the one that learns them,
    and never come to the client, which gets the support vectors. Two classes are one task. A pair needs room for two
    copies of its samples on a worker, beside the memory of its fit.

    On one machine no sample is copied to another, so that it may be as fast with few classes. For two classes, or pairs
    that do not fit on a worker, take `NystroemSVC`, which learns shards together.

    Parameters
    ----------
    n_shards : int or None, default=None
        Number of shards in which the samples wait, in each of which consecutive blocks are joined; None takes one for
        each worker, or for each block if there are fewer.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "exponential"}, kernel object or callable, default="rbf"
        As for `fastsvm.SVC`, but not "precomputed".
    solver : {"smo", "coordinate", "primal"}, default="smo"
        "smo" solves the dual problem, two multipliers at a time. "coordinate" solves the dual problem without an
        intercept, one multiplier at a time, and computes the intercept afterwards. "primal" minimises over the
        coefficients of the decision function, by Newton's method.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a sample in units of C, max(0, 1 - y f(x)) or its square; the square for "primal" only.
    max_iter : int, default=-1
        Most steps of a pair, as for `fastsvm.SVC`.
    max_time : float or None, default=None
        Time limit of a fit in seconds. Pairs that are not begun by then have no support vectors.

    Attributes
    ----------
    support_ : ndarray of int64, shape (n_SV,)
        Numbers of the support vectors among the samples of all shards, ordered by class.
    within_margin_ : ndarray of int64
        Numbers of the samples on or within the margin in some pair, in rising order.
    stop_reason_ : str
        "converged", or why the first pair that did not converge ended before.
    n_iter_ : ndarray of int64, shape (n_classes * (n_classes - 1) / 2,)
        Steps of each pair.
    history_ : dict of str to ndarray
        One entry an outer iteration of a pair, as of `fastsvm.SVC`; times are those since the pair began.
    passes_ : int
        Passes over the rows, those of a pair's rows counted by their share.
    shape_fit_ : tuple of int
        Numbers of samples and features of all shards.

    References
    ----------
    Fan, Chen and Lin (2005), Working set selection using second order information for training support vector
    machines, JMLR 6.
    """

    learning_rate = None  # as the warning asks
    _of_rows = PRIVATE_ATTRIBUTES

    _warn = staticmethod(warn_of_violation)

    def _check_parameters(self) -> None:
        if is_precomputed(self):
            raise ValueError(
                "kernel='precomputed' needs the kernel values of all samples in one place: take fastsvm.SVC."
            )
        super()._check_parameters()

    def _learn(self, fit: ClusterFit) -> None:
        local, whole, factors = self._unfitted_local(), fit.whole, self._factors(fit.whole)
        geometry = geometry_of_shards(fit, self)
        self.__dict__.update(geometry)
        machine = clone(local).set_params(gamma=geometry["_gamma"], standardize=False, class_weight=None)
        plan = MachinePlan(machine, Standardization.of_model(self), whole.labels, factors)
        pairs = _pairs_of_shards(fit, plan)
        support = np.unique(np.concatenate([one.rows for one in pairs]))
        attributes = local._solution(_outcome_of(pairs, support, len(whole.labels), whole.shape[0]), whole.labels)
        by_class = attributes["support_"]
        attributes = local._with_vectors(attributes, rows_of_shards(fit, support).X[by_class], whole.shape)
        self.__dict__.update(attributes | {"support_": support[by_class], "class_weight_": factors})
        self.history_ = _history_of(pairs)


# --- machines on a worker --------------------------------------------------------------------------------


class MachinePlan(NamedTuple):
    """What exact machines learn: `machine` is one of them, not fitted."""

    machine: KernelMachine
    seen: Standardization | None  # It is how the machine sees samples.
    classes: np.ndarray
    factors: np.ndarray  # For the rows of each class, C is multiplied by them.


class MachinePart(NamedTuple):
    """The rows of a shard that a machine learns, with their numbers among all rows."""

    rows: ShardRows
    numbers: np.ndarray


def memory_of_task(memory: int | str) -> int:
    """Return the bytes that a task may use on this worker, of which "auto" is half, shared by its threads."""
    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    if memory != "auto" or not limit:
        return parse_memory(memory)
    return int(limit) // 2 // worker.state.nthreads


def _seen_rows(X: Samples, plan: MachinePlan) -> Samples:
    """Return rows as the machines see them."""
    source = MemorySource.of(X)
    return X if plan.seen is None or X.shape[0] == 0 else plan.seen.apply(source).in_memory().block.user_array()


def rows_of_classes(rows: ShardRows, plan: MachinePlan, classes: tuple[int, ...], first: int) -> MachinePart:
    """Return the rows of some classes as a machine learns them; `first` is the number of the first row of the shard."""
    numbers = np.flatnonzero((rows.weight > 0) & np.isin(rows.y, plan.classes[list(classes)]))
    labels = np.searchsorted(plan.classes, rows.y[numbers])
    X, weight = _seen_rows(rows.X[numbers], plan), rows.weight[numbers] * plan.factors[labels]
    return MachinePart(ShardRows(X, labels, weight, None), numbers + first)


def fitted(parts: list[MachinePart], plan: MachinePlan, seconds: float | None, n_machines: int) -> KernelMachine:
    """Fit a machine on the rows of some shards; `n_machines` run at the same time and share the workers' threads."""
    rows, n_threads = joined([part.rows for part in parts if len(part.numbers)]), get_worker().state.nthreads
    machine = clone(plan.machine).set_params(memory=memory_of_task(plan.machine.memory), max_time=seconds)
    weight = None if (rows.weight == 1).all() else rows.weight
    with at_most(max(1, n_threads // min(n_threads, n_machines))), counting("computing"):
        return machine.fit(rows.X, rows.y, weight)


def geometry_of_shards(fit: ClusterFit, estimator: BaseEstimator) -> Attributes:
    """Return the attributes in which a fitted model stores the geometry of the rows, and how it standardises them."""
    statistics, seen = moments_of_shards(fit), None
    if estimator.standardize:
        shift = None if fit.whole.sparse else statistics.mean
        seen = Standardization(shift, statistics.scale(fit.whole.shape[0]))
        statistics = moments_of_shards(fit, seen)
    gamma = resolve_gamma(estimator.gamma, fit.whole.shape[1], statistics.variance)
    return geometry_of(gamma, statistics) | attributes_of(seen)


# --- pairs of classes ------------------------------------------------------------------------------------


class PairFit(NamedTuple):
    """The solution of a pair: `beta` is y α of its support vectors, the first class positive."""

    n_rows: int
    rows: np.ndarray  # They are the numbers of its support vectors.
    beta: np.ndarray
    within: np.ndarray  # They are the numbers of the rows on or within the margin.
    certificate: tuple[float, ...]  # It has the intercept, the objective, the duality gap, and the largest violation.
    n_steps: int
    passes: int
    stop_reason: str
    history: dict[str, np.ndarray]  # It has a row for each outer iteration.


_NONE = np.empty(0, np.int64)
_NOT_BEGUN = PairFit(0, _NONE, np.empty(0), _NONE, (0.0, 0.0, np.inf, np.inf), 0, 0, "max_time", {})


def _outcome_of(pairs: list[PairFit], support: np.ndarray, n_classes: int, n_rows: int) -> Outcome:
    """Return the solutions of all pairs, in their order, with places among the support vectors in place of rows."""
    rows, labels = [np.searchsorted(support, one.rows) for one in pairs], np.empty(len(support), np.int64)
    for (a, b), of_pair, one in zip(class_pairs(n_classes), rows, pairs, strict=True):
        labels[of_pair] = np.where(one.beta > 0, a, b)
    starts, beta = np.cumsum([0, *map(len, rows)]), np.concatenate([one.beta for one in pairs])
    within = np.unique(np.concatenate([one.within for one in pairs]))
    reason = StopReason.of_all(StopReason(one.stop_reason) for one in pairs)
    intercept, objective, gap, violation = np.array([one.certificate for one in pairs]).T
    margin, n_steps = np.zeros(len(pairs)), np.array([one.n_steps for one in pairs])
    certificate = intercept, objective, gap, violation, margin, n_steps, np.ones(len(pairs), bool)
    passes = round(sum(one.passes * one.n_rows for one in pairs) / n_rows)
    return Outcome(starts, np.concatenate(rows), beta, labels, within, *certificate, reason, passes)


def _history_of(pairs: list[PairFit]) -> dict[str, np.ndarray]:
    """Return the outer iterations of all pairs, in their order."""
    filled = [(number, one.history) for number, one in enumerate(pairs) if one.history]
    if not filled:
        return {}
    columns = {name: np.concatenate([each[name] for _, each in filled]) for name in filled[0][1]}
    return columns | {"problem": np.repeat([k for k, _ in filled], [len(each["problem"]) for _, each in filled])}


def _pairs_of_shards(fit: ClusterFit, plan: MachinePlan) -> list[PairFit]:
    """Return the solutions of all pairs of classes; ValueError says that the rows of a pair do not fit on a worker."""
    tasks, firsts = fit.tasks, np.cumsum([0, *fit.sizes[:-1]]).tolist()
    shared, pairs = tasks.share("pairs", plan), class_pairs(len(plan.classes))
    counts, row_bytes = zip(*tasks.gathered(tasks.each("counts", _counts_of, fit.rows, shared)), strict=True)
    most = _most_at_once(tasks, plan, np.sum(counts, axis=0), max(row_bytes))

    def ask(number: int, seconds: float | None) -> Future:
        parts = tasks.each(f"pair-{number}", rows_of_classes, fit.rows, shared, pairs[number], firsts)
        return tasks.submit(f"machine-{number}", _fit_of, parts, shared, seconds, len(pairs))

    order = disjoint_order(pairs)
    solved: dict[int, PairFit] = {}
    # A batch at a time, so that no more copies of rows are in memory than it needs.
    while len(solved) < len(order) and (left := fit.session.deadline - time.perf_counter()) > 0:
        is_limited, n_threads = np.isfinite(left), max(1, sum(tasks.client.nthreads().values()))
        size = max(1, int(min(n_threads * (1 if is_limited else tasks.tuning.batch), most)))
        batch = order[len(solved) : len(solved) + size]
        futures = [ask(number, left if is_limited else None) for number in batch]
        solved |= zip(batch, tasks.gathered(futures), strict=True)
    return [solved.get(number, _NOT_BEGUN) for number in range(len(pairs))]


def _most_at_once(tasks: Tasks, plan: MachinePlan, counts: np.ndarray, row_bytes: int) -> float:
    """Return how many pairs all workers have room for; raise ValueError if one of them has none for the largest."""
    limit, workers = tasks.least_memory(), max(1, len(tasks.client.nthreads()))
    if not limit:
        return np.inf
    second, first = np.argsort(counts, kind="stable")[-2:].tolist()
    n = int(counts[first] + counts[second])
    memory = plan.machine.memory
    of_fit = limit // 2 if memory == "auto" else parse_memory(memory)  # the other half is left to rows
    copied = 2 * n * row_bytes  # as they come, and joined
    room = limit - of_fit
    if copied > room:
        names = " and ".join(repr(label) for label in sorted(plan.classes[[first, second]].tolist()))
        raise ValueError(
            f"The {n:,} samples of the classes {names} do not fit on a worker: their copies take {copied / 1e6:.4g} "
            f"MB, and a worker of {limit / 1e6:.4g} MB has {max(0, room) / 1e6:.4g} MB for them beside the "
            f"{of_fit / 1e6:.4g} MB of a fit. Give the workers more memory, lower `memory`, or take NystroemSVC, whose "
            "samples stay in their shards."
        )
    return workers * (room // max(1, copied))


def _counts_of(rows: ShardRows, plan: MachinePlan) -> tuple[np.ndarray, int]:
    """Return how many rows of positive weight each class has, and the bytes of a row as machines see it."""
    used, n = rows.weight > 0, len(rows.y)
    labels = np.searchsorted(plan.classes, rows.y[used])
    row_bytes = rows.__sizeof__() // max(1, n) if sparse.issparse(rows.X) else _seen_rows(rows.X[:1], plan).nbytes
    return np.bincount(labels, minlength=len(plan.classes)), row_bytes


def _fit_of(parts: list[MachinePart], plan: MachinePlan, seconds: float | None, n_pairs: int) -> PairFit:
    """Return the solution of a pair."""
    numbers = np.concatenate([part.numbers for part in parts])
    machine = fitted(parts, plan, seconds, n_pairs)
    coef = to_dense(machine.dual_coef_)
    certificate = -float(machine.intercept_[0]), machine.objective_, machine.duality_gap_, machine.kkt_violation_
    return PairFit(
        len(numbers), numbers[machine.support_], -coef[0], numbers[machine.within_margin_], certificate,
        int(machine.n_iter_[0]), machine.passes_, machine.stop_reason_, machine.history_,
    )  # fmt: skip
