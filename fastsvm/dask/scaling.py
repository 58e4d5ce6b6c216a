"""What the features of all shards are like: their workers count, and the client joins what they found."""

from typing import NamedTuple

import numpy as np
from distributed import Future

from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import ShardRows
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.sources import FeatureStatistics, MemorySource, feature_statistics

__all__ = ["ColumnMoments", "moments_of_shards", "scaling_of"]


class ColumnMoments(NamedTuple):
    """What the features of a shard are like: weighted moments and norms, and the total weight of its rows."""

    n_rows: int
    total: float
    statistics: FeatureStatistics


def _moments_of(rows: ShardRows, seen: Standardization | None) -> ColumnMoments | None:
    """Return the moments of the features of a shard, as a map shows them; None without rows of positive weight."""
    weight = rows.weight
    if not weight.any():
        return None
    uniform = (weight == weight[0]).all()
    source = MemorySource.of(rows.X)
    found = feature_statistics(source if seen is None else seen.apply(source), None if uniform else weight)
    return ColumnMoments(len(weight), float(weight.sum()), found)


def moments_of_shards(tasks: Tasks, rows: list[Future], seen: Standardization | None = None) -> ColumnMoments:
    """Return the moments of the features of all shards, as a map shows them, by a pass of the workers over their rows.

    They are joined by equation 2.1 of Chan, Golub and LeVeque (1983), in the order of the shards. Norms after centring
    are bounds: each shard has a centre of its own, and the first is kept.
    """
    name = "columns" if seen is None else "seen"
    parts = tasks.gathered([tasks.submit(name, number, _moments_of, one, seen) for number, one in enumerate(rows)])
    first, *others = [part for part in parts if part is not None]
    n_rows, total, known = first.n_rows, first.total, first.statistics
    mean, squares, centre = known.mean.copy(), total * known.feature_variance, known.centre
    longest, farthest = known.sq_norm, known.centred_sq_norm
    for part in others:
        own, both = part.statistics, total + part.total
        away = own.mean - mean
        squares += part.total * own.feature_variance + away**2 * (total * part.total / both)
        mean += away * (part.total / both)
        n_rows, total = n_rows + part.n_rows, both
        longest = max(longest, own.sq_norm)
        farthest = max(farthest, (own.centred_sq_norm**0.5 + float(np.linalg.norm(own.centre - centre))) ** 2)
    variance = squares / total
    every, usual = float(variance.mean() + mean.var()), float(variance.sum() + ((mean - centre) ** 2).sum())
    return ColumnMoments(
        n_rows, total, FeatureStatistics(mean, variance, every, centre, longest, farthest, usual)
    )  # fmt: skip


def scaling_of(moments: ColumnMoments, sparse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return what is subtracted from each feature, and what then multiplies it.

    Constant features are only shifted, sparse ones only scaled.
    """
    n_rows, _, found = moments
    varying, scale = found.varying(n_rows), np.ones(len(found.mean))
    scale[varying] /= np.sqrt(found.feature_variance[varying])
    return np.zeros(len(scale)) if sparse else found.mean, scale
