"""Gram matrices of blocks of dense rows, cached for as many blocks as fit.

Many small blocks are one piece of work: a thread that asks for the next piece holds up the others. For the same reason
one compiled function does all that a block needs.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.vectors import HAS_BYTE_SQUARES
from fastsvm.kernel_matrix.pairwise import multiplies_bytes
from fastsvm.linalg.dense_products import mirror, scale_rows, write_byte_squares, write_products

__all__ = ["BlockGrams"]

_TILE = 32


class BlockGrams:
    """Computes Gram matrices of blocks in the metric (I + M)⁻¹, but for the damping.

    Blocks have at most `block_rows` rows, and all rows are `n_blocks` blocks if none is cut. `grams`, shape
    (n_slots, block_rows, block_rows), has `n_spare` matrices that are not cached, then at most `n_kept` that are.
    `constant` is the value of the feature of the intercept.
    """

    def __init__(
        self, block_rows: int, n_kept: int, n_spare: int, n_blocks: int, constant: float, dtype: np.dtype
    ) -> None:
        self.grams = np.empty((n_spare, block_rows, block_rows), dtype)
        self._n_kept, self._n_spare, self._n_blocks = n_kept, n_spare, n_blocks
        self._constant = self.grams.dtype.type(constant)
        self._slots: dict[tuple[int, int], int] = {}
        self._basis = self._shares = np.empty(0, dtype)

    def begin(self, basis: np.ndarray, shares: np.ndarray) -> None:
        """Set the principal directions of the metric, and their shares."""
        self._basis, self._shares = basis, shares

    def reserve(self, n_blocks: int) -> None:
        """Allocate slots for some more blocks, at once for all to be cached: untouched memory costs nothing.

        Other threads must not use `grams` meanwhile.
        """
        needed = self._n_spare + min(self._n_kept, len(self._slots) + n_blocks)
        if needed > len(self.grams):
            size = self.grams.shape[1]
            most = self._n_spare + min(self._n_kept, 2 * n_blocks + self._n_blocks)
            grown = np.empty((max(needed, most), size, size), self.grams.dtype)
            grown[: len(self.grams)] = self.grams
            self.grams = grown

    def are_cached(self, firsts: np.ndarray, lengths: np.ndarray) -> bool:
        """Return whether the Gram matrices of all these blocks are cached."""
        blocks = zip(firsts.tolist(), lengths.tolist(), strict=True)
        return self._n_kept > 0 and all(block in self._slots for block in blocks)

    def slots(
        self, firsts: np.ndarray, lengths: np.ndarray, used: np.ndarray, spare: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the slot of each block, and the indices of the blocks whose matrices `fill` must write there first.

        A block is its first row and its number of rows. Slots are indices in `grams`; 0 for blocks that are not `used`.
        Matrices that are not cached have slots from `spare` on.
        """
        found, needed, missing = np.zeros(len(firsts), np.int64), np.flatnonzero(used), []
        if self._n_kept == 0:
            found[needed] = np.arange(spare, spare + len(needed))
            return found, needed
        for k in needed.tolist():
            block = int(firsts[k]), int(lengths[k])
            slot = self._slots.get(block)
            if slot is None:
                if len(self._slots) < self._n_kept:
                    slot = self._slots[block] = self._n_spare + len(self._slots)
                else:
                    slot, spare = spare, spare + 1
                missing.append(k)
            found[k] = slot
        return found, np.array(missing, np.int64)

    def fill(self, values: np.ndarray, blocks: np.ndarray) -> bool:
        """Write the Gram matrices of blocks, and return whether the squares of their rows are finite.

        A block is the place of its first row in `values`, its number of rows, and its slot.
        """
        of_bytes = values.dtype == np.uint8 and HAS_BYTE_SQUARES and multiplies_bytes(values.shape[1])
        write = _write_byte_grams if of_bytes else _write_grams if values.dtype == self.grams.dtype else _write_wider
        return bool(np.isfinite(write(values, blocks, self._constant, self._basis, self._shares, self.grams)))


@jit
def _write_byte_grams(values, blocks, constant, basis, shares, grams):
    """Write Gram matrices of blocks of bytes, and return the sum of their diagonals."""
    total = 0.0
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        rows = values[start : start + n]
        write_byte_squares(rows, grams[slot])
        total += _complete(rows, constant, basis, shares, grams[slot])
    return total


@jit
def _write_wider(values, blocks, constant, basis, shares, grams):
    """Write Gram matrices of blocks, whose values are first converted to their type; return as above."""
    total = 0.0
    nothing = np.empty(0, grams.dtype)
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        wide = np.empty((n, values.shape[1]), grams.dtype)
        scale_rows(values[start : start + n], nothing, nothing, wide)
        _write_tiles(wide, grams[slot])
        total += _complete(wide, constant, basis, shares, grams[slot])
    return total


@jit
def _write_grams(values, blocks, constant, basis, shares, grams):
    """Write Gram matrices of blocks of their own type; return as above."""
    total = 0.0
    for k in range(blocks.shape[0]):
        start, n, slot = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        rows = values[start : start + n]
        _write_tiles(rows, grams[slot])
        total += _complete(rows, constant, basis, shares, grams[slot])
    return total


@jit
def _write_tiles(rows, out):
    """Write the lower triangle of a Gram matrix, in tiles."""
    n, first = rows.shape[0], np.int64(0)  # a literal would be a type of its own
    places = np.arange(n)
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        write_products(rows, places, rows, (first, stop, start, stop), out)


@jit
def _complete(rows, constant, basis, shares, out):
    """Complete a Gram matrix from its lower triangle.

    The square of the constant feature is added, the principal directions are subtracted, and the rest is mirrored.
    Return the sum of the diagonal before the subtraction.
    """
    n, r, first = rows.shape[0], shares.size, np.int64(0)
    square, total = constant * constant, 0.0
    for i in range(n):
        for j in range(i + 1):
            out[i, j] += square
        total += float(out[i, i])
    if r > 0:
        parts = np.empty((r, n), out.dtype)
        write_products(rows, np.arange(n), basis, (first, n, first, r), parts)
        for k in range(r):
            along, share = parts[k], shares[k]
            for i in range(n):
                along[i] += constant * basis[k, basis.shape[1] - 1]
            for i in range(n):
                factor = share * along[i]
                for j in range(i + 1):
                    out[i, j] -= factor * along[j]
    mirror(out, n)
    return total
