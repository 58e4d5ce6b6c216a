"""Protocol of pairwise kernels, the destination of their values, and how a kernel's scalar map is applied to pairings.

k(x, z) and k(z, x) have the same bits.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import maximum, minimum
from fastsvm._compiled.threads import scratch_array, spans
from fastsvm.kernels import kernel_value
from fastsvm.linalg.row_products import add_rows
from fastsvm.sources import Block, Source

COST_OF_UNKNOWN = 4.0
"""Nanoseconds that a kernel value is taken to cost if that depends on a user's function, or on how sparse rows are."""

LARGEST_VALUE = 1e300
"""Largest kernel value of a fit: sums of millions of them do not overflow."""

SPAN = 256
"""Columns of a tile in memory, and rows or columns of what a thread does at a time."""

MOST_COLUMNS = 4096
"""Most columns of a task for a thread, whose sums stay in the processor's cache."""

TILED_ROWS = 1024
"""Rows of an operand for sums of tiles in memory, which stay in the processor's cache until they are summed."""


Prepared = Any
"""What a pairwise kernel makes of some rows: an operand of its own type."""


class Rows(NamedTuple):
    """Destination of a tile: the rows `slots` of `store`, from column `start` on."""

    store: np.ndarray
    slots: np.ndarray
    start: int


class PairwiseKernel(Protocol):
    """Kernel values between a prepared operand and a block. Several threads may compute tiles if it is `parallel`."""

    dtype: np.dtype
    terms_dtype: np.dtype
    parallel: bool

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of a row of an operand."""

    def prepare(self, block: Block) -> Prepared:
        """Return the operand for the rows of a block."""

    def terms(self, block: Block) -> np.ndarray:
        """Return one term per row, such as its squared norm, that `tile` adds to dot products. Callers may store it."""

    @property
    def summed_rows(self) -> int:
        """Most rows of an operand for `add_sums`."""

    def tile(self, operand: Prepared, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block) to `out`."""

    def add_sums(self, operand: Prepared, coef: np.ndarray, block: Block, terms: np.ndarray, sums: np.ndarray) -> None:
        """Add Σ_s coef_s k(x_s, x) over the operand's rows, in their order, to the sums of the block's rows x."""

    def cost(self, n_features: int) -> float:
        """Return the approximate nanoseconds per value."""

    def widened(self) -> "PairwiseKernel":
        """Return the pairwise kernel that computes the same kernel in float64."""


def add_tile(
    pairwise: PairwiseKernel, operand: Prepared, coef: np.ndarray, block: Block, terms: np.ndarray, sums: np.ndarray
) -> None:
    """Do what `PairwiseKernel.add_sums` does, by tiles in memory."""
    slots = np.arange(len(coef))
    for a, b in spans(block.shape[0], SPAN):
        tile = scratch_array("tile", (len(coef), b - a), pairwise.dtype)
        pairwise.tile(operand, block.slice(a, b), terms[a:b], Rows(tile, slots, 0))
        add_rows(tile, coef, sums[a:b])


CHUNK = 32
"""Pairings mapped at once. For fewer, LLVM may use other instructions, whose roots and quotients may differ."""
ROUND = 128
"""Pairings mapped without a copy: a multiple of `CHUNK`, and of the width of vectorised loops, which need no rest."""


@jit
def map_chunks(kernel, pairings, sq_x, sq_z, out):
    """Write k for pairings whose number is a multiple of `CHUNK`."""
    for start in range(0, out.size, CHUNK):
        for i in range(start, start + CHUNK):
            out[i] = kernel_value(kernel, pairings[i], minimum(sq_x, sq_z[i]), maximum(sq_x, sq_z[i]))


@jit
def rounds_and_rest(n):
    """Return how many of n pairings fill whole rounds, and the number of the rest padded to whole chunks."""
    many = n // ROUND * ROUND
    return many, -(-(n - many) // CHUNK) * CHUNK


@jit
def map_rest(kernel, pairings, sq_x, sq_z, values, out):
    """Write k of the first pairings to `out`; `values` is a buffer for whole chunks."""
    map_chunks(kernel, pairings, sq_x, sq_z, values)
    for i in range(out.size):
        out[i] = values[i]


@jit
def map_tile(kernel, tile, sq_x, sq_z, out, slots, start):
    """Write k of the first pairings of each row of `tile` to the rows `slots` of `out`, from column `start` on.

    The smaller of two squared norms comes first, so that k(x, z) and k(z, x) have the same bits.
    """
    n = sq_z.size
    many, padded = rounds_and_rest(n)
    pairings, norms, values = np.zeros(padded, tile.dtype), np.zeros(padded, sq_z.dtype), np.empty(padded, out.dtype)
    for i in range(many, n):
        norms[i - many] = sq_z[i]
    for s in range(tile.shape[0]):
        source = tile[s]
        target = out[slots[s], start : start + n]
        for i in range(many):
            target[i] = kernel_value(kernel, source[i], minimum(sq_x[s], sq_z[i]), maximum(sq_x[s], sq_z[i]))
        if many < n:
            for i in range(many, n):
                pairings[i - many] = source[i]
            map_rest(kernel, pairings, sq_x[s], norms, values, target[many:])
