"""Models as the text of LIBSVM and LIBLINEAR."""

import warnings
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fastsvm.estimators.fitting.session import view_of
from fastsvm.estimators.fitting.validation import origin_of
from fastsvm.estimators.linear.prediction import LinearModel
from fastsvm.estimators.nystroem.landmarks import LandmarkEstimator
from fastsvm.exchange.liblinear import (
    liblinear_text_of,
    model_of_liblinear_text,
    read_liblinear_text,
    write_liblinear_text,
)
from fastsvm.exchange.libsvm import MACHINES, libsvm_text_of, model_of_libsvm_text, read_libsvm_text, write_libsvm_text
from fastsvm.exchange.text_lines import begins_with
from fastsvm.sources import Origin

_LIBSVM, _LIBLINEAR = b"svm_type", b"solver_type"


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
    if not is_linear(model) and type(model) not in [each.estimator for each in MACHINES]:
        raise TypeError(f"LIBSVM and LIBLINEAR have no text for a {type(model).__name__}.")
    check_is_fitted(model)
    first_index = 0 if origin_of(model).first_index == 0 else 1
    if not is_linear(model):
        write_libsvm_text(path, libsvm_text_of(model, first_index))
        return
    if first_index == 0:
        warnings.warn(
            f"The first feature has the index 1 in {path}, because LIBLINEAR knows no index 0. In the text of the fit "
            "it has the index 0: the indices of samples to predict must be one more there.",
            UserWarning,
            stacklevel=2,
        )
    write_liblinear_text(path, liblinear_text_of(model))


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
            linear = model_of_liblinear_text(read_liblinear_text(path), n_features)
            linear._origin = Origin(1, sure=True)
            return linear
        text = read_libsvm_text(path)
        model = model_of_libsvm_text(text, n_features, first_index)
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} cannot be read: {error}.") from error
    if text.probabilities:
        warnings.warn(
            f"{path} has parameters of probabilities, which are left out: {type(model).__name__} has decision values "
            "and no probabilities. sklearn.calibration.CalibratedClassifierCV computes them.",
            UserWarning,
            stacklevel=2,
        )
    return model
