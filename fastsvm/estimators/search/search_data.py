"""The data of a search, and its parts for a split."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _num_samples

from fastsvm.estimators.search.shared_fits import Split
from fastsvm.sources import as_source, is_stored

__all__ = ["SearchData"]


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

    def weight(self, rows: np.ndarray) -> Any:
        """Return the weights of some samples, None if there are none."""
        weight = self.fit_params.get("sample_weight")
        return None if weight is None else self._cut(weight, rows)

    def _of(self, model: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> tuple[Any, Any]:
        if is_stored(self.X):
            return as_source(self.X).take(rows), None if self.y is None else np.asarray(self.y)[rows]
        return _safe_split(model, self.X, self.y, rows, columns)

    def _cut(self, value: Any, rows: np.ndarray) -> Any:
        """Return the entries of these rows if `value` has one entry for each row, else `value`."""
        whole = hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and np.ndim(value) > 0
        return np.asarray(value)[rows] if whole and len(value) == _num_samples(self.to_split()) else value
