"""An independent judge of linear models: objectives from weights alone, in extended precision."""

from typing import Any, NamedTuple

import numpy as np
from fuzz.certificates import LONG, U, long

__all__ = ["OF_CLASSES", "LinearVerdict", "descent_objective", "judge_linear", "linear_scores"]


class LinearVerdict(NamedTuple):
    """The objective of weights, of each problem, and a bound on its rounding."""

    objective: float
    error: float


def _sign_losses(name: str, scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses of scores of labels ±1, and the greatest slope there."""
    z = y * scores
    one = np.ones_like(z)
    if name == "hinge":
        return np.maximum(0, 1 - z), one
    if name == "perceptron":
        return np.maximum(0, -z), one
    if name == "squared_hinge":
        return np.maximum(0, 1 - z) ** 2, 2 * np.maximum(0, 1 - z)
    if name == "log_loss":
        return np.logaddexp(LONG(0), -z), one
    if name == "modified_huber":
        return np.where(z < -1, -4 * z, np.maximum(0, 1 - z) ** 2), np.minimum(4, 2 * np.maximum(0, 1 - z))
    raise KeyError(name)


def _real_losses(name: str, scores: np.ndarray, y: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    r = np.abs(scores - y)
    beyond = np.maximum(0, r - epsilon)
    if name == "squared_error":
        return r**2 / 2, r
    if name == "huber":
        return np.where(r <= epsilon, r**2 / 2, epsilon * (r - epsilon / 2)), np.minimum(r, epsilon)
    if name == "epsilon_insensitive":
        return beyond, np.ones_like(r)
    return beyond**2, 2 * beyond


def _class_losses(name: str, scores: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, k = scores.shape
    own = scores[np.arange(n), codes]
    if name == "softmax":
        most = scores.max(axis=1)
        return np.log(np.exp(scores - most[:, None]).sum(axis=1)) + most - own, np.full(n, 2.0)
    excess = scores - own[:, None] + 1
    excess[np.arange(n), codes] = 0
    excess = np.maximum(0, excess)
    if name == "crammer_singer":
        return excess.max(axis=1), np.full(n, 2.0)
    return excess.sum(axis=1), np.full(n, 2.0 * k)


OF_CLASSES = ("softmax", "weston_watkins", "crammer_singer")


def linear_scores(
    coef: np.ndarray, intercept: np.ndarray, X: np.ndarray, u: float = U
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of rows and a bound on their error if they are computed with the unit roundoff u."""
    W, b = np.atleast_2d(coef), np.atleast_1d(intercept)
    with np.errstate(over="ignore", invalid="ignore"):
        found = long(X) @ long(W).T + b
        # Two units more: of the weights and the offset, when they are brought to the type of products.
        return found, (X.shape[1] + 4) * u * (np.abs(X) @ np.abs(W).T + np.abs(b))


def _sum_of_losses(
    name: str, found: tuple[np.ndarray, np.ndarray], targets: np.ndarray, costs: np.ndarray, epsilon: float
) -> tuple[float, float]:
    """Return Σ c loss, and a bound: `costs` has a column for each score, or one for all."""
    scores, errors = found
    n = len(scores)
    with np.errstate(over="ignore", invalid="ignore"):
        if name in OF_CLASSES:
            losses, slope = _class_losses(name, scores, targets)
            error = slope * errors.max(axis=1)
            return float(costs @ losses), float(costs @ error) + (n + 6) * U * float(costs @ losses)
        real = name in ("squared_error", "huber") or "epsilon" in name
        losses, slope = _real_losses(name, scores, targets, epsilon) if real else _sign_losses(name, scores, targets)
        error = slope * errors + errors**2 + 6 * U * (np.abs(scores) + np.abs(targets) + 1) * slope
        total = float((long(costs) * losses).sum())
        return total, float((costs * error).sum()) + (n + 6) * U * total


def judge_linear(
    model: Any, name: str, X: np.ndarray, targets: np.ndarray, costs: np.ndarray, epsilon: float = 0.0
) -> LinearVerdict:
    """Return ½ ‖w‖² + Σ c loss of a fitted LinearSVC or LinearSVR, or scikit-learn's.

    `targets` and `costs` are as in `_sum_of_losses`. The offset is penalised as the weight of a constant feature.
    """
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if name in OF_CLASSES and len(W) == 1:  # the difference of two, shown as one: the halves are the shortest such
        W, b = np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    constant = long(b) / model.intercept_scaling if model.fit_intercept else np.zeros(1)
    total, error = _sum_of_losses(name, linear_scores(W, b, X), targets, costs, epsilon)
    penalty = float((long(W) ** 2).sum() + (constant**2).sum()) / 2
    return LinearVerdict(penalty + total, error + (X.shape[1] + 6) * U * penalty)


def descent_objective(
    model: Any, name: str, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, total: float
) -> LinearVerdict:
    """Return the mean loss + alpha R(w) of a fitted SGDClassifier or SGDRegressor."""
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if name in OF_CLASSES and len(W) == 1:
        W, b = np.vstack([-W / 2, W / 2]), np.concatenate([-b / 2, b / 2])
    loss, error = _sum_of_losses(name, linear_scores(W, b, X), targets, weights, model.epsilon)
    share = {"l2": 0.0, "l1": 1.0, "elasticnet": model.l1_ratio, None: 0.0}[model.penalty]
    alpha = 0.0 if model.penalty is None else model.alpha
    penalty = alpha * ((1 - share) * float((long(W) ** 2).sum()) / 2 + share * float(np.abs(long(W)).sum()))
    return LinearVerdict(loss / total + penalty, error / total + (W.size + 6) * U * penalty)
