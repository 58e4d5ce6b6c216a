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
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.losses import Demands, Loss, dual_losses, feasible, primal_losses
from fastsvm.sources import Source


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
    """The rows that have dual variables: their numbers in a source, costs, and feasible variables."""

    source: Source
    rows: np.ndarray
    demands: Demands
    beta: np.ndarray


class DualExpansion(NamedTuple):
    """The expansion Σ_j β_j k(x_j, x) of the dual variables, shape (n_samples, n_scores).

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

    def conjugates(self, support: Support, shares: np.ndarray | float) -> np.ndarray:
        """Return Σ c ℓ*(-t β / c) for each problem, with shares t of each."""
        total = np.zeros(support.beta.shape[1])
        dual_losses(self.machine.loss, support.demands, np.ascontiguousarray(support.beta * shares), total)
        return self.machine.by_problem(total)

    def form(self, support: Support) -> np.ndarray:
        """Return Σ_ij β_i (k(x_i, x_j) + s²) β_j over pairs of rows, for each problem."""
        source, rows, _, beta = support
        total, tuning = np.zeros(beta.shape[1]), self.source.tuning
        step = max(1, min(tuning.resident_rows, self.budget // tuning.block_share // self._row_bytes()))
        parts, is_halved = list(spans(len(rows), step)), source.resident
        for a, b in spans(len(rows), step if is_halved else self._held_rows()):
            block = source.rows(rows[a:b])
            for c, d in parts:
                if is_halved and c > a:  # the pairs are counted twice below
                    break
                vectors = self.source.as_passed(source.rows(rows[c:d]))
                predictor = Predictor(self.estimator, beta[c:d], self.source, self.pool, vectors, np.float64)
                sums = predictor.scores(block) + self.machine.constant**2 * beta[c:d].sum(axis=0)
                once = np.einsum("ic,ic->c", beta[a:b], sums)
                total += 2 * once if is_halved and c < a else once
        return self.machine.by_problem(total)

    def _held_rows(self) -> int:
        """Return how many rows may be in memory at once."""
        return max(1, self.budget // self.source.tuning.window_share // self._row_bytes())

    def _row_bytes(self) -> int:
        """Return the bytes of a row as it is stored or, if that is more, in float64."""
        stored = self.source.row_bytes
        return stored + 1 if self.source.sparse else max(stored, 8 * self.source.shape[1])


def exact_bounds(expansion: DualExpansion) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum of the kernel problem, summed over the problems."""
    machine = expansion.machine
    sizes = np.einsum("cm,mk,ck->c", machine.coef, machine.square, machine.coef, optimize=True)
    upper = machine.by_problem(expansion.losses() + (sizes + np.square(machine.bias)) / 2)
    support = expansion.support()
    form = expansion.form(support)
    whole, half = expansion.conjugates(support, 1.0), expansion.conjugates(support, 0.5)
    curvature = 4 * (whole - 2 * half)
    slope = curvature / 2 - whole
    with np.errstate(over="ignore"):  # where equal samples of both classes cancel, the form may be 0
        share = np.clip(slope / np.maximum(curvature + form, np.finfo(float).tiny), 0.0, 1.0)
    lower = np.maximum(-expansion.conjugates(support, share) - np.square(share) * form / 2, 0.0)  # 0 is a bound too
    return float(lower.sum()), float(upper.sum())
