"""Results of a grid search, in the layout of scikit-learn's `GridSearchCV`."""

from typing import Any

import numpy as np
from numpy.ma import MaskedArray
from scipy.stats import rankdata

__all__ = ["SearchTable"]


class SearchTable:
    """Scores and times of all cells of a grid on all splits.

    Parameters
    ----------
    cells : list of dict
        Parameters of each cell.
    n_splits : int
        Number of splits.

    Attributes
    ----------
    metrics : list of str
        Names of the scores so far; ["score"] for a single score without a name.
    named : bool
        Whether scores have names.
    """

    def __init__(self, cells: list[dict[str, Any]], n_splits: int) -> None:
        self.cells, self._shape = cells, (len(cells), n_splits)
        self._times = {name: np.zeros(self._shape) for name in ("fit_time", "score_time")}
        self._scores: dict[str, np.ndarray] = {}
        self.named = False

    @property
    def metrics(self) -> list[str]:
        """Names of the scores."""
        return list(self._scores)

    def note(self, cell: int, split: int, score: Any, seconds: tuple[float, float]) -> None:
        """Record the score of a cell on a split (a number or a dict of several) and the seconds of fit and score."""
        self.named = isinstance(score, dict)
        for name, value in (score if self.named else {"score": score}).items():
            self._scores.setdefault(name, np.full(self._shape, np.nan))[cell, split] = value
        for times, value in zip(self._times.values(), seconds, strict=True):
            times[cell, split] = value

    def results(self) -> dict[str, Any]:
        """Return the columns of `cv_results_`."""
        found: dict[str, Any] = {}
        for name, times in self._times.items():
            found |= {f"mean_{name}": times.mean(axis=1), f"std_{name}": times.std(axis=1)}
        found |= _parameter_columns(self.cells)
        found["params"] = self.cells
        for name, scores in self._scores.items():
            mean = scores.mean(axis=1)
            found |= {f"split{k}_test_{name}": scores[:, k] for k in range(self._shape[1])}
            found |= {f"mean_test_{name}": mean, f"std_test_{name}": scores.std(axis=1)}
            found[f"rank_test_{name}"] = _ranks(mean)
        return found


def _ranks(mean: np.ndarray) -> np.ndarray:
    """Return the rank of each mean, 1 for the largest; NaN ranks last."""
    if np.isnan(mean).all():
        return np.ones(len(mean), np.int32)
    known = np.nan_to_num(mean, nan=np.nanmin(mean) - 1)
    return rankdata(-known, method="min").astype(np.int32)


def _parameter_columns(cells: list[dict[str, Any]]) -> dict[str, MaskedArray]:
    """Return a column for each parameter, masked where a cell does not set it."""
    names = dict.fromkeys(name for cell in cells for name in cell)
    columns = {}
    for name in names:
        values = {k: cell[name] for k, cell in enumerate(cells) if name in cell}
        column = MaskedArray(np.empty(len(cells), _type_of(list(values.values()))), mask=True)
        for k, value in values.items():
            column[k] = value
        columns[f"param_{name}"] = column
    return columns


def _type_of(values: list[Any]) -> np.dtype:
    """Return the dtype of a column: that of the values if they are numbers, else object."""
    try:
        array = np.array(values)
    except ValueError:  # sequences of different lengths
        return np.dtype(object)
    return array.dtype if array.ndim == 1 and array.dtype.kind != "U" else np.dtype(object)
