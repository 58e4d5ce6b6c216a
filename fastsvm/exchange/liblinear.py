"""Linear machines and LIBLINEAR's text.

LIBLINEAR's classes have any order, and of two classes a positive score stands for the first one. Its intercept is the
weight of a constant feature, times the value of that feature. The text does not say by which estimator a model was
fitted: what comes back is the one that minimises the objective of the text's solver.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.estimators.linear.training_task import loss_of
from fastsvm.estimators.registry import (
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
)
from fastsvm.exchange.imported import linear_model
from fastsvm.exchange.text_lines import Header, TextLines, ValueReaders, whole_labels
from fastsvm.files.atomic_file import atomic_write

ONE_CLASS = "ONECLASS_SVM"


class LinearSolver(NamedTuple):
    """A solver of LIBLINEAR, by its name in the text, and the estimator that minimises the same objective."""

    solver_type: str
    estimator: type[BaseEstimator]
    parameters: Attributes

    @property
    def has_classes(self) -> bool:
        """Whether the machine is a classifier."""
        return self.estimator in (LinearSVC, LogisticRegression)


SOLVERS = (
    LinearSolver("L2R_LR", LogisticRegression, {"penalty": "l2"}),
    LinearSolver("L2R_L2LOSS_SVC_DUAL", LinearSVC, {"loss": "squared_hinge"}),
    LinearSolver("L2R_L2LOSS_SVC", LinearSVC, {"loss": "squared_hinge"}),
    LinearSolver("L2R_L1LOSS_SVC_DUAL", LinearSVC, {"loss": "hinge"}),
    LinearSolver("MCSVM_CS", LinearSVC, {"multi_class": "crammer_singer"}),
    LinearSolver("L1R_L2LOSS_SVC", LinearSVC, {"loss": "squared_hinge", "penalty": "l1"}),
    LinearSolver("L1R_LR", LogisticRegression, {"penalty": "l1"}),
    LinearSolver("L2R_LR_DUAL", LogisticRegression, {"penalty": "l2"}),
    LinearSolver("L2R_L2LOSS_SVR", LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    LinearSolver("L2R_L2LOSS_SVR_DUAL", LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    LinearSolver("L2R_L1LOSS_SVR_DUAL", LinearSVR, {"loss": "epsilon_insensitive"}),
    LinearSolver(ONE_CLASS, LinearOneClassSVM, {}),
)
_BY_TYPE = {each.solver_type: each for each in SOLVERS}


# --- the text --------------------------------------------------------------------------------------------


class LiblinearText(NamedTuple):
    """What the text of a model says, in LIBLINEAR's order and signs."""

    solver_type: str  # It is a word such as "L2R_L2LOSS_SVC_DUAL".
    labels: np.ndarray | None  # Of two classes a positive score stands for the first.
    weights: np.ndarray  # They have shape (n_features, n_scores).
    bias: float  # It is the value of a constant feature; below 0 if there is none.
    bias_weights: np.ndarray  # They are the weights of the constant feature, shape (n_scores,).
    rho: float = 0.0  # It is subtracted from the score of "ONECLASS_SVM".


def write_liblinear_text(path: str | Path, text: LiblinearText) -> None:
    """Write the text of a model, atomically."""
    with atomic_write(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
        file.write(f"solver_type {text.solver_type}\n")
        file.write(f"nr_class {2 if text.labels is None else len(text.labels)}\n")
        if text.labels is not None:
            file.write(f"label {' '.join(map(str, text.labels))}\n")
        file.write(f"nr_feature {len(text.weights)}\nbias {text.bias!r}\n")
        file.write(f"rho {text.rho!r}\nw\n" if text.solver_type == ONE_CLASS else "w\n")
        rows = text.weights.tolist() + ([text.bias_weights.tolist()] if text.bias >= 0 else [])
        for row in rows:
            file.write(" ".join(map(repr, row)) + " \n")


def read_liblinear_text(path: str | Path) -> LiblinearText:
    """Read the text of a model. Memory is at most some thirty times that of the file.

    If the text is damaged, ValueError names the number of the line.
    """
    lines = TextLines(path, "the text of a LIBLINEAR model")
    values: ValueReaders = {
        "solver_type": lambda words: lines.choice(words, tuple(_BY_TYPE)),
        "label": lambda words: lines.whole(words[1:]),
        **dict.fromkeys(("nr_class", "nr_feature"), lines.count),
        **dict.fromkeys(("bias", "rho"), lines.number_of),
    }
    header = lines.header(values, "w", "the weights")
    n_classes = _checked(lines, header)
    kind, n_features = header["solver_type"], header["nr_feature"]
    n_scores = n_classes if n_classes > 2 or kind == "MCSVM_CS" else 1
    n_rows = n_features + (header["bias"] >= 0)
    rows: list[np.ndarray] = []
    for words in lines:
        if len(words) != n_scores:
            raise lines.error(f"there should be {n_scores} weights, found {len(words)}")
        rows.append(lines.numbers(words))
        if len(rows) > n_rows:
            raise lines.error(f"nr_feature and bias ask for {n_rows} lines of weights, here is one more")
    if len(rows) != n_rows:
        raise lines.error(f"nr_feature and bias ask for {n_rows} lines of weights, there are {len(rows)}", "nr_feature")
    weights = np.array(rows).reshape(n_rows, n_scores)
    return LiblinearText(
        solver_type=kind,
        labels=header["label"] if _BY_TYPE[kind].has_classes else None,
        weights=weights[:n_features],
        bias=header["bias"],
        bias_weights=weights[n_features] if n_rows > n_features else np.zeros(n_scores),
        rho=header["rho"] if kind == ONE_CLASS else 0.0,
    )


def _checked(lines: TextLines, header: Header) -> int:
    """Return the number of classes, 2 for machines without. The labels must be as many, and different."""
    solver = _BY_TYPE.get(header.get("solver_type", ""))
    has_classes = solver is not None and solver.has_classes
    more = ["label"] if has_classes else ["rho"] if solver is not None and solver.solver_type == ONE_CLASS else []
    lines.require(header, ["solver_type", "nr_class", "nr_feature", "bias", *more])
    if not has_classes:
        return 2
    n_classes = header["nr_class"]
    if n_classes < 2:
        raise lines.error(f"nr_class is {n_classes}, but must be 2 at least", "nr_class")
    if len(header["label"]) != n_classes or len(np.unique(header["label"])) < n_classes:
        problem = f"{n_classes} classes ask for as many different labels, found {header['label'].tolist()}"
        raise lines.error(problem, "label")
    return n_classes


# --- from text to a model, and back ----------------------------------------------------------------------


def model_of_liblinear_text(text: LiblinearText, n_features: int | None) -> BaseEstimator:
    """Return the estimator that a text describes.

    It raises ValueError if `n_features` is less than the text has.
    """
    solver, weights = _BY_TYPE[text.solver_type], text.weights
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
    of_bias = {"fit_intercept": text.bias > 0} | ({"intercept_scaling": text.bias} if text.bias > 0 else {})
    defaults = solver.estimator().get_params()
    parameters = solver.parameters | {name: value for name, value in of_bias.items() if name in defaults}
    return linear_model(solver.estimator, parameters, coef, intercept + 0.0, classes)


def liblinear_text_of(model: BaseEstimator) -> LiblinearText:
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


def _solver_of(model: BaseEstimator) -> str:
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
