"""Kernel support vector classification with landmarks on a cluster."""

from typing import Any, NamedTuple

import numpy as np
from distributed import Client, Future

from fastsvm.dask.base import DistributedClassifier
from fastsvm.dask.kernel.machines import MachinePlan
from fastsvm.dask.nystroem.bounds import BoundsPlan, bounds_of_shards
from fastsvm.dask.nystroem.exact_machine import exact_machine_of_shards
from fastsvm.dask.nystroem.landmarks import Landmarks, choose_landmarks, features_of_shards
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import Plan, ShardFacts
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule, boolean, one_of, optional
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.estimators.linear.loss_parameter import loss_of
from fastsvm.estimators.nystroem import nystroem_svc
from fastsvm.estimators.nystroem.dual_expansion import Machine
from fastsvm.estimators.nystroem.landmark_estimator import LANDMARK_RULES
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.shards.rounds import ShardedAscent
from fastsvm.tuning import current_tuning

__all__ = ["NystroemSVC"]

_RULES = {"refine": optional(one_of("exact")), "bounds": boolean}
_OF_LANDMARKS = "kernel", "degree", "gamma", "coef0", "n_components", "landmarks", "rank_tol", "standardize"


class _Learning(NamedTuple):
    """What a fit knows until it ends."""

    landmarks: Landmarks
    rows: list[Future]
    features: list[Future]


class NystroemSVC(DistributedClassifier):
    """Kernel support vector classification with landmarks, on the workers of a Dask cluster.

    The problem of `fastsvm.NystroemSVC`. Some samples are drawn from all shards and fetched; the client chooses
    landmarks among them. The workers compute the features of their shards once, and keep them in place of the samples.
    Then these are learnt in rounds, as by `LinearSVC`.

    With `bounds` or `refine`, samples stay on the workers beside the features. Not available here:
    `landmarks="support"`.

    Parameters
    ----------
    C : float, default=1.0
        Factor of the losses.
    client : distributed.Client or None, default=None
        The connection to the cluster; None takes the current one. Clones and pickles do not keep it.
    n_shards : int or None, default=None
        Number of shards, as for `LinearSVC`.
    kernel : str, callable or kernel object, default="rbf"
        As for `fastsvm.NystroemSVC`; it must be positive semi-definite.
    degree : int, default=3
        Degree of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel. "scale" takes the variance of the samples of all shards.
    coef0 : float, default=0.0
        Constant of "poly".
    n_components : "auto" or int, default="auto"
        Number of landmarks; "auto" as for `fastsvm.NystroemSVC`.
    landmarks : {"uniform", "rpcholesky"} or array-like of shape (n_landmarks, n_features), default="uniform"
        How landmarks are chosen among the samples that are fetched: as many as landmarks, 16 times as many for
        "rpcholesky", and 1,024 more, on which the trace error is measured. An array holds the landmarks themselves.
    rank_tol : float, default=1e-6
        Directions of the landmarks whose eigenvalue is at most this share of the largest are left out.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a class against the rest, or of a pair of classes.
    multi_class : {"ovr", "ovo", "crammer_singer", "weston_watkins"}, default="ovr"
        Of several classes each against the rest, each pair, or one problem for all.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With "ovo", whether `decision_function` returns votes of classes or the decisions of pairs, as for `SVC`.
    break_ties : bool, default=False
        With "ovo", whether classes with equally many votes are compared by their decisions, as for `SVC`.
    tol : float, default=1e-3
        The fit ends when (P - D) / P is at most this, as for `LinearSVC`.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    intercept_scaling : float, default=1.0
        Value of a constant feature, whose weight is penalised like all weights.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for the samples of each class.
    max_iter : int, default=1000
        Largest number of rounds.
    max_time : float or None, default=None
        Time limit of a fit in seconds. Landmarks and features come first, and are not cut short.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks and of the order in which samples are processed.
    verbose : bool or int, default=False
        Show progress, on a terminal.
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1 over all shards, by one more pass of the
        workers. The stored samples do not change.
    refine : {"exact"} or None, default=None
        "exact": an exact machine, that of `SVC`, predicts in place of the landmarks. It is a task of a worker that gets
        all samples.
    bounds : bool, default=False
        Whether to compute `exact_bounds_`. That takes a kernel value for each pair of support vectors.
        Samples at which all shards evaluate their kernel expansions go from worker to worker.
    memory : "auto", int or str, default="auto"
        Bytes that a task for `bounds` or `refine` may use beside its samples; "auto" is half of what a worker may use,
        divided by its threads.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    components_ : array or CSR matrix, shape (n_landmarks, n_features)
        The landmarks.
    component_indices_ : ndarray of int64, shape (n_landmarks,)
        Numbers of these samples among those of all shards; missing if an array of landmarks was passed.
    coef_ : ndarray of float64, shape (n_scores, n_landmarks)
        Coefficients of the kernel values with the landmarks, of pairs in the order of `fastsvm.NystroemSVC`.
    intercept_ : ndarray of float64, shape (n_scores,)
        Intercepts.
    rank_ : int
        Number of features.
    trace_error_ : float
        Share of the trace of the kernel matrix that the features do not have, measured on at most 1,024 samples.
    objective_ : float
        ½‖w‖² + C Σ loss on the features as they are stored, summed over the classes one against the rest.
    dual_objective_ : float
        Objective of feasible dual variables, a lower bound of the minimum on these features.
    duality_gap_ : float
        Difference of the two. Computed in float64.
    exact_machine_ : fastsvm.SVC
        With `refine`, the fitted machine; missing where the time ran out, so that the landmarks predict.
    exact_bounds_ : tuple of float
        With `bounds`, lower and upper bound of the optimum of the kernel problem, in which all samples are landmarks.
        The upper one is the objective of this model there.
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the duality gap is within `tol`.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "stalled".
    history_ : dict of str to ndarray
        One entry a round, as of `LinearSVC`.
    n_features_in_ : int
        Number of features of the samples.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

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

    _local = nystroem_svc.NystroemSVC
    _learning: _Learning
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
        n_components: int | str = "auto",
        landmarks: Any = "uniform",
        rank_tol: float = 1e-6,
        loss: str = "hinge",
        multi_class: str = "ovr",
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: dict | str | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
        standardize: bool = False,
        refine: str | None = None,
        bounds: bool = False,
        memory: str | int = "auto",
    ) -> None:
        self.C = C
        self.client = client
        self.n_shards = n_shards
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_components = n_components
        self.landmarks = landmarks
        self.rank_tol = rank_tol
        self.loss = loss
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.verbose = verbose
        self.standardize = standardize
        self.refine = refine
        self.bounds = bounds
        self.memory = memory

    def _own_rules(self) -> dict[str, Rule]:
        several = {"multi_class": one_of("ovr", "ovo", "crammer_singer", "weston_watkins")}
        shapes = {"decision_function_shape": one_of("ovr", "ovo"), "break_ties": boolean}
        return LANDMARK_RULES | _RULES | {"loss": one_of("hinge", "squared_hinge")} | several | shapes

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

    @drafted
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "NystroemSVC":
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
        NystroemSVC
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable, or the kernel is not positive semi-definite; the message says
            what was found.
        """
        parse_memory(self.memory)
        if self.refine is not None and self.loss != "hinge":
            raise ValueError(f"refine={self.refine!r} needs loss='hinge'; the loss is {self.loss!r}.")
        is_one_score = self.multi_class in ("ovr", "ovo")
        try:
            loss = loss_of(self.loss if is_one_score else self.multi_class)
            self._fit(X, y, sample_weight, loss, of_classes=True)
        finally:
            self.__dict__.pop("_learning", None)
        return self
