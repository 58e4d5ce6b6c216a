"""Landmarks: the estimators that have them, how they are chosen, and the features that they determine.

Landmarks are drawn uniformly, by pivoted Cholesky factorisation, among support vectors, or given. The decision function
of the exact machine is a sum of kernel values with its support vectors, most of which lie near the boundary of the
classes. Landmarks among those of a machine of some samples span it better than as many others.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.documentation import parametrised
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.fitting.validation import (
    STATISTICS,
    Attributes,
    Rule,
    Samples,
    check_columns,
    check_rows,
    either,
    number,
    one_of,
)
from fastsvm.estimators.kernel.kernel_parameter import (
    KERNEL_RULES,
    KernelEstimator,
    Standardization,
    attributes_of,
    check_kernel_object,
    geometry_of,
    is_precomputed,
    resolve_gamma,
    resolve_kernel,
    warn_of_lengths,
)
from fastsvm.estimators.kernel.prediction import Predictor, by_range
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernels import is_kernel
from fastsvm.low_rank import NystroemMap, RandomPivots
from fastsvm.sources import Block, DenseBlock, MemorySource, Source, check_finite, feature_statistics
from fastsvm.sources.tiled import ScratchSource
from fastsvm.tuning import NystroemTuning, current_tuning

ROWS = Rule(lambda value: hasattr(value, "shape") or isinstance(value, (list, tuple)), "rows of samples")
"""Rule of given landmarks."""
LANDMARK_RULES = KERNEL_RULES | {
    "n_components": either(one_of("auto"), number(integral=True, least=1)),
    "landmarks": either(one_of("uniform", "rpcholesky"), ROWS),
    "rank_tol": number(least=0, below=1),
}
"""Rules of the parameters of landmarks and kernels."""
_PAIR_BYTES = 3 * np.dtype(np.float64).itemsize
"""The kernel matrix of landmarks, its eigenvectors and the factor take so many bytes for a pair."""


@parametrised
class LandmarkEstimator(KernelEstimator):
    """An estimator with a kernel and landmarks.

    Parameters
    ----------
    kernel : str, callable or kernel object, default="rbf"
        "linear", "poly", "rbf", "laplacian", "exponential", a function of two blocks of samples, or an
        object such as `fastsvm.kernels.RBF(0.5)`. It must be positive semi-definite. Kernel values cannot be
        precomputed.
    n_components : "auto" or int, default="auto"
        Number of landmarks, at most that of the distinct samples. "auto" is the smallest of 64, 128, ..., 2,048 with
        which `trace_error_` is at most .01, fewer if the memory asks for it. The time of a fit grows with its square.
    rank_tol : float, default=1e-6
        Directions of the landmarks whose eigenvalue is at most this share of the largest are left out.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks, and of the order in which a machine processes samples.

    Attributes
    ----------
    components_ : array or CSR matrix, shape (n_landmarks, n_features)
        The landmarks, as they were passed.
    component_indices_ : ndarray of int64, shape (n_landmarks,)
        Numbers of the samples that are landmarks; missing if an array of landmarks was passed.
    rank_ : int
        Number of new features: directions of the landmarks that were kept.
    trace_error_ : float
        Share of the trace of the kernel matrix that the features do not have, measured on at most 1,024 samples.
    """

    _: KW_ONLY
    n_components: int | str = "auto"
    landmarks: str | np.ndarray = "uniform"
    rank_tol: float = 1e-6
    memory: str | int = "auto"
    random_state: int | np.random.RandomState | None = None

    def _check_landmark_kernel(self) -> None:
        """Raise ValueError for a kernel that landmarks cannot have."""
        check_kernel_object(self.kernel)
        if is_precomputed(self):
            raise ValueError(
                f"{type(self).__name__} computes kernel values with landmarks, and X would hold all of them: pass "
                "features and a kernel, or use SVC with kernel='precomputed'."
            )

    def _standardized(self, source: Source, weight: np.ndarray) -> Source:
        """Return the samples as they are passed; the map to standardised ones, and gamma, are attributes."""
        check_columns(self.memory, source.shape[1], STATISTICS)
        weights = None if (weight == weight[0]).all() else weight
        standardization = Standardization.of(source, weights) if self.standardize else None
        seen = source if standardization is None else standardization.apply(source)
        statistics = feature_statistics(seen, weights)
        if standardization is None:
            warn_of_lengths(type(self).__name__, statistics, source)
        gamma = resolve_gamma(self.gamma, source.shape[1], statistics.variance)
        self.__dict__.update(geometry_of(gamma, statistics) | attributes_of(standardization))
        return source

    def _landmark_attributes(self, chosen: "Chosen", places: np.ndarray | None) -> Attributes:
        """Return the fitted attributes of landmarks; `places` are the numbers of the samples that are learnt."""
        attributes = {"components_": chosen.features.landmarks, "rank_": chosen.features.map.rank}
        if chosen.places is not None:
            attributes["component_indices_"] = chosen.places if places is None else places[chosen.places]
        return attributes | {"trace_error_": chosen.trace_error}


# --- features --------------------------------------------------------------------------------------------


class FeatureMap:
    """Nyström features of samples as they are passed: standardised, or as bytes, where the kernel sees them so.

    The estimator has the parameters of a kernel, `rank_tol`, and the attributes of `geometry_of` and `Standardization`.
    `map_` is the map, if it was computed before.
    """

    def __init__(
        self, estimator: BaseEstimator, landmarks: Samples, source: Source, pool: Pool, map_: NystroemMap | None = None
    ) -> None:
        self.landmarks, self.pool = landmarks, pool
        self._estimator, self._source = estimator, source
        self._predictors: dict[np.dtype, Predictor] = {}
        if map_ is None:
            exact = self.predictor(np.float64)
            kernel, _, rows = exact.paired(exact.stored.block)
            map_ = NystroemMap.of(kernel, rows, estimator.rank_tol, pool)
        self.map = map_

    def predictor(self, dtype: np.dtype | type) -> Predictor:
        """Return what pairs landmarks with samples in a type of kernel values."""
        dtype = np.dtype(dtype)
        if dtype not in self._predictors:
            coef = np.zeros((len(MemorySource.of(self.landmarks)), 1))
            self._predictors[dtype] = Predictor(
                self._estimator, coef, self._source, self.pool, self.landmarks, dtype.type
            )
        return self._predictors[dtype]

    def write(self, block: Block, out: np.ndarray, by_row: bool = False) -> None:
        """Write the features of a block of samples; products are in float64 if `out` is, else in float32.

        With `by_row`, those of a sample do not depend on the others.
        """
        dtype = np.float64 if out.dtype == np.float64 else np.float32
        usual, landmarks, source = self.predictor(dtype).paired(block)
        for kernel, part, rows in by_range(usual, source.block):
            features = out[rows]  # a view of all rows, or a copy of some
            self.map.write((kernel, landmarks, MemorySource(part)), features, self.pool, by_row)
            if part is not source.block:
                out[rows] = features

    def trace_error(self, block: Block) -> float:
        """Return the share of the trace of the kernel matrix of samples that the features do not have."""
        return self.map.trace_error(self.predictor(np.float64).paired(block), self.pool)


@contextmanager
def stored_features(
    estimator: BaseEstimator, source: Source, features: FeatureMap, budget: int, tuning: NystroemTuning
) -> Iterator[Source]:
    """Yield the features of samples; a scratch file is removed at the end, also after an error.

    Few features are in float64. Others are in float32 if half of the `budget`, in bytes, holds them, else, where the
    kernel has a bound, in float16: in memory if half of the budget holds them then, else in a file.
    """
    shape = len(source), features.map.rank
    n_values = shape[0] * shape[1]
    kinds: list[type[np.floating]] = [np.float64] if n_values <= tuning.exact_values else []
    kernel = resolve_kernel(estimator, 1.0)
    is_bounded = is_kernel(kernel) and kernel.translation_invariant  # values are at most 1
    kinds += [np.float32, np.float16] if tuning.halves and is_bounded else [np.float32]
    for kind in kinds:
        if 2 * n_values * np.dtype(kind).itemsize <= budget:
            values: np.ndarray = np.empty(shape, kind)
            for start, stop, block in _blocks(estimator, source, len(source)):
                features.write(block, values[start:stop])
            yield MemorySource(DenseBlock(values))
            return
    scratch = ScratchSource(shape, kinds[-1], estimator.scratch_folder, source)
    try:
        sizes = source.tuning
        most = max(1, min(sizes.block_bytes, budget // sizes.block_share) // (scratch.dtype.itemsize * shape[1]))
        with ThreadPoolExecutor(1) as thread:
            writing: Future | None = None
            for start, stop, block in _blocks(estimator, source, most):
                values = scratch.buffer(stop - start)
                features.write(block, values)
                if writing is not None:
                    writing.result()
                writing = thread.submit(scratch.append, values)  # while the next block is computed
            if writing is not None:
                writing.result()
        yield scratch
    finally:
        scratch.close()


def _blocks(estimator: BaseEstimator, source: Source, most: int) -> Iterator[tuple[int, int, Block]]:
    """Yield blocks of at most `most` rows, with their bounds, and show the progress."""
    for start, block in shown(source.blocks(), len(source), "features", estimator):
        for a, b in spans(block.shape[0], most):
            yield start + a, start + b, block.slice(a, b)


# --- the choice of landmarks -----------------------------------------------------------------------------


class Chosen(NamedTuple):
    """Landmarks and their features.

    `places` are the numbers of the landmarks among the rows; None if they were given. `trace_error` is the share of the
    trace of the kernel matrix that the features do not have, on a sample of the rows.
    """

    features: FeatureMap
    places: np.ndarray | None
    trace_error: float


def choose(
    estimator: BaseEstimator,
    source: Source,
    used: np.ndarray,
    rng: np.random.RandomState,
    budget: int,
    pool: Pool,
    supports: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Chosen:
    """Return the landmarks of a fit, among the samples whose numbers are `used`, in the order in which they are drawn.

    `supports(rows)` returns the support vectors among some samples, for `landmarks="support"`.
    """
    tuning = current_tuning().nystroem
    sample = source.rows(rng.permutation(used)[: tuning.sample_rows])
    if not isinstance(estimator.landmarks, str):
        features = FeatureMap(estimator, _given(estimator), source, pool)
        return Chosen(features, None, features.trace_error(sample))
    is_auto, most = estimator.n_components == "auto", _most(estimator, source, len(used), budget, tuning)
    first = _drawer(estimator, source, used, most, rng, budget, pool, supports)
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


def _most(estimator: BaseEstimator, source: Source, n: int, budget: int, tuning: NystroemTuning) -> int:
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
    estimator: BaseEstimator,
    source: Source,
    used: np.ndarray,
    most: int,
    rng: np.random.RandomState,
    budget: int,
    pool: Pool,
    supports: Callable[[np.ndarray], np.ndarray] | None,
) -> Callable[[int], np.ndarray]:
    """Return a function of a number, rising from call to call, that returns so many rows; the first stay the same."""
    order, tuning = rng.permutation(used), current_tuning().nystroem
    if estimator.landmarks == "uniform":
        return lambda size: order[:size] if size < len(order) else used
    if supports is not None and estimator.landmarks == "support":  # those of some samples come first, then others
        room = budget // (source.tuning.loaded_share * (tuning.learnt_bytes + source.row_bytes))
        vectors = supports(order[: min(max(tuning.learnt * most, tuning.most), max(1, room))])
        supported = np.concatenate([rng.permutation(vectors), order[~np.isin(order, vectors)]])
        return lambda size: supported[:size]
    candidates = order[: max(most, min(tuning.pool * most, budget // (source.tuning.loaded_share * 8 * most)))]
    block = source.rows(candidates)
    one = source.as_passed(block.slice(0, 1))
    kernel, _, rows = Predictor(estimator, np.zeros((1, 1)), source, pool, one, np.float64).paired(block)
    pivots = RandomPivots(Gram(kernel, rows, pool), np.ones(len(candidates)), rng, pool)

    def first(size: int) -> np.ndarray:
        pivots.grow(size)
        return candidates[pivots.rows] if len(pivots.rows) else candidates[:1]  # all kernel values are 0, which is told

    return first


def _given(estimator: BaseEstimator) -> Samples:
    """Return the landmarks that the user passed."""
    try:
        source = check_rows(estimator, estimator.landmarks, reset=False).in_memory()
    except ValueError as error:
        raise ValueError(f"landmarks cannot be used: {error}") from error
    check_finite(source.block, 0)
    return source.as_passed(source.block.take(_distinct(source.block)))


def _distinct(block: Block) -> np.ndarray:
    """Return the numbers of the rows that no earlier row is equal to."""
    keys = block.compressed(block.stored.dtype).keys()  # for which -0.0 is 0.0
    last_to_first = reversed(list(enumerate(keys)))
    return np.sort(np.array(list({key: k for k, key in last_to_first}.values()), np.int64))
