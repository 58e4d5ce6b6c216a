"""Models in HDF5 files: arrays and a versioned JSON header, never pickle."""

import json
from numbers import Integral
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import sparse

from fastsvm.atomic_file import written_beside
from fastsvm.estimators import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor
from fastsvm.hdf5_output import hdf5_written
from fastsvm.kernels import KERNELS

__all__ = ["load", "save"]

FORMAT = "fastsvm-model"
VERSION = 1
_PRIVATE = {"_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"}  # beside fitted attributes
_ESTIMATORS = {kind.__name__: kind for kind in (SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor)}


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model to an HDF5 file.

    The file is written beside its destination and renamed, so that an interrupt leaves the old one.

    Parameters
    ----------
    model : SVC, LinearSVC, LinearSVR, SGDClassifier or SGDRegressor
        A fitted estimator, with a built-in or precomputed kernel if any, and class labels that are numbers or strings.
    path : str or Path
        Where to write; an existing file is replaced.

    Raises
    ------
    TypeError
        If the model is of another type, or its kernel is a function or a class of your own, which cannot be stored as
        data.
    ValueError
        If the model is not fitted.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastsvm
    >>> model = fastsvm.SVC().fit([[0.0], [1.0]], [0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.h5")
    >>> fastsvm.save(model, path)
    >>> fastsvm.load(path).predict([[0.9]])
    array([1])
    """
    name = type(model).__name__
    if name not in _ESTIMATORS:
        raise TypeError(f"Only {', '.join(_ESTIMATORS)} can be saved, found {name}.")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"This {name} is not fitted; call fit before save.")
    parameters = model.get_params()
    if "kernel" in parameters:
        parameters["kernel"] = _kernel_words(parameters["kernel"])
    seed = parameters["random_state"]  # the state of a generator is not stored
    parameters["random_state"] = int(seed) if isinstance(seed, Integral) else None
    arrays, scalars = _split({key: value for key, value in vars(model).items() if _is_fitted(key)})
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = [[_plain(key), value] for key, value in parameters["class_weight"].items()]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": name,
        "parameters": parameters,
        "attributes": scalars,
    }
    text = json.dumps(header, default=_plain)

    def fill(file: h5py.File) -> None:
        file.attrs["header"] = text
        for key, value in arrays.items():
            _write(file, key, value)

    with written_beside(path) as part, hdf5_written(part) as output:
        output.do(fill)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    SVC, LinearSVC, LinearSVR, SGDClassifier or SGDRegressor
        The fitted estimator.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a model file, is damaged, or was written by a newer version.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        with h5py.File(path, "r") as file:
            header = _header(file, path)
            arrays = {key: _read(file[key]) for key in file}
    except OSError as error:
        raise ValueError(f"{path} is not a model file, or is damaged: {error}") from error
    kind = _ESTIMATORS[header["estimator"]]
    parameters = header["parameters"]
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {key: value for key, value in parameters["class_weight"]}
    if isinstance(parameters.get("kernel"), dict):
        parameters["kernel"] = _kernel_object(parameters["kernel"], path)
    model = kind(**parameters)
    for key, value in (header["attributes"] | arrays).items():
        if key.startswith("history_."):
            model.__dict__.setdefault("history_", {})[key.removeprefix("history_.")] = value
        else:
            setattr(model, key, tuple(value) if isinstance(value, list) else value)
    return model


def _header(file: h5py.File, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(file.attrs["header"])
        known = header["format"] == FORMAT and header["estimator"] in _ESTIMATORS
        version = int(header["version"])
    except (KeyError, ValueError, TypeError):
        known, version = False, 0
    if not known:
        raise ValueError(f"{path} is an HDF5 file but not a fastsvm model.")
    if version > VERSION:
        raise ValueError(f"{path} has model format {version}; this fastsvm reads up to {VERSION}: install a newer one.")
    return header


def _kernel_words(kernel: Any) -> str | dict[str, Any]:
    """Return a kernel as JSON has it: its name or, of an object, name and parameters."""
    if isinstance(kernel, str):
        return kernel
    for name, kind in KERNELS.items():
        if type(kernel) is kind:
            return {"name": name, "parameters": kernel._asdict()}
    raise TypeError("A model whose kernel is not of fastsvm.kernels can only be pickled, not saved: code is not data.")


def _kernel_object(words: dict[str, Any], path: Path) -> Any:
    try:
        return KERNELS[words["name"]](**words["parameters"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} has the kernel {words}, which this fastsvm does not know.") from error


def _is_fitted(key: str) -> bool:
    return (key.endswith("_") and not key.startswith("_")) or key in _PRIVATE


def _split(attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part fitted attributes into arrays, for datasets, and the rest, for the header."""
    arrays: dict[str, Any] = {}
    scalars: dict[str, Any] = {}
    for key, value in attributes.items():
        if isinstance(value, dict):
            arrays |= {f"{key}.{name}": column for name, column in value.items()}
        elif isinstance(value, np.ndarray) or sparse.issparse(value):
            arrays[key] = value
        else:
            scalars[key] = value
    return arrays, scalars


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's own, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be stored in a model file.")


def _write(file: h5py.File, key: str, value: Any) -> None:
    if sparse.issparse(value):
        group = file.create_group(key)
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", value.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(value, name)
    elif value.dtype.kind in "OU":
        dataset = file.create_dataset(key, data=value.astype(object), dtype=h5py.string_dtype())
        dataset.attrs["dtype"] = value.dtype.str
    else:
        file[key] = value


def _read(node: h5py.Dataset | h5py.Group) -> Any:
    if isinstance(node, h5py.Group):
        parts = tuple(node[name][:] for name in ("data", "indices", "indptr"))
        return sparse.csr_matrix(parts, shape=tuple(node.attrs["shape"]))
    if h5py.check_string_dtype(node.dtype):
        kind = node.attrs["dtype"]
        return node.asstr()[:].astype(object if kind == "|O" else kind)
    return node[()]
