"""From an estimator's kernel parameters to how a kernel sees samples, and to its values for training."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.documentation import PublicEstimator
from fastsvm.estimators.fitting.session import warn_caller
from fastsvm.estimators.fitting.validation import Attributes, Rule, Samples, either, number, one_of
from fastsvm.estimators.kernel.solver_parameter import KernelLike, KernelParameters, MachineParameters, is_dual
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import (
    LARGEST_VALUE,
    PairwiseKernel,
    PrecomputedPairwise,
    RealPairwise,
    Uint8Pairwise,
    UserPairwise,
    multiplies_bytes,
)
from fastsvm.kernel_matrix.rounding import NEAR
from fastsvm.kernels import KERNELS, Kernel, check_kernel, in_python, is_kernel, kernel_value
from fastsvm.linalg.row_products import product_type
from fastsvm.sources import (
    Block,
    DenseBlock,
    FeatureStatistics,
    MemorySource,
    Quantization,
    ScaledSource,
    Source,
    feature_statistics,
    find_quantization,
    is_stored,
    standardized,
)
from fastsvm.tuning import KernelTuning

# For a smaller tolerance float32 is too coarse: gradients of order 1 have steps of its eps.
_FINE = NEAR * float(np.finfo(np.float32).eps)
# Where decision values are corrected at the end, their error may be so many times that which may be seen.
_CORRECTED = 1000
# The products of sparse rows with a smaller share of non-zeros are cheaper than those of dense bytes.
_SPARSEST = 1 / 40
MOST_SINGLE = 1e30
"""Float32 has the parts and multiples of numbers up to this one, and down to its inverse."""


PRIVATE_ATTRIBUTES = "_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"
"""Attributes in which a fitted kernel machine, and its file, store the geometry and the standardization."""

_NEAR_CENTRE = 0.2  # Above this share of the squared norm, centring saves little, and rounds rows near the origin.
_LONGER, _LONGER_SPARSE = 100, 1000  # Rare non-zeros alone give sparse features different lengths.
_SHARE = 0.25  # The length at this quantile of the features that vary counts as usual.
_FAR = 1000  # Targets that vary by so many times C have another unit; a small C may be meant.


ResolvedKernel = Kernel | Callable | None
"""A kernel, the user's function, or None for kernel values."""


# --- what `kernel` stands for ----------------------------------------------------------------------------

KERNEL_RULES = {
    "kernel": either(
        one_of(*KERNELS, "precomputed"),
        Rule(
            lambda value: is_kernel(value) or (callable(value) and not isinstance(value, type)),
            "an object (not a class) that is a kernel of fastsvm.kernels, another with a map registered by "
            "fastsvm.kernels.kernel_value.register, or a callable",
        ),
    ),
    "degree": number(integral=True, least=0),
    "gamma": either(one_of("scale", "auto"), number(least=0)),
    "coef0": number(),
}
"""The rules of the parameters that all estimators with a kernel have."""
_PARAMETERS = {"gamma": number(least=0), "degree": number(integral=True, least=0)}


class KernelEstimator(KernelParameters, PublicEstimator):
    """An estimator with a kernel.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "exponential", "precomputed"}, \
fastsvm.kernels.Kernel or callable, default="rbf"
        "laplacian" is exp(-gamma ‖x-z‖₁), "exponential" is exp(-gamma ‖x-z‖). An object such as
        `fastsvm.kernels.RBF(gamma=0.5)` brings its parameters: `degree`, `gamma` and `coef0` are then not used.
        A callable takes two blocks of rows, (a, d) and (b, d), and returns their (a, b) kernel values. With
        "precomputed" X is the matrix of kernel values.
    degree : int, default=3
        Degree of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels other than "linear"; "scale" is 1 / (n_features * variance of X), where the
        variance is weighted if sample weights are given, "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1, by weighted statistics of one more
        pass over the samples. The model stores them, so that predictions take samples as they are. Sparse samples are
        scaled only. `gamma="scale"` refers to standardised samples; support vectors and landmarks are samples as they
        were passed.
    """


def check_kernel_object(kernel: KernelLike) -> None:
    """Raise ValueError if an attribute or a parameter of a kernel object is not usable."""
    if not is_kernel(kernel):
        return
    check_kernel(kernel)
    rules = _PARAMETERS if _is_ours(kernel) else {}
    for name, value in kernel._asdict().items():
        rule = rules.get(name, number())
        if not rule.holds(value):
            raise ValueError(f"The {name!r} of the kernel {kernel!r} must be {rule.words}. Got {value!r} instead.")


def _is_ours(kernel: Kernel) -> bool:
    return type(kernel) in KERNELS.values()


def is_precomputed(estimator: KernelParameters) -> bool:
    """Return whether an estimator's rows are kernel values; other parameters may be wrong."""
    return isinstance(estimator.kernel, str) and estimator.kernel == "precomputed"


def resolve_kernel(estimator: KernelParameters, gamma: float | None = None) -> ResolvedKernel:
    """Return a kernel, the user's function, or None for kernel values; `gamma` is resolved, or of no effect."""
    kernel = estimator.kernel
    if is_precomputed(estimator):
        return None
    if isinstance(kernel, str):
        kind: Any = KERNELS[kernel]
        parameters = {"gamma": gamma, "coef0": float(estimator.coef0), "degree": int(estimator.degree)}
        return kind(**{name: parameters[name] for name in kind._fields})
    return in_python(kernel) if is_kernel(kernel) else kernel


def resolve_gamma(gamma: str | float, n_features: int, variance: float) -> float:
    """Return gamma as scikit-learn defines "scale" and "auto"."""
    if gamma == "scale":
        return 1.0 / (n_features * variance) if variance > 0 else 1.0
    return 1.0 / n_features if gamma == "auto" else float(gamma)


def has_scaled_gamma(estimator: KernelParameters) -> bool:
    """Return whether the kernel depends on the variance of the samples."""
    is_scaled = isinstance(estimator.kernel, str) and estimator.gamma == "scale"
    return is_scaled and "gamma" in getattr(resolve_kernel(estimator), "_fields", ())


# --- how it sees samples -------------------------------------------------------------------------------------


def geometry_attributes(gamma: float, centre: np.ndarray | None, sq_norm: float, mean_sq_distance: float) -> Attributes:
    """Return the attributes in which a fitted model, and its file, store scale and position of its training samples.

    `centre` is subtracted before distances are computed, whose mean square from the centre of all is the last argument.
    """
    return {"_gamma": gamma, "_centre": centre, "_sq_norm": sq_norm, "_centred_sq_norm": mean_sq_distance}


def geometry_of(gamma: float, statistics: FeatureStatistics) -> Attributes:
    """Return the `geometry_attributes` of samples with these statistics."""
    return geometry_attributes(gamma, centre_of(statistics), statistics.sq_norm, statistics.usual_sq_norm)


def centre_of(statistics: FeatureStatistics) -> np.ndarray | None:
    """Return the centre of samples that are far from the origin relative to their distances, else None."""
    return statistics.centre if statistics.centred_sq_norm < _NEAR_CENTRE * statistics.sq_norm else None


class Standardization(NamedTuple):
    """The map of each feature to mean 0 and variance 1, (x - shift) * scale.

    `shift` is None for sparse samples, which are not centred; `scale` is 1 for constant features.
    """

    shift: np.ndarray | None
    scale: np.ndarray

    @classmethod
    def of(cls, source: Source, weight: np.ndarray | None) -> "Standardization":
        """Return the map for the samples of a fit, after one pass over them. Weights count in means and variances."""
        view = standardized(source, product_type(source.dtype), weight)
        shift = None if view.shift is None else view.shift.astype(np.float64)
        return cls(shift, view.scale.astype(np.float64))

    @classmethod
    def of_model(cls, model: BaseEstimator) -> "Standardization | None":
        """Return the map that a fitted model stores, or None."""
        scale = getattr(model, "_scale", None)
        return None if scale is None else cls(model._shift, scale)

    @property
    def factor(self) -> float | None:
        """The scale, if it is the same for all features, else None."""
        return float(self.scale[0]) if (self.scale == self.scale[0]).all() else None

    def apply(self, source: Source, dtype: np.dtype | type = np.float32) -> ScaledSource:
        """Return a view of mapped samples, in float64 if their type or `dtype` has so many digits."""
        return ScaledSource(source, self.shift, self.scale, np.result_type(product_type(source.dtype), dtype))


def attributes_of(standardization: Standardization | None) -> Attributes:
    """Return the attributes in which a fitted model, and its file, store the map."""
    shift, scale = (None, None) if standardization is None else standardization
    return {"_shift": shift, "_scale": scale}


def warn_of_lengths(name: str, statistics: FeatureStatistics, source: Source) -> None:
    """Warn if a feature is so much longer than the others that kernel values depend on it alone.

    Its standard deviation is compared with the lower quartile of those that vary, which a few long features do not
    hide.
    """
    variance, longer = statistics.feature_variance, _LONGER_SPARSE if source.sparse else _LONGER
    if variance.max() <= longer**2 * variance.min():  # a glance, because the rest takes as long as a small fit
        return
    lengths = variance[statistics.varying(len(source))]
    if len(lengths) < 2:
        return
    place, longest = int(_SHARE * (len(lengths) - 1)), int(variance.argmax())
    lengths.partition(place)  # np.quantile takes ten times as long
    length, usual = math.sqrt(variance[longest]), math.sqrt(lengths[place])
    if length <= longer * usual:
        return
    warn_caller(
        f"The features have very different lengths: the standard deviation of feature {longest} is "
        f"{length:.3g}, of a quarter of the others at most {usual:.3g}. {name} learns from the longest almost alone. "
        "Pass standardize=True, or scale the features.",
        UserWarning,
    )


def warn_of_targets(name: str, kernel: Kernel | None, y: np.ndarray, upper: np.ndarray) -> None:
    """Warn if targets vary by more than kernel values of at most 1 can follow with multipliers up to `upper`."""
    with np.errstate(over="ignore"):
        spread = float(y[upper > 0].std())
    reach = float(upper.sum()) / 2  # as many of the coefficients are positive as negative
    if np.inf > spread > max(reach, _FAR * upper.max()) and getattr(kernel, "translation_invariant", False):
        warn_caller(
            f"The targets vary too much for C: their standard deviation is {spread:.3g}, and coefficients of at most "
            f"{upper.max():.3g} change a prediction of {name} by {reach:.3g} at most. Raise C and epsilon, or divide "
            f"the targets: sklearn.compose.TransformedTargetRegressor({name}(), transformer=StandardScaler()).",
            UserWarning,
        )


# --- samples of it that are no numbers ---------------------------------------------------------------------


class ObjectSource(MemorySource):
    """Samples of any kind; in blocks, they are represented by their numbers.

    Those of `known` samples, such as the support vectors of a model, come first. `numbers` is None for all of
    `samples`.
    """

    def __init__(self, samples: Samples, known: Samples = None, numbers: np.ndarray | None = None) -> None:
        self.samples, self.known = samples, known
        self._first = 0 if known is None else _num_samples(known)
        if numbers is None:
            numbers = np.arange(self._first, self._first + _num_samples(samples), dtype=np.int64)
        super().__init__(DenseBlock(numbers[:, None]))

    def take(self, indices: np.ndarray) -> "ObjectSource":
        """Return the source of the samples `indices` of this source."""
        return ObjectSource(self.samples, self.known, self.block.stored[indices, 0])

    def as_passed(self, block: Block) -> Samples:
        """Return the samples of a block: a list, an array or a DataFrame."""
        numbers = block.stored[:, 0]
        if len(numbers) and numbers[0] < self._first:
            return _safe_indexing(self.known, numbers)
        return _safe_indexing(self.samples, numbers - self._first)


def samples_for(estimator: KernelParameters, X: Samples, known: Samples = None) -> Samples:
    """Return X, or its source if the kernel is a function and X is no matrix of numbers.

    The support vectors of a fitted estimator, `known`, decide what X is: lists to predict may be of equal length.
    """
    kernel = estimator.kernel
    if not callable(kernel) or is_kernel(kernel) or isinstance(kernel, type) or is_stored(X):
        return X
    if _is_table(X) if known is None else not isinstance(known, (list, tuple)) and _is_table(known):
        return X  # a fit on numbers stores arrays
    if not (hasattr(X, "__len__") or hasattr(X, "shape")) or isinstance(X, (str, bytes)):
        return X  # which is refused
    return ObjectSource(X, known)


def _is_table(X: Samples) -> bool:
    """Return whether X is a matrix of numbers: an array, a sparse matrix, a DataFrame or lists of equal length."""
    if sparse.issparse(X):
        return True
    if hasattr(X, "dtypes") and hasattr(X, "columns"):  # a DataFrame
        return all(getattr(kind, "kind", "O") in "biufc" for kind in X.dtypes)
    try:
        array = np.asarray(X)
    except ValueError:  # lists of different lengths
        return False
    return array.ndim == 2 and array.dtype.kind in "biufc"


# --- how its values are computed -------------------------------------------------------------------------


def choose_precision(kernel: Kernel, sq_norm: float, norm: float, tol: float) -> type:
    """Return float32 if the rounding of its kernel values cannot be seen at `tol`, else float64.

    `norm` is that of the coefficients of a decision function: the 2-norm if the kernel is translation invariant, as
    independent errors add up to that. Dot products of rows far from the origin err in one direction: the 1-norm.
    """
    try:
        rounding = kernel.rounding(float(np.finfo(np.float32).eps) / 4, sq_norm)
    except OverflowError:
        rounding = np.inf
    seen = rounding * norm > tol / 3 or tol < _FINE
    return np.float64 if seen else np.float32


def check_values(gram: Gram, sq_norm: float) -> None:
    """Raise ValueError if values of a kernel overflow, by those of the rows with themselves.

    Our own kernels need that of the longest row only, of squared norm `sq_norm`; functions are checked where they are
    called.
    """
    kernel, longest = getattr(gram.pairwise, "of_floats", None), np.float64(sq_norm)
    if kernel is None or (_is_ours(kernel) and kernel.translation_invariant and sq_norm <= LARGEST_VALUE):
        return  # those of distances are 1
    with np.errstate(all="ignore"):
        value = kernel_value(kernel, longest, longest, longest) if _is_ours(kernel) else np.abs(gram.diagonal()).max()
    largest = abs(value)
    if not largest <= LARGEST_VALUE:
        raise ValueError(
            f"The values of the kernel {kernel} overflow: the largest of a sample with itself is {largest:.3g}. Scale "
            "the features (standardize=True does), or lower degree or gamma."
        )


def has_single_range(kernel: Kernel, *sq_norms: float) -> bool:
    """Return whether a kernel's parameters and some squared norms are in the range of float32."""
    numbers = (abs(float(value)) for value in (*kernel, *sq_norms))
    return all(value == 0 or 1 / MOST_SINGLE <= value <= MOST_SINGLE for value in numbers)


class TrainingRows(NamedTuple):
    """Rows as they are multiplied, as given, standardised or bytes, with their statistics as floats.

    `quantization` says how values come from bytes, None if the rows are not multiplied as bytes.
    """

    source: Source
    quantization: Quantization | None
    statistics: FeatureStatistics


def training_rows(
    estimator: KernelParameters,
    source: Source,
    standardization: Standardization | None,
    weight: np.ndarray | None,
    budget: int,
    pool: Pool,
    tuning: KernelTuning,
) -> TrainingRows:
    """Return the rows of a fit, as bytes if they are quantized and a copy in a quarter of the budget holds them."""
    kernel = resolve_kernel(estimator)
    factor = common_factor(kernel, standardization)
    n, d = source.shape
    is_tried = source.of_bytes or (n * d <= budget // 4 and n * n * d >= tuning.byte_multiplications)
    is_tried = is_tried and tuning.byte_products and factor is not None
    as_bytes = bytes_for(kernel, source, pool) if is_tried else None
    if as_bytes is not None:
        quantization, rows = as_bytes[0].times(factor or 1.0), as_bytes[1]
        statistics = feature_statistics(rows, weight).affine(*quantization)
        if standardization is not None:  # whose shift is left out: it does not change distances
            statistics = statistics._replace(variance=float(statistics.feature_variance.mean()))
        return TrainingRows(rows, quantization, statistics)
    if standardization is not None:
        source = view = standardization.apply(source)
        if view.resident:  # a copy, if it takes little of the memory, else a view
            source = view.in_memory() if view.nbytes <= budget // 3 else view.streamed().in_blocks(budget // 30)
    return TrainingRows(source, None, _statistics(estimator, source, weight))


def _statistics(estimator: KernelParameters, source: Source, weight: np.ndarray | None) -> FeatureStatistics:
    """Return the statistics of rows; raise ValueError that speaks of a kernel if they are its values."""
    try:
        return feature_statistics(source, weight)
    except ValueError as error:
        largest = max(float(np.abs(block.stored).max(initial=0)) for _, block in source.blocks())
        if not is_precomputed(estimator) or not np.isfinite(largest):
            raise
        raise ValueError(
            f"The values of the precomputed kernel are as large as {largest:.3g}, so that their squares overflow. "
            "Divide them by a constant, and multiply C by it: decision values stay the same."
        ) from error


def common_factor(kernel: ResolvedKernel, standardization: Standardization | None) -> float | None:
    """Return the factor of all rows if the kernel sees no other change of them, else None."""
    if standardization is None:
        return 1.0
    return standardization.factor if is_kernel(kernel) and kernel.translation_invariant else None


def bytes_for(kernel: ResolvedKernel, source: Source, pool: Pool) -> tuple[Quantization, Source] | None:
    """Return the map and the bytes of rows, or None if the kernel or the processor does not multiply those.

    Rows that are nearly all zeros stay sparse: their bytes would take more memory and time than their values.
    """
    if not (is_kernel(kernel) and kernel.pairing == "dot" and multiplies_bytes(source.shape[1])):
        return None
    if source.values_per_row < _SPARSEST * source.shape[1]:
        return None
    if not (kernel.translation_invariant or _is_ours(kernel)):
        return None  # products of bytes come without the norms, which a user's map of them may need
    quantized = find_quantization(source, pool)
    if quantized is None or (quantized[0].offset != 0 and not kernel.translation_invariant):
        return None
    return quantized


def user_pairwise(function: ResolvedKernel, columns: np.ndarray, source: Source) -> PairwiseKernel:
    """Return the pairwise kernel of the user's function, or of kernel values in `columns`."""
    if callable(function):
        return UserPairwise(function, source.as_passed)
    return cast(PairwiseKernel, PrecomputedPairwise(columns))  # which Gram copies instead of pairing rows


def training_pairwise(
    estimator: MachineParameters, gamma: float, rows: TrainingRows, most: float, n: int, tuning: KernelTuning
) -> PairwiseKernel:
    """Return the pairwise kernel of a fit; `gamma` is the estimator's, resolved.

    The type of its values fits a quarter of the `n` rows of the largest problem as support vectors at bounds of `most`.
    """
    source, quantization, statistics = rows
    kernel = resolve_kernel(estimator, gamma)
    if not is_kernel(kernel):
        return user_pairwise(kernel, np.arange(len(source)), source)

    def of(dtype: type) -> PairwiseKernel:
        if quantization is not None:
            return Uint8Pairwise(kernel, dtype, quantization.scale)
        return RealPairwise(kernel, dtype, centre_of(statistics), source.sparse)

    if n <= tuning.few_rows or not has_single_range(kernel, *statistics[-3:]):
        return of(np.float64)
    norm = most * np.sqrt(n) / 2 if kernel.translation_invariant else most * n / 4
    centred = kernel.translation_invariant and not source.sparse
    # Kernel values of distant rows are small, and so are their errors: the mean counts.
    sq_norm = statistics.usual_sq_norm if centred else statistics.sq_norm
    sq_norm = 0.0 if quantization is not None and centred else sq_norm
    corrected = is_dual(estimator) and source.resident and kernel.translation_invariant and n > tuning.block_rows
    if corrected and of(np.float32).cost(source.shape[1]) <= tuning.recomputed_ns:
        # Errors of decision values are corrected by values in float64 before a fit ends, where values are cheap.
        norm /= _CORRECTED
    return of(choose_precision(kernel, sq_norm, norm, estimator.tol))
