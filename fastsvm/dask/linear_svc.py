"""Linear support vector classification on a cluster."""

from fastsvm.dask.base import DistributedClassifier
from fastsvm.dask.made_from import made_from
from fastsvm.estimators.linear import linear_svc

__all__ = ["LinearSVC"]


@made_from(linear_svc.LinearSVC, {"penalty", "dual", "memory", "warm_start", "criterion", "window_visits", "solver_"})
class LinearSVC(DistributedClassifier):
    """Linear support vector classification on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss, of each class against the rest or of all at once, as `fastsvm.LinearSVC` does, to the
    same duality gap. The rows are in shards on the workers, and never come to the client. In a round each shard takes
    an epoch of dual coordinate ascent; what it tells of it is two numbers for each feature and class.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from fastsvm.dask import LinearSVC
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> X = da.from_array(rng.normal(size=(200, 3)) + y[:, None], chunks=(100, 3))
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = LinearSVC(random_state=0).fit(X, da.from_array(y, chunks=100))
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    >>> model.to_local().predict([[2.0, 2.0, 2.0]])
    array([1])
    """
