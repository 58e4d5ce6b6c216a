"""Means, variances and norms of the rows of a source, in one pass, and the view that they standardise."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order, writeable
from fastsvm._compiled.scalars import maximum, minimum
from fastsvm.sources.base import ScaledSource, Source
from fastsvm.sources.block import Block

_CENTRE_ROWS = 15  # So many rows tell a centre. The number is odd, so that their median is one of them.
_CENTRE_COLUMNS = 64  # So many features are sorted side by side.
_TINY = np.finfo(np.float64).tiny


class FeatureStatistics(NamedTuple):
    """Means, variances and norms of rows. Arrays are of float64, shape (n_features,)."""

    mean: np.ndarray
    feature_variance: np.ndarray  # It is divided by n.
    variance: float  # It is that of all values, `X.var()`.
    centre: np.ndarray  # It is near the middle: of integers for integer data, zero for sparse rows.
    sq_norm: float  # It is the largest squared norm of a row.
    centred_sq_norm: float  # It is the largest squared norm of a row minus `centre`.
    usual_sq_norm: float  # It is the mean squared norm of a row minus `centre`.

    def varying(self, n_rows: int) -> np.ndarray:
        """Return which features vary more than by the rounding of two passes (Chan, Golub and LeVeque 1983)."""
        unit = np.finfo(np.float64).eps
        rounding = n_rows * unit * self.feature_variance + (n_rows * unit * self.mean) ** 2
        return self.feature_variance > rounding

    def scale(self, n_rows: int) -> np.ndarray:
        """Return what makes the variance of each feature of `n_rows` rows 1; it is 1 for constant features."""
        varying, scale = self.varying(n_rows), np.ones(len(self.mean))
        scale[varying] /= np.sqrt(self.feature_variance[varying])
        return scale

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
    """Return means and variances, by the weights, and norms of the rows, at least one.

    At least one weight must be positive. ValueError names the row and column of a value that is NaN or infinite.
    """
    n_features = source.shape[1]
    mean, squares = np.zeros(n_features), np.zeros(n_features)  # squared deviations from the mean so far
    total, sq_norm, centred_sq_norm, centre = 0.0, 0.0, 0.0, np.zeros(n_features)
    for start, block in _pieces(source):
        if start == 0 and not source.sparse:
            count = min(_CENTRE_ROWS, len(source))  # in whatever blocks they come
            first = block.slice(0, count) if block.shape[0] >= count else source.read(0, count)
            # Differences of integers stay exact in float32.
            _find_centre(writeable(first.dense(np.float64)), source.dtype.kind in "iub", centre)
        weights = np.ones(block.shape[0]) if weight is None else writeable(weight[start : start + block.shape[0]])
        if source.sparse:
            data, indices, indptr = map(writeable, block.arrays)
            data = data.astype(np.float64, copy=False)
            total, longest, farthest = _sum_sparse(data, indices, indptr, weights, mean, squares, total)
        else:
            rows = writeable(block.dense(np.float64))
            total, longest, farthest = _sum_dense(rows, weights, centre, mean, squares, total)
        if not math.isfinite(longest):
            _refuse(block, start)
        sq_norm, centred_sq_norm = max(sq_norm, longest), max(centred_sq_norm, farthest)
    variance, usual = _finish(mean, squares, total, centre)
    return FeatureStatistics(mean, squares, variance, centre, sq_norm, centred_sq_norm, usual)


def standardized(source: Source, dtype: np.dtype | type = np.float32, weight: np.ndarray | None = None) -> ScaledSource:
    """Return the view in which features have mean 0 and variance 1, by `weight`; sparse sources are only scaled."""
    uniform = weight is None or (weight == weight[0]).all()
    statistics = feature_statistics(source, None if uniform else weight)
    return ScaledSource(source, None if source.sparse else statistics.mean, statistics.scale(len(source)), dtype)


@jit
def _merge(mean, squares, total, other_mean, other_squares, added):
    """Merge the moments of other rows into those so far, in place, and return whether all of the others are finite."""
    # Equation 2.1 of Chan, Golub and LeVeque (1983): a large mean does not cost the variance its digits.
    is_finite = True
    if added > 0:
        share, weight = added / (total + added), total * added / (total + added)
        for k in range(mean.size):
            delta = other_mean[k] - mean[k]
            mean[k] += delta * share
            squares[k] += other_squares[k] + delta * delta * weight
            is_finite = is_finite and np.isfinite(other_squares[k])
    return is_finite


@jit
def _finish(mean, squares, total, centre):
    """Make variances of the squared deviations; return the variance of all values, and the usual distance²."""
    within, middle, between, away = 0.0, 0.0, 0.0, 0.0
    for k in range(mean.size):
        squares[k] /= total
    for k in range(mean.size):
        within += squares[k]
        middle += mean[k]
    middle /= mean.size
    for k in range(mean.size):
        between += (mean[k] - middle) ** 2
        away += (mean[k] - centre[k]) ** 2
    return (within + between) / mean.size, within + away


def _pieces(source: Source) -> Iterator[tuple[int, Block]]:
    """Yield each block with the number of its first row. Dense blocks are cut to fit a cache in float64."""
    if source.sparse:
        yield from source.blocks()
        return
    n_rows = max(1, source.tuning.piece_bytes // (8 * max(1, source.shape[1])))
    for start, block in source.blocks():
        for a in range(0, block.shape[0], n_rows):
            yield start + a, block.slice(a, min(a + n_rows, block.shape[0]))


def check_finite(block: Block, start: int) -> None:
    """Raise ValueError if a value is NaN or infinite; it names its row, counted from `start`, and column."""
    data = block.stored
    if data.dtype.kind == "f":
        with np.errstate(all="ignore"):
            total = data.sum(dtype=np.float64)
        if not np.isfinite(total) and not np.isfinite(data).all():
            _refuse(block, start)


@jit
def _find_centre(rows, is_whole, centre):
    """Write the median of each feature, which one outlier does not change; rounded for whole numbers."""
    n, values = len(rows), np.empty((len(rows), _CENTRE_COLUMNS))
    for first in range(0, centre.size, _CENTRE_COLUMNS):
        count = min(_CENTRE_COLUMNS, centre.size - first)
        for i in range(n):  # sorts few values of many features at once
            above, source = values[i], rows[i, first:]
            for k in range(count):
                above[k] = source[k]
            for j in range(i):
                below = values[j]
                for k in range(count):
                    one, other = below[k], above[k]
                    below[k], above[k] = minimum(one, other), maximum(one, other)
        for k in range(count):
            median = (values[(n - 1) // 2, k] + values[n // 2, k]) / 2
            if np.isfinite(median):  # else the block with such a value is refused
                centre[first + k] = np.rint(median) if is_whole else median


@jit
def _sum_dense(rows, weight, centre, mean_so_far, squares_so_far, total):
    """Add rows to the moments; return the sum of weights and the largest squared norms, of rows and from the centre."""
    added, longest, farthest, is_finite = 0.0, 0.0, 0.0, True
    mean, squares = np.zeros(centre.size), np.zeros(centre.size)
    for i in range(weight.size):
        added += weight[i]
    # Differences from the origin are 0 in constant features, whose mean is then their value to the last bit.
    origin = mean_so_far
    if total == 0:
        for i in range(weight.size):
            if weight[i] > 0:
                origin = rows[i]
                break
    for i in range(rows.shape[0]):
        row, share = rows[i], weight[i] / max(added, _TINY)
        for k in range(row.size):
            mean[k] += share * (row[k] - origin[k])
    for k in range(mean.size):
        mean[k] += origin[k]
    for i in range(rows.shape[0]):
        row, norm, distance = rows[i], 0.0, 0.0
        for k in range(row.size):
            squares[k] += weight[i] * (row[k] - mean[k]) ** 2
        for k in range(row.size):
            norm += row[k] * row[k]
            distance += (row[k] - centre[k]) ** 2
        is_finite = is_finite and norm < np.inf
        longest, farthest = max(longest, norm), max(farthest, distance)
    is_finite = _merge(mean_so_far, squares_so_far, total, mean, squares, added) and is_finite
    return total + added, longest if is_finite else np.inf, farthest


@jit_in_order  # so that the weights of a feature that no row lacks have the sum of all weights, to the last bit
def _sum_sparse(data, indices, indptr, weight, mean_so_far, squares_so_far, total):
    """Do the same for sparse rows, whose centre is zero."""
    added, longest, is_finite, d = 0.0, 0.0, True, mean_so_far.size
    mean, counts, squares = np.zeros(d), np.zeros(d), np.zeros(d)
    for i in range(weight.size):
        added += weight[i]
    for i in range(weight.size):
        norm = 0.0
        for t in range(indptr[i], indptr[i + 1]):
            mean[indices[t]] += weight[i] * data[t]
            counts[indices[t]] += weight[i]  # of what is not zero
            norm += data[t] * data[t]
        is_finite = is_finite and norm < np.inf
        longest = max(longest, norm)
    for k in range(d):
        mean[k] /= max(added, _TINY)
    for i in range(weight.size):
        for t in range(indptr[i], indptr[i + 1]):
            deviation = data[t] - mean[indices[t]]
            squares[indices[t]] += weight[i] * deviation * deviation
    for k in range(d):
        squares[k] = max(0.0, squares[k] + (added - counts[k]) * mean[k] * mean[k])
    is_finite = _merge(mean_so_far, squares_so_far, total, mean, squares, added) and is_finite
    longest = longest if is_finite else np.inf
    return total + added, longest, longest


def _not_finite(name: str, row: int, column: int, path: object = "") -> ValueError:
    """Return the error of a value. It is a ValueError like scikit-learn's, and knows its place."""
    where = f"row {row}, column {column}{f' of {path}' if path else ''}"
    error = ValueError(
        f"Input X contains {name}. The first is at {where}. SVMs take finite numbers only (no NaN, no inf): remove "
        "such rows, or impute them, for example with sklearn.impute.SimpleImputer."
    )
    error.__dict__["place"] = name, row, column
    return error


def error_in_file(error: ValueError, rows: np.ndarray, path: object) -> ValueError:
    """Return the error of a bad value with its row in a file, of which the samples were some rows; others unchanged."""
    if "place" not in error.__dict__:
        return error
    name, row, column = error.__dict__["place"]
    return _not_finite(name, int(rows[row]), column, path)


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
    row, column = block.position(*first)
    name = "NaN" if np.isnan(data[first]) else "infinity"
    raise _not_finite(name, start + row, column)
