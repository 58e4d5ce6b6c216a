"""The metric M of a proximal term ½ (W - V) M (W - V), a preconditioner of the rows.

For dense rows M = κ I + Σ_i λ_i v_i v_iᵀ, with the principal directions v_i of a sample of the rows. The norms of rows
in (I + M)⁻¹ are small although M is small in most directions: κ is in proportion to the residual norms of the rows
only. For sparse rows I + M is diagonal, large where the features are large. The metrics of all scores are equal up to
factors, so that the scores share Gram matrices. A sample of the rows and their costs tell which metric is suitable.
"""

import math
from typing import NamedTuple, cast

import numpy as np

from fastsvm._compiled.threads import spans
from fastsvm.files.storable import storable
from fastsvm.linalg.row_products import product_type
from fastsvm.solvers.linear_dual.problem import PIECE_VALUES, ROUNDING, LinearProblem, explain
from fastsvm.sources import CSRBlock, DenseBlock, Window

_WEIGHT = 0.7  # The proximal term has this weight, in multiples of cost times mean ‖x‖².
# There are at most so many principal directions. Without cached Gram matrices, as of rows on disk, each costs as much
# as a score.
_DIRECTIONS, _STREAMED_DIRECTIONS = 16, 4
_CERTAIN = 4  # There are so many sampled rows for each of them.
_WEAKER = 0.25  # A weaker metric is this multiple of the one before.
_WEAK = 0.1  # A proximal term of less weight is not needed.


@storable("proximal metric")
class Metric(NamedTuple):
    """M for each score c: (I + M_c)⁻¹ = (I - Σ_i s_i v_i v_iᵀ) R / (1 + κ_c), with either no s_i or R = I."""

    kappa: np.ndarray  # κ is the weight in all directions.
    scaling: np.ndarray  # The diagonal of R is a further damping of each weight.
    basis: np.ndarray  # The rows v_i are orthonormal; the shape is (n_directions, n_weights).
    shares: np.ndarray  # s_i = λ_i / (1 + κ + λ_i) is the reduction in these directions.

    @property
    def damping(self) -> np.ndarray:
        """1 / (1 + κ) for each score."""
        return 1 / (1 + self.kappa)

    @property
    def vanishes(self) -> bool:
        """Whether there is no proximal term."""
        return len(self.shares) == 0 and not self.kappa.any() and bool((self.scaling == 1).all())

    def weaker(self) -> "Metric":
        """Return `_WEAKER` times the metric; zero if that is too weak to matter."""
        more, strong, factor = self.shares / (1 - self.shares), 1 / self.scaling - 1, _WEAKER
        if factor * (self.kappa.max() + more.max(initial=0.0) + strong.max()) < _WEAK:
            return no_metric(len(self.kappa), len(self.scaling))
        mean = self.kappa.mean()
        more = factor * (1 + mean) * more
        scaling = 1 / (1 + factor * strong)
        return Metric(factor * self.kappa, scaling, self.basis, more / (1 + factor * mean + more))

    def solve(self, weights: np.ndarray) -> np.ndarray:
        """Return (I + M)⁻¹ times each row of weights."""
        return self.damping[:, None] * self.scaling * (weights - ((weights @ self.basis.T) * self.shares) @ self.basis)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Return M times each row of weights."""
        more = self.shares / (1 - self.shares)
        strong = (1 + self.kappa)[:, None] * (1 / self.scaling - 1) + self.kappa[:, None]
        return strong * weights + (1 + self.kappa)[:, None] * (((weights @ self.basis.T) * more) @ self.basis)


def no_metric(n_scores: int, n_weights: int) -> Metric:
    """Return the metric M = 0."""
    return Metric(np.zeros(n_scores), np.ones(n_weights), np.zeros((0, n_weights)), np.zeros(0))


def diagonal(costs: np.ndarray, squares: np.ndarray) -> Metric:
    """Return the metric of sparse rows, which is small for rare features.

    M_j is proportional to the root mean square of feature j. Among diagonal metrics with the same mean norm of rows,
    this one has the smallest trace. `costs` is the mean cost of a row in each score, and `squares` the mean x² of each
    feature, with the constant feature last.
    """
    roots = np.sqrt(squares)
    least = _WEIGHT * costs.min() * roots.sum() * roots
    if _WEIGHT * costs.max() * squares.sum() < _WEAK:
        return no_metric(len(costs), len(squares))
    size = _WEIGHT * squares.sum()
    kappa = (1 + costs * size) / (1 + costs.min() * size) - 1
    return Metric(kappa, 1 / (1 + least), np.zeros((0, len(squares))), np.zeros(0))


def principal(costs: np.ndarray, sample: np.ndarray, most: int, eps: float) -> Metric:
    """Return the metric with at most `most` principal directions of a sample of rows.

    `costs` is the mean cost of a row in each score. Rows have the constant feature, and long ones are shortened. `eps`
    is the machine precision of products.
    """
    m, width = sample.shape
    squares, vectors = np.linalg.eigh(sample @ sample.T / m)
    squares, vectors = np.maximum(squares[::-1], 0), vectors[:, ::-1]
    count = min(most, max(1, m // _CERTAIN), np.count_nonzero(squares > np.sqrt(ROUNDING) * squares[0]))
    rest = squares[count:].sum()
    lengths = count * squares[:count] - rest  # λ_i is proportional to these
    chosen = lengths > 0
    if not chosen.any():
        kappa = _WEIGHT * costs * squares.sum()  # in all directions
        return no_metric(len(costs), width)._replace(kappa=np.where(kappa < _WEAK, 0.0, kappa))
    factor = 2 * _WEIGHT * costs
    if factor.mean() * lengths.max() < _WEAK:
        return no_metric(len(costs), width)
    kappa, more = factor * rest, factor.mean() * lengths[chosen]
    kappa = np.where(kappa < _WEAK, 0.0, kappa)
    basis = (sample.T @ vectors[:, :count][:, chosen]).T
    basis = np.ascontiguousarray(basis / np.linalg.norm(basis, axis=1, keepdims=True))
    shares = np.minimum(more / (1 + kappa.mean() + more), 1 - ROUNDING * (eps / np.finfo(np.float64).eps))
    return Metric(kappa, np.ones(width), basis, shares)


# --- what is known of the rows ---------------------------------------------------------------------------

SAMPLED_ROWS = 256
"""Rows of which the metric of dense rows knows."""

_MOST_STRONGER = 16  # The metric for several parts is at most so many times stronger.
_LONG = 4  # Squared norms are clipped to so many times their median: longer rows have small variables.


class RowMoments(NamedTuple):
    """What the metric needs to know of some rows; those of several parts of the rows are added up.

    `n_used` rows have positive costs, with the sum `cost`, and `class_costs` are those of each class, if several are
    learnt one against the rest; else zeros. `squares` are the sums of x² of each sparse feature over `n_rows` rows;
    empty for dense rows. `sample` has dense rows with the constant feature; empty for sparse rows. In both, long rows
    are shortened.
    """

    n_used: int
    cost: float
    class_costs: np.ndarray
    n_rows: int
    squares: np.ndarray
    sample: np.ndarray


def moments_of(problem: LinearProblem, width: int, most: int = SAMPLED_ROWS) -> RowMoments:
    """Return the moments of rows with `width` weights, of which at most `most` are sampled."""
    demands, k = problem.demands, problem.n_scores
    used, class_costs = demands.costs > 0, np.zeros(k)
    if k > 1 and not (problem.loss.of_classes or demands.pairs.size or demands.folds.size):
        class_costs += np.bincount(demands.targets[used].astype(np.int64), demands.costs[used], k)
    n_rows, squares, sample = 0, np.zeros(0), np.zeros((0, width))
    if problem.source.sparse:
        n_rows, squares = _sums_of_squares(problem, width)
    elif used.any():
        sample = _sampled(problem, width, most)
    return RowMoments(
        int(np.count_nonzero(used)), float(demands.costs[used].sum()), class_costs, n_rows, squares, sample
    )  # fmt: skip


def metric_of(problem: LinearProblem, width: int) -> Metric:
    """Return the metric for rows with `width` weights."""
    return metric_of_moments(problem, [moments_of(problem, width)])


def metric_of_moments(problem: LinearProblem, parts: list[RowMoments]) -> Metric:
    """Return the metric for rows in several parts, stronger the more of them learn a score at the same time.

    At least one part has rows of positive cost. The rows of the problem are not looked at.
    """
    together = len(parts) if problem.loss.of_classes else -(-len(parts) // problem.n_scores)
    stronger = min(together**2, _MOST_STRONGER) if math.isfinite(problem.loss.curvature) else min(together, 2)
    costs = _mean_costs(problem, parts) * stronger
    source = problem.source
    if source.sparse:
        squares = np.add.reduce([part.squares for part in parts]) / sum(part.n_rows for part in parts)
        squares[-1] = problem.constant**2
        return diagonal(costs, squares)
    most = _DIRECTIONS if source.resident else _STREAMED_DIRECTIONS
    sample = np.concatenate([part.sample for part in parts]) if len(parts) > 1 else parts[0].sample
    return principal(costs, sample, most, np.finfo(product_type(source.dtype)).eps)


def mean_square(problem: LinearProblem) -> float:
    """Return the mean ‖x‖² of some rows; long rows are shortened."""
    window = _sample(problem, SAMPLED_ROWS)
    block = window.block
    with np.errstate(all="ignore"):
        block = DenseBlock(problem.dense(block, block.shape[1] + 1)) if problem.scale.size else block
        squares = block.sq_norms()
        if not np.isfinite(squares.sum()):
            explain(window)
    return float(squares @ _shortening(squares)) / len(squares)


def _mean_costs(problem: LinearProblem, parts: list[RowMoments]) -> np.ndarray:
    """Return the mean cost of a row in each score."""
    n_used = sum(part.n_used for part in parts)
    costs = np.full(problem.n_scores, sum(part.cost for part in parts) / n_used)
    if len(costs) > 1 and not problem.loss.of_classes:
        costs += (problem.demands.balance - 1) * sum(part.class_costs for part in parts) / n_used
    return costs


def _shortening(squares: np.ndarray) -> np.ndarray:
    """Return the factors that clip ‖x‖² to `_LONG` times its median."""
    ordered, half = np.sort(squares), len(squares) // 2
    limit = _LONG * (ordered[half] + ordered[-half - 1]) / 2  # the median, in a fifth of the time
    longer, factors = squares > limit, np.ones(len(squares))
    factors[longer] = limit / squares[longer]
    return factors


def _sampled(problem: LinearProblem, width: int, most: int) -> np.ndarray:
    """Return a sample of the rows with the constant feature; long rows are shortened."""
    window = _sample(problem, most)
    with np.errstate(all="ignore"):
        rows = problem.dense(window.block, width)
        finite = np.isfinite(np.vdot(rows, rows))
    if not finite:
        explain(window)
    return rows * np.sqrt(_shortening(np.einsum("ij,ij->i", rows, rows)))[:, None]


def _sums_of_squares(problem: LinearProblem, width: int) -> tuple[int, np.ndarray]:
    """Return the number of sparse rows, of those on disk a sample, and the sum of the squares of each feature.

    Long rows are shortened.
    """
    is_resident, every, total = problem.source.resident, np.arange(len(problem.source)), np.zeros(width)
    block, _, rows = Window(problem.block, every, every) if is_resident else _sample(problem, SAMPLED_ROWS)
    for a, b in spans(len(rows), max(1, PIECE_VALUES * len(rows) // max(1, block.stored.size))):
        piece = cast(CSRBlock, block.slice(a, b))
        with np.errstate(all="ignore"):
            squares = piece.data.astype(np.float64) ** 2
            if not np.isfinite(squares.sum()):
                explain(Window(piece, every[: b - a], rows[a:b]))
        squares *= np.repeat(_shortening(piece.sq_norms()), np.diff(piece.indptr))
        total[: piece.n_features] += np.bincount(piece.indices, squares, piece.n_features)
    return len(rows), total


def _sample(problem: LinearProblem, most: int) -> Window:
    """Return a sample of at most `most` rows with positive cost; runs of any rows if they are on disk."""
    source, rows = problem.source, np.flatnonzero(problem.demands.costs)
    if not source.resident:
        starts = np.linspace(0, len(source) - 1, math.isqrt(most)).astype(np.int64)
        rows = np.unique((starts[:, None] + np.arange(most // len(starts))).clip(max=len(source) - 1))
    elif len(rows) > most:
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(np.int64))]
    block = problem.block if source.resident and len(rows) == len(source) else source.rows(rows)
    return Window(block, np.arange(len(rows)), rows)
