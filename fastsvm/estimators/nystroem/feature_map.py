"""The features of an estimator's samples, by its landmarks."""

from typing import Any

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.kernel.prediction import Predictor, by_range
from fastsvm.low_rank.nystroem_map import NystroemMap
from fastsvm.sources import Block, MemorySource, Source

__all__ = ["FeatureMap"]


class FeatureMap:
    """Nyström features of samples as they are passed: standardised, or as bytes, where the kernel sees them so.

    The landmarks are of the kind in which samples are passed. The features of the samples in `source` are wanted. The
    estimator has the parameters of a kernel, `rank_tol`, and the attributes of `SampleGeometry` and `Standardization`.
    `known` is the map, if it was computed before.
    """

    def __init__(
        self, estimator: Any, landmarks: Any, source: Source, pool: Pool, known: NystroemMap | None = None
    ) -> None:
        self.landmarks, self.pool = landmarks, pool
        self._given = estimator, source
        self._predictors: dict[np.dtype, Predictor] = {}
        self.map = self._computed(estimator.rank_tol) if known is None else known

    def _computed(self, rank_tol: float) -> NystroemMap:
        exact = self.predictor(np.float64)
        pairwise, _, rows = exact.paired(exact.stored.block)
        return NystroemMap.of(pairwise, rows, rank_tol, self.pool)

    @property
    def rank(self) -> int:
        """Number of features."""
        return self.map.rank

    def predictor(self, dtype: np.dtype | type) -> Predictor:
        """Return what pairs landmarks with samples in a type of kernel values."""
        dtype = np.dtype(dtype)
        if dtype not in self._predictors:
            estimator, source = self._given
            stored = MemorySource.of(self.landmarks)
            coef = np.zeros((len(stored), 1))
            self._predictors[dtype] = Predictor(estimator, coef, source, self.pool, self.landmarks, dtype.type)
        return self._predictors[dtype]

    def write(self, block: Block, out: np.ndarray, by_row: bool = False) -> None:
        """Write the features of a block of samples; products are in float64 if `out` is, else in float32.

        With `by_row`, those of a sample do not depend on the others.
        """
        dtype = np.float64 if out.dtype == np.float64 else np.float32
        given, landmarks, source = self.predictor(dtype).paired(block)
        for pairwise, part, rows in by_range(given, source.block):
            found = out[rows]  # a view of all rows, or a copy of some
            self.map.write((pairwise, landmarks, MemorySource(part)), found, self.pool, by_row)
            if part is not source.block:
                out[rows] = found

    def trace_error(self, block: Block) -> float:
        """Return the share of the trace of the kernel matrix of samples that the features do not have."""
        return self.map.trace_error(self.predictor(np.float64).paired(block), self.pool)
