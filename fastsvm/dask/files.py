"""Files that the workers read: Parquet and Zarr become collections of Dask; HDF5 is read in spans of rows."""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

import dask
import dask.array as da

__all__ = ["collections_of", "paths_of"]

_LABELS, _WEIGHTS = "y", "sample_weight"


def paths_of(X: Any) -> list[str] | None:
    """Return the paths of files that X is, or None."""
    if isinstance(X, (str, PathLike)):
        return [fspath(X)]
    if isinstance(X, (list, tuple)) and X and all(isinstance(one, (str, PathLike)) for one in X):
        return [fspath(one) for one in X]
    return None


def collections_of(paths: Sequence[str], y: Any, sample_weight: Any) -> tuple[Any, Any, Any] | None:
    """Return rows, labels and weights of Parquet or Zarr files, by suffix, as collections of Dask; None for HDF5 files.

    `y` and `sample_weight` name columns or arrays; None is "y", and "sample_weight" if there is one.
    """
    suffixes = {_suffix(path) for path in paths}
    if not suffixes & {".parquet", ".zarr"}:
        return None
    if len(suffixes) > 1:
        raise ValueError(f"The files must have one format; found {', '.join(sorted(suffixes))}.")
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None and not isinstance(given, str):
            raise ValueError(
                f"Of files, {name} is the name of a column or an array, and None is {name!r}; found "
                f"{type(given).__name__}."
            )
    read = _parquet if suffixes == {".parquet"} else _zarr
    return read(paths, _LABELS if y is None else y, sample_weight)


def _suffix(path: str) -> str:
    found = PurePath(path.rstrip("/")).suffix.lower()
    return ".parquet" if found in (".parquet", ".pq") else found


def _parquet(paths: Sequence[str], y: str, sample_weight: str | None) -> tuple[Any, Any, Any]:
    """Return the columns of Parquet files, in a partition for each row group."""
    try:
        import dask.dataframe as dd
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow and pandas: pip install 'fastsvm[dask]'.") from error
    frame = dd.read_parquet(list(paths), split_row_groups=True)
    columns = list(map(str, frame.columns))
    weights = _found(sample_weight, columns, paths)
    if y not in columns:
        raise ValueError(f"{paths[0]} has no column {y!r} with the labels, but {_listed(columns)}: pass y='name'.")
    parts, rows = frame.to_delayed(), [name for name in columns if name not in (y, weights)]
    own = [[dask.delayed(_columns)(part, wanted) for part in parts] for wanted in (rows, y, weights) if wanted]
    return own[0], own[1], own[2] if weights else None


def _columns(table: Any, wanted: Any) -> Any:
    return table[wanted]


def _zarr(paths: Sequence[str], y: str, sample_weight: str | None) -> tuple[Any, Any, Any]:
    """Return the arrays of Zarr groups, in their chunks."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Zarr files need zarr: pip install 'fastsvm[zarr]'.") from error
    parts: list[list[Any]] = []
    for path in paths:
        group = zarr.open_group(path, mode="r")
        names = list(group.array_keys())
        for name, what in (("X", "rows"), (y, "labels")):
            if name not in names:
                raise ValueError(f"{path} has no array {name!r} with the {what}, but {_listed(names)}.")
        weights = _found(sample_weight, names, [path])
        wanted = ["X", y, *([] if weights is None else [weights])]
        parts.append([da.from_zarr(path, component=name) for name in wanted])
    if len({len(part) for part in parts}) > 1:
        raise ValueError(f"Some of the files have an array {_WEIGHTS!r} and some have none: all need one, or none.")
    rows, labels, *more = (da.concatenate(column) for column in zip(*parts, strict=True))
    return rows, labels, more[0] if more else None


def _found(name: str | None, names: Sequence[str], paths: Sequence[str]) -> str | None:
    """Return the name of the weights; None if there are none."""
    if name is None:
        return _WEIGHTS if _WEIGHTS in names else None
    if name not in names:
        raise ValueError(f"{paths[0]} has no {name!r} with the weights, but {_listed(names)}.")
    return name


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
