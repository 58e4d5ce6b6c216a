"""Models written as fastsvm 0.1.0 wrote them, in HDF5 with a header in JSON."""

import json

import h5py
import numpy as np
from scipy import sparse

from fastsvm.kernels import KERNELS

PRIVATE = {"_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"}


def save_version_1(model, path, **changed):
    """Write a fitted model, with entries of the header changed."""
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
