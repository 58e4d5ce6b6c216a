"""How good is an answer of SVR, OneClassSVM, NuSVR or NuSVC? Objectives and constraints from the data alone.

With the kernel matrix K, the weights c of the samples (times C, for regression), their sum S, and coefficients β:

    svr        maximise zᵀβ - ε ‖β‖₁ - ½ βᵀKβ   with |β| <= c, Σβ = 0
    nu-svr     maximise zᵀβ - ½ βᵀKβ            with |β| <= c, Σβ = 0, ‖β‖₁ <= ν S
    one-class  maximise -½ βᵀKβ                  with 0 <= β <= c, Σβ = ν S
    nu-svc     maximise -½ βᵀKβ                  with 0 <= yβ <= c, Σβ = 0, ‖β‖₁ = ν S

The answer of a ν-classifier is divided by its margin r, which follows from ‖β‖₁. The primal objectives take the
answer's own intercept, and of the half width of the tube the best. Everything is in float64 and by NumPy.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.harness.data import Data
from bench.harness.suite import Findings, Stored
from bench.kernel.exact_kernel import ExactKernel
from bench.kernel.referee import accuracy, kernel_sums
from bench.linear.referee import determination
from bench.machines.parameters import MachineParameters

__all__ = ["Finding", "examine_machine", "judge"]


class Finding(NamedTuple):
    """What the referee found.

    Attributes
    ----------
    objective : float
        Dual objective.
    gap : float
        Primal less dual objective.
    bounds, balance : float
        Largest violations of the bounds, and of the constraints of sums.
    sums : ndarray of float64, shape (n,)
        Kβ: decision values without the intercept, in the units of the problem.
    """

    objective: float
    gap: float
    bounds: float
    balance: float
    sums: np.ndarray

    @property
    def violation(self) -> float:
        """Largest violation of a constraint."""
        return max(self.bounds, self.balance)


def examine_machine(
    machine: str, sums: np.ndarray, y: np.ndarray, c: np.ndarray, beta: np.ndarray, intercept: float, **given: float
) -> Finding:
    """Judge an answer.

    Parameters
    ----------
    machine : {"svr", "nu-svr", "one-class", "nu-svc"}
        Which problem.
    sums : ndarray of float64, shape (n,)
        Kβ of the answer.
    y, c, beta : ndarray of float64, shape (n,)
        Targets or labels ±1, upper bounds, and the answer's coefficients.
    intercept : float
        The answer's.
    **given : float
        `epsilon` or `nu`.
    """
    total = given.get("nu", 0.0) * float(c.sum())
    if machine == "nu-svc":
        margin = total / float(np.abs(beta).sum())
        beta, sums, intercept = beta * margin, sums * margin, intercept * margin
    square, scores = float(beta @ sums), sums + intercept
    size, balance = float(np.abs(beta).sum()), abs(float(beta.sum()))
    outside = float(np.maximum(np.abs(beta) - c, 0).max())
    if machine == "svr":
        dual = float(y @ beta) - given["epsilon"] * size - square / 2
        primal = square / 2 + float(c @ np.maximum(0, np.abs(y - scores) - given["epsilon"]))
        return Finding(dual, primal - dual, outside, balance, sums)
    if machine == "nu-svr":
        dual = float(y @ beta) - square / 2
        away = np.abs(y - scores)
        tubes = np.append(away, 0.0)  # the best half width is one of these: the loss is piecewise linear in it
        primal = min(square / 2 + total * e + float(c @ np.maximum(0, away - e)) for e in tubes)
        return Finding(dual, primal - dual, outside, max(balance, size - total), sums)
    if machine == "one-class":
        primal = square / 2 + intercept * total + float(c @ np.maximum(0, -scores))
        outside = max(outside, float(-beta.min()))
        return Finding(-square / 2, primal + square / 2, outside, abs(size - total), sums)
    primal = square / 2 - margin * total + float(c @ np.maximum(0, margin - y * scores))
    return Finding(-square / 2, primal + square / 2, max(outside, float(np.max(-y * beta))), balance, sums)


def judge(parameters: MachineParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Judge the answers that competitors left behind; see `bench.harness.suite.Suite`.

    "accuracy" is R² of a regression, and of one class the share of test samples that are no outliers. Kernel values
    are computed once for all answers, whether or not gaps are asked for.
    """
    refusals = [_refusal(len(data.y), one) for one in stored]
    good = [one for one, why in zip(stored, refusals, strict=True) if not why]
    coef = np.zeros((len(data.y), len(good)))
    for column, one in zip(coef.T, good, strict=True):
        column[one["support"]] = one["dual_coef"][0]
    support, kernel = np.flatnonzero(coef.any(axis=1)), ExactKernel(data.X, "rbf", parameters.gamma)
    known, new = (kernel_sums(kernel, X, support, coef[support]) for X in (data.X, data.X_test))
    answers = zip(coef.T, known.T, new.T, good, strict=True)
    found = (_findings(parameters, data, *answer, float(one["intercept"][0])) for *answer, one in answers)
    return [why or next(found) for why in refusals]


def _refusal(n: int, stored: Stored) -> str | None:
    """Return why an answer cannot be judged, None if it can."""
    support, coef, intercept = stored["support"], stored["dual_coef"], stored["intercept"]
    if coef.shape != (1, len(support)) or intercept.shape != (1,):
        return (
            f"{len(support)} support vectors have coefficients and intercepts of shape {coef.shape}, {intercept.shape}"
        )
    if len(np.unique(support)) < len(support) or not np.isin(support, np.arange(n)).all():
        return f"support should be distinct row numbers from 0 to {n - 1}"
    return None if np.isfinite(coef).all() and np.isfinite(intercept).all() else "coefficients should be finite"


def _findings(
    parameters: MachineParameters, data: Data, beta: np.ndarray, known: np.ndarray, new: np.ndarray, intercept: float
) -> dict[str, Any]:
    """Return what the table shows of an answer, whose sums on both sets are given."""
    given, y = dict(parameters.own), data.y
    c = np.full(len(y), given.pop("C", 1.0))
    if parameters.machine == "nu-svc":
        classes, codes = np.unique(y, return_inverse=True)
        y = 2.0 * codes - 1
        quality = accuracy(classes[(new + intercept > 0).astype(int)], data.y_test)
    elif parameters.machine == "one-class":
        quality = float(np.mean(new + intercept >= 0))
    else:
        quality = determination(new + intercept, data.y_test)
    found = examine_machine(parameters.machine, known, y, c, beta, intercept, **given)
    return {
        "objective": found.objective,
        "bound_violation": found.bounds,
        "balance_violation": found.balance,
        "kkt_gap": None,
        "duality_gap": found.gap,
        "n_support": int(np.count_nonzero(beta)),
        "accuracy": quality,
        "agreement": 1.0,
    }
