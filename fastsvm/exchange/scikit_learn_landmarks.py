"""Kernel machines of landmarks as pipelines of scikit-learn, and the other way.

Scikit-learn's `Nystroem` multiplies kernel values by a matrix. It is the identity here, so that the linear machine
after it has the coefficients of the landmarks. A machine of pairs of classes is an `SVC` whose support vectors are the
landmarks, because scikit-learn's linear machines do not vote.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn import svm
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from fastsvm.estimators import SVC, NystroemSVC, NystroemSVR
from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.exchange import scikit_learn_kernel as of_kernel
from fastsvm.exchange.imported import KernelParts, kernel_model, landmark_model
from fastsvm.exchange.scikit_learn_parts import scaler_of, shared_parameters, unscaled
from fastsvm.kernels import RBF, Laplacian, Linear, Polynomial
from fastsvm.sources import MemorySource

__all__ = ["TWINS", "from_sklearn", "to_sklearn"]

TWINS: dict[str, tuple[Any, Any]] = {
    "NystroemSVC": (NystroemSVC, svm.LinearSVC),
    "NystroemSVR": (NystroemSVR, svm.LinearSVR),
}
"""Estimators here, and the last step of the pipelines that take their place."""
_MACHINES: dict[Any, tuple[Any, tuple[str, ...]]] = {
    svm.LinearSVC: (NystroemSVC, ("hinge", "squared_hinge")),
    theirs.SGDClassifier: (NystroemSVC, ("hinge", "squared_hinge")),
    svm.LinearSVR: (NystroemSVR, ("epsilon_insensitive", "squared_epsilon_insensitive")),
    theirs.SGDRegressor: (NystroemSVR, ("epsilon_insensitive", "squared_epsilon_insensitive")),
}
"""Last steps of pipelines of scikit-learn, the estimators here, and the losses that these have."""
_NAMES = {Linear: "linear", Polynomial: "poly", RBF: "rbf", Laplacian: "laplacian"}


# --- to scikit-learn -------------------------------------------------------------------------------------


def to_sklearn(model: Any) -> Any:
    """Return the pipeline that has the same scores: of `StandardScaler` if samples are, `Nystroem` and the machine."""
    if hasattr(model, "exact_machine_"):
        raise ValueError(
            "The pipeline would predict with the landmarks, not with exact_machine_: fit with refine=None."
        )
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
    coef = dense_coef(model).copy()
    is_classifier = hasattr(model, "classes_")
    found.coef_, found.intercept_ = coef if is_classifier else coef[0], np.array(model.intercept_, np.float64)
    found.n_features_in_ = coef.shape[1]
    for name in ("classes_", "n_iter_"):
        if hasattr(model, name):
            setattr(found, name, getattr(model, name))
    return found


# --- from scikit-learn -----------------------------------------------------------------------------------


def from_sklearn(features: Nystroem, machine: Any, map_: Standardization | None) -> Any:
    """Return the estimator of fastsvm that predicts as a machine on features does, of standardised samples or not."""
    if type(machine) not in _MACHINES:
        known = ", ".join(kind.__name__ for kind in _MACHINES)
        raise TypeError(f"After Nystroem, these can be converted: {known}. Found {type(machine).__name__}.")
    kind, losses = _MACHINES[type(machine)]
    penalty = getattr(machine, "penalty", "l2")
    if machine.loss not in losses or penalty != "l2":
        raise ValueError(
            f"{kind.__name__} has the losses {' and '.join(losses)} with the penalty l2. Found loss={machine.loss!r} "
            f"and penalty={penalty!r}."
        )
    landmarks = features.components_ if map_ is None else unscaled(features.components_, map_)
    m, d = landmarks.shape
    kernel = _kernel_parameters(features, d)
    coef = dense_coef(machine) @ features.normalization_
    parts = KernelParts(
        dual_coef=coef,
        intercept=np.broadcast_to(np.asarray(machine.intercept_, np.float64), len(coef)),
        n_support=np.array([m]),
        support_vectors=sparse.csr_matrix(landmarks) if sparse.issparse(landmarks) else landmarks,
        support=features.component_indices_,
        shape_fit=(m, d),
        gamma=kernel.get("gamma", 0.0),
        classes=getattr(machine, "classes_", None),
        standardization=map_,
    )
    given = shared_parameters(machine, kind) | {"n_components": m, "standardize": map_ is not None} | kernel
    if given["tol"] is None:
        del given["tol"]
    if hasattr(machine, "alpha") and machine.alpha > 0:  # of the penalty beside the mean loss
        given["C"] = float(machine.n_iter_ / (machine.alpha * (machine.t_ - 1)))
    return landmark_model(kind, given, parts)


def _kernel_parameters(features: Nystroem, n_features: int) -> dict[str, Any]:
    """Return the kernel of features by its name here, with its parameters."""
    name = "poly" if features.kernel == "polynomial" else features.kernel
    kind: Any = next((kind for kind, own in _NAMES.items() if own == name), None)
    if kind is None:
        raise ValueError(f"NystroemSVC and NystroemSVR have no such kernel as Nystroem(kernel={features.kernel!r}).")
    own = ("gamma", "coef0", "degree")
    given = {"gamma": 1 / n_features, "coef0": 1.0, "degree": 3} | (features.kernel_params or {})
    given |= {key: getattr(features, key) for key in own if getattr(features, key) is not None}
    return {"kernel": name} | {key: given[key] for key in own if key in kind._fields}
