"""A large HDF5 file of bytes: copies of images in random order, each with noise of its own."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from tqdm import tqdm

from bench.harness.data import Data
from bench.harness.large_files import folder_of, kept
from bench.harness.outcomes import Options
from bench.harness.suite import Case

__all__ = ["Plan", "drop_from_cache", "write", "written"]

_MARGIN = 1.05  # required free space relative to the data, for what HDF5 adds


class Plan(NamedTuple):
    """How many samples, how many in a chunk, and the largest noise in levels."""

    rows: int
    chunk_rows: int
    noise: int = 4
    seed: int = 0

    @property
    def name(self) -> str:
        return f"rows-{self.rows}-chunks-{self.chunk_rows}-noise-{self.noise}-seed-{self.seed}.h5"


def written(case: Case, options: Options, folder: Path) -> tuple[Case, Data]:
    """Return a case and its file as data, written to the folder of the options if there is one."""
    folder = folder_of(case.quick, options, folder, "the large file")
    images = case.recipe()
    path = write(folder, Plan(case.parameters.rows, case.parameters.chunk_rows), images.X, images.y)
    file = h5py.File(path)
    y = file["y"][:]
    return case, Data(file["X"], y, images.X_test[:0], y[:0])


def write(folder: Path, plan: Plan, images: np.ndarray, labels: np.ndarray) -> Path:
    """Return the path of the file. A file that was written before with the same plan is reused.

    Only the images, their order and the samples of one chunk are in memory.
    """
    path = folder / f"{images.shape[1]}-features-{plan.name}"
    if path.exists():
        return path
    needed = _MARGIN * plan.rows * images.shape[1]
    if shutil.disk_usage(folder).free < needed:
        raise OSError(f"{folder} has no room for {needed / 1e6:,.0f} MB")
    return kept(path, lambda unfinished: _fill(unfinished, plan, images, labels))


def _fill(path: Path, plan: Plan, images: np.ndarray, labels: np.ndarray) -> None:
    rng = np.random.default_rng(plan.seed)
    order = rng.permutation(plan.rows) % len(images)
    shape, step = (plan.rows, images.shape[1]), min(plan.chunk_rows, plan.rows)
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("X", shape, "u1", chunks=(step, shape[1]))
        file["y"] = labels[order]
        for start in tqdm(range(0, plan.rows, step), desc="writing", unit="chunk", disable=None, leave=False):
            part = images[order[start : start + step]].astype(np.int16)
            part += rng.integers(-plan.noise, plan.noise + 1, part.shape, np.int8)
            rows[start : start + step] = part.clip(0, 255).astype(np.uint8)


def drop_from_cache(path: Path) -> bool:
    """Drop a file from the system's page cache. Return whether the system can do that."""
    if not hasattr(os, "posix_fadvise"):
        return False
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)  # pages that are not on the disk yet cannot be dropped
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
    return True
