"""The decision functions of a fitted estimator: expansions in kernel values with its support vectors."""

import functools
import math
import weakref
from collections.abc import Iterable, Iterator
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
from fastsvm.kernel_matrix.expansion import ExpansionPart, PairCoefficients, are_few, expand_parts, expansion_parts
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, RealPairwise, Uint8Pairwise
from fastsvm.kernel_matrix.rounding import SEEN, UNIT
from fastsvm.kernels import Linear, is_kernel
from fastsvm.memory import parse_memory
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
        self._kernels: dict[type, PairwiseKernel] = {}
        self._parts: dict[tuple, list[ExpansionPart]] | None = None

    @classmethod
    def of_model(cls, model: BaseEstimator, source: Source, pool: Pool) -> "Predictor":
        """Return the predictor of a fitted kernel machine.

        What does not depend on the rows to predict is kept as long as the model is, if it takes little of `memory`.
        Support vectors and coefficients become read-only: nothing would show that they changed.
        """
        key, facts = id(model.support_), _facts(model)
        known, kept = _KEPT.get(key, ((), None))
        if kept is None or facts is None or not _are_same(facts, known):
            model._check_unaltered()
            is_kept = facts is not None and _is_small(model)
            for array in _arrays(model) if is_kept else ():
                array.flags.writeable = False
            kept = cls(model, model._expansion_coefficients(), source, pool)
            if facts is None or not is_kept:
                return kept
            # Nothing here holds `support_`, whose end is that of the model.
            kept.__dict__ |= {"_parts": {}, "support": kept.support, "estimator": None, "pool": None, "_source": None}
            if key not in _KEPT:
                weakref.finalize(model.support_, _KEPT.pop, key, None)
            _KEPT[key] = facts, kept
        predictor = object.__new__(cls)
        predictor.__dict__ = kept.__dict__ | {"estimator": model, "pool": pool, "_source": source}
        return predictor

    def _norm(self) -> float:
        """Return the largest norm of the coefficients of a decision function, as for `choose_precision`."""
        order = 2 if self.kernel.translation_invariant else 1
        if isinstance(self.coef, PairCoefficients):
            return self.coef.largest_norms()[order - 1]
        return float(np.linalg.norm(self.coef, order, axis=0).max(initial=0))

    @functools.cached_property
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
                return self._expanded(self._uint8_pairwise(quantization), (support.block, self.coef), converted)
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
        kind = type(block)
        if kind not in self._kernels:
            self._kernels[kind] = self._pairwise(block)
        for pairwise, part, rows in by_range(self._kernels[kind], block):
            scores[rows] = self._expanded(pairwise, self._expansion, part)
        return scores

    def _expanded(
        self, pairwise: Any, expansion: tuple[Block, np.ndarray | PairCoefficients], block: Block
    ) -> np.ndarray:
        """Return the values of an expansion at the rows of a block."""
        parts: Iterable[ExpansionPart] = expansion_parts(pairwise, *expansion, block.shape[0])
        is_alike = getattr(pairwise, "compressed", isinstance(pairwise, Uint8Pairwise))  # for few rows and for many
        if self._parts is not None and (is_alike or are_few(pairwise, block.shape[0])):
            key = pairwise.dtype, type(pairwise), is_alike  # the kernels of a model differ in these alone
            if key not in self._parts:
                self._parts[key] = list(expansion_parts(pairwise, *expansion, block.shape[0], is_kept=True))
            parts = self._parts[key]
        coef = expansion[1]
        n_outputs = coef.n_outputs if isinstance(coef, PairCoefficients) else coef.shape[1]
        return expand_parts(pairwise, parts, n_outputs, block, self.pool)

    @functools.cached_property
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


_KEPT: dict[int, tuple[tuple, Predictor]] = {}  # by the identity of `support_`
_FACTS = (
    "kernel", "degree", "coef0", "tol", "memory", "stop_reason_", "_gamma", "_sq_norm", "_centred_sq_norm",
    "n_support_", "intercept_", "_centre", "_scale", "_shift",
)  # fmt: skip
_KEPT_SHARE = 16  # What is kept takes at most one of so many parts of the memory.


def _facts(model: BaseEstimator) -> tuple | None:
    """Return what predictions depend on beside the support vectors' numbers; None if they may depend on more."""
    if not isinstance(model.kernel, str) or model.kernel == "precomputed":
        return None
    arrays = _arrays(model)
    if not all(type(array) is np.ndarray for array in (model.support_, *arrays)):
        return None
    return *map(vars(model).get, _FACTS), *arrays


def _arrays(model: BaseEstimator) -> list[np.ndarray]:
    """Return the arrays of the support vectors and their coefficients, of which either may be a CSR matrix."""
    arrays: list[np.ndarray] = []
    for one in (model.support_vectors_, model.dual_coef_):
        arrays += (one.data, one.indices, one.indptr) if hasattr(one, "indptr") else (one,)
    return arrays


def _is_small(model: BaseEstimator) -> bool:
    """Return whether what is kept takes little of the memory."""
    arrays = _arrays(model)
    n_bytes = max(4, len(arrays)) * sum(array.nbytes for array in arrays)  # rows and panels in float64, or an index
    return _KEPT_SHARE * n_bytes <= parse_memory(model.memory, enough=_KEPT_SHARE * n_bytes)


def _are_same(facts: tuple, others: tuple) -> bool:
    """Return whether facts are equal, and arrays the same objects."""
    return all(
        a is b or (not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray) and a == b)
        for a, b in zip(facts, others, strict=True)
    )


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
