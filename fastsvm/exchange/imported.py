"""Fitted estimators from parts that another program computed.

Unknown is how the fit went: there are no `objective_`, `duality_gap_`, `kkt_violation_`, `converged_`, `n_iter_` and
`history_`. `stop_reason_` is "imported".
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm.estimators.fitting.predictions import OutlierDetector
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import Standardization, attributes_of, geometry_attributes, geometry_of
from fastsvm.persistence.model_checks import check_fitted
from fastsvm.sources import MemorySource, feature_statistics

Samples: TypeAlias = Any
"""An array, a CSR matrix, or what a kernel that is a function takes."""


class KernelParts(NamedTuple):
    """What determines the decision functions of a kernel machine, in scikit-learn's layout and signs."""

    dual_coef: np.ndarray | sparse.csr_matrix  # Shape (n_classes - 1, n_support), float64; one row without classes.
    intercept: np.ndarray
    n_support: np.ndarray  # It counts the vectors of each class; it is one number without classes.
    support_vectors: Samples  # They are as they were passed to the fit; empty for a precomputed kernel.
    support: np.ndarray  # They are the vectors' rows of int64 in the samples of the fit.
    shape_fit: tuple[int, int]
    gamma: float  # It is 0 if the kernel has none.
    classes: np.ndarray | None = None  # They rise.
    standardization: Standardization | None = None


def kernel_model(
    kind: type[BaseEstimator], parameters: Attributes, parts: KernelParts, **known: object
) -> BaseEstimator:
    """Return the kernel machine of some parts; `known` are other fitted attributes."""
    coef, vectors = parts.dual_coef, parts.support_vectors
    attributes = {
        "support_": np.asarray(parts.support, np.int64),
        "support_vectors_": vectors,
        "n_support_": np.asarray(parts.n_support, np.int32),
        "dual_coef_": sparse.csr_matrix(coef) if sparse.issparse(vectors) else np.asarray(coef),
        "shape_fit_": tuple(map(int, parts.shape_fit)),
    }
    return _fitted(kind(**parameters), attributes | _of_parts(parts) | known, of_numbers=_is_table(vectors))


def _is_table(vectors: Samples) -> bool:
    return sparse.issparse(vectors) or isinstance(vectors, np.ndarray)


def _of_parts(parts: KernelParts) -> Attributes:
    """Return the attributes of machines whose support vectors alone are known."""
    intercept, n_features = np.array(parts.intercept, np.float64), int(parts.shape_fit[1])
    common = _common(intercept, n_features, parts.classes, parts.standardization)
    vectors, map_ = parts.support_vectors, parts.standardization
    if not _is_table(vectors) or 0 in vectors.shape:
        return common | geometry_attributes(parts.gamma, None, 0.0, 0.0)
    source = MemorySource.of(vectors)
    if sparse.issparse(vectors) and map_ is None:  # statistics of features would take memory for all
        sq_norms = source.block.sq_norms()
        largest, mean = float(sq_norms.max(initial=0)), float(sq_norms.sum() / vectors.shape[0])
        return common | geometry_attributes(parts.gamma, None, largest, mean)
    return common | geometry_of(parts.gamma, feature_statistics(source if map_ is None else map_.apply(source)))


def linear_model(
    kind: type[BaseEstimator],
    parameters: Attributes,
    coef: np.ndarray,
    intercept: np.ndarray,
    classes: np.ndarray | None,
    standardization: Standardization | None = None,
    **known: object,
) -> BaseEstimator:
    """Return the linear machine with weights for samples as they are passed; `known` are other fitted attributes.

    `coef` and `intercept` have shapes (n_scores, n_features) and (n_scores,); one score of two classes stands for the
    second. `classes` rise, and are None for a regression and for one class.
    """
    is_of_one_class = issubclass(kind, OutlierDetector)
    attributes = _common(np.array(intercept, np.float64), coef.shape[1], classes, standardization) | known
    attributes["coef_"] = np.array(coef if classes is not None or is_of_one_class else coef[0], np.float64, order="C")
    if is_of_one_class:
        attributes["offset_"] = -attributes["intercept_"]
    return _fitted(kind(**parameters), attributes)


def _common(
    intercept: np.ndarray, n_features: int, classes: np.ndarray | None, standardization: Standardization | None
) -> Attributes:
    """Return the attributes that all machines have."""
    attributes = {"intercept_": intercept, "n_features_in_": n_features, "stop_reason_": "imported"}
    return attributes | attributes_of(standardization) | ({} if classes is None else {"classes_": classes})


def _fitted(model: BaseEstimator, attributes: Attributes, of_numbers: bool = True) -> BaseEstimator:
    """Return the model with its attributes, which must fit together if the samples are numbers."""
    vars(model).update(attributes)
    if of_numbers:
        check_fitted(model)
    return model


def standardized(vectors: Samples, map_: Standardization | None) -> Samples:
    """Return samples as a model standardises them, in float64; as they are without a map."""
    if map_ is None:
        return vectors
    return map_.apply(MemorySource.of(vectors), np.float64).in_memory().block.user_array()
