"""Rows of a window, made dense a few at a time, whatever the form in which they are stored.

All forms are one type for compiled code, which looks up the form when it runs. So each loss is compiled once for a type
of weights, not once for each form of the rows.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.linalg.sparse_products import readable
from fastsvm.sources import CSRBlock, Window

__all__ = ["StoredRows", "load", "stored_rows"]

_BYTES, _ROWS, _COLUMNS, _SPARSE = range(4)


class StoredRows(NamedTuple):
    """Rows in one of four forms; the arrays of the other forms are empty.

    The forms are dense bytes, `octets`, shape (n_rows, n_features); dense `values` row by row, or column by column,
    shape (n_features, n_rows), both C-contiguous; and compressed sparse rows.
    """

    form: int
    octets: np.ndarray
    values: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


def stored_rows(window: Window) -> tuple[StoredRows, np.ndarray]:
    """Return the rows of a window's block, and the places of the window's rows in them.

    Types and layouts that compiled code does not know are converted. Only the window's rows are, because the block may
    hold all rows in memory.
    """
    block, places = window.block, window.places
    kind = product_type(block.stored.dtype)
    rows = StoredRows(
        _ROWS, np.empty((0, 0), np.uint8), np.empty((0, 0), kind),
        np.empty(0, kind), np.empty(0, np.int32), np.empty(0, np.int64),
    )  # fmt: skip
    if isinstance(block, CSRBlock):
        block, places = readable(block, places)
        return rows._replace(form=_SPARSE, data=block.data, indices=block.indices, indptr=block.indptr), places
    values = block.values
    if values.dtype == np.uint8 and values.flags.c_contiguous:
        return rows._replace(form=_BYTES, octets=values), places
    if values.dtype == kind and values.flags.c_contiguous:
        return rows._replace(values=values), places
    if values.dtype == kind and values.flags.f_contiguous:
        return rows._replace(form=_COLUMNS, values=values.T), places
    return rows._replace(values=np.ascontiguousarray(values[places], kind)), np.arange(len(places))


@jit
def load(rows: StoredRows, places: np.ndarray, out: np.ndarray) -> None:
    """Write the rows `places` to the dense array `out`."""
    for i in range(places.size):
        target, place = out[i], places[i]
        if rows.form == _BYTES:
            octets = rows.octets[place]
            for j in range(target.size):
                target[j] = octets[j]
        elif rows.form == _ROWS:
            values = rows.values[place]
            for j in range(target.size):
                target[j] = values[j]
        elif rows.form == _COLUMNS:
            for j in range(target.size):
                target[j] = rows.values[j, place]
        else:
            for j in range(target.size):
                target[j] = 0
            for p in range(rows.indptr[place], rows.indptr[place + 1]):
                target[rows.indices[p]] = rows.data[p]
