"""From what the user passes as X and y to shards that the workers hold, and what the rows of all shards are like.

Rows never come to the client. Of files, Parquet and Zarr become collections of Dask; HDF5 is read in spans of rows. The
rows of a shard are one result of Dask, which it keeps, spills to disk, sends to another worker or computes again.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import getitem
from os import PathLike, fspath
from pathlib import PurePath
from typing import NamedTuple, TypeGuard, cast

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from distributed import Future
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm.dask.tasks import Tasks, count, counting
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.fitting.validation import Column, Samples, check_training_set
from fastsvm.estimators.kernel.kernel_parameter import Standardization
from fastsvm.formats.readers.stream import check_weights
from fastsvm.sources import FeatureStatistics, MemorySource, check_finite, feature_statistics, open_hdf5, stacked

_LABELS, _WEIGHTS = "y", "sample_weight"

Columns = tuple[object, object, object]
"""Rows, labels or targets, and weights or None, as `fit` takes them."""

Blocks = list[Delayed | Future]
"""Blocks of rows, or of a column, whose values the workers compute."""


class ShardRows:
    """The rows of a shard, perhaps none, with labels or targets, weights, and the names of the features."""

    def __init__(self, X: Samples, y: np.ndarray, weight: np.ndarray, names: np.ndarray | None) -> None:
        self.X, self.y, self.weight, self.names = X, y, weight, names

    def __sizeof__(self) -> int:
        """Return the bytes of the arrays, by which Dask counts."""
        X = self.X
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        return 64 + sum(part.nbytes for part in (*parts, self.y, self.weight))


class ShardFacts(NamedTuple):
    """What the client learns of a shard: the labels of positive weight, each once, and the sums of their weights."""

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    names: np.ndarray | None
    labels: np.ndarray
    weights: np.ndarray
    total: float  # It is the sum of the weights.


class ClusterFit(NamedTuple):
    """A fit that began at a moment of time.perf_counter, and whose shards are loaded."""

    tasks: Tasks
    session: FitSession
    begin: float
    rows: list[Future]
    sizes: list[int]  # They are the numbers of rows of the shards.
    facts: list[ShardFacts]
    whole: ShardFacts  # They are the facts of all shards together.


def load_shards(
    tasks: Tasks, X: object, y: object, sample_weight: object, n_shards: int | None, of_classes: bool
) -> tuple[list[Future], list[ShardFacts]]:
    """Return the shards, one for each worker if `n_shards` is None, as futures, and what the client knows of them."""
    n_shards = max(1, tasks.n_workers) if n_shards is None else n_shards
    paths = _paths_of(X)
    collections = (X, y, sample_weight) if paths is None else _collections_of(paths, y, sample_weight)
    if collections is None:
        rows = _read(tasks, paths or [], y, sample_weight, n_shards, of_classes)
    else:
        if collections[1] is None:
            raise ValueError(
                "fit needs y, the labels of the rows: it was not passed. Only files have labels of their own."
            )
        rows = _gather(tasks, blocks_together(*collections), n_shards, of_classes)
    return rows, tasks.gathered(tasks.each("facts", facts_of, rows, of_classes))


def joined_facts(facts: list[ShardFacts], of_classes: bool) -> ShardFacts:
    """Return the facts of all shards together; raise ValueError if they do not fit together."""
    filled = [one for one in facts if one.shape[0]]
    if not filled:
        raise ValueError("X has no rows: all shards are empty.")
    first = filled[0]
    for one in filled:
        if one.shape[1] != first.shape[1]:
            raise ValueError(f"The blocks of X must have the same features; found {first.shape[1]} and {one.shape[1]}.")
        if (one.dtype, one.sparse) != (first.dtype, first.sparse):
            kinds = [f"{'sparse' if each.sparse else 'dense'} {each.dtype}" for each in (first, one)]
            raise ValueError(f"The blocks of X must be of one type; found {' and '.join(kinds)}. Convert them to one.")
    total = sum(one.total for one in filled)
    if total <= 0:
        raise ValueError("All entries of sample_weight are zero. At least one sample must have a positive weight.")
    labels = weights = np.empty(0)
    if of_classes:
        labels, number = np.unique(np.concatenate([one.labels for one in filled if one.total]), return_inverse=True)
        sums = np.concatenate([one.weights for one in filled if one.total])
        weights = np.bincount(number.ravel(), sums).astype(np.float64)
        if len(labels) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(labels)} class.")
    n_rows = sum(one.shape[0] for one in facts)
    return first._replace(shape=(n_rows, first.shape[1]), labels=labels, weights=weights, total=total)


# --- files -----------------------------------------------------------------------------------------------


class FilePart(NamedTuple):
    """Some consecutive rows of an HDF5 file."""

    path: str
    start: int
    stop: int


def _length(path: str) -> int:
    """Return the number of rows of a file."""
    with open_hdf5(path) as data:
        return len(data)


def _read(
    tasks: Tasks, paths: list[str], y: object, sample_weight: object, n_shards: int, of_classes: bool
) -> list[Future]:
    """Return shards of nearly equal numbers of rows of files, which the workers read."""
    if y is not None or sample_weight is not None:
        raise ValueError("HDF5 files have labels and weights of their own, y and sample_weight: pass none.")
    lengths = tasks.gathered(tasks.each("length", _length, paths))
    ends = np.cumsum(lengths)
    shards = []
    for start, stop in pairwise(np.linspace(0, ends[-1], n_shards + 1).astype(int).tolist()):
        begun = zip(paths, (ends - lengths).tolist(), lengths, strict=True)
        spans = [(path, max(start - begin, 0), min(stop - begin, length)) for path, begin, length in begun]
        shards.append([FilePart(*span) for span in spans if span[1] < span[2]])
    return tasks.each("rows", gather_rows, list(filter(None, shards)), None, None, of_classes)


def _paths_of(X: object) -> list[str] | None:
    """Return the paths of files that X is, or None."""
    given = X if isinstance(X, (list, tuple)) else [X]
    paths = [fspath(one) for one in given if isinstance(one, (str, PathLike))]
    return paths if paths and len(paths) == len(given) else None


def _collections_of(paths: Sequence[str], y: object, sample_weight: object) -> Columns | None:
    """Return rows, labels and weights of Parquet or Zarr files as collections of Dask; None for HDF5 files."""
    endings = {PurePath(path.rstrip("/")).suffix.lower() for path in paths}
    suffixes = {".parquet" if ending == ".pq" else ending for ending in endings}
    if not suffixes & {".parquet", ".zarr"}:
        return None
    if len(suffixes) > 1:
        raise ValueError(f"The files must have one format; found {', '.join(sorted(suffixes))}.")
    for name, column in ((_LABELS, y), (_WEIGHTS, sample_weight)):
        if not isinstance(column, str | None):
            raise ValueError(
                f"Of files, {name} is the name of a column or an array, and None is {name!r}; found "
                f"{type(column).__name__}."
            )
    read = _parquet if suffixes == {".parquet"} else _zarr
    return read(paths, cast(str | None, y) or _LABELS, cast(str | None, sample_weight))


def _parquet(paths: Sequence[str], y: str, sample_weight: str | None) -> Columns:
    """Return the columns of Parquet files, in a partition for each row group."""
    try:
        import dask.dataframe as dd
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow and pandas: pip install 'fastsvm[dask]'.") from error
    frame = dd.read_parquet(list(paths), split_row_groups=True)
    columns = list(map(str, frame.columns))
    weights = _weights_in(sample_weight, columns, paths)
    if y not in columns:
        raise ValueError(f"{paths[0]} has no column {y!r} with the labels, but {_listed(columns)}: pass y='name'.")
    parts, rows = frame.to_delayed(), [name for name in columns if name not in (y, weights)]
    each = [[dask.delayed(getitem)(part, wanted) for part in parts] for wanted in (rows, y, weights) if wanted]
    return each[0], each[1], each[2] if weights else None


def _zarr(paths: Sequence[str], y: str, sample_weight: str | None) -> Columns:
    """Return the arrays of Zarr groups, in their chunks."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Zarr files need zarr: pip install 'fastsvm[zarr]'.") from error
    parts: list[list[da.Array]] = []
    for path in paths:
        group = zarr.open_group(path, mode="r")
        names = list(group.array_keys())
        for name, what in (("X", "rows"), (y, "labels")):
            if name not in names:
                raise ValueError(f"{path} has no array {name!r} with the {what}, but {_listed(names)}.")
        weights = _weights_in(sample_weight, names, [path])
        wanted = ["X", y, *([] if weights is None else [weights])]
        parts.append([da.from_zarr(path, component=name) for name in wanted])
    if len({len(part) for part in parts}) > 1:
        raise ValueError(f"Some of the files have an array {_WEIGHTS!r} and some have none: all need one, or none.")
    rows, labels, *more = (da.concatenate(column) for column in zip(*parts, strict=True))
    return rows, labels, more[0] if more else None


def _weights_in(name: str | None, names: Sequence[str], paths: Sequence[str]) -> str | None:
    """Return the name of the weights; None if there are none."""
    if name is None:
        return _WEIGHTS if _WEIGHTS in names else None
    if name not in names:
        raise ValueError(f"{paths[0]} has no {name!r} with the weights, but {_listed(names)}.")
    return name


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


# --- blocks ----------------------------------------------------------------------------------------------


def blocks_together(X: object, y: object, sample_weight: object) -> list[Blocks]:
    """Return the blocks of rows, labels and weights, which are as many; a column that is None has no blocks."""
    if isinstance(X, da.Array) and X.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and features; it has {X.ndim}.")
    rows = _delayed(X, "X")
    columns = [_column_blocks(X, column, name) for name, column in (("y", y), ("sample_weight", sample_weight))]
    for name, column in zip(("y", "sample_weight"), columns, strict=True):
        if column and len(column) != len(rows):
            raise ValueError(
                f"X has {len(rows)} blocks and {name} has {len(column)}: they need the same blocks of rows. "
                "Rechunk one like the other; of unknown chunk sizes, call compute_chunk_sizes() first. Pass columns of "
                "a dataframe as they are, without .values, and persist the frame instead of its columns."
            )
    return [rows, *columns]


def _column_blocks(X: object, column: object, name: str) -> Blocks:
    """Return the blocks of a column, in those of X if both are arrays; none if it is None."""
    if column is None:
        return []
    in_blocks = dask.is_dask_collection(column) or isinstance(column, Future) or _is_delayed(column)
    if dask.is_dask_collection(X) and not in_blocks:
        column = da.from_array(np.asarray(column), chunks=-1)
    if isinstance(column, da.Array) and column.ndim != 1:
        raise ValueError(f"{name} must have one dimension; it has {column.ndim}.")
    if isinstance(column, da.Array) and isinstance(X, da.Array):
        have_lengths = not (np.isnan(X.shape[0]) or np.isnan(column.shape[0]))
        if have_lengths and X.shape[0] != column.shape[0]:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[X.shape[0], column.shape[0]]}. X has "
                f"{X.shape[0]}, {name} has {column.shape[0]}."
            )
        if have_lengths and X.chunks[0] != column.chunks[0]:
            column = column.rechunk((X.chunks[0],))
    return _delayed(column, name)


def _is_delayed(value: object) -> TypeGuard[Blocks]:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, Delayed | Future) for one in value)


def blocks_of(collection: Samples) -> Blocks:
    """Return the blocks of rows of a collection of Dask, each with all features."""
    if isinstance(collection, da.Array) and collection.ndim == 2 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    # Optimised frames of few columns have fewer, larger blocks: rows and labels would be in different ones.
    whole = {} if isinstance(collection, da.Array) else {"optimize_graph": False}
    return list(np.asarray(collection.to_delayed(**whole), dtype=object).ravel())


def _delayed(value: object, name: str) -> Blocks:
    """Return the blocks of a collection of Dask, or of delayed values and futures."""
    if hasattr(value, "to_delayed") and dask.is_dask_collection(value):
        return blocks_of(value)
    if isinstance(value, Delayed | Future):
        return [value]
    if _is_delayed(value):
        return list(value)
    raise TypeError(
        f"{name} is {type(value).__name__}; pass a dask array, a dask dataframe, a list of delayed blocks or of "
        "futures, or, as X, paths of HDF5, Parquet or Zarr files. For data in the memory of this process, use "
        "fastsvm's own estimator."
    )


def _gather(tasks: Tasks, blocks: list[Blocks], n_shards: int, of_classes: bool) -> list[Future]:
    """Return shards of consecutive blocks."""
    n_blocks = len(blocks[0])
    cuts = np.linspace(0, n_blocks, min(n_shards, n_blocks) + 1).astype(int).tolist()
    shards = []
    for number, (start, stop) in enumerate(pairwise(cuts)):
        parts = [part[start:stop] or None for part in blocks]
        key = f"svm-rows-{number}-{tasks.token}"
        rows = dask.delayed(gather_rows, pure=False)(*parts, of_classes, dask_key_name=key)
        shards.append(tasks.client.compute(rows, retries=tasks.tuning.retries))
    return shards


# --- what workers do -------------------------------------------------------------------------------------

# It stands in for an estimator in checks of data, whose messages call it so.
_Checked = type("LinearSVM", (BaseEstimator,), {"memory": "auto"})


@counting("reading")
def gather_rows(blocks: list[Samples], labels: list | None, weights: list | None, of_classes: bool) -> ShardRows:
    """Return the rows of some blocks as one shard; labels and weights are in blocks as long, or in the files."""
    parts, names = [], None
    for number, block in enumerate(blocks):
        estimator = _Checked()
        y: Column = None if labels is None else labels[number]
        weight = None if weights is None else weights[number]
        if isinstance(block, FilePart):
            block, y, weight, names = _rows_of_file(block)
        if len(block) if hasattr(block, "columns") else block.shape[0]:
            weight = None if weight is None else np.asarray(weight, np.float64)
            # Other shards may have weights, so that a block without them is no error.
            is_unused = weight is not None and weight.shape == np.shape(y) and not weight.any()
            data = check_training_set(estimator, block, y, None if is_unused else weight, of_classes=of_classes)
            names = getattr(estimator, "feature_names_in_", names)
            X = data.source.read(0, len(data.source)).user_array()
            parts.append(ShardRows(X, data.y, np.zeros(len(data.y)) if is_unused else data.weight, names))
        elif y is not None and len(y):
            raise ValueError(f"A block of X has no rows, and that of y has {len(y)}: their chunks must be the same.")
    if not parts:
        block = blocks[0].to_numpy() if hasattr(blocks[0], "columns") else blocks[0]
        return ShardRows(block, np.empty(0), np.empty(0), None)
    count("rows", sum(len(part.y) for part in parts))
    return joined(parts)


def _rows_of_file(part: FilePart) -> tuple[Samples, np.ndarray, Column, np.ndarray | None]:
    """Return rows of an HDF5 file, with their labels, weights and the names of the features."""
    with open_hdf5(part.path) as data:
        if data.y is None:
            raise ValueError(f"{part.path} has no dataset 'y' with the labels.")
        rows = slice(part.start, part.stop)
        block, y = data.X.read(part.start, part.stop), data.y[rows]
        check_finite(block, part.start)
        weight = None if data.sample_weight is None else data.sample_weight[rows].astype(np.float64)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            row = part.start + int(np.argmin(np.isfinite(y)))
            raise ValueError(f"{part.path}: the label of row {row} is not a finite number.")
        if weight is not None:
            check_weights(weight, f"{part.path}, sample_weight", part.start)
        return block.user_array(), y, weight, data.feature_names


def joined(parts: list[ShardRows]) -> ShardRows:
    """Return several parts of a shard as one, which has the names of the last."""
    if len(parts) == 1:
        return parts[0]
    y, weight = np.concatenate([part.y for part in parts]), np.concatenate([part.weight for part in parts])
    return ShardRows(stacked([part.X for part in parts]), y, weight, parts[-1].names)


def rows_at(rows: ShardRows, numbers: np.ndarray) -> ShardRows:
    """Return some rows of a shard."""
    return ShardRows(rows.X[numbers], rows.y[numbers], rows.weight[numbers], None)


def facts_of(rows: ShardRows, of_classes: bool) -> ShardFacts:
    """Return what the client needs to know of a shard."""
    used = rows.weight > 0
    labels, weights = np.empty(0), np.empty(0)
    if of_classes and used.any():
        labels, number = np.unique(rows.y[used], return_inverse=True)
        weights = np.bincount(number.ravel(), rows.weight[used], len(labels)).astype(np.float64)
    total = float(rows.weight.sum())
    return ShardFacts(rows.X.shape, rows.X.dtype, sparse.issparse(rows.X), rows.names, labels, weights, total)


def rows_of_shards(fit: ClusterFit, numbers: np.ndarray) -> ShardRows:
    """Fetch some rows, whose numbers among those of all shards rise. No rows have the shape of the first shard's."""
    ends = np.cumsum(fit.sizes)
    parts = [part - end for part, end in zip(np.split(numbers, np.searchsorted(numbers, ends[:-1])), ends, strict=True)]
    wanted = [k for k, part in enumerate(parts) if len(part)] or [0]
    rows, parts = [fit.rows[k] for k in wanted], [parts[k] + fit.sizes[k] for k in wanted]
    return joined(fit.tasks.gathered(fit.tasks.each("fetched", rows_at, rows, parts)))


# --- features ----------------------------------------------------------------------------------------------------


def _statistics_of(rows: ShardRows, seen: Standardization | None) -> FeatureStatistics:
    """Return the statistics of the features of a shard, as a map shows them."""
    uniform, source = (rows.weight == rows.weight[0]).all(), MemorySource.of(rows.X)
    return feature_statistics(source if seen is None else seen.apply(source), None if uniform else rows.weight)


def moments_of_shards(fit: ClusterFit, seen: Standardization | None = None) -> FeatureStatistics:
    """Return the statistics of all shards, as `seen` shows their rows; norms after centring are bounds."""
    name, used = "columns" if seen is None else "seen", [k for k, one in enumerate(fit.facts) if one.total > 0]
    parts = fit.tasks.gathered(fit.tasks.each(name, _statistics_of, [fit.rows[k] for k in used], seen))
    share, centre = np.array([fit.facts[k].total for k in used]) / fit.whole.total, parts[0].centre
    means, variances = np.array([one.mean for one in parts]), np.array([one.feature_variance for one in parts])
    # Differences from the first shard are 0 in constant features, so that these have no variance.
    mean = parts[0].mean + share @ (means - parts[0].mean)
    variance = share @ (variances + (means - mean) ** 2)
    every, usual = float(variance.mean() + mean.var()), float(variance.sum() + ((mean - centre) ** 2).sum())
    farthest = max(one.centred_sq_norm**0.5 + float(np.linalg.norm(one.centre - centre)) for one in parts) ** 2
    return FeatureStatistics(mean, variance, every, centre, max(one.sq_norm for one in parts), farthest, usual)
