"""The choice of landmarks: drawn uniformly, by pivoted Cholesky factorisation, among support vectors, or given.

The decision function of the exact machine is a sum of kernel values with its support vectors, most of which lie near
the boundary of the classes. Landmarks among those of a machine of some samples span it better than as many others.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.validation import check_rows
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.estimators.nystroem.feature_map import FeatureMap
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.low_rank.random_pivots import RandomPivots
from fastsvm.sources import Block, CSRBlock, Source, check_finite
from fastsvm.tuning import NystroemTuning, current_tuning

__all__ = ["Chosen", "choose"]

_PAIR_BYTES = 3 * np.dtype(np.float64).itemsize
"""The kernel matrix of landmarks, its eigenvectors and the factor take so many bytes for a pair."""


class Chosen(NamedTuple):
    """Landmarks and their features.

    `places` are the numbers of the landmarks among the rows; None if they were given. `trace_error` is the share of the
    trace of the kernel matrix that the features do not have, on a sample of the rows.
    """

    features: FeatureMap
    places: np.ndarray | None
    trace_error: float


def choose(
    estimator: Any,
    source: Source,
    used: np.ndarray,
    rng: np.random.RandomState,
    budget: int,
    pool: Pool,
    supports: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Chosen:
    """Return the landmarks of a fit, among the samples whose numbers are `used`. They are drawn by their places there.

    `supports(rows)` returns the support vectors among some samples, for `landmarks="support"`. If given landmarks are
    not usable, so many do not fit in memory, or the kernel is not positive semi-definite, ValueError is raised.
    """
    tuning = current_tuning().nystroem
    sample = source.rows(rng.permutation(used)[: tuning.sample_rows])
    if not isinstance(estimator.landmarks, str):
        features = FeatureMap(estimator, _given(estimator), source, pool)
        return Chosen(features, None, features.trace_error(sample))
    is_auto, most = estimator.n_components == "auto", _most(estimator, source, len(used), budget, tuning)
    if supports is not None and estimator.landmarks == "support":
        first = _supporting(source, used, most, rng, budget, supports, tuning)
    else:
        first = _drawer(estimator, source, used, most, rng, budget, pool)
    size = min(tuning.first, most) if is_auto else most
    while True:
        places = first(size)
        block = source.rows(places)
        kept = _distinct(block)
        features = FeatureMap(estimator, source.as_passed(block.take(kept)), source, pool)
        error = features.trace_error(sample)
        if not is_auto or error <= tuning.trace_error or size == most or len(places) < size:
            return Chosen(features, places[kept], error)
        size = min(2 * size, most)


def _most(estimator: Any, source: Source, n: int, budget: int, tuning: NystroemTuning) -> int:
    """Return the largest number of landmarks; raise ValueError if the memory does not suffice for those asked for."""
    share = source.tuning.loaded_share * _PAIR_BYTES
    room = int((budget / share) ** 0.5)
    if estimator.n_components == "auto":
        return max(1, min(n, room, tuning.most))
    most = min(n, int(estimator.n_components))
    if most > max(room, 1):
        raise ValueError(
            f"n_components={most} needs {share * most**2 / 1e6:.0f} MB for the kernel matrix of the landmarks and its "
            f"factor, and memory allows {budget / 1e6:.0f} MB: raise memory, or lower n_components to {room}."
        )
    return most


def _drawer(
    estimator: Any, source: Source, used: np.ndarray, most: int, rng: np.random.RandomState, budget: int, pool: Pool
) -> Callable[[int], np.ndarray]:
    """Return a function of a number, rising from call to call, that returns so many rows; the first stay the same."""
    order, tuning = rng.permutation(used), current_tuning().nystroem
    if estimator.landmarks == "uniform":
        return lambda size: order[:size] if size < len(order) else used
    candidates = order[: max(most, min(tuning.pool * most, budget // (source.tuning.loaded_share * 8 * most)))]
    block = source.rows(candidates)
    one = source.as_passed(block.slice(0, 1))
    kernel, _, rows = Predictor(estimator, np.zeros((1, 1)), source, pool, one, np.float64).paired(block)
    pivots = RandomPivots(Gram(kernel, rows, pool), np.ones(len(candidates)), rng, pool)

    def first(size: int) -> np.ndarray:
        pivots.grow(size)
        return candidates[pivots.rows] if len(pivots.rows) else candidates[:1]  # all kernel values are 0, which is told

    return first


def _supporting(
    source: Source,
    used: np.ndarray,
    most: int,
    rng: np.random.RandomState,
    budget: int,
    supports: Callable,
    tuning: NystroemTuning,
) -> Callable[[int], np.ndarray]:
    """Return a function as `_drawer` does. Support vectors of some samples come first, then others."""
    order = rng.permutation(used)
    row_bytes = tuning.learnt_bytes + source.nbytes // max(1, len(source))
    room = budget // (source.tuning.loaded_share * row_bytes)
    found = supports(order[: min(max(tuning.learnt * most, tuning.most), max(1, room))])
    order = np.concatenate([rng.permutation(found), order[~np.isin(order, found)]])
    return lambda size: order[:size]


def _given(estimator: Any) -> Any:
    """Return the landmarks that the user passed."""
    try:
        source = check_rows(estimator, estimator.landmarks, reset=False).in_memory()
    except ValueError as error:
        raise ValueError(f"landmarks cannot be used: {error}") from error
    check_finite(source.block, 0)
    return source.as_passed(source.block.take(_distinct(source.block)))


def _distinct(block: Block) -> np.ndarray:
    """Return the numbers of the rows that no earlier row is equal to."""
    if isinstance(block, CSRBlock):
        there = block.data != 0  # zeros may be stored, or not
        ends = np.append(0, np.cumsum(there))[block.indptr]
        places, values = block.indices[there], block.data[there]
        keys = [(places[a:b].tobytes(), values[a:b].tobytes()) for a, b in pairwise(ends)]
    else:
        keys = [(row.tobytes(), b"") for row in block.values + block.values.dtype.type(0)]  # -0.0 becomes 0.0
    return np.sort(np.array(list({key: k for k, key in reversed(list(enumerate(keys)))}.values()), np.int64))
