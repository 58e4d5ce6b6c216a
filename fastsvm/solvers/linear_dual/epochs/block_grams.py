"""Gram matrices of blocks of dense rows, cached for as many blocks as fit.

Many small blocks are one piece of work: a thread that asks for the next piece holds up the others.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm._compiled.vectors import HAS_BYTE_SQUARES
from fastsvm.kernel_matrix.pairwise import multiplies_bytes
from fastsvm.linalg.dense_products import mirror, scale_rows, write_byte_squares, write_products

__all__ = ["BlockGrams"]

_TILE = 32
_PIECE = 25_000_000  # multiplications, about a millisecond


class BlockGrams:
    """Computes Gram matrices of blocks in the metric (I + M)⁻¹, but for the damping.

    Parameters
    ----------
    block_rows : int
        Largest number of rows of a block.
    n_kept : int
        Number of blocks whose Gram matrices are cached.
    n_blocks : int
        Number of blocks of all rows, if none is cut.
    constant : float
        Value of the feature of the intercept.
    dtype : numpy.dtype
        Type of the products.
    pool : Pool
        Threads.

    Attributes
    ----------
    grams : ndarray of shape (n_slots, block_rows, block_rows)
        Gram matrices: those that are cached, then others.
    """

    def __init__(
        self, block_rows: int, n_kept: int, n_blocks: int, constant: float, dtype: np.dtype, pool: Pool
    ) -> None:
        self.grams = np.empty((0, block_rows, block_rows), dtype)
        self._n_kept, self._n_blocks, self._constant, self._pool = n_kept, n_blocks, constant, pool
        self._slots: dict[tuple[int, int], int] = {}
        self._basis = self._shares = np.empty(0, dtype)

    def begin(self, basis: np.ndarray, shares: np.ndarray) -> None:
        """Set the principal directions of the metric, and their shares."""
        self._basis, self._shares = basis, shares

    def slots(
        self, values: np.ndarray, starts: np.ndarray, firsts: np.ndarray, lengths: np.ndarray, used: np.ndarray
    ) -> np.ndarray:
        """Compute the missing Gram matrices, and return the slot of each block.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_features)
            Rows.
        starts, firsts, lengths : ndarray of int64, shape (n,)
            Place in `values` and index of each block's first row, and its number of rows.
        used : ndarray of bool, shape (n,)
            Blocks whose matrices are needed.

        Returns
        -------
        ndarray of int64, shape (n,)
            Indices in `grams`; 0 for blocks that are not needed.
        """
        found, missing, spare = np.zeros(len(starts), np.int64), [], self._n_kept
        for k in np.flatnonzero(used).tolist():
            block = int(firsts[k]), int(lengths[k])
            slot = self._slots.get(block)
            if slot is None:
                if len(self._slots) < self._n_kept:
                    slot = self._slots[block] = len(self._slots)
                else:
                    slot, spare = spare, spare + 1
                missing.append(k)
            found[k] = slot
        if missing:
            self._grow(1 + int(found[missing].max()), len(starts))
            self._fill(values, np.stack([starts, lengths, found], axis=1)[missing])
        return found

    def _grow(self, n_slots: int, n_blocks: int) -> None:
        """Allocate slots, at once for all to be cached: untouched memory costs nothing."""
        if n_slots > len(self.grams):
            size = self.grams.shape[1]
            most = min(self._n_kept, 2 * n_blocks + self._n_blocks)
            grown = np.empty((max(n_slots, most + 2 * n_blocks), size, size), self.grams.dtype)
            grown[: len(self.grams)] = self.grams
            self.grams = grown

    def _fill(self, values: np.ndarray, blocks: np.ndarray) -> None:
        """Write the Gram matrices of blocks: first row, number of rows, and slot."""
        of_bytes = values.dtype == np.uint8 and HAS_BYTE_SQUARES and multiplies_bytes(values.shape[1])
        write = _write_byte_grams if of_bytes else _write_grams if values.dtype == self.grams.dtype else _write_wider
        square = self.grams.dtype.type(self._constant**2)

        def some(low: int, high: int) -> None:
            write(values, blocks[low:high], square, self.grams)
            if len(self._shares):
                for start, n, slot in blocks[low:high].tolist():
                    self._project(values[start : start + n], self.grams[slot])

        size = max(1, _PIECE // (self.grams.shape[1] ** 2 * values.shape[1]))
        self._pool.run(some, spans(len(blocks), size))

    def _project(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Subtract the principal directions of the metric from a Gram matrix."""
        n, r = len(rows), len(self._shares)
        square, parts = out[:n, :n], np.empty((r, n), out.dtype)
        write_products(rows, np.arange(n), self._basis, (0, n, 0, r), parts)
        parts += out.dtype.type(self._constant) * self._basis[:, -1:]
        with np.errstate(all="ignore"):  # the weights overflow too, which raises an error
            square -= (parts.T * self._shares) @ parts


@jit
def _write_byte_grams(values, blocks, square, grams):
    """Write Gram matrices of blocks of bytes, and add the square of the constant feature."""
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        write_byte_squares(values[start : start + n], grams[slot])
        _complete(grams[slot], n, square)


@jit
def _write_wider(values, blocks, square, grams):
    """Write Gram matrices of blocks, whose values are first converted to their type."""
    nothing = np.empty(0, grams.dtype)
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        wide = np.empty((n, values.shape[1]), grams.dtype)
        scale_rows(values[start : start + n], nothing, nothing, wide)
        _write_tiles(wide, grams[slot])
        _complete(grams[slot], n, square)


@jit
def _write_grams(values, blocks, square, grams):
    """Write Gram matrices of blocks of their own type."""
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        _write_tiles(values[start : start + n], grams[slot])
        _complete(grams[slot], n, square)


@jit
def _write_tiles(rows, out):
    """Write the lower triangle of a Gram matrix, in tiles."""
    n, first = rows.shape[0], np.int64(0)  # a literal would be a type of its own
    places = np.arange(n)
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        write_products(rows, places, rows, (first, stop, start, stop), out)


@jit
def _complete(out, n, square):
    """Mirror the lower triangle and add the square of the constant feature."""
    mirror(out, n)
    for i in range(n):
        for j in range(n):
            out[i, j] += square
