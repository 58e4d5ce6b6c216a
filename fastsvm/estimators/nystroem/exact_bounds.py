"""Bounds of the optimum of the kernel problem that a machine of landmarks approximates.

Above
    The model is a point of the kernel problem: ½ cᵀ K_MM c + ½ b² plus its losses, computed in float64, is at least the
    optimum. b is the weight of the constant feature, which is penalised: the kernel is K + s² with its value s.

Below
    The dual variables β of the machine are feasible for the kernel problem too, which has the same constraints. So is
    t β for 0 ≤ t ≤ 1, and - Σ_i c_i ℓ*(-t β_i / c_i) - ½ t² βᵀ (K + s²) β is at most the optimum. K is at least its
    approximation, so that t < 1 is best. The conjugates are quadratic in t between 0 and 1, so the best t is known.

Cost
    A kernel value for each row and landmark, and for each pair of rows with β ≠ 0.

Rows may be in several places, such as the workers of a cluster. Each sums over its own rows, and over pairs of these
with the support vectors of another place, which are sent to it.
"""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.losses import Demands, Loss, dual_losses, feasible, primal_losses
from fastsvm.sources import Source

Answer: TypeAlias = Any
"""What a place answers, or the promise of it."""


class Machine(NamedTuple):
    """A machine of landmarks, which are as they were passed, shape (n_landmarks, n_features).

    `coef` has the shape (n_scores, n_landmarks). `constant` is the value of the constant feature, and `bias` its
    weights. `square` is the kernel matrix of the landmarks.
    """

    landmarks: np.ndarray | sparse.csr_matrix
    coef: np.ndarray
    bias: np.ndarray
    constant: float
    loss: Loss
    square: np.ndarray

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores


class Support(NamedTuple):
    """The rows of one place that have dual variables: their numbers in a source, costs, and feasible variables."""

    source: Source
    rows: np.ndarray
    demands: Demands
    beta: np.ndarray


class DualExpansion(NamedTuple):
    """The expansion Σ_j β_j k(x_j, x) of the dual variables of one place, shape (n_samples, n_scores).

    The estimator has the attributes of a fitted kernel. `budget` is the bytes that may be used.
    """

    estimator: BaseEstimator
    machine: Machine
    source: Source
    demands: Demands
    dual: np.ndarray  # They are within rounding of feasible ones.
    pool: Pool
    budget: int

    def losses(self) -> np.ndarray:
        """Return the losses of the machine in float64, per score; of all classes only the first."""
        source, machine = self.source, self.machine
        predictor = Predictor(self.estimator, machine.coef.T, source, self.pool, machine.landmarks, np.float64)
        total = np.zeros(len(machine.coef))
        for start, block in shown(source.blocks(), len(source), "bounds", self.estimator):
            rows = slice(start, start + block.shape[0])
            scores = np.ascontiguousarray((predictor.scores(block) + machine.constant * machine.bias).T)
            primal_losses(machine.loss, self.demands.of_rows(rows), 0, scores, total)
        return total

    def support(self) -> Support:
        """Return the rows with dual variables, read into memory if they fit."""
        source, beta = self.source, feasible(self.machine.loss, self.demands, np.asarray(self.dual, np.float64))
        rows = np.flatnonzero(beta.any(axis=1))
        demands, beta = self.demands.of_rows(rows), beta[rows]
        if not source.resident and len(rows) > self._held_rows():
            return Support(source, rows, demands, beta)
        return Support(source.take(rows).in_memory(), np.arange(len(rows)), demands, beta)

    def conjugates(self, support: Support, shares: np.ndarray) -> np.ndarray:
        """Return Σ c ℓ*(-t β / c) for each score, with shares t of each."""
        total = np.zeros(support.beta.shape[1])
        dual_losses(self.machine.loss, support.demands, np.ascontiguousarray(support.beta * shares), total)
        return total

    def form(self, one: Support, other: Support, are_same: bool) -> np.ndarray:
        """Return Σ_ij β_i (k(x_i, x_j) + s²) β_j over pairs of rows of two places, for each score."""
        total, tuning = np.zeros(one.beta.shape[1]), self.source.tuning
        step = max(1, min(tuning.resident_rows, self.budget // tuning.block_share // self._row_bytes()))
        parts, is_halved = list(spans(len(other.rows), step)), are_same and one.source.resident
        for a, b in spans(len(one.rows), step if one.source.resident else self._held_rows()):
            block = one.source.rows(one.rows[a:b])
            for c, d in parts:
                if is_halved and c > a:  # the pairs are counted twice below
                    break
                vectors = self.source.as_passed(other.source.rows(other.rows[c:d]))
                predictor = Predictor(self.estimator, other.beta[c:d], self.source, self.pool, vectors, np.float64)
                sums = predictor.scores(block) + self.machine.constant**2 * other.beta[c:d].sum(axis=0)
                once = np.einsum("ic,ic->c", one.beta[a:b], sums)
                total += 2 * once if is_halved and c < a else once
        return total

    def _held_rows(self) -> int:
        """Return how many rows may be in memory at once."""
        return max(1, self.budget // self.source.tuning.window_share // self._row_bytes())

    def _row_bytes(self) -> int:
        """Return the bytes of a row as it is stored or, if that is more, in float64."""
        stored = self.source.row_bytes
        return stored + 1 if self.source.sparse else max(stored, 8 * self.source.shape[1])


def exact_bounds(
    machine: Machine, n_places: int, ask: Callable[..., Answer], gather: Callable[[list[Answer]], list[Answer]]
) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum of the kernel problem, summed over the problems.

    `ask(place, method, *arguments)` has the expansion of a place do something. `gather` returns what it answered, which
    stays in its place until then.
    """
    places = range(n_places)

    def total(method: Callable, *arguments: Sequence) -> np.ndarray:
        return machine.by_problem(
            np.sum(gather([ask(k, method, *(one[k] for one in arguments)) for k in places]), axis=0)
        )

    sizes = np.einsum("cm,mk,ck->c", machine.coef, machine.square, machine.coef, optimize=True)
    upper = total(DualExpansion.losses) + machine.by_problem(sizes + np.square(machine.bias)) / 2
    support = [ask(k, DualExpansion.support) for k in places]
    pairs = list(combinations_with_replacement(places, 2))
    forms = gather([ask(k, DualExpansion.form, support[k], support[m], k == m) for k, m in pairs])
    twice = [once if k == m else 2 * once for (k, m), once in zip(pairs, forms, strict=True)]
    form = machine.by_problem(np.sum(twice, axis=0))

    def conjugates(share: float | np.ndarray) -> np.ndarray:
        return total(DualExpansion.conjugates, support, [share] * n_places)

    return float(_best_objectives(conjugates, form).sum()), float(upper.sum())


def _best_objectives(conjugates: Callable[[float | np.ndarray], np.ndarray], form: np.ndarray) -> np.ndarray:
    """Return the dual objectives of the best multiples of β for each problem, at least 0, which is a bound too."""
    whole, half = conjugates(1.0), conjugates(0.5)
    curvature = 4 * (whole - 2 * half)
    slope = curvature / 2 - whole
    with np.errstate(over="ignore"):  # where equal samples of both classes cancel, the form may be 0
        share = np.clip(slope / np.maximum(curvature + form, np.finfo(float).tiny), 0.0, 1.0)
    return np.maximum(-conjugates(share) - np.square(share) * form / 2, 0.0)
