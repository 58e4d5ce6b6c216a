"""How good is the answer to a textbook problem? Both objectives and their gap, from the coefficients alone.

With f = Kβ + b and α = yβ,
    P = ½ βᵀKβ + C Σ_i ℓ(1 - y_i f_i)          ℓ(s) = max(0, s), or its square
    D = Σα - ½ βᵀKβ                            less Σα² / 4C for the square
and D is below every P if 0 <= α, for the hinge α <= C, and, if there is an intercept, Σβ = 0. For problems without an
intercept, P is computed with b = 0, and b counts only for predictions. Kernel values and sums are in float64. Nothing
comes from the package under test.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.classical.parameters import ClassicalParameters
from bench.harness.data import Data
from bench.harness.suite import Findings, Stored
from bench.kernel.referee import accuracy, kernel_sums
from bench.workers.results import answer_of

__all__ = ["SAME", "Answer", "Verdict", "answer_of_all", "examine", "judge", "relative_gap"]

SAME = 1e-9
"""Relative difference of objectives that is rounding."""
_ROUNDING = 1e-6  # relative to C or to Σ|β|: violations of constraints that are rounding


class Answer(NamedTuple):
    """Coefficients of all samples, the intercept, and whether the problem that was solved has one."""

    beta: np.ndarray
    intercept: float
    has_intercept: bool


class Verdict(NamedTuple):
    """What the referee found.

    Attributes
    ----------
    primal, dual : float
        Both objectives.
    violation : float
        Largest relative violation of the constraints of the dual problem.
    signs : ndarray
        Predicted labels of the test samples, -1 or 1.
    """

    primal: float
    dual: float
    violation: float
    signs: np.ndarray

    @property
    def feasible(self) -> bool:
        return self.violation <= _ROUNDING


def answer_of_all(model: Any, n_rows: int, has_intercept: bool) -> Answer:
    """Return the answer of a fitted two-class estimator. Its signs are those of the second class."""
    answer, beta = answer_of(model), np.zeros(n_rows)
    beta[answer["support"]] = answer["dual_coef"][0]
    return Answer(beta, float(answer["intercept"][0]), has_intercept)


def relative_gap(primal: float, dual: float) -> float:
    """Return the duality gap relative to the primal objective."""
    return (primal - dual) / primal


def judge(parameters: ClassicalParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Judge the answers that competitors left behind; see `bench.harness.suite.Suite`."""
    answers = [Answer(one["beta"], float(one["intercept"]), bool(one["has_intercept"])) for one in stored]
    verdicts = examine(parameters, data, answers)
    return [_findings(one, verdicts[0].signs, data, own) for one, own in zip(verdicts, stored, strict=True)]


def _findings(verdict: Verdict, signs: np.ndarray, data: Data, stored: Stored) -> dict[str, Any]:
    """Return the verdict. `same_signs` compares with the first competitor, `agreement` with own predictions."""
    return {
        "primal": verdict.primal,
        "dual": verdict.dual,
        "violation": verdict.violation,
        "feasible": verdict.feasible,
        "own_gap": relative_gap(verdict.primal, verdict.dual) if verdict.feasible else None,
        "accuracy": accuracy(verdict.signs, data.y_test) if len(data.y_test) else None,
        "same_signs": accuracy(verdict.signs, signs),
        "agreement": accuracy(stored.get("predicted", verdict.signs), verdict.signs),
    }


def examine(parameters: ClassicalParameters, data: Data, answers: Sequence[Answer]) -> list[Verdict]:
    """Judge answers to the same question. Each kernel value is computed once."""
    if not answers:
        return []
    exact, coef = parameters.exact_kernel(data.X), np.column_stack([one.beta for one in answers])
    support = np.flatnonzero(coef.any(axis=1))
    known = kernel_sums(exact, data.X, support, coef[support])
    new = kernel_sums(exact, data.X_test, support, coef[support])
    return [_verdict(parameters, data.y, one, known[:, k], new[:, k]) for k, one in enumerate(answers)]


def _verdict(
    parameters: ClassicalParameters, y: np.ndarray, answer: Answer, sums: np.ndarray, new: np.ndarray
) -> Verdict:
    primal, dual = _objectives(parameters, y, answer, sums)
    return Verdict(primal, dual, _violation(parameters, y, answer), np.where(new + answer.intercept > 0, 1, -1))


def _objectives(
    parameters: ClassicalParameters, y: np.ndarray, answer: Answer, sums: np.ndarray
) -> tuple[float, float]:
    C, alpha, norm = parameters.C, y * answer.beta, float(answer.beta @ sums) / 2
    missing = np.maximum(0, 1 - y * (sums + (answer.intercept if answer.has_intercept else 0.0)))
    if parameters.squared:
        return norm + C * float(missing @ missing), float(alpha.sum() - alpha @ alpha / (4 * C)) - norm
    return norm + C * float(missing.sum()), float(alpha.sum()) - norm


def _violation(parameters: ClassicalParameters, y: np.ndarray, answer: Answer) -> float:
    alpha, C = y * answer.beta, parameters.C
    above = 0.0 if parameters.squared else float((alpha - C).max())
    total = max(float(np.abs(alpha).sum()), 1e-300)
    balance = abs(float(answer.beta.sum())) / total if answer.has_intercept else 0.0
    return max(0.0, -float(alpha.min()) / C, above / C, balance)
