"""Sources of rows: memory, HDF5 files, and views of either."""

from typing import Any

import h5py
import numpy as np
from scipy import sparse

from fastsvm.sources.base import MemorySource as MemorySource
from fastsvm.sources.base import Origin as Origin
from fastsvm.sources.base import ScaledSource as ScaledSource
from fastsvm.sources.base import Source as Source
from fastsvm.sources.base import SubsetSource as SubsetSource
from fastsvm.sources.block import Block as Block
from fastsvm.sources.block import CSRBlock as CSRBlock
from fastsvm.sources.block import DenseBlock as DenseBlock
from fastsvm.sources.block import check_compressed as check_compressed
from fastsvm.sources.block import stacked as stacked
from fastsvm.sources.block import to_dense as to_dense
from fastsvm.sources.csr_groups import hdf5_source
from fastsvm.sources.data import Data as Data
from fastsvm.sources.data import HDF5Data as HDF5Data
from fastsvm.sources.data import columns_of as columns_of
from fastsvm.sources.data import of_open_file as of_open_file
from fastsvm.sources.data import open_hdf5 as open_hdf5
from fastsvm.sources.data import read_column as read_column
from fastsvm.sources.hdf5 import HDF5Source as HDF5Source
from fastsvm.sources.quantized import Quantization as Quantization
from fastsvm.sources.quantized import find_quantization as find_quantization
from fastsvm.sources.statistics import FeatureStatistics as FeatureStatistics
from fastsvm.sources.statistics import check_finite as check_finite
from fastsvm.sources.statistics import error_in_file as error_in_file
from fastsvm.sources.statistics import feature_statistics as feature_statistics
from fastsvm.sources.statistics import standardized as standardized
from fastsvm.sources.tiled import SlicedSource, is_sliceable
from fastsvm.sources.windows import Window as Window
from fastsvm.sources.windows import whole_epochs as whole_epochs
from fastsvm.sources.windows import windows as windows


def is_stored(X: object) -> bool:
    """Return whether rows of X are read when they are needed: those of a source, an HDF5 file, or an array of Zarr."""
    return isinstance(X, (Source, Data, h5py.Dataset, h5py.Group, h5py.Datatype)) or is_sliceable(X)


def as_source(X: Any) -> Source:
    """Return the source of the rows of X, without a copy of arrays; TypeError says that X is nothing that is known."""
    if isinstance(X, Source):
        return X
    X = of_open_file(X)
    if isinstance(X, Data):
        return X.X
    if isinstance(X, (h5py.Dataset, h5py.Group, h5py.Datatype)):
        return hdf5_source(X)
    if isinstance(X, np.ndarray) or (sparse.issparse(X) and X.format == "csr"):
        return MemorySource.of(X)
    if is_sliceable(X):
        return SlicedSource(X)
    raise TypeError(f"Rows cannot be read from {type(X).__name__}.")
