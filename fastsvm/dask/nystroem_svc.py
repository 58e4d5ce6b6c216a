"""Kernel support vector classification with landmarks on a cluster: features, bounds and an exact machine by tasks.

Some samples come to the client, which chooses landmarks among them; the workers compute features. Support vectors, by
which bounds are computed, go from worker to worker, and all rows to that of the exact machine.
"""

from collections.abc import Callable, Sequence
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np
from distributed import Future
from sklearn.base import BaseEstimator

from fastsvm._compiled.threads import Pool
from fastsvm.dask.estimator import ClusterFit, made_from
from fastsvm.dask.linear import DistributedClassifier
from fastsvm.dask.machines import (
    MachinePlan,
    fitted,
    geometry_of_shards,
    in_batches,
    learnt_rows,
    memory_of_task,
)
from fastsvm.dask.tasks import Tasks, counting
from fastsvm.dask.worker import Plan, ShardFacts, ShardRows, joined, problem_of, rows_at, threads_of
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import PRIVATE_ATTRIBUTES, Standardization
from fastsvm.estimators.kernel.machines.classifiers import SVC
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.nystroem import nystroem_svc
from fastsvm.estimators.nystroem.exact_bounds import DualExpansion, Machine, exact_bounds
from fastsvm.estimators.nystroem.landmarks import FeatureMap, choose
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.low_rank import NystroemMap
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.shards import ShardedAscent
from fastsvm.sources import MemorySource, stacked
from fastsvm.tuning import current_tuning

_OF_LANDMARKS = "kernel", "degree", "gamma", "coef0", "n_components", "landmarks", "rank_tol", "standardize"


class _Landmarks(NamedTuple):
    """Landmarks and what computes features with them; `map` leads from kernel values to features."""

    estimator: NystroemFeatures  # It has the attributes of a kernel and of how it sees samples.
    map: NystroemMap
    attributes: Attributes  # They are those of the fitted `NystroemSVC` about landmarks.


class _Learning(NamedTuple):
    """What a fit knows until it ends."""

    landmarks: _Landmarks
    rows: list[Future]
    features: list[Future]


@made_from(nystroem_svc.NystroemSVC, {"scratch_folder", "warm_start", "solver_"})
class NystroemSVC(DistributedClassifier):
    """Kernel support vector classification with landmarks, on the workers of a Dask cluster.

    The problem of `fastsvm.NystroemSVC`. Some samples are drawn from all shards and fetched; the client chooses
    landmarks among them. The workers compute the features of their shards once, and keep them in place of the samples.
    Then these are learnt in rounds, as by `LinearSVC`.

    With `bounds` or `refine`, samples stay on the workers beside the features. Not available here:
    `landmarks="support"`.

    Parameters
    ----------
    landmarks : {"uniform", "rpcholesky"} or array-like of shape (n_landmarks, n_features), default="uniform"
        How landmarks are chosen among the samples that are fetched: as many as landmarks, 16 times as many for
        "rpcholesky", and 1,024 more, on which the trace error is measured. An array holds the landmarks themselves.
    refine : {"exact"} or None, default=None
        "exact": an exact machine, that of `SVC`, predicts in place of the landmarks. It is a task of a worker that gets
        all samples.
    bounds : bool, default=False
        Whether to compute `exact_bounds_`. That takes a kernel value for each pair of support vectors.
        Samples at which all shards evaluate their kernel expansions go from worker to worker.

    Attributes
    ----------
    component_indices_ : ndarray of int64, shape (n_landmarks,)
        Numbers of these samples among those of all shards; missing if an array of landmarks was passed.
    exact_machine_ : fastsvm.SVC
        With `refine`, the fitted machine; missing where the time ran out, so that the landmarks predict.

    References
    ----------
    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS. Smith, Forte, Ma, Takac,
    Jordan and Jaggi (2018), CoCoA: a general framework for communication-efficient distributed optimization, JMLR 18.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from fastsvm.dask import NystroemSVC
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> rows, labels = da.from_array(X, chunks=(500, 2)), da.from_array(y, chunks=500)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = NystroemSVC(C=10, gamma=1.0, random_state=0).fit(rows, labels)
    >>> bool(model.to_local().score(X, y) > 0.98)
    True
    """

    _learning: _Learning
    _of_rows = PRIVATE_ATTRIBUTES

    def _learns_pairs(self, n_classes: int) -> bool:
        return self.multi_class == "ovo" and n_classes > 2

    def _learnt(
        self, tasks: Tasks, rows: list[Future], facts: list[ShardFacts], whole: ShardFacts, seed: int
    ) -> tuple[list[Future], ShardFacts]:
        """Return shards of features, and what they are like."""
        estimator = NystroemFeatures(**{name: getattr(self, name) for name in _OF_LANDMARKS})
        estimator._check_landmark_kernel()
        sizes, rng = [one.shape[0] for one in facts], np.random.RandomState(seed)
        landmarks = _choose_landmarks(tasks, rows, whole, sizes, estimator, rng)
        self.__dict__.update(landmarks.attributes)
        features, dtype = _features_of_shards(tasks, rows, whole.shape[0], landmarks)
        is_kept = self.refine is not None or self.bounds
        self._learning = _Learning(landmarks, rows if is_kept else [], features)
        return features, whole._replace(shape=(whole.shape[0], landmarks.map.rank), dtype=dtype, sparse=False)

    def _conclude(self, tasks: Tasks, plan: Plan, solver: ShardedAscent, weights: np.ndarray, deadline: float) -> None:
        """Bound the optimum, and fit the exact machine."""
        now = self._learning
        if self.bounds:
            coef = weights[:, :-1] @ now.landmarks.map.whitening
            machine = Machine(
                self.components_, coef, weights[:, -1], plan.constant, plan.loss, now.landmarks.map.square
            )
            bounds_plan = _BoundsPlan(plan, now.landmarks, machine, self.memory)
            duals = [one.dual for one in solver.memory().shards]
            shards = list(zip(now.rows, now.features, duals, strict=True))
            self.exact_bounds_ = _bounds_of_shards(tasks, shards, bounds_plan)
        if self.refine is not None:
            exact = MachinePlan(
                self._exact_machine(), Standardization.of_model(self), plan.classes, plan.factors, self.memory
            )
            fitted_machine = _exact_machine_of_shards(tasks, now.rows, exact, deadline)
            if fitted_machine is not None:
                self.exact_machine_ = fitted_machine

    def _exact_machine(self) -> SVC:
        """Return a kernel machine with the parameters of this one."""
        local = self._local(**{name: getattr(self, name) for name in ("C", "kernel", "degree", "coef0", "tol")})
        local.set_params(multi_class=self.multi_class)._gamma = self._gamma
        return local._exact_machine(0, np.inf)

    def _scaling(self, tasks: Tasks, rows: list[Future], whole: ShardFacts) -> tuple[np.ndarray, np.ndarray]:
        """Return no scaling: the kernel sees standardised samples, and features are learnt as they are."""
        return np.empty(0), np.empty(0)

    def _for_rows_as_passed(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients of the landmarks for those of the features."""
        return coef @ self._learning.landmarks.map.whitening, intercept

    def _checked(self) -> BaseEstimator:
        if isinstance(self.landmarks, str) and self.landmarks == "support":
            raise ValueError("landmarks='support' needs all samples in one place: take fastsvm.NystroemSVC.")
        return super()._checked()

    def _learn(self, fit: ClusterFit) -> None:
        try:
            super()._learn(fit)
        finally:
            self.__dict__.pop("_learning", None)


# --- landmarks and features ------------------------------------------------------------------------------


def _choose_landmarks(
    tasks: Tasks,
    rows: list[Future],
    whole: ShardFacts,
    sizes: list[int],
    estimator: NystroemFeatures,
    rng: np.random.RandomState,
) -> _Landmarks:
    """Return landmarks, chosen among samples that are drawn from all shards and fetched.

    `whole` are the facts of all rows, `sizes` the numbers of rows of the shards. The estimator has the
    parameters of the kernel and the landmarks.
    """
    geometry = geometry_of_shards(tasks, rows, whole, estimator)
    estimator.__dict__.update(geometry | {"n_features_in_": whole.shape[1]})
    n = sum(sizes)
    drawn = np.sort(rng.permutation(n)[: _wanted(estimator)])
    of_shards = [drawn[(drawn >= a) & (drawn < b)] - a for a, b in pairwise(np.cumsum([0, *sizes]))]
    filled = [(k, some) for k, some in enumerate(of_shards) if len(some)]
    parts = tasks.gathered([tasks.submit("drawn", k, rows_at, rows[k], some) for k, some in filled])
    source = MemorySource.of(stacked([part.X for part in parts]))
    used = np.flatnonzero(np.concatenate([part.weight for part in parts]) > 0)
    with Pool.open() as pool:
        chosen = choose(estimator, source, used, rng, parse_memory(estimator.memory), pool)
    attributes = estimator._landmark_attributes(chosen, drawn)
    return _Landmarks(estimator, chosen.features.map, attributes | geometry)


def _wanted(estimator: NystroemFeatures) -> int:
    """Return the number of rows to draw."""
    tuning = current_tuning().nystroem
    if not isinstance(estimator.landmarks, str):
        return tuning.sample_rows
    most = tuning.most if estimator.n_components == "auto" else int(estimator.n_components)
    return most * (tuning.pool if estimator.landmarks == "rpcholesky" else 1) + tuning.sample_rows


def _features_of_shards(
    tasks: Tasks, rows: list[Future], n_rows: int, landmarks: _Landmarks
) -> tuple[list[Future], np.dtype]:
    """Return shards of features, which the workers compute once and keep, and their type."""
    dtype = np.dtype(
        np.float64 if n_rows * landmarks.map.rank <= current_tuning().nystroem.exact_values else np.float32
    )
    shared = tasks.share("landmarks", landmarks)
    together = tasks.together(len(rows))
    futures = [
        tasks.submit("features", number, _features_of_shard, one, shared, dtype, together)
        for number, one in enumerate(rows)
    ]
    return futures, dtype


def _features_of_shard(rows: ShardRows, landmarks: _Landmarks, dtype: np.dtype, together: int) -> ShardRows:
    """Return a shard of features in place of rows."""
    values = np.empty((len(rows.y), landmarks.map.rank), dtype)
    if len(values):
        source, components = MemorySource.of(rows.X), landmarks.attributes["components_"]
        with Pool.open(threads_of(together)) as pool, counting("computing"):
            features = FeatureMap(landmarks.estimator, components, source, pool, landmarks.map)
            for start, block in source.blocks():
                features.write(block, values[start : start + block.shape[0]])
    return ShardRows(values, rows.y, rows.weight, None)


# --- bounds ----------------------------------------------------------------------------------------------


class _BoundsPlan(NamedTuple):
    """What the tasks of bounds have in common: what was learnt, with what features were computed, and the solution."""

    plan: Plan
    landmarks: _Landmarks
    machine: Machine
    memory: int | str  # A task may take so many bytes, or "auto".


def _bounds_of_shards(
    tasks: Tasks, shards: Sequence[tuple[Future, Future, np.ndarray]], plan: _BoundsPlan
) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum of the kernel problem, of which the plan has the solution.

    A shard has samples and features as `ShardRows`, which the workers have, and its dual variables.
    """
    filled, numbers, shared = [one for one in shards if len(one[2])], count(), tasks.share("machine", plan)
    sent = [(rows, features, tasks.share(f"dual-{k}", dual)) for k, (rows, features, dual) in enumerate(filled)]

    def ask(k: int, method: Callable, *arguments: object) -> Future:
        return tasks.submit("bounds", next(numbers), _answer, *sent[k], shared, method, *arguments)

    return exact_bounds(plan.machine, len(sent), ask, tasks.gathered)


def _answer(
    rows: ShardRows, features: ShardRows, dual: np.ndarray, plan: _BoundsPlan, method: Callable, *arguments: object
) -> object:
    """Return what the expansion of a shard answers."""
    demands, source = problem_of(features, plan.plan).demands, MemorySource.of(rows.X)
    with Pool.open(threads_of(plan.plan.together)) as pool, counting("computing"):
        budget = memory_of_task(plan.memory)
        expansion = DualExpansion(plan.landmarks.estimator, plan.machine, source, demands, dual, pool, budget)
        return method(expansion, *arguments)


# --- the exact machine -----------------------------------------------------------------------------------


def _exact_machine_of_shards(
    tasks: Tasks, rows: list[Future], plan: MachinePlan, deadline: float
) -> KernelMachine | None:
    """Return the exact machine of the rows of all shards, or None if it cannot begin before the deadline."""
    shared = tasks.share("exact", plan)

    def ask(number: int, seconds: float | None) -> Future:
        parts = [tasks.submit("learnt", k, _learnt_of, one, shared) for k, one in enumerate(rows)]
        return tasks.submit("machine", number, _machine_of, parts, shared, seconds)

    return in_batches(tasks, [0], ask, deadline).get(0)


def _learnt_of(rows: ShardRows, plan: MachinePlan) -> ShardRows:
    """Return the rows of positive weight as the machine sees them, with numbers of classes."""
    return learnt_rows(rows, np.flatnonzero(rows.weight > 0), plan)


def _machine_of(parts: list[ShardRows], plan: MachinePlan, seconds: float | None) -> KernelMachine:
    filled = [(part.X, part.y, part.weight) for part in parts if len(part.y)]
    return fitted(joined(filled, None), plan, seconds, n_machines=1)
