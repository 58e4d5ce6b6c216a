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


def row_scores(
    block: Block, places: np.ndarray, coef: np.ndarray, intercept: np.ndarray, exact: bool = False
) -> np.ndarray:
    """Return coef·x + intercept for some rows x of a block, shape (n_scores, n_places).

    The bits are the same in any block. Further columns of `coef` are ignored. Scores of sparse rows are in float64, and
    all if `exact`: the intercept has the shift of standardised rows, which may be much larger.
    """
    k, n, dtype = len(coef), len(places), np.dtype(np.float64)
    if isinstance(block, CSRBlock):
        block, places = readable(block, places)
        out = np.empty((k, n))
        write_sparse(unsigned(block), places, writeable(np.ascontiguousarray(coef, dtype)), out)
        return out + intercept[:, None]
    dtype = dtype if exact else product_type(block.stored.dtype)
    is_run = n > 0 and places[-1] - places[0] == n - 1
    values = readable_rows(block.values[places[0] : places[-1] + 1] if is_run else block.values[places])
    weights = writeable(np.ascontiguousarray(coef[:, : values.shape[1]], dtype))
    if k > _FEW_SCORES:
        panels = panels_of(weights)
        products = np.empty((n, panels.shape[0] * panels.shape[2]), dtype)
        add_panel_products(writeable(values.astype(dtype, copy=False)), panels, products)
        out = products[:, :k].T
    else:
        out = np.empty((k, n), dtype)
        write_products(values, np.arange(n), weights, (0, n, 0, k), out)
    return np.add(out, intercept[:, None].astype(dtype), order="C")


def block_scores(block: Block, coef: np.ndarray, intercept: np.ndarray, exact: bool = False) -> np.ndarray:
    """Return coef·x + intercept for the rows x of a block, shape (n_rows, n_scores), as `row_scores` does."""
    return np.ascontiguousarray(row_scores(block, np.arange(block.shape[0]), coef, intercept, exact).T)


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
