"""The interface of all readers: they take options and return a header and blocks of rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastsvm.formats.readers.rows import Rows

__all__ = ["Header", "Options", "Stream"]


class Header(NamedTuple):
    """Properties of a data set that are known before its rows are read.

    Attributes
    ----------
    n_features : int
        Columns of X.
    dtype : numpy.dtype
        Type of the values of X.
    y_dtype : numpy.dtype or None
        int64, float64 or str; None if there are no labels.
    sparse : bool
        Whether the blocks are CSR.
    class_names : tuple of str or None
        Names of the classes 0, 1, ...
    n_samples, n_values : int or None
        Numbers of rows and, in sparse data, of stored values, where known.
    feature_names : tuple of str or None
        Names of the columns of X.
    label_name : str or None
        Name of the column of the labels.
    first_index : int or None
        The index of the first feature in the source, 0 or 1; None for sources without indices.
    first_index_sure : bool
        Whether the source itself or an option says so.
    label : str
        Where the labels were found and why there, for the user; empty if there is nothing to choose.
    notes : tuple of str
        What the user should know about the choices of the reader.
    """

    n_features: int
    dtype: np.dtype
    y_dtype: np.dtype | None
    sparse: bool = False
    class_names: tuple[str, ...] | None = None
    n_samples: int | None = None
    n_values: int | None = None
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None
    first_index: int | None = None
    first_index_sure: bool = False
    label: str = ""
    notes: tuple[str, ...] = ()


class Stream(NamedTuple):
    """A data set being read.

    Attributes
    ----------
    header : Header
        Properties that are known before the rows are read.
    blocks : iterator of Rows
        The rows in the order of the source. They can be read once.
    """

    header: Header
    blocks: Iterator[Rows]


class Options(NamedTuple):
    """Options of readers. Each format has some of them; None leaves the choice to the format.

    Attributes
    ----------
    split : {"train", "test"} or None
        Which part of a published data set.
    dense : bool or None
        Whether to store sparse text as a dense matrix.
    label : str, int, Path, False or None
        Where the labels are; False reads none.
    array : str or None
        Name of the array with the rows.
    n_features : int or None
        Columns of X.
    dtype : numpy.dtype or None
        Type of the values parsed from text.
    id : str, int or None
        Column that identifies the rows. It is not a feature.
    sample_weight : str, int or None
        Column of the weights of the rows. It is not a feature.
    first_index : {0, 1} or None
        The index of the first feature of sparse text.
    feature_names : tuple of str or None
        Names of the columns of X, in order. One other column may hold labels.
    least_features : int or None
        Columns of X, if not more are found.
    last_label : bool or None
        False if a column of a table does not hold labels for being the last.
    model_features : int or None
        Number of features of a model, to which the rows are passed. A table with so many columns has no labels, nor has
        one in which some cell of their column is empty.
    model_label : str or None
        Name of the column of the labels in the table that the model was fitted to.
    model_first_index : {0, 1} or None
        The index of the first feature in the text that the model was fitted to. It counts where nothing else decides.
    block_bytes : int
        Rough size of a block.
    memory : int
        Bytes of memory to use.
    """

    split: str | None = None
    dense: bool | None = None
    label: str | int | Path | None = None
    array: str | None = None
    n_features: int | None = None
    dtype: np.dtype | None = None
    id: str | int | None = None
    sample_weight: str | int | None = None
    first_index: int | None = None
    feature_names: tuple[str, ...] | None = None
    least_features: int | None = None
    last_label: bool | None = None
    model_features: int | None = None
    model_label: str | None = None
    model_first_index: int | None = None
    block_bytes: int = 4 << 20
    memory: int = 256 << 20

    def rows(self, row_bytes: int) -> int:
        """Return how many rows of `row_bytes` make a block."""
        return max(1, self.block_bytes // max(1, row_bytes))
