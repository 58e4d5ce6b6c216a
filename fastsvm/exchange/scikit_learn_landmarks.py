"""Kernel machines of landmarks as pipelines of scikit-learn.

Scikit-learn's `Nystroem` multiplies kernel values by a matrix. It is the identity here, so that the linear machine
after it has the coefficients of the landmarks. A machine of pairs of classes is an `SVC` whose support vectors are the
landmarks, because scikit-learn's linear machines do not vote.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import svm
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from fastsvm.estimators import SVC, NystroemSVC, NystroemSVR
from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.exchange import scikit_learn_kernel as of_kernel
from fastsvm.exchange.imported import KernelParts, kernel_model
from fastsvm.exchange.scikit_learn_parts import scaler_of, shared_parameters
from fastsvm.kernels import RBF, Laplacian, Linear, Polynomial
from fastsvm.sources import MemorySource

__all__ = ["TWINS", "to_sklearn"]

TWINS: dict[str, tuple[Any, Any]] = {
    "NystroemSVC": (NystroemSVC, svm.LinearSVC),
    "NystroemSVR": (NystroemSVR, svm.LinearSVR),
}
"""Estimators here, and the last step of the pipelines that take their place."""
_NAMES = {Linear: "linear", Polynomial: "poly", RBF: "rbf", Laplacian: "laplacian"}


def to_sklearn(model: Any) -> Any:
    """Return the pipeline that has the same scores: of `StandardScaler` if samples are, `Nystroem` and the machine."""
    if hasattr(model, "cells_"):
        raise ValueError("scikit-learn has no pipeline of machines of cells: fit with refine=None.")
    if hasattr(model, "classes_") and model._learns_pairs(len(model.classes_)):
        return of_kernel.to_sklearn(_kernel_machine(model))
    kernel: Any = resolve_kernel(model, model._gamma)
    if type(kernel) not in _NAMES:
        raise ValueError(f"scikit-learn's Nystroem cannot evaluate the kernel {kernel!r}.")
    map_, landmarks = Standardization.of_model(model), model.components_
    if map_ is not None:
        landmarks = map_.apply(MemorySource.of(landmarks), np.float64).in_memory().block.user_array()
    features = _features(model, kernel, landmarks.astype(np.float64))
    steps = [features, _machine(model)] if map_ is None else [scaler_of(map_), features, _machine(model)]
    if hasattr(model, "feature_names_in_"):
        steps[0].feature_names_in_ = model.feature_names_in_
    return make_pipeline(*steps)


def _kernel_machine(model: Any) -> SVC:
    """Return the kernel machine that has the landmarks as support vectors, which all pairs of classes share."""
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
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
    return kernel_model(SVC, parameters, parts, n_iter_=np.full(len(coef), model.n_iter_), **names)


def _features(model: Any, kernel: Any, landmarks: Any) -> Nystroem:
    """Return scikit-learn's features, which are kernel values."""
    m, n_features = landmarks.shape
    found = Nystroem(kernel=_NAMES[type(kernel)], n_components=m, **kernel._asdict())
    found.components_, found.normalization_, found.n_features_in_ = landmarks, np.eye(m), n_features
    found.component_indices_ = getattr(model, "component_indices_", np.arange(m))
    found._n_features_out = m
    return found


def _machine(model: Any) -> Any:
    """Return the linear machine on kernel values."""
    kind = TWINS[type(model).__name__][1]
    several = {} if getattr(model, "multi_class", "ovr") == "ovr" else {"multi_class": "crammer_singer"}
    found = kind(**shared_parameters(model, kind) | several)
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else np.array(model.coef_, np.float64)
    is_classifier = hasattr(model, "classes_")
    found.coef_, found.intercept_ = coef if is_classifier else coef[0], np.array(model.intercept_, np.float64)
    found.n_features_in_, found.n_iter_ = coef.shape[1], model.n_iter_
    if is_classifier:
        found.classes_ = model.classes_
    return found
