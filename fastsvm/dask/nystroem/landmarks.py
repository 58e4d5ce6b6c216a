"""Landmarks of samples on a cluster: some samples come to the client, which chooses; the workers compute features."""

from typing import Any, NamedTuple

import numpy as np
from distributed import Future
from scipy import sparse

from fastsvm._compiled.threads import Pool
from fastsvm.dask.kernel.machines import geometry_of_shards
from fastsvm.dask.tasks import Tasks, counting
from fastsvm.dask.worker import ShardFacts, ShardRows, rows_at, threads_of
from fastsvm.estimators.nystroem.feature_map import FeatureMap
from fastsvm.estimators.nystroem.landmarks import choose
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.low_rank.nystroem_map import NystroemMap
from fastsvm.memory import parse_memory
from fastsvm.sources import MemorySource
from fastsvm.tuning import current_tuning

__all__ = ["Landmarks", "choose_landmarks", "features_of_shards"]


class Landmarks(NamedTuple):
    """Landmarks and what computes features with them; `map` leads from kernel values to features."""

    estimator: NystroemFeatures  # It has the attributes of a kernel and of how it sees samples.
    map: NystroemMap
    attributes: dict[str, Any]  # They are those of the fitted `NystroemSVC` about landmarks.


def choose_landmarks(
    tasks: Tasks, rows: list[Future], known: ShardFacts, sizes: list[int], estimator: NystroemFeatures, rng: Any
) -> Landmarks:
    """Return landmarks, chosen among samples that are drawn from all shards and fetched.

    `known` is what the client knows of all rows, `sizes` the numbers of rows of the shards. The estimator has the
    parameters of the kernel and the landmarks.
    """
    geometry = geometry_of_shards(tasks, rows, known, estimator)
    estimator.__dict__.update(geometry | {"n_features_in_": known.shape[1]})
    n = sum(sizes)
    drawn = np.sort(rng.permutation(n)[: _wanted(estimator)])
    ends = np.cumsum(sizes)
    own = [drawn[(drawn >= end - size) & (drawn < end)] - (end - size) for end, size in zip(ends, sizes, strict=True)]
    asked = [(k, some) for k, some in enumerate(own) if len(some)]
    found = tasks.gathered([tasks.submit("drawn", k, rows_at, rows[k], some) for k, some in asked])
    X = [part.X for part in found]
    source = MemorySource.of(sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X))
    used = np.flatnonzero(np.concatenate([part.weight for part in found]) > 0)
    with Pool.open() as pool:
        chosen = choose(estimator, source, used, rng, parse_memory(estimator.memory), pool)
    attributes = estimator._landmark_attributes(chosen, drawn)
    return Landmarks(estimator, chosen.features.map, attributes | geometry)


def _wanted(estimator: NystroemFeatures) -> int:
    """Return the number of rows to draw."""
    tuning = current_tuning().nystroem
    if not isinstance(estimator.landmarks, str):
        return tuning.sample_rows
    most = tuning.most if estimator.n_components == "auto" else int(estimator.n_components)
    return most * (tuning.pool if estimator.landmarks == "rpcholesky" else 1) + tuning.sample_rows


def features_of_shards(tasks: Tasks, rows: list[Future], n_rows: int, found: Landmarks) -> tuple[list[Future], Any]:
    """Return shards of features, which the workers compute once and keep, and their type."""
    dtype = np.dtype(np.float64 if n_rows * found.map.rank <= current_tuning().nystroem.exact_values else np.float32)
    told = tasks.share("landmarks", found)
    together = tasks.together(len(rows))
    futures = [
        tasks.submit("features", number, features_of_shard, one, told, dtype, together)
        for number, one in enumerate(rows)
    ]
    return futures, dtype


def features_of_shard(rows: ShardRows, found: Landmarks, dtype: np.dtype, together: int) -> ShardRows:
    """Return a shard of features in place of rows."""
    values = np.empty((len(rows.y), found.map.rank), dtype)
    if len(values):
        source, landmarks = MemorySource.of(rows.X), found.attributes["components_"]
        with Pool.open(threads_of(together)) as pool, counting("computing"):
            features = FeatureMap(found.estimator, landmarks, source, pool, found.map)
            for start, block in source.blocks():
                features.write(block, values[start : start + block.shape[0]])
    return ShardRows(values, rows.y, rows.weight, None)
