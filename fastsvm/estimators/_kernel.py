"""From an estimator's kernel parameters to an evaluator of kernel values, for training and prediction."""

from typing import Any

import numpy as np

from fastsvm.gram import CallableEvaluator, Evaluator, PrecomputedEvaluator, VectorEvaluator
from fastsvm.kernels import KERNELS, Kernel
from fastsvm.sources import Block, CSRBlock, Survey

__all__ = ["choose_precision", "make_kernel", "prediction_evaluator", "resolve_gamma", "training_evaluator"]

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


def choose_precision(kernel: Kernel, sq_norm: float, coef_norm: float, tol: float) -> type:
    """Return float32 if the rounding of its kernel values cannot be seen at `tol`, else float64.

    A decision value is a sum of kernel values with coefficients of 2-norm `coef_norm`; independent errors of
    size e add up to e times that.
    """
    rounding = kernel.rounding(float(np.finfo(np.float32).eps) / 4, sq_norm)
    return np.float32 if rounding * coef_norm <= tol else np.float64


def training_evaluator(
    estimator: Any, found: Survey | None, n: int, upper: np.ndarray, sparse: bool
) -> Evaluator:
    """Return the evaluator for a fit on `n` rows with bounds `upper`, of which about a quarter support."""
    if estimator.kernel == "precomputed":
        return PrecomputedEvaluator(np.arange(n))
    if callable(estimator.kernel):
        return CallableEvaluator(estimator.kernel)
    kernel = make_kernel(estimator, estimator._gamma)
    sq_norm = found.centred_sq_norm if kernel.translation_invariant and not sparse else found.sq_norm
    coef_norm = float(upper.max()) * np.sqrt(n) / 2
    dtype = np.float64 if n <= _SMALL else choose_precision(kernel, sq_norm, coef_norm, estimator.tol)
    return VectorEvaluator(kernel, dtype, found.centre, sparse)


def prediction_evaluator(estimator: Any, support: Block, coef: np.ndarray, sparse: bool) -> Evaluator:
    """Return the evaluator for decisions with the support vectors `support` and coefficients `coef`."""
    if estimator.kernel == "precomputed":
        return PrecomputedEvaluator(np.asarray(estimator.support_, dtype=np.int64))
    if callable(estimator.kernel):
        return CallableEvaluator(estimator.kernel)
    kernel = make_kernel(estimator, estimator._gamma)
    centre = None
    if isinstance(support, CSRBlock):
        row = np.repeat(np.arange(support.shape[0]), np.diff(support.indptr))
        sq_norm = float(np.bincount(row, np.square(support.data, dtype=np.float64)).max(initial=0.0))
    else:
        values = support.values
        if kernel.translation_invariant and not sparse and len(values):
            centre = values.mean(axis=0, dtype=np.float64)
            centre = np.rint(centre) if values.dtype.kind in "iub" else centre
        sq_norm = max((_sq_norms(values[a : a + 1024], centre) for a in range(0, len(values), 1024)), default=0.0)
    if support.shape[0] <= _SMALL:
        dtype = np.float64
    else:
        dtype = choose_precision(kernel, sq_norm, float(np.linalg.norm(coef, axis=0).max()), estimator.tol)
    return VectorEvaluator(kernel, dtype, centre, sparse)


def _sq_norms(values: np.ndarray, centre: np.ndarray | None) -> float:
    rows = values.astype(np.float64)
    if centre is not None:
        rows -= centre
    return float(np.einsum("ij,ij->i", rows, rows).max(initial=0.0))
