"""What a data file is, so that a run is not gone on with on another."""

import hashlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["fingerprint"]


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Return what tells a data file from others: size, moment of the last change, shapes, and a digest of some rows.

    Parameters
    ----------
    path : str or Path
        An HDF5 file with X.

    Returns
    -------
    dict
        Words and numbers for JSON.
    """
    known = Path(path).stat()
    with open_hdf5(path) as data:
        return {
            "file": str(path),
            "bytes": known.st_size,
            "changed_ns": known.st_mtime_ns,
            "shape": list(data.shape),
            "dtype": str(data.X.dtype),
            "digest": _digest(data),
        }


def _digest(data: HDF5Data) -> str:
    """Return a digest of all labels and weights, and of some rows."""
    digest = hashlib.blake2b(data.X.digest().encode(), digest_size=16)
    for column in (data.y, data.sample_weight):
        if column is not None:
            digest.update((np.strings.encode(column, "utf-8") if column.dtype.kind == "U" else column).tobytes())
    return digest.hexdigest()


def is_hdf5(path: str | Path) -> bool:
    """Return whether a file is one that needs no conversion."""
    return Path(path).is_file() and h5py.is_hdf5(path)
