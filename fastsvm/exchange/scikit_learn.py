"""Models as estimators of scikit-learn, and the other way."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn import svm
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from fastsvm.estimators import (
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
    SVCSearch,
)
from fastsvm.estimators.fitting.session import view_of
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import Standardization
from fastsvm.estimators.linear.loss_parameter import loss_of
from fastsvm.estimators.linear.prediction import dense_coef, for_rows_as_passed
from fastsvm.exchange.imported import Twins, linear_model, shared_parameters, standardization_of
from fastsvm.exchange.scikit_learn_kernel import (
    KERNEL_TWINS,
    LANDMARK_TWINS,
    kernel_from_sklearn,
    kernel_to_sklearn,
    landmarks_from_sklearn,
    landmarks_to_sklearn,
)

__all__ = ["from_sklearn", "to_sklearn"]

_LINEAR_TWINS: Twins = {
    LinearSVC: svm.LinearSVC,
    LinearSVR: svm.LinearSVR,
    LinearOneClassSVM: theirs.SGDOneClassSVM,
    LogisticRegression: theirs.LogisticRegression,
    SGDClassifier: theirs.SGDClassifier,
    SGDRegressor: theirs.SGDRegressor,
}
"""Linear machines of scikit-learn."""
_RATES = ("constant", "optimal", "invscaling", "adaptive")  # of both


def to_sklearn(model: BaseEstimator) -> Any:
    """Return a fitted estimator of scikit-learn that predicts the same and does not need fastsvm.

    It has no part of fastsvm, so that it can be pickled, or converted to ONNX or skops, for machines where fastsvm is
    not installed. Numbers are not rounded; of more than some 2,000 support vectors, predictions of fastsvm may differ
    from its by `tol`, since scikit-learn computes kernel values in float64. Support vectors of an `OneClassSVM` on the
    boundary are inliers; scikit-learn's rounding makes outliers of some.

    Parameters
    ----------
    model : a kernel or linear machine, NystroemSVC or -SVR, LogisticRegression, SGDClassifier or SGDRegressor
        A fitted estimator.

    Returns
    -------
    estimator
        An estimator of the same name, with the parameters that scikit-learn's has. A kernel machine with
        `standardize=True` becomes a `Pipeline` of `StandardScaler` and the estimator. As in scikit-learn, a kernel
        machine takes sparse samples if it was fitted to such. `NystroemSVC` becomes a `Pipeline` of `Nystroem`, whose
        features are the kernel values with the landmarks, and `LinearSVC`; of pairs of classes it becomes `SVC`, whose
        support vectors are the landmarks. Kernels that scikit-learn has under no name
        become functions of scikit-learn's: "laplacian" `laplacian_kernel`, "exponential" `Matern(nu=0.5)`, which takes
        dense samples only. Losses of all classes become `LogisticRegression` ("softmax") or
        `LinearSVC(multi_class="crammer_singer")`, which predict by the same scores. Logistic regression of more than
        two classes becomes `SGDClassifier("log_loss")`, which has the same probabilities. `LinearOneClassSVM` becomes
        `SGDOneClassSVM`.

    Raises
    ------
    TypeError
        If the model is not such an estimator.
    NotFittedError
        If it is not fitted.
    ValueError
        If its kernel is one that scikit-learn cannot evaluate, such as a class of your own, or "exponential" or a
        function for `NystroemSVC`.

    Examples
    --------
    >>> import fastsvm
    >>> model = fastsvm.SVC(standardize=True).fit([[0.0], [100.0]], [0, 1])
    >>> fastsvm.to_sklearn(model)
    Pipeline(steps=[('standardscaler', StandardScaler()), ('svc', SVC())])
    >>> fastsvm.to_sklearn(model).predict([[90.0]])
    array([1])
    """
    model = view_of(model)  # another thread may fit it
    if isinstance(model, SVCSearch):
        raise TypeError("Pass the best_estimator_ of an SVCSearch: scikit-learn has nothing for the search itself.")
    for twins, convert in (
        (KERNEL_TWINS, kernel_to_sklearn),
        (_LINEAR_TWINS, _linear_to_sklearn),
        (LANDMARK_TWINS, landmarks_to_sklearn),
    ):
        if type(model) in twins:
            check_is_fitted(model)
            return convert(model)
    names = ", ".join(kind.__name__ for kind in [*KERNEL_TWINS, *_LINEAR_TWINS, *LANDMARK_TWINS])
    kind = type(model)
    raise TypeError(f"Estimators of fastsvm can be converted: {names}. Found {kind.__module__}.{kind.__name__}.")


def from_sklearn(model: BaseEstimator) -> Any:
    """Return a fitted estimator of fastsvm that predicts as one of scikit-learn does.

    How the fit went is not known: `stop_reason_` is "imported", and there are no `objective_`, `duality_gap_`,
    `kkt_violation_`, `converged_` and `history_`.

    Parameters
    ----------
    model : a kernel or linear machine, SGDClassifier, SGDRegressor or LogisticRegression of scikit-learn, or Pipeline
        A fitted estimator, or a pipeline of `StandardScaler` and one of these. `LogisticRegression` becomes
        `SGDClassifier` if its solver, unlike "liblinear", does not penalise the intercept. `SGDOneClassSVM` becomes
        `LinearOneClassSVM`. A pipeline of `Nystroem`, after `StandardScaler` or not, and `LinearSVC`, `LinearSVR`,
        `SGDClassifier` or `SGDRegressor`, with a hinge or an epsilon-insensitive loss, becomes `NystroemSVC` or
        `NystroemSVR`.

    Returns
    -------
    estimator
        An estimator of the same name, with the parameters that both have; from a pipeline, with `standardize=True`.

    Raises
    ------
    TypeError
        If the model is of another type.
    NotFittedError
        If it is not fitted.
    ValueError
        If it has a parameter that fastsvm does not have.

    Warns
    -----
    UserWarning
        If a kernel machine has parameters of probabilities, which the estimators do not have.

    Examples
    --------
    >>> import fastsvm
    >>> from sklearn.svm import SVC
    >>> model = fastsvm.from_sklearn(SVC(C=3).fit([[0.0], [1.0]], [0, 1]))
    >>> model, model.predict([[0.9]])
    (SVC(C=3), array([1]))
    """
    first, map_, features = model, None, None
    if isinstance(model, Pipeline):
        map_, features, model = _steps_of(model)
        first = first[0]
    if features is not None:
        converted = landmarks_from_sklearn(features, model, map_)
    else:
        converted = _machine_from_sklearn(model, map_)
    if hasattr(first, "feature_names_in_"):
        converted.feature_names_in_ = first.feature_names_in_
    return converted


def _machine_from_sklearn(model: BaseEstimator, map_: Standardization | None) -> BaseEstimator:
    """Return the kernel or linear machine of fastsvm; samples are standardised by a map, or not."""
    for twins, convert in ((KERNEL_TWINS, kernel_from_sklearn), (_LINEAR_TWINS, _linear_from_sklearn)):
        for ours, kind in twins.items():
            if type(model) is kind:
                check_is_fitted(model)
                return convert(ours, model, map_)
    names = ", ".join(kind.__name__ for kind in [*KERNEL_TWINS, *_LINEAR_TWINS])
    raise TypeError(f"Estimators of scikit-learn can be converted: {names}. Found {type(model).__name__}.")


def _steps_of(pipeline: Pipeline) -> tuple[Standardization | None, Nystroem | None, BaseEstimator]:
    """Return the scaler's map and the features, if the pipeline has them, and the estimator."""
    steps = [step for _, step in pipeline.steps if step not in (None, "passthrough")]
    kinds = [type(step) for step in steps[:-1]]
    if kinds not in ([StandardScaler], [Nystroem], [StandardScaler, Nystroem]):
        raise TypeError(
            "A pipeline must consist of StandardScaler, Nystroem, or one after the other, and an estimator. "
            f"Found {pipeline}."
        )
    for step in steps:
        check_is_fitted(step)
    map_ = standardization_of(steps[0]) if kinds[0] is StandardScaler else None
    return map_, steps[-2] if kinds[-1] is Nystroem else None, steps[-1]


# --- linear machines -------------------------------------------------------------------------------------


def _linear_to_sklearn(model: BaseEstimator) -> BaseEstimator:
    """Return the estimator of scikit-learn that has the same scores."""
    kind, parameters = _twin(model)
    is_twin = kind is _LINEAR_TWINS[type(model)]
    shared = shared_parameters(model, kind) if is_twin else {"fit_intercept": model.fit_intercept}
    converted = kind(**(shared | parameters))
    coef = model.coef_
    converted.coef_ = coef.copy() if sparse.issparse(coef) else np.array(coef, np.float64, order="C")
    if kind is theirs.SGDOneClassSVM:
        converted.offset_ = np.array(model.offset_, np.float64)
    else:
        converted.intercept_ = np.array(model.intercept_, np.float64)
    converted.n_features_in_ = int(model.n_features_in_)
    for name in ("classes_", "feature_names_in_", "n_iter_", "t_"):
        if hasattr(model, name):
            setattr(converted, name, getattr(model, name))
    return converted


def _twin(model: BaseEstimator) -> tuple[type[BaseEstimator], Attributes]:
    """Return the class in scikit-learn, and the parameters that differ."""
    kind = _LINEAR_TWINS[type(model)]
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
    differing = {} if is_name else {"loss": kind().loss}
    if model.learning_rate not in _RATES:
        differing["learning_rate"] = kind().learning_rate
    return kind, differing


def _penalty(is_l1: bool) -> Attributes:
    """Return the parameters of scikit-learn's `LogisticRegression`, which since 1.8 are a ratio of penalties."""
    if theirs.LogisticRegression().penalty == "l2":
        return {"penalty": "l1" if is_l1 else "l2", "l1_ratio": None}
    return {"l1_ratio": float(is_l1), "penalty": theirs.LogisticRegression().penalty}


def _linear_from_sklearn(
    kind: type[BaseEstimator], model: BaseEstimator, map_: Standardization | None
) -> BaseEstimator:
    """Return the estimator of fastsvm; weights for standardised samples become such for samples as they are."""
    if kind is not LogisticRegression:
        parameters = shared_parameters(model, kind)
        if parameters.get("eta0") == 0:  # the default before scikit-learn 1.8, for rates that do not use it
            del parameters["eta0"]
    elif model.solver == "liblinear":  # which penalises the intercept
        is_l1 = model.penalty == "l1" or model.l1_ratio == 1
        parameters = shared_parameters(model, kind) | {"penalty": "l1" if is_l1 else "l2", "l1_ratio": 0.0}
    else:
        of_pairs = len(model.classes_) == 2 or getattr(model, "multi_class", "") == "ovr"
        kind = SGDClassifier
        parameters = {"loss": "log_loss" if of_pairs else "softmax", "fit_intercept": model.fit_intercept}
    coef = dense_coef(model)
    intercept = -model.offset_ if kind is LinearOneClassSVM else model.intercept_
    intercept = np.broadcast_to(np.asarray(intercept, np.float64), len(coef))
    if map_ is not None:
        parameters["standardize"] = True
        map_ = map_._replace(shift=np.zeros(coef.shape[1]) if map_.shift is None else map_.shift)
        coef, intercept = for_rows_as_passed(coef, intercept, *map_)
    attributes = {"t_": float(model.t_)} if hasattr(model, "t_") else {}
    return linear_model(kind, parameters, coef, intercept, getattr(model, "classes_", None), map_, **attributes)
