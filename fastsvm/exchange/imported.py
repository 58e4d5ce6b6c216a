"""Fitted estimators from parts that another program computed.

Unknown is how the fit went: there are no `objective_`, `duality_gap_`, `kkt_violation_`, `converged_`, `n_iter_` and
`history_`. `stop_reason_` is "imported".
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastsvm.estimators import ESTIMATORS
from fastsvm.estimators.fitting.predictions import OutlierDetector
from fastsvm.estimators.kernel.sample_geometry import SampleGeometry
from fastsvm.estimators.kernel.standardization import Standardization, attributes_of
from fastsvm.persistence.model_checks import check_fitted
from fastsvm.sources import MemorySource, feature_statistics

__all__ = ["KernelParts", "estimator_named", "kernel_model", "landmark_model", "linear_model"]

_REASON = "imported"


class KernelParts(NamedTuple):
    """What determines the decision functions of a kernel machine, in scikit-learn's layout and signs.

    `dual_coef`, an array or CSR matrix of float64, has shape (n_classes - 1, n_support), and one row without classes.
    """

    dual_coef: Any
    intercept: np.ndarray
    n_support: np.ndarray  # It counts the vectors of each class; it is one number without classes.
    support_vectors: Any  # They are as they were passed to the fit; empty for a precomputed kernel.
    support: np.ndarray  # They are the vectors' rows of int64 in the samples of the fit.
    shape_fit: tuple[int, int]
    gamma: float  # It is 0 if the kernel has none.
    classes: np.ndarray | None = None  # They rise.
    standardization: Standardization | None = None


def estimator_named(name: str) -> type:
    """Return the estimator of a name; ValueError says that there is none."""
    kinds = {kind.__name__: kind for kind in ESTIMATORS.values()}
    if name not in kinds:
        raise ValueError(f"this fastsvm has no estimator {name}; it has {', '.join(kinds)}")
    return kinds[name]


def kernel_model(kind: type, parameters: dict[str, Any], parts: KernelParts, **known: Any) -> Any:
    """Return the kernel machine of some parts; `known` are other fitted attributes.

    It raises ValueError if a parameter is not valid, or the parts do not fit together.
    """
    model = kind(**parameters)
    coef = parts.dual_coef
    found = {
        "support_": np.asarray(parts.support, np.int64),
        "support_vectors_": parts.support_vectors,
        "n_support_": np.asarray(parts.n_support, np.int32),
        "dual_coef_": sparse.csr_matrix(coef) if sparse.issparse(parts.support_vectors) else np.asarray(coef),
        "intercept_": np.asarray(parts.intercept, np.float64),
        "shape_fit_": tuple(map(int, parts.shape_fit)),
        "n_features_in_": int(parts.shape_fit[1]),
        "stop_reason_": _REASON,
    }
    if parts.classes is not None:
        found["classes_"] = parts.classes
    found |= _geometry(parts).attributes() | attributes_of(parts.standardization)
    is_table = sparse.issparse(parts.support_vectors) or isinstance(parts.support_vectors, np.ndarray)
    return _checked(model, found | known, of_numbers=is_table)


def landmark_model(kind: type, parameters: dict[str, Any], parts: KernelParts) -> Any:
    """Return the kernel machine whose landmarks are the support vectors of some parts, which all scores share.

    It raises ValueError if a parameter is not valid, or the parts do not fit together.
    """
    found = {
        "components_": parts.support_vectors,
        "component_indices_": np.asarray(parts.support, np.int64),
        "coef_": np.array(parts.dual_coef, np.float64, order="C"),
        "intercept_": np.array(parts.intercept, np.float64),
        "n_features_in_": int(parts.shape_fit[1]),
        "stop_reason_": _REASON,
    }
    if parts.classes is not None:
        found["classes_"] = parts.classes
    return _checked(kind(**parameters), found | _geometry(parts).attributes() | attributes_of(parts.standardization))


def _geometry(parts: KernelParts) -> SampleGeometry:
    """Return scale and position of the support vectors, which are all that is known of the samples."""
    vectors = parts.support_vectors
    if not (sparse.issparse(vectors) or isinstance(vectors, np.ndarray)) or 0 in vectors.shape:
        return SampleGeometry(parts.gamma, None, 0.0, 0.0)
    if sparse.issparse(vectors) and parts.standardization is None:  # statistics of features would take memory for all
        sq_norms = np.bincount(
            np.repeat(np.arange(len(vectors.indptr) - 1), np.diff(vectors.indptr)), np.square(vectors.data, dtype=float)
        )
        return SampleGeometry(
            parts.gamma, None, float(sq_norms.max(initial=0)), float(sq_norms.sum() / vectors.shape[0])
        )
    source: Any = MemorySource.of(vectors)
    if parts.standardization is not None:
        source = parts.standardization.apply(source)
    return SampleGeometry.of(parts.gamma, feature_statistics(source))


def linear_model(
    kind: type,
    parameters: dict[str, Any],
    coef: np.ndarray,
    intercept: np.ndarray,
    classes: np.ndarray | None,
    standardization: Standardization | None = None,
    **known: Any,
) -> Any:
    """Return the linear machine with weights for samples as they are passed; `known` are other fitted attributes.

    `coef` and `intercept` have shapes (n_scores, n_features) and (n_scores,); one score of two classes stands for the
    second. `classes` rise, and are None for a regression and for one class. `standardization` is how features were
    standardised during the fit. ValueError says that a parameter is not valid, or that the parts do not fit together.
    """
    is_of_one_class = issubclass(kind, OutlierDetector)
    found = {
        "coef_": np.array(coef if classes is not None or is_of_one_class else coef[0], np.float64, order="C"),
        "intercept_": np.array(intercept, np.float64),
        "n_features_in_": coef.shape[1],
        "stop_reason_": _REASON,
        **attributes_of(standardization),
        **known,
    }
    if classes is not None:
        found["classes_"] = classes
    if is_of_one_class:
        found["offset_"] = -found["intercept_"]
    return _checked(kind(**parameters), found)


def _checked(model: Any, attributes: dict[str, Any], of_numbers: bool = True) -> Any:
    """Return the model with its attributes, which must fit together if the samples are numbers."""
    model.__dict__.update(attributes)
    if of_numbers:
        check_fitted(model)
    return model
