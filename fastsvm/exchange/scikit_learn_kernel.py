"""Kernel machines, and those of landmarks, as estimators of scikit-learn, and the other way.

scikit-learn's estimators keep LIBSVM's signs beside those of their public attributes, and for a kernel that is a
function all samples of the fit. Here these are the support vectors.

Its `Nystroem` multiplies kernel values by a matrix. It is the identity here, so that the linear machine after it has
the coefficients of the landmarks. A machine of pairs of classes is an `SVC` whose support vectors are the landmarks,
because scikit-learn's linear machines do not vote.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn import svm
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fastsvm.estimators import SVC, NystroemSVC, NystroemSVR
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import Standardization, resolve_kernel
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.exchange.imported import (
    KernelParts,
    Samples,
    Twins,
    kernel_model,
    landmark_model,
    scaler_of,
    shared_parameters,
    standardized,
    unscaled,
)
from fastsvm.exchange.libsvm import MACHINES, layout_of
from fastsvm.kernels import KERNELS, Exponential, Laplacian, is_kernel, kernel_name

__all__ = [
    "KERNEL_TWINS",
    "LANDMARK_TWINS",
    "kernel_from_sklearn",
    "kernel_to_sklearn",
    "landmarks_from_sklearn",
    "landmarks_to_sklearn",
]

KERNEL_TWINS: Twins = {each.estimator: getattr(svm, each.estimator.__name__) for each in MACHINES}
"""Kernel machines of scikit-learn."""
_NAMED = ("linear", "poly", "rbf", "sigmoid")
"""Kernels that the machines of scikit-learn have under the same names."""
_SAMPLES = "_BaseLibSVM__Xfit"  # the samples of a fit with a kernel that is a function

LANDMARK_TWINS: Twins = {NystroemSVC: svm.LinearSVC, NystroemSVR: svm.LinearSVR}
"""The last steps of the pipelines that take the place of machines of landmarks."""
_AFTER_FEATURES: dict[type[BaseEstimator], tuple[type[BaseEstimator], tuple[str, ...]]] = {
    svm.LinearSVC: (NystroemSVC, ("hinge", "squared_hinge")),
    theirs.SGDClassifier: (NystroemSVC, ("hinge", "squared_hinge")),
    svm.LinearSVR: (NystroemSVR, ("epsilon_insensitive", "squared_epsilon_insensitive")),
    theirs.SGDRegressor: (NystroemSVR, ("epsilon_insensitive", "squared_epsilon_insensitive")),
}
"""Last steps of pipelines of scikit-learn, the estimators here, and the losses that these have."""
_OF_FEATURES = ("linear", "poly", "rbf", "laplacian")
"""Kernels that scikit-learn's `Nystroem` has under the same names."""


# --- kernel machines to scikit-learn ---------------------------------------------------------------------


def kernel_to_sklearn(model: BaseEstimator) -> BaseEstimator:
    """Return the estimator of scikit-learn, or its pipeline with a scaler."""
    kind = KERNEL_TWINS[type(model)]
    kernel, parameters = _kernel_for_sklearn(model)
    machine = kind(kernel=kernel, **(shared_parameters(model, kind) | parameters))
    map_ = Standardization.of_model(model)
    vars(machine).update(_attributes(model, kernel, map_))
    steps = [machine] if map_ is None else [scaler_of(map_), machine]
    if hasattr(model, "feature_names_in_"):
        steps[0].feature_names_in_ = model.feature_names_in_
    return machine if map_ is None else make_pipeline(*steps)


def _kernel_for_sklearn(model: BaseEstimator) -> tuple[str | Callable, dict[str, float]]:
    """Return the kernel as a name or a function, and its parameters if it is an object."""
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel is None:
        return "precomputed", {}
    if not is_kernel(kernel):
        return kernel, {}
    name = kernel_name(kernel)
    if name in _NAMED:
        return name, {} if isinstance(model.kernel, str) else kernel._asdict()
    if isinstance(kernel, Laplacian):
        return partial(laplacian_kernel, gamma=kernel.gamma), {}
    if isinstance(kernel, Exponential) and kernel.gamma > 0:
        return Matern(length_scale=1 / kernel.gamma, nu=0.5), {}
    raise ValueError(f"scikit-learn cannot evaluate the kernel {kernel!r}.")


def _attributes(model: BaseEstimator, kernel: str | Callable, map_: Standardization | None) -> Attributes:
    """Return the fitted attributes of scikit-learn's estimator, with the private ones that it predicts by."""
    vectors = standardized(model.support_vectors_, map_)
    layout = layout_of(model)
    if len(layout.rows) > len(model.support_):
        vectors = _safe_indexing(vectors, layout.rows)
    if isinstance(kernel, Matern) and sparse.issparse(vectors):  # which takes dense samples only
        vectors = vectors.toarray()
    support, shape = np.asarray(model.support_, np.int32)[layout.rows], model.shape_fit_
    samples = {}
    if callable(kernel):
        support = np.arange(len(support), dtype=np.int32)
        shape = (len(support), *shape[1:])
        samples[_SAMPLES], vectors = vectors, np.empty((0, 0))
    is_sparse = sparse.issparse(vectors)
    if is_sparse:
        vectors = sparse.csr_matrix(vectors, dtype=np.float64)
        vectors.sort_indices()
    else:
        vectors = np.ascontiguousarray(vectors, np.float64)
    coef = np.ascontiguousarray(layout.coef, np.float64)
    classes, counts = getattr(model, "classes_", None), layout.counts
    sign = -1 if classes is not None and len(classes) == 2 else 1
    whole = _whole_rows if is_sparse else np.ascontiguousarray
    attributes = {
        "support_": support,
        "support_vectors_": vectors,
        "_n_support": counts if classes is not None else counts.repeat(2),
        "dual_coef_": whole(coef),
        "_dual_coef_": whole(sign * coef),
        "intercept_": np.array(model.intercept_, np.float64),
        "_intercept_": sign * np.asarray(model.intercept_, np.float64),
        "_probA": np.empty(0),
        "_probB": np.empty(0),
        "_gamma": float(getattr(resolve_kernel(model, model._gamma), "gamma", model._gamma)),
        "_sparse": is_sparse,
        "_effective_probability": False,
        "fit_status_": int(getattr(model, "fit_status_", 0)),
        "shape_fit_": shape,
        "n_features_in_": int(model.n_features_in_),
    }
    for name in ("classes_", "class_weight_", "n_iter_", "offset_"):
        if hasattr(model, name):
            attributes[name] = getattr(model, name)
    return attributes | samples


def _whole_rows(coef: np.ndarray) -> sparse.csr_matrix:
    """Return a sparse matrix that stores its zeros, of which scikit-learn reads the values alone."""
    n_rows, n = coef.shape
    indices, indptr = np.tile(np.arange(n, dtype=np.int32), n_rows), np.arange(n_rows + 1, dtype=np.int32) * n
    return sparse.csr_matrix((coef.ravel(), indices, indptr), shape=coef.shape)


# --- kernel machines from scikit-learn -------------------------------------------------------------------


def kernel_from_sklearn(kind: type[BaseEstimator], model: BaseEstimator, map_: Standardization | None) -> BaseEstimator:
    """Return the estimator of the class `kind` here; samples are standardised by a map, or not."""
    kernel, parameters = _kernel_from_sklearn(model.kernel)
    parameters = shared_parameters(model, kind) | parameters | {"kernel": kernel}
    if map_ is not None:
        parameters["standardize"] = True
    if getattr(model, "_probA", np.empty(0)).size:
        warnings.warn(
            "The parameters of probabilities are left out. sklearn.calibration.CalibratedClassifierCV computes them.",
            UserWarning,
            stacklevel=4,
        )
    vectors, shape = model.support_vectors_, tuple(model.shape_fit_)
    if callable(model.kernel):
        samples = getattr(model, _SAMPLES)
        vectors = _safe_indexing(samples, model.support_)
        shape = (_num_samples(samples), vectors.shape[1] if getattr(vectors, "ndim", 1) == 2 else 1)
    parts = KernelParts(
        dual_coef=model.dual_coef_,
        intercept=model.intercept_,
        n_support=model.n_support_,
        support_vectors=unscaled(vectors, map_),
        support=model.support_,
        shape_fit=shape,
        gamma=parameters["gamma"] if parameters["kernel"] in ("laplacian", "exponential") else float(model._gamma),
        classes=getattr(model, "classes_", None),
        standardization=map_,
    )
    names = [name for name in ("class_weight_", "fit_status_", "offset_") if hasattr(model, name)]
    return kernel_model(kind, parameters, parts, **{name: getattr(model, name) for name in names})


def _kernel_from_sklearn(kernel: str | Callable) -> tuple[str | Callable, dict[str, float]]:
    """Return the name of a kernel, or the function, and its parameters if it was a function that has a name here."""
    if isinstance(kernel, partial) and kernel.func is laplacian_kernel and set(kernel.keywords) == {"gamma"}:
        return "laplacian", {"gamma": kernel.keywords["gamma"]}
    if isinstance(kernel, Matern) and kernel.nu == 0.5 and np.ndim(kernel.length_scale) == 0:
        return "exponential", {"gamma": 1 / kernel.length_scale}
    return kernel, {}


# --- machines of landmarks to scikit-learn ---------------------------------------------------------------


def landmarks_to_sklearn(model: BaseEstimator) -> BaseEstimator:
    """Return the pipeline that has the same scores: of `StandardScaler` if samples are, `Nystroem` and the machine."""
    if hasattr(model, "exact_machine_"):
        raise ValueError(
            "The pipeline would predict with the landmarks, not with exact_machine_: fit with refine=None."
        )
    if hasattr(model, "classes_") and model._learns_pairs(len(model.classes_)):
        return kernel_to_sklearn(_machine_of_pairs(model))
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel_name(kernel) not in _OF_FEATURES:
        raise ValueError(f"scikit-learn's Nystroem cannot evaluate the kernel {kernel!r}.")
    map_ = Standardization.of_model(model)
    features = _features(model, kernel, standardized(model.components_, map_).astype(np.float64))
    steps = [*([] if map_ is None else [scaler_of(map_)]), features, _machine_after_features(model)]
    if hasattr(model, "feature_names_in_"):
        steps[0].feature_names_in_ = model.feature_names_in_
    return make_pipeline(*steps)


def _machine_of_pairs(model: BaseEstimator) -> SVC:
    """Return the kernel machine that has the landmarks as support vectors, which all pairs of classes share."""
    coef = dense_coef(model)
    m, k = coef.shape[1], len(model.classes_)
    parts = KernelParts(
        dual_coef=coef,
        intercept=model.intercept_,
        n_support=np.array([m] + [0] * (k - 1)),
        support_vectors=model.components_,
        support=np.arange(m),
        shape_fit=(m, model.n_features_in_),
        gamma=model._gamma,
        classes=model.classes_,
        standardization=Standardization.of_model(model),
    )
    names = {"feature_names_in_": model.feature_names_in_} if hasattr(model, "feature_names_in_") else {}
    parameters = shared_parameters(model, SVC) | {"kernel": model.kernel, "loss": "hinge", "max_iter": -1}
    parameters["fit_intercept"] = True  # without one in the machine, those of the parts are 0
    return kernel_model(SVC, parameters, parts, n_iter_=np.full(len(coef), model.n_iter_), **names)


def _features(model: BaseEstimator, kernel: Any, landmarks: Samples) -> Nystroem:
    """Return scikit-learn's features, which are kernel values."""
    m, n_features = landmarks.shape
    features = Nystroem(kernel=kernel_name(kernel), n_components=m, **kernel._asdict())
    features.components_, features.normalization_, features.n_features_in_ = landmarks, np.eye(m), n_features
    features.component_indices_ = getattr(model, "component_indices_", np.arange(m))
    features._n_features_out = m
    return features


def _machine_after_features(model: BaseEstimator) -> BaseEstimator:
    """Return the linear machine on kernel values."""
    kind = LANDMARK_TWINS[type(model)]
    several = {} if getattr(model, "multi_class", "ovr") == "ovr" else {"multi_class": "crammer_singer"}
    machine = kind(**shared_parameters(model, kind) | several)
    coef = dense_coef(model).copy()
    machine.coef_ = coef if hasattr(model, "classes_") else coef[0]
    machine.intercept_ = np.array(model.intercept_, np.float64)
    machine.n_features_in_ = coef.shape[1]
    for name in ("classes_", "n_iter_"):
        if hasattr(model, name):
            setattr(machine, name, getattr(model, name))
    return machine


# --- machines of landmarks from scikit-learn -------------------------------------------------------------


def landmarks_from_sklearn(features: Nystroem, machine: BaseEstimator, map_: Standardization | None) -> BaseEstimator:
    """Return the estimator of fastsvm that predicts as a machine on features does, of standardised samples or not."""
    if type(machine) not in _AFTER_FEATURES:
        names = ", ".join(kind.__name__ for kind in _AFTER_FEATURES)
        raise TypeError(f"After Nystroem, these can be converted: {names}. Found {type(machine).__name__}.")
    kind, losses = _AFTER_FEATURES[type(machine)]
    penalty = getattr(machine, "penalty", "l2")
    if machine.loss not in losses or penalty != "l2":
        raise ValueError(
            f"{kind.__name__} has the losses {' and '.join(losses)} with the penalty l2. Found loss={machine.loss!r} "
            f"and penalty={penalty!r}."
        )
    landmarks = unscaled(features.components_, map_)
    m, d = landmarks.shape
    kernel = _kernel_of_features(features, d)
    coef = dense_coef(machine) @ features.normalization_
    parts = KernelParts(
        dual_coef=coef,
        intercept=np.broadcast_to(np.asarray(machine.intercept_, np.float64), len(coef)),
        n_support=np.array([m]),
        support_vectors=landmarks,
        support=features.component_indices_,
        shape_fit=(m, d),
        gamma=kernel.get("gamma", 0.0),
        classes=getattr(machine, "classes_", None),
        standardization=map_,
    )
    parameters = shared_parameters(machine, kind) | {"n_components": m, "standardize": map_ is not None} | kernel
    if parameters["tol"] is None:
        del parameters["tol"]
    if hasattr(machine, "alpha") and machine.alpha > 0:  # of the penalty beside the mean loss
        parameters["C"] = float(machine.n_iter_ / (machine.alpha * (machine.t_ - 1)))
    return landmark_model(kind, parameters, parts)


def _kernel_of_features(features: Nystroem, n_features: int) -> Attributes:
    """Return the kernel of features by its name here, with its parameters."""
    name = "poly" if features.kernel == "polynomial" else features.kernel
    if name not in _OF_FEATURES:
        raise ValueError(f"NystroemSVC and NystroemSVR have no such kernel as Nystroem(kernel={features.kernel!r}).")
    values = {"gamma": 1 / n_features, "coef0": 1.0, "degree": 3}
    passed = {key: getattr(features, key) for key in values if getattr(features, key) is not None}
    values |= (features.kernel_params or {}) | passed
    fields = KERNELS[name]._fields  # type: ignore[attr-defined]
    return {"kernel": name} | {key: values[key] for key in ("gamma", "coef0", "degree") if key in fields}
