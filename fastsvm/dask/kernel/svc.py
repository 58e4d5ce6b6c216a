"""Kernel support vector classification on a cluster, a task for each pair of classes."""

import time
from typing import Any

import numpy as np
from distributed import Client
from sklearn.base import clone

from fastsvm.dask.estimator import DecisionMixin, DistributedEstimator
from fastsvm.dask.kernel.geometry import geometry_of_shards
from fastsvm.dask.kernel.machines import MachinePlan
from fastsvm.dask.kernel.pairs import pairs_of_shards
from fastsvm.dask.rows import load_shards
from fastsvm.dask.tasks import Tasks
from fastsvm.estimators.fitting.convergence_warnings import warn_of_violation
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.labels import class_weights
from fastsvm.estimators.fitting.parameters import check_parameters, number, optional
from fastsvm.estimators.fitting.validation import forget
from fastsvm.estimators.kernel.kernel_parameter import is_precomputed
from fastsvm.estimators.kernel.machines import svc
from fastsvm.estimators.kernel.standardization import Standardization

__all__ = ["SVC"]


class SVC(DecisionMixin, DistributedEstimator):
    """C-support vector classification on the workers of a Dask cluster, exact: each pair of classes is a task.

    The problem of `fastsvm.SVC`. The samples of a pair go from the workers that hold them to the one that learns them,
    and never come to the client, which gets the support vectors. Two classes are one task. A pair needs room for two
    copies of its samples on a worker, beside the memory of its fit.

    On one machine pairs share kernel rows, so that it may be as fast with few classes. For two classes, or pairs that
    do not fit on a worker, take `NystroemSVC`, which learns shards together.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a margin violation.
    client : distributed.Client or None, default=None
        The connection to the cluster; None takes the current one. Clones and pickles do not keep it.
    n_shards : int or None, default=None
        Number of shards in which the samples wait, in each of which consecutive blocks are joined; None takes one for
        each worker, or for each block if there are fewer.
    kernel : str, callable or kernel object, default="rbf"
        As for `fastsvm.SVC`, but not "precomputed".
    degree : int, default=3
        Degree of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel. "scale" takes the variance of the samples of all shards.
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    solver : {"smo", "coordinate", "primal"}, default="smo"
        As for `fastsvm.SVC`.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        As for `fastsvm.SVC`: "primal" needs the square.
    fit_intercept : bool, default=True
        Whether decision values have an intercept, as for `fastsvm.SVC`.
    shrinking : bool, default=True
        Ignored: each fit looks at all samples. It is there because scikit-learn's machines have it.
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1 over all shards, by one more pass of the
        workers. The stored samples do not change; sparse ones are scaled only.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at the end of a pair, in units of decision values.
    memory : "auto", int or str, default="auto"
        Bytes that a task may use beside its samples; "auto" is half of what a worker may use, divided by its threads.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for each class.
    max_iter : int, default=-1
        Most steps of a pair, as for `fastsvm.SVC`.
    max_time : float or None, default=None
        Time limit of a fit in seconds. Pairs that are not begun by then have no support vectors.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Columns of `decision_function` for three classes and more: one a class, or one a pair.
    break_ties : bool, default=False
        Predict by the largest decision value of "ovr" instead of the first class with most votes.
    random_state : int, RandomState or None, default=None
        Seed of the order of multipliers, as for `fastsvm.SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    support_ : ndarray of int64, shape (n_SV,)
        Numbers of the support vectors among the samples of all shards, ordered by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Support vectors, in the type in which the samples are stored.
    n_support_ : ndarray of int32, shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or CSR matrix of float64, shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, in scikit-learn's layout.
    intercept_ : ndarray of float64, shape (n_classes * (n_classes - 1) / 2,)
        Intercepts.
    within_margin_ : ndarray of int64
        Numbers of the samples on or within the margin in some pair, in rising order.
    objective_ : float
        Dual objective, summed over the pairs; for "primal" the primal one.
    kkt_violation_ : float
        The largest violation of the optimality conditions.
    duality_gap_ : float
        Primal minus dual objective, summed over the pairs.
    converged_ : bool
        Whether the violation is within `tol` in all pairs.
    stop_reason_ : str
        "converged", or why the first pair that did not converge ended before.
    n_iter_ : ndarray of int64, shape (n_classes * (n_classes - 1) / 2,)
        Steps of each pair.
    history_ : dict of str to ndarray
        One entry an outer iteration of a pair, as of `fastsvm.SVC`; times are those since the pair began.
    passes_ : int
        Passes over the rows, those of a pair's rows counted by their share.
    class_weight_ : ndarray of float64, shape (n_classes,)
        Factors of C.
    fit_status_ : int
        0 if converged, else 1.
    shape_fit_ : tuple of int
        Numbers of samples and features of all shards.
    workers_ : dict of str to dict
        What each worker did, by address: rows, and seconds of reading, computing and waiting. Lost ones are left out.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

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
    _local = svc.SVC
    _of_rows = "_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"

    def __init__(
        self,
        *,
        C: float = 1.0,
        client: Client | None = None,
        n_shards: int | None = None,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        solver: str = "smo",
        loss: str = "hinge",
        fit_intercept: bool = True,
        shrinking: bool = True,
        standardize: bool = False,
        tol: float = 1e-3,
        memory: str | int = "auto",
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.client = client
        self.n_shards = n_shards
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.shrinking = shrinking
        self.standardize = standardize
        self.tol = tol
        self.memory = memory
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "dual_coef_")

    @drafted
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SVC":
        """Fit the model.

        Parameters
        ----------
        X : dask array, dask dataframe, list of delayed or futures, path or list of paths, \
shape (n_samples, n_features)
            Samples, as for `LinearSVC`.
        y : dask array, series, list of delayed or futures, of shape (n_samples,), str or None
            Labels, as for `LinearSVC`.
        sample_weight : as y, or None
            Factors of C. Samples of weight 0 are left out.

        Returns
        -------
        SVC
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable, or the samples of a pair do not fit on a worker; the message says
            what was found.
        """
        local = self._machine()
        forget(self)
        begin, tasks = time.perf_counter(), Tasks.of(self._client())
        deadline = begin + (np.inf if self.max_time is None else self.max_time)
        rows, facts = load_shards(tasks, X, y, sample_weight, self.n_shards, of_classes=True)
        known = self._known(facts, of_classes=True)
        geometry = geometry_of_shards(tasks, rows, known, self)
        self.__dict__.update(geometry)
        numbers = np.arange(len(known.labels))
        factors = class_weights(self.class_weight, known.labels, numbers, known.weights)
        machine = clone(local).set_params(gamma=geometry["_gamma"], standardize=False, class_weight=None)
        plan = MachinePlan(machine, Standardization.of_model(self), known.labels, factors, self.memory)
        pairs = pairs_of_shards(tasks, rows, [one.shape[0] for one in facts], plan, deadline)
        found = local._solution(pairs, known.labels)
        places = found["support_"]
        found = local._with_vectors(found, pairs.vectors[places], known.shape)
        self.__dict__.update(found | {"support_": pairs.support[places], "class_weight_": factors})
        self.history_ = pairs.history()
        self.workers_ = tasks.accounts(time.perf_counter() - begin)
        warn_of_violation(self)
        return self

    def _machine(self) -> svc.SVC:
        """Return a machine with the parameters of this one; raise ValueError for one that is not usable."""
        known = self._local._get_param_names()
        found = self._local(**{name: value for name, value in self.get_params(deep=False).items() if name in known})
        found._check_parameters()
        check_parameters(self, {"n_shards": optional(number(integral=True, least=1))})
        if is_precomputed(self):
            raise ValueError(
                "kernel='precomputed' needs the kernel values of all samples in one place: take fastsvm.SVC."
            )
        return found
