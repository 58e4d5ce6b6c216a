"""Models of fastsvm 0.1.0: arrays in HDF5 and a JSON header, without a checksum.

Sizes are compared with that of the file before the HDF5 library reads. On damaged bytes the library itself may hang or
end the process. `fastsvm.save` writes such a model in the current format, which does not need the library.
"""

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastsvm.sources.hdf5 import open_file
from fastsvm.sources.hdf5_checks import attribute, check_storage, member, reading

__all__ = ["is_version_1", "read_version_1"]

_FORMAT = "fastsvm-model"
_CSR = ("data", "indices", "indptr")


def is_version_1(path: Path) -> bool:
    """Return whether an HDF5 file is such a model, not a data set."""
    with reading(path), open_file(path) as file:
        return "header" in file.attrs


def read_version_1(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays of a model in an HDF5 file, as `read_arrays` does.

    A file that is damaged or is not a model raises ValueError. The message names it.
    """
    with reading(path, "get the file again"), open_file(path) as file:
        header = _header(file, path)
        arrays: dict[str, np.ndarray] = {}
        header["sparse"], header["objects"] = {}, []
        for name in file:
            node = member(file, name)
            if isinstance(node, h5py.Group):
                header["sparse"][name] = [int(length) for length in attribute(node, "shape")]
                for part in _CSR:
                    arrays[f"{name}.{part}"] = _array(member(node, part), path)
            else:
                arrays[name] = _array(node, path)
                if attribute(node, "dtype") == "|O":
                    header["objects"].append(name)
        return header, arrays


def _header(file: h5py.File, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(attribute(file, "header"))
    except (KeyError, ValueError, TypeError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{path} is an HDF5 file but not a fastsvm model.")
    return header


def _array(dataset: h5py.Dataset, path: Path) -> np.ndarray:
    """Return a dataset that is stored uncompressed in the file; strings as str."""
    check_storage(dataset)
    words = h5py.check_string_dtype(dataset.dtype)
    nbytes = math.prod(dataset.shape) * dataset.dtype.itemsize
    stored = dataset.id.get_storage_size()
    if dataset.chunks is not None or (stored < nbytes and words is None) or nbytes > path.stat().st_size:
        raise ValueError(f"{path} is damaged: {dataset.name} claims {nbytes} bytes and has {stored}.")
    if words is not None and words.length is None:
        return np.asarray(dataset.asstr()[()], dtype=str)
    return np.asarray(dataset[()], dataset.dtype.newbyteorder("="))
