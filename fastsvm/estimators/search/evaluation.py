"""Scores of all cells of a grid search on all splits: first of fits that share kernel values, then of the others."""

import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _num_samples

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.validation import check_training_set
from fastsvm.estimators.kernel.object_samples import samples_for
from fastsvm.estimators.kernel.svc import SVC
from fastsvm.estimators.search.shared_fits import SharedFits, Split, may_share
from fastsvm.sources import as_source, is_stored

__all__ = ["SearchData", "evaluate", "row_numbers"]


class SearchData(NamedTuple):
    """Samples, labels and further arguments of `fit`, as the user passed them."""

    X: Any
    y: Any
    fit_params: dict[str, Any]

    def to_split(self) -> Any:
        """Return the samples for a splitter; for samples in a file, an array of the same length without columns."""
        return np.empty((len(as_source(self.X)), 0)) if is_stored(self.X) else self.X

    def to_fit(self, model: Any, split: Split) -> tuple[Any, Any, dict[str, Any]]:
        """Return training samples, labels and further arguments of `fit`."""
        cut = {name: self._cut(value, split.train) for name, value in self.fit_params.items()}
        return *self._of(model, split.train), cut

    def to_score(self, model: Any, split: Split) -> tuple[Any, Any]:
        """Return test samples and labels; a precomputed kernel matrix keeps the columns of the training set only."""
        return self._of(model, split.test, split.train)

    def _of(self, model: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> tuple[Any, Any]:
        if is_stored(self.X):
            return as_source(self.X).take(rows), np.asarray(self.y)[rows]
        return _safe_split(model, self.X, self.y, rows, columns)

    def _cut(self, value: Any, rows: np.ndarray) -> Any:
        """Return the entries of these rows if `value` has one entry for each row, else `value`."""
        whole = hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and np.ndim(value) > 0
        return np.asarray(value)[rows] if whole and len(value) == _num_samples(self.to_split()) else value


def row_numbers(rows: Any) -> np.ndarray:
    """Return the row numbers of a split, given as numbers or as a mask."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def evaluate(
    models: list[Any], rows: SearchData, splits: list[Split], scorer: Callable
) -> Iterator[tuple[int, int, Any, tuple[float, float]]]:
    """Fit and score all models on all splits.

    Yields
    ------
    cell, split : int
        Numbers of the model and the split, in any order.
    score : float or dict of str to float
        Value of the scorer.
    seconds : tuple of float
        Time to fit and to score.
    """
    left = {(cell, k) for cell in range(len(models)) for k in range(len(splits))}
    for cell, k, score, seconds in _evaluate_together(models, rows, splits, scorer):
        left.remove((cell, k))
        yield cell, k, score, seconds
    for cell, k in sorted(left):
        model, begin = clone(models[cell]), time.perf_counter()
        X, y, beside = rows.to_fit(model, splits[k])
        model.fit(X, y, **beside) if y is not None else model.fit(X, **beside)
        fitted = time.perf_counter()
        score = _score(scorer, model, *rows.to_score(model, splits[k]), _weight(rows, splits[k]))
        yield cell, k, score, (fitted - begin, time.perf_counter() - fitted)


def _evaluate_together(
    models: list[Any], rows: SearchData, splits: list[Split], scorer: Callable
) -> Iterator[tuple[int, int, Any, tuple[float, float]]]:
    """Yield the results of fits that can share kernel values."""
    sharing = {cell: clone(model) for cell, model in enumerate(models) if may_share(model)}
    if not sharing or not set(rows.fit_params) <= {"sample_weight"}:
        return
    checked = SVC()
    samples = samples_for(next(iter(sharing.values())), rows.X)
    data = check_training_set(checked, samples, rows.y, rows.fit_params.get("sample_weight"))
    with Pool.open() as pool:
        fits = SharedFits(sharing, data, splits, pool)
        for group in fits.groups():
            for part, model, decided, seconds in fits.fit(group):
                begin = time.perf_counter()
                model.__dict__.update(vars(checked) | vars(model))  # number and names of features
                X, y = rows.to_score(model, splits[part.split])
                model.knows(X, decided)
                score = _score(scorer, model, X, y, _weight(rows, splits[part.split]))
                yield *part, score, (seconds, time.perf_counter() - begin)


def _weight(rows: SearchData, split: Split) -> Any:
    """Return the weights of the test samples, None if there are none."""
    weight = rows.fit_params.get("sample_weight")
    return None if weight is None else rows._cut(weight, split.test)


def _score(scorer: Callable, model: Any, X: Any, y: Any, weight: Any) -> Any:
    """Return the score of a model; weights are passed to scorers that accept them, as in scikit-learn's searches."""
    beside = {} if weight is None or not _takes_weight(scorer) else {"sample_weight": weight}
    found = scorer(model, X, y, **beside) if y is not None else scorer(model, X, **beside)
    numbers = found.values() if isinstance(found, dict) else [found]
    if not all(np.ndim(value) == 0 and isinstance(float(value), float) for value in numbers):
        raise ValueError(f"scoring must return a number, or numbers by name; it returned {found!r}.")
    return found


def _takes_weight(scorer: Callable) -> bool:
    if hasattr(scorer, "_accept_sample_weight"):
        return scorer._accept_sample_weight()
    return inspect.isfunction(scorer) and "sample_weight" in inspect.signature(scorer).parameters
