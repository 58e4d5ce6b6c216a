"""Linear machines as estimators of scikit-learn, and the other way."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn import svm

from fastsvm.estimators import (
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
)
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.estimators.linear.loss_parameter import loss_of
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.exchange.imported import linear_model
from fastsvm.exchange.scikit_learn_parts import shared_parameters

__all__ = ["TWINS", "from_sklearn", "name_of", "to_sklearn"]

TWINS: dict[str, tuple[Any, Any]] = {
    "LinearSVC": (LinearSVC, svm.LinearSVC),
    "LinearSVR": (LinearSVR, svm.LinearSVR),
    "LinearOneClassSVM": (LinearOneClassSVM, theirs.SGDOneClassSVM),
    "LogisticRegression": (LogisticRegression, theirs.LogisticRegression),
    "SGDClassifier": (SGDClassifier, theirs.SGDClassifier),
    "SGDRegressor": (SGDRegressor, theirs.SGDRegressor),
}
"""Estimators of both packages, by name."""
_LOGISTIC = "LogisticRegression"
_RATES = ("constant", "optimal", "invscaling", "adaptive")  # of both


def name_of(model: Any) -> str | None:
    """Return the name of an estimator of scikit-learn that has a twin."""
    return next((name for name, (_, kind) in TWINS.items() if type(model) is kind), None)


def to_sklearn(model: Any) -> Any:
    """Return the estimator of scikit-learn that has the same scores."""
    kind, parameters = _twin(model)
    is_twin = kind is TWINS[type(model).__name__][1]
    given = shared_parameters(model, kind) if is_twin else {"fit_intercept": model.fit_intercept}
    found = kind(**(given | parameters))
    coef = model.coef_
    found.coef_ = coef.copy() if sparse.issparse(coef) else np.array(coef, np.float64, order="C")
    if kind is theirs.SGDOneClassSVM:
        found.offset_ = np.array(model.offset_, np.float64)
    else:
        found.intercept_ = np.array(model.intercept_, np.float64)
    found.n_features_in_ = int(model.n_features_in_)
    for name in ("classes_", "feature_names_in_", "n_iter_", "t_"):
        if hasattr(model, name):
            setattr(found, name, getattr(model, name))
    return found


def _twin(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class in scikit-learn, and the parameters that differ."""
    kind = TWINS[type(model).__name__][1]
    if kind is theirs.SGDOneClassSVM:
        return kind, {}
    if kind is theirs.LogisticRegression or (kind is svm.LinearSVC and model.loss == "log_loss"):
        is_l1 = model._has_l1_penalty()
        if len(model.classes_) > 2:  # whose probabilities LogisticRegression takes from a softmax
            return theirs.SGDClassifier, {"loss": "log_loss", "penalty": "l1" if is_l1 else "l2"}
        return theirs.LogisticRegression, _penalty(is_l1) | {"solver": "liblinear"}
    is_name = isinstance(model.loss, str)
    if kind is svm.LinearSVC:
        several = {} if model.multi_class == "ovr" else {"multi_class": "crammer_singer"}
        return kind, several if is_name else several | {"loss": "squared_hinge"}
    if kind is svm.LinearSVR:
        return kind, {} if is_name else {"loss": "epsilon_insensitive"}
    if loss_of(model.loss).of_classes:
        if model.loss == "softmax":
            return theirs.LogisticRegression, {}
        return svm.LinearSVC, {"multi_class": "crammer_singer"}
    found = {} if is_name else {"loss": kind().loss}
    if model.learning_rate not in _RATES:
        found["learning_rate"] = kind().learning_rate
    return kind, found


def _penalty(is_l1: bool) -> dict[str, Any]:
    """Return the parameters of scikit-learn's `LogisticRegression`, which since 1.8 are a ratio of penalties."""
    if theirs.LogisticRegression().penalty == "l2":
        return {"penalty": "l1" if is_l1 else "l2", "l1_ratio": None}
    return {"l1_ratio": float(is_l1), "penalty": theirs.LogisticRegression().penalty}


def from_sklearn(name: str, model: Any, map_: Standardization | None) -> Any:
    """Return the estimator of fastsvm; weights for standardised samples become such for samples as they are."""
    kind: Any
    if name == _LOGISTIC and model.solver == "liblinear":  # which penalises the intercept
        kind = LogisticRegression
        is_l1 = model.penalty == "l1" or model.l1_ratio == 1
        parameters = shared_parameters(model, kind) | {"penalty": "l1" if is_l1 else "l2", "l1_ratio": 0.0}
    elif name == _LOGISTIC:
        of_pairs = len(model.classes_) == 2 or getattr(model, "multi_class", "") == "ovr"
        kind = SGDClassifier
        parameters = {"loss": "log_loss" if of_pairs else "softmax", "fit_intercept": model.fit_intercept}
    else:
        kind = TWINS[name][0]
        parameters = shared_parameters(model, kind)
        if parameters.get("eta0") == 0:  # the default before scikit-learn 1.8, for rates that do not use it
            del parameters["eta0"]
    coef = dense_coef(model)
    intercept = -model.offset_ if kind is LinearOneClassSVM else model.intercept_
    intercept = np.broadcast_to(np.asarray(intercept, np.float64), len(coef))
    if map_ is not None:
        parameters["standardize"] = True
        coef = coef * map_.scale
        shift = np.zeros(coef.shape[1]) if map_.shift is None else map_.shift
        intercept, map_ = intercept - coef @ shift, map_._replace(shift=shift)
    known = {"t_": float(model.t_)} if hasattr(model, "t_") else {}
    return linear_model(kind, parameters, coef, intercept, getattr(model, "classes_", None), map_, **known)
