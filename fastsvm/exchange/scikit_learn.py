"""Models as estimators of scikit-learn, and the other way."""

from typing import Any

from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from fastsvm.estimators import SVCSearch
from fastsvm.estimators.fitting.drafts import view_of
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.exchange import scikit_learn_kernel as of_kernel
from fastsvm.exchange import scikit_learn_landmarks as of_landmarks
from fastsvm.exchange import scikit_learn_linear as of_linear
from fastsvm.exchange.scikit_learn_parts import standardization_of

__all__ = ["from_sklearn", "to_sklearn"]


def to_sklearn(model: Any) -> Any:
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
    name = type(model).__name__
    for room in (of_kernel, of_linear, of_landmarks):
        if room.TWINS.get(name, (None,))[0] is type(model):
            check_is_fitted(model)
            return room.to_sklearn(model)
    known = ", ".join([*of_kernel.TWINS, *of_linear.TWINS, *of_landmarks.TWINS])
    raise TypeError(f"Estimators of fastsvm can be converted: {known}. Found {type(model).__module__}.{name}.")


def from_sklearn(model: Any) -> Any:
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
    given, standardization = model, None
    if isinstance(model, Pipeline):
        standardization, features, model = _steps_of(model)
        if features is not None:
            return _named(of_landmarks.from_sklearn(features, model, standardization), given[0])
    for room in (of_kernel, of_linear):
        name = room.name_of(model)
        if name is not None:
            check_is_fitted(model)
            found = room.from_sklearn(name, model, standardization)
            return _named(found, given[0] if given is not model else model)
    known = ", ".join([*of_kernel.TWINS, *of_linear.TWINS])
    raise TypeError(f"Estimators of scikit-learn can be converted: {known}. Found {type(model).__name__}.")


def _steps_of(pipeline: Pipeline) -> tuple[Standardization | None, Nystroem | None, Any]:
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


def _named(found: Any, first: Any) -> Any:
    """Return the estimator with the names of features that the first step saw."""
    if hasattr(first, "feature_names_in_"):
        found.feature_names_in_ = first.feature_names_in_
    return found
