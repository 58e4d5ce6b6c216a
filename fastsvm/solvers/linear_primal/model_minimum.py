"""The minimum of a quadratic function plus ‖z‖₁.

Problem
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
    ℓ1-regularized optimization, with an exact solution on the face). A step takes the time of many sweeps, so that
    there are none as long as sweeps change many signs.
"""

import time

import numpy as np
from scipy import linalg

from fastsvm._compiled.compiler import jit

__all__ = ["minimum", "violations"]

_SWEEPS = 40
_TURNED = 0.02  # share of the signs that sweeps may change before a step on the face
_ROUNDS = 200
_FACES = 5  # one after another without a sweep
_LENGTHS = (1.0, 0.3, 0.1)  # of steps with weights that would change their sign, beside that to the first such change
_ZERO = 1e-12  # share of a weight that is rounding error


def violations(gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the distances of 0 from the subdifferential of a smooth function plus ‖w‖₁, for each weight."""
    return np.where(weights != 0, np.abs(gradient + np.sign(weights)), np.maximum(np.abs(gradient) - 1, 0))


def minimum(
    hessian: np.ndarray,
    gradient: np.ndarray,
    weights: np.ndarray,
    ridge: float,
    tol: float,
    deadline: float = np.inf,
    faces: bool = True,
) -> np.ndarray:
    """Return z, at which no optimality condition is violated by more than `tol`, unless `deadline` has passed.

    The deadline is a moment of time.perf_counter. With `faces`, there are Newton steps between sweeps. The diagonal of
    the Hessian is used times (1 + ridge): a relative error of H up to `ridge` must not make it indefinite.
    """
    z, slope, diagonal = weights.copy(), gradient.copy(), hessian.diagonal() * (1 + ridge)
    for _ in range(_ROUNDS):
        signs = np.sign(z)
        if _sweep(hessian, diagonal, z, slope, _SWEEPS, tol) <= tol or time.perf_counter() >= deadline:
            break
        turned = np.count_nonzero(np.sign(z) != signs)
        for _ in range(_FACES if faces and turned <= _TURNED * np.count_nonzero(z) else 0):
            if not _step_on_face(hessian, diagonal, z, slope):
                break
    return z


def _step_on_face(hessian: np.ndarray, diagonal: np.ndarray, z: np.ndarray, slope: np.ndarray) -> bool:
    """Take a Newton step on the face of z; z and the slope are modified. Return whether some weights became zero."""
    free = np.flatnonzero(z)
    here, scale = z[free], 1 / np.sqrt(diagonal[free])
    square = hessian[np.ix_(free, free)]
    downhill, scaled = slope[free] + np.sign(here), square * scale
    scaled *= scale[:, None]
    np.fill_diagonal(scaled, 1.0)
    try:
        factor = linalg.cho_factor(scaled, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return False  # sweeps go on
    step = -scale * linalg.cho_solve(factor, scale * downhill, check_finite=False)
    np.fill_diagonal(square, diagonal[free])
    turning = step * here < -(here**2)
    lengths = [min(1.0, float(np.min(-here[turning] / step[turning], initial=1.0)))]
    best, found = 0.0, None
    for length in [*lengths, *_LENGTHS] if turning.any() else lengths:
        there = here + length * step
        there[(there * here < 0) | (np.abs(there) < _ZERO * np.abs(here))] = 0.0
        change = there - here
        value = slope[free] @ change + 0.5 * (change @ (square @ change)) + np.abs(there).sum() - np.abs(here).sum()
        if value < best:
            best, found = value, there
    if found is None:
        return False
    change = found - here
    z[free] = found
    slope += hessian[free].T @ change
    slope[free] += (diagonal[free] - hessian[free, free]) * change
    return bool((found == 0).any())


@jit
def _sweep(hessian, diagonal, z, slope, n_sweeps, tol):
    """Sweep over all coordinates until the largest violation is within `tol`, or often enough; return it."""
    worst = 0.0
    for _ in range(n_sweeps):
        worst = 0.0
        for j in range(z.size):
            old, own, g = z[j], diagonal[j], slope[j]
            size = abs(g + 1.0) if old > 0 else abs(g - 1.0) if old < 0 else abs(g) - 1.0
            worst = max(worst, size)
            new = 0.0
            if own > 0:
                center = own * old - g
                new = (max(abs(center) - 1.0, 0.0) if center > 0 else -max(abs(center) - 1.0, 0.0)) / own
            change = new - old
            if change != 0:
                z[j] = new
                row = hessian[j]
                for k in range(z.size):
                    slope[k] += change * row[k]
                slope[j] += change * (own - row[j])
        if worst <= tol:
            break
    return worst
