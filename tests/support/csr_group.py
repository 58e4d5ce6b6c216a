"""Sparse rows in an HDF5 group, for files in tests."""

from typing import Any

import h5py
import numpy as np
from scipy import sparse

__all__ = ["write_csr"]


def write_csr(
    group: h5py.Group, X: sparse.csr_matrix | sparse.csr_array, dtype: np.dtype | type | None = None, **options: Any
) -> None:
    """Write rows in AnnData's layout; `options` are those of the datasets of values and of indices."""
    group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
    group.create_dataset("data", data=X.data if dtype is None else X.data.astype(dtype), **options)
    group.create_dataset("indices", data=X.indices, **options)
    group["indptr"] = X.indptr
