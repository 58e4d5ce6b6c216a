"""Sources of rows: memory, HDF5 files, and views of either."""

from typing import Any

import h5py
import numpy as np
from scipy import sparse

from fastsvm.sources.base import MemorySource, Origin, Reads, Source, SubsetSource
from fastsvm.sources.block import Block, CSRBlock, DenseBlock, check_compressed, stacked, to_dense
from fastsvm.sources.hdf5 import (
    HDF5Data,
    HDF5Source,
    columns_of,
    hdf5_source,
    of_open_file,
    open_hdf5,
    read_column,
)
from fastsvm.sources.quantized import Quantization, find_quantization
from fastsvm.sources.scaled import ScaledSource
from fastsvm.sources.statistics import FeatureStatistics, check_finite, error_in_file, feature_statistics
from fastsvm.sources.tiled import SlicedSource, is_sliceable
from fastsvm.sources.windows import Window, windows

__all__ = [
    "Block",
    "CSRBlock",
    "DenseBlock",
    "FeatureStatistics",
    "HDF5Data",
    "HDF5Source",
    "MemorySource",
    "Origin",
    "Quantization",
    "Reads",
    "ScaledSource",
    "Source",
    "SubsetSource",
    "Window",
    "as_source",
    "check_compressed",
    "check_finite",
    "columns_of",
    "error_in_file",
    "feature_statistics",
    "find_quantization",
    "is_stored",
    "of_open_file",
    "open_hdf5",
    "read_column",
    "stacked",
    "to_dense",
    "windows",
]


def is_stored(X: object) -> bool:
    """Return whether rows of X are read when they are needed: those of a source, an HDF5 file, or an array of Zarr."""
    return isinstance(X, (Source, HDF5Data, h5py.Dataset, h5py.Group, h5py.Datatype)) or is_sliceable(X)


def as_source(X: Any) -> Source:
    """Return the source of the rows of X; TypeError says that X is nothing that is known.

    X is an array, a SciPy CSR matrix or array, a dataset, group or file of h5py, `HDF5Data` or a source. Arrays are not
    copied and keep their type. An object with a shape and a type that is sliced by rows, such as an array of Zarr, is
    read as a dataset is.
    """
    if isinstance(X, Source):
        return X
    X = of_open_file(X)
    if isinstance(X, HDF5Data):
        return X.X
    if isinstance(X, (h5py.Dataset, h5py.Group, h5py.Datatype)):
        return hdf5_source(X)
    if isinstance(X, np.ndarray) or (sparse.issparse(X) and X.format == "csr"):
        return MemorySource.of(X)
    if is_sliceable(X):
        return SlicedSource(X)
    raise TypeError(f"Rows cannot be read from {type(X).__name__}.")
