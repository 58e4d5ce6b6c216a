"""The type in which values are stored: float32, unless its rounding would lose what distinguishes the rows."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse

from fastsvm.formats.readers.rows import Rows
from fastsvm.formats.readers.stream import Header

__all__ = ["TooCoarse", "narrowed"]

_VISIBLE = 2e-5  # Rounding shows above this share of the range of a feature: some 1e-4 of its standard deviation.
_MOST_FEATURES = 1 << 18  # So many features of sparse rows are watched one by one, with 24 bytes for each.
_SHOWN = "float32 would round {where}, which lies between {low:.10g} and {high:.10g}, by up to {error:.2g}"


class TooCoarse(Exception):
    """float32 does not hold the values; the message says of which feature.

    `dtype` is the type in which to read the source again: float32 for values out of its range, which the reader refuses
    by name.
    """

    def __init__(self, message: str, dtype: type = np.float64) -> None:
        super().__init__(message)
        self.dtype = np.dtype(dtype)


def narrowed(blocks: Iterator[Rows], header: Header, exact: bool) -> Iterator[Rows]:
    """Yield rows of float64 in float32, in the same blocks. With `exact` no value may be rounded at all.

    It raises TooCoarse if rounding is visible: at once where a value is too large, or with `exact`, else after the last
    block, so that the answer depends on all rows and not on the size of the blocks.
    """
    watched = not header.sparse or header.n_features <= _MOST_FEATURES
    seen = _Seen(header.n_features if watched and not exact else 0)
    for block in blocks:
        values = block.X if isinstance(block.X, np.ndarray) else block.X.data
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32)
        error = np.abs(values - rounded)
        if not np.isfinite(rounded).all():
            raise TooCoarse("float32 does not hold all values", np.float32)
        if exact and error.any():
            raise TooCoarse("float32 rounds some values")
        if watched and not exact:
            seen.add(block.X, error)
        yield replace(block, X=rounded if isinstance(block.X, np.ndarray) else _with_values(block.X, rounded))
    seen.check(header)


def _with_values(X: sparse.csr_array, values: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)


class _Seen:
    """The range of each feature and its largest error of rounding, over the blocks so far."""

    def __init__(self, n_features: int) -> None:
        self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        self.error = np.zeros(n_features)

    def add(self, X: np.ndarray | sparse.csr_array, error: np.ndarray) -> None:
        if X.shape[0] == 0:
            return
        if isinstance(X, np.ndarray):
            low, high, error = X.min(axis=0), X.max(axis=0), error.max(axis=0)
        else:
            low, high = (np.asarray(found.todense()).ravel() for found in (X.min(axis=0), X.max(axis=0)))
            by_feature = np.zeros_like(self.error)
            np.maximum.at(by_feature, X.indices, error)
            error = by_feature
        np.minimum(self.low, low, out=self.low)
        np.maximum(self.high, high, out=self.high)
        np.maximum(self.error, error, out=self.error)

    def check(self, header: Header) -> None:
        """Raise TooCoarse if rounding is visible in some feature. Constant ones distinguish no rows."""
        width = self.high - self.low
        lost = (self.error > _VISIBLE * width) & (width > 0)
        if lost.any():
            k = int(np.argmax(lost))
            names = header.feature_names
            where = f"feature {k}" if names is None else f"feature {k} ({names[k]})"
            raise TooCoarse(_SHOWN.format(where=where, low=self.low[k], high=self.high[k], error=self.error[k]))
