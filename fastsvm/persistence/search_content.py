"""A grid search in a model file: its parameters, its results and its best model."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from fastsvm.estimators import ESTIMATORS, SVCSearch
from fastsvm.estimators.search.cv_results import parameter_columns
from fastsvm.kernels import is_kernel
from fastsvm.persistence.values import kernel_object, kernel_words

__all__ = ["search_content", "search_of"]

_MODEL, _RESULTS = "best_estimator_.", "cv_results_."
_PLAIN = (bool, int, float, str, type(None), np.generic)
_ATTRIBUTES = ("best_index_", "best_score_", "refit_time_", "n_splits_", "multimetric_")
_OWN = ("estimator", "param_grid")  # parameters that are written in their own way
Content = tuple[dict[str, Any], dict[str, np.ndarray]]


def search_content(search: SVCSearch, of_model: Callable[[Any], Content]) -> Content:
    """Return the header and the arrays of a fitted search; `of_model` returns those of a model.

    A parameter that is code, such as a scoring function or a splitter, raises TypeError: code cannot be stored as data.
    A search that is not fitted raises ValueError.
    """
    if not search.__sklearn_is_fitted__():
        raise ValueError("This SVCSearch is not fitted; call fit before save.")
    estimator = search._given()
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(f"A search can be saved if its estimator is of fastsvm, found {type(estimator).__name__}.")
    parameters = {name: _word(name, value) for name, value in search.get_params(deep=False).items() if name not in _OWN}
    grid: Any = search.param_grid
    grids = grid if isinstance(grid, list) else [grid]
    parameters["param_grid"] = [
        {name: [_word(name, value) for value in values] for name, values in each.items()} for each in grids
    ]
    parameters["estimator"] = {
        "class": type(estimator).__name__,
        "parameters": {name: _word(name, value) for name, value in estimator.get_params().items()},
    }
    found = vars(search)
    header = {
        "estimator": SVCSearch.__name__,
        "parameters": parameters,
        "attributes": {name: found[name] for name in _ATTRIBUTES if name in found},
    }
    columns = search.cv_results_
    arrays = {_RESULTS + name: np.asarray(columns[name]) for name in columns if not name.startswith("param")}
    if "best_estimator_" in found:
        header["model"], of_best = of_model(search.best_estimator_)
        arrays |= {_MODEL + name: array for name, array in of_best.items()}
    return header, arrays


def search_of(
    header: dict[str, Any], arrays: dict[str, np.ndarray], model_of: Callable[[dict, dict], Any]
) -> SVCSearch:
    """Return the search of a header and arrays; `model_of` returns a model.

    It raises ValueError if they do not fit each other. A forged header may raise any other error.
    """
    stored = header["parameters"]
    kinds = {kind.__name__: kind for kind in ESTIMATORS.values()}
    kind = kinds[stored["estimator"]["class"]]
    estimator = kind(**{name: _value(value) for name, value in stored["estimator"]["parameters"].items()})
    grid = [
        {name: [_value(value) for value in values] for name, values in each.items()} for each in stored["param_grid"]
    ]
    others = {name: _value(value) for name, value in stored.items() if name not in _OWN}
    search = SVCSearch(estimator, grid[0] if len(grid) == 1 else grid, **others)
    cells, found = list(ParameterGrid(grid)), header["attributes"]
    columns = {name.removeprefix(_RESULTS): array for name, array in arrays.items() if name.startswith(_RESULTS)}
    for name, column in columns.items():
        if column.shape != (len(cells),) or column.dtype.kind not in "fi":
            raise ValueError(f"the column {name} of cv_results_ has no number for each of {len(cells)} cells")
    times = {name: column for name, column in columns.items() if name.endswith("_time")}
    scores = {name: column for name, column in columns.items() if name not in times}
    search.cv_results_ = times | parameter_columns(cells) | {"params": cells} | scores
    unknown = set(found) - set(_ATTRIBUTES)
    if unknown:
        raise ValueError(f"{sorted(unknown)} are not attributes of a search")
    search.__dict__.update(found)
    search.scorer_ = search._scorers()
    if "best_index_" in found:
        best = found["best_index_"]
        if type(best) is not int or not 0 <= best < len(cells):
            raise ValueError(f"best_index_ is {best!r}, there are {len(cells)} cells")
        search.best_params_ = cells[best]
    if "model" in header:
        parts = {name.removeprefix(_MODEL): array for name, array in arrays.items() if name.startswith(_MODEL)}
        search.best_estimator_ = model_of(header["model"], parts)
        if hasattr(search.best_estimator_, "feature_names_in_"):
            search.feature_names_in_ = search.best_estimator_.feature_names_in_
    return search


def _word(name: str, value: Any) -> Any:
    """Return a value for JSON: plain, a list, or a dict with one key that says what it stands for."""
    if is_kernel(value):
        return {"kernel": kernel_words(value)}
    if isinstance(value, dict):
        return {"dict": [[key, _word(name, each)] for key, each in value.items()]}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_word(name, each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"A search with {name}={value!r} can only be pickled, not saved: code is not data.")


def _value(word: Any) -> Any:
    """Return the value of `_word`."""
    if isinstance(word, list):
        return [_value(each) for each in word]
    if not isinstance(word, dict):
        return word
    ((kind, given),) = word.items()
    if kind == "dict":
        return {key: _value(each) for key, each in given}
    return kernel_object(given) if kind == "kernel" else float(given)
