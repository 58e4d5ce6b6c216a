"""From an estimator's kernel parameters to an evaluator of kernel values, for training."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._threads import Pool
from fastsvm.evaluators import (
    ByteEvaluator,
    CallableEvaluator,
    Evaluator,
    PrecomputedEvaluator,
    VectorEvaluator,
    multiplies_bytes,
)
from fastsvm.kernels import KERNELS, Kernel
from fastsvm.sources import ByteImage, MemorySource, Source, Survey, find_byte_image, survey

__all__ = [
    "Coefficients",
    "TrainingRows",
    "bytes_for",
    "choose_precision",
    "make_kernel",
    "resolve_gamma",
    "training_evaluator",
    "training_rows",
    "value_type",
]


class Coefficients(NamedTuple):
    """Norms of the coefficients of a decision function, known or expected."""

    norm_1: float
    norm_2: float


_FINE = 2e-6  # gradients of order 1 have steps of 1e-7 in float32
_SMALL = 2048  # so few rows that float64 costs nothing one would notice
_MUCH = 1 << 31  # multiplications of a whole kernel matrix that take long enough to look for bytes
_NEAR_CENTRE = 0.5  # of the squared norm: closer to the middle, centring would save less than a bit
_SPARSEST = 1 / 40  # of sparse rows with fewer non-zeros the products are cheaper than of dense bytes


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


class TrainingRows(NamedTuple):
    """Rows in the form in which they are multiplied.

    Attributes
    ----------
    source : Source
        Rows as given, or their bytes.
    image : ByteImage or None
        How values come from bytes, None if the rows are not multiplied as bytes.
    found : Survey
        Of the rows as given.
    """

    source: Source
    image: ByteImage | None
    found: Survey


def training_rows(estimator: Any, source: Source, weight: np.ndarray | None, spare: int, pool: Pool) -> TrainingRows:
    """Return the rows of a fit, as bytes if they are an affine image of bytes and a copy of `spare` bytes holds them.

    Raises
    ------
    ValueError
        If a value is NaN or infinite.
    """
    found = bytes_for(estimator, source, pool) if _worth_a_copy(source, spare) else None
    if found is None:
        return TrainingRows(source, None, survey(source, weight))
    image, rows = found
    return TrainingRows(rows, image, survey(rows, weight).affine(*image))


def _worth_a_copy(source: Source, spare: int) -> bool:
    """Return whether rows as bytes take no copy, or one that fits and is small beside the work it saves."""
    if source.dtype == np.uint8 and not source.sparse:
        return True
    n, d = source.shape
    density = len(source.block.data) / (n * d) if isinstance(source, MemorySource) and source.sparse else 1
    return n * d <= spare and n * n * d >= _MUCH and density >= _SPARSEST


def bytes_for(estimator: Any, source: Source, pool: Pool) -> tuple[ByteImage, Source] | None:
    """Return the map and the bytes of rows, or None if the kernel or the processor does not multiply those."""
    kind = KERNELS.get(estimator.kernel) if isinstance(estimator.kernel, str) else None
    if kind is None or kind.pairing != "dot" or not multiplies_bytes(source.shape[1]):
        return None
    found = find_byte_image(source, pool)
    if found is None or (found[0].offset != 0 and not kind.translation_invariant):
        return None
    return found


def training_evaluator(estimator: Any, rows: TrainingRows, most: float, n: int) -> Evaluator:
    """Return the evaluator for a fit with bounds of at most `most`, whose largest two-class problem has `n` rows.

    About a quarter of the rows is expected to support, at their bounds.
    """
    source, image, found = rows
    if callable(estimator.kernel):
        return CallableEvaluator(estimator.kernel)
    if estimator.kernel == "precomputed":
        return PrecomputedEvaluator(np.arange(len(source)))
    kernel = make_kernel(estimator, estimator._gamma)
    expected = Coefficients(most * n / 4, most * np.sqrt(n) / 2)
    centred = kernel.translation_invariant and not source.sparse
    sq_norm = found.usual_sq_norm if centred else found.sq_norm  # values of far rows are small, and so are their errors
    dtype = value_type(estimator, kernel, 0.0 if image is not None and centred else sq_norm, expected, n)
    if image is not None:
        return ByteEvaluator(kernel, dtype, image.scale)
    off_centre = found.centred_sq_norm < _NEAR_CENTRE * found.sq_norm
    return VectorEvaluator(kernel, dtype, found.centre if off_centre else None, source.sparse)


def value_type(estimator: Any, kernel: Kernel, sq_norm: float, coef: Coefficients, n: int) -> type:
    return np.float64 if n <= _SMALL else choose_precision(kernel, sq_norm, coef, estimator.tol)
