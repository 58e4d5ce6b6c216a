"""Second-order models of the loss of a linear machine, in the weights of a working set of features.

The Hessian X_Wᵀ D X_W of a model has the curvatures D of the losses at the scores. It is a Gram matrix of features, and
a sum over rows: a pass over the rows in any order computes it, from memory or from a file. A row is added again, with
the change of its curvature, only if the curvature has changed much, unless a row takes little time. The steps stay
correct with a slightly other Hessian, and near the minimum few rows change.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.linalg.dense_products import mirror
from fastsvm.linalg.sparse_products import readable
from fastsvm.solvers.linear_dual.problem import PANEL, PARTS, ROUNDING, LinearProblem, rows_of_piece
from fastsvm.solvers.outer_loop import check_time
from fastsvm.sources import CSRBlock, DenseBlock
from fastsvm.tuning import LinearTuning

_CHANGED = 0.2  # A row is added again if its curvature has changed by more than this share.
_FEW_PRODUCTS = 512  # So many products of a row take less time than its loss: all rows are added anew.
_CANCELLED = 1e-3  # So large a share of all that was added must be left, or rounding errors would count.
RIDGE = ROUNDING / _CANCELLED
"""Relative error of a Hessian."""


@storable("quadratic model")
class QuadraticModel(NamedTuple):
    """A Hessian in the weights of some features.

    `features` are indices in increasing order; that of the constant feature is the number of features. `curvatures` are
    the second derivatives of the losses of the rows, as the Hessian has them, which is modified in place. `added` is
    the sum of the sizes of all changes of curvatures since the Hessian was zero.
    """

    features: np.ndarray
    curvatures: np.ndarray
    hessian: np.ndarray
    added: float


def empty_model(features: np.ndarray, n: int) -> QuadraticModel:
    """Return the model of no rows."""
    m = len(features)
    return QuadraticModel(features, np.zeros(n), np.zeros((m, m)), 0.0)


def update_models(
    problem: LinearProblem,
    models: list[QuadraticModel],
    curvatures: np.ndarray,
    pool: Pool,
    tuning: LinearTuning,
    deadline: float = np.inf,
) -> list[QuadraticModel]:
    """Return models with the curvatures of the rows, by a pass over the rows; the Hessians are modified in place.

    `curvatures` has the shape (n_models, n). After `deadline`, a moment of time.perf_counter, OutOfTime is raised
    between two parts of the rows.
    """
    updated, changes = [], []
    for model, wanted in zip(models, curvatures, strict=True):
        products_of_row = min(problem.source.values_per_row, len(model.features)) ** 2 / 2
        if not tuning.kept_hessian or products_of_row <= _FEW_PRODUCTS:
            model.hessian[:] = 0.0
            updated.append(model._replace(curvatures=wanted.copy()))
            changes.append(wanted)
            continue
        model, change = _due(model, wanted)
        updated.append(model._replace(curvatures=model.curvatures + change, added=model.added + np.abs(change).sum()))
        changes.append(change)
    for start, block in problem.source.whole_blocks():
        parts = [change[start : start + block.shape[0]] for change in changes]
        if isinstance(block, CSRBlock):
            check_time(deadline)
            _add_sparse_block(problem, block, updated, parts, pool, tuning)
        else:
            for model, part in zip(updated, parts, strict=True):
                _add_dense_block(problem, block, model, part, pool, deadline)
    for model in updated:
        mirror(model.hessian, len(model.hessian))
    return updated


def _due(model: QuadraticModel, wanted: np.ndarray) -> tuple[QuadraticModel, np.ndarray]:
    """Return the model to which curvatures are added, and these changes.

    A model begins again at zero where this takes less time, or where most of what was added has cancelled.
    """
    change = wanted - model.curvatures
    change[np.abs(change) <= _CHANGED * np.maximum(wanted, model.curvatures)] = 0.0
    cancelled = model.added + np.abs(change).sum() > np.abs(wanted).sum() / _CANCELLED
    if model.added > 0 and (cancelled or np.count_nonzero(wanted) <= np.count_nonzero(change)):
        model.hessian[:] = 0.0
        return model._replace(curvatures=np.zeros_like(wanted), added=0.0), wanted
    return model, change


def _add_dense_block(
    problem: LinearProblem,
    block: DenseBlock,
    model: QuadraticModel,
    changes: np.ndarray,
    pool: Pool,
    deadline: float,
) -> None:
    """Add Σ change x xᵀ of a block to the lower triangle of a Hessian."""
    changed, hessian = np.flatnonzero(changes), model.hessian
    for a, b in spans(len(changed), rows_of_piece(len(hessian))):
        check_time(deadline)
        rows = _columns(problem, block.values, changed[a:b], model.features)
        scaled = rows * changes[changed[a:b], None]

        @np.errstate(all="ignore")  # whoever uses the Hessian looks for overflow
        def add(low: int, high: int, rows: np.ndarray = rows, scaled: np.ndarray = scaled) -> None:
            hessian[low:high, :high] += scaled[:, low:high].T @ rows[:, :high]

        pool.run(add, spans(len(hessian), PANEL))


def _columns(problem: LinearProblem, values: np.ndarray, places: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return some features of some rows in float64, mapped and with the constant feature."""
    d = problem.source.shape[1]
    stored = features[features < d]
    columns = np.empty((len(places), len(features)))
    picked = values[places[0] : places[-1] + 1] if places[-1] - places[0] == len(places) - 1 else values[places]
    columns[:, : len(stored)] = picked if len(stored) == d else picked[:, stored]
    if problem.scale.size:
        columns[:, : len(stored)] -= problem.shift[stored]
        columns[:, : len(stored)] *= problem.scale[stored]
    columns[:, len(stored) :] = problem.constant
    return columns


def _add_sparse_block(
    problem: LinearProblem,
    block: CSRBlock,
    models: list[QuadraticModel],
    parts: list[np.ndarray],
    pool: Pool,
    tuning: LinearTuning,
) -> None:
    """Add Σ change x xᵀ of a block to the lower triangle of each Hessian."""
    block, _ = readable(block, np.arange(block.shape[0]))
    d, sums, pieces = block.n_features, [], []
    for k, (model, changes) in enumerate(zip(models, parts, strict=True)):
        rows, m = np.flatnonzero(changes), len(model.features)
        places = np.full(d + 1, -1, np.int64)
        places[model.features] = np.arange(m)
        is_short = m <= tuning.hessian_features + 1  # larger sums would take much memory
        n_parts = max(1, PARTS // len(models)) if is_short else 1
        several = list(spans(len(rows), len(rows) // n_parts + 1))
        sums.append([model.hessian, *(np.zeros((m, m)) for _ in several[1:])])
        pieces += [(k, rows[a:b], places, out) for (a, b), out in zip(several, sums[k], strict=False)]

    def add(k: int, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        _add_squares(block, rows, parts[k], places, problem.constant, out)

    pool.run(add, pieces)
    for hessian, *others in sums:
        for other in others:
            with np.errstate(all="ignore"):  # as above
                hessian += other


@jit
def _add_squares(block, rows, changes, places, constant, hessian):
    """Add Σ change x xᵀ of sparse rows to the lower triangle; `places` are those of the features in the Hessian."""
    data, indices, indptr = block.data, block.indices, block.indptr
    at, values = np.empty(hessian.shape[0], np.int64), np.empty(hessian.shape[0])
    for i in rows:
        count = 0
        for p in range(indptr[i], indptr[i + 1]):
            place = places[indices[p]]
            if place >= 0:
                at[count], values[count] = place, float(data[p])
                count += 1
        if places[places.size - 1] >= 0:
            at[count], values[count] = places[places.size - 1], constant
            count += 1
        for s in range(count):
            value, target = changes[i] * values[s], hessian[at[s]]
            for t in range(s + 1):
                target[at[t]] += value * values[t]
