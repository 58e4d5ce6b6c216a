"""Means, variances and norms of the rows of a source, in one pass."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.writeable import writeable
from fastsvm.sources.base import Source
from fastsvm.sources.block import Block, CSRBlock

__all__ = ["FeatureStatistics", "check_finite", "feature_statistics"]

_PIECE_BYTES = 1 << 20
_CENTRE_ROWS = 63  # odd, so that the median is one of the values
_BYTE_ROWS, _MOST_BYTES = 4096, 32_768  # rows and columns for which sums of squares of bytes fit int32


class FeatureStatistics(NamedTuple):
    """Means, variances and norms of rows.

    Attributes
    ----------
    mean : ndarray of float64, shape (n_features,)
        Mean of each feature.
    feature_variance : ndarray of float64, shape (n_features,)
        Variance of each feature (divided by n).
    variance : float
        Variance of all values, `X.var()`.
    centre : ndarray of float64, shape (n_features,)
        A point near the middle of the data. It has integer coordinates for integer data and is zero for sparse rows.
    sq_norm : float
        The largest squared norm of a row.
    centred_sq_norm : float
        The largest squared norm of a row minus `centre`.
    usual_sq_norm : float
        The mean squared norm of a row minus `centre`.
    """

    mean: np.ndarray
    feature_variance: np.ndarray
    variance: float
    centre: np.ndarray
    sq_norm: float
    centred_sq_norm: float
    usual_sq_norm: float

    def varying(self, n_rows: int) -> np.ndarray:
        """Return which features have a variance above its rounding error for `n_rows` rows.

        The bound is that of Chan, Golub and LeVeque (1983) for two passes over the rows.
        """
        unit = np.finfo(np.float64).eps
        rounding = n_rows * unit * self.feature_variance + (n_rows * unit * self.mean) ** 2
        return self.feature_variance > rounding

    def affine(self, scale: float, offset: float) -> "FeatureStatistics":
        """Return the statistics of offset + scale x. With an offset, `sq_norm` is an upper bound."""
        longest = scale * self.sq_norm**0.5 + abs(offset) * len(self.mean) ** 0.5
        return FeatureStatistics(
            offset + scale * self.mean,
            scale**2 * self.feature_variance,
            scale**2 * self.variance,
            offset + scale * self.centre,
            longest**2,
            scale**2 * self.centred_sq_norm,
            scale**2 * self.usual_sq_norm,
        )


def feature_statistics(source: Source, weight: np.ndarray | None = None) -> FeatureStatistics:
    """Return means, variances and norms of the rows, which must be finite.

    Moments of blocks are merged by equation 2.1 of Chan, Golub and LeVeque (1983), so that a large mean does not
    cost the variance its digits.

    Parameters
    ----------
    source : Source
        At least one row.
    weight : ndarray of float64, shape (n,), or None
        Weights of the rows in means and variances, at least one of them positive.

    Returns
    -------
    FeatureStatistics

    Raises
    ------
    ValueError
        If a value is NaN or infinite; the message names its row and column.
    """
    n_features = source.shape[1]
    total, mean, squares = 0.0, np.zeros(n_features), np.zeros(n_features)
    centre, sq_norm, centred_sq_norm = np.zeros(n_features), 0.0, 0.0
    for start, block in _pieces(source):
        if start == 0:
            count = min(_CENTRE_ROWS, len(source))  # in whatever blocks they come
            first = block.slice(0, count) if block.shape[0] >= count else source.rows(np.arange(count))
            centre = _centre(first, source.dtype)
        rows = np.ones(block.shape[0]) if weight is None else weight[start : start + block.shape[0]]
        moments = _byte_moments if weight is None and _is_bytes(source) else _moments
        with np.errstate(all="ignore"):  # values that are not finite raise an error below
            block_mean, block_squares, norms, centred = moments(block, rows, centre)
        longest = float(norms.max())
        if not (math.isfinite(longest) and np.isfinite(block_squares.max(initial=0))):  # sums of squares
            _refuse(block, start)
        added = rows.sum()
        if added > 0:
            _merge(mean, squares, (block_mean, block_squares), (float(total), float(added)))
            total += added
        sq_norm = max(sq_norm, longest)
        centred_sq_norm = max(centred_sq_norm, float(centred.max()))
    feature_variance = squares / total
    within, between, from_centre = float(feature_variance.sum()), mean - mean.sum() / n_features, mean - centre
    variance = (within + float(between @ between)) / n_features
    usual = within + float(from_centre @ from_centre)
    return FeatureStatistics(mean, feature_variance, variance, centre, sq_norm, centred_sq_norm, usual)


@jit
def _merge(mean, squares, others, totals):
    """Merge the moments of other rows into those of the rows so far, without an array more: features may be many."""
    other_mean, other_squares = others
    total, added = totals
    share, weight = added / (total + added), total * added / (total + added)
    for k in range(mean.size):
        delta = other_mean[k] - mean[k]
        mean[k] += delta * share
        squares[k] += other_squares[k] + delta * delta * weight


def _pieces(source: Source) -> Iterator[tuple[int, Block]]:
    """Yield each block with the number of its first row. Dense blocks are cut to fit a cache in float64."""
    if source.sparse:
        yield from source.blocks()
        return
    n_rows = _BYTE_ROWS if _is_bytes(source) else max(1, _PIECE_BYTES // (8 * max(1, source.shape[1])))
    for start, block in source.blocks():
        for a in range(0, block.shape[0], n_rows):
            yield start + a, block.slice(a, min(a + n_rows, block.shape[0]))


def check_finite(block: Block, start: int) -> None:
    """Raise ValueError if a value is NaN or infinite; the message names its row, counted from `start`, and column."""
    data = block.stored
    if data.dtype.kind == "f":
        with np.errstate(all="ignore"):
            total = data.sum(dtype=np.float64)
        if not np.isfinite(total) and not np.isfinite(data).all():
            _refuse(block, start)


def _centre(block: Block, dtype: np.dtype) -> np.ndarray:
    if isinstance(block, CSRBlock):
        return np.zeros(block.n_features)
    values = np.sort(block.dense(np.float64), axis=0)  # np.median takes several times as long
    middle = len(values) // 2
    with np.errstate(all="ignore"):  # one outlier does not change the median
        centre = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
    centre[~np.isfinite(centre)] = 0  # the block with such a row is refused
    # Differences of integers stay exact in float32.
    return np.rint(centre) if dtype.kind in "iub" else centre


def _moments(
    block: Block, weight: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, the sum of squared deviations from it, and squared norms, before and after centring."""
    total = max(weight.sum(), np.finfo(np.float64).tiny)
    if isinstance(block, CSRBlock):
        mean, counts, squares = (np.zeros(block.n_features) for _ in range(3))
        norms = np.empty(block.shape[0])
        rows = writeable(block.data.astype(np.float64, copy=False)), writeable(block.indices), writeable(block.indptr)
        _sparse_moments(rows, weight, (mean, counts, squares), float(total), norms)
        return mean, squares, norms, norms
    n, d = block.shape
    sums = np.zeros(d), np.zeros(d), np.empty(n), np.empty(n)
    _sum_moments(writeable(np.ascontiguousarray(block.dense(np.float64))), weight / total, centre, sums)
    return sums[0], total * sums[1], sums[2], sums[3]


@jit
def _sum_moments(rows, share, centre, sums):
    """Sum rows and their squared deviations from the mean, by their shares, and squares with and without the centre."""
    mean, squares, norms, centred = sums
    for i in range(rows.shape[0]):
        row = rows[i]
        for k in range(row.size):
            mean[k] += share[i] * row[k]
    for i in range(rows.shape[0]):
        row, norm, distance = rows[i], 0.0, 0.0
        for k in range(row.size):
            squares[k] += share[i] * (row[k] - mean[k]) ** 2
        for k in range(row.size):
            norm += row[k] * row[k]
            distance += (row[k] - centre[k]) ** 2
        norms[i], centred[i] = norm, distance


@jit
def _sparse_moments(rows, weight, moments, total, norms):
    """Write means, sums of squared deviations from them, and squared norms; the counts are what is not zero."""
    data, indices, indptr = rows
    mean, counts, squares = moments
    for i in range(norms.size):
        norm = 0.0
        for t in range(indptr[i], indptr[i + 1]):
            mean[indices[t]] += weight[i] * data[t]
            counts[indices[t]] += weight[i]
            norm += data[t] * data[t]
        norms[i] = norm
    for k in range(mean.size):
        mean[k] /= total
    for i in range(norms.size):
        for t in range(indptr[i], indptr[i + 1]):
            deviation = data[t] - mean[indices[t]]
            squares[indices[t]] += weight[i] * deviation * deviation
    for k in range(mean.size):
        squares[k] = max(0.0, squares[k] + (total - counts[k]) * mean[k] * mean[k])


def _is_bytes(source: Source) -> bool:
    return source.dtype == np.uint8 and not source.sparse and source.shape[1] <= _MOST_BYTES


def _byte_moments(
    block: Block, weight: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the moments of bytes with weights of 1, from sums of integers."""
    n, d = block.shape
    sums, squares = np.zeros(d, np.int32), np.zeros(d, np.int32)
    norms, centred = np.empty(n, np.int64), np.empty(n, np.int64)
    _sum_bytes(np.ascontiguousarray(block.stored), centre.astype(np.int32), sums, squares, norms, centred)
    mean = sums / n
    return mean, squares - n * mean**2, norms.astype(np.float64), centred.astype(np.float64)


@jit
def _sum_bytes(rows, centre, sums, squares, norms, centred):
    """Sum bytes and their squares for each column, and squares for each row with and without the centre."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for k in range(row.size):
            sums[k] += row[k]
        for k in range(row.size):
            squares[k] += np.int32(row[k]) * np.int32(row[k])
        norm, distance = np.int32(0), np.int32(0)
        for k in range(row.size):
            norm = np.int32(norm + np.int32(row[k]) * np.int32(row[k]))
        for k in range(row.size):
            value = np.int32(np.int32(row[k]) - centre[k])
            distance = np.int32(distance + value * value)
        norms[i], centred[i] = norm, distance


def _refuse(block: Block, start: int) -> None:
    """Raise the error that names the first value that is not finite, or whose square is not."""
    data = block.stored
    bad = np.argwhere(~np.isfinite(data))
    if len(bad) == 0:
        raise ValueError(
            f"Input X contains values too large for squared distances in float64, in rows {start} to "
            f"{start + block.shape[0]}; scale the features."
        )
    first = tuple(bad[0])
    if isinstance(block, CSRBlock):
        row = int(np.searchsorted(block.indptr, first[0], side="right")) - 1
        column = int(block.indices[first])
    else:
        row, column = int(first[0]), int(first[1])
    name = "NaN" if np.isnan(data[first]) else "infinity"
    raise ValueError(
        f"Input X contains {name}. The first is at row {start + row}, column {column}. SVMs take finite numbers only "
        "(no NaN, no inf): remove such rows, or impute them, for example with sklearn.impute.SimpleImputer."
    )
