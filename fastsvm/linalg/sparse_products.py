"""Products of sparse rows, compiled for the types in which the rows are stored; sums are in float64.

Scores are computed one after another, so that the weights of a score stay in the processor's cache. One thread computes
each sum, in a fixed order.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.row_products import product_type
from fastsvm.sources import Block, CSRBlock, DenseBlock

CACHED_VALUES = 1 << 15
"""Number of values of rows that stay in the processor's cache for all scores."""


def readable(block: Block, places: np.ndarray) -> tuple[CSRBlock, np.ndarray]:
    """Return a block that compiled functions take, and the places of its rows; at most rows `places` are converted."""
    if isinstance(block, DenseBlock):
        return block.take(places).compressed(product_type(block.values.dtype)), np.arange(len(places))
    kind = np.int32 if block.n_features < 2**31 else np.int64
    if block.data.dtype not in (np.float32, np.float64) or block.indices.dtype != kind:
        block, places = block.take(places), np.arange(len(places))
        data = block.data.astype(product_type(block.data.dtype), copy=False)
        block = block._replace(data=data, indices=block.indices.astype(kind, copy=False))
    return block._replace(indptr=block.indptr.astype(np.int64, copy=False)), places


def unsigned(block: CSRBlock) -> CSRBlock:
    """Return a readable block with unsigned indices, of which compiled code does not ask if they count from the end."""
    kind = np.uint32 if block.indices.dtype == np.int32 else np.uint64
    return block._replace(indices=block.indices.view(kind), indptr=block.indptr.view(np.uint64))


@jit
def write_sparse(block: CSRBlock, places: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Write products of the rows `places` of an `unsigned` block and weights to `out`, shape (n_scores, n_places)."""
    data, indices, indptr = block.data, block.indices, block.indptr
    values_per_row = max(1, int(indptr[indptr.size - 1]) // max(1, indptr.size - 1))
    step = max(1, CACHED_VALUES // values_per_row)
    for start in range(0, places.size, step):
        for c in range(weights.shape[0]):
            for t in range(start, min(start + step, places.size)):
                total = 0.0
                for p in range(indptr[places[t]], indptr[places[t] + 1]):
                    total += data[p] * weights[c, indices[p]]
                out[c, t] = total


@jit
def add_sparse(block: CSRBlock, factors: np.ndarray, bounds: tuple[int, int], out: np.ndarray) -> None:
    """Add all rows of a block times their factors, shape (n_rows, n_scores), to out[c], for c within `bounds`."""
    data, indices, indptr = block.data, block.indices, block.indptr
    values_per_row = max(1, int(indptr[indptr.size - 1]) // max(1, indptr.size - 1))
    step = max(1, CACHED_VALUES // values_per_row)
    for start in range(0, factors.shape[0], step):
        for c in range(bounds[0], bounds[1]):
            for i in range(start, min(start + step, factors.shape[0])):
                factor = float(factors[i, c])
                if factor != 0:
                    for p in range(indptr[i], indptr[i + 1]):
                        out[c, indices[p]] += factor * data[p]


def gram_of_sparse(block: CSRBlock) -> np.ndarray:
    """Return the Gram matrix of a few rows, in float64."""
    n = block.shape[0]
    gram = np.zeros((n, n))
    _add_gram(unsigned(readable(block, np.arange(n))[0]), gram)
    return gram + np.tril(gram, -1).T


@jit
def _add_gram(block, gram):
    """Add the lower triangle."""
    data, indices, indptr = block.data, block.indices, block.indptr
    ends, values = np.zeros(block.n_features + 1, np.int64), np.empty((data.size, 2))
    for p in range(data.size):
        ends[indices[p] + 1] += 1
    for j in range(block.n_features):
        ends[j + 1] += ends[j]
    for i in range(gram.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            place = ends[indices[p]]
            values[place, 0], values[place, 1] = i, data[p]  # side by side, as places are scattered
            ends[indices[p]] = place + 1
    start = 0
    for j in range(block.n_features):
        for p in range(start, ends[j]):
            row, value = gram[np.uint64(values[p, 0])], values[p, 1]
            for q in range(start, p + 1):
                row[np.uint64(values[q, 0])] += value * values[q, 1]
        start = ends[j]
