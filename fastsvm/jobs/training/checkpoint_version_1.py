"""Checkpoints of format 1: HDF5 files that name a NamedTuple by its module and class."""

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastsvm.files.storable import storable_class

__all__ = ["is_version_1", "read_version_1", "record_of_version_1"]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_RECORDS = {
    "solvers.decomposition.State": ("kernel dual state", "alpha gradient working_set"),
    "solvers.decomposition.Memory": (
        "decomposition memory",
        "aim drift since_newton failures n_sets all_considered active random n_steps interior_tried rounding largest",
    ),
    "solvers.decomposition.Solution": (
        "kernel solution",
        "alpha within intercept objective duality_gap kkt_violation",
    ),
    "solvers.active_set.ActiveContents": ("active set", "rows entered clock"),
    "row_cache.CacheContents": ("row cache", "row_in used_at known again clock hits misses"),
    "solvers.dual_state.State": (
        "linear dual state",
        "dual anchor last pace path candidate losses best primal dual_value begun epoch window seen next_look "
        "last_look gap progress halved half level change rate next_finish inexact visits",
    ),
    "solvers.dual_visits.Path": ("linear dual epoch", "weights mean position pull gaps metric rests turn seen pace"),
    "solvers.dual_visits.Rests": ("linear dual shrinking", "due pause"),
    "solvers.proximal.Metric": ("proximal metric", "kappa relief basis shares"),
    "solvers.primal.State": ("kernel primal state", "alpha sums intercept bend"),
    "solvers.primal_descent.State": ("subgradient descent state", "alpha sums intercept"),
    "solvers.sgd.State": (
        "sgd progress",
        "model epoch window n_steps seen pending total waiting lowest answered stale factor best best_score",
    ),
    "solvers.sgd_steps.Model": (
        "sgd model",
        "coef intercept velocity velocity_intercept mean mean_intercept gradient gradient_intercept total",
    ),
    "solvers.sgd_steps.Linear": ("linear function", "coef intercept"),
    "solvers.sparse_steps.SparseModel": ("sparse sgd model", "vectors paid intercept intercept_sum scalars"),
    "estimators._ascent.Kept": ("linear dual fit", "mark seed state windows over whole records"),
    "estimators._descent.Unfinished": ("sgd fit", "mark seed curve state records"),
    "estimators._loss_curve.CurveParts": ("loss curve", "per_point points rest"),
    "estimators._one_vs_one.Reached": ("kernel fit", "solved current passes"),
    "estimators._one_vs_one.Snapshot": ("kernel problem", "state n_steps memory cache"),
}
"""By module and class in format 1: the name under which the class is stored now, and the names of its fields then.

Fields may have been renamed since, but their order is the same.
"""


def is_version_1(path: Path) -> bool:
    """Return whether a file is in HDF5."""
    with open(path, "rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def read_version_1(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays of a checkpoint, in the form of the current format; ValueError says it is damaged."""
    try:
        with h5py.File(path, "r") as file:
            found = {name: _plain(file.attrs.get(name)) for name in ("format", "version")}
            if found["format"] != "fastsvm-checkpoint" or found["version"] != 1:
                return found, {}
            skeleton = bytes(file["skeleton"][:]).decode()
            arrays = [file[str(k)][()] for k in range(len(file) - 1)]
            checksum = file.attrs["checksum"]
    except Exception as error:  # for a damaged file HDF5 may raise any kind
        raise ValueError(f"{error}.") from error
    if checksum != _checksum(skeleton, arrays):
        raise ValueError("its checksum differs.")
    return found | json.loads(skeleton, object_hook=_array_by_name), {str(k): array for k, array in enumerate(arrays)}


def record_of_version_1(words: dict[str, Any], values: dict[str, Any]) -> Any:
    """Return the NamedTuple of a record; one that is unknown raises ValueError."""
    name, fields = _RECORDS.get(f"{words['module'].removeprefix('fastsvm.')}.{words['name']}", ("", ""))
    kind = storable_class(name)
    if kind is None or set(values) != set(fields.split()):
        raise ValueError(f"a {words['module']}.{words['name']} with {sorted(values)}")
    return kind(*(values[field] for field in fields.split()))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _array_by_name(words: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of the skeleton in the current form, in which arrays have names instead of numbers."""
    return {"$": "array", "name": str(words["number"])} if words.get("$") == "array" else words


def _checksum(skeleton: str, arrays: list[np.ndarray]) -> str:
    digest = hashlib.blake2b(skeleton.encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()
