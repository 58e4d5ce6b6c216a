"""Checkpoints of fastsvm 0.1.0: HDF5 files in which a NamedTuple is named by its module and class."""

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastsvm.files.storable import storable_class

__all__ = ["is_version_1", "read_version_1", "record_of_version_1"]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NAMES = {
    "solvers.decomposition.State": "kernel dual state",
    "solvers.decomposition.Memory": "decomposition memory",
    "solvers.decomposition.Solution": "kernel solution",
    "solvers.active_set.ActiveContents": "active set",
    "row_cache.CacheContents": "row cache",
    "solvers.dual_state.State": "linear dual state",
    "solvers.dual_visits.Path": "linear dual epoch",
    "solvers.dual_visits.Rests": "linear dual shrinking",
    "solvers.proximal.Metric": "proximal metric",
    "solvers.primal.State": "kernel primal state",
    "solvers.primal_descent.State": "subgradient descent state",
    "solvers.sgd.State": "sgd state",
    "solvers.sgd_steps.Model": "sgd model",
    "solvers.sgd_steps.Linear": "linear function",
    "solvers.sparse_steps.SparseModel": "sparse sgd model",
    "estimators._ascent.Kept": "linear dual fit",
    "estimators._descent.Unfinished": "sgd fit",
    "estimators._loss_curve.CurveParts": "loss curve",
    "estimators._one_vs_one.Reached": "kernel fit",
    "estimators._one_vs_one.Snapshot": "kernel problem",
}
"""Names under which the classes are stored now, by their modules below fastsvm and names in that version."""


def is_version_1(path: Path) -> bool:
    """Return whether a file begins as HDF5 does."""
    with open(path, "rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def read_version_1(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a checkpoint, as a file of today has them.

    Raises
    ------
    ValueError
        If the file is damaged.
    """
    try:
        with h5py.File(path, "r") as file:
            found = {name: _plain(file.attrs.get(name)) for name in ("format", "version")}
            if found["format"] != "fastsvm-checkpoint" or found["version"] != 1:
                return found, {}
            skeleton = bytes(file["skeleton"][:]).decode()
            arrays = [file[str(k)][()] for k in range(len(file) - 1)]
            checksum = file.attrs["checksum"]
    except Exception as error:  # of HDF5, which has one of any kind for a bit that was flipped
        raise ValueError(f"{error}.") from error
    if checksum != _checksum(skeleton, arrays):
        raise ValueError("what it holds is not what was written.")
    return found | json.loads(skeleton, object_hook=_array_by_name), {str(k): array for k, array in enumerate(arrays)}


def record_of_version_1(words: dict[str, Any], values: dict[str, Any]) -> Any:
    """Return the NamedTuple of today that a record stands for."""
    written_as = f"{words['module'].removeprefix('fastsvm.')}.{words['name']}"
    kind = storable_class(_NAMES.get(written_as, ""))
    if kind is None or set(values) != set(kind._fields):
        raise ValueError(f"a {words['module']}.{words['name']} with {sorted(values)}")
    return kind(**values)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _array_by_name(words: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the skeleton as it is written now: arrays have names where they had numbers."""
    return {"$": "array", "name": str(words["number"])} if words.get("$") == "array" else words


def _checksum(skeleton: str, arrays: list[np.ndarray]) -> str:
    digest = hashlib.blake2b(skeleton.encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()
