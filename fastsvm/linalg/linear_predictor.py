"""Scores of linear functions, for the rows of any source."""

from collections.abc import Callable

import numpy as np

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.row_products import add_panel_products, panels_of, product_type, readable_rows, write_products
from fastsvm.linalg.sparse_products import readable, unsigned, write_sparse
from fastsvm.sources import Block, CSRBlock, Source
from fastsvm.tuning import current_tuning

_FEW_SCORES = 20  # Of more scores, products with packed weights take less time.


def block_scores(block: Block, coef: np.ndarray, intercept: np.ndarray, exact: bool = False) -> np.ndarray:
    """Return coef·x + intercept for the rows x of a block, shape (n_rows, n_scores), with the same bits in any block.

    Those of sparse rows are in float64, and all if `exact`: the intercept has the shift of standardised rows, which may
    be much larger.
    """
    if isinstance(block, CSRBlock):
        rows, places = readable(block, np.arange(block.shape[0]))
        products = np.empty((len(coef), len(places)))
        write_sparse(unsigned(rows), places, writeable(np.ascontiguousarray(coef, np.float64)), products)
        return np.add(products.T, intercept, order="C")
    dtype = np.dtype(np.float64) if exact else product_type(block.stored.dtype)
    values, weights, n = readable_rows(block.values), writeable(np.ascontiguousarray(coef, dtype)), len(coef)
    if n > _FEW_SCORES:
        panels = panels_of(weights)
        products = np.empty((len(values), panels.shape[0] * panels.shape[2]), dtype)
        add_panel_products(writeable(values.astype(dtype, copy=False)), panels, products)
        return products[:, :n] + intercept.astype(dtype)
    out = np.empty((n, len(values)), dtype)
    write_products(values, np.arange(len(values)), weights, (0, len(values), 0, n), out)
    return np.add(out.T, intercept.astype(dtype), order="C")


def scores(source: Source, coef: np.ndarray, intercept: np.ndarray, pool: Pool, exact: bool = False) -> np.ndarray:
    """Return coef·x + intercept for all rows x, float64 of shape (n_rows, n_scores); `exact` as in `block_scores`."""
    out = np.empty((len(source), len(intercept)))

    def piece(block: Block, start: int) -> None:
        out[start : start + block.shape[0]] = block_scores(block, coef, intercept, exact)

    each_piece(source, piece, pool)
    return out


def each_piece(source: Source, function: Callable[[Block, int], None], pool: Pool) -> None:
    """Call `function(piece, start)` for pieces of all blocks; `start` is the index of the first row."""

    def call(block: Block, start: int, a: int, b: int) -> None:
        function(block.slice(a, b), start + a)

    most = current_tuning().products.piece_rows
    for start, block in source.blocks():
        pool.run(call, [(block, start, a, b) for a, b in spans(block.shape[0], most)])
