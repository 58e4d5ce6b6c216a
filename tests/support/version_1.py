"""Models and checkpoints written as fastsvm 0.1.0 wrote them, in HDF5 with a header in JSON."""

import hashlib
import json
from typing import NamedTuple

import h5py
import numpy as np
from scipy import sparse

from fastsvm.files.storable import stored_name
from fastsvm.kernels import KERNELS

PRIVATE = {"_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"}


def save_version_1(model, path, **changed):
    """Write a fitted model, with some entries of the header replaced."""
    parameters = model.get_params()
    for name, kind in KERNELS.items():
        if type(parameters.get("kernel")) is kind:
            parameters["kernel"] = {"name": name, "parameters": parameters["kernel"]._asdict()}
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = list(parameters["class_weight"].items())
    arrays, scalars = {}, {}
    for key, value in vars(model).items():
        if not ((key.endswith("_") and not key.startswith("_")) or key in PRIVATE):
            continue
        if key == "dual_coef_" and sparse.issparse(value):
            value = value.toarray()  # as that version kept it
        if isinstance(value, dict):
            arrays |= {f"{key}.{name}": column for name, column in value.items()}
        elif isinstance(value, np.ndarray) or sparse.issparse(value):
            arrays[key] = value
        else:
            scalars[key] = value
    header = {"format": "fastsvm-model", "version": 1, "estimator": type(model).__name__, "parameters": parameters}
    with h5py.File(path, "w") as file:
        file.attrs["header"] = json.dumps(
            header | {"attributes": scalars} | changed, default=lambda value: value.item()
        )
        for key, value in arrays.items():
            write(file, key, value)


def write(file, key, value):
    if sparse.issparse(value):
        group = file.create_group(key)
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", value.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(value, name)
    elif value.dtype.kind in "OU":
        dataset = file.create_dataset(key, data=value.astype(object), dtype=h5py.string_dtype())
        dataset.attrs["dtype"] = value.dtype.str
    else:
        file[key] = value


# --- checkpoints ---------------------------------------------------------------------------------------------

RECORDS = {
    "fastsvm.solvers.decomposition.State": "alpha gradient working_set",
    "fastsvm.solvers.decomposition.Memory": (
        "aim drift since_newton failures n_sets all_considered active random n_steps interior_tried rounding largest"
    ),
    "fastsvm.solvers.decomposition.Solution": "alpha within intercept objective duality_gap kkt_violation",
    "fastsvm.solvers.active_set.ActiveContents": "rows entered clock",
    "fastsvm.row_cache.CacheContents": "row_in used_at known again clock hits misses",
    "fastsvm.solvers.dual_state.State": (
        "dual anchor last pace path candidate losses best primal dual_value begun epoch window seen next_look "
        "last_look gap progress halved half level change rate next_finish inexact visits"
    ),
    "fastsvm.solvers.dual_visits.Path": "weights mean position pull gaps metric rests turn seen pace",
    "fastsvm.solvers.dual_visits.Rests": "due pause",
    "fastsvm.solvers.proximal.Metric": "kappa relief basis shares",
    "fastsvm.solvers.primal.State": "alpha sums intercept bend",
    "fastsvm.solvers.primal_descent.State": "alpha sums intercept",
    "fastsvm.solvers.sgd.State": (
        "model epoch window n_steps seen pending total waiting lowest answered stale factor best best_score"
    ),
    "fastsvm.solvers.sgd_steps.Model": (
        "coef intercept velocity velocity_intercept mean mean_intercept gradient gradient_intercept total"
    ),
    "fastsvm.solvers.sgd_steps.Linear": "coef intercept",
    "fastsvm.solvers.sparse_steps.SparseModel": "vectors paid intercept intercept_sum scalars",
    "fastsvm.estimators._ascent.Kept": "mark seed state windows over whole records",
    "fastsvm.estimators._descent.Unfinished": "mark seed curve state records",
    "fastsvm.estimators._loss_curve.CurveParts": "per_point points rest",
    "fastsvm.estimators._one_vs_one.Reached": "solved current passes",
    "fastsvm.estimators._one_vs_one.Snapshot": "state n_steps memory cache",
}
"""Fields of the classes that checkpoints held, in their order."""

STORED_AS = {
    "fastsvm.solvers.decomposition.State": "kernel dual state",
    "fastsvm.solvers.decomposition.Memory": "decomposition memory",
    "fastsvm.solvers.decomposition.Solution": "kernel solution",
    "fastsvm.solvers.active_set.ActiveContents": "active set",
    "fastsvm.row_cache.CacheContents": "row cache",
    "fastsvm.solvers.dual_state.State": "linear dual state",
    "fastsvm.solvers.dual_visits.Path": "linear dual epoch",
    "fastsvm.solvers.dual_visits.Rests": "linear dual shrinking",
    "fastsvm.solvers.proximal.Metric": "proximal metric",
    "fastsvm.solvers.primal.State": "kernel primal state",
    "fastsvm.solvers.primal_descent.State": "subgradient descent state",
    "fastsvm.solvers.sgd.State": "sgd progress",
    "fastsvm.solvers.sgd_steps.Model": "sgd model",
    "fastsvm.solvers.sgd_steps.Linear": "linear function",
    "fastsvm.solvers.sparse_steps.SparseModel": "sparse sgd model",
    "fastsvm.estimators._ascent.Kept": "linear dual fit",
    "fastsvm.estimators._descent.Unfinished": "sgd fit",
    "fastsvm.estimators._loss_curve.CurveParts": "loss curve",
    "fastsvm.estimators._one_vs_one.Reached": "kernel fit",
    "fastsvm.estimators._one_vs_one.Snapshot": "kernel problem",
}
"""Names under which their successors are stored."""


class Record(NamedTuple):
    """A NamedTuple of that version: module and class, and values of its fields in their order."""

    name: str
    values: tuple


def as_of_version_1(value):
    """Return the record of a current NamedTuple in that version. Later fields are missing; the order is the same."""
    name = stored_name(type(value))
    old = next(old for old, new in STORED_AS.items() if new == name)
    return Record(old, tuple(value)[: len(RECORDS[old].split())])


def write_version_1(path, tree, bound_to):
    """Write a checkpoint."""
    arrays = []
    skeleton = json.dumps({"tree": _skeleton(tree, arrays), "bound_to": bound_to})
    digest = hashlib.blake2b(skeleton.encode(), digest_size=16)
    with h5py.File(path, "w") as file:
        for k, array in enumerate(arrays):
            file[str(k)] = array
            digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
        file["skeleton"] = np.frombuffer(skeleton.encode(), np.uint8)
        file.attrs["format"], file.attrs["version"] = "fastsvm-checkpoint", 1
        file.attrs["checksum"] = digest.hexdigest()


def _skeleton(tree, arrays):
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind == "U":
            return {"$": "words", "dtype": tree.dtype.str, "values": tree.tolist()}
        arrays.append(tree)
        return {"$": "array", "number": len(arrays) - 1}
    if isinstance(tree, dict):
        pairs = [[_skeleton(key, arrays), _skeleton(value, arrays)] for key, value in tree.items()]
        return {"$": "dict", "pairs": pairs}
    if isinstance(tree, Record):
        module, _, name = tree.name.rpartition(".")
        fields = RECORDS[tree.name].split()
        values = {field: _skeleton(value, arrays) for field, value in zip(fields, tree.values, strict=True)}
        return {"$": "record", "module": module, "name": name, "values": values}
    if hasattr(tree, "_fields"):
        return _skeleton(as_of_version_1(tree), arrays)
    if isinstance(tree, (list, tuple)):
        return {"$": type(tree).__name__, "values": [_skeleton(value, arrays) for value in tree]}
    return tree
