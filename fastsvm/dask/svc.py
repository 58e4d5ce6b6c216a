"""Kernel support vector classification on a cluster: a task for each pair of classes, to whose worker their rows go.

The client gets the coefficients of each pair, and every support vector once.
"""

from itertools import accumulate
from typing import NamedTuple

import numpy as np
from distributed import Future
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from fastsvm.dask.estimator import ClusterFit, DecisionMixin, DistributedEstimator, made_from
from fastsvm.dask.machines import (
    MachinePlan,
    fitted,
    geometry_of_shards,
    in_batches,
    learnt_rows,
    seen_rows,
)
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import ShardRows, joined, rows_at
from fastsvm.estimators.fitting.session import warn_of_violation
from fastsvm.estimators.fitting.validation import Samples, class_weights
from fastsvm.estimators.kernel.kernel_parameter import PRIVATE_ATTRIBUTES, Standardization, is_precomputed
from fastsvm.estimators.kernel.machines import classifiers
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.memory import parse_memory
from fastsvm.multiclass import class_pairs, disjoint_order
from fastsvm.solvers.outer_loop import StopReason
from fastsvm.sources import stacked, to_dense

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

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from fastsvm.dask import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> rows, labels = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = SVC(C=10).fit(rows, labels)
    >>> model.converged_, bool(model.to_local().score(X, y) > 0.97)
    (True, True)
    """

    learning_rate = None  # as the warning asks
    _of_rows = PRIVATE_ATTRIBUTES

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "dual_coef_")

    _warn = staticmethod(warn_of_violation)

    def _checked(self) -> BaseEstimator:
        if is_precomputed(self):
            raise ValueError(
                "kernel='precomputed' needs the kernel values of all samples in one place: take fastsvm.SVC."
            )
        return super()._checked()

    def _learn(self, fit: ClusterFit) -> None:
        local, tasks, rows, whole = self._unfitted_local(), fit.tasks, fit.rows, fit.whole
        geometry = geometry_of_shards(tasks, rows, whole, self)
        self.__dict__.update(geometry)
        numbers = np.arange(len(whole.labels))
        factors = class_weights(self.class_weight, whole.labels, numbers, whole.weights)
        machine = clone(local).set_params(gamma=geometry["_gamma"], standardize=False, class_weight=None)
        plan = MachinePlan(machine, Standardization.of_model(self), whole.labels, factors, self.memory)
        pairs = pairs_of_shards(tasks, rows, fit.sizes, plan, fit.session.deadline)
        attributes = local._solution(pairs.outcome(), whole.labels)
        rows_of_support = attributes["support_"]
        attributes = local._with_vectors(attributes, pairs.vectors[rows_of_support], whole.shape)
        self.__dict__.update(attributes | {"support_": pairs.support[rows_of_support], "class_weight_": factors})
        self.history_ = pairs.history()


class PairPart(NamedTuple):
    """The rows of a pair in a shard, with their numbers among all rows."""

    rows: ShardRows
    numbers: np.ndarray


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


class Pairs(NamedTuple):
    """The solutions of all pairs, in their order, and their support vectors."""

    fits: list[PairFit]
    support: np.ndarray  # They are the numbers of the support vectors, which rise.
    labels: np.ndarray  # They are the numbers of the vectors' classes.
    vectors: Samples  # They are as they are stored.
    n_rows: int  # It counts all rows.

    def outcome(self) -> Outcome:
        """Return the solutions, with places of support vectors in place of rows."""
        rows = np.searchsorted(self.support, np.concatenate([one.rows for one in self.fits]))
        starts = np.array([0, *accumulate(len(one.rows) for one in self.fits)])
        within = np.unique(np.concatenate([one.within for one in self.fits]))
        reason = StopReason.of_all(StopReason(one.stop_reason) for one in self.fits)
        intercept, objective, gap, violation = np.array([one.certificate for one in self.fits]).T
        margin, n_steps = np.zeros(len(self.fits)), np.array([one.n_steps for one in self.fits])
        certificate = intercept, objective, gap, violation, margin, n_steps, np.ones(len(self.fits), bool)
        beta = np.concatenate([one.beta for one in self.fits])
        passes = round(sum(one.passes * one.n_rows for one in self.fits) / self.n_rows)
        return Outcome(starts, rows, beta, self.labels, within, *certificate, reason, passes)

    def history(self) -> dict[str, np.ndarray]:
        """Return the outer iterations of all pairs, in their order."""
        filled = [(number, one.history) for number, one in enumerate(self.fits) if one.history]
        if not filled:
            return {}
        columns = {name: np.concatenate([each[name] for _, each in filled]) for name in filled[0][1]}
        return columns | {"problem": np.repeat([k for k, _ in filled], [len(each["problem"]) for _, each in filled])}


def pairs_of_shards(tasks: Tasks, rows: list[Future], sizes: list[int], plan: MachinePlan, deadline: float) -> Pairs:
    """Return the solutions of all pairs of classes; `rows` are the `ShardRows` of each shard, `sizes` their numbers.

    From `deadline` (of time.perf_counter) on, no batch of pairs is begun. ValueError says that the rows of a pair do
    not fit on a worker.
    """
    shared, k = tasks.share("pairs", plan), len(plan.classes)
    futures = [tasks.submit("counts", number, _counts_of, one, shared) for number, one in enumerate(rows)]
    counts, row_bytes = zip(*tasks.gathered(futures), strict=True)
    pairs, count = class_pairs(k), np.sum(counts, axis=0)
    most = _most_at_once(tasks, plan, count, max(row_bytes))
    firsts = np.cumsum([0, *sizes[:-1]]).tolist()

    def ask(number: int, seconds: float | None) -> Future:
        parts = [
            tasks.submit(f"pair-{number}", shard, _rows_of_pair, one, shared, pairs[number], firsts[shard])
            for shard, one in enumerate(rows)
        ]
        return tasks.submit("machine", number, _fit_of, parts, shared, seconds, len(pairs))

    solved = in_batches(tasks, disjoint_order(pairs), ask, deadline, most)
    fits = [solved.get(number, _NOT_BEGUN) for number in range(len(pairs))]
    support = np.unique(np.concatenate([one.rows for one in fits]))
    labels = np.empty(len(support), np.int64)
    for (a, b), one in zip(pairs, fits, strict=True):
        labels[np.searchsorted(support, one.rows)] = np.where(one.beta > 0, a, b)
    return Pairs(fits, support, labels, _vectors(tasks, rows, firsts, support), sum(sizes))


def _vectors(tasks: Tasks, rows: list[Future], firsts: list[int], support: np.ndarray) -> Samples:
    """Return some rows as they are stored; those of shards without any are not fetched, but the first."""
    cuts = np.searchsorted(support, [*firsts[1:]])
    of_shards = [some - first for some, first in zip(np.split(support, cuts), firsts, strict=True)]
    filled = [(shard, some) for shard, some in enumerate(of_shards) if len(some)] or [(0, of_shards[0])]
    parts = [
        part.X for part in tasks.gathered([tasks.submit("vectors", k, rows_at, rows[k], some) for k, some in filled])
    ]
    return stacked(parts)


def _most_at_once(tasks: Tasks, plan: MachinePlan, counts: np.ndarray, row_bytes: int) -> float:
    """Return how many pairs all workers have room for; raise ValueError if one of them has none for the largest."""
    limit, workers = tasks.least_memory(), max(1, len(tasks.client.nthreads()))
    if not limit:
        return np.inf
    second, first = np.argsort(counts, kind="stable")[-2:].tolist()
    n = int(counts[first] + counts[second])
    of_fit = limit // 2 if plan.memory == "auto" else parse_memory(plan.memory)  # the other half is left to rows
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
    row_bytes = rows.__sizeof__() // max(1, n) if sparse.issparse(rows.X) else seen_rows(rows.X[:1], plan).nbytes
    return np.bincount(labels, minlength=len(plan.classes)), row_bytes


def _rows_of_pair(rows: ShardRows, plan: MachinePlan, pair: tuple[int, int], first: int) -> PairPart:
    """Return the rows of two classes; the first row of the shard has a number."""
    numbers = np.flatnonzero((rows.weight > 0) & np.isin(rows.y, plan.classes[list(pair)]))
    return PairPart(learnt_rows(rows, numbers, plan), numbers + first)


def _fit_of(parts: list[PairPart], plan: MachinePlan, seconds: float | None, n_pairs: int) -> PairFit:
    """Return the solution of a pair."""
    filled = [(part.rows.X, part.rows.y, part.rows.weight) for part in parts if len(part.numbers)]
    numbers = np.concatenate([part.numbers for part in parts])
    machine = fitted(joined(filled, None), plan, seconds, n_pairs)
    coef = to_dense(machine.dual_coef_)
    certificate = -float(machine.intercept_[0]), machine.objective_, machine.duality_gap_, machine.kkt_violation_
    return PairFit(
        len(numbers), numbers[machine.support_], -coef[0], numbers[machine.within_margin_], certificate,
        int(machine.n_iter_[0]), machine.passes_, machine.stop_reason_, machine.history_,
    )  # fmt: skip
