"""Linear support vector regression on a cluster."""

from typing import Any

from sklearn.base import RegressorMixin

from fastsvm.dask.base import DistributedLinearSVM
from fastsvm.dask.made_from import made_from
from fastsvm.estimators.linear import linear_svr

__all__ = ["LinearSVR"]


@made_from(linear_svr.LinearSVR, {"dual", "memory", "warm_start", "criterion", "window_visits", "solver_"})
class LinearSVR(RegressorMixin, DistributedLinearSVM):
    """Linear support vector regression on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss as `fastsvm.LinearSVR` does, to the same duality gap, in the rounds of
    `fastsvm.dask.LinearSVC`. The rows are in shards on the workers, and never come to the client.

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

    score = DistributedLinearSVM.score  # not that of the mixin

    def _take(self, coef: Any, intercept: Any) -> None:
        self.coef_, self.intercept_ = coef[0], intercept
