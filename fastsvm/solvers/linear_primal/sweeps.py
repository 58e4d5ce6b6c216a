"""Minima of quadratic models with the penalty ‖w‖₁, by sweeps over a Hessian or over the columns of rows in memory.

Model
    minimise    gᵀ (z - w) + ½ (z - w)ᵀ H (z - w) + ‖z‖₁
    over z. H is kept as a matrix, or it is Xᵀ D X, and D X (z - w) is kept: its product with a column is a slope.

Sweeps
    Coordinate descent: each z_j is set to its minimum (Friedman, Hastie and Tibshirani 2010, section 2.1). A weight
    that is 0 and far from a violation is left out, until none of the others violates its condition (Yuan, Ho and Lin
    2012, An improved GLMNET for l1-regularized logistic regression, section 4).

Faces
    Where features are correlated, sweeps converge slowly. On the face of the orthant that z is in, the function is
    quadratic. Conjugate gradients lead towards its minimum there; weights that would change their sign become zero, all
    of them or the first one (as in Byrd, Chin, Nocedal and Oztoprak 2016, A family of second-order methods for convex
    ℓ1-regularized optimization).

Damping
    Where a loss is flat, H is nearly singular, and the minimum is far off. The diagonal is raised by a share that
    vanishes with the decrease of the objective that steps along single weights promise (Mordukhovich, Yuan, Zeng and
    Zhang 2023, A globally convergent proximal Newton-type method in nonsmooth convex optimization).
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastsvm._compiled.compiler import generic, jit
from fastsvm.solvers.linear_dual.problem import ROUNDING, LinearProblem
from fastsvm.solvers.linear_primal.quadratic_model import RIDGE, QuadraticModel
from fastsvm.sources import CSRBlock

# The diagonal is raised by this share of the promised relative decrease of the objective, up to another.
_DAMPING, _MOST_DAMPING = 0.3, 0.03
_LAST = 0.01  # A step that promises to lower the objective by no more than this share may be the last one.
# After so many sweeps there is a step on the face, of so many directions, or up to a share of the first residual.
_SWEEPS, _DIRECTIONS, _ENOUGH = 8, 20, 0.1


class DenseColumns(NamedTuple):
    """Columns of dense rows, shape (n_features + 1, n), with the constant feature last; curvatures of the losses."""

    values: np.ndarray
    curvatures: np.ndarray


class SparseColumns(NamedTuple):
    """Columns of sparse rows, with the constant feature last, and curvatures of the losses."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    curvatures: np.ndarray


def columns_of(problem: LinearProblem, most_bytes: int, most_values: int) -> DenseColumns | SparseColumns | None:
    """Return the columns of rows in memory; None for others, if they take too many bytes, or for long dense tables."""
    block, (n, d), empty = problem.source.block, problem.source.shape, np.empty(0)
    if block is None or 16 * (problem.source.values_per_row + 1) * n > most_bytes:
        return None
    if not isinstance(block, CSRBlock):
        is_long = n * (d + 1) > most_values and n > 8 * d  # a Hessian takes less time
        return None if is_long else DenseColumns(np.ascontiguousarray(problem.dense(block, d + 1).T), empty)
    columns = sparse.csr_matrix((block.data, block.indices, block.indptr), (n, d), dtype=np.float64).tocsc()
    rows = np.arange(n if problem.constant else 0, dtype=columns.indices.dtype)
    data = np.append(columns.data, np.full(len(rows), problem.constant))
    return SparseColumns(data, np.append(columns.indices, rows), np.append(columns.indptr, len(data)), empty)


@generic
def product(model, j, pull):
    """Return the product of a column with a vector, or what row j of a Hessian has added to a slope."""
    raise NotImplementedError


@generic
def add(model, j, change, pull):
    """Add `change` times row j of the Hessian, or times D x_j for a column."""
    raise NotImplementedError


@product.register(DenseColumns)
def _dense_product(model, j, pull):
    total, column = 0.0, model.values[j]
    for i in range(pull.size):
        total += column[i] * pull[i]
    return total


@add.register(DenseColumns)
def _dense_add(model, j, change, pull):
    column = model.values[j]
    for i in range(pull.size):
        pull[i] += change * (model.curvatures[i] * column[i])


@product.register(SparseColumns)
def _sparse_product(model, j, pull):
    total = 0.0
    for p in range(model.indptr[j], model.indptr[j + 1]):
        total += model.data[p] * pull[model.indices[p]]
    return total


@add.register(SparseColumns)
def _sparse_add(model, j, change, pull):
    for p in range(model.indptr[j], model.indptr[j + 1]):
        i = model.indices[p]
        pull[i] += change * (model.curvatures[i] * model.data[p])


@product.register(QuadraticModel)
def _hessian_product(model, j, pull):
    return pull[j]


@add.register(QuadraticModel)
def _hessian_add(model, j, change, pull):
    row = model.hessian[j]
    for k in range(pull.size):
        pull[k] += change * row[k]


@jit
def violation_of(weight, slope):
    """Return the distance of 0 from the subdifferential for a weight."""
    return abs(slope + 1.0) if weight > 0 else abs(slope - 1.0) if weight < 0 else max(abs(slope) - 1.0, 0.0)


@jit
def wanted_of(worst, objective, size, tol, share, most_sweeps):
    """Return `wanted` of a model whose largest violation is `worst`: two tolerances, objective and number of sweeps.

    The second tolerance is for what may be the last step. A gap of `tol` allows violations of `tol` times objective
    by ‖w‖₁, which is `size`; it is 0 if `tol` bounds the violations.
    """
    last_tol = max(tol, min(tol * objective / size, 0.5 * np.sqrt(tol))) if size > 0 else tol
    return min(share * worst, max(last_tol, share * worst**2)), last_tol, objective, most_sweeps


@jit
def minimise(model, active, z, gradient, pull, wanted):
    """Minimise a model in the weights z of `active` features; return whether violations are within the tolerance.

    `gradient` is that of the losses at the centre of the model, and `pull` a vector of zeros, which becomes H (z - w)
    or D X (z - w).
    """
    tol, last_tol, objective, most_sweeps = wanted
    diagonal, slopes, center = np.ones(z.size), gradient.copy(), z.copy()
    promised, is_whole, last, some = 0.0, True, np.inf, active.copy()
    for j in active:
        add(model, j, 1.0, pull)
        diagonal[j] = product(model, j, pull)
        add(model, j, -1.0, pull)  # which leaves zeros
        promised += 0.5 * violation_of(z[j], gradient[j]) ** 2 / max(diagonal[j], 1e-300)
    ridge = RIDGE + min(_MOST_DAMPING, _DAMPING * promised / objective)
    if promised <= _LAST * objective:
        tol = last_tol
    for k in range(1, most_sweeps + 1):
        worst, count = 0.0, 0
        for j in some:
            damping = ridge * diagonal[j]
            curvature, slope = (
                diagonal[j] + damping,
                gradient[j] + damping * (z[j] - center[j]) + product(model, j, pull),
            )
            size = violation_of(z[j], slope) if z[j] != 0 else abs(slope) - 1.0
            goal, new = curvature * z[j] - slope, 0.0
            if curvature > 0 and abs(goal) > 1.0:
                new = (goal - 1.0 if goal > 0 else goal + 1.0) / curvature
            if z[j] == 0 and new == 0 and size < -min(1.0, last):
                continue
            some[count], count = j, count + 1
            worst, change = max(worst, size), new - z[j]
            if change != 0:
                z[j] = new
                add(model, j, change, pull)
        is_whole = is_whole and count == some.size
        if worst <= tol:
            if is_whole:
                return True
            some, is_whole, last = active.copy(), True, np.inf
            continue
        some, last = some[:count], worst
        if k % _SWEEPS == 0:
            for j in some:
                slopes[j] = (
                    gradient[j] + ridge * diagonal[j] * (z[j] - center[j]) + product(model, j, pull) + np.sign(z[j])
                )
            _descend_on_face(model, ridge * diagonal, diagonal, z, slopes, pull)
    return False


@jit
def _descend_on_face(model, damping, diagonal, z, slopes, pull):
    """Go towards the minimum of a model on the face of z by conjugate gradients, from slopes with the penalty's."""
    free = np.flatnonzero(z)
    scale, here, downhill, before = diagonal[free], z[free], -slopes[free], np.inf
    residual, step, along, image = downhill.copy(), np.zeros(free.size), np.zeros(free.size), np.zeros(pull.size)
    enough = _ENOUGH**2 * (downhill**2 / scale).sum()
    for _ in range(_DIRECTIONS):
        size = (residual**2 / scale).sum()
        if not size > enough:
            break
        along = residual / scale + size / before * along
        curvature = _image_of(model, free, along, damping, image)
        if not curvature > 0:
            break
        before = size
        step += size / curvature * along
        for t in range(free.size):
            j = free[t]
            residual[t] -= size / curvature * (product(model, j, image) + damping[j] * along[t])
    first = 1.0
    for t in range(free.size):
        if (here[t] + step[t]) * here[t] < 0:
            first = min(first, -here[t] / step[t])
    best, nearer, moved = 0.0, z, pull
    for longest in (1.0, first):
        along = longest * step
        for t in range(free.size):
            if (here[t] + along[t]) * here[t] <= ROUNDING * here[t] ** 2:
                along[t] = -here[t]
        slope, curvature = -(downhill * along).sum(), _image_of(model, free, along, damping, image)
        length = min(1.0, -slope / max(curvature, 1e-300))
        value = length * (slope + 0.5 * length * curvature)
        if value < best:
            best, nearer, moved = value, z.copy(), pull + length * image
            nearer[free] = here + length * along
    z[:], pull[:] = nearer, moved


@jit
def _image_of(model, free, along, damping, image):
    """Write H δ or D X δ for a change δ of some weights; return δᵀ H δ."""
    image[:] = 0.0
    curvature = 0.0
    for t in range(free.size):
        add(model, free[t], along[t], image)
    for t in range(free.size):
        curvature += along[t] * (product(model, free[t], image) + damping[free[t]] * along[t])
    return curvature
