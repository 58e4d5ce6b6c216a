"""Fingerprints of data files, by which a run is resumed on the same data only."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["fingerprint"]


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Return a fingerprint of an HDF5 file with X for JSON: size, time of the last change, shape, type and a digest.

    FileNotFoundError or ValueError says that the file does not exist or cannot be read.
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
    """Return a digest of all labels and weights and of some samples."""
    digest = hashlib.blake2b(data.X.digest().encode(), digest_size=16)
    for column in (data.y, data.sample_weight):
        if column is not None:
            digest.update((np.strings.encode(column, "utf-8") if column.dtype.kind == "U" else column).tobytes())
    return digest.hexdigest()
