"""Linear machines and LIBLINEAR's text.

LIBLINEAR's classes have any order, and of two classes a positive score stands for the first one. Its intercept is the
weight of a constant feature, times the value of that feature. The text does not say by which estimator a model was
fitted: what comes back is the one that minimises the objective of the text's solver.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm.estimators import LinearOneClassSVM, LogisticRegression, SGDClassifier, SGDRegressor
from fastsvm.estimators.linear.loss_parameter import loss_of
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.exchange.imported import estimator_named, linear_model
from fastsvm.exchange.labels import whole_labels
from fastsvm.exchange.liblinear_text import ONE_CLASS, LiblinearText

__all__ = ["SOLVERS", "liblinear_text_of", "model_of_liblinear_text"]


class LinearSolver(NamedTuple):
    """A solver of LIBLINEAR, by its name in the text, and the estimator that minimises the same objective."""

    solver_type: str
    estimator: str
    parameters: dict[str, Any]


SOLVERS = (
    LinearSolver("L2R_L2LOSS_SVC_DUAL", "LinearSVC", {"loss": "squared_hinge"}),
    LinearSolver("L2R_L2LOSS_SVC", "LinearSVC", {"loss": "squared_hinge"}),
    LinearSolver("L2R_L1LOSS_SVC_DUAL", "LinearSVC", {"loss": "hinge"}),
    LinearSolver("MCSVM_CS", "LinearSVC", {"multi_class": "crammer_singer"}),
    LinearSolver("L2R_L2LOSS_SVR", "LinearSVR", {"loss": "squared_epsilon_insensitive"}),
    LinearSolver("L2R_L2LOSS_SVR_DUAL", "LinearSVR", {"loss": "squared_epsilon_insensitive"}),
    LinearSolver("L2R_L1LOSS_SVR_DUAL", "LinearSVR", {"loss": "epsilon_insensitive"}),
    LinearSolver("L2R_LR", "LogisticRegression", {"penalty": "l2"}),
    LinearSolver("L2R_LR_DUAL", "LogisticRegression", {"penalty": "l2"}),
    LinearSolver("L1R_LR", "LogisticRegression", {"penalty": "l1"}),
    LinearSolver("L1R_L2LOSS_SVC", "LinearSVC", {"loss": "squared_hinge", "penalty": "l1"}),
    LinearSolver(ONE_CLASS, "LinearOneClassSVM", {}),
)


def model_of_liblinear_text(text: LiblinearText, n_features: int | None) -> Any:
    """Return the estimator that a text describes.

    It raises ValueError if there is no such estimator, or `n_features` is less than the text has.
    """
    solver = next((each for each in SOLVERS if each.solver_type == text.solver_type), None)
    if solver is None:
        raise ValueError(f"fastsvm has no linear machine for the solver {text.solver_type}")
    weights = text.weights
    if n_features is not None:
        if n_features < len(weights):
            raise ValueError(f"n_features={n_features}, but the text has {len(weights)}; leave it out or raise it")
        weights = np.vstack([weights, np.zeros((n_features - len(weights), weights.shape[1]))])
    if len(weights) == 0:
        raise ValueError("it has no features")
    coef, intercept, classes = weights.T, max(text.bias, 0.0) * text.bias_weights - text.rho, None
    if text.labels is not None:
        order = np.argsort(text.labels)
        classes = text.labels[order]
        if len(coef) > 1:
            coef, intercept = coef[order], intercept[order]
        elif order[0] == 0:  # the score is that of the first class
            coef, intercept = -coef, -intercept
        if len(coef) == len(classes) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
    kind = estimator_named(solver.estimator)
    given = {"fit_intercept": text.bias > 0} | ({"intercept_scaling": text.bias} if text.bias > 0 else {})
    known = kind().get_params()
    parameters = solver.parameters | {name: value for name, value in given.items() if name in known}
    return linear_model(kind, parameters, coef, intercept + 0.0, classes)


def liblinear_text_of(model: Any) -> LiblinearText:
    """Return the text of a fitted linear machine; labels that are not whole numbers raise ValueError."""
    coef = dense_coef(model)
    intercept, classes = np.atleast_1d(model.intercept_), getattr(model, "classes_", None)
    name, labels = _solver_of(model), None
    if name == ONE_CLASS:
        return LiblinearText(name, None, coef.T, -1.0, np.zeros(1), float(model.offset_[0]))
    if classes is not None:
        labels = whole_labels(classes, "LIBLINEAR")
        if len(classes) == 2 and name == "MCSVM_CS":  # which has a score for each
            coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
        elif len(classes) == 2:  # the score stands for the first class of the text
            labels = labels[::-1]
    return LiblinearText(name, labels, coef.T, 1.0 if intercept.any() else -1.0, intercept)


def _solver_of(model: Any) -> str:
    """Return the solver whose text predicts the same; where there are several, the one with the same objective."""
    if isinstance(model, LogisticRegression):
        return "L1R_LR" if model._has_l1_penalty() else "L2R_LR"
    if isinstance(model, LinearOneClassSVM):
        return ONE_CLASS
    loss = model.loss if isinstance(model.loss, str) else ""
    if isinstance(model, SGDRegressor) or not hasattr(model, "classes_"):
        return "L2R_L1LOSS_SVR_DUAL" if loss == "epsilon_insensitive" else "L2R_L2LOSS_SVR_DUAL"
    is_sgd = isinstance(model, SGDClassifier)
    if loss_of(model.loss).of_classes if is_sgd else model.multi_class != "ovr":
        return "MCSVM_CS"
    has_l1_penalty = model.penalty == "l1"
    if loss == "log_loss":
        return "L1R_LR" if has_l1_penalty else "L2R_LR"
    if has_l1_penalty:
        return "L1R_L2LOSS_SVC"
    return "L2R_L1LOSS_SVC_DUAL" if loss == "hinge" else "L2R_L2LOSS_SVC_DUAL"
