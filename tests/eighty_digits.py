"""What the arrays of a fitted kernel machine are worth, in 80 digits and by the problems' definitions alone.

Floats are numbers of `decimal` exactly, so that nothing is lost but in the 80th digit, however large multipliers and
kernel values are. A kernel value takes some microseconds, an exponential fifty.
"""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Worth", "decisions", "kernel_values", "worth"]

_CONTEXT = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)


class Worth(NamedTuple):
    """Objectives and gap, summed over the two-class problems, and the largest violation of one."""

    dual: float
    primal: float
    gap: float
    violation: float


class _Problem(NamedTuple):
    rows: np.ndarray  # of the samples
    coef: np.ndarray  # of each
    y: np.ndarray
    alpha: np.ndarray
    upper: np.ndarray
    target: np.ndarray
    level: np.ndarray  # that F has on free rows
    given: bool  # whether totals are


def numbers(values: Any) -> np.ndarray:
    """Return floats as an array of `Decimal`."""
    values = np.asarray(values.toarray() if sparse.issparse(values) else values, np.float64)
    found = np.empty(values.shape, object)
    found.ravel()[:] = [Decimal(value) for value in values.ravel().tolist()]
    return found


def kernel_values(model: Any, X: Any, Z: Any) -> np.ndarray:
    """Return the kernel of rows, by the parameters of a fitted model."""
    gamma, coef0 = Decimal(float(model._gamma)), Decimal(float(getattr(model, "coef0", 0)))
    with localcontext(_CONTEXT):
        x, z = numbers(X), numbers(Z)
        if model.kernel in ("linear", "poly", "sigmoid"):
            dot = x @ z.T
            if model.kernel == "linear":
                return dot
            base = gamma * dot + coef0
            if model.kernel == "poly":
                return base ** int(model.degree) if model.degree else base * 0 + 1
            up = _exp(2 * np.clip(base, Decimal(-200), Decimal(200)))  # beyond, the 80 digits are those of ±1
            return (up - 1) / (up + 1)
        apart = [abs(row - z) for row in x]
        if model.kernel == "laplacian":
            return _exp(-gamma * np.array([each.sum(axis=1) for each in apart]))
        squared = np.array([(each * each).sum(axis=1) for each in apart])
        return _exp(-gamma * (squared if model.kernel == "rbf" else squared ** Decimal("0.5")))


def _exp(values: np.ndarray) -> np.ndarray:
    return np.array([[value.exp() for value in row] for row in values], object)


def decisions(model: Any, X: Any) -> np.ndarray:
    """Return the decision values of a machine with one decision function, rounded once."""
    with localcontext(_CONTEXT):
        sums = kernel_values(model, X, model.support_vectors_) @ numbers(model.dual_coef_).ravel()
        return np.asarray(sums + Decimal(float(model.intercept_[0])), float)


def worth(model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None) -> Worth:
    """Return what the arrays of a model are worth; of the primal solver, the objective with the hinge.

    Parameters
    ----------
    model : SVC, SVR, NuSVC, NuSVR or OneClassSVM
        Fitted.
    X, y : array
        The samples of the fit; labels, targets, or anything for a machine without them.
    weight : array or None
        Weights of samples.
    """
    weight = np.ones(len(y)) if weight is None else weight
    found = []
    with localcontext(_CONTEXT):
        K = kernel_values(model, X, model.support_vectors_)
        for problem in _problems(model, y, weight):
            found.append(_worth(problem, K, model.support_))
    duals, primals, violations = zip(*found, strict=True)
    gaps = [float(primal - dual) for primal, dual in zip(primals, duals, strict=True)]
    return Worth(float(sum(duals)), float(sum(primals)), sum(gaps), float(max(violations)))


def _worth(problem: _Problem, K: np.ndarray, support: np.ndarray) -> tuple[Decimal, Decimal, Decimal]:
    rows, coef, y, alpha, upper, target, level, given = problem
    full = numbers(np.bincount(rows, coef, len(K)))
    sums = (K @ full[support])[rows] if len(support) else numbers(np.zeros(len(rows)))
    copies = len(y) // len(rows)
    F = np.tile(sums, copies) - target
    a, signs, top = numbers(alpha), numbers(y), numbers(upper)
    violation = Decimal(0)
    for group in [y > 0, y < 0] if given else [y != 0]:
        rises = group & np.where(y > 0, alpha < upper, alpha > 0)
        falls = group & np.where(y > 0, alpha > 0, alpha < upper)
        if rises.any() and falls.any():
            violation = max(violation, max(F[falls]) - min(F[rises]))
    dual = (a * signs * (target - F)).sum() / 2
    losses = [max(Decimal(0), loss) for loss in -signs * (F - level)]
    primal = (a * signs * (F + target)).sum() / 2 + (top * np.array(losses, object)).sum()
    return dual, primal - ((a * signs * level).sum() if given else 0), violation


def _problems(model: Any, y: np.ndarray, weight: np.ndarray) -> list[_Problem]:
    name = type(model).__name__
    if hasattr(model, "classes_"):
        return _of_classes(model, y, weight, name == "NuSVC")
    coef, rows = np.zeros(len(weight)), np.arange(len(weight))
    coef[model.support_] = np.asarray(model.dual_coef_).ravel()
    rho = numbers(-np.asarray(model.intercept_, float))[0]
    if name == "OneClassSVM":
        ones = np.ones(len(weight))
        return [_Problem(rows, coef, ones, coef, weight, numbers(0 * ones), rho, True)]
    upper, signs = np.tile(model.C * weight, 2), np.repeat([1.0, -1.0], len(rows))
    epsilon = numbers(model.epsilon if name == "SVR" else 0.0)
    target = np.concatenate([numbers(y) - epsilon, numbers(y) + epsilon])
    alpha = np.concatenate([np.maximum(coef, 0), np.maximum(-coef, 0)])
    return [_Problem(rows, coef, signs, alpha, upper, target, rho, False)]


def _of_classes(model: Any, y: np.ndarray, weight: np.ndarray, is_nu: bool) -> list[_Problem]:
    k, found = len(model.classes_), []
    class_of = np.repeat(np.arange(k), model.n_support_)
    all_coef = np.asarray(model.dual_coef_.toarray() if sparse.issparse(model.dual_coef_) else model.dual_coef_)
    codes = np.searchsorted(model.classes_, y)
    bound = model.class_weight_[codes] * weight * (1.0 if is_nu else model.C)
    for number, (a, b) in enumerate(combinations(range(k), 2)):
        coef = np.zeros(len(y))
        coef[model.support_[class_of == a]] = all_coef[b - 1, class_of == a]
        coef[model.support_[class_of == b]] = all_coef[a, class_of == b]
        rows = np.flatnonzero((codes == a) | (codes == b))
        signs = np.where(codes[rows] == (b if k == 2 else a), 1.0, -1.0)
        margin = float(model._margin[number]) if is_nu else 0.0
        divisor = margin or 1.0  # of what is returned; where there is no margin, nothing is divided
        coef = coef[rows] * divisor
        alpha, top = coef * signs, bound[rows]
        # Bounds are products, and ν-classification returns quotients: rounding may move a multiplier off its bound.
        top = np.where(np.abs(alpha - top) <= 2 * np.finfo(float).eps * top, alpha, top)
        target = numbers(np.zeros(len(rows)) if is_nu else signs)
        rho = -numbers(model.intercept_)[number] * Decimal(divisor)
        level = rho + numbers(signs) * Decimal(margin)
        found.append(_Problem(rows, coef, signs, alpha, top, target, level, is_nu))
    return found
