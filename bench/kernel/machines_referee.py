"""How good is an answer of SVR, OneClassSVM, NuSVR or NuSVC? Objectives and constraints from the data alone.

With the kernel matrix K, the weights c of the samples (times C, for regression), their sum S, and coefficients β:

    svr        maximise zᵀβ - ε ‖β‖₁ - ½ βᵀKβ   with |β| <= c, Σβ = 0
    nu-svr     maximise zᵀβ - ½ βᵀKβ            with |β| <= c, Σβ = 0, ‖β‖₁ <= ν S
    one-class  maximise -½ βᵀKβ                  with 0 <= β <= c, Σβ = ν S
    nu-svc     maximise -½ βᵀKβ                  with 0 <= yβ <= c, Σβ = 0, ‖β‖₁ = ν S

The answer of a ν-classifier is divided by its margin r, which follows from ‖β‖₁. The primal objectives take the
answer's own intercept, and of the half width of the tube the best. Everything is in float64 and by NumPy.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Finding", "examine_machine"]


class Finding(NamedTuple):
    """What the referee found.

    Attributes
    ----------
    objective : float
        Dual objective.
    gap : float
        Primal less dual objective.
    violation : float
        Largest violation of a constraint.
    sums : ndarray of float64, shape (n,)
        Kβ: decision values without the intercept, in the units of the problem.
    """

    objective: float
    gap: float
    violation: float
    sums: np.ndarray


def examine_machine(
    machine: str, K: np.ndarray, y: np.ndarray, c: np.ndarray, beta: np.ndarray, intercept: float, **given: float
) -> Finding:
    """Judge an answer.

    Parameters
    ----------
    machine : {"svr", "nu-svr", "one-class", "nu-svc"}
        Which problem.
    K : ndarray of float64, shape (n, n)
        Kernel matrix.
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
        beta, intercept = beta * margin, intercept * margin
    sums = K @ beta
    square, scores = float(beta @ sums), sums + intercept
    size, balance = float(np.abs(beta).sum()), abs(float(beta.sum()))
    outside = float(np.maximum(np.abs(beta) - c, 0).max())
    if machine == "svr":
        dual = float(y @ beta) - given["epsilon"] * size - square / 2
        primal = square / 2 + float(c @ np.maximum(0, np.abs(y - scores) - given["epsilon"]))
        return Finding(dual, primal - dual, max(outside, balance), sums)
    if machine == "nu-svr":
        dual = float(y @ beta) - square / 2
        away = np.abs(y - scores)
        tubes = np.append(away, 0.0)  # the best half width is one of these: the loss is piecewise linear in it
        primal = min(square / 2 + total * e + float(c @ np.maximum(0, away - e)) for e in tubes)
        return Finding(dual, primal - dual, max(outside, balance, size - total), sums)
    if machine == "one-class":
        primal = square / 2 + intercept * total + float(c @ np.maximum(0, -scores))
        return Finding(-square / 2, primal + square / 2, max(outside, float(-beta.min()), abs(size - total)), sums)
    primal = square / 2 - margin * total + float(c @ np.maximum(0, margin - y * scores))
    return Finding(-square / 2, primal + square / 2, max(outside, balance, float(np.max(-y * beta))), sums)
