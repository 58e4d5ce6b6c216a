"""The decision functions of a fitted estimator: expansions in kernel values with its support vectors."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.validation import Samples
from fastsvm.estimators.kernel.kernel_parameter import (
    MOST_SINGLE,
    ObjectSource,
    Standardization,
    bytes_for,
    choose_precision,
    common_factor,
    has_single_range,
    resolve_kernel,
    user_pairwise,
)
from fastsvm.kernel_matrix.accurate_sums import weighted_rows
from fastsvm.kernel_matrix.expansion import PairCoefficients, expand
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, RealPairwise, Uint8Pairwise
from fastsvm.kernel_matrix.rounding import SEEN, UNIT
from fastsvm.kernels import Linear, is_kernel
from fastsvm.sources import Block, CSRBlock, DenseBlock, MemorySource, Quantization, Source, check_finite
from fastsvm.tuning import current_tuning

_SCORE_BYTES = 16 << 20  # Scores that are computed at once take so many bytes.
_MOST_SINGLE = math.sqrt(MOST_SINGLE)  # The square of such a value of a row, and its products, are numbers of float32.


class Predictor:
    """The decision functions of a fitted estimator, one a column of `coef`, shape (n_support, n_outputs).

    Other samples, `vectors`, may take the place of the support vectors. `dtype` is that of kernel values, None for the
    one that the coefficients need.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        coef: np.ndarray | PairCoefficients,
        source: Source,
        pool: Pool,
        vectors: Samples = None,
        dtype: type | None = None,
    ) -> None:
        self.estimator, self.pool, self._tuning = estimator, pool, current_tuning().kernel
        self.coef = coef if isinstance(coef, PairCoefficients) else writeable(coef)
        self.n_outputs = coef.n_outputs if isinstance(coef, PairCoefficients) else coef.shape[1]
        self._source, self._dtype = source, dtype
        self.kernel: Any = resolve_kernel(estimator, estimator._gamma)
        self._standardization = Standardization.of_model(estimator)
        self._factor = common_factor(self.kernel, self._standardization)
        vectors = estimator.support_vectors_ if vectors is None else vectors
        self.stored = ObjectSource(vectors) if isinstance(source, ObjectSource) else MemorySource.of(vectors)
        self._as_bytes = self._bytes_of_support()

    def _norm(self) -> float:
        """Return the largest norm of the coefficients of a decision function, as for `choose_precision`."""
        order = 2 if self.kernel.translation_invariant else 1
        if isinstance(self.coef, PairCoefficients):
            return self.coef.largest_norms()[order - 1]
        return float(np.linalg.norm(self.coef, order, axis=0).max(initial=0))

    @cached_property
    def support(self) -> MemorySource:
        """Support vectors as the kernel sees them."""
        map_, stored = self._standardization, self.stored
        return stored if map_ is None else map_.apply(stored).in_memory()

    def _bytes_of_support(self) -> tuple[Quantization, MemorySource] | None:
        """Return the map and the bytes of the support vectors; small ones are multiplied as they are."""
        stored, (n, d) = self.stored, self.stored.shape
        if n == 0 or not self._tuning.byte_products or self._factor is None:
            return None
        if n * d < self._tuning.byte_values and stored.dtype != np.uint8:
            return None
        as_bytes = bytes_for(self.kernel, stored, self.pool)
        return None if as_bytes is None else (as_bytes[0], as_bytes[1].in_memory())

    def scores(self, block: Block) -> np.ndarray:
        """Return Σ_s coef[s, c] k(support_s, x) for the rows x of a block, shape (n_rows, n_outputs)."""
        if self._as_bytes is not None:
            quantization, support = self._as_bytes
            converted = quantization.convert(block, self.pool)
            if converted is not None:
                return expand(self._uint8_pairwise(quantization), support.block, self.coef, converted, self.pool)
            are_bytes = quantization.holds(block)
            if are_bytes.any():  # a row is computed alike whatever stands beside it
                scores = np.empty((block.shape[0], self.n_outputs))
                scores[are_bytes] = self.scores(block.take(np.flatnonzero(are_bytes)))
                scores[~are_bytes] = self._scores_of_floats(block.take(np.flatnonzero(~are_bytes)))
                return scores
        return self._scores_of_floats(block)

    def decisions(self, source: Source, intercept: np.ndarray, is_checked: bool) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of the first of some rows, and their scores plus the intercepts."""
        most = max(1, _SCORE_BYTES // (8 * max(1, self.n_outputs)))
        for start, block in source.blocks():
            if not is_checked:
                check_finite(block, start)
            for a, b in spans(block.shape[0], most):
                scores = self.scores(block if b - a == block.shape[0] else block.slice(a, b))
                scores += intercept
                yield start + a, scores

    def paired(self, block: Block) -> tuple[PairwiseKernel, MemorySource, MemorySource]:
        """Return the kernel, and support vectors and rows of a block as it multiplies them."""
        if self._as_bytes is not None:
            quantization, support = self._as_bytes
            converted = quantization.convert(block, self.pool)
            if converted is not None:
                return self._uint8_pairwise(quantization), support, MemorySource(converted)
        block = self._standardized(block)
        return self._pairwise(block), self.support, MemorySource(block)

    def exact(self, block: Block) -> tuple[PairwiseKernel, MemorySource, MemorySource]:
        """Return what `paired` does, with kernel values in float64."""
        pairwise, support, rows = self.paired(block)
        return pairwise.widened(), support, rows

    def _standardized(self, block: Block) -> Block:
        if self._standardization is None:
            return block
        return self._standardization.apply(MemorySource(block), self.support.dtype).read(0, block.shape[0])

    def _scores_of_floats(self, block: Block) -> np.ndarray:
        block = self._standardized(block)
        scores = np.empty((block.shape[0], self.n_outputs))
        for pairwise, part, rows in by_range(self._pairwise(block), block):
            scores[rows] = expand(pairwise, *self._expansion, part, self.pool)
        return scores

    @cached_property
    def _expansion(self) -> tuple[Block, np.ndarray | PairCoefficients]:
        """Support vectors and their coefficients, or the weights of the features with a linear kernel.

        Large multipliers of a linear kernel cancel. The weights are summed in more digits where that would be visible.
        """
        block, coef = self.support.block, self.coef
        if not (isinstance(self.kernel, Linear) and isinstance(block, DenseBlock) and isinstance(coef, np.ndarray)):
            return block, coef
        rounding = self.estimator._sq_norm * np.abs(coef).sum(axis=0).max(initial=0.0) * sum(block.shape) * UNIT
        if not rounding > SEEN * getattr(self.estimator, "tol", np.inf):
            return block, coef
        weights = np.array([weighted_rows(block.dense(np.float64), each).high for each in coef.T])
        return DenseBlock(weights), np.eye(len(weights))

    def _uint8_pairwise(self, quantization: Quantization) -> PairwiseKernel:
        sq_norm = 0.0 if self.kernel.translation_invariant else self.estimator._sq_norm
        return Uint8Pairwise(self.kernel, self._value_type(sq_norm), quantization.times(self._factor or 1.0).scale)

    def _pairwise(self, block: Block) -> PairwiseKernel:
        kernel, model = self.kernel, self.estimator
        columns = np.asarray(getattr(model, "support_", ()), dtype=np.int64)
        if not is_kernel(kernel):
            return user_pairwise(kernel, columns, self._source)
        sparse = self.support.sparse or isinstance(block, CSRBlock)
        if len(self.support) == 0:
            return RealPairwise(kernel, np.float64, None, sparse, all_near=True)
        centred = kernel.translation_invariant and not sparse
        sq_norm = model._centred_sq_norm if centred else model._sq_norm
        return RealPairwise(kernel, self._value_type(sq_norm), model._centre, sparse, all_near=True)

    def _value_type(self, sq_norm: float) -> type:
        """Return the type of kernel values for rows of this squared norm."""
        if not has_single_range(self.kernel, self.estimator._sq_norm, self.estimator._centred_sq_norm):
            return np.float64
        if self._dtype is not None:
            return self._dtype
        if getattr(self.estimator, "stop_reason_", None) == "imported":  # of another program, whose values are float64
            return np.float64
        if len(self.stored) <= self._tuning.few_rows:
            return np.float64
        return choose_precision(self.kernel, sq_norm, self._norm(), self.estimator.tol)


def by_range(pairwise: PairwiseKernel, block: Block) -> list[tuple[PairwiseKernel, Block, np.ndarray | slice]]:
    """Return kernels, rows and their numbers: rows whose squares float32 does not have are paired in float64.

    Others are computed alike whatever stands beside them. The numbers are a slice if they are all.
    """
    whole: list[tuple[PairwiseKernel, Block, np.ndarray | slice]] = [(pairwise, block, slice(None))]
    if not (isinstance(pairwise, RealPairwise) and pairwise.dtype == np.float32):
        return whole
    n, values = block.shape[0], block.stored
    if values.size == 0 or -_MOST_SINGLE <= values.min() <= values.max() <= _MOST_SINGLE:
        return whole
    places = np.repeat(np.arange(n), np.diff(block.ends))
    far = np.bincount(places, np.abs(values.ravel()) > _MOST_SINGLE, n) > 0
    parts = (pairwise, np.flatnonzero(~far)), (pairwise.widened(), np.flatnonzero(far))
    return [(kernel, block.take(rows), rows) for kernel, rows in parts]
