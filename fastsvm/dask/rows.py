"""From what the user passes as X and y to shards that the workers hold. Rows never come to the client."""

from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from distributed import Future

from fastsvm.dask.files import collections_of, paths_of
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import FilePart, ShardFacts, facts_of, gather_rows, read_rows
from fastsvm.sources import open_hdf5

__all__ = ["blocks_of", "joined_facts", "load_shards"]


def load_shards(
    tasks: Tasks, X: Any, y: Any, sample_weight: Any, n_shards: int | None, of_classes: bool
) -> tuple[list[Future], list[ShardFacts]]:
    """Return the rows of the shards, as futures, and what the client knows of them.

    Rows, labels and weights are as for `fit`; `of_classes` says whether y holds classes. None as number of shards takes
    one for each worker.
    """
    n_shards = max(1, tasks.n_workers) if n_shards is None else n_shards
    paths = paths_of(X)
    found = None if paths is None else collections_of(paths, y, sample_weight)
    if found is not None:
        X, y, sample_weight = found
    if paths is not None and found is None:
        rows = _read(tasks, paths, y, sample_weight, n_shards)
    else:
        rows = _gather(tasks, _blocks(X, y, sample_weight), n_shards, of_classes)
    facts = [tasks.submit("facts", number, facts_of, one, of_classes) for number, one in enumerate(rows)]
    return rows, tasks.gathered(facts)


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
            raise ValueError(
                f"The blocks of X must be of one type; found {_kind(first)} and {_kind(one)}. Convert them to one."
            )
    total = sum(one.total for one in filled)
    if total <= 0:
        raise ValueError("All entries of sample_weight are zero. At least one sample must have a positive weight.")
    labels = weights = np.empty(0)
    if of_classes:
        labels, number = np.unique(np.concatenate([one.labels for one in filled if one.total]), return_inverse=True)
        weights = np.bincount(number.ravel(), np.concatenate([one.weights for one in filled if one.total])).astype(
            float
        )
        if len(labels) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(labels)} class.")
    n_rows = sum(one.shape[0] for one in facts)
    return first._replace(shape=(n_rows, first.shape[1]), labels=labels, weights=weights, total=total)


def _kind(facts: ShardFacts) -> str:
    return f"{'sparse' if facts.sparse else 'dense'} {facts.dtype}"


# --- files -----------------------------------------------------------------------------------------------


def _length(path: str) -> int:
    """Return the number of rows of a file."""
    with open_hdf5(path) as data:
        return len(data)


def _read(tasks: Tasks, paths: list[str], y: Any, sample_weight: Any, n_shards: int) -> list[Future]:
    """Return shards of nearly equal numbers of rows of files, which the workers read."""
    if y is not None or sample_weight is not None:
        raise ValueError("HDF5 files have labels and weights of their own, y and sample_weight: pass none.")
    lengths = tasks.gathered([tasks.submit("length", k, _length, path) for k, path in enumerate(paths)])
    ends = np.cumsum(lengths)
    cuts = np.linspace(0, int(ends[-1]), n_shards + 1).astype(int)
    found: list[Future] = []
    for number in range(n_shards):
        parts = []
        for path, end, length in zip(paths, ends.tolist(), lengths, strict=True):
            begin = end - length
            start, stop = max(cuts[number], begin), min(cuts[number + 1], end)
            if start < stop:
                parts.append(FilePart(path, int(start - begin), int(stop - begin)))
        if parts:
            found.append(tasks.submit("rows", len(found), read_rows, parts))
    return found


# --- blocks ----------------------------------------------------------------------------------------------


def _blocks(X: Any, y: Any, sample_weight: Any) -> list[list[Any] | None]:
    """Return the blocks of rows, labels and weights as lists of delayed values."""
    if y is None:
        raise ValueError("fit needs y, the labels of the rows: it was not passed. Only files have labels of their own.")
    if isinstance(X, da.Array) and X.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and features; it has {X.ndim}.")
    if isinstance(X, da.Array) and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    found: list[list[Any] | None] = [_delayed(X, "X")]
    for name, column in (("y", y), ("sample_weight", sample_weight)):
        found.append(None if column is None else _like(X, column, name))
    for name, column in zip(("y", "sample_weight"), found[1:], strict=True):
        if column is not None and len(column) != len(found[0] or ()):
            raise ValueError(
                f"X has {len(found[0] or ())} blocks and {name} has {len(column)}: they need the same blocks of rows. "
                "Rechunk one like the other; of unknown chunk sizes, call compute_chunk_sizes() first. Pass columns of "
                "a dataframe as they are, without .values, and persist the frame instead of its columns."
            )
    return found


def _like(X: Any, column: Any, name: str) -> list[Any]:
    """Return a column in the blocks of X, as delayed values."""
    if isinstance(column, (np.ndarray, list)) and isinstance(X, da.Array) and not _is_delayed(column):
        column = da.from_array(np.asarray(column), chunks=-1)
    if isinstance(column, da.Array) and column.ndim != 1:
        raise ValueError(f"{name} must have one dimension; it has {column.ndim}.")
    if isinstance(column, da.Array) and isinstance(X, da.Array):
        known = not (np.isnan(X.shape[0]) or np.isnan(column.shape[0]))
        if known and X.shape[0] != column.shape[0]:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[X.shape[0], column.shape[0]]}. X has "
                f"{X.shape[0]}, {name} has {column.shape[0]}."
            )
        if known and X.chunks[0] != column.chunks[0]:
            column = column.rechunk((X.chunks[0],))
    return _delayed(column, name)


def _is_delayed(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, Delayed | Future) for one in value)


def blocks_of(collection: Any) -> list[Any]:
    """Return the blocks of a collection of Dask as delayed values.

    Dask would read fewer, larger partitions of a Parquet file where few of its columns are used, so that rows and
    labels of one frame would be in different blocks. Only the optimisation of frames does that.
    """
    whole = {} if isinstance(collection, da.Array) else {"optimize_graph": False}
    return list(np.asarray(collection.to_delayed(**whole), dtype=object).ravel())


def _delayed(value: Any, name: str) -> list[Any]:
    """Return the blocks of a collection of Dask as delayed values."""
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


def _gather(tasks: Tasks, blocks: Sequence[list[Any] | None], n_shards: int, of_classes: bool) -> list[Future]:
    """Return shards of consecutive blocks."""
    X, y, weight = blocks
    n_blocks = len(X or ())
    n_shards = min(n_shards, n_blocks)
    cuts = np.linspace(0, n_blocks, n_shards + 1).astype(int).tolist()
    found = []
    for number in range(n_shards):
        some = slice(cuts[number], cuts[number + 1])
        own = [None if part is None else part[some] for part in (X, y, weight)]
        rows = dask.delayed(gather_rows, pure=False)(
            *own, of_classes, dask_key_name=f"svm-rows-{number}-{tasks.token}"
        )  # fmt: skip
        found.append(tasks.client.compute(rows, retries=tasks.tuning.retries))
    return found
