"""Kernel support vector classification on a cluster, a task for each pair of classes."""

import numpy as np
from sklearn.base import BaseEstimator, clone

from fastsvm.dask.estimator import ClusterFit, DecisionMixin, DistributedEstimator, made_from
from fastsvm.dask.kernel.geometry import geometry_of_shards
from fastsvm.dask.kernel.machines import MachinePlan
from fastsvm.dask.kernel.pairs import pairs_of_shards
from fastsvm.estimators.fitting.convergence_warnings import warn_of_violation
from fastsvm.estimators.fitting.labels import class_weights
from fastsvm.estimators.kernel.kernel_parameter import is_precomputed
from fastsvm.estimators.kernel.machines import svc
from fastsvm.estimators.kernel.standardization import Standardization

__all__ = ["SVC"]


_WITHOUT = {
    "learning_rate", "selection", "probability", "cache_size", "warm_start", "verbose", "coef_", "solver_",
}  # fmt: skip


@made_from(svc.SVC, _WITHOUT)
class SVC(DecisionMixin, DistributedEstimator):
    """C-support vector classification on the workers of a Dask cluster, exact: each pair of classes is a task.

    The problem of `fastsvm.SVC`. The samples of a pair go from the workers that hold them to the one that learns them,
    and never come to the client, which gets the support vectors. Two classes are one task. A pair needs room for two
    copies of its samples on a worker, beside the memory of its fit.

    On one machine pairs share kernel rows, so that it may be as fast with few classes. For two classes, or pairs that
    do not fit on a worker, take `NystroemSVC`, which learns shards together.

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
    _of_rows = "_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"

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
        local, tasks, rows, known = self._unfitted_local(), fit.tasks, fit.rows, fit.whole
        geometry = geometry_of_shards(tasks, rows, known, self)
        self.__dict__.update(geometry)
        numbers = np.arange(len(known.labels))
        factors = class_weights(self.class_weight, known.labels, numbers, known.weights)
        machine = clone(local).set_params(gamma=geometry["_gamma"], standardize=False, class_weight=None)
        plan = MachinePlan(machine, Standardization.of_model(self), known.labels, factors, self.memory)
        pairs = pairs_of_shards(tasks, rows, fit.sizes, plan, fit.session.deadline)
        found = local._solution(pairs, known.labels)
        places = found["support_"]
        found = local._with_vectors(found, pairs.vectors[places], known.shape)
        self.__dict__.update(found | {"support_": pairs.support[places], "class_weight_": factors})
        self.history_ = pairs.history()
