"""Validation of the attributes of an estimator from a file, which is refused if it could not predict.

The checksum detects damage. These checks are for files that were forged or written by other programs. No model that
passes them makes a prediction read outside of its arrays.
"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm.estimators.fitting.predictions import OutlierDetector
from fastsvm.estimators.fitting.validation import Attributes, Column, Rule, boolean, number
from fastsvm.estimators.kernel.kernel_parameter import PRIVATE_ATTRIBUTES, is_precomputed
from fastsvm.estimators.kernel.machines.classifiers import KernelClassifier
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.linear.prediction import LinearClassifier
from fastsvm.estimators.nystroem.nystroem_machine import NystroemMachine
from fastsvm.sources.block import check_compressed

_SPARSE = {"support_vectors_", "dual_coef_", "components_", "coef_"}  # after a fit on sparse samples, or `sparsify`
_NUMBER = Rule(lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number")
_COUNT = Rule(lambda value: isinstance(value, Integral) and not isinstance(value, bool) and not value < 0, "a count")
_RULES = {
    "converged_": boolean,
    "stop_reason_": Rule(lambda value: isinstance(value, str), "a word"),
    "solver_": Rule(lambda value: isinstance(value, str), "a word"),
    **dict.fromkeys(("objective_", "dual_objective_", "duality_gap_", "kkt_violation_", "t_", "epsilon_"), _NUMBER),
    **dict.fromkeys(("n_features_in_", "passes_", "fit_status_"), _COUNT),
    **dict.fromkeys(("_gamma", "_sq_norm", "_centred_sq_norm"), number(least=0)),
}
_PLAIN = (bool, np.generic, Real, str, type(None))


def is_fitted_name(name: str) -> bool:
    """Return whether a model file stores the attribute of this name."""
    return (name.endswith("_") and not name.startswith("_")) or name in PRIVATE_ATTRIBUTES


def check_name(kind: type, name: str) -> None:
    """Raise ValueError unless a fit of this class may set an attribute of this name."""
    if not (is_fitted_name(name) and name.isidentifier()) or hasattr(kind, name):
        raise ValueError(f"{name!r} is not an attribute of a fitted {kind.__name__}")


def check_fitted(model: BaseEstimator) -> None:
    """Raise ValueError unless a fit can give an estimator these parameters and attributes."""
    _check_parameters(model)
    attributes = vars(model)
    _require(attributes, "n_features_in_")
    for name, rule in _RULES.items():
        _holds(attributes, name, name not in attributes or rule.holds(attributes[name]), rule.words)
    for name, value in attributes.items():
        if is_fitted_name(name):
            _check_plain(name, value)
    if "feature_names_in_" in attributes:
        _array(attributes, "feature_names_in_", (attributes["n_features_in_"],), "OU")
    if isinstance(model, KernelMachine):
        _check_kernel_model(model, attributes)
    else:
        _check_linear_model(model, attributes)


def _check_parameters(model: BaseEstimator) -> None:
    parameters = model.get_params(deep=False)
    model._check_parameters()
    for name, value in parameters.items():
        if name not in ("kernel", "class_weight", "random_state", "landmarks") and not isinstance(value, _PLAIN):
            raise ValueError(f"the parameter {name} is {_brief(value)}")
    weights = parameters.get("class_weight")
    if not (weights is None or weights == "balanced" or isinstance(weights, dict)):
        raise ValueError(f"the parameter class_weight is {_brief(weights)}")
    for label, weight in weights.items() if isinstance(weights, dict) else ():
        number = isinstance(weight, Real) and not isinstance(weight, bool) and not weight <= 0 and weight < np.inf
        if not isinstance(label, _PLAIN) or not number:
            raise ValueError(f"the parameter class_weight has {weight!r} for the class {label!r}")


def _check_plain(name: str, value: object) -> None:
    """Raise ValueError unless a value is an array of numbers or strings, a table of them, or a plain value."""
    if isinstance(value, np.ndarray):
        words = value.dtype.kind == "O" and all(isinstance(item, str) for item in value.ravel())
        if not (value.dtype.kind in "US" or words or (value.dtype.kind in "biuf" and value.dtype.itemsize <= 8)):
            raise ValueError(f"{name} holds {value.dtype}, not numbers or strings")
    elif isinstance(value, dict):
        lengths = set()
        for key, column in value.items():
            if not (isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biufU"):
                raise ValueError(f"the column {key!r} of {name} is {_brief(column)}, not an array of one dimension")
            lengths.add(len(column))
        if len(lengths) > 1:
            raise ValueError(f"the columns of {name} have the lengths {sorted(lengths)}")
    elif isinstance(value, tuple):
        if not all(isinstance(item, _PLAIN) for item in value):
            raise ValueError(f"{name} is {_brief(value)}")
    elif not (isinstance(value, _PLAIN) or (sparse.issparse(value) and name in _SPARSE)):
        raise ValueError(f"{name} is {_brief(value)}")


def _check_kernel_model(model: KernelMachine, attributes: Attributes) -> None:
    n_classes, d = _classes(attributes) if isinstance(model, KernelClassifier) else 1, attributes["n_features_in_"]
    n_rows, n_functions = max(1, n_classes - 1), max(1, n_classes * (n_classes - 1) // 2)
    support = _array(attributes, "support_", (None,), "i")
    counts = _array(attributes, "n_support_", (n_classes,), "i")
    n = len(support)
    _holds(
        attributes, "n_support_", (counts >= 0).all() and counts.sum(dtype=object) == n, f"counts of {n} rows in all"
    )
    is_shared = np.shape(_require(attributes, "dual_coef_")) == (n_functions, n)  # of a compressed model
    _check_rows(attributes, "dual_coef_", (n_functions if is_shared else n_rows, n), "d")
    _array(attributes, "intercept_", (n_functions,), "d")
    if isinstance(model, OutlierDetector):
        _array(attributes, "offset_", (1,), "d")
    shape = attributes.get("shape_fit_")
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(k, Integral) for k in shape)):
        raise ValueError(f"shape_fit_ must be two ints, it is {_brief(shape)}")
    _holds(attributes, "shape_fit_", shape[1] == d, f"of {d} features")
    _holds(attributes, "support_", n == 0 or 0 <= support.min() <= support.max() < shape[0], f"rows of {shape[0]}")
    _check_kernel(model, attributes, d)
    if is_precomputed(model):
        _holds(attributes, "support_", n == 0 or support.max() < d, f"columns of {d} kernel values")
        _array(attributes, "support_vectors_", (0, 0), "biuf")
    else:
        _check_rows(attributes, "support_vectors_", (n, d), "biuf")


def _check_kernel(model: BaseEstimator, attributes: Attributes, d: int) -> None:
    """Raise ValueError unless kernel values of samples with d features can be computed."""
    for name in ("_gamma", "_sq_norm", "_centred_sq_norm"):
        _require(attributes, name)
    if attributes.get("_centre") is not None:
        _array(attributes, "_centre", (d,), "d")
    _check_standardization(model, attributes, d)
    degree = model.degree if isinstance(model.kernel, str) else getattr(model.kernel, "degree", 0)
    if degree > np.iinfo(np.int32).max:
        raise ValueError(f"the degree of the kernel is {degree}")


def _check_rows(attributes: Attributes, name: str, shape: tuple[int, int], kinds: str) -> None:
    """Raise ValueError unless an attribute is a matrix of finite numbers of this shape, dense or CSR."""
    rows = _require(attributes, name)
    if not sparse.issparse(rows):
        _array(attributes, name, shape, kinds)
        return
    words = "a matrix of {} rows and {} columns".format(*shape)
    _holds(attributes, name, rows.format == "csr" and rows.shape == shape, words)
    _array({name: rows.data}, name, (None,), kinds)
    try:
        check_compressed(rows, *rows.shape)
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from None


def _check_linear_model(model: BaseEstimator, attributes: Attributes) -> None:
    """Raise ValueError unless scores are computed of features, or of kernel values with landmarks."""
    d, has_landmarks = attributes["n_features_in_"], isinstance(model, NystroemMachine)
    n_classes = _classes(attributes) if isinstance(model, LinearClassifier) else 2
    n_scores, n_columns = 1 if n_classes == 2 else n_classes, d
    if has_landmarks:
        if model._learns_pairs(n_classes):
            n_scores = n_classes * (n_classes - 1) // 2
        n_columns = next(iter(np.shape(_require(attributes, "components_"))), 0)
        _holds(attributes, "components_", n_columns > 0, "rows of landmarks")
        _check_rows(attributes, "components_", (n_columns, d), "biuf")
        _check_kernel(model, attributes, d)
    is_of_one_class = isinstance(model, OutlierDetector)
    has_rows = has_landmarks or is_of_one_class or isinstance(model, LinearClassifier)
    if has_rows or sparse.issparse(attributes.get("coef_")):
        _check_rows(attributes, "coef_", (n_scores, n_columns), "d")
    else:
        _array(attributes, "coef_", (d,), "d")
    if is_of_one_class:
        _array(attributes, "offset_", (1,), "d")
    _array(attributes, "intercept_", (n_scores,), "d")
    if not has_landmarks:
        _check_standardization(model, attributes, d)
        if (attributes.get("_scale") is None) != (attributes.get("_shift") is None):
            raise ValueError("_shift and _scale must be both present or both missing")


def _check_standardization(model: BaseEstimator, attributes: Attributes, d: int) -> None:
    """Raise ValueError unless the map of d features to standardised ones can be applied; it may be missing."""
    for name in ("_shift", "_scale"):
        if attributes.get(name) is not None:
            _array(attributes, name, (d,), "d")
    scale = attributes.get("_scale")
    if model.standardize and scale is None:
        raise ValueError("it lacks _scale, by which features are standardised")
    if scale is None and attributes.get("_shift") is not None:
        raise ValueError("it has _shift, but lacks _scale")
    if scale is not None and not scale.all():
        raise ValueError("no scale may be 0 in _scale")


# --- parts -----------------------------------------------------------------------------------------------


def _classes(attributes: Attributes) -> int:
    """Return the number of classes. There must be at least two, distinct and in increasing order."""
    classes = _array(attributes, "classes_", (None,), "biufUSO")
    _holds(attributes, "classes_", len(classes) >= 2, "two at least")
    _holds(attributes, "classes_", bool((classes[1:] > classes[:-1]).all()), "different, in rising order")
    return len(classes)


def _require(attributes: Attributes, name: str) -> Any:
    if name not in attributes:
        raise ValueError(f"it lacks {name}")
    return attributes[name]


def _array(attributes: Attributes, name: str, shape: tuple[int | None, ...], kinds: str) -> np.ndarray:
    """Return an attribute. It must be a finite array of this shape, of a type of these kinds or characters."""
    array = _require(attributes, name)
    fits = isinstance(array, np.ndarray) and array.ndim == len(shape)
    if not fits or (array.dtype.kind not in kinds and array.dtype.char not in kinds):
        raise ValueError(f"{name} is {_brief(array)}")
    if any(wanted not in (None, length) for wanted, length in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} has the shape {array.shape}, the other attributes ask for {wanted}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return array


def _holds(attributes: Attributes, name: str, holds: object, words: object) -> None:
    if not holds:
        raise ValueError(f"{name} must be {words}, it is {_brief(attributes[name])}")


def _brief(value: Column) -> str:
    """Describe a value briefly."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"an array of type {value.dtype} and shape {value.shape}"
    words = repr(value)
    return words if len(words) <= 80 else f"{words[:80]}..."
