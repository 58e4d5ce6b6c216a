"""Files of models: arrays and a versioned JSON header with a checksum, never pickle."""

import json
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastsvm.estimators import ESTIMATORS, SVCSearch
from fastsvm.estimators.fitting.drafts import view_of
from fastsvm.files.array_file import is_array_file, read_arrays, write_arrays
from fastsvm.files.atomic_file import atomic_write
from fastsvm.persistence.model_checks import check_fitted, check_name, is_fitted_name
from fastsvm.persistence.search_content import search_content, search_of
from fastsvm.persistence.values import kernel_object, kernel_words, plain
from fastsvm.sources import Origin

__all__ = ["is_model_file", "load", "save"]

FORMAT = "fastsvm-model"
VERSION = 2
_CSR = ("data", "indices", "indptr")
_MACHINE = "exact_machine_"


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model to a file: a zip archive of arrays (.npy) and a header (JSON), with a checksum.

    The write is atomic: an interrupt leaves the old file. Equal models give equal bytes.

    Parameters
    ----------
    model : estimator
        A fitted estimator of fastsvm. Its kernel must be built-in or precomputed, its class labels numbers or strings.
        A search is stored with its results and its best model, another of these estimators.
    path : str or Path
        The file to write, with any name. An existing file is replaced.

    Raises
    ------
    TypeError
        If the model is of another type, or if its kernel is a function or a class of your own: code cannot be stored
        as data.
    ValueError
        If the model is not fitted, or has a parameter or an attribute that cannot be stored, such as a loss passed as
        an object. Pass the loss by its name instead.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastsvm
    >>> model = fastsvm.SVC().fit([[0.0], [1.0]], [0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "a.model")
    >>> fastsvm.save(model, path)
    >>> fastsvm.load(path).predict([[0.9]])
    array([1])
    """
    model = view_of(model)  # another thread may fit it
    header, arrays = search_content(model, _content) if isinstance(model, SVCSearch) else _content(model)
    with atomic_write(path) as part:
        write_arrays(part, json.dumps({"format": FORMAT, "version": VERSION} | header, default=plain), arrays)


def _content(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header, without format and version, and the arrays of a fitted model."""
    name, classes = type(model).__name__, _classes()
    if type(model) not in classes.values():
        known = ", ".join([*classes, SVCSearch.__name__])
        raise TypeError(f"Only {known} can be saved, found {type(model).__module__}.{name}.")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"This {name} is not fitted; call fit before save.")
    parameters = model.get_params()
    if "kernel" in parameters:
        parameters["kernel"] = kernel_words(parameters["kernel"])
    if not isinstance(parameters.get("landmarks", ""), str):
        parameters["landmarks"] = {"rows": "components_"}
    if "random_state" in parameters:  # the state of a random number generator is not stored
        seed = parameters["random_state"]
        parameters["random_state"] = int(seed) if isinstance(seed, Integral) else None
    try:
        check_fitted(model)
    except ValueError as error:
        raise ValueError(f"This {name} cannot be saved: {error}.") from error
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = [[plain(key), value] for key, value in parameters["class_weight"].items()]
    header: dict[str, Any] = {
        "estimator": name,
        "parameters": parameters,
        "attributes": {},
        "sparse": {},
        "objects": [],
    } | ({"origin": model._origin} if hasattr(model, "_origin") else {})
    arrays: dict[str, np.ndarray] = {}
    for key, value in vars(model).items():
        if key == _MACHINE:
            header[key], own = _content(value)
            arrays |= {f"{key}.{name}": array for name, array in own.items()}
        elif is_fitted_name(key):
            _part(key, value, header, arrays)
    return header, arrays


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote.

    The checksum is compared first, then every parameter and attribute is validated. Damaged and forged files are
    refused in bounded time, with at most as much memory as the file has bytes.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    estimator
        The fitted estimator.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a model file, is damaged, or was written by a version with another format.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastsvm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.model")
    >>> fastsvm.save(fastsvm.LinearSVC().fit([[0.0], [1.0]], [0, 1]), path)
    >>> fastsvm.load(path)
    LinearSVC()
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    if not is_array_file(path):
        raise ValueError(f"{path} is not a model file, or is damaged: its first bytes are not those of one.")
    header, arrays = read_arrays(path)
    _check_header(header, path)
    try:
        is_search = header["estimator"] == SVCSearch.__name__
        return search_of(header, arrays, _model) if is_search else _model(header, arrays)
    except Exception as error:  # a forged header may raise any error
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} is damaged, or was not written by fastsvm: {reason}.") from error


def is_model_file(path: str | Path) -> bool:
    """Return whether a file begins like a model."""
    path = Path(path)
    return path.is_file() and is_array_file(path)


def _classes() -> dict[str, type]:
    return {kind.__name__: kind for kind in ESTIMATORS.values()}


def _check_header(header: dict[str, Any], path: Path) -> None:
    version = header.get("version")
    if header.get("format") != FORMAT or not isinstance(version, int):
        raise ValueError(f"{path} holds arrays but is not a fastsvm model.")
    if version != VERSION:
        raise ValueError(
            f"{path} has model format {version}; this fastsvm reads format {VERSION}. Install the version that wrote "
            "it."
        )


def _model(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Return the model that a header and arrays describe.

    Raises
    ------
    ValueError
        If they do not fit each other or a fitted model. A forged header may raise any other error.
    """
    classes = _classes()
    if header["estimator"] not in classes:
        raise ValueError(f"there is no estimator {header['estimator']!r}")
    kind, parameters = classes[header["estimator"]], header["parameters"]
    unknown = set(parameters) - set(kind().get_params())
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameters {sorted(unknown)} in this version")
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {key: value for key, value in parameters["class_weight"]}
    if isinstance(parameters.get("kernel"), dict):
        parameters["kernel"] = kernel_object(parameters["kernel"])
    if not isinstance(parameters.get("random_state"), int | None):
        raise ValueError(f"the parameter random_state is {parameters['random_state']!r}")
    machine = {}
    if _MACHINE in header:
        own = {name: array for name, array in arrays.items() if name.startswith(f"{_MACHINE}.")}
        arrays = {name: array for name, array in arrays.items() if name not in own}
        own = {name.removeprefix(f"{_MACHINE}."): array for name, array in own.items()}
        machine[_MACHINE] = _model(header[_MACHINE], own)
    found = header["attributes"] | _whole(header, arrays) | machine
    if isinstance(parameters.get("landmarks"), dict):
        parameters["landmarks"] = found["components_"]
    model = kind(**parameters)
    for key, value in found.items():
        check_name(kind, key)
        vars(model)[key] = tuple(value) if isinstance(value, list) else value
    if "origin" in header:
        model._origin = _origin(*header["origin"])
    check_fitted(model)
    return model


def _origin(first_index: int | None, sure: bool, label: str | None) -> Origin:
    if first_index not in (None, 0, 1) or not isinstance(sure, bool) or not isinstance(label, str | None):
        raise ValueError(f"the origin of its samples is {(first_index, sure, label)}")
    return Origin(first_index, sure, label)


def _part(key: str, value: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Add an attribute to the arrays; add a plain value to the header."""
    if isinstance(value, dict):
        for name, column in value.items():
            _part(f"{key}.{name}", column, header, arrays)
    elif sparse.issparse(value):
        header["sparse"][key] = [int(length) for length in value.shape]
        arrays |= {f"{key}.{name}": getattr(value, name) for name in _CSR}
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            header["objects"].append(key)
            value = _words(key, value)
        arrays[key] = value
    else:
        header["attributes"][key] = value


def _words(key: str, value: np.ndarray) -> np.ndarray:
    """Return an array of str objects with NumPy's string type."""
    words = value.astype(str)
    if (words.astype(object) != value).any():
        raise ValueError(
            f"{key} cannot be stored in a model file, for some of its strings end in NUL: {value.tolist()}."
        )
    return words if words.dtype.itemsize else words.astype("U1")


def _whole(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the attributes, assembled from their arrays."""
    arrays = dict(arrays)
    for key in header["objects"]:
        arrays[key] = arrays[key].astype(object)
    found: dict[str, Any] = {}
    for key, shape in header["sparse"].items():
        parts = tuple(arrays.pop(f"{key}.{name}") for name in _CSR)
        if any(part.dtype.kind not in "iu" for part in parts[1:]):  # SciPy would truncate fractions
            raise ValueError(f"the indices and indptr of {key} must be integers")
        found[key] = sparse.csr_matrix(parts, shape=tuple(shape))
    for name, array in arrays.items():
        key, dot, column = name.partition(".")
        if not dot:
            found[key] = array
        elif key == "history_":
            found.setdefault(key, {})[column] = array
        else:
            raise ValueError(f"it has an unknown part {name!r}")
    return found
