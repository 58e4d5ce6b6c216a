"""Describe a file: a data set or a model."""

from pathlib import Path
from typing import Any, cast

import numpy as np

from fastsvm.estimators.fitting.validation import origin_of
from fastsvm.jobs.inputs import InputOptions, as_hdf5
from fastsvm.jobs.labels import listed
from fastsvm.jobs.models import is_model, load_model
from fastsvm.sources import HDF5Data, HDF5Source, open_hdf5
from fastsvm.sources.hdf5 import reading

__all__ = ["class_name", "describe"]

_LISTED_CLASSES = 50  # The samples of so many classes are counted.
_CERTIFICATE = ("objective", "duality_gap", "kkt_violation", "converged", "stop_reason")  # a model has some of these


def describe(path: str | Path, options: InputOptions | None = None) -> dict[str, Any]:
    """Describe a data set by its shape and classes, or a model by its parameters and certificate, as values for JSON.

    The path is of a model, an HDF5 file with X, or a file in another format that `convert` knows, read as `options`
    say. FileNotFoundError says that there is no such file, ValueError that it is none of these, or is damaged.
    """
    if is_model(path):
        return _model(path)
    with as_hdf5(path, options, shuffle=False) as file, open_hdf5(file) as data, reading(file):
        return _data(data) | {"file": str(path)}


def _data(data: HDF5Data) -> dict[str, Any]:
    node = cast(HDF5Source, data.X).node
    found: dict[str, Any] = {
        "file": str(data.path),
        "kind": "data set",
        "n_samples": data.shape[0],
        "n_features": data.shape[1],
        "storage": "CSR" if data.X.sparse else "dense",
        "dtype": str(data.X.dtype),
        "megabytes": data.X.nbytes / 1e6,
        "chunks": None if data.X.sparse else node.chunks,
        "labels": None if data.y is None else str(data.y.dtype),
        "sample_weight": data.sample_weight is not None,
        "feature_names": None if data.feature_names is None else listed(data.feature_names),
        "first_index": data.X.origin.first_index,
    }
    if data.y is not None:
        labels, counts = np.unique(data.y, return_counts=True)
        found["n_classes"] = len(labels)
        if len(labels) <= _LISTED_CLASSES:
            found["class_counts"] = {
                class_name(label, data.class_names): int(count) for label, count in zip(labels, counts, strict=True)
            }
    return found


def class_name(label: Any, names: list[str] | None) -> str:
    """Return the name of a class: that in `names` if the label is an index of it, else the label itself."""
    if names is not None and isinstance(label, np.integer) and 0 <= label < len(names):
        return names[label]
    return str(label)


def _model(path: str | Path) -> dict[str, Any]:
    model = load_model(path)
    found = vars(model)
    return {
        "file": str(path),
        "kind": "model",
        "estimator": type(model).__name__,
        "parameters": model.get_params(),
        "n_features": model.n_features_in_,
        "feature_names": listed(found["feature_names_in_"]) if "feature_names_in_" in found else None,
        "first_index": origin_of(model).first_index,
        "classes": found["classes_"].tolist() if "classes_" in found else None,
        "n_support": len(found["support_"]) if "support_" in found else None,
        **{name: found.get(f"{name}_") for name in _CERTIFICATE},
    }
