"""What kernel machines must know of the rows of all shards: gamma, where they are, and how they are standardised."""

from typing import Any

from distributed import Future

from fastsvm.dask.rows import moments_of_shards, scaling_of
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import ShardFacts
from fastsvm.estimators.kernel.kernel_parameter import resolve_gamma
from fastsvm.estimators.kernel.sample_geometry import SampleGeometry
from fastsvm.estimators.kernel.standardization import Standardization, attributes_of

__all__ = ["geometry_of_shards"]


def geometry_of_shards(tasks: Tasks, rows: list[Future], known: ShardFacts, estimator: Any) -> dict[str, Any]:
    """Return the attributes in which a fitted model stores the geometry of the rows, and how it standardises them.

    The estimator has the parameters `gamma` and `standardize`; `known` is what the client knows of all rows.
    """
    moments, seen = moments_of_shards(tasks, rows), None
    if estimator.standardize:
        shift, scale = scaling_of(moments, known.sparse)
        seen = Standardization(None if known.sparse else shift, scale)
        moments = moments_of_shards(tasks, rows, seen)
    statistics = moments.statistics
    gamma = resolve_gamma(estimator.gamma, known.shape[1], statistics.variance)
    return SampleGeometry.of(gamma, statistics).attributes() | attributes_of(seen)
