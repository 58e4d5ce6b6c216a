"""Kernel machines of landmarks as pipelines of scikit-learn.

Scikit-learn's `Nystroem` multiplies kernel values by a matrix. It is the identity here, so that the linear machine
after it has the coefficients of the landmarks.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import svm
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from fastsvm.estimators import NystroemSVC, NystroemSVR
from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.estimators.kernel.standardization import Standardization
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
