"""What coordinate ascent does with a row of a block: one code for dense and sparse rows, in float64."""

import numpy as np

from fastsvm._compiled.compiler import generic
from fastsvm.sources import Block, CSRBlock, DenseBlock

__all__ = ["add_row", "row_score", "sq_norm"]


@generic
def row_score(rows: Block, i: int, weights: np.ndarray) -> float:
    """Return the dot product of a row with weights."""
    raise NotImplementedError


@generic
def add_row(rows: Block, i: int, factor: float, weights: np.ndarray) -> None:
    """Add a multiple of a row to weights."""
    raise NotImplementedError


@generic
def sq_norm(rows: Block, i: int) -> float:
    """Return the squared norm of a row."""
    raise NotImplementedError


@row_score.register(DenseBlock)
def _dense_score(rows, i, weights):
    row, total = rows.values[i], 0.0
    for k in range(row.size):
        total += row[k] * weights[k]
    return total


@row_score.register(CSRBlock)
def _sparse_score(rows, i, weights):
    total = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        total += rows.data[p] * weights[rows.indices[p]]
    return total


@add_row.register(DenseBlock)
def _add_dense(rows, i, factor, weights):
    row = rows.values[i]
    for k in range(row.size):
        weights[k] += factor * row[k]


@add_row.register(CSRBlock)
def _add_sparse(rows, i, factor, weights):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        weights[rows.indices[p]] += factor * rows.data[p]


@sq_norm.register(DenseBlock)
def _dense_norm(rows, i):
    row, total = rows.values[i], 0.0
    for k in range(row.size):
        total += row[k] * row[k]
    return total


@sq_norm.register(CSRBlock)
def _sparse_norm(rows, i):
    total = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        total += float(rows.data[p]) * rows.data[p]
    return total
