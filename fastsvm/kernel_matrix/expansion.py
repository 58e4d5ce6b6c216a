"""Kernel expansions Σ_s coef_s k(x_s, x), summed tile by tile, so that no kernel value is stored in memory.

`expand` is for predictions: the bits of a result do not depend on the other rows. `add_expansion` is for solvers. It
sums in an order that is faster.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm._compiled.processor import JIT_DISABLED
from fastsvm._compiled.scalars import multiply_add
from fastsvm._compiled.threads import Pool, scratch_array, spans
from fastsvm._compiled.vectors import PANEL_BYTES, PANEL_ROWS, panel_tile
from fastsvm.kernel_matrix.memory_plan import operand_rows
from fastsvm.kernel_matrix.pairwise import (
    MOST_COLUMNS,
    SPAN,
    TILED_ROWS,
    Operand,
    PairwiseKernel,
    PrecomputedPairwise,
    Prepared,
    RealPairwise,
    Rows,
)
from fastsvm.linalg.row_products import FEATURES, add_panel_products, add_rows, panels_of, panels_of_columns
from fastsvm.sources import Block
from fastsvm.tuning import KernelTuning

_FEW_ROWS = 4  # With so few rows, a panel of them would be mostly empty.
_PIECE_COLUMNS = PANEL_BYTES // np.dtype(np.float64).itemsize  # They are a panel of sums.


def task_columns(n_rows: int, ns_of_value: float, tuning: KernelTuning) -> int:
    """Return how many columns of so many rows are a task for a thread, by the time of a value beside its kernel map."""
    columns = int(tuning.task_ns / (max(1, n_rows) * max(1.0, ns_of_value)))
    return min(max(columns // SPAN, 1) * SPAN, MOST_COLUMNS)


def add_expansion(
    sums: np.ndarray, pairwise: PairwiseKernel, support: Block, coef: np.ndarray, block: Block, terms: np.ndarray,
    pool: Pool, tuning: KernelTuning,
) -> None:  # fmt: skip
    """Add Σ_s coef_s k(x_s, x) to the float64 sums of the rows x of a block; the kernel is not a precomputed one."""
    most = min(pairwise.summed_rows, operand_rows(pairwise.row_bytes(support)))

    def add(operand: Prepared, weights: np.ndarray, a: int, b: int) -> None:
        pairwise.add_sums(operand, weights, block.slice(a, b), terms[a:b], sums[a:b])

    for first, last in spans(len(coef), most):
        operand = pairwise.prepare(support.slice(first, last))
        columns = task_columns(last - first, pairwise.cost(block.shape[1]), tuning)
        run_pieces(pairwise, pool, add, [(operand, coef[first:last], a, b) for a, b in spans(len(sums), columns)])


def run_pieces(pairwise: PairwiseKernel, pool: Pool, function: Callable[..., None], pieces: Iterable[tuple]) -> None:
    """Call a function for every piece, on all threads if the kernel allows it."""
    if pairwise.parallel:
        pool.run(function, pieces)
        return
    for piece in pieces:
        function(*piece)


def expand_among(pairwise: PairwiseKernel, support: Block, coef: np.ndarray, pool: Pool) -> np.ndarray:
    """Return Σ_s coef_s k(x_s, x) at the rows x_s, each value computed once; the kernel is not precomputed."""
    sums, terms = np.zeros(len(coef)), pairwise.terms(support)
    most = min(TILED_ROWS, operand_rows(pairwise.row_bytes(support)))

    def add(operand: Prepared, first: int, last: int, a: int, b: int, others: np.ndarray) -> None:
        """Add the columns from a to b of the rows from `first` to `last`; write what they add to the rows."""
        tile = scratch_array("tile", (last - first, b - a), pairwise.dtype)
        pairwise.tile(operand, support.slice(a, b), terms[a:b], Rows(tile, np.arange(last - first), 0))
        add_rows(tile, coef[first:last], sums[a:b])
        beyond = max(a, last)
        if beyond < b:
            _products_of_columns(tile[:, beyond - a :], coef[beyond:b], others)

    for first, last in spans(len(coef), most):
        operand = pairwise.prepare(support.slice(first, last))
        columns = list(spans(len(coef) - first, SPAN))
        others = np.zeros((len(columns), last - first))
        pieces = [
            (operand, first, last, first + a, first + b, one) for (a, b), one in zip(columns, others, strict=True)
        ]
        run_pieces(pairwise, pool, add, pieces)
        sums[first:last] += others.sum(axis=0)
    return sums


@jit
def _products_of_columns(tile, coef, out):
    """Write Σ_i coef_i tile[s, i] of each row s."""
    for s in range(tile.shape[0]):
        row, total = tile[s], 0.0
        for i in range(coef.size):
            total += coef[i] * row[i]
        out[s] = total


class PairCoefficients(NamedTuple):
    """Coefficients of the decision functions of all pairs of classes, as LIBSVM arranges them.

    For a support vector of class c, row r of `dual_coef`, shape (n_classes - 1, n_support), is its coefficient in the
    pair of c and the r-th other class. `ends` says where the support vectors of each class end.
    """

    dual_coef: np.ndarray
    ends: np.ndarray

    @property
    def n_outputs(self) -> int:
        """Number of pairs."""
        return len(self.ends) * (len(self.ends) - 1) // 2

    def largest_norms(self) -> tuple[float, float]:
        """Return the largest sum of absolute values of a pair's coefficients, and the largest Euclidean norm."""
        first, second = np.triu_indices(len(self.ends), 1)
        sums, squares = (
            np.stack([values.sum(axis=1) for values in np.split(of_coef, self.ends[:-1], axis=1)], axis=1)
            for of_coef in (np.abs(self.dual_coef), np.square(self.dual_coef))
        )
        of_pairs = (each[second - 1, first] + each[first, second] for each in (sums, squares))
        return float(next(of_pairs).max()), float(np.sqrt(next(of_pairs).max()))

    def part(self, first: int, last: int) -> "PairCoefficients":
        """Return the coefficients of the support vectors from `first` to `last`."""
        if last - first == self.dual_coef.shape[1] and self.dual_coef.flags.c_contiguous:
            return self
        some = np.ascontiguousarray(self.dual_coef[:, first:last])
        return PairCoefficients(some, np.clip(self.ends - first, 0, last - first))

    def added(self, values: np.ndarray, sums: np.ndarray | None, out: np.ndarray) -> np.ndarray:
        """Add Σ_s coef_s values[s] of each column to a row of `out`, and return it; `sums` is None at first."""
        if JIT_DISABLED or len(out) <= _PIECE_COLUMNS // 4:
            _add_columns(self.dual_coef, self.ends, values, out)
        else:
            _add_panels(self.dual_coef, self.ends, panels_of_columns(values), out, sums is None)
        return out

    @staticmethod
    def write(sums: np.ndarray, out: np.ndarray) -> None:
        """Do nothing: the sums are where they belong."""


@jit_in_order
def _add_columns(dual_coef, ends, values, out):
    """Add the sums of each pair, class after class, those of `FEATURES` support vectors before they are added."""
    k = ends.size
    for c in range(k):
        low = ends[c - 1] if c else 0
        for start in range(low, ends[c], FEATURES):
            stop = min(start + FEATURES, ends[c])
            for r in range(0, k - 1, 4):
                others = r, min(r + 1, k - 2), min(r + 2, k - 2), min(r + 3, k - 2)
                for i in range(out.shape[0]):
                    x = y = z = w = 0.0
                    for s in range(start, stop):
                        value = np.float64(values[s, i])
                        x = multiply_add(dual_coef[others[0], s], value, x)
                        y = multiply_add(dual_coef[others[1], s], value, y)
                        z = multiply_add(dual_coef[others[2], s], value, z)
                        w = multiply_add(dual_coef[others[3], s], value, w)
                    sums = x, y, z, w
                    for t in range(min(4, k - 1 - r)):
                        other = r + t
                        out[i, _pair(k, c, other + 1) if other >= c else _pair(k, other, c)] += sums[t]


@jit
def _pair(k, a, b):
    """Return the number of the pair of classes a and b > a."""
    return a * (2 * k - a - 1) // 2 + b - a - 1


@jit
def _add_panels(dual_coef, ends, panels, out, is_first):
    """Do what `_add_columns` does with the same bits, for columns that are packed into panels.

    The sums of some classes with some others stay in the cache: first those over the support vectors of the former.
    """
    k, width = ends.size, panels.shape[2]
    sums = np.zeros((PANEL_ROWS, PANEL_ROWS, width))
    for p in range(panels.shape[0]):
        count = min(width, out.shape[0] - p * width)
        rows = out[p * width : p * width + count]
        for a in range(0, k, PANEL_ROWS):
            for b in range(a, k, PANEL_ROWS):
                if is_first:
                    sums[:] = 0.0
                else:
                    _move(rows, sums, (k, a, b), False)
                to, down, across = sums.ctypes.data, sums.strides[0], sums.strides[1]
                for c in range(a, min(a + PANEL_ROWS, k)):  # with the classes after it
                    first, stop = max(b, c + 1), min(b + PANEL_ROWS, k)
                    place = to + (c - a) * down + (first - b) * across
                    _add_class(dual_coef, ends, panels[p], (c, first - 1, stop - 1), (place, across))
                for c in range(b, min(b + PANEL_ROWS, k)):  # with the classes before it
                    _add_class(
                        dual_coef, ends, panels[p], (c, a, min(a + PANEL_ROWS, c)), (to + (c - b) * across, down)
                    )
                _move(rows, sums, (k, a, b), True)


@jit
def _add_class(dual_coef, ends, panel, which, out):
    """Add the sums over the support vectors of a class with some rows of coefficients to sums, given by address."""
    c, first, stop = which
    step = dual_coef.strides[0]
    if first < stop:
        rows = dual_coef.ctypes.data + first * step, step, stop - first - 1
        for start in range(ends[c - 1] if c else 0, ends[c], FEATURES):
            features = start, min(start + FEATURES, ends[c]), 1
            panel_tile(panel[0, 0], rows, panel.ctypes.data, features, out)


@jit
def _move(rows, sums, which, is_from_sums):
    """Copy the sums of some classes with some others from or to the rows, which have a column for each pair."""
    k, first, second = which
    for i in range(rows.shape[0]):
        for a in range(first, min(first + PANEL_ROWS, k)):
            for b in range(max(second, a + 1), min(second + PANEL_ROWS, k)):
                if is_from_sums:
                    rows[i, _pair(k, a, b)] = sums[a - first, b - second, i]
                else:
                    sums[a - first, b - second, i] = rows[i, _pair(k, a, b)]


class _Columns(NamedTuple):
    """Coefficients of any decision functions, shape (n_outputs, n_support), with the methods of `PairCoefficients`."""

    weights: np.ndarray

    @property
    def n_outputs(self) -> int:
        return len(self.weights)

    def part(self, first: int, last: int) -> "_Columns":
        return _Columns(np.ascontiguousarray(self.weights[:, first:last]))

    def added(self, values: np.ndarray, sums: np.ndarray | None, out: np.ndarray) -> np.ndarray:
        panels = panels_of_columns(values)
        total = np.empty((self.n_outputs, panels.shape[0] * panels.shape[2])) if sums is None else sums
        add_panel_products(self.weights, panels, total, sums is not None)
        return total

    @staticmethod
    def write(sums: np.ndarray, out: np.ndarray) -> None:
        out[:] = sums[:, : len(out)].T


class ExpansionPart(NamedTuple):
    """Some support vectors, prepared, and their coefficients."""

    operand: Prepared
    weights: PairCoefficients | _Columns
    n_support: int


def expansion_parts(
    pairwise: PairwiseKernel, support: Block, coef: np.ndarray | PairCoefficients, n_rows: int, is_kept: bool = False
) -> Iterator[ExpansionPart]:
    """Yield the parts of an expansion, of which there are fewer for few rows; dense rows that are kept are packed."""
    weights = coef if isinstance(coef, PairCoefficients) else _Columns(coef.T)
    if isinstance(pairwise, PrecomputedPairwise):
        yield ExpansionPart(None, weights.part(0, len(pairwise.columns)), len(pairwise.columns))
        return
    most = operand_rows(pairwise.row_bytes(support))
    most = most if are_few(pairwise, n_rows) else min(TILED_ROWS, most)
    for first, last in spans(support.shape[0], most):
        operand = pairwise.prepare(support.slice(first, last))
        if is_kept and isinstance(operand, Operand) and isinstance(operand.rows, np.ndarray):
            operand = operand._replace(panels=panels_of(operand.rows).copy())
        yield ExpansionPart(operand, weights.part(first, last), last - first)


def are_few(pairwise: PairwiseKernel, n_rows: int) -> bool:
    """Return whether rows to predict are so few that support vectors, rather than they, are packed into panels."""
    return n_rows <= _FEW_ROWS and isinstance(pairwise, RealPairwise) and pairwise.is_dense


def expand(
    pairwise: PairwiseKernel, support: Block, coef: np.ndarray | PairCoefficients, block: Block, pool: Pool
) -> np.ndarray:
    """Return Σ_s coef[s, c] k(support_s, x) for the rows x of a block, in float64, summed in the order of s.

    The shape is (n_rows, n_outputs). The rows `support` are distinct; a precomputed kernel ignores them.
    """
    n_outputs = coef.n_outputs if isinstance(coef, PairCoefficients) else coef.shape[1]
    return expand_parts(pairwise, expansion_parts(pairwise, support, coef, block.shape[0]), n_outputs, block, pool)


def expand_parts(
    pairwise: PairwiseKernel, parts: Iterable[ExpansionPart], n_outputs: int, block: Block, pool: Pool
) -> np.ndarray:
    """Return what `expand` does, for an expansion of some parts."""
    n, columns = block.shape[0], SPAN
    scores = np.zeros((n, n_outputs))
    terms: dict[int, np.ndarray] = {}
    sums: dict[int, np.ndarray] = {}

    few = pairwise.prepare(block) if are_few(pairwise, n) else None

    def add(operand: Prepared, some: PairCoefficients | _Columns, n_support: int, a: int, b: int) -> None:
        rows = block.slice(a, b)
        if a not in terms:
            terms[a] = pairwise.terms(rows)
        tile = scratch_array("tile", (n_support, b - a), pairwise.dtype)
        pairwise.tile(operand, rows, terms[a], Rows(tile, np.arange(n_support), 0))
        sums[a] = some.added(tile, sums.get(a), scores[a:b])

    for operand, some, n_support in parts:
        if isinstance(some, PairCoefficients):  # a panel is enough for a thread
            columns = min(columns, -(-n // (_PIECE_COLUMNS * pool.n_threads)) * _PIECE_COLUMNS)
        if isinstance(pairwise, PrecomputedPairwise):
            for a, b in spans(n, columns):
                values = block.slice(a, b).dense(pairwise.dtype)[:, pairwise.columns]
                sums[a] = some.added(np.ascontiguousarray(values.T), None, scores[a:b])
        elif few is not None and isinstance(pairwise, RealPairwise):
            tile = scratch_array("tile", (n, n_support), pairwise.dtype)
            pairwise.between(few, operand, tile)
            sums[0] = some.added(np.ascontiguousarray(tile.T), sums.get(0), scores)
        else:
            run_pieces(pairwise, pool, add, [(operand, some, n_support, a, b) for a, b in spans(n, columns)])
    for a, total in sums.items():
        some.write(total, scores[a : a + columns])
    return scores
