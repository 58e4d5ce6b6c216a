"""The file that all read: samples and labels in HDF5, written once and kept."""

from pathlib import Path

import h5py
import numpy as np
from tqdm import tqdm

from bench.harness.data import Data
from bench.harness.large_files import folder_of, kept
from bench.harness.outcomes import Options
from bench.harness.suite import Case
from bench.millions.recipes import Blocks

__all__ = ["LABELS", "write", "written"]

LABELS = "y"
_CHUNK_BYTES = 1 << 20


def written(case: Case, options: Options, folder: Path) -> tuple[Case, Data]:
    """Return a case and its file as data, written to the folder of the options if there is one."""
    folder = folder_of(case.quick, options, folder, "the file of samples")
    blocks: Blocks = case.recipe()
    path = write(folder / f"{case.name}.h5", blocks)
    file = h5py.File(path)
    return case, Data(file["X"], file[LABELS][:], blocks.X_test, blocks.y_test)


def write(path: Path, blocks: Blocks) -> Path:
    """Write the blocks to a file, unless it exists. A file that was not finished is removed."""

    def fill(unfinished: Path) -> None:
        with h5py.File(unfinished, "w") as file:
            for X, y in tqdm(blocks.blocks, desc=f"writing {path.name}", unit=" blocks", disable=None, leave=False):
                _append(file, "X", X)
                _append(file, LABELS, y)

    return kept(path, fill)


def _append(file: h5py.File, name: str, values: np.ndarray) -> None:
    if name not in file:
        rows = max(1, _CHUNK_BYTES // max(1, values[0].nbytes))
        shape = values.shape[1:]
        file.create_dataset(name, (0, *shape), values.dtype, maxshape=(None, *shape), chunks=(rows, *shape))
    dataset, before = file[name], len(file[name])
    dataset.resize(before + len(values), axis=0)
    dataset[before:] = values
