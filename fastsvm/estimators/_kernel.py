"""From an estimator's kernel parameters to an evaluator of kernel values, for training and prediction."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm.evaluators import (
    ByteEvaluator,
    CallableEvaluator,
    Evaluator,
    PrecomputedEvaluator,
    VectorEvaluator,
    multiplies_bytes,
)
from fastsvm.kernels import KERNELS, Kernel
from fastsvm.sources import Source, Survey

__all__ = [
    "Coefficients",
    "choose_precision",
    "make_kernel",
    "prediction_evaluator",
    "resolve_gamma",
    "training_evaluator",
]


class Coefficients(NamedTuple):
    """Norms of the coefficients of a decision function, known or expected."""

    norm_1: float
    norm_2: float


_FINE = 2e-6  # gradients of order 1 have steps of 1e-7 in float32
_SMALL = 2048  # so few rows that float64 costs nothing one would notice


def resolve_gamma(gamma: str | float, n_features: int, variance: float) -> float:
    """Return gamma as scikit-learn defines "scale" and "auto"."""
    if gamma == "scale":
        return 1.0 / (n_features * variance) if variance > 0 else 1.0
    return 1.0 / n_features if gamma == "auto" else float(gamma)


def make_kernel(estimator: Any, gamma: float) -> Kernel:
    """Return the kernel that an estimator's parameters name, with `gamma` resolved."""
    kind = KERNELS[estimator.kernel]
    given = {"gamma": gamma, "coef0": float(estimator.coef0), "degree": int(estimator.degree)}
    return kind(**{name: given[name] for name in kind._fields})


def choose_precision(kernel: Kernel, sq_norm: float, coef: Coefficients, tol: float) -> type:
    """Return float32 if the rounding of its kernel values cannot be seen at `tol`, else float64.

    A decision value is a sum of kernel values times coefficients. Errors of size e that are independent add up
    to e times the coefficients' 2-norm. Dot products of rows far from the origin err all in one direction, which
    can add up to the 1-norm; distances of centred rows do not.
    """
    rounding = kernel.rounding(float(np.finfo(np.float32).eps) / 4, sq_norm)
    norm = coef.norm_2 if kernel.translation_invariant else coef.norm_1
    seen = rounding * norm > tol / 3 or tol < _FINE
    return np.float64 if seen else np.float32


def training_evaluator(estimator: Any, source: Source, found: Survey, upper: np.ndarray, n: int) -> Evaluator:
    """Return the evaluator for a fit with bounds `upper`, whose largest two-class problem has `n` rows.

    About a quarter of the rows is expected to support, at their bounds.
    """
    if callable(estimator.kernel):
        return CallableEvaluator(estimator.kernel)
    if estimator.kernel == "precomputed":
        return PrecomputedEvaluator(np.arange(len(source)))
    kernel = make_kernel(estimator, estimator._gamma)
    most = float(upper.max())
    expected = Coefficients(most * n / 4, most * np.sqrt(n) / 2)
    centred = kernel.translation_invariant and not source.sparse
    sq_norm = found.centred_sq_norm if centred else found.sq_norm
    exact = kernel.pairing == "dot" and multiplies_bytes(source)
    dtype = _precision(estimator, kernel, 0.0 if exact and centred else sq_norm, expected, n)
    return ByteEvaluator(kernel, dtype) if exact else VectorEvaluator(kernel, dtype, found.centre, source.sparse)


def prediction_evaluator(estimator: Any, support: Source, coef: np.ndarray, source: Source) -> Evaluator:
    """Return the evaluator for the rows of `source` with the support vectors `support` and coefficients `coef`."""
    if callable(estimator.kernel):
        return CallableEvaluator(estimator.kernel)
    if estimator.kernel == "precomputed":
        return PrecomputedEvaluator(np.asarray(estimator.support_, dtype=np.int64))
    kernel = make_kernel(estimator, estimator._gamma)
    if len(support) == 0:
        return VectorEvaluator(kernel, np.float64, None, source.sparse)
    size = np.abs(coef)
    known = Coefficients(float(size.sum(axis=0).max()), float(np.linalg.norm(coef, axis=0).max()))
    exact = kernel.pairing == "dot" and multiplies_bytes(source) and multiplies_bytes(support)
    if exact and kernel.translation_invariant:
        return ByteEvaluator(kernel, _precision(estimator, kernel, 0.0, known, len(support)))
    sparse = support.sparse or source.sparse
    centred = kernel.translation_invariant and not sparse
    sq_norm = estimator._centred_sq_norm if centred else estimator._sq_norm
    dtype = _precision(estimator, kernel, sq_norm, known, len(support))
    return ByteEvaluator(kernel, dtype) if exact else VectorEvaluator(kernel, dtype, estimator._centre, sparse)


def _precision(estimator: Any, kernel: Kernel, sq_norm: float, coef: Coefficients, n: int) -> type:
    return np.float64 if n <= _SMALL else choose_precision(kernel, sq_norm, coef, estimator.tol)
