"""Files of models: arrays and a versioned JSON header with a checksum, never pickle."""

import json
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.model_selection._search import _yield_masked_array_for_each_param

from fastsvm.estimators.fitting.session import view_of
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.estimators.search.calibration import CalibratedClassifier, Calibration
from fastsvm.estimators.search.svc_search import SVCSearch
from fastsvm.files.array_file import is_array_file, read_arrays, write_arrays
from fastsvm.files.atomic_file import atomic_write
from fastsvm.kernels import KERNELS, Kernel, is_kernel, kernel_name
from fastsvm.persistence.model_checks import check_fitted, check_name, is_fitted_name
from fastsvm.sources import Origin

FORMAT = "fastsvm-model"
VERSION = 2
_CSR = ("data", "indices", "indptr")
_MODEL, _RESULTS, _CALIBRATION = "best_estimator_.", "cv_results_.", "calibration."
_VALUES = (bool, int, float, str, type(None), np.generic)
_OF_SEARCH = ("best_index_", "best_score_", "refit_time_", "n_splits_", "multimetric_")
_OWN = ("estimator", "param_grid")  # parameters of a search that are written in their own way
Word: TypeAlias = Any
"""A parameter, or a value of JSON that stands for it."""
Content = tuple[Attributes, dict[str, np.ndarray]]
"""The header and the arrays of a model."""


def save(model: BaseEstimator, path: str | Path) -> None:
    """Write a fitted model to a file: a zip archive of arrays (.npy) and a header (JSON), with a checksum.

    The write is atomic: an interrupt leaves the old file. Equal models give equal bytes.

    Parameters
    ----------
    model : estimator
        A fitted estimator of fastsvm. Its kernel must be built-in or precomputed, its class labels numbers or strings.
        A search is stored with its results and its best model, another of these estimators; a `CalibratedClassifier`
        with its model and its calibrators.
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
    content = {SVCSearch: _search_content, CalibratedClassifier: _calibrated_content}.get(type(model), _content)
    header, arrays = content(model)
    with atomic_write(path) as part:
        write_arrays(part, json.dumps({"format": FORMAT, "version": VERSION} | header, default=_plain), arrays)


def _estimators() -> dict[str, type[BaseEstimator]]:
    """Return the estimators by the names of their classes, those that were added later as well."""
    return {kind.__name__: kind for kind in ESTIMATORS.values()}


def _content(model: BaseEstimator) -> Content:
    """Return the header, without format and version, and the arrays of a fitted model."""
    name = type(model).__name__
    if type(model) not in ESTIMATORS.values():
        names = ", ".join([*_estimators(), SVCSearch.__name__, CalibratedClassifier.__name__])
        raise TypeError(f"Only {names} can be saved, found {type(model).__module__}.{name}.")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"This {name} is not fitted; call fit before save.")
    parameters = model.get_params()
    if "kernel" in parameters:
        parameters["kernel"] = _kernel_words(parameters["kernel"])
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
        parameters["class_weight"] = [[_plain(key), value] for key, value in parameters["class_weight"].items()]
    header: Attributes = {
        "estimator": name,
        "parameters": parameters,
        "attributes": {},
        "sparse": {},
        "objects": [],
    } | ({"origin": model._origin} if hasattr(model, "_origin") else {})
    arrays: dict[str, np.ndarray] = {}
    for key, value in vars(model).items():
        if is_fitted_name(key):
            _part(key, value, header, arrays)
    return header, arrays


def load(path: str | Path) -> BaseEstimator:
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
    version = header.get("version")
    if header.get("format") != FORMAT or not isinstance(version, int):
        raise ValueError(f"{path} holds arrays but is not a fastsvm model.")
    if version != VERSION:
        raise ValueError(
            f"{path} has model format {version}; this fastsvm reads format {VERSION}. Install the version that wrote "
            "it."
        )
    try:
        made = {SVCSearch.__name__: _search_of, CalibratedClassifier.__name__: _calibrated_of}
        return made.get(header["estimator"], _model)(header, arrays)
    except Exception as error:  # a forged header may raise any error
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path} is damaged, or was not written by fastsvm: {reason}.") from error


def is_model_file(path: str | Path) -> bool:
    """Return whether a file begins like a model."""
    path = Path(path)
    return path.is_file() and is_array_file(path)


def _model(header: Attributes, arrays: dict[str, np.ndarray]) -> BaseEstimator:
    """Return the model that a header and arrays describe; forged ones raise ValueError, or any other error."""
    if header["estimator"] not in _estimators():
        raise ValueError(f"there is no estimator {header['estimator']!r}")
    kind, parameters = _estimators()[header["estimator"]], header["parameters"]
    unknown = set(parameters) - set(kind().get_params())
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameters {sorted(unknown)} in this version")
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {key: value for key, value in parameters["class_weight"]}
    if isinstance(parameters.get("kernel"), dict):
        parameters["kernel"] = _kernel_object(parameters["kernel"])
    if not isinstance(parameters.get("random_state"), int | None):
        raise ValueError(f"the parameter random_state is {parameters['random_state']!r}")
    attributes = header["attributes"] | _whole(header, arrays)
    if isinstance(parameters.get("landmarks"), dict):
        parameters["landmarks"] = attributes["components_"]
    model = kind(**parameters)
    for key, value in attributes.items():
        check_name(kind, key)
        vars(model)[key] = tuple(value) if isinstance(value, list) else value
    if "origin" in header:
        model._origin = _origin(*header["origin"])
    check_fitted(model)
    return model


def _divided(arrays: dict[str, np.ndarray], prefix: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the arrays whose names do not begin with a prefix, and those whose names do, without it."""
    others = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
    return others, {name.removeprefix(prefix): arrays[name] for name in arrays if name not in others}


def _origin(first_index: int | None, sure: bool, *names: str | None) -> Origin:
    are_names = len(names) in (1, 2) and all(isinstance(name, str | None) for name in names)
    if first_index not in (None, 0, 1) or not isinstance(sure, bool) or not are_names:
        raise ValueError(f"the origin of its samples is {(first_index, sure, *names)}")
    return Origin(first_index, sure, *names)


def _part(key: str, value: Word, header: Attributes, arrays: dict[str, np.ndarray]) -> None:
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


def _whole(header: Attributes, arrays: dict[str, np.ndarray]) -> Attributes:
    """Return the attributes, assembled from their arrays."""
    arrays = dict(arrays)
    for key in header["objects"]:
        arrays[key] = arrays[key].astype(object)
    attributes: Attributes = {}
    for key, shape in header["sparse"].items():
        parts = tuple(arrays.pop(f"{key}.{name}") for name in _CSR)
        if any(part.dtype.kind not in "iu" for part in parts[1:]):  # SciPy would truncate fractions
            raise ValueError(f"the indices and indptr of {key} must be integers")
        attributes[key] = sparse.csr_matrix(parts, shape=tuple(shape))
    for name, array in arrays.items():
        key, dot, column = name.partition(".")
        if not dot:
            attributes[key] = array
        elif key == "history_":
            attributes.setdefault(key, {})[column] = array
        else:
            raise ValueError(f"it has an unknown part {name!r}")
    return attributes


# --- a search --------------------------------------------------------------------------------------------


def _search_content(search: SVCSearch) -> Content:
    """Return the header and the arrays of a fitted search, whose parameters must not be code, such as a splitter."""
    if not hasattr(search, "cv_results_"):
        raise ValueError("This SVCSearch is not fitted; call fit before save.")
    estimator = search._given()
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(f"A search can be saved if its estimator is of fastsvm, found {type(estimator).__name__}.")
    parameters = {name: _word(name, value) for name, value in search.get_params(deep=False).items() if name not in _OWN}
    grid: Word = search.param_grid
    grids = grid if isinstance(grid, list) else [grid]
    parameters["param_grid"] = [
        {name: [_word(name, value) for value in values] for name, values in each.items()} for each in grids
    ]
    parameters["estimator"] = {
        "class": type(estimator).__name__,
        "parameters": {name: _word(name, value) for name, value in estimator.get_params().items()},
    }
    attributes = vars(search)
    header = {
        "estimator": SVCSearch.__name__,
        "parameters": parameters,
        "attributes": {name: attributes[name] for name in _OF_SEARCH if name in attributes},
    }
    columns = search.cv_results_
    arrays = {_RESULTS + name: np.asarray(columns[name]) for name in columns if not name.startswith("param")}
    if "best_estimator_" in attributes:
        header["model"], of_best = _content(search.best_estimator_)
        arrays |= {_MODEL + name: array for name, array in of_best.items()}
    if search.calibration is not None:
        arrays |= _calibration_arrays(search._calibration)
    return header, arrays


def _search_of(header: Attributes, arrays: dict[str, np.ndarray]) -> SVCSearch:
    """Return the search of a header and arrays; forged ones raise ValueError, or any other error."""
    stored = header["parameters"]
    kind = _estimators()[stored["estimator"]["class"]]
    estimator = kind(**{name: _value(value) for name, value in stored["estimator"]["parameters"].items()})
    grid = [
        {name: [_value(value) for value in values] for name, values in each.items()} for each in stored["param_grid"]
    ]
    others = {name: _value(value) for name, value in stored.items() if name not in _OWN}
    search = SVCSearch(estimator, grid[0] if len(grid) == 1 else grid, **others)
    cells, attributes = list(ParameterGrid(grid)), header["attributes"]
    arrays, columns = _divided(arrays, _RESULTS)
    for name, column in columns.items():
        if column.shape != (len(cells),) or column.dtype.kind not in "fi":
            raise ValueError(f"the column {name} of cv_results_ has no number for each of {len(cells)} cells")
    times = {name: column for name, column in columns.items() if name.endswith("_time")}
    scores = {name: column for name, column in columns.items() if name not in times}
    search.cv_results_ = times | dict(_yield_masked_array_for_each_param(cells)) | {"params": cells} | scores
    unknown = set(attributes) - set(_OF_SEARCH)
    if unknown:
        raise ValueError(f"{sorted(unknown)} are not attributes of a search")
    search.__dict__.update(attributes)
    search.scorer_ = search._scorers()
    if "best_index_" in attributes:
        best = attributes["best_index_"]
        if type(best) is not int or not 0 <= best < len(cells):
            raise ValueError(f"best_index_ is {best!r}, there are {len(cells)} cells")
        search.best_params_ = cells[best]
    if "model" in header:
        search.best_estimator_ = _model(header["model"], _divided(arrays, _MODEL)[1])
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    if search.calibration is not None:
        search._calibration = _calibration(search.calibration, search.best_estimator_, arrays)
    return search


# --- calibrated models -----------------------------------------------------------------------------------


def _calibrated_content(calibrated: CalibratedClassifier) -> Content:
    """Return the header and the arrays of a calibrated model, whose splits must not be code."""
    if not calibrated.__sklearn_is_fitted__():
        raise ValueError("This CalibratedClassifier is not fitted; call fit before save.")
    parameters = {name: _word(name, getattr(calibrated, name)) for name in ("method", "cv", "n_jobs")}
    of_model, arrays = _content(calibrated.estimator_)
    header = {"estimator": CalibratedClassifier.__name__, "parameters": parameters, "model": of_model}
    arrays = {_MODEL + name: array for name, array in arrays.items()}
    return header, arrays | _calibration_arrays(calibrated._calibration)


def _calibrated_of(header: Attributes, arrays: dict[str, np.ndarray]) -> CalibratedClassifier:
    """Return the calibrated model of a header and arrays; forged ones raise ValueError, or any other error."""
    parameters = {name: _value(value) for name, value in header["parameters"].items()}
    model = _model(header["model"], _divided(arrays, _MODEL)[1])
    calibrated = CalibratedClassifier(model if parameters["cv"] == "prefit" else clone(model), **parameters)
    calibrated._check_parameters()
    calibrated._set_model(model, _calibration(calibrated.method, model, arrays))
    return calibrated


def _calibration_arrays(calibration: Calibration) -> dict[str, np.ndarray]:
    return {_CALIBRATION + name: array for name, array in calibration.arrays().items()}


def _calibration(method: str, model: BaseEstimator, arrays: dict[str, np.ndarray]) -> Calibration:
    """Return the calibration of a model; arrays that do not fit raise ValueError."""
    return Calibration.from_arrays(method, model.classes_, _divided(arrays, _CALIBRATION)[1])


def _word(name: str, value: Word) -> Word:
    """Return a value for JSON: plain, a list, or a dict with one key that says what it stands for."""
    if is_kernel(value):
        return {"kernel": _kernel_words(value)}
    if isinstance(value, dict):
        return {"dict": [[key, _word(name, each)] for key, each in value.items()]}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_word(name, each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, _VALUES):
        return value
    raise TypeError(f"A model with {name}={value!r} can only be pickled, not saved: code is not data.")


def _value(word: Word) -> Word:
    """Return the value of `_word`."""
    if isinstance(word, list):
        return [_value(each) for each in word]
    if not isinstance(word, dict):
        return word
    ((kind, content),) = word.items()
    if kind == "dict":
        return {key: _value(each) for key, each in content}
    return _kernel_object(content) if kind == "kernel" else float(content)


# --- values of JSON --------------------------------------------------------------------------------------


def _kernel_words(kernel: Word) -> str | Attributes:
    """Return a kernel for JSON: its name, or name and parameters of an object."""
    if isinstance(kernel, str):
        return kernel
    name = kernel_name(kernel)
    if name is None:
        raise TypeError(
            "A model whose kernel is not of fastsvm.kernels can only be pickled, not saved: code is not data."
        )
    return {"name": name, "parameters": kernel._asdict()}


def _kernel_object(words: Attributes) -> Kernel:
    """Return the kernel of `_kernel_words`."""
    try:
        return KERNELS[words["name"]](**words["parameters"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"it has the kernel {words}, which this fastsvm does not know") from error


def _plain(value: object) -> bool | int | float | str:
    """Return the Python number of a NumPy scalar, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be stored in a model file.")
