"""Decision values of all samples, each by a fit that has not seen it."""

from collections.abc import Iterable

import numpy as np

from fastsvm.estimators.search.evaluation import Scored
from fastsvm.estimators.search.shared_fits import Split


class OutOfFold:
    """Decision values of the best cell so far. Those of worse ones are given up, so that memory holds few."""

    def __init__(self, splits: list[Split], metric: str) -> None:
        self._splits, self.metric = splits, metric
        self._values: dict[int, dict[int, np.ndarray]] = {}
        self._scores: dict[int, float] = {}
        self._lacking: set[int] = set()  # cells with a fit that has no decision values
        self.best: int | None = None

    def take(self, fit: Scored) -> Scored:
        """Keep the decision values of a fit if its cell may be the best, and return the fit without them."""
        if fit.decided is None or fit.cell in self._lacking:
            self._lacking.add(fit.cell)
            self._values.pop(fit.cell, None)
            return fit._replace(decided=None)
        score = fit.test_scores.get(self.metric) if isinstance(fit.test_scores, dict) else fit.test_scores
        values = self._values.setdefault(fit.cell, {})
        values[fit.split] = fit.decided
        self._scores[fit.cell] = self._scores.get(fit.cell, 0.0) + (np.nan if score is None else score)
        if len(values) == len(self._splits):
            worse = self.best
            if worse is None or (self._scores[fit.cell], -fit.cell) > (self._scores[worse], -worse):
                self.best = fit.cell
            else:
                worse = fit.cell
            if worse is not None:
                del self._values[worse]
        return fit._replace(decided=None)

    def of(self, cell: int, n_samples: int) -> np.ndarray | None:
        """Return the mean decision values, nan where no split tests; None if given up, or if a split lacks a class."""
        values = self._values.get(cell, {})
        shapes = {one.shape[1:] for one in values.values()}
        if len(values) < len(self._splits) or len(shapes) > 1:
            return None
        sums, counts = np.zeros((n_samples, *shapes.pop())), np.zeros(n_samples)
        for k, one in values.items():
            sums[self._splits[k].test] += one
            counts[self._splits[k].test] += 1
        with np.errstate(invalid="ignore"):
            return np.asarray((sums.T / counts).T)


def out_of_fold(fits: Iterable[Scored], splits: list[Split], n_samples: int) -> np.ndarray | None:
    """Return the mean decision values of all samples by the fits of a single cell, as `OutOfFold.of` does."""
    kept = OutOfFold(splits, "score")
    for fit in fits:
        kept.take(fit)
    return kept.of(0, n_samples)
