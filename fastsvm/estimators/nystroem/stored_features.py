"""The features of all samples, computed once: in memory if they fit, else in a scratch file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from fastsvm._compiled.threads import spans
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.estimators.nystroem.feature_map import FeatureMap
from fastsvm.kernels import Kernel, is_kernel
from fastsvm.sources import Block, DenseBlock, MemorySource, Source
from fastsvm.sources.tiled import ScratchSource
from fastsvm.tuning import NystroemTuning

__all__ = ["stored_features"]


def _is_bounded(estimator: Any) -> bool:
    """Return whether kernel values are at most 1, and 1 for a sample and itself."""
    kernel = resolve_kernel(estimator, 1.0)
    return is_kernel(kernel) and cast(Kernel, kernel).translation_invariant


@contextmanager
def stored_features(
    estimator: Any, source: Source, features: FeatureMap, budget: int, tuning: NystroemTuning
) -> Iterator[Source]:
    """Yield the features of samples; a scratch file is removed at the end, also after an error.

    Few features are in float64. Others are in float32 if half of the `budget`, in bytes, holds them, else in float16:
    in memory if half of the budget holds them then, else in a file. Features of kernels that have no bound stay in
    float32.
    """
    shape = len(source), features.rank
    n_values = shape[0] * shape[1]
    kinds: list[Any] = [np.float64] if n_values <= tuning.exact_values else []
    kinds += [np.float32, np.float16] if tuning.halves and _is_bounded(estimator) else [np.float32]
    for kind in kinds:
        if 2 * n_values * np.dtype(kind).itemsize <= budget:
            found = np.empty(shape, kind)
            for start, stop, block in _blocks(estimator, source, len(source)):
                features.write(block, found[start:stop])
            yield MemorySource(DenseBlock(found))
            return
    scratch = ScratchSource(shape, kinds[-1], estimator.scratch_folder, source)
    try:
        sizes = source.tuning
        most = max(1, min(sizes.block_bytes, budget // sizes.block_share) // (scratch.dtype.itemsize * shape[1]))
        for start, stop, block in _blocks(estimator, source, most):
            found = scratch.buffer(stop - start)
            features.write(block, found)
            features.pool.finish()  # one block is written while the next one is computed
            features.pool.start(scratch.append, [(found,)])
        features.pool.finish()
        yield scratch
    finally:
        features.pool.cancel()
        scratch.close()


def _blocks(estimator: Any, source: Source, most: int) -> Iterator[tuple[int, int, Block]]:
    """Yield blocks of at most `most` rows, with their bounds, and show the progress."""
    for start, block in shown(source.blocks(), len(source), "features", estimator):
        for a, b in spans(block.shape[0], most):
            yield start + a, start + b, block.slice(a, b)
