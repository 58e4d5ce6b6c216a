"""A large HDF5 file of bytes: images again and again, each time with other noise, in random order."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from tqdm import tqdm

__all__ = ["Plan", "drop_from_cache", "write"]

_MARGIN = 1.05  # free space wanted, for what HDF5 adds


class Plan(NamedTuple):
    """How many rows, how many a chunk, and how many levels the noise is at most."""

    rows: int
    chunk_rows: int
    noise: int = 4
    seed: int = 0

    @property
    def name(self) -> str:
        return f"rows-{self.rows}-chunks-{self.chunk_rows}-noise-{self.noise}-seed-{self.seed}.h5"


def write(folder: Path, plan: Plan, images: np.ndarray, labels: np.ndarray) -> Path:
    """Return the path of the file; one that was written before with the same plan is taken.

    In memory are the images, their order and the rows of one chunk.
    """
    path = folder / f"{images.shape[1]}-features-{plan.name}"
    if path.exists():
        return path
    needed = _MARGIN * plan.rows * images.shape[1]
    if shutil.disk_usage(folder).free < needed:
        raise OSError(f"{folder} has no room for {needed / 1e6:,.0f} MB")
    unfinished = path.with_suffix(".part")
    try:
        _fill(unfinished, plan, images, labels)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return unfinished.rename(path)


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
    """Have the system forget what it has in memory of a file; return whether it can be told to."""
    if not hasattr(os, "posix_fadvise"):
        return False
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)  # what is not on the disk yet cannot be forgotten
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
    return True
