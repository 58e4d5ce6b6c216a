"""Kernel support vector classification with landmarks on a cluster: features by tasks.

Some samples come to the client, which chooses landmarks among them; the workers compute features.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.dask.estimator import DecisionMixin, made_from
from fastsvm.dask.linear import DistributedLinearSVM
from fastsvm.dask.rows import ClusterFit, ShardRows, rows_of_shards
from fastsvm.dask.svc import geometry_of_shards
from fastsvm.dask.tasks import counting, threads_of
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import PRIVATE_ATTRIBUTES
from fastsvm.estimators.nystroem import nystroem_svm
from fastsvm.estimators.nystroem.landmarks import FeatureMap, choose
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.low_rank import NystroemMap
from fastsvm.memory import parse_memory
from fastsvm.sources import MemorySource
from fastsvm.tuning import current_tuning

_OF_LANDMARKS = "kernel", "degree", "gamma", "coef0", "n_components", "landmarks", "rank_tol", "standardize"


class _Landmarks(NamedTuple):
    """Landmarks and what computes features with them; `map` leads from kernel values to features."""

    estimator: NystroemFeatures  # It has the attributes of a kernel and of how it sees samples.
    map: NystroemMap
    attributes: Attributes  # They are those of the fitted `NystroemSVC` about landmarks.


_WITHOUT = {"scratch_folder", "warm_start", "solver_", "bounds", "exact_bounds_", "memory"}


@made_from(nystroem_svm.NystroemSVC, _WITHOUT)
class NystroemSVC(DecisionMixin, DistributedLinearSVM):
    """Kernel support vector classification with landmarks, on the workers of a Dask cluster.

    The problem of `fastsvm.NystroemSVC`. Some samples are drawn from all shards and fetched; the client chooses
    landmarks among them. The workers compute the features of their shards once, and keep them in place of the samples.
    Then these are learnt in rounds, as by `LinearSVC`.

    Not available here: `landmarks="support"`. An exact machine is `fastsvm.dask.SVC`.

    Parameters
    ----------
    landmarks : {"uniform", "rpcholesky"} or array-like of shape (n_landmarks, n_features), default="uniform"
        How landmarks are chosen among the samples that are fetched: as many as landmarks, 16 times as many for
        "rpcholesky", and 1,024 more, on which the trace error is measured. An array holds the landmarks themselves.

    Attributes
    ----------
    component_indices_ : ndarray of int64, shape (n_landmarks,)
        Numbers of these samples among those of all shards; missing if an array of landmarks was passed.

    References
    ----------
    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS. Smith, Forte, Ma, Takac,
    Jordan and Jaggi (2018), CoCoA: a general framework for communication-efficient distributed optimization, JMLR 18.
    """

    _of_rows = PRIVATE_ATTRIBUTES

    def _check_parameters(self) -> None:
        if isinstance(self.landmarks, str) and self.landmarks == "support":
            raise ValueError("landmarks='support' needs all samples in one place: take fastsvm.NystroemSVC.")
        super()._check_parameters()

    def _learn(self, fit: ClusterFit) -> None:
        estimator = NystroemFeatures(**{name: getattr(self, name) for name in _OF_LANDMARKS})
        estimator._check_landmark_kernel()
        seed, whole = self._seed(fit), fit.whole
        landmarks = _choose_landmarks(fit, estimator, np.random.RandomState(seed))
        self.__dict__.update(landmarks.attributes)
        tasks, n_values = fit.tasks, whole.shape[0] * landmarks.map.rank
        dtype = np.dtype(np.float64 if n_values <= current_tuning().nystroem.exact_values else np.float32)
        shared, together = tasks.share("landmarks", landmarks), tasks.together(len(fit.rows))
        features = tasks.each("features", _features_of_shard, fit.rows, shared, dtype, together)
        fit.rows.clear()  # so that the workers have features in place of samples
        of_features = whole._replace(shape=(whole.shape[0], landmarks.map.rank), dtype=dtype, sparse=False)
        of_pairs, unscaled = self.multi_class == "ovo" and len(whole.labels) > 2, np.empty(0)
        self._solve(fit, features, of_features, seed, unscaled, unscaled, of_pairs)
        self.coef_ = self.coef_ @ landmarks.map.whitening


# --- landmarks and features ------------------------------------------------------------------------------


def _choose_landmarks(fit: ClusterFit, estimator: NystroemFeatures, rng: np.random.RandomState) -> _Landmarks:
    """Return landmarks, chosen among samples that are drawn from all shards and fetched."""
    geometry = geometry_of_shards(fit, estimator)
    estimator.__dict__.update(geometry | {"n_features_in_": fit.whole.shape[1]})
    tuning, wanted = current_tuning().nystroem, 0
    if isinstance(estimator.landmarks, str):
        most = tuning.most if estimator.n_components == "auto" else int(estimator.n_components)
        wanted = most * (tuning.pool if estimator.landmarks == "rpcholesky" else 1)
    drawn = np.sort(rng.permutation(fit.whole.shape[0])[: wanted + tuning.sample_rows])
    rows = rows_of_shards(fit, drawn)
    with Pool.open() as pool:
        source, used = MemorySource.of(rows.X), np.flatnonzero(rows.weight > 0)
        chosen = choose(estimator, source, used, rng, parse_memory(estimator.memory), pool)
    attributes = estimator._landmark_attributes(chosen, drawn)
    return _Landmarks(estimator, chosen.features.map, attributes | geometry)


def _features_of_shard(rows: ShardRows, landmarks: _Landmarks, dtype: np.dtype, together: int) -> ShardRows:
    """Return a shard of features in place of rows."""
    values = np.empty((len(rows.y), landmarks.map.rank), dtype)
    if len(values):
        source, components = MemorySource.of(rows.X), landmarks.attributes["components_"]
        with Pool.open(threads_of(together)) as pool, counting("computing"):
            features = FeatureMap(landmarks.estimator, components, source, pool, landmarks.map)
            for start, block in source.blocks():
                features.write(block, values[start : start + block.shape[0]])
    return ShardRows(values, rows.y, rows.weight, None)
