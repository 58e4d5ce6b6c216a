"""Are predictions right, and are bounds of the exact problem what they are said to be?

Imports nothing of fastsvm. The exact problem has the kernel K + 1, because the intercept is the weight of a constant
feature 1, which is penalised. The objective of a machine with landmarks is an upper bound of its minimum. It is
computed here in float64. The dual problem is solved, too, by L-BFGS-B (Byrd, Lu, Nocedal and Zhu 1995); its objective
is a lower bound of the minimum whatever the solver returns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from bench.harness.data import Data
from bench.harness.suite import Findings, Stored
from bench.millions.parameters import MillionsParameters

__all__ = ["exact_optimum", "judge", "primal_objective"]

_ROWS = 4_096


def judge(parameters: MillionsParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Return accuracy on the test samples and objective of the exact problem, for each point of each competitor.

    Objectives are None where no bounds are claimed. If some are, those of the exact minimum are added.
    """
    exact = exact_optimum(parameters, data) if gap and any("bounds 0" in one for one in stored) else None
    return [
        {"exact": exact, "points": [_point(parameters, data, one, gap) for one in _points(each)]} for each in stored
    ]


def _points(stored: Stored) -> list[dict[str, np.ndarray]]:
    found: dict[int, dict[str, np.ndarray]] = {}
    for key, value in stored.items():
        name, _, number = key.rpartition(" ")
        found.setdefault(int(number), {})[name] = value
    return [found[k] for k in sorted(found)]


def _point(parameters: MillionsParameters, data: Data, point: dict[str, np.ndarray], gap: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"accuracy": float(np.mean(point["predicted"] == data.y_test)), "objective": None}
    if "bounds" in point:
        lower, upper = map(float, point["bounds"])
        found |= {"lower": lower, "upper": upper}
        if gap:
            machine = point["landmarks"], point["coef"], point["intercept"]
            found["objective"] = primal_objective(parameters, data, machine)
    return found


def primal_objective(parameters: MillionsParameters, data: Data, machine: tuple[np.ndarray, ...]) -> float:
    """Return ½ (cᵀ K c + b²) + C Σ hinge, summed over the classes one against the rest, of two classes for one."""
    landmarks, coef, intercept = machine
    total = 0.5 * float(np.sum((coef @ _kernel(landmarks, landmarks, parameters.gamma)) * coef) + intercept @ intercept)
    signs = _signs(data.y)
    for a in range(0, len(data.y), _ROWS):
        scores = _kernel(data.X[a : a + _ROWS], landmarks, parameters.gamma) @ coef.T + intercept
        total += parameters.C * float(np.maximum(0, 1 - signs[a : a + _ROWS] * scores).sum())
    return total


def exact_optimum(parameters: MillionsParameters, data: Data) -> tuple[float, float]:
    """Return a lower and an upper bound of the minimum of the exact problem, summed like the objective."""
    kernel = _kernel(data.X[:], data.X[:], parameters.gamma) + 1
    found = np.zeros(2)
    for y in _signs(data.y).T:
        square = y[:, None] * kernel * y

        def negative_dual(alpha: np.ndarray, square: np.ndarray = square) -> tuple[float, np.ndarray]:
            product = square @ alpha
            return 0.5 * float(alpha @ product) - float(alpha.sum()), product - 1

        bounds = [(0.0, parameters.C)] * len(y)
        alpha = minimize(
            negative_dual, np.zeros(len(y)), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 20_000}
        ).x
        product = square @ alpha
        penalty, losses = 0.5 * float(alpha @ product), parameters.C * float(np.maximum(0, 1 - product).sum())
        found += float(alpha.sum()) - penalty, penalty + losses
    return float(found[0]), float(found[1])


def _signs(y: np.ndarray) -> np.ndarray:
    """Return ±1 for each score: of two classes, the second against the first."""
    classes = np.unique(y)
    if len(classes) == 2:
        classes = classes[1:]
    return np.where(y[:, None] == classes, 1.0, -1.0)


def _kernel(A: np.ndarray, B: np.ndarray, gamma: float) -> np.ndarray:
    return np.exp(-gamma * cdist(np.asarray(A, float), np.asarray(B, float), "sqeuclidean"))
