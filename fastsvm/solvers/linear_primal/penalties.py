"""The penalties ‖w‖₁ and ½‖w‖² of linear machines: minima of quadratic models, and the length of a step.

Model of ‖w‖₁
    minimise    gᵀ (z - w) + ½ (z - w)ᵀ H (z - w) + ‖z‖₁
    over z, where H is a Hessian that is kept as a matrix.

Sweeps
    Coordinate descent: each z_j is set to its minimum (Friedman, Hastie and Tibshirani 2010, section 2.1). A change
    costs m additions to the gradient, no change costs none.

Faces
    Where features are correlated, sweeps converge slowly. On the face of the orthant that z is in, the function is
    quadratic. A Newton step leads to the minimum on the face; weights that would change their sign are set to zero, and
    the next step is on the smaller face. Of some lengths of a step the best is taken, among them that at which the
    first weight becomes zero (as in Byrd, Chin, Nocedal and Oztoprak 2016, A family of second-order methods for convex
    ℓ1-regularized optimization, with an exact solution on the face).

Damping
    Where a loss is flat, rows lose their curvature. With about as many features as rows that keep it, H is nearly
    singular, and the minimum is far off. The diagonal is raised by a share that vanishes with the violation
    (Mordukhovich, Yuan, Zeng and Zhang 2023, A globally convergent proximal Newton-type method in nonsmooth convex
    optimization).
"""

import time
from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.losses import MOST_STEPS, Loss, loss_slope
from fastsvm.solvers.linear_dual.problem import ACCEPTED, ROUNDING
from fastsvm.solvers.linear_primal.quadratic_model import RIDGE, QuadraticModel, SparseModel
from fastsvm.tuning import LinearTuning

# A model is minimised to this share of the violation at its centre, or of its square below 1 (Dembo, Eisenstat and
# Steihaug 1982, Inexact Newton methods). The second share is for a model of sparse rows.
_INNER, _SPARSE_INNER = 0.03, 0.3
_SWEEPS, _FACES, _SHORT = 20, 20, 1 << 16  # So many sweeps, or of so many products, take turns with so many steps.
# Of features more than such a share of the rows that have a curvature, the Hessian is damped: its diagonal is raised
# by a share for each unit of the largest violation, up to another.
_NEARLY_SINGULAR, _DAMPING, _MOST_DAMPING = 0.5, 2e-3, 0.03
# A step of Newton's method takes the time of so many multiplications, and so many for each value of the samples.
_LEAST_WORK, _PASSES = 1 << 18, 1
_LAST = 0.03  # A step that lowers the objective by no more than this share may be the last one.
_SPARSE_SWEEPS = 100  # The time is asked after so many sweeps.


class Wanted(NamedTuple):
    """What is wanted of the minimum of a model."""

    n_curved: int  # So many rows have a curvature.
    objective: float  # It is that of the score at the centre of the model.
    tol: float  # A model that is lower by little is minimised to this violation.
    deadline: float  # From this moment (of time.perf_counter) on, another point nearby will do.


class L2:
    """½‖w‖². Weights and gradients have the shape (n_scores, n_weights)."""

    l1_ratio = 0.0  # It is 1 for ‖w‖₁.

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""
        total: np.ndarray = np.einsum("cj,cj->c", weights, weights) / 2
        return total

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the distance of 0 from the subdifferential of losses and penalty, for each weight."""
        return np.abs(gradient + weights)

    def target(
        self, model: QuadraticModel | SparseModel, gradient: np.ndarray, weights: np.ndarray, wanted: Wanted
    ) -> np.ndarray:
        """Return the minimum of a second-order model of the losses of one score and the penalty.

        It is that of the model's diagonal, where rounding makes the model indefinite.
        """
        assert isinstance(model, QuadraticModel)  # the other one is for a working set
        square, downhill = model.hessian.copy(), gradient + weights
        diagonal = square.diagonal() * (1 + RIDGE) + 1.0
        np.fill_diagonal(square, diagonal)
        try:
            factor = linalg.cho_factor(square, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            return weights - downhill / diagonal
        return weights - linalg.cho_solve(factor, downhill, check_finite=False)


class L1:
    """‖w‖₁."""

    l1_ratio = 1.0

    def __init__(self, tuning: LinearTuning, n_values: int = 0) -> None:
        self._faces, self._most_work = tuning.faces, _LEAST_WORK + _PASSES * n_values

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""
        total: np.ndarray = np.abs(weights).sum(axis=1)
        return total

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the distance of 0 from the subdifferential, for each weight."""
        return np.where(weights != 0, np.abs(gradient + np.sign(weights)), np.maximum(np.abs(gradient) - 1, 0))

    def target(
        self, model: QuadraticModel | SparseModel, gradient: np.ndarray, weights: np.ndarray, wanted: Wanted
    ) -> np.ndarray:
        """Return the minimum of a second-order model, at which violations are small beside the largest at `weights`.

        It is a point nearer to the minimum where this would take long. The diagonal of the Hessian is used times
        (1 + RIDGE): a relative error of H up to that must not make it indefinite.
        """
        worst = self.violations(gradient, weights).max()
        tol = (_INNER if isinstance(model, QuadraticModel) else _SPARSE_INNER) * worst * min(1.0, worst)
        z, slope = weights.copy(), gradient.copy()
        if isinstance(model, SparseModel):
            for _ in range(MOST_STEPS):
                within = _sparse_sweep(model, z, slope, _SPARSE_SWEEPS, tol) <= tol
                if within or time.perf_counter() >= wanted.deadline:
                    break
            return z
        hessian = model.hessian
        is_damped = len(z) > _NEARLY_SINGULAR * wanted.n_curved
        diagonal = hessian.diagonal() * (1 + RIDGE + is_damped * min(_MOST_DAMPING, _DAMPING * worst))
        n_sweeps = min(MOST_STEPS, _SWEEPS + _SHORT // len(z) ** 2)
        for _ in range(max(1, self._most_work // len(z) ** 2)):
            within = _sweep(hessian, diagonal, z, slope, n_sweeps, tol) <= tol
            if within and tol > wanted.tol:
                lower = (np.abs(weights) - np.abs(z)).sum() - 0.5 * ((gradient + slope) @ (z - weights))
                within, tol = lower > _LAST * wanted.objective, wanted.tol
            if within or time.perf_counter() >= wanted.deadline:
                break
            for _ in range(_FACES if self._faces else 0):
                if time.perf_counter() >= wanted.deadline or not _step_on_face(hessian, diagonal, z, slope):
                    break
        return z


def _step_on_face(hessian: np.ndarray, diagonal: np.ndarray, z: np.ndarray, slope: np.ndarray) -> bool:
    """Go towards the minimum on the face of z; z and the slope are modified. Return whether another step goes on."""
    free = np.flatnonzero(z)
    here, scale = z[free], 1 / np.sqrt(diagonal[free])
    square = hessian[np.ix_(free, free)]
    downhill, scaled = slope[free] + np.sign(here), square * scale
    scaled *= scale[:, None]
    np.fill_diagonal(scaled, 1.0)
    factor, failed = linalg.lapack.dpotrf(scaled.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return False  # sweeps go on
    step = -scale * linalg.lapack.dpotrs(factor, scale * downhill, lower=1)[0]
    np.fill_diagonal(square, diagonal[free])

    def value_at(there: np.ndarray) -> float:
        change = there - here
        value = slope[free] @ change + 0.5 * (change @ (square @ change))
        return float(value + (np.abs(there) - np.abs(here)).sum())  # a difference of sums would be rounding errors

    turning = step * here < -(here**2)
    best, nearer = 0.0, None
    for length in sorted({min(1.0, float(np.min(-here[turning] / step[turning], initial=1.0))), 1.0}):
        there = here + length * step
        there[(there * here < 0) | (np.abs(there) < ROUNDING * np.abs(here))] = 0.0
        value = value_at(there)
        if value < best:
            best, nearer = value, there
    if nearer is None:
        return False
    change = np.zeros(len(z))
    change[free] = nearer - here
    z[free] = nearer
    slope += hessian @ change
    slope[free] += (diagonal[free] - hessian[free, free]) * change[free]
    return not nearer.all()


@jit
def _coordinate(old, curvature, g):
    """Return the violation of the optimality condition of a weight, and the minimum of the model along it."""
    size = abs(g + 1.0) if old > 0 else abs(g - 1.0) if old < 0 else abs(g) - 1.0
    if curvature <= 0:
        return size, 0.0
    center = curvature * old - g
    return size, (max(abs(center) - 1.0, 0.0) if center > 0 else -max(abs(center) - 1.0, 0.0)) / curvature


@jit
def _sparse_sweep(model, z, gradient, n_sweeps, tol):
    """Do what `_sweep` does, by columns: what changes of z add to the gradient is summed where it is needed.

    A weight that is 0 and far from a violation is skipped until none of the others violates its condition (Yuan, Ho and
    Lin 2012, An improved GLMNET for l1-regularized logistic regression, section 4).
    """
    _, data, indices, indptr, curvatures = model
    m, is_whole, worst, last = z.size, True, 0.0, np.inf
    active, diagonal, moved = np.arange(m), np.zeros(m), np.zeros(curvatures.size)
    for j in range(m):
        for p in range(indptr[j], indptr[j + 1]):
            diagonal[j] += curvatures[indices[p]] * data[p] ** 2
    for _ in range(n_sweeps):
        worst, count, n_active = 0.0, 0, active.size
        for t in range(n_active):
            j = active[t]
            slope = gradient[j]
            for p in range(indptr[j], indptr[j + 1]):
                slope += data[p] * moved[indices[p]]
            size, new = _coordinate(z[j], diagonal[j] * (1 + RIDGE), slope)
            if z[j] == 0 and new == 0 and size < -min(1.0, last):
                continue
            active[count], count = j, count + 1
            worst, change = max(worst, size), new - z[j]
            if change != 0:
                z[j] = new
                for p in range(indptr[j], indptr[j + 1]):
                    moved[indices[p]] += change * (curvatures[indices[p]] * data[p])
        active, last = active[:count], worst
        if worst <= tol:
            if is_whole:
                break
            active, is_whole, last = np.arange(m), True, np.inf
        else:
            is_whole = is_whole and count == n_active
    for j in range(m):
        for p in range(indptr[j], indptr[j + 1]):
            gradient[j] += data[p] * moved[indices[p]]
    return worst if is_whole else np.inf


@jit
def _sweep(hessian, diagonal, z, slope, n_sweeps, tol):
    """Sweep over all coordinates until the largest violation is within `tol`, or often enough; return it."""
    worst = 0.0
    for _ in range(n_sweeps):
        worst = 0.0
        for j in range(z.size):
            curvature = diagonal[j]
            size, new = _coordinate(z[j], curvature, slope[j])
            worst, change = max(worst, size), new - z[j]
            if change != 0:
                z[j] = new
                row = hessian[j]
                for k in range(z.size):
                    slope[k] += change * row[k]
                slope[j] += change * (curvature - row[j])
        if worst <= tol:
            break
    return worst


# --- the length of a step --------------------------------------------------------------------------------

FLAT = (ACCEPTED, float(np.sqrt(np.finfo(np.float64).eps)))
"""Shares of the first slope, below which a length is accepted; the next one if the objective is not lower there."""


class Line(NamedTuple):
    """Scores and weights along a direction, for one score of a problem.

    `change` and `direction` are the changes of scores and weights in a step of length 1. `l1_ratio` is 1 for the
    penalty ‖w‖₁, 0 for ½‖w‖².
    """

    loss: Loss
    targets: np.ndarray
    costs: np.ndarray
    scores: np.ndarray
    change: np.ndarray
    weights: np.ndarray
    direction: np.ndarray
    l1_ratio: float


def suits(weights: np.ndarray, direction: np.ndarray, slopes: tuple[float, float], l1_ratio: float) -> bool:
    """Return whether the best length is about 1. `slopes` are derivatives of the losses at the lengths 0 and 1."""
    begin, end = (
        slope + _penalty_slope(weights, direction, t, l1_ratio) for t, slope in zip((0.0, 1.0), slopes, strict=True)
    )
    return bool(begin < 0 and _is_flat(begin, end, weights, direction, l1_ratio, FLAT[0]))


@slope_at.register(Line)
def _slope(line, t):
    total = 0.0
    for i in range(line.scores.size):
        slope = loss_slope(line.loss, line.scores[i] + t * line.change[i], line.targets[i])
        total += line.change[i] * line.costs[i] * slope
    return total + _penalty_slope(line.weights, line.direction, t, line.l1_ratio)


@jit
def _penalty_slope(weights, direction, t, l1_ratio):
    total = 0.0
    for j in range(weights.size):
        there = weights[j] + t * direction[j]
        if l1_ratio == 0:
            total += there * direction[j]
        else:
            total += abs(direction[j]) if there == 0 else direction[j] if there > 0 else -direction[j]
    return total


@jit
def _is_flat(begin, end, weights, direction, l1_ratio, flat):
    """Return whether the slope `end` at length 1 is small beside that at 0.

    Weights that become 0 in a step of length 1 make the slope jump there: it is often the minimum.
    """
    below = end
    for j in range(weights.size):
        if l1_ratio > 0 and weights[j] + direction[j] == 0:
            below -= 2 * abs(direction[j])
    return end >= flat * begin and below <= -flat * begin


@jit
def best_length(line, losses_slope, flat):
    """Return the length of the best step, or 1 if a slope there is small; 0 if no step leads downhill.

    `losses_slope` is the derivative of the losses at length 0, and `flat` the share of the slope there that is small.
    """
    begin = losses_slope + _penalty_slope(line.weights, line.direction, 0.0, line.l1_ratio)
    if not begin < 0:
        return 0.0
    above = slope_at(line, 1.0)
    if _is_flat(begin, above, line.weights, line.direction, line.l1_ratio, flat):
        return 1.0
    limits = RootLimits(MOST_STEPS, MOST_STEPS, -flat * begin, ROUNDING)
    return illinois_root(line, Bracket(0.0, begin, 1.0, above), limits)
