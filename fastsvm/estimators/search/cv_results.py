"""Results of a grid search, in the layout of scikit-learn's `GridSearchCV`."""

from typing import Any

import numpy as np
from numpy.ma import MaskedArray
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning

from fastsvm.estimators.fitting.convergence_warnings import warn_caller
from fastsvm.estimators.search.evaluation import Scored

__all__ = ["SearchTable", "parameter_columns"]


class SearchTable:
    """Scores and times of all cells of a grid, given by their parameters, on all splits.

    Scores may have names (`named`). `errors` has the tracebacks of the fits that failed.
    """

    def __init__(self, cells: list[dict[str, Any]], n_splits: int) -> None:
        self.cells, self._shape = cells, (len(cells), n_splits)
        self._times = {name: np.zeros(self._shape) for name in ("fit_time", "score_time")}
        self._scores: dict[str, dict[str, np.ndarray]] = {"test": {}, "train": {}}
        self._failed = np.zeros(self._shape, bool)
        self.errors: list[str] = []
        self.named = False

    @property
    def metrics(self) -> list[str]:
        """Names of the scores so far; ["score"] for a single score without a name."""
        return list(self._scores["test"])

    def note(self, scored: Scored) -> None:
        """Record the scores and times of a fit, or its error."""
        place = scored.cell, scored.split
        for times, value in zip(self._times.values(), (scored.fit_seconds, scored.score_seconds), strict=True):
            times[place] = value
        if scored.error:
            self._failed[place] = True
            self.errors.append(scored.error)
            return
        self.named |= isinstance(scored.test, dict)
        for kind, score in (("test", scored.test), ("train", scored.train)):
            if score is not None:
                for name, value in (score if isinstance(score, dict) else {"score": score}).items():
                    self._scores[kind].setdefault(name, np.full(self._shape, np.nan))[place] = value

    def fill(self, error_score: float) -> None:
        """Set the scores of fits that failed, and warn of them. If all fits failed, ValueError is raised."""
        if not self.errors:
            return
        n_failed, n_fits = int(self._failed.sum()), self._failed.size
        if n_failed == n_fits:
            raise ValueError(
                f"All the {n_fits} fits failed. error_score='raise' shows where. The first error:\n{self.errors[0]}"
            )
        for scores in self._scores.values():
            for values in scores.values():
                values[self._failed] = error_score
        warn_caller(
            f"{n_failed} fits failed out of a total of {n_fits}. Their scores are set to {error_score}. If these "
            f"failures are not expected, debug them by error_score='raise'. The first error:\n{self.errors[0]}",
            FitFailedWarning,
        )

    def results(self) -> dict[str, Any]:
        """Return the columns of `cv_results_`."""
        found: dict[str, Any] = {}
        for name, times in self._times.items():
            found |= {f"mean_{name}": times.mean(axis=1), f"std_{name}": times.std(axis=1)}
        found |= parameter_columns(self.cells)
        found["params"] = self.cells
        for name in self.metrics:
            for kind in ("test", "train"):
                if name in self._scores[kind]:
                    found |= self._columns(name, kind)
        return found

    def _columns(self, name: str, kind: str) -> dict[str, np.ndarray]:
        scores = self._scores[kind][name]
        mean = scores.mean(axis=1)
        found = {f"split{k}_{kind}_{name}": scores[:, k] for k in range(self._shape[1])}
        found |= {f"mean_{kind}_{name}": mean, f"std_{kind}_{name}": scores.std(axis=1)}
        return found if kind == "train" else found | {f"rank_test_{name}": _ranks(mean)}


def _ranks(mean: np.ndarray) -> np.ndarray:
    """Return the rank of each mean, 1 for the largest; NaN ranks last."""
    if np.isnan(mean).all():
        return np.ones(len(mean), np.int32)
    known = np.nan_to_num(mean, nan=np.nanmin(mean) - 1)
    return rankdata(-known, method="min").astype(np.int32)


def parameter_columns(cells: list[dict[str, Any]]) -> dict[str, MaskedArray]:
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
