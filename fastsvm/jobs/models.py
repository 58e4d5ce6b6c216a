"""Models that commands take, files of fastsvm and the text of LIBSVM and LIBLINEAR: opened, described, converted and
compressed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm._compiled.compilations import stopwatch
from fastsvm.compression import compress
from fastsvm.displays._samples import names_of
from fastsvm.estimators.fitting.validation import Column, origin_of
from fastsvm.estimators.kernel.kernel_parameter import is_precomputed
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.exchange.model_text import is_libsvm_text, is_linear, load_libsvm, save_libsvm
from fastsvm.jobs.inputs import Expected, Json, as_hdf5, listed, open_data
from fastsvm.memory import parse_memory
from fastsvm.messages import say
from fastsvm.persistence.model_file import is_model_file, load, save
from fastsvm.sources import Data, Source
from fastsvm.sources.hdf5 import reading
from fastsvm.tuning import current_tuning

CERTIFICATE = ("objective", "duality_gap", "kkt_violation", "converged", "stop_reason")  # a model has some of these
_BY_FEATURE = ("support_vectors_", "components_", "_centre", "_shift", "_scale")


def load_model(path: str | Path) -> BaseEstimator:
    """Read a model; FileNotFoundError or ValueError says that there is none, or that it is not a model or damaged."""
    return load_libsvm(path) if is_libsvm_text(path) else load(path)


@contextmanager
def opened(
    model_path: str | Path, path: str | Path, options: Json | None, output: str | Path | None = None
) -> Iterator[tuple[BaseEstimator, Data]]:
    """Yield the model and the samples to predict; other formats are converted, in the order of the file."""
    model = load_model(model_path)
    expected = Expected.by(model, is_libsvm_text(model_path))
    with as_hdf5(path, options, expected, beside=output, shuffle=False) as file, open_data(file) as data:
        if len(data) == 0:
            raise ValueError(f"{path} has no samples.")
        yield fitting_model(model, model_path, data.X), data


def fitting_model(model: BaseEstimator, path: str | Path, rows: Source) -> BaseEstimator:
    """Return a model for svmlight rows of more features, which are 0 in its support vectors; others as they are."""
    fit, is_text = origin_of(model), is_libsvm_text(path)
    is_shifted = is_text and rows.origin.first_index == 0 and fit.first_index == 1 and not fit.sure  # a feature more
    n_known = model.n_features_in_ + is_shifted
    rows.widen(n_known)
    n = max(rows.shape[1], n_known)
    if is_text:
        of_text = {"n_features": n, "first_index": 0 if is_shifted else None}
        return model if n == model.n_features_in_ else load_libsvm(path, **of_text)
    model = getattr(model, "best_estimator_", model)
    n_more = n - n_known
    if n_more == 0 or rows.origin.first_index is None or (isinstance(model, KernelMachine) and is_precomputed(model)):
        return model
    say(
        f"note: the model does not know the last {n_more:,} of {n:,} features: they count as 0 in the rows that it "
        "learned from."
    )
    return _widened(model, n)


def _widened(model: BaseEstimator, n_features: int) -> BaseEstimator:
    """Return a copy of a model for more features, which were 0 in the fit."""
    widened, more = copy(model), n_features - model.n_features_in_
    names = (*_BY_FEATURE, *(("coef_",) if is_linear(model) else ()))
    arrays = {name: vars(model)[name] for name in names if vars(model).get(name) is not None}
    n_values = sum(array.size for array in arrays.values() if not sparse.issparse(array))
    needed, available = 8 * n_values // model.n_features_in_ * n_features, parse_memory("auto")
    if needed > available:
        raise ValueError(
            f"The rows have {n_features:,} features. A model of so many takes {needed:,} bytes, and {available:,} are "
            f"available. It knows {model.n_features_in_:,} features: remove the others from the rows."
        )
    for name, values in arrays.items():
        if sparse.issparse(values):
            parts = (values.data, values.indices, values.indptr)
            setattr(widened, name, type(values)(parts, shape=(values.shape[0], n_features)))
        else:
            width = [(0, 0)] * (values.ndim - 1) + [(0, more)]
            setattr(widened, name, np.pad(values, width, constant_values=int(name == "_scale")))
    widened.n_features_in_ = n_features
    if hasattr(model, "shape_fit_"):
        widened.shape_fit_ = (model.shape_fit_[0], n_features)
    if hasattr(model, "estimator_"):
        widened.estimator_ = _widened(model.estimator_, n_features)
    return widened


def convert_model(
    source: str | Path, destination: str | Path, n_features: int | None = None, first_index: int | None = None
) -> Json:
    """Write the text of a model of fastsvm, or a model of fastsvm from text."""
    is_text = is_libsvm_text(source)
    if (n_features, first_index) != (None, None) and not is_text:
        raise ValueError(f"{source} knows the number and the index of its features; only the text of a model does not.")
    model = load_libsvm(source, n_features=n_features, first_index=first_index) if is_text else load(source)
    model = getattr(model, "best_estimator_", model)
    (save if is_text else save_libsvm)(model, destination)
    return {"file": str(destination), "estimator": type(model).__name__, "n_features": model.n_features_in_}


def compress_model(
    model_path: str | Path,
    path: str | Path,
    output: str | Path,
    options: Json | None = None,
    *,
    refit: bool = False,
    **parameters: Column,
) -> Json:
    """Write a model with fewer support vectors, by the rows and, to `refit`, the labels of a file; return a report."""
    spent = stopwatch()
    with opened(model_path, path, options) as (model, data):
        model = getattr(model, "best_estimator_", model)
        if refit and data.y is None:
            raise ValueError(f"{path} has no labels, which --refit needs.")
        compression = compress(model, data.X, y=data.y if refit else None, **parameters)
    if compression.n_support == len(model.support_):
        say("note: nothing is gained: as many support vectors are needed. Pass a larger --tol, or --n-support.")
    save(compression.model, output)
    return {
        "output": str(output),
        "n_support_before": len(model.support_),
        "n_support": compression.n_support,
        "max_difference": compression.max_difference,
        "rms_difference": compression.rms_difference,
        **spent(),
    }


# --- descriptions ------------------------------------------------------------------------------------------------


def describe(path: str | Path, options: Json | None = None) -> Json:
    """Describe a data set by its shape and classes, or a model by its parameters and certificate."""
    if is_model_file(path) or is_libsvm_text(path):
        return {"file": str(path), "kind": "model", **_of_model(load_model(path))}
    with as_hdf5(path, options, shuffle=False) as file, open_data(file) as data, reading(file):
        return {"file": str(path), "kind": "data set", **_of_data(data)}


def _of_data(data: Data) -> Json:
    words: Json = {
        "n_samples": data.shape[0],
        "n_features": data.shape[1],
        "storage": data.X.form,
        "dtype": str(data.X.dtype),
        "megabytes": data.X.nbytes / 1e6,
        "chunks": getattr(getattr(data.X, "node", None), "chunks", None),
        "labels": None if data.y is None else str(data.y.dtype),
        "sample_weight": data.sample_weight is not None,
        "feature_names": None if data.feature_names is None else listed(data.feature_names),
        "first_index": data.X.origin.first_index,
    }
    if data.y is not None:
        labels, counts = np.unique(data.y, return_counts=True)
        words["n_classes"] = len(labels)
        if len(labels) <= current_tuning().jobs.counted_classes:
            words["class_counts"] = dict(zip(names_of(labels, None, data), counts.tolist(), strict=True))
    return words


def _of_model(model: BaseEstimator) -> Json:
    fitted = vars(getattr(model, "estimator_", model))
    return {
        "estimator": type(model).__name__,
        "parameters": model.get_params(),
        "n_features": model.n_features_in_,
        "feature_names": listed(fitted["feature_names_in_"]) if "feature_names_in_" in fitted else None,
        "first_index": origin_of(model).first_index,
        "classes": fitted["classes_"].tolist() if "classes_" in fitted else None,
        "n_support": len(fitted["support_"]) if "support_" in fitted else None,
        **{name: fitted.get(f"{name}_") for name in CERTIFICATE},
    }
