"""Models as estimators of scikit-learn, and the other way.

scikit-learn's kernel machines keep LIBSVM's signs beside those of their public attributes, and for a kernel that is a
function all samples of the fit. Here these are the support vectors.

Its `Nystroem` multiplies kernel values by a matrix. It is the identity here, so that the linear machine after it has
the coefficients of the landmarks. A machine of pairs of classes is an `SVC` whose support vectors are the landmarks,
because scikit-learn's linear machines do not vote.
"""

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn import svm
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from fastsvm.estimators import registry as ours
from fastsvm.estimators.fitting.session import view_of
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import Standardization, resolve_kernel
from fastsvm.estimators.linear.prediction import dense_coef, for_rows_as_passed
from fastsvm.estimators.linear.training_task import loss_of
from fastsvm.estimators.search.calibration import CalibratedClassifier
from fastsvm.estimators.search.svc_search import SVCSearch
from fastsvm.exchange.imported import KernelParts, Samples, kernel_model, linear_model, standardized
from fastsvm.exchange.libsvm import MACHINES, layout_of
from fastsvm.kernels import Exponential, Laplacian, is_kernel, kernel_name
from fastsvm.sources import to_dense

Twins: TypeAlias = dict[type[BaseEstimator], type[BaseEstimator]]
"""Estimators of scikit-learn by those here."""
_NOT_SHARED = ("kernel", "probability", "memory", "cache_size")  # a cache has other defaults here
_LINEAR_TWINS: Twins = {
    ours.LinearSVC: svm.LinearSVC,
    ours.LinearSVR: svm.LinearSVR,
    ours.LinearOneClassSVM: theirs.SGDOneClassSVM,
    ours.LogisticRegression: theirs.LogisticRegression,
    ours.SGDClassifier: theirs.SGDClassifier,
    ours.SGDRegressor: theirs.SGDRegressor,
}
"""Linear machines of scikit-learn."""
_RATES = ("constant", "optimal", "invscaling", "adaptive")  # of both
_KERNEL_TWINS: Twins = {kind: getattr(svm, kind.__name__) for kind in MACHINES.values()}
"""Kernel machines of scikit-learn."""
_NAMED = ("linear", "poly", "rbf", "sigmoid")
"""Kernels that the machines of scikit-learn have under the same names."""
_SAMPLES = "_BaseLibSVM__Xfit"  # the samples of a fit with a kernel that is a function

_LANDMARK_TWINS: Twins = {ours.NystroemSVC: svm.LinearSVC, ours.NystroemSVR: svm.LinearSVR}
"""The last steps of the pipelines that take the place of machines of landmarks."""
_OF_FEATURES = ("linear", "poly", "rbf", "laplacian")
"""Kernels that scikit-learn's `Nystroem` has under the same names."""


def to_sklearn(model: BaseEstimator) -> Any:
    """Return a fitted estimator of scikit-learn that predicts the same and does not need fastsvm.

    It has no part of fastsvm, so that it can be pickled, or converted to ONNX or skops, for machines where fastsvm is
    not installed. Numbers are not rounded; of more than some 2,000 support vectors, predictions of fastsvm may differ
    from its by `tol`, since scikit-learn computes kernel values in float64. Support vectors of an `OneClassSVM` on the
    boundary are inliers; scikit-learn's rounding makes outliers of some.

    Parameters
    ----------
    model : a kernel or linear machine, NystroemSVC or -SVR, LogisticRegression, an SGD estimator, CalibratedClassifier
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
        `SGDOneClassSVM`. `CalibratedClassifier` becomes `CalibratedClassifierCV` of a frozen estimator.

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
    if isinstance(model, CalibratedClassifier):
        return _calibrated_to_sklearn(model)
    kind, converters = type(model), dict.fromkeys(_KERNEL_TWINS, _kernel_to_sklearn)
    converters |= dict.fromkeys(_LINEAR_TWINS, _linear_to_sklearn)
    converters |= dict.fromkeys(_LANDMARK_TWINS, _landmarks_to_sklearn)
    if kind not in converters:
        names = ", ".join(each.__name__ for each in (*converters, CalibratedClassifier))
        raise TypeError(f"Estimators of fastsvm can be converted: {names}. Found {kind.__module__}.{kind.__name__}.")
    check_is_fitted(model)
    return converters[kind](model)


def _calibrated_to_sklearn(model: CalibratedClassifier) -> CalibratedClassifierCV:
    """Return the classifier of scikit-learn with the same calibrators."""
    check_is_fitted(model)
    machine, converted = to_sklearn(model.estimator_), deepcopy(model._calibration.calibrated)
    converted.estimator, converted.classes_ = FrozenEstimator(machine), model.classes_
    (pair,) = converted.calibrated_classifiers_
    pair.estimator, pair.classes = machine, model.classes_
    vars(converted).update(_present(model, "n_features_in_", "feature_names_in_"))
    return converted


def from_sklearn(model: BaseEstimator) -> Any:
    """Return a fitted estimator of fastsvm that predicts as one of scikit-learn does.

    How the fit went is not known: `stop_reason_` is "imported", and there are no `objective_`, `duality_gap_`,
    `kkt_violation_`, `converged_` and `history_`.

    Parameters
    ----------
    model : a kernel or linear machine, SGDClassifier, SGDRegressor or LogisticRegression of scikit-learn, or Pipeline
        A fitted estimator, or a pipeline of `StandardScaler` and one of these. `LogisticRegression` becomes
        `SGDClassifier` if its solver, unlike "liblinear", does not penalise the intercept. `SGDOneClassSVM` becomes
        `LinearOneClassSVM`.

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
    first, map_ = model, None
    if isinstance(model, Pipeline):
        map_, model = _steps_of(model)
        first = first[0]
    kinds = {twin: kind for kind, twin in (_KERNEL_TWINS | _LINEAR_TWINS).items()}
    if type(model) not in kinds:
        names = ", ".join(kind.__name__ for kind in kinds.values())
        raise TypeError(f"Estimators of scikit-learn can be converted: {names}. Found {type(model).__name__}.")
    check_is_fitted(model)
    kind = kinds[type(model)]
    convert = _kernel_from_sklearn if kind in _KERNEL_TWINS else _linear_from_sklearn
    converted = convert(kind, model, map_)
    vars(converted).update(_present(first, "feature_names_in_"))
    return converted


def _steps_of(pipeline: Pipeline) -> tuple[Standardization, BaseEstimator]:
    """Return the scaler's map and the estimator."""
    steps = [step for _, step in pipeline.steps if step not in (None, "passthrough")]
    if [type(step) for step in steps[:-1]] != [StandardScaler]:
        raise TypeError(f"A pipeline must consist of StandardScaler and an estimator. Found {pipeline}.")
    scaler = steps[0]
    check_is_fitted(scaler)
    scale = np.ones(scaler.n_features_in_) if scaler.scale_ is None else 1 / np.asarray(scaler.scale_, np.float64)
    return Standardization(np.asarray(scaler.mean_, np.float64) if scaler.with_mean else None, scale), steps[1]


# --- linear machines -------------------------------------------------------------------------------------


def _linear_to_sklearn(model: BaseEstimator) -> BaseEstimator:
    """Return the estimator of scikit-learn that has the same scores."""
    kind, parameters = _twin(model)
    is_twin = kind is (_LINEAR_TWINS | _LANDMARK_TWINS)[type(model)]
    shared = _shared_parameters(model, kind) if is_twin else {"fit_intercept": model.fit_intercept}
    converted = kind(**(shared | parameters))
    converted.coef_ = model.coef_.copy()
    if kind is theirs.SGDOneClassSVM:
        converted.offset_ = np.array(model.offset_, np.float64)
    else:
        converted.intercept_ = np.array(model.intercept_, np.float64)
    converted.n_features_in_ = int(model.n_features_in_)
    vars(converted).update(_present(model, "classes_", "feature_names_in_", "n_iter_", "t_"))
    return converted


def _twin(model: BaseEstimator) -> tuple[type[BaseEstimator], Attributes]:
    """Return the class in scikit-learn, and the parameters that differ."""
    kind = (_LINEAR_TWINS | _LANDMARK_TWINS)[type(model)]
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
    if kind is not ours.LogisticRegression:
        parameters = _shared_parameters(model, kind)
        if parameters.get("eta0") == 0:  # the default before scikit-learn 1.8, for rates that do not use it
            del parameters["eta0"]
    elif model.solver == "liblinear":  # which penalises the intercept
        is_l1 = model.penalty == "l1" or model.l1_ratio == 1
        parameters = _shared_parameters(model, kind) | {"penalty": "l1" if is_l1 else "l2", "l1_ratio": 0.0}
    else:
        of_pairs = len(model.classes_) == 2 or getattr(model, "multi_class", "") == "ovr"
        kind = ours.SGDClassifier
        parameters = {"loss": "log_loss" if of_pairs else "softmax", "fit_intercept": model.fit_intercept}
    coef = dense_coef(model)
    intercept = -model.offset_ if kind is ours.LinearOneClassSVM else model.intercept_
    intercept = np.broadcast_to(np.asarray(intercept, np.float64), len(coef))
    if map_ is not None:
        parameters["standardize"] = True
        map_ = map_._replace(shift=np.zeros(coef.shape[1]) if map_.shift is None else map_.shift)
        coef, intercept = for_rows_as_passed(coef, intercept, *map_)
    attributes = {"t_": float(model.t_)} if hasattr(model, "t_") else {}
    return linear_model(kind, parameters, coef, intercept, getattr(model, "classes_", None), map_, **attributes)


# --- kernel machines to scikit-learn ---------------------------------------------------------------------


def _kernel_to_sklearn(model: BaseEstimator) -> BaseEstimator:
    """Return the estimator of scikit-learn, or its pipeline with a scaler."""
    kind = _KERNEL_TWINS[type(model)]
    kernel, parameters = _kernel_for_sklearn(model)
    machine = kind(kernel=kernel, **(_shared_parameters(model, kind) | parameters))
    map_ = Standardization.of_model(model)
    vars(machine).update(_attributes(model, kernel, map_))
    return _after_scaler(model, map_, machine)


def _kernel_for_sklearn(model: BaseEstimator) -> tuple[str | Callable, dict[str, float]]:
    """Return the kernel as a name or a function, and its parameters if it is an object."""
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel is None:
        return "precomputed", {}
    if not is_kernel(kernel):
        return kernel, {}
    name = kernel_name(kernel)
    if name in _NAMED:
        return name, {} if isinstance(model.kernel, str) else kernel._asdict()
    if isinstance(kernel, Laplacian):
        return partial(laplacian_kernel, gamma=kernel.gamma), {}
    if isinstance(kernel, Exponential) and kernel.gamma > 0:
        return Matern(length_scale=1 / kernel.gamma, nu=0.5), {}
    raise ValueError(f"scikit-learn cannot evaluate the kernel {kernel!r}.")


def _attributes(model: BaseEstimator, kernel: str | Callable, map_: Standardization | None) -> Attributes:
    """Return the fitted attributes of scikit-learn's estimator, with the private ones that it predicts by."""
    vectors = standardized(model.support_vectors_, map_)
    layout = layout_of(model)
    if len(layout.rows) > len(model.support_):
        vectors = _safe_indexing(vectors, layout.rows)
    if isinstance(kernel, Matern):  # which takes dense samples only
        vectors = to_dense(vectors)
    support, shape = np.asarray(model.support_, np.int32)[layout.rows], model.shape_fit_
    samples = {}
    if callable(kernel):
        support = np.arange(len(support), dtype=np.int32)
        shape = (len(support), *shape[1:])
        samples[_SAMPLES], vectors = vectors, np.empty((0, 0))
    is_sparse = sparse.issparse(vectors)
    if is_sparse:
        vectors = sparse.csr_matrix(vectors, dtype=np.float64)
        vectors.sort_indices()
    else:
        vectors = np.ascontiguousarray(vectors, np.float64)
    coef = np.ascontiguousarray(layout.coef, np.float64)
    classes, counts = getattr(model, "classes_", None), layout.counts
    sign = -1 if classes is not None and len(classes) == 2 else 1
    whole = _whole_rows if is_sparse else np.ascontiguousarray
    attributes = {
        "support_": support,
        "support_vectors_": vectors,
        "_n_support": counts if classes is not None else counts.repeat(2),
        "dual_coef_": whole(coef),
        "_dual_coef_": whole(sign * coef),
        "intercept_": np.array(model.intercept_, np.float64),
        "_intercept_": sign * np.asarray(model.intercept_, np.float64),
        "_probA": np.empty(0),
        "_probB": np.empty(0),
        "_gamma": float(getattr(resolve_kernel(model, model._gamma), "gamma", model._gamma)),
        "_sparse": is_sparse,
        "_effective_probability": False,
        "fit_status_": int(getattr(model, "fit_status_", 0)),
        "shape_fit_": shape,
        "n_features_in_": int(model.n_features_in_),
    }
    return attributes | _present(model, "classes_", "class_weight_", "n_iter_", "offset_") | samples


def _whole_rows(coef: np.ndarray) -> sparse.csr_matrix:
    """Return a sparse matrix that stores its zeros, of which scikit-learn reads the values alone."""
    n_rows, n = coef.shape
    indices, indptr = np.tile(np.arange(n, dtype=np.int32), n_rows), np.arange(n_rows + 1, dtype=np.int32) * n
    return sparse.csr_matrix((coef.ravel(), indices, indptr), shape=coef.shape)


# --- kernel machines from scikit-learn -------------------------------------------------------------------


def _kernel_from_sklearn(
    kind: type[BaseEstimator], model: BaseEstimator, map_: Standardization | None
) -> BaseEstimator:
    """Return the estimator of the class `kind` here; samples are standardised by a map, or not."""
    kernel, parameters = model.kernel, _shared_parameters(model, kind) | {"kernel": model.kernel}
    if isinstance(kernel, partial) and kernel.func is laplacian_kernel and set(kernel.keywords) == {"gamma"}:
        parameters |= {"kernel": "laplacian", "gamma": kernel.keywords["gamma"]}
    elif isinstance(kernel, Matern) and kernel.nu == 0.5 and np.ndim(kernel.length_scale) == 0:
        parameters |= {"kernel": "exponential", "gamma": 1 / kernel.length_scale}
    if map_ is not None:
        parameters["standardize"] = True
    if getattr(model, "_probA", np.empty(0)).size:
        warnings.warn(
            "The parameters of probabilities are left out. fastsvm.CalibratedClassifier has them.",
            UserWarning,
            stacklevel=3,
        )
    vectors, shape = model.support_vectors_, tuple(model.shape_fit_)
    if callable(kernel):
        samples = getattr(model, _SAMPLES)
        vectors = _safe_indexing(samples, model.support_)
        shape = (_num_samples(samples), vectors.shape[1] if getattr(vectors, "ndim", 1) == 2 else 1)
    parts = KernelParts(
        dual_coef=model.dual_coef_,
        intercept=model.intercept_,
        n_support=model.n_support_,
        support_vectors=_unscaled(vectors, map_),
        support=model.support_,
        shape_fit=shape,
        gamma=parameters["gamma"] if parameters["kernel"] in ("laplacian", "exponential") else float(model._gamma),
        classes=getattr(model, "classes_", None),
        standardization=map_,
    )
    return kernel_model(kind, parameters, parts, **_present(model, "class_weight_", "fit_status_", "offset_"))


# --- machines of landmarks to scikit-learn ---------------------------------------------------------------


def _landmarks_to_sklearn(model: BaseEstimator) -> BaseEstimator:
    """Return the pipeline that has the same scores: of `StandardScaler` if samples are, `Nystroem` and the machine."""
    if hasattr(model, "classes_") and model._learns_pairs(len(model.classes_)):
        return _kernel_to_sklearn(_machine_of_pairs(model))
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel_name(kernel) not in _OF_FEATURES:
        raise ValueError(f"scikit-learn's Nystroem cannot evaluate the kernel {kernel!r}.")
    map_ = Standardization.of_model(model)
    landmarks = standardized(model.components_, map_).astype(np.float64)
    m, n_features = landmarks.shape
    features = Nystroem(kernel=kernel_name(kernel), n_components=m, **kernel._asdict())
    features.components_, features.normalization_, features.n_features_in_ = landmarks, np.eye(m), n_features
    features.component_indices_ = getattr(model, "component_indices_", np.arange(m))
    features._n_features_out = m
    machine, coef = _linear_to_sklearn(model), dense_coef(model).copy()
    machine.coef_, machine.n_features_in_ = coef if hasattr(model, "classes_") else coef[0], m
    vars(machine).pop("feature_names_in_", None)  # the names are those of samples, which the pipeline takes
    return _after_scaler(model, map_, features, machine)


def _machine_of_pairs(model: BaseEstimator) -> ours.SVC:
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
    names = _present(model, "feature_names_in_")
    parameters = _shared_parameters(model, ours.SVC) | {"kernel": model.kernel, "loss": "hinge", "max_iter": -1}
    parameters["fit_intercept"] = True  # without one in the machine, those of the parts are 0
    return kernel_model(ours.SVC, parameters, parts, n_iter_=np.full(len(coef), model.n_iter_), **names)


# --- what estimators of both packages have ---------------------------------------------------------------


def _shared_parameters(model: BaseEstimator, kind: type[BaseEstimator]) -> Attributes:
    """Return the parameters of an estimator that another class has too."""
    defaults = kind().get_params(deep=False)
    passed = model.get_params(deep=False)
    shared = {name: value for name, value in passed.items() if name in defaults and name not in _NOT_SHARED}
    if "verbose" in shared:
        shared["verbose"] = type(defaults["verbose"])(shared["verbose"])  # 0 and False mean the same
    return shared


def _present(model: BaseEstimator, *names: str) -> Attributes:
    """Return those attributes of some names that a model has."""
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _after_scaler(model: BaseEstimator, map_: Standardization | None, *steps: BaseEstimator) -> BaseEstimator:
    """Return the only step, or the pipeline of all, after a scaler that standardises samples if the model does."""
    if map_ is not None:
        scaler = StandardScaler(with_mean=map_.shift is not None)
        scaler.scale_ = 1 / map_.scale
        scaler.mean_, scaler.var_ = map_.shift, scaler.scale_**2
        scaler.n_features_in_ = len(map_.scale)
        steps = scaler, *steps
    vars(steps[0]).update(_present(model, "feature_names_in_"))
    return make_pipeline(*steps) if len(steps) > 1 else steps[0]


def _unscaled(vectors: Samples, map_: Standardization | None) -> Samples:
    """Return samples before they were standardised; a sparse matrix becomes one in CSR."""
    if not sparse.issparse(vectors):
        return vectors if map_ is None else vectors / map_.scale + (0 if map_.shift is None else map_.shift)
    if map_ is None:
        return sparse.csr_matrix(vectors)
    if map_.shift is not None and map_.shift.any():
        raise ValueError("A scaler that centres sparse samples cannot be undone.")
    return sparse.csr_matrix(vectors.multiply(1 / map_.scale))
