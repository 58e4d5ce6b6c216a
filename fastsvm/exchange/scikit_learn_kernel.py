"""Kernel machines as estimators of scikit-learn, and the other way.

scikit-learn's estimators keep LIBSVM's signs beside those of their public attributes, and for a kernel that is a
function all samples of the fit. Here these are the support vectors.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import svm
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fastsvm.estimators import ESTIMATORS
from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.exchange.imported import KernelParts, kernel_model
from fastsvm.exchange.libsvm import MACHINES, layout_of
from fastsvm.exchange.scikit_learn_parts import scaler_of, shared_parameters, unscaled
from fastsvm.kernels import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid, is_kernel
from fastsvm.sources import MemorySource

__all__ = ["TWINS", "from_sklearn", "name_of", "to_sklearn"]

_OURS = {kind.__name__: kind for kind in ESTIMATORS.values()}
TWINS = {
    each.estimator: (_OURS[each.estimator], getattr(svm, each.estimator))
    for each in MACHINES
    if each.estimator in _OURS
}
"""Estimators of both packages, by name."""
_NAMES = {Linear: "linear", Polynomial: "poly", RBF: "rbf", Sigmoid: "sigmoid"}
_SAMPLES = "_BaseLibSVM__Xfit"  # the samples of a fit with a kernel that is a function


def name_of(model: Any) -> str | None:
    """Return the name of an estimator of scikit-learn that has a twin."""
    return next((name for name, (_, theirs) in TWINS.items() if type(model) is theirs), None)


# --- to scikit-learn -------------------------------------------------------------------------------------


def to_sklearn(model: Any) -> Any:
    """Return the estimator of scikit-learn, or its pipeline with a scaler."""
    kind: Any = TWINS[type(model).__name__][1]
    kernel, parameters = _kernel_for_sklearn(model)
    given = shared_parameters(model, kind) | parameters
    found = kind(kernel=kernel, **given)
    map_ = Standardization.of_model(model)
    vars(found).update(_attributes(model, kernel, map_))
    if map_ is None:
        if hasattr(model, "feature_names_in_"):
            found.feature_names_in_ = model.feature_names_in_
        return found
    scaler = scaler_of(map_)
    if hasattr(model, "feature_names_in_"):
        scaler.feature_names_in_ = model.feature_names_in_
    return make_pipeline(scaler, found)


def _kernel_for_sklearn(model: Any) -> tuple[Any, dict[str, float]]:
    """Return the kernel as a name or a function, and its parameters if it is an object."""
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel is None:
        return "precomputed", {}
    if not is_kernel(kernel):
        return kernel, {}
    if type(kernel) in _NAMES:
        return _NAMES[type(kernel)], {} if isinstance(model.kernel, str) else kernel._asdict()
    if isinstance(kernel, Laplacian):
        return partial(laplacian_kernel, gamma=kernel.gamma), {}
    if isinstance(kernel, Exponential) and kernel.gamma > 0:
        return Matern(length_scale=1 / kernel.gamma, nu=0.5), {}
    raise ValueError(f"scikit-learn cannot evaluate the kernel {kernel!r}.")


def _attributes(model: Any, kernel: Any, map_: Standardization | None) -> dict[str, Any]:
    """Return the fitted attributes of scikit-learn's estimator, with the private ones that it predicts by."""
    vectors: Any = model.support_vectors_
    if map_ is not None:
        vectors = map_.apply(MemorySource.of(vectors), np.float64).in_memory().block.user_array()
    layout = layout_of(model)
    if len(layout.rows) > len(model.support_):
        vectors = _safe_indexing(vectors, layout.rows)
    is_function = callable(kernel)
    if isinstance(kernel, Matern) and sparse.issparse(vectors):  # which takes dense samples only
        vectors = vectors.toarray()
    support, shape = np.asarray(model.support_, np.int32)[layout.rows], model.shape_fit_
    samples = {}
    if is_function:
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
    found = {
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
    for name in ("classes_", "class_weight_", "n_iter_", "offset_"):
        if hasattr(model, name):
            found[name] = getattr(model, name)
    return found | samples


def _whole_rows(coef: np.ndarray) -> sparse.csr_matrix:
    """Return a sparse matrix that stores its zeros, of which scikit-learn reads the values alone."""
    n_rows, n = coef.shape
    indices, indptr = np.tile(np.arange(n, dtype=np.int32), n_rows), np.arange(n_rows + 1, dtype=np.int32) * n
    return sparse.csr_matrix((coef.ravel(), indices, indptr), shape=coef.shape)


# --- from scikit-learn -----------------------------------------------------------------------------------


def from_sklearn(name: str, model: Any, map_: Standardization | None) -> Any:
    """Return the estimator of fastsvm; samples are standardised by a map, or not."""
    kind = TWINS[name][0]
    kernel, parameters = _kernel_from_sklearn(model.kernel)
    parameters = shared_parameters(model, kind) | parameters | {"kernel": kernel}
    if map_ is not None:
        parameters["standardize"] = True
    if getattr(model, "_probA", np.empty(0)).size:
        warnings.warn(
            "The parameters of probabilities are left out. sklearn.calibration.CalibratedClassifierCV computes them.",
            UserWarning,
            stacklevel=4,
        )
    vectors, shape = model.support_vectors_, tuple(model.shape_fit_)
    if callable(model.kernel):
        samples = getattr(model, _SAMPLES)
        vectors = _safe_indexing(samples, model.support_)
        shape = (_num_samples(samples), vectors.shape[1] if getattr(vectors, "ndim", 1) == 2 else 1)
    if map_ is not None:
        vectors = unscaled(vectors, map_)
    classes = getattr(model, "classes_", None)
    parts = KernelParts(
        dual_coef=model.dual_coef_,
        intercept=model.intercept_,
        n_support=model.n_support_,
        support_vectors=sparse.csr_matrix(vectors) if sparse.issparse(vectors) else vectors,
        support=model.support_,
        shape_fit=shape,
        gamma=parameters["gamma"] if parameters["kernel"] in ("laplacian", "exponential") else float(model._gamma),
        classes=classes,
        standardization=map_,
    )
    known = {name: getattr(model, name) for name in ("class_weight_", "fit_status_", "offset_") if hasattr(model, name)}
    return kernel_model(kind, parameters, parts, **known)


def _kernel_from_sklearn(kernel: Any) -> tuple[Any, dict[str, float]]:
    """Return the name of a kernel, or the function, and its parameters if it was a function that has a name here."""
    if isinstance(kernel, partial) and kernel.func is laplacian_kernel and set(kernel.keywords) == {"gamma"}:
        return "laplacian", {"gamma": kernel.keywords["gamma"]}
    if isinstance(kernel, Matern) and kernel.nu == 0.5 and np.ndim(kernel.length_scale) == 0:
        return "exponential", {"gamma": 1 / kernel.length_scale}
    return kernel, {}
