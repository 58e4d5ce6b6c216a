"""Kernel support vector classification with landmarks on a cluster."""

from typing import Any, NamedTuple

import numpy as np
from distributed import Future
from sklearn.base import BaseEstimator

from fastsvm.dask.estimator import ClusterFit, made_from
from fastsvm.dask.kernel.machines import MachinePlan
from fastsvm.dask.linear import DistributedClassifier
from fastsvm.dask.nystroem.bounds import BoundsPlan, bounds_of_shards
from fastsvm.dask.nystroem.exact_machine import exact_machine_of_shards
from fastsvm.dask.nystroem.landmarks import Landmarks, choose_landmarks, features_of_shards
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import Plan, ShardFacts
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.estimators.nystroem import nystroem_svc
from fastsvm.estimators.nystroem.dual_expansion import Machine
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.solvers.linear_dual.shards import ShardedAscent
from fastsvm.tuning import current_tuning

__all__ = ["NystroemSVC"]

_OF_LANDMARKS = "kernel", "degree", "gamma", "coef0", "n_components", "landmarks", "rank_tol", "standardize"


class _Learning(NamedTuple):
    """What a fit knows until it ends."""

    landmarks: Landmarks
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
    _of_rows = "_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"

    def _learns_pairs(self, n_classes: int) -> bool:
        return self.multi_class == "ovo" and n_classes > 2

    def _learnt(
        self, tasks: Tasks, rows: list[Future], facts: list[ShardFacts], known: ShardFacts, seed: int
    ) -> tuple[list[Future], ShardFacts]:
        """Return shards of features, and what they are like."""
        estimator = NystroemFeatures(**{name: getattr(self, name) for name in _OF_LANDMARKS})
        estimator._check_landmark_kernel()
        sizes, rng = [one.shape[0] for one in facts], np.random.RandomState(seed)
        found = choose_landmarks(tasks, rows, known, sizes, estimator, rng)
        self.__dict__.update(found.attributes)
        features, dtype = features_of_shards(tasks, rows, known.shape[0], found)
        is_kept = self.refine is not None or self.bounds
        self._learning = _Learning(found, rows if is_kept else [], features)
        return features, known._replace(shape=(known.shape[0], found.map.rank), dtype=dtype, sparse=False)

    def _conclude(self, tasks: Tasks, plan: Plan, solver: ShardedAscent, weights: np.ndarray, deadline: float) -> None:
        """Bound the optimum, and fit the exact machine."""
        now = self._learning
        if self.bounds:
            coef = weights[:, :-1] @ now.landmarks.map.whitening
            machine = Machine(self.components_, coef, weights[:, -1], plan.constant, plan.loss)
            told = BoundsPlan(plan, now.landmarks, machine, self.memory, current_tuning().nystroem)
            duals = [one.dual for one in solver.memory().shards]
            shards = list(zip(now.rows, now.features, duals, strict=True))
            self.exact_bounds_ = bounds_of_shards(tasks, shards, told)
        if self.refine is not None:
            machine = self._exact_machine()
            told_exact = MachinePlan(machine, Standardization.of_model(self), plan.classes, plan.factors, self.memory)
            found = exact_machine_of_shards(tasks, now.rows, told_exact, deadline)
            if found is not None:
                self.exact_machine_ = found

    def _exact_machine(self) -> Any:
        """Return a kernel machine with the parameters of this one."""
        local = self._local(**{name: getattr(self, name) for name in ("C", "kernel", "degree", "coef0", "tol")})
        local.set_params(multi_class=self.multi_class)._gamma = self._gamma
        return local._exact_machine(0, np.inf)

    def _scaling(self, tasks: Tasks, rows: list[Future], known: ShardFacts) -> tuple[np.ndarray, np.ndarray]:
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
