"""Models as the text of LIBSVM and LIBLINEAR, and linear machines as that of LIBLINEAR.

LIBLINEAR's classes have any order, and of two classes a positive score stands for the first one. Its intercept is the
weight of a constant feature, times the value of that feature. The text does not say by which estimator a model was
fitted: what comes back is the one that minimises the objective of the text's solver.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fastsvm.estimators.fitting.session import view_of
from fastsvm.estimators.fitting.validation import Attributes, origin_of
from fastsvm.estimators.linear.prediction import LinearModel, dense_coef
from fastsvm.estimators.linear.training_task import loss_of
from fastsvm.estimators.nystroem.landmarks import LandmarkEstimator
from fastsvm.estimators.registry import LinearOneClassSVM, LinearSVC, LinearSVR, LogisticRegression, SGDClassifier
from fastsvm.exchange.imported import linear_model
from fastsvm.exchange.libsvm import MACHINES, read_libsvm_text, write_libsvm_text
from fastsvm.exchange.text_lines import Header, TextLines, ValueReaders, begins_with, whole_labels
from fastsvm.files.atomic_file import atomic_write
from fastsvm.sources import Origin

_LIBSVM, _LIBLINEAR = b"svm_type", b"solver_type"
ONE_CLASS = "ONECLASS_SVM"


SOLVERS: dict[str, tuple[type[BaseEstimator], Attributes]] = {
    "L2R_LR": (LogisticRegression, {"penalty": "l2"}),
    "L2R_L2LOSS_SVC_DUAL": (LinearSVC, {"loss": "squared_hinge"}),
    "L2R_L2LOSS_SVC": (LinearSVC, {"loss": "squared_hinge"}),
    "L2R_L1LOSS_SVC_DUAL": (LinearSVC, {"loss": "hinge"}),
    "MCSVM_CS": (LinearSVC, {"multi_class": "crammer_singer"}),
    "L1R_L2LOSS_SVC": (LinearSVC, {"loss": "squared_hinge", "penalty": "l1"}),
    "L1R_LR": (LogisticRegression, {"penalty": "l1"}),
    "L2R_LR_DUAL": (LogisticRegression, {"penalty": "l2"}),
    "L2R_L2LOSS_SVR": (LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    "L2R_L2LOSS_SVR_DUAL": (LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    "L2R_L1LOSS_SVR_DUAL": (LinearSVR, {"loss": "epsilon_insensitive"}),
    ONE_CLASS: (LinearOneClassSVM, {}),
}
"""The estimator that minimises the same objective, and its parameters, by the name of a solver in the text."""


def is_libsvm_text(path: str | Path) -> bool:
    """Return whether a file begins as the text of a model of LIBSVM or LIBLINEAR."""
    return begins_with(path, _LIBSVM) or begins_with(path, _LIBLINEAR)


def is_linear(model: BaseEstimator) -> bool:
    """Return whether a model has a weight for each feature."""
    return isinstance(model, LinearModel) and not isinstance(model, LandmarkEstimator)


def save_libsvm(model: BaseEstimator, path: str | Path) -> None:
    """Write a fitted model as text that LIBSVM's `svm-predict`, or LIBLINEAR's `predict`, reads.

    A kernel machine becomes the text of a LIBSVM model, a linear one that of a LIBLINEAR model. All numbers are exact:
    the programs compute the same decision values, where fastsvm computes in float64. It computes in float32 if that
    is exact to within `tol`, and it standardises samples of at most float32 in float32. The first feature has the
    index 1, or 0 in the text for LIBSVM if the model was fitted to svmlight text in which it has the index 0. The write
    is atomic.

    Parameters
    ----------
    model : estimator
        A fitted kernel machine, linear machine, `LogisticRegression`, `SGDClassifier` or `SGDRegressor`. Its kernel is
        "linear", "poly", "rbf", "sigmoid" or "precomputed", its labels are whole numbers. LIBLINEAR has fewer losses:
        the text of another one names a solver that predicts the same classes or numbers. The text takes samples as they
        are, so that with `standardize=True` the kernel must be linear.
    path : str or Path
        The file to write. An existing file is replaced.

    Raises
    ------
    TypeError
        If the model is not such an estimator.
    NotFittedError
        If it is not fitted.
    ValueError
        If LIBSVM has no such kernel or labels, or if samples must be standardised for it.

    Examples
    --------
    >>> import os, pathlib, tempfile
    >>> import fastsvm
    >>> model = fastsvm.SVC(kernel="linear").fit([[0.0], [2.0]], [0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "a.libsvm")
    >>> fastsvm.save_libsvm(model, path)
    >>> print(pathlib.Path(path).read_text())
    svm_type c_svc
    kernel_type linear
    nr_class 2
    total_sv 2
    rho -1.0
    label 0 1
    nr_sv 1 1
    SV
    0.5
    -0.5 1:2.0
    """
    model = view_of(model)  # another thread may fit it
    if not is_linear(model) and type(model) not in MACHINES.values():
        raise TypeError(f"LIBSVM and LIBLINEAR have no text for a {type(model).__name__}.")
    check_is_fitted(model)
    first_index = 0 if origin_of(model).first_index == 0 else 1
    if not is_linear(model):
        write_libsvm_text(path, model, first_index)
        return
    if first_index == 0:
        warnings.warn(
            f"The first feature has the index 1 in {path}, because LIBLINEAR knows no index 0. In the text of the fit "
            "it has the index 0: the indices of samples to predict must be one more there.",
            UserWarning,
            stacklevel=2,
        )
    _write_linear(path, model)


def load_libsvm(path: str | Path, *, n_features: int | None = None, first_index: int | None = None) -> Any:
    """Read a model that LIBSVM's `svm-train` or LIBLINEAR's `train` wrote.

    The model predicts, can be saved and written again. Of its parameters only the kernel, or the loss, is known; the
    others have their defaults. How the fit went is not known either: `stop_reason_` is "imported", and there are no
    `objective_`, `duality_gap_`, `kkt_violation_`, `converged_`, `n_iter_` and `history_`. Decision values are those of
    the text in float64. Classes are sorted, so that votes of several classes that tie may elect another of these
    classes than in LIBSVM, whose order is that of the samples.

    Damaged text is refused with the number of the line. Memory is bounded by the size of the file.

    Parameters
    ----------
    path : str or Path
        The file.
    n_features : int or None, default=None
        Number of features of the samples to predict, at least as many as the text has. LIBSVM's text does not say how
        many there were: None is the largest index of a support vector. For a precomputed kernel, the number of samples
        of the fit.
    first_index : {0, 1} or None, default=None
        The index of the first feature. None is 0 if an index of the text is 0, else 1. It is always 1 for LIBLINEAR.

    Returns
    -------
    estimator
        Fitted: SVC for c_svc, NuSVC, SVR, NuSVR or OneClassSVM for LIBSVM's others, LinearSVC, LinearSVR,
        LinearOneClassSVM or LogisticRegression with the loss and penalty of LIBLINEAR's solver.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not such a text, is damaged, or there is no estimator for it.

    Warns
    -----
    UserWarning
        If the text has parameters of probabilities, which the estimators do not have.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastsvm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.model")
    >>> lines = ["solver_type L2R_L1LOSS_SVC_DUAL", "nr_class 2", "label 1 -1", "nr_feature 2", "bias -1", "w", ".5", 2]
    >>> with open(path, "w") as file:
    ...     print(*lines, sep=chr(10), file=file)
    >>> model = fastsvm.load_libsvm(path)
    >>> model, model.coef_, model.predict([[1.0, -1.0]])
    (LinearSVC(fit_intercept=False, loss='hinge'), array([[0.5, 2. ]]), array([-1]))
    """
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1. Got {n_features!r} instead.")
    if first_index not in (None, 0, 1):
        raise ValueError(f"first_index must be 0, 1 or None. Got {first_index!r} instead.")
    try:
        if begins_with(path, _LIBLINEAR):
            if first_index == 0:
                raise ValueError("first_index=0, but the first feature of LIBLINEAR has the index 1")
            return _read_linear(path, n_features)
        return read_libsvm_text(path, n_features, first_index)
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} cannot be read: {error}.") from error


# --- linear machines -------------------------------------------------------------------------------------


def _read_linear(path: str | Path, n_features: int | None) -> BaseEstimator:
    """Return the estimator of the text of LIBLINEAR. Memory is at most some thirty times that of the file."""
    lines = TextLines(path, "the text of a LIBLINEAR model")
    readers: ValueReaders = {
        "solver_type": lambda words: lines.choice(words, tuple(SOLVERS)),
        "label": lambda words: lines.whole(words[1:]),
        **dict.fromkeys(("nr_class", "nr_feature"), lines.count),
        **dict.fromkeys(("bias", "rho"), lines.number_of),
    }
    header = lines.header(readers, "w", "the weights")
    n_classes = _checked(lines, header)
    name, d, bias = header["solver_type"], header["nr_feature"], header["bias"]
    (kind, parameters), n_scores = SOLVERS[name], n_classes if n_classes > 2 or name == "MCSVM_CS" else 1
    rows = lines.table(d + (bias >= 0), n_scores, "nr_feature and bias ask for {} lines of weights")
    weights = np.array(list(map(lines.numbers, rows))).reshape(-1, n_scores)
    intercept = np.zeros(n_scores) if bias < 0 else bias * weights[d]
    if n_features is not None and n_features < d:
        raise ValueError(f"n_features={n_features}, but the text has {d}; leave it out or raise it")
    coef = np.pad(weights[:d], ((0, max(0, (n_features or d) - d)), (0, 0))).T
    if coef.shape[1] == 0:
        raise ValueError("it has no features")
    classes = None
    if name == ONE_CLASS:
        intercept = intercept - header["rho"]
    if issubclass(kind, ClassifierMixin):
        order = np.argsort(header["label"])
        classes = header["label"][order]
        if n_scores > 1:
            coef, intercept = coef[order], intercept[order]
        elif order[0] == 0:  # the score is that of the first class
            coef, intercept = -coef, -intercept
        if n_scores == len(classes) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
    of_bias = {"fit_intercept": bias > 0} | ({"intercept_scaling": bias} if bias > 0 else {})
    defaults = kind().get_params()
    parameters = parameters | {name: value for name, value in of_bias.items() if name in defaults}
    model = linear_model(kind, parameters, coef, intercept + 0.0, classes)
    model._origin = Origin(1, sure=True)
    return model


def _checked(lines: TextLines, header: Header) -> int:
    """Return the number of classes, 2 for machines without. The labels must be as many, and different."""
    lines.require(header, ["solver_type", "nr_class", "nr_feature", "bias"])
    name, n_classes = header["solver_type"], header["nr_class"]
    if not issubclass(SOLVERS[name][0], ClassifierMixin):
        lines.require(header, ["rho"] if name == ONE_CLASS else [])
        return 2
    lines.require(header, ["label"])
    if n_classes < 2:
        raise lines.error(f"nr_class is {n_classes}, but must be 2 at least", "nr_class")
    if len(header["label"]) != n_classes or len(np.unique(header["label"])) < n_classes:
        problem = f"{n_classes} classes ask for as many different labels, found {header['label'].tolist()}"
        raise lines.error(problem, "label")
    return n_classes


def _write_linear(path: str | Path, model: BaseEstimator) -> None:
    """Write the text of a fitted linear machine, atomically; labels that are not whole numbers raise ValueError."""
    coef, intercept, classes = dense_coef(model), np.atleast_1d(model.intercept_), getattr(model, "classes_", None)
    name = _solver_of(model)
    head: dict[str, object] = {"solver_type": name, "nr_class": 2 if classes is None else len(classes)}
    if classes is not None:
        labels = whole_labels(classes, "LIBLINEAR")
        if len(classes) == 2 and name == "MCSVM_CS":  # which has a score for each
            coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
        elif len(classes) == 2:  # the score stands for the first class of the text
            labels = labels[::-1]
        head["label"] = " ".join(map(str, labels))
    has_bias = name != ONE_CLASS and bool(intercept.any())
    head |= {"nr_feature": coef.shape[1], "bias": 1.0 if has_bias else -1.0}
    if name == ONE_CLASS:
        head["rho"] = repr(float(model.offset_[0]))
    with atomic_write(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(f"{key} {value}\n" for key, value in head.items())
        file.write("w\n")
        for row in coef.T.tolist() + ([intercept.tolist()] if has_bias else []):
            file.write(" ".join(map(repr, row)) + " \n")


def _solver_of(model: BaseEstimator) -> str:
    """Return the solver whose text predicts the same; where there are several, the one with the same objective."""
    if isinstance(model, LogisticRegression):
        return "L1R_LR" if model._has_l1_penalty() else "L2R_LR"
    if isinstance(model, LinearOneClassSVM):
        return ONE_CLASS
    loss = model.loss if isinstance(model.loss, str) else ""
    if not hasattr(model, "classes_"):
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
