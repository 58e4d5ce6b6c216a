"""The interface of all readers: they take options and return a header and blocks of rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastsvm.formats.readers.rows import Rows
from fastsvm.tuning import StorageTuning

__all__ = ["Header", "Options", "Stream"]


class Header(NamedTuple):
    """Properties of a data set that are known before its rows are read; None for what is not known."""

    n_features: int
    dtype: np.dtype
    y_dtype: np.dtype | None  # It is int64, float64 or str, and None without labels.
    sparse: bool = False  # The blocks are CSR.
    class_names: tuple[str, ...] | None = None  # The classes 0, 1, ... have these names.
    n_samples: int | None = None
    n_values: int | None = None  # So many values are stored, if the data are sparse.
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None  # It names the column of the labels.
    first_index: int | None = None  # It is the index of the first feature in the source, 0 or 1.
    first_index_sure: bool = False  # It says whether the source itself or an option says so.
    label: str = ""  # It tells the user where the labels were found and why, if there was a choice.
    notes: tuple[str, ...] = ()  # They tell the user about the choices of the reader.


class Stream(NamedTuple):
    """A data set being read. Its blocks are in the order of the source, and can be read once."""

    header: Header
    blocks: Iterator[Rows]


class Options(NamedTuple):
    """Options of readers, as `convert` describes them. None leaves the choice to the format."""

    split: str | None = None
    dense: bool | None = None
    label: str | int | Path | None = None
    array: str | None = None
    n_features: int | None = None
    dtype: np.dtype | None = None  # Values parsed from text have this type.
    id: str | int | None = None
    sample_weight: str | int | None = None
    first_index: int | None = None
    feature_names: tuple[str, ...] | None = None
    least_features: int | None = None
    last_label: bool | None = None
    model_features: int | None = None
    model_label: str | None = None
    model_first_index: int | None = None
    block_bytes: int = StorageTuning().block_bytes  # It is the rough size of a block.
    memory: int = 256 << 20  # So many bytes of memory may be used.

    def rows(self, row_bytes: int) -> int:
        """Return how many rows of `row_bytes` make a block."""
        return max(1, self.block_bytes // max(1, row_bytes))
