"""Models that commands take: files of fastsvm, and the text of LIBSVM and LIBLINEAR."""

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastsvm.estimators import SVCSearch
from fastsvm.estimators.fitting.validation import origin_of
from fastsvm.estimators.kernel.kernel_parameter import is_precomputed
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.exchange.model_text import is_libsvm_text, is_linear, load_libsvm, save_libsvm
from fastsvm.jobs.say import say
from fastsvm.memory import parse_memory
from fastsvm.persistence.model_file import is_model_file, load, save
from fastsvm.sources import Source
from fastsvm.sources.hdf5 import HDF5CSRSource

__all__ = ["convert_model", "fitting_model", "is_model", "load_model"]

_BY_FEATURE = ("support_vectors_", "components_", "_centre", "_shift", "_scale")


def is_model(path: str | Path) -> bool:
    """Return whether a file begins like a model."""
    return is_model_file(path) or is_libsvm_text(path)


def load_model(path: str | Path) -> Any:
    """Read a model.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is not a model or damaged.
    """
    return load_libsvm(path) if is_libsvm_text(path) else load(path)


def fitting_model(model: Any, path: str | Path, rows: Source) -> Any:
    """Return a model for rows of svmlight text that have more features than it; other models as they are.

    A feature that no row of the training had was 0 in all. So it is 0 in the support vectors, as in LIBSVM: it has no
    weight, but counts in distances. Rows of such text that have fewer features get the rest, which is 0.
    """
    fit, is_text = origin_of(model), is_libsvm_text(path)
    is_shifted = is_text and rows.origin.first_index == 0 and fit.first_index == 1 and not fit.sure  # a feature more
    known = model.n_features_in_ + is_shifted
    if isinstance(rows, HDF5CSRSource) and rows.origin.first_index is not None:
        rows.widen(known)
    n = max(rows.shape[1], known)
    if is_text:
        given = {"n_features": n, "first_index": 0 if is_shifted else None}
        return model if n == model.n_features_in_ else load_libsvm(path, **given)
    model = getattr(model, "best_estimator_", model)
    n_more = n - known
    if n_more == 0 or rows.origin.first_index is None or (isinstance(model, KernelMachine) and is_precomputed(model)):
        return model
    say(
        f"note: the model does not know the last {n_more:,} of {n:,} features: they count as 0 in the rows that it "
        "learned from."
    )
    return _widened(model, n)


def _widened(model: Any, n_features: int) -> Any:
    """Return a copy of a model for more features, which were 0 in the fit."""
    found, more = copy(model), n_features - model.n_features_in_
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
            setattr(found, name, type(values)(parts, shape=(values.shape[0], n_features)))
        else:
            width = [(0, 0)] * (values.ndim - 1) + [(0, more)]
            setattr(found, name, np.pad(values, width, constant_values=int(name == "_scale")))
    found.n_features_in_ = n_features
    if hasattr(model, "shape_fit_"):
        found.shape_fit_ = (model.shape_fit_[0], n_features)
    if hasattr(model, "exact_machine_"):
        found.exact_machine_ = _widened(model.exact_machine_, n_features)
    return found


def convert_model(
    source: str | Path,
    destination: str | Path,
    range_path: str | Path | None = None,
    n_features: int | None = None,
    first_index: int | None = None,
) -> dict[str, Any]:
    """Write the text of a model of fastsvm, or a model of fastsvm from text.

    Parameters
    ----------
    source, destination : str or Path
        The file to read and the file to write.
    range_path : str or Path or None
        Range file to write, as for `save_libsvm`.
    n_features, first_index : int or None
        Number of features, and index of the first one, as for `load_libsvm`.

    Returns
    -------
    dict
        Values for JSON, by name.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If there is no such file, or the model cannot be read or written.
    """
    is_text = is_libsvm_text(source)
    if is_text and range_path is not None:
        raise ValueError(f"A range file is written for a model of fastsvm with standardize=True; {source} is text.")
    if (n_features, first_index) != (None, None) and not is_text:
        raise ValueError(f"{source} knows the number and the index of its features; only the text of a model does not.")
    model = load_libsvm(source, n_features=n_features, first_index=first_index) if is_text else load(source)
    if isinstance(model, SVCSearch):
        model = model.best_estimator_
    if is_text:
        save(model, destination)
    else:
        save_libsvm(model, destination, range_path=range_path)
    written = {} if range_path is None else {"range": str(range_path)}
    return {"file": str(destination), "estimator": type(model).__name__, "n_features": model.n_features_in_, **written}
