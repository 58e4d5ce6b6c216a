"""An independent judge: what a fitted model's arrays are worth, by the problems' definitions alone.

Nothing of the package is called. Products are formed in extended precision (80 bits where the processor has them), so
that what the judge itself loses is small beside the bound on what float64 arithmetic of the package may lose, which is
computed here from the numbers at hand: with the unit roundoff u, a sum of d products errs by at most (d + 1) u times
the sum of their absolute values (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1).
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

__all__ = [
    "LONG", "Kernel", "U", "Verdict", "decisions_of", "judge_svc", "kernel_of", "long", "resolved_gamma",
]  # fmt: skip

U = float(np.finfo(np.float64).eps) / 2
LONG = np.longdouble
_LEAST = float(np.exp(-708.0))  # what a kernel value may be that is too small to be a normal number: no argument of its
# exponential is less than the last whole number whose exponential is one
_UNSEEN = 1e-11  # of a kernel value: for errors of squared distances that change it by less nothing is done
_FEASIBLE = 1e-13  # share of bounds or sums by which multipliers may leave them, which is rounding
_OFF_CENTRE = 0.1  # of the largest squared norm: what is left of it by less is worth a subtraction
_NEAR = 2.0**-13  # of the squared norms: pairs that are nearer are to be computed by differences


class Kernel(NamedTuple):
    """Kernel values, and a bound on the error of each if it is computed in float64."""

    values: np.ndarray
    errors: np.ndarray


def long(X: np.ndarray) -> np.ndarray:
    return np.asarray(X, LONG)


# --- kernels ---------------------------------------------------------------------------------------------


def resolved_gamma(gamma: Any, X: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """Return gamma as scikit-learn defines it, with weights as repeated rows, and a bound on its relative error."""
    if not isinstance(gamma, str):
        return float(gamma), 0.0
    if gamma == "auto":
        return 1.0 / X.shape[1], 2 * U
    rows = long(X)
    w = np.ones(len(X), LONG) if weight is None else long(weight)
    mean = (w @ rows).sum() / (w.sum() * X.shape[1])
    variance = (w @ (rows - mean) ** 2).sum() / (w.sum() * X.shape[1])
    square = (w @ rows**2).sum() / (w.sum() * X.shape[1])
    if variance <= (X.size + 4) * U * square:  # nothing, or rounding: scikit-learn takes either for what it is
        return 1.0, np.inf
    farthest = ((rows - mean) ** 2).max()  # The point at which rows are centred may be any of them.
    return float(1 / (X.shape[1] * variance)), float((X.size + 4) * U * (1 + max(square, farthest) / variance))


def kernel_of(model: Any, X: np.ndarray, Z: np.ndarray, gamma: float, centre: np.ndarray) -> Kernel:
    """Return the kernel values of rows X with rows Z, both in float64, for a model's kernel parameters.

    `centre` is the mean. A kernel of differences may subtract it or the medians from all rows, which differ by a
    standard deviation at most. Nothing need be subtracted if the farthest row is about as far from there as from the
    origin: all others may then lie nearer to the origin.
    """
    name, d = model.kernel, X.shape[1]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if name in ("linear", "poly", "sigmoid"):
            dot = long(X) @ long(Z).T
            error = (d + 2) * U * (np.abs(X) @ np.abs(Z).T)
            if name == "linear":
                return Kernel(dot, error)
            base = LONG(gamma) * dot + LONG(model.coef0)
            error = gamma * error + 3 * U * (np.abs(gamma * dot) + abs(model.coef0))
            if name == "sigmoid":
                return Kernel(np.tanh(base), np.asarray(np.minimum(2, error + 6 * U), float))
            p = model.degree
            grown = p * (np.abs(base) + error) ** max(p - 1, 0) * error
            return Kernel(base**p, np.asarray(grown + (p + 4) * U * np.abs(base) ** p, float))
        distance, squared = _distances(X, Z, name == "laplacian")
        if name == "laplacian":
            error = (d + 3) * U * distance
        else:
            apart = ((Z - centre) ** 2).sum(axis=1)
            error = _errors_of_squares(X - centre, Z - centre, squared, gamma, np.sqrt(apart.mean()))
            if apart.max() > _OFF_CENTRE * (Z**2).sum(axis=1).max():
                error = np.maximum(error, _errors_of_squares(X, Z, squared, gamma))
            if name == "exponential":
                error = np.minimum(error / np.maximum(2 * distance, 1e-300), np.sqrt(error))
        argument = squared if name == "rbf" else distance
        values = np.exp(-gamma * argument)
        error = gamma * (error + 3 * U * argument)
        least = np.exp(-gamma * argument + np.minimum(error, 700))  # where the distance is smaller
        return Kernel(values.astype(LONG), np.minimum(1, least * np.minimum(error, 1) + 4 * U * least))


def _errors_of_squares(
    X: np.ndarray, Z: np.ndarray, squared: np.ndarray, gamma: float, shift: float = 0.0
) -> np.ndarray:
    """Return bounds on the errors of squared distances by norms and products, of near rows by their differences.

    `shift` is how far from the origin that may be from which norms are measured.
    """
    d = X.shape[1]
    of_x, of_z = ((np.sqrt((rows**2).sum(axis=1)) + shift) ** 2 for rows in (X, Z))
    error = (d + 6) * U * (of_x[:, None] + of_z[None])
    return np.where(gamma * error > _UNSEEN, np.minimum((d + 6) * U * squared / _NEAR, error), error)


def _distances(X: np.ndarray, Z: np.ndarray, manhattan: bool) -> tuple[np.ndarray, np.ndarray]:
    distance, squared = np.zeros((len(X), len(Z))), np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        apart = np.abs(x[:, None] - z[None])
        if manhattan:
            distance += apart
        else:
            squared += apart * apart
    return (distance if manhattan else np.sqrt(squared)), squared


# --- support vector machines with a kernel ---------------------------------------------------------------


class Verdict(NamedTuple):
    """What the arrays of a model are worth, summed over the two-class problems, each with a bound on its rounding.

    Attributes
    ----------
    dual, primal : float
        Objectives; the primal one with the offset of the model.
    gap : float
        Their differences, none less than zero.
    violation : float
        The largest of the problems.
    dual_error, primal_error, gap_error, violation_error : float
        Bounds.
    infeasible : float
        By how much a multiplier leaves its bounds, in parts of them, or the sum of y α is not zero, in parts of Σ α.
    distance : list of float
        Of each problem, a bound on ‖w - w*‖.
    offset : float
        The largest offset of a problem in parts of the largest that decides anything: with twice as much as decision
        values and margins have all rows are of one class.
    """

    dual: float
    primal: float
    gap: float
    violation: float
    dual_error: float
    primal_error: float
    gap_error: float
    violation_error: float
    infeasible: float
    distance: list[float]
    offset: float


class _Problem(NamedTuple):
    rows: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    alpha: np.ndarray
    intercept: float


def _problems(model: Any, codes: np.ndarray, upper: np.ndarray) -> list[_Problem]:
    """Return the two-class problems and the multipliers that `dual_coef_` gives them."""
    k = len(model.classes_)
    class_of = np.repeat(np.arange(k), model.n_support_)
    coef = model.dual_coef_.toarray() if sparse.issparse(model.dual_coef_) else model.dual_coef_
    found = []
    for number, (a, b) in enumerate(combinations(range(k), 2)):
        beta = np.zeros(len(codes))
        of_a, of_b = class_of == a, class_of == b
        beta[model.support_[of_a]] = coef[b - 1, of_a]
        beta[model.support_[of_b]] = coef[a, of_b]
        rows = np.flatnonzero(((codes == a) | (codes == b)) & (upper > 0))
        y = np.where(codes[rows] == (b if k == 2 else a), 1.0, -1.0)
        found.append(_Problem(rows, y, upper[rows], beta[rows] * y, float(model.intercept_[number])))
    return found


def judge_svc(model: Any, K: Kernel, codes: np.ndarray, upper: np.ndarray, solver: str, squared: bool) -> Verdict:
    """Judge a fitted SVC, or scikit-learn's.

    Parameters
    ----------
    model : SVC
        Fitted.
    K : Kernel
        Of all rows.
    codes : ndarray of int
        Numbers of the rows' classes, -1 for none.
    upper : ndarray
        C times the weights of rows and classes.
    solver : str
        "smo" if there is an offset in the problem; "coordinate" if not; "primal" if `fit_intercept` says so.
    squared : bool
        Whether the loss is the squared hinge.
    """
    balanced = solver == "smo" or (solver == "primal" and model.fit_intercept)
    parts = [_judge(each, K, balanced, squared) for each in _problems(model, codes, upper)]
    sums = [float(sum(getattr(part, name) for part in parts)) for name in ("dual", "primal")]
    gap = float(sum(max(0.0, part.primal - part.dual) for part in parts))
    errors = [float(sum(getattr(part, name) for part in parts)) for name in ("dual_error", "primal_error", "gap_error")]
    worst = max(parts, key=lambda part: part.violation)
    most = max(part.violation_error for part in parts)
    infeasible = max(part.infeasible for part in parts)
    offset = max(part.offset for part in parts)
    return Verdict(*sums, gap, worst.violation, *errors, most, infeasible, [part.distance[0] for part in parts], offset)


def _judge(problem: _Problem, K: Kernel, balanced: bool, squared: bool) -> Verdict:
    rows, y, upper, alpha, intercept = problem
    block, errors = K.values[np.ix_(rows, rows)], K.errors[np.ix_(rows, rows)]
    n_terms = np.count_nonzero(alpha) + 3
    beta = y * alpha
    with np.errstate(over="ignore", invalid="ignore"):
        sums = block @ long(beta)
        # Of a sum: what its terms err, and what adding them up does.
        error = np.abs(beta) @ errors + n_terms * U * (np.abs(beta) @ np.abs(block).astype(float))
        ridge = 1 / (2 * long(upper)) if squared else np.zeros(len(y), LONG)
        F = sums + y * ridge * alpha - y
        of_label = n_terms * U  # y is a term of the sum that is F, and F may be added up in any order
        F_error = error + of_label + 3 * U * (np.abs(ridge * alpha) + 1).astype(float)
        top = np.full(len(y), np.inf) if squared else upper
        may_rise = np.where(y > 0, alpha < top, alpha > 0)
        may_fall = np.where(y > 0, alpha > 0, alpha < top)
        low, high = F[may_rise].min(initial=np.inf), F[may_fall].max(initial=-np.inf)
        if not balanced:
            low, high = min(low, 0), max(high, 0)
        violation = max(0.0, float(high - low))
        quadratic = float(long(beta) @ sums)
        size = float(np.abs(beta) @ error) + 2 * n_terms * U * float(np.abs(beta) @ np.abs(sums).astype(float))
        offset = intercept if balanced else 0.0
        margin = y * (sums + offset)
        slack = np.maximum(0, 1 - margin)
        margin_error = error + of_label + 3 * U * (np.abs(sums).astype(float) + abs(offset) + 1)
        loss = long(upper) * (slack**2 if squared else slack)
        slope = 2 * slack.astype(float) + margin_error if squared else 1.0
        may_lose = (slack > 0) | (1 - margin > -margin_error)
        loss_error = float((upper * slope * margin_error)[may_lose].sum()) + (len(y) + 3) * U * float(loss.sum())
        primal = float(quadratic / 2 + loss.sum())
        primal_error = size / 2 + loss_error + 3 * U * abs(primal)
        dual, dual_error = _dual(beta, y, block, errors, ridge)
        share = float(np.max(np.maximum(-alpha, alpha - top) / np.where(np.isfinite(top), top, 1), initial=0.0))
        if balanced and alpha.any():
            # It is as good as zero where the objectives' rounding hides what an offset makes of it.
            excess = abs(float(long(beta).sum()))
            if excess * (1 + abs(intercept)) > dual_error + primal_error:
                share = max(share, excess / float(np.abs(alpha).sum()))
        if share > _FEASIBLE:  # on the way in the primal problem: a lower bound is that of others near by
            dual, dual_error = _dual(y * _feasible(alpha, y, top, balanced), y, block, errors, ridge)
    distance = float(np.sqrt(2 * max(0.0, primal - dual) + 2 * (dual_error + primal_error)))
    gap_error = dual_error + primal_error
    return Verdict(
        dual, primal, max(0.0, primal - dual), violation, dual_error, primal_error, gap_error, 2 * float(F_error.max()),
        share, [distance], abs(intercept) / (2 * float((np.abs(sums) + error).max() + 2)),
    )  # fmt: skip


def _dual(
    beta: np.ndarray, y: np.ndarray, block: np.ndarray, errors: np.ndarray, ridge: np.ndarray
) -> tuple[float, float]:
    """Return the dual objective of y α, and a bound on its rounding."""
    n_terms, size, alpha = np.count_nonzero(beta) + 3, np.abs(beta), long(y * beta)
    sums = block @ long(beta)
    error = size @ errors + n_terms * U * (size @ np.abs(block).astype(float))
    of_square = float(size @ error) + 2 * n_terms * U * float(size @ np.abs(sums).astype(float))
    of_rest = n_terms * U * float(size.sum() + (ridge * alpha**2).sum())
    value = float(alpha.sum() - long(beta) @ sums / 2 - (ridge * alpha**2).sum() / 2)
    return value, of_square / 2 + of_rest


def _feasible(alpha: np.ndarray, y: np.ndarray, top: np.ndarray, balanced: bool) -> np.ndarray:
    """Return multipliers within their bounds, and if asked for those of the larger class scaled to the other's sum."""
    alpha = np.clip(alpha, 0, top)
    if not balanced:
        return alpha
    rise, fall = float(alpha[y > 0].sum()), float(alpha[y < 0].sum())
    least = min(rise, fall)
    return np.where(y > 0, alpha * (least / rise if rise else 1), alpha * (least / fall if fall else 1))


def decisions_of(model: Any, K: Kernel, codes: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the decision value of each pair of classes for rows, and bounds, by kernel values of those with all rows.

    Signs are those of scikit-learn: of two classes the second is positive, of more the first of a pair.
    """
    found, bounds = [], []
    for rows, y, _, alpha, intercept in _problems(model, codes, upper):
        beta = y * alpha
        block, errors = K.values[:, rows], K.errors[:, rows]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = block @ long(beta)
            n_terms = np.count_nonzero(beta) + 3
            size = np.abs(block).astype(float) @ np.abs(beta)
            least = _LEAST * (np.abs(beta).sum() + 1)
            bounds.append(errors @ np.abs(beta) + n_terms * U * size + 2 * U * abs(intercept) + least)
            found.append((sums + intercept).astype(float))
    return np.column_stack(found), np.column_stack(bounds)
