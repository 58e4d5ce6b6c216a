"""How good is an answer? Objective, constraints and optimality, from the data and the answer alone.

The two-class problem of classes a < b has y_i = 1 for rows of a and -1 for rows of b, and asks for the
maximum of Σα - ½ Σ_ij α_i α_j y_i y_j K_ij with 0 <= α <= C and Σ y α = 0. With F_i = Σ_j α_j y_j K_ij - y_i,
α is optimal if no row that may fall has a larger F than a row that may rise. Nothing here comes from the
package under test; kernel values and sums are in float64, in blocks.
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from bench.kernel_values import ExactKernel

__all__ = ["Answer", "Verdict", "accuracy", "examine"]

_ROWS, _SUPPORT = 2048, 4096  # of a block of kernel values: 64 MiB
_AT_BOUND = 1e-12  # of C: multipliers so close to a bound are at the bound


class Answer(NamedTuple):
    """A fit in the layout of scikit-learn's `support_`, `dual_coef_` and `intercept_`."""

    support: np.ndarray
    dual_coef: np.ndarray
    intercept: np.ndarray


class Verdict(NamedTuple):
    """What the referee found.

    Attributes
    ----------
    objective : float
        Dual objective, summed over the pairs of classes.
    bound_violation : float
        Largest distance of a multiplier from [0, C].
    balance_violation : float
        Largest |Σ y α| of a pair.
    kkt_gap : float or None
        Largest violation of the optimality conditions over all rows of all pairs; None if not asked for.
    duality_gap : float or None
        Primal objective (with the answer's offsets) less dual objective, summed over the pairs.
    n_support : int
        Rows with a multiplier that is not zero in some pair.
    """

    objective: float
    bound_violation: float
    balance_violation: float
    kkt_gap: float | None
    duality_gap: float | None
    n_support: int


class _Pair(NamedTuple):
    """One two-class problem: y over all rows (0 for rows of other classes), y α over all rows, the offset."""

    y: np.ndarray
    beta: np.ndarray
    intercept: float


def accuracy(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the share of right predictions."""
    return float(np.mean(predicted == y))


def examine(kernel: ExactKernel, y: np.ndarray, C: float, answer: Answer, gap: bool = True) -> Verdict:
    """Judge an answer.

    Parameters
    ----------
    kernel : ExactKernel
        Kernel over the rows of the training set.
    y : ndarray
        Their labels.
    C : float
        Upper bound of the multipliers.
    answer : Answer
        What is judged.
    gap : bool
        Whether to compute what needs the kernel values of all rows, not only of the support vectors.

    Raises
    ------
    ValueError
        If the answer has not the layout of scikit-learn's.
    """
    pairs = _pairs(y, answer)
    support = np.asarray(answer.support, np.int64)
    rows = np.arange(len(y)) if gap else np.sort(support)
    sums = _kernel_sums(kernel, rows, support, np.column_stack([pair.beta[support] for pair in pairs]))
    findings = np.array([_judge(pair, rows, sums[:, k], C, gap) for k, pair in enumerate(pairs)])
    return Verdict(
        objective=float(findings[:, 0].sum()),
        bound_violation=float(findings[:, 1].max()),
        balance_violation=float(findings[:, 2].max()),
        kkt_gap=float(findings[:, 3].max()) if gap else None,
        duality_gap=float(findings[:, 4].sum()) if gap else None,
        n_support=int(np.count_nonzero(np.any([pair.beta != 0 for pair in pairs], axis=0))),
    )


def _pairs(y: np.ndarray, answer: Answer) -> list[_Pair]:
    """Return the problems of all pairs of classes, with their part of the answer."""
    classes, labels = np.unique(y, return_inverse=True)
    support = np.asarray(answer.support, np.int64)
    _check(answer, support, len(y), len(classes))
    # With two classes scikit-learn's signs are those of the second class.
    sign = -1.0 if len(classes) == 2 else 1.0
    dual_coef = sign * np.asarray(answer.dual_coef, np.float64)
    intercept = sign * np.asarray(answer.intercept, np.float64)
    pairs = []
    for k, (a, b) in enumerate(combinations(range(len(classes)), 2)):
        beta = np.zeros(len(y))
        for own, row in ((a, b - 1), (b, a)):
            mine = labels[support] == own
            beta[support[mine]] = dual_coef[row, mine]
        pairs.append(_Pair((labels == a) * 1.0 - (labels == b), beta, float(intercept[k])))
    return pairs


def _check(answer: Answer, support: np.ndarray, n_rows: int, n_classes: int) -> None:
    expected = (n_classes - 1, len(support)), (n_classes * (n_classes - 1) // 2,)
    found = np.shape(answer.dual_coef), np.shape(answer.intercept)
    if found != expected:
        raise ValueError(f"coefficients and offsets should have the shapes {expected}, they have {found}")
    if len(np.unique(support)) < len(support) or not np.isin(support, np.arange(n_rows)).all():
        raise ValueError(f"support should be distinct row numbers from 0 to {n_rows - 1}")
    if not (np.isfinite(answer.dual_coef).all() and np.isfinite(answer.intercept).all()):
        raise ValueError("coefficients and offsets should be finite")


def _kernel_sums(kernel: ExactKernel, rows: np.ndarray, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return Σ_s coef[s, p] k(x_i, x_s) for the rows i and every pair p."""
    sums = np.zeros((len(rows), coef.shape[1]))
    centre: Any = kernel.centre()
    tiles = [(s, r) for s in range(0, len(support), _SUPPORT) for r in range(0, len(rows), _ROWS)]
    operand, last = None, -1
    for s, r in tqdm(tiles, desc="referee", unit="block", disable=None, leave=False):
        if s != last:
            operand, last = kernel.rows(support[s : s + _SUPPORT], centre), s
        block = kernel.rows(rows[r : r + _ROWS], centre)
        sums[r : r + _ROWS] += kernel.between(block, operand) @ coef[s : s + _SUPPORT]
    return sums


def _judge(pair: _Pair, rows: np.ndarray, sums: np.ndarray, C: float, gap: bool) -> tuple[float, ...]:
    """Return objective, violations of bounds and balance, KKT gap and duality gap of one problem."""
    mine = pair.y[rows] != 0
    y, beta, sums = pair.y[rows][mine], pair.beta[rows][mine], sums[mine]
    alpha = y * beta
    quadratic = float(beta @ sums)
    objective = float(alpha.sum()) - quadratic / 2
    bound_violation = max(0.0, float(-alpha.min(initial=0)), float((alpha - C).max(initial=0)))
    findings = objective, bound_violation, abs(float(beta.sum()))
    if not gap:
        return *findings, np.nan, np.nan
    loss = C * float(np.maximum(0, 1 - y * (sums + pair.intercept)).sum())
    return *findings, _kkt_gap(y, alpha, sums - y, C), quadratic / 2 + loss - objective


def _kkt_gap(y: np.ndarray, alpha: np.ndarray, gradient: np.ndarray, C: float) -> float:
    above, below = alpha > _AT_BOUND * C, alpha < C * (1 - _AT_BOUND)
    rise = np.where(y > 0, below, above)
    fall = np.where(y > 0, above, below)
    return max(0.0, float(gradient[fall].max(initial=-np.inf) - gradient[rise].min(initial=np.inf)))
