"""Rows of the kernel matrix of a source, computed block by block."""

import functools
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, scratch_array, spans
from fastsvm.kernel_matrix.accurate_sums import ValueBounds, diagonal
from fastsvm.kernel_matrix.expansion import add_expansion, expand, expand_among, task_columns
from fastsvm.kernel_matrix.memory_plan import operand_rows
from fastsvm.kernel_matrix.pairwise import (
    SPAN,
    TILED_ROWS,
    PairwiseKernel,
    PrecomputedPairwise,
    Prepared,
    RealPairwise,
    Rows,
)
from fastsvm.sources import Block, Source
from fastsvm.tuning import KernelTuning, current_tuning

_AHEAD = 2  # So many pieces for each thread wait, which limits the blocks of a file in memory.
_DENSE = 8  # If one of so many columns or more is wanted, copying uses most of each line of the processor's cache.


@jit
def _copy_columns(out, rows, slots, columns, sources):
    """Copy the values in some columns of the rows in `slots` by symmetry, from the rows in the slots `sources`."""
    values = np.empty((16, rows.size), out.dtype)
    for first in range(0, columns.size, 16):  # writes whole cache lines
        count = min(16, columns.size - first)
        for t in range(count):
            source, read = out[sources[first + t]], values[t]
            for k in range(rows.size):
                read[k] = source[rows[k]]
        for k in range(rows.size):
            target = out[slots[k]]
            for t in range(count):
                target[columns[first + t]] = values[t, k]


@jit
def _scatter(tile, out, slots, columns):
    """Write a tile to the rows `slots` and the columns `columns` of `out`."""
    for s in range(slots.size):
        target, source = out[slots[s]], tile[s]
        for t in range(columns.size):
            target[columns[t]] = source[t]


class Gram:
    """The kernel matrix of `source` (columns) with itself or with `left` (rows), computed a few rows at a time."""

    is_kernel = False  # Its values may be rounded to float32.

    def __init__(
        self,
        pairwise: PairwiseKernel,
        source: Source,
        pool: Pool,
        left: Source | None = None,
        tuning: KernelTuning | None = None,
    ) -> None:
        self.pairwise, self.source, self.pool = pairwise, source, pool
        self.tuning = current_tuning().kernel if tuning is None else tuning
        self.left = source if left is None else left
        self.dtype = pairwise.dtype
        self.passes = 0
        self.worth_filling = self.tuning.filled_share
        self._terms: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.source)

    @functools.cached_property
    def _ready(self) -> tuple[PairwiseKernel, Source]:
        """The kernel and its columns as tiles take them; those in another type are converted once."""
        pairwise, converted = self.pairwise, None
        if self._symmetric and isinstance(pairwise, RealPairwise):
            converted = pairwise.converted(self.source)
        return converted or (pairwise, self.source)

    def _rows(self, indices: np.ndarray) -> Block:
        """Return some rows of the matrix as tiles take them."""
        return (self._ready[1] if self.left is self.source else self.left).rows(indices)

    def _prepared(self, indices: np.ndarray) -> Prepared:
        """Return some rows as an operand of tiles."""
        return self._ready[0].prepare(self._rows(indices))

    def take(self, indices: np.ndarray, source: Source, pool: Pool | None = None) -> "Gram":
        """Return the kernel matrix of the rows `indices`, given a source of these rows, and other threads if any."""
        return Gram(self._pairwise_of(indices), source, pool or self.pool, tuning=self.tuning)

    def part(self, indices: np.ndarray, in_memory: bool, pool: Pool | None = None) -> "Gram":
        """Return the kernel matrix of the rows `indices`, in rising order; `in_memory` reads them into memory."""
        if len(indices) == len(self):
            return self
        rows = self.source.take(indices)
        return self.take(indices, rows.in_memory() if in_memory else rows, pool)

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `out.slots` of `out.store`, which already has others.

        `slot_of` is the slot of each of the matrix's rows in the store, or -1; their columns are copied if that is
        cheaper.
        """
        most = max(TILED_ROWS, -(-len(self) // _DENSE)) if self.resident else len(indices)
        n_parts = max(1, len(indices) // max(1, most))
        slot_of = slot_of.copy() if n_parts > 1 else slot_of
        for part, slots in zip(np.array_split(indices, n_parts), np.array_split(out.slots, n_parts), strict=True):
            self._beside(part, out._replace(slots=slots), slot_of)
            if n_parts > 1:
                slot_of[part] = slots  # known to the parts that follow

    def _beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        present = np.flatnonzero(slot_of >= 0)
        if not self._worth_copying(len(indices), len(present)):
            self.rows(indices, out.store, out.slots, out.start)
            return
        self.passes += 1
        order = np.argsort(indices)
        new, slots, columns, places = indices[order], out.slots[order], present + out.start, slot_of[present]
        pieces = [(out.store, new, slots, columns[a:b], places[a:b]) for a, b in spans(len(present), SPAN)]
        self.pool.run(_copy_columns, pieces)
        rest = np.flatnonzero(slot_of < 0)
        terms = self._all_terms()
        most = operand_rows(self.pairwise.row_bytes(self.left))
        for a, b in spans(len(indices), most):
            operand, part = self._prepared(indices[a:b]), out._replace(slots=out.slots[a:b])
            others = [rest[c:d] for c, d in spans(len(rest), SPAN)]
            self.pool.run(self._scattered, [(operand, some, terms[some], part) for some in others])

    def _worth_copying(self, n_new: int, n_present: int) -> bool:
        """Return whether enough values are known, and copying them is faster, as for many rows."""
        if not (self.pairwise.parallel and self.resident and _DENSE * n_present >= len(self) and n_new >= SPAN):
            return False
        copied = self.tuning.cheap_ns if _DENSE * n_new >= len(self) else self.tuning.expensive_ns
        return self.pairwise.cost(self.source.shape[1]) >= copied

    def _scattered(self, operand: Prepared, columns: np.ndarray, terms: np.ndarray, out: Rows) -> None:
        tile = scratch_array("tile", (len(out.slots), len(columns)), self.dtype)
        pairwise, source = self._ready
        pairwise.tile(operand, source.rows(columns), terms, Rows(tile, np.arange(len(out.slots)), 0))
        _scatter(tile, out.store, out.slots, columns + out.start)

    def rows(self, indices: np.ndarray, out: np.ndarray, slots: np.ndarray, start: int = 0) -> None:
        """Write the matrix's rows `indices` to the rows `slots` of `out`, from column `start` on."""
        if isinstance(self.pairwise, PrecomputedPairwise):
            self.passes += 1
            out[slots] = self.source.rows(indices).dense(self.dtype)[:, self.pairwise.columns]
            return
        most = operand_rows(self.pairwise.row_bytes(self.left))
        for a, b in spans(len(indices), most):
            self._sweep(self._prepared(indices[a:b]), b - a, Rows(out, slots[a:b], start))

    def square(self) -> np.ndarray:
        """Return all values, in float64."""
        n, (pairwise, source) = len(self), self._ready
        out = np.empty((n, n))
        if n > SPAN or not (self._symmetric and isinstance(pairwise, RealPairwise) and pairwise.is_dense):
            self.rows(np.arange(n), out, np.arange(n))  # by all threads
            return out
        self.passes += 1
        pairwise.square(pairwise.prepare(source.read(0, n)), out)
        return out

    @property
    def cheap(self) -> bool:
        """Whether values are cheap to recompute."""
        return (
            self.resident
            and self.pairwise.parallel
            and self.pairwise.cost(self.source.shape[1]) <= self.tuning.cheap_ns
        )

    @property
    def resident(self) -> bool:
        """Whether all rows are in memory."""
        return self.source.resident

    def _sweep(self, operand: Prepared, n_rows: int, out: Rows) -> None:
        """Write the operand's rows. The first call also computes the terms of all columns."""
        self.passes += 1
        terms, (pairwise, source) = self._terms, self._ready

        def tile(block: Block, start: int) -> None:
            stop = start + block.shape[0]
            if terms is None:
                all_terms[start:stop] = pairwise.terms(block)
            pairwise.tile(operand, block, all_terms[start:stop], out._replace(start=out.start + start))

        cost = pairwise.cost(source.shape[1])
        columns = task_columns(n_rows, cost, self.tuning) if pairwise.parallel else SPAN
        all_terms = np.empty(len(self), pairwise.terms_dtype) if terms is None else terms
        pieces = (
            functools.partial(tile, block.slice(a, b), start + a)
            for start, block in source.blocks()
            for a, b in spans(block.shape[0], columns)
        )
        if not pairwise.parallel or n_rows * len(self) * max(1.0, cost) < self.tuning.task_ns:
            for piece in pieces:
                piece()
        else:
            with closing(self.pool.ahead(pieces, _AHEAD * self.pool.n_threads)) as done:
                for _ in done:
                    pass
        self._terms = all_terms

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""
        pairwise, source = self._ready if out.dtype == self.dtype else (self.pairwise.widened(), self.source)
        block = source.rows(indices)
        operand, slots = pairwise.prepare(block.slice(first, len(indices))), np.arange(first, len(indices))

        def tile(a: int, b: int) -> None:
            part = block.slice(a, b)
            pairwise.tile(operand, part, pairwise.terms(part), Rows(out, slots, a))

        self.pool.run(tile, spans(len(indices), SPAN))

    def weighted_sum(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows `indices`, for the columns `at` or for all, from values in float64."""
        if at is None:
            support = self.left.rows(indices)
            parts = [self._expanded(block, support, indices, coef) for _, block in self.source.blocks()]
            return np.concatenate(parts)
        if np.array_equal(indices, at) and self._symmetric:
            return expand_among(self.pairwise.widened(), self.source.rows(at), coef, self.pool)
        if self._symmetric and self.pairwise.parallel and len(at) <= SPAN:
            return self._few_sums(indices, coef, at)
        block, sums = self.source.rows(at), np.zeros(len(at))
        most = operand_rows(self.pairwise.row_bytes(self.left))
        for a, b in spans(len(indices), most):  # there may be many rows, and on disk
            sums += self._expanded(block, self.left.rows(indices[a:b]), indices[a:b], coef[a:b])
        return sums

    def samples(self, indices: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and the samples of some rows."""
        return self._pairwise_of(indices).widened(), self.source.rows(indices)

    def _pairwise_of(self, indices: np.ndarray | slice) -> PairwiseKernel:
        """Return the kernel of some rows, which precomputed values have in columns of their own."""
        if isinstance(self.pairwise, PrecomputedPairwise):
            return PrecomputedPairwise(self.pairwise.columns[indices])
        return self.pairwise

    def _block_kernels(self) -> Iterator[tuple[PairwiseKernel, Block]]:
        """Yield the blocks of rows, each after its kernel in float64."""
        for start, block in self.source.blocks():
            yield self._pairwise_of(slice(start, start + block.shape[0])).widened(), block

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64, from one pass over the rows."""
        return ValueBounds.together([ValueBounds.of(kernel, block) for kernel, block in self._block_kernels()])

    def diagonal(self) -> np.ndarray:
        """Return k(x, x) of all rows in float64, from one pass over them."""
        return np.concatenate([diagonal(kernel, block) for kernel, block in self._block_kernels()])

    def _few_sums(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return what `weighted_sum` does for few columns, in which the threads share the rows."""
        pairwise, parts = self.pairwise.widened(), list(spans(len(indices), TILED_ROWS))
        operand, sums = pairwise.prepare(self.source.rows(at)), np.empty((len(parts), len(at)))

        def add(part: int, a: int, b: int) -> None:
            block, tile = self.source.rows(indices[a:b]), scratch_array("tile", (len(at), b - a), np.float64)
            pairwise.tile(operand, block, pairwise.terms(block), Rows(tile, np.arange(len(at)), 0))
            np.dot(tile, coef[a:b], out=sums[part])

        self.pool.run(add, [(k, *part) for k, part in enumerate(parts)])
        return sums.sum(axis=0)

    @property
    def _symmetric(self) -> bool:
        """Whether rows and columns are those of one source in memory."""
        return self.resident and self.left is self.source and not isinstance(self.pairwise, PrecomputedPairwise)

    def _expanded(self, block: Block, support: Block, indices: np.ndarray, coef: np.ndarray) -> np.ndarray:
        pairwise, sums = self._pairwise_of(indices).widened(), np.zeros(block.shape[0])
        if isinstance(pairwise, PrecomputedPairwise):
            return expand(pairwise, support, coef[:, None], block, self.pool)[:, 0]
        add_expansion(sums, pairwise, support, coef, block, pairwise.terms(block), self.pool, self.tuning)
        return sums

    def add_rows(self, sums: np.ndarray, indices: np.ndarray, coef: np.ndarray) -> None:
        """Add Σ_s coef_s K_s over the rows `indices` to the sums. No row is stored; their source is in memory."""
        terms, (pairwise, source) = self._all_terms(), self._ready
        self.passes += 1
        rows = self._rows(indices)
        for start, block in source.blocks():
            part = slice(start, start + block.shape[0])
            add_expansion(sums[part], pairwise, rows, coef, block, terms[part], self.pool, self.tuning)

    def _all_terms(self) -> np.ndarray:
        if self._terms is None:
            pairwise, source = self._ready
            self._terms = np.concatenate([pairwise.terms(block) for _, block in source.blocks()])
        return self._terms
