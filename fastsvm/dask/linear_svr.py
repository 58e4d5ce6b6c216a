"""Linear support vector regression on a cluster."""

from typing import Any

from distributed import Client
from sklearn.base import RegressorMixin

from fastsvm.dask.base import DistributedLinearSVM
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule, number
from fastsvm.estimators.linear import linear_svr
from fastsvm.estimators.linear.loss_parameter import loss_of, loss_rule

__all__ = ["LinearSVR"]


class LinearSVR(RegressorMixin, DistributedLinearSVM):
    """Linear support vector regression on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss as `fastsvm.LinearSVR` does, to the same duality gap, in the rounds of
    `fastsvm.dask.LinearSVC`. The rows are in shards on the workers, and never come to the client.

    Parameters
    ----------
    epsilon : float, default=0.0
        Distance from the target up to which there is no loss.
    client : distributed.Client or None, default=None
        The connection to the cluster; None takes the current one. Clones and pickles do not keep it.
    n_shards : int or None, default=None
        Number of shards, in each of which consecutive blocks are joined; None takes one for each worker, or for each
        block if there are fewer. With the same shards each bit of the model is the same for any number of workers and
        threads. More shards take more rounds.
    tol : float, default=1e-3
        The fit ends when (P - D) / P is at most this, with the objective P and a lower bound D of what it could be.
    C : float, default=1.0
        Factor of the losses.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"} or a loss object, default="epsilon_insensitive"
        max(0, |f - y| - epsilon), or its square.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    intercept_scaling : float, default=1.0
        Value of a constant feature. The intercept is its weight times this value. It is penalised like all weights; the
        larger the value, the less.
    verbose : bool or int, default=False
        Show progress, on a terminal.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are processed.
    max_iter : int, default=1000
        Largest number of rounds.
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 over all shards, by one more pass of the workers.
        `coef_` and `intercept_` are for samples as they are passed. Sparse samples are scaled only.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of float64, shape (1,)
        Intercept.
    objective_ : float
        The objective of these weights, that of the constant feature among them.
    dual_objective_ : float
        Objective of feasible dual variables, a lower bound of the minimum.
    duality_gap_ : float
        Difference of the two: an upper bound of how far the objective is from its minimum. Computed in float64.
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the duality gap is within `tol`.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "stalled".
    history_ : dict of str to ndarray
        One entry a round: epoch, time (s), objective (the lowest so far), dual_objective, gap (the lowest relative gap
        so far), bytes_sent (what the client told and was told).
    workers_ : dict of str to dict
        What each worker did, by address: rows, and seconds of reading, computing and waiting. Lost ones are left out.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik and Takac (2015), Adding vs. averaging in distributed primal-dual optimization,
    ICML. Smith, Forte, Ma, Takac, Jordan and Jaggi (2018), CoCoA: a general framework for communication-efficient
    distributed optimization, JMLR 18, algorithm 1.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from fastsvm.dask import LinearSVR
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> rows = da.from_array(X, chunks=(100, 1))
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = LinearSVR(C=10, random_state=0).fit(rows, 3 * X[:, 0] - 1)
    >>> bool(model.to_local().score(X, 3 * X[:, 0] - 1) > 0.99)
    True
    """

    _local = linear_svr.LinearSVR

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        client: Client | None = None,
        n_shards: int | None = None,
        tol: float = 1e-3,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        verbose: bool | int = False,
        random_state: Any = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        standardize: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.client = client
        self.n_shards = n_shards
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.max_time = max_time
        self.standardize = standardize

    def _own_rules(self) -> dict[str, Rule]:
        return {"epsilon": number(least=0), "loss": loss_rule("numbers", dual=True)}

    score = DistributedLinearSVM.score  # not that of the mixin

    def _take(self, coef: Any, intercept: Any) -> None:
        self.coef_, self.intercept_ = coef[0], intercept

    @drafted
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "LinearSVR":
        """Fit the model.

        Parameters
        ----------
        X : dask array, dask dataframe, list of delayed or futures, path or list of paths, \
shape (n_samples, n_features)
            Samples: dense or CSR blocks, or HDF5, Parquet or Zarr files that the workers read.
        y : dask array, series, list of delayed or futures, of shape (n_samples,), str or None
            Targets, real numbers, in the blocks of X. HDF5 files have their own: None. Of Parquet
            and Zarr files the name of a column or an array; None is "y".
        sample_weight : as y, or None
            Factors of C. Samples of weight 0 are left out. None takes those of files that have "sample_weight".

        Returns
        -------
        LinearSVR
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        """
        self._fit(X, y, sample_weight, loss_of(self.loss, epsilon=float(self.epsilon)), of_classes=False)
        return self
