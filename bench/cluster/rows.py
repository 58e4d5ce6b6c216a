"""Rows of an HDF5 file in the memory of the workers, as a dask array of one block a worker."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.harness.data import Data

__all__ = ["WORKERS", "block_of", "cluster_of_two", "persisted", "written"]

WORKERS = 2


def written(data: Data, folder: Path, name: str = "rows.h5") -> Path:
    """Return the path of a file with the samples, bytes or float32, those for training in random order."""
    order = np.random.default_rng(0).permutation(len(data.y))
    path = folder / name
    with h5py.File(path, "w") as file:
        X = np.asarray(data.X)
        file["X"], file["y"] = X.astype(X.dtype if X.dtype == np.uint8 else np.float32)[order], data.y[order]
    return path


@contextmanager
def cluster_of_two() -> Iterator[Any]:
    """Yield a client of two processes with a thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def block_of(path: str, name: str, start: int, stop: int) -> np.ndarray:
    """Return rows of a dataset."""
    with h5py.File(path) as file:
        return file[name][start:stop]


def persisted(path: Path) -> tuple[Any, Any]:
    """Return the rows and labels of a file, which the workers have read."""
    import dask
    import dask.array as da
    from distributed import wait

    with h5py.File(path) as file:
        found = {name: (file[name].shape, file[name].dtype) for name in ("X", "y")}
    bounds = np.linspace(0, found["y"][0][0], WORKERS + 1).astype(int).tolist()
    parts = []
    for name, (shape, dtype) in found.items():
        blocks = [
            da.from_delayed(
                dask.delayed(block_of)(str(path), name, start, stop), (stop - start, *shape[1:]), dtype=dtype
            )
            for start, stop in pairwise(bounds)
        ]
        parts.append(da.concatenate(blocks))
    held = dask.persist(*parts)
    wait(held)
    return held
