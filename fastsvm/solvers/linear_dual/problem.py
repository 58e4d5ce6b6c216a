"""The problem of a linear machine: scores, losses, conjugates, sums of rows and certificates, for all its solvers."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.dense_products import add_products
from fastsvm.linalg.linear_predictor import row_scores
from fastsvm.linalg.row_products import product_type, readable_rows
from fastsvm.linalg.sparse_products import add_sparse, readable, unsigned
from fastsvm.losses import Demands, Loss, dual_losses, feasible, primal_losses, sums_of_rows
from fastsvm.solvers.outer_loop import Memoryless, Report, State
from fastsvm.sources import Block, CSRBlock, MemorySource, Source, Window, check_finite
from fastsvm.tuning import LinearTuning

ROUNDING = 512 * float(np.finfo(np.float64).eps)
"""Sums over many rows in float64 have a relative error of some hundred units of rounding."""

ACCEPTED = 0.25
"""A step is accepted where the slope along it is at most this share of the first slope (Nocedal and Wright, section
3.1, curvature condition). Exact searches are not worth their time."""

PIECE_VALUES = 1 << 17
"""A piece of work of so many multiplications takes longer than to hand it to a thread."""

PIECE_ROWS = 8192
"""A piece of work has at most so many rows, so that what is computed of a row stays in the processor's cache."""

PANEL = 128
"""A piece of a product of matrices has so many rows or columns, which BLAS multiplies as fast as more."""

PARTS = 8
"""Threads share sums over sparse rows, or prepare parts of a window, in at most so many parts that memory holds."""

PART_BYTES = 1 << 22
"""Largest size of a part of a window, which has `PARTS` of them. It stays in the processor's cache."""

OVERFLOW = (
    "Products of the rows overflow: their values are too large. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler or standardize=True. Or lower C, the sample weights or the targets, if these "
    "are as large."
)
"""Message of the error that weights are not finite."""

Result = TypeVar("Result")


class Certificate(NamedTuple):
    """Objectives of each problem, and the largest violation of an optimality condition, in units of the scores."""

    primal: np.ndarray
    dual: np.ndarray
    violation: float


class CertificateSums(NamedTuple):
    """Sums over rows of which a certificate is made.

    `losses`, shape (n_weights, n_scores), are those of each of some weights. `conjugates` are Σ c ℓ*(-β / c) of each
    score. `position`, shape (n_scores, n_features + 1), is Σ β_i x_i. `violation` is the largest one.
    """

    losses: np.ndarray
    conjugates: np.ndarray
    violation: float
    position: np.ndarray


class LinearProblem(NamedTuple):
    """Rows, loss, targets and costs of a linear machine, and the mathematics that its solvers share.

    Rows are as stored; a resident source is a `MemorySource`. Values x are mapped to (x - shift) scale, unless both are
    empty. Sparse rows are scaled by their source. `constant` is the value of the constant feature; 0 for no intercept.
    `total` is the sum of the dual variables of a machine of one class, which has no constant feature; None for others.

    Weights and sums of rows have the shape (n_scores, n_features + 1), with the constant feature last. Dual variables β
    have the shape (n, n_scores).
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    loss: Loss
    demands: Demands
    constant: float
    total: float | None = None

    @property
    def block(self) -> Block:
        """All rows, of a source in memory."""
        return cast(MemorySource, self.source).block

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return len(self.demands.balance)

    # --- rows --------------------------------------------------------------------------------------------

    def dense(self, block: Block, width: int) -> np.ndarray:
        """Return the mapped rows in float64, padded to `width` columns with the constant feature last."""
        rows = block.dense(np.float64)
        padded = np.zeros((len(rows), width))
        padded[:, : rows.shape[1]] = (rows - self.shift) * self.scale if self.scale.size else rows
        padded[:, -1] = self.constant
        return padded

    def explain(self) -> NoReturn:
        """Raise the error for a result that is not finite: a bad value of a row, or overflow."""
        for start, block in self.source.blocks():
            check_finite(block, start)
        raise ValueError(OVERFLOW)

    # --- objectives --------------------------------------------------------------------------------------

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores

    def penalty(self, weights: np.ndarray) -> np.ndarray:
        """Return ½ ‖W‖² for each problem."""
        return self.by_problem(0.5 * np.einsum("cj,cj->c", weights, weights))

    def conjugates(self, dual: np.ndarray) -> np.ndarray:
        """Return Σ_i c_i ℓ*(-β_i / c_i) of each score, of all rows."""
        sums = np.zeros(self.n_scores)
        dual_losses(self.loss, self.demands, dual, sums)
        return sums

    def add_losses(self, weights: np.ndarray, window: Window, pool: Pool, losses: np.ndarray) -> None:
        """Add the losses of a window to `losses`, per score; a loss of all classes adds to the first."""

        def some(a: int, b: int) -> np.ndarray:
            places, rows = window.places[a:b], window.rows[a:b]
            scores = self._scores(window.block, places, weights)
            if not np.isfinite(scores).all():
                for place, row in zip(places, rows, strict=True):
                    check_finite(window.block.slice(place, place + 1), row)
            out = np.zeros(len(weights))
            primal_losses(self.loss, self.demands.of_rows(rows), 0, scores, out)
            return out

        for part in _in_order(pool, some, len(window.rows), _piece_of(window.block)):
            losses += part

    def losses(self, weights: np.ndarray, window_rows: int, pool: Pool) -> np.ndarray:
        """Return the losses of all rows of a source in memory, per score, by windows of at most so many rows."""
        losses, every = np.zeros(self.n_scores), np.arange(len(self.source))
        for a, b in spans(len(every), window_rows):
            self.add_losses(weights, Window(self.block, every[a:b], every[a:b]), pool, losses)
        return losses

    # --- certificates ------------------------------------------------------------------------------------

    def certificate(self, weights: Sequence[np.ndarray], sums: CertificateSums) -> tuple[np.ndarray, Certificate]:
        """Return the weights of the lowest objectives with some sums over all rows, and their certificate."""
        best, lowest = weights[0], self.by_problem(sums.losses[0]) + self.penalty(weights[0])
        for each, losses in zip(weights[1:], sums.losses[1:], strict=True):
            primal = self.by_problem(losses) + self.penalty(each)
            is_lower = np.broadcast_to(primal < lowest, self.n_scores)[:, None]
            best, lowest = np.where(is_lower, each, best), np.minimum(primal, lowest)
        value = -self.by_problem(sums.conjugates) - self.penalty(sums.position)
        return best, Certificate(lowest, np.maximum(value, 0.0), sums.violation)  # 0 is a bound: losses are positive

    def certificate_sums(
        self, weights: Sequence[np.ndarray], dual: np.ndarray, position: np.ndarray, pool: Pool
    ) -> CertificateSums:
        """Return the sums over the rows that a certificate of weights and dual variables needs.

        The dual objective is that of the variables nearest to `dual` that are feasible in float64, since rounding to
        float32 may violate a bound. The optimality conditions are checked at the weights `position`, Σ β_i x_i as the
        solver updates it; the dual objective uses a sum that is computed anew.
        """
        every, k = np.concatenate([*weights, position]), len(position)
        losses, conjugates, violation = np.zeros((len(weights), k)), np.zeros(k), 0.0
        total = np.zeros((k, self.source.shape[1] + 1))
        for start, block in self.source.blocks():

            def some(a: int, b: int, block: Block = block, start: int = start) -> CertificateSums:
                rows = slice(start + a, start + b)
                demands, scores = self.demands.of_rows(rows), self._exact_scores(block.slice(a, b), every)
                exact = feasible(self.loss, demands, dual[rows].astype(np.float64))
                losses, conjugates = np.zeros((len(weights), k)), np.zeros(k)
                violation = sums_of_rows(self.loss, demands, scores, dual[rows], exact, losses, conjugates)
                return CertificateSums(losses, conjugates, violation, np.empty(0))

            for part in _in_order(pool, some, block.shape[0], _piece_of(block)):
                losses += part.losses
                conjugates += part.conjugates
                violation = max(violation, part.violation)
            _add_stored_sums(block, start, self._feasible(dual), False, pool, total)
        return CertificateSums(losses, conjugates, violation, self._mapped(total))

    # --- sums of rows ------------------------------------------------------------------------------------

    def combination(self, dual: np.ndarray, pool: Pool) -> np.ndarray:
        """Return Σ β_i x_i, with variables made feasible in float64."""
        used = np.flatnonzero(dual.any(axis=1))
        if len(used) <= len(dual) * self.source.gathered_share:
            total = np.zeros((dual.shape[1], self.source.shape[1] + 1))
            for rows in (used[a:b] for a, b in spans(len(used), PIECE_ROWS)):
                some = self._replace(demands=self.demands.of_rows(rows))
                _add_stored_sums(self.source.rows(rows), 0, some._feasible(dual[rows]), False, pool, total)
            return self._mapped(total)
        return self._mapped(self._stored_sums(self._feasible(dual), dual.shape[1], pool))

    def _feasible(self, dual: np.ndarray) -> "Factors":
        """Return a function that makes variables feasible, those of a range of rows."""
        return lambda a, b: feasible(self.loss, self.demands.of_rows(slice(a, b)), dual[a:b].astype(np.float64))

    def weighted_sum(self, factors: np.ndarray, pool: Pool) -> np.ndarray:
        """Return Σ_i φ_i x_i, shape (n_scores, n_features + 1), for factors of the shape (n, n_scores)."""
        return self._mapped(self._stored_sums(lambda a, b: factors[a:b], factors.shape[1], pool))

    def weighted_squares(self, factors: np.ndarray, pool: Pool) -> np.ndarray:
        """Return Σ_i φ_i x_i², shape (1, n_features + 1), for positive factors of the shape (n, 1)."""
        total = self._stored_sums(lambda a, b: factors[a:b], 1, pool, squared=True)
        if self.scale.size:
            plain = self._stored_sums(lambda a, b: factors[a:b], 1, pool)[:, :-1]
            total[:, :-1] += self.shift * (self.shift * total[:, -1:] - 2 * plain)
            total[:, :-1] = np.maximum(total[:, :-1] * self.scale**2, 0.0)
        total[:, -1] *= self.constant**2
        return total

    def _stored_sums(self, factors: "Factors", k: int, pool: Pool, squared: bool = False) -> np.ndarray:
        """Return the sums of the rows as stored, or of their squares, times factors; last the sums of the factors."""
        total = np.zeros((k, self.source.shape[1] + 1))
        for start, block in self.source.whole_blocks():
            _add_stored_sums(block, start, factors, squared, pool, total)
        return total

    def _mapped(self, total: np.ndarray) -> np.ndarray:
        """Return the sums of mapped rows for those of rows as stored."""
        if self.scale.size:
            total[:, :-1] = (total[:, :-1] - total[:, -1:] * self.shift) * self.scale
        total[:, -1] *= self.constant
        return total

    # --- scores ------------------------------------------------------------------------------------------

    def scores(self, weights: np.ndarray, pool: Pool, exact: bool = True) -> np.ndarray:
        """Return weights · x for all rows, shape (n_scores, n); in the type of products unless `exact`."""
        products = np.empty((len(weights), len(self.source)))
        for start, block in self.source.blocks() if exact else self.source.whole_blocks():

            def some(a: int, b: int, block: Block = block, start: int = start) -> None:
                if exact:
                    products[:, start + a : start + b] = self._exact_scores(block.slice(a, b), weights)
                else:
                    products[:, start + a : start + b] = self._scores(block, np.arange(a, b), weights)

            pool.run(some, spans(block.shape[0], _piece_of(block)))
        return products

    def _scores(self, block: Block, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return weights · x for some rows, shape (n_scores, n_places); dense rows in the type of products."""
        if self.scale.size:  # the shift may be much larger than the result
            return self._exact_scores(block.take(places), weights)
        return row_scores(block, places, weights, self.constant * weights[:, -1])

    def _exact_scores(self, block: Block, weights: np.ndarray) -> np.ndarray:
        """Return weights · x for all rows x in float64, shape (n_scores, n_rows)."""
        n, d = block.shape
        coef, intercept = weights, self.constant * weights[:, -1]
        if self.scale.size:
            coef = weights[:, :d] * self.scale
            intercept = intercept - coef @ self.shift
        return row_scores(block, np.arange(n), coef, intercept, exact=True)


def newton_direction(
    problem: LinearProblem,
    curvatures: np.ndarray,
    gradient: np.ndarray,
    share: float,
    pool: Pool,
    deadline: float = np.inf,
    most: int | None = None,
) -> np.ndarray:
    """Return δ, shape (n_weights,), for curvatures D and gradient g, up to `share` of the residual of zero.

    The weight of the constant feature is last. The residual may be larger from the moment `deadline` of
    time.perf_counter on, or after `most` steps. The direction is NaN if the squares of the rows overflow.
    """
    scale = problem.weighted_squares(curvatures[:, None], pool)[0]
    if not np.isfinite(scale).all():
        return np.full_like(scale, np.nan)
    scale = 1 / np.sqrt(scale + 1.0)
    residual, is_exact = -scale * gradient, problem.scale.size > 0  # a shift may be much larger than a product
    direction, along, size = np.zeros_like(residual), residual.copy(), float(residual @ residual)
    enough, image, step = share**2 * size, np.empty_like(residual), np.empty_like(residual)
    for _ in range(most or len(gradient)):  # in place, because fresh memory takes longer than the sums
        if size <= enough or time.perf_counter() >= deadline:
            break
        np.multiply(scale, along, out=step)
        products = problem.scores(step[None], pool, is_exact)[0]
        np.add(problem.weighted_sum((curvatures * products)[:, None], pool)[0], step, out=image)
        image *= scale
        length = size / float(along @ image)
        direction += np.multiply(length, along, out=step)
        residual -= np.multiply(length, image, out=step)
        before, size = size, float(residual @ residual)
        along *= size / before
        along += residual
    direction *= scale
    return direction


class LinearSettings(NamedTuple):
    """Tolerance, order of rows and sizes of windows and blocks."""

    tol: float  # It bounds the relative duality gap, or the largest violation if `criterion` is "gradient".
    seed: int = 0  # It decides the order of rows.
    block_rows: int = 1  # A block of dense rows has at most so many.
    kept_blocks: int = 0  # The Gram matrices of so many blocks are cached.
    window_rows: int = 1  # A window has so many rows.
    n_passes: int = 1  # A window on disk is passed so often while in memory; 0 chooses by the time of reading.
    most_values: int = 0  # Newton steps are allowed if the rows in memory have at most so many values.
    criterion: str = "gap"  # It is "gradient" if `tol` bounds the violation of the optimality conditions.
    least: float = 1e-300  # The gap of an objective below this absolute value is relative to it.
    # So many bytes of converted rows, or of Gram matrices that are not cached, are prepared together. Few parts are
    # there at once.
    part_bytes: int = PART_BYTES
    deadline: float = np.inf  # Long steps end early at this moment of time.perf_counter.
    tuning: LinearTuning = LinearTuning()


class CertifiedSolver(Memoryless, ABC, Generic[State]):
    """What solvers of linear problems have in common.

    `certificate` is that of the last state that has one, or None. One that is within tolerance is that of the solution.
    """

    certificate: Certificate | None = None

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool) -> None:
        self.problem, self.settings, self.pool = problem, settings, pool
        self.n_scores = problem.n_scores

    def gap_of(self, certificate: Certificate) -> float:
        """Return the relative duality gap of a certificate."""
        return relative_gap(certificate.primal, certificate.dual, self.settings.least)

    def is_within(self, certificate: Certificate) -> bool:
        """Return whether a certificate is within tolerance."""
        bounded = self.gap_of(certificate) if self.settings.criterion == "gap" else certificate.violation
        return bool(bounded <= self.settings.tol)

    def finish(self, state: State) -> tuple[State, Certificate]:
        """Return the state with the best weights at the end of a fit, and its certificate."""
        if self.certificate is not None and self.is_within(self.certificate):
            return state, self.certificate
        return self._certified_end(state)

    @abstractmethod
    def _certified_end(self, state: State) -> tuple[State, Certificate]:
        """Return the state and the certificate of a fit that ended before its certificate was within tolerance."""

    @abstractmethod
    def weights(self, state: State) -> np.ndarray:
        """Return the best weights of the features of a state and, last, of the constant feature."""

    def _report(self, state: Any, n_steps: int) -> Report:
        """Return a report of a state that is not certified."""
        return Report(state.gap, float(state.dual_value.sum()), n_steps, False, False, False)

    def adopted(self, state: State) -> State:
        """Return a state that was saved between two steps, to resume with the same bits."""
        return state

    def kept(self, state: State, finished: bool) -> State | None:
        """Return what the next fit may begin with, None if there is nothing."""
        return state

    def dual_of(self, state: Any) -> np.ndarray:
        """Return the dual variables of a state, shape (n, n_scores)."""
        return np.ascontiguousarray(state.dual)

    def close(self) -> None:
        """Stop what works in the background, if the fit ends within a step."""


def relative_gap(primal: np.ndarray, dual: np.ndarray, least: float = 1e-300) -> float:
    """Return the largest duality gap of a problem, relative to its primal objective, or to `least` if that is more."""
    return float(((primal - dual) / np.maximum(np.abs(primal), least)).max())


def explain(window: Window) -> NoReturn:
    """Raise the error for a result that is not finite: a bad value of a row of the window, or overflow."""
    for place, row in zip(window.places, window.rows, strict=True):
        check_finite(window.block.slice(place, place + 1), row)
    raise ValueError(OVERFLOW)


def class_bounds(k: int, n_parts: int) -> list[tuple[int, int]]:
    """Return the bounds of at most `n_parts` nearly equal parts of `k` scores."""
    return list(pairwise(np.linspace(0, k, min(k, n_parts) + 1).astype(int).tolist()))


# --- pieces of work --------------------------------------------------------------------------------------


def rows_of_piece(values_of_row: float) -> int:
    """Return the number of rows of a piece of work, each with so many multiplications."""
    return int(min(max(PIECE_VALUES / max(1.0, values_of_row), PIECE_ROWS / PARTS), PIECE_ROWS))


def _piece_of(block: Block) -> int:
    """Return the number of rows of a piece of work on the rows of a block."""
    return rows_of_piece(block.stored.size / max(1, block.shape[0]))


def _in_order(pool: Pool, function: Callable[[int, int], Result], n: int, size: int) -> Iterator[Result]:
    """Yield the results of a function on pieces of n rows, in the order of the rows for any number of threads."""
    if 0 < n <= size:
        yield function(0, n)
        return
    parts: list[tuple[int, Result]] = []
    pool.run(lambda a, b: parts.append((a, function(a, b))), spans(n, size))
    for _, part in sorted(parts, key=lambda each: each[0]):
        yield part


Factors = Callable[[int, int], np.ndarray]
"""Returns factors of a range of rows, in float64 and of shape (n_rows, n_scores)."""


def _add_stored_sums(block: Block, start: int, factors: Factors, squared: bool, pool: Pool, total: np.ndarray) -> None:
    """Add the sums of rows from `start` on as stored, or of their squares, times factors; last those of the factors."""
    if isinstance(block, CSRBlock):
        return _add_sparse_sums(block, start, factors, squared, pool, total)

    def some(a: int, b: int) -> np.ndarray:
        of_rows, values = factors(start + a, start + b), readable_rows(block.values[a:b])
        out = np.zeros(total.shape)
        with np.errstate(over="ignore"):  # whoever uses the sums looks for it
            values = values.astype(product_type(values.dtype)) ** 2 if squared else values
        add_products(values, np.arange(b - a), np.ascontiguousarray(of_rows.T), (0, of_rows.shape[1]), out)
        out[:, -1] = of_rows.sum(axis=0)
        return out

    for part in _in_order(pool, some, block.shape[0], _piece_of(block)):
        total += part


def _add_sparse_sums(
    block: CSRBlock, start: int, factors: Factors, squared: bool, pool: Pool, total: np.ndarray
) -> None:
    """Add the sums of sparse rows. Threads share the scores; of one score, parts of the rows if a sum is short."""
    (n, d), k = block.shape, len(total)
    n_parts = min(max(len(block.data) // (PARTS * max(1, d)), 1), PARTS) if k == 1 else 1
    parts = list(spans(n, max(1, -(-n // n_parts))))
    sums = [total, *(np.zeros_like(total) for _ in parts[1:])]

    def add(first: int, last: int, out: np.ndarray) -> None:
        for a, b in spans(last - first, PIECE_ROWS):
            rows = block.slice(first + a, first + b)
            of_rows = factors(start + first + a, start + first + b)
            with np.errstate(over="ignore"):  # as above
                rows = rows._replace(data=rows.data**2) if squared else rows
            rows = unsigned(readable(rows, np.arange(b - a))[0])
            n_threads = pool.n_threads if k * len(rows.data) > PIECE_VALUES else 1
            bounds = class_bounds(k, n_threads) if n_threads > 1 else [(0, k)]
            pool.run(partial(add_sparse, rows, of_rows), [(scores, out) for scores in bounds])
            out[:, -1] += of_rows.sum(axis=0)

    pool.run(add, [(a, b, out) for (a, b), out in zip(parts, sums, strict=True)])
    for other in sums[1:]:
        total += other
