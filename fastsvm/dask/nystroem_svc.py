"""Kernel support vector classification with landmarks on a cluster: features, bounds and an exact machine by tasks.

Some samples come to the client, which chooses landmarks among them; the workers compute features. Support vectors, by
which bounds are computed, go from worker to worker, and all rows to that of the exact machine.
"""

import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np
from distributed import Future

from fastsvm._compiled.threads import Pool
from fastsvm.dask.estimator import DecisionMixin, made_from
from fastsvm.dask.linear import DistributedLinearSVM
from fastsvm.dask.rows import ClusterFit, ShardRows, rows_of_shards
from fastsvm.dask.shards import Plan, problem_of
from fastsvm.dask.svc import MachinePlan, fitted, geometry_of_shards, memory_of_task, rows_of_classes
from fastsvm.dask.tasks import counting, threads_of
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import PRIVATE_ATTRIBUTES, Standardization
from fastsvm.estimators.nystroem import nystroem_svc
from fastsvm.estimators.nystroem.exact_bounds import DualExpansion, Machine, exact_bounds
from fastsvm.estimators.nystroem.landmarks import FeatureMap, choose
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.low_rank import NystroemMap
from fastsvm.memory import parse_memory
from fastsvm.sources import MemorySource
from fastsvm.tuning import current_tuning

_OF_LANDMARKS = "kernel", "degree", "gamma", "coef0", "n_components", "landmarks", "rank_tol", "standardize"


class _Landmarks(NamedTuple):
    """Landmarks and what computes features with them; `map` leads from kernel values to features."""

    estimator: NystroemFeatures  # It has the attributes of a kernel and of how it sees samples.
    map: NystroemMap
    attributes: Attributes  # They are those of the fitted `NystroemSVC` about landmarks.


@made_from(nystroem_svc.NystroemSVC, {"scratch_folder", "warm_start", "solver_"})
class NystroemSVC(DecisionMixin, DistributedLinearSVM):
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

    _of_rows = PRIVATE_ATTRIBUTES

    def _check_parameters(self) -> None:
        if isinstance(self.landmarks, str) and self.landmarks == "support":
            raise ValueError("landmarks='support' needs all samples in one place: take fastsvm.NystroemSVC.")
        super()._check_parameters()

    def _learn(self, fit: ClusterFit) -> None:
        estimator = NystroemFeatures(**{name: getattr(self, name) for name in _OF_LANDMARKS})
        estimator._check_landmark_kernel()
        seed, whole = self._seed(fit), fit.whole
        landmarks = _choose_landmarks(fit, estimator, np.random.RandomState(seed))
        self.__dict__.update(landmarks.attributes)
        tasks, n_values = fit.tasks, whole.shape[0] * landmarks.map.rank
        dtype = np.dtype(np.float64 if n_values <= current_tuning().nystroem.exact_values else np.float32)
        shared, together = tasks.share("landmarks", landmarks), tasks.together(len(fit.rows))
        features = tasks.each("features", _features_of_shard, fit.rows, shared, dtype, together)
        if self.refine is None and not self.bounds:
            fit.rows.clear()  # so that the workers have features in place of samples
        of_features = whole._replace(shape=(whole.shape[0], landmarks.map.rank), dtype=dtype, sparse=False)
        of_pairs, unscaled = self.multi_class == "ovo" and len(whole.labels) > 2, np.empty(0)
        plan, solver, weights = self._solve(fit, features, of_features, seed, unscaled, unscaled, of_pairs)
        self.coef_ = self.coef_ @ landmarks.map.whitening
        duals = [one.dual for one in solver.memory().shards] if self.bounds else []
        del solver  # whose sessions hold memory of the workers
        if self.bounds:
            coef = weights[:, :-1] @ landmarks.map.whitening
            machine = Machine(self.components_, coef, weights[:, -1], plan.constant, plan.loss, landmarks.map.square)
            bounds_plan = _BoundsPlan(plan, landmarks, machine, self.memory)
            self.exact_bounds_ = _bounds_of_shards(fit, features, duals, bounds_plan)
        left = fit.session.deadline - time.perf_counter()
        if self.refine is not None and left > 0:
            local = self._unfitted_local()
            local._gamma = self._gamma
            exact = MachinePlan(
                local._exact_machine(self.memory, np.inf), Standardization.of_model(self), plan.classes, plan.factors
            )
            shared, classes = tasks.share("exact", exact), tuple(range(len(plan.classes)))
            parts = tasks.each("learnt", rows_of_classes, fit.rows, shared, classes, 0)
            seconds = left if np.isfinite(left) else None
            self.exact_machine_ = tasks.gathered([tasks.submit("exact-machine", fitted, parts, shared, seconds, 1)])[0]


# --- landmarks and features ------------------------------------------------------------------------------


def _choose_landmarks(fit: ClusterFit, estimator: NystroemFeatures, rng: np.random.RandomState) -> _Landmarks:
    """Return landmarks, chosen among samples that are drawn from all shards and fetched."""
    geometry = geometry_of_shards(fit, estimator)
    estimator.__dict__.update(geometry | {"n_features_in_": fit.whole.shape[1]})
    tuning, wanted = current_tuning().nystroem, 0
    if isinstance(estimator.landmarks, str):
        most = tuning.most if estimator.n_components == "auto" else int(estimator.n_components)
        wanted = most * (tuning.pool if estimator.landmarks == "rpcholesky" else 1)
    drawn = np.sort(rng.permutation(fit.whole.shape[0])[: wanted + tuning.sample_rows])
    rows = rows_of_shards(fit, drawn)
    with Pool.open() as pool:
        source, used = MemorySource.of(rows.X), np.flatnonzero(rows.weight > 0)
        chosen = choose(estimator, source, used, rng, parse_memory(estimator.memory), pool)
    attributes = estimator._landmark_attributes(chosen, drawn)
    return _Landmarks(estimator, chosen.features.map, attributes | geometry)


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
    fit: ClusterFit, features: list[Future], duals: list[np.ndarray], plan: _BoundsPlan
) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum of the kernel problem, of which the plan has the solution."""
    tasks, numbers, shared = fit.tasks, count(), fit.tasks.share("bounds", plan)
    filled = [k for k, dual in enumerate(duals) if len(dual)]
    sent = [(fit.rows[k], features[k], tasks.share(f"dual-{k}", duals[k])) for k in filled]

    def ask(k: int, method: Callable, *arguments: object) -> Future:
        return tasks.submit(f"bounds-{next(numbers)}", _answer, *sent[k], shared, method, *arguments)

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
