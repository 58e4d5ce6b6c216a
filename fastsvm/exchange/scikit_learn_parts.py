"""Parameters and scalers that estimators of both packages have."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from fastsvm.estimators.kernel.standardization import Standardization

__all__ = ["scaler_of", "shared_parameters", "standardization_of", "unscaled"]

_NOT_SHARED = ("kernel", "probability", "memory", "cache_size")  # a cache has other defaults here


def shared_parameters(model: Any, kind: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that another class has too."""
    given, known = model.get_params(deep=False), kind().get_params(deep=False)
    found = {name: value for name, value in given.items() if name in known and name not in _NOT_SHARED}
    if "verbose" in found:
        found["verbose"] = type(known["verbose"])(found["verbose"])  # 0 and False mean the same
    return found


def scaler_of(map_: Standardization) -> StandardScaler:
    """Return the scaler that does the same, fitted."""
    scaler = StandardScaler(with_mean=map_.shift is not None)
    scaler.scale_ = 1 / map_.scale
    scaler.mean_, scaler.var_ = map_.shift, scaler.scale_**2
    scaler.n_features_in_ = len(map_.scale)
    return scaler


def standardization_of(scaler: StandardScaler) -> Standardization:
    """Return the map of a fitted scaler."""
    n = scaler.n_features_in_
    scale = np.ones(n) if scaler.scale_ is None else 1 / np.asarray(scaler.scale_, np.float64)
    return Standardization(np.asarray(scaler.mean_, np.float64) if scaler.with_mean else None, scale)


def unscaled(vectors: Any, map_: Standardization) -> Any:
    """Return samples before they were standardised."""
    if sparse.issparse(vectors):
        if map_.shift is not None and map_.shift.any():
            raise ValueError("A scaler that centres sparse samples cannot be undone.")
        return sparse.csr_matrix(vectors.multiply(1 / map_.scale))
    return vectors / map_.scale + (0 if map_.shift is None else map_.shift)
