"""How good is an answer to a problem of `problems`? Both objectives and their gap, from the coefficients alone.

With f = Kβ + b and α = yβ,
    P = ½ βᵀKβ + C Σ_i ℓ(1 - y_i f_i)          ℓ(s) = max(0, s), or its square
    D = Σα - ½ βᵀKβ                            less Σα² / 4C for the square
and D is below every P if 0 <= α, for the hinge α <= C, and if there is an offset Σβ = 0. Where the problem has none,
b is left out of f here, and counts only for predictions. Kernel values and sums are in float64, and nothing comes from
the package under test.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.classical.problems import Problem
from bench.referee import accuracy, kernel_sums
from bench.workers.results import answer_of

__all__ = ["SAME", "Finding", "Solved", "judge", "relative_gap", "solved"]

SAME = 1e-9  # relatively: objectives that differ by rounding
_ROUNDING = 1e-6  # of C or of Σ|β|: constraints that are violated by so little are kept


class Solved(NamedTuple):
    """Coefficients of all rows, the offset, and whether the problem that was solved has one."""

    beta: np.ndarray
    intercept: float
    offset: bool


class Finding(NamedTuple):
    """What the judge found; accuracy is None without labels, signs are those of the rows to test with."""

    primal: float
    dual: float
    gap: float  # relative to P, of this answer's own D
    violation: float  # of the dual's constraints, relatively
    accuracy: float | None
    signs: np.ndarray

    @property
    def feasible(self) -> bool:
        return self.violation <= _ROUNDING


def judge(problem: Problem, answers: Sequence[Solved]) -> list[Finding]:
    """Judge answers to the same question, for which each kernel value is computed once."""
    X_test, coef = problem.data.X_test, np.column_stack([one.beta for one in answers])
    support = np.flatnonzero(coef.any(axis=1))
    exact = problem.exact
    known = kernel_sums(exact, problem.data.X, support, coef[support])
    new = kernel_sums(exact, X_test, support, coef[support])
    return [_finding(problem, one, known[:, k], new[:, k]) for k, one in enumerate(answers)]


def solved(model: Any, n_rows: int, offset: bool) -> Solved:
    """Return the answer of a fitted estimator of two classes, whose signs are those of the second."""
    answer, beta = answer_of(model), np.zeros(n_rows)
    beta[answer["support"]] = answer["dual_coef"][0]
    return Solved(beta, float(answer["intercept"][0]), offset)


def relative_gap(primal: float, dual: float) -> float:
    """Return the duality gap in parts of the primal objective."""
    return (primal - dual) / primal


def _finding(problem: Problem, answer: Solved, sums: np.ndarray, new: np.ndarray) -> Finding:
    primal, dual = _objectives(problem, answer, sums)
    signs = np.where(new + answer.intercept > 0, 1, -1)
    labels = problem.data.y_test
    right = accuracy(signs, labels) if len(labels) else None
    return Finding(primal, dual, relative_gap(primal, dual), _violation(problem, answer), right, signs)


def _objectives(problem: Problem, answer: Solved, sums: np.ndarray) -> tuple[float, float]:
    y, C = problem.data.y, problem.C
    alpha, norm = y * answer.beta, float(answer.beta @ sums) / 2
    missing = np.maximum(0, 1 - y * (sums + (answer.intercept if answer.offset else 0.0)))
    if problem.squared:
        return norm + C * float(missing @ missing), float(alpha.sum() - alpha @ alpha / (4 * C)) - norm
    return norm + C * float(missing.sum()), float(alpha.sum()) - norm


def _violation(problem: Problem, answer: Solved) -> float:
    alpha = problem.data.y * answer.beta
    above = 0.0 if problem.squared else float((alpha - problem.C).max())
    balance = abs(float(answer.beta.sum())) / max(float(np.abs(alpha).sum()), 1e-300) if answer.offset else 0.0
    return max(0.0, -float(alpha.min()) / problem.C, above / problem.C, balance)
