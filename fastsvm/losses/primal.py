"""Losses of linear scores: each a NamedTuple of its parameters, its value and gradient, and a line of `LOSSES`.

A loss is a function of one score and a target, which is a label ±1 or a real number, or of the scores of all classes
and the number of the right one. With a loss of labels ±1, several classes are learnt one against the rest.
To add a loss, write its class, register its functions, and add it to the table.
"""

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.generic import generic

__all__ = [
    "CLASSIFICATION",
    "LOSSES",
    "REGRESSION",
    "CrammerSinger",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Log",
    "Loss",
    "ModifiedHuber",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "WestonWatkins",
    "add_losses",
    "loss_of_classes",
    "loss_slope",
    "loss_value",
]


class Loss(Protocol):
    """What the rest of the package asks of a loss."""

    of_classes: ClassVar[bool]
    """Whether it is a function of the scores of all classes."""
    curvature: ClassVar[float]
    """The largest second derivative, infinite at a kink."""
    bounded: ClassVar[bool]
    """Whether slopes are."""


@generic
def loss_value(loss: Loss, score: float, target: float) -> float:
    """Return the loss of a score."""


@generic
def loss_slope(loss: Loss, score: float, target: float) -> float:
    """Return a (sub)derivative of the loss by the score."""


@generic
def loss_of_classes(loss: Loss, scores: np.ndarray, label: int, gradient: np.ndarray) -> float:
    """Return the loss of the scores of all classes and write a (sub)gradient."""


@generic
def add_losses(
    loss: Loss,
    scores: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    balance: np.ndarray,
    gradient: np.ndarray,
) -> float:
    """Return the weighted sum of the losses of some rows and write its (sub)gradient.

    Parameters
    ----------
    loss : Loss
        Which.
    scores : ndarray of shape (n_rows, n_scores)
        Scores; several are those of classes.
    targets : ndarray of float64, shape (n_rows,)
        Numbers of classes if there are several scores or the loss is one of classes; else ±1 or real numbers.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows.
    balance : ndarray of float64, shape (n_scores,)
        One against the rest, factors of the weights of the rows of each class in its own score.
    gradient : ndarray of shape (n_rows, n_scores)
        Where to write.
    """


def _each_score(loss, scores, targets, weights, balance, gradient):
    n, k = scores.shape
    total = 0.0
    for i in range(n):
        for c in range(k):
            target, weight = targets[i], weights[i]
            if k > 1:
                target = 1.0 if target == c else -1.0
                weight *= balance[c] if target > 0 else 1.0
            total += weight * loss_value(loss, scores[i, c], target)
            gradient[i, c] = weight * loss_slope(loss, scores[i, c], target)
    return total


def _all_scores(loss, scores, targets, weights, balance, gradient):
    n, k = scores.shape
    total = 0.0
    for i in range(n):
        weight = weights[i]
        total += weight * loss_of_classes(loss, scores[i], int(targets[i]), gradient[i])
        for c in range(k):
            gradient[i, c] *= weight
    return total


# --- of a label ±1 ---------------------------------------------------------------------------------------


class Hinge(NamedTuple):
    """max(0, margin - y f); with margin 0 it is the perceptron's."""

    margin: float = 1.0
    of_classes = False
    curvature, bounded = np.inf, True


@loss_value.register(Hinge)
def _hinge(loss, score, target):
    return max(0.0, loss.margin - target * score)


@loss_slope.register(Hinge)
def _hinge_slope(loss, score, target):
    return -target if target * score <= loss.margin else 0.0


class SquaredHinge(NamedTuple):
    """max(0, 1 - y f)²."""

    of_classes = False
    curvature, bounded = 2.0, False


@loss_value.register(SquaredHinge)
def _squared_hinge(loss, score, target):
    return max(0.0, 1.0 - target * score) ** 2


@loss_slope.register(SquaredHinge)
def _squared_hinge_slope(loss, score, target):
    return -2.0 * target * max(0.0, 1.0 - target * score)


class Log(NamedTuple):
    """log(1 + exp(-y f))."""

    of_classes = False
    curvature, bounded = 0.25, True


@loss_value.register(Log)
def _log(loss, score, target):
    margin = target * score
    return max(0.0, -margin) + np.log1p(np.exp(-abs(margin)))


@loss_slope.register(Log)
def _log_slope(loss, score, target):
    margin = target * score
    small = np.exp(-abs(margin))
    return -target * (small if margin > 0 else 1.0) / (1.0 + small)


class ModifiedHuber(NamedTuple):
    """max(0, 1 - y f)² where y f ≥ -1, else -4 y f (Zhang 2004)."""

    of_classes = False
    curvature, bounded = 2.0, True


@loss_value.register(ModifiedHuber)
def _modified_huber(loss, score, target):
    margin = target * score
    return max(0.0, 1.0 - margin) ** 2 if margin >= -1.0 else -4.0 * margin


@loss_slope.register(ModifiedHuber)
def _modified_huber_slope(loss, score, target):
    margin = target * score
    return -2.0 * target * max(0.0, 1.0 - margin) if margin >= -1.0 else -4.0 * target


# --- of a real number ------------------------------------------------------------------------------------


class Squared(NamedTuple):
    """½ (f - y)²."""

    of_classes = False
    curvature, bounded = 1.0, False


@loss_value.register(Squared)
def _squared(loss, score, target):
    return 0.5 * (score - target) ** 2


@loss_slope.register(Squared)
def _squared_slope(loss, score, target):
    return score - target


class Huber(NamedTuple):
    """½ r² where |r| = |f - y| ≤ epsilon, else epsilon |r| - ½ epsilon²."""

    epsilon: float = 0.1
    of_classes = False
    curvature, bounded = 1.0, True


@loss_value.register(Huber)
def _huber(loss, score, target):
    distance = abs(score - target)
    return 0.5 * distance**2 if distance <= loss.epsilon else loss.epsilon * (distance - 0.5 * loss.epsilon)


@loss_slope.register(Huber)
def _huber_slope(loss, score, target):
    return min(max(score - target, -loss.epsilon), loss.epsilon)


class EpsilonInsensitive(NamedTuple):
    """max(0, |f - y| - epsilon)."""

    epsilon: float = 0.1
    of_classes = False
    curvature, bounded = np.inf, True


@loss_value.register(EpsilonInsensitive)
def _epsilon_insensitive(loss, score, target):
    return max(0.0, abs(score - target) - loss.epsilon)


@loss_slope.register(EpsilonInsensitive)
def _epsilon_insensitive_slope(loss, score, target):
    if score > target + loss.epsilon:
        return 1.0
    return -1.0 if score < target - loss.epsilon else 0.0


class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |f - y| - epsilon)²."""

    epsilon: float = 0.1
    of_classes = False
    curvature, bounded = 2.0, False


@loss_value.register(SquaredEpsilonInsensitive)
def _squared_epsilon_insensitive(loss, score, target):
    return max(0.0, abs(score - target) - loss.epsilon) ** 2


@loss_slope.register(SquaredEpsilonInsensitive)
def _squared_epsilon_insensitive_slope(loss, score, target):
    excess = 2.0 * max(0.0, abs(score - target) - loss.epsilon)
    return excess if score > target else -excess


# --- of the scores of all classes ------------------------------------------------------------------------


class WestonWatkins(NamedTuple):
    """Σ max(0, s_j - s_y + margin) over the classes j other than y (Weston and Watkins 1999)."""

    margin: float = 1.0
    of_classes = True
    curvature, bounded = np.inf, True


@loss_of_classes.register(WestonWatkins)
def _weston_watkins(loss, scores, label, gradient):
    total, count = 0.0, 0
    for c in range(scores.size):
        excess = scores[c] - scores[label] + loss.margin
        violated = c != label and excess > 0
        gradient[c] = 1.0 if violated else 0.0
        total += excess if violated else 0.0
        count += violated
    gradient[label] = -count
    return total


class CrammerSinger(NamedTuple):
    """max(0, s_j - s_y + margin) for the best class j other than y (Crammer and Singer 2001)."""

    margin: float = 1.0
    of_classes = True
    curvature, bounded = np.inf, True


@loss_of_classes.register(CrammerSinger)
def _crammer_singer(loss, scores, label, gradient):
    best = 1 if label == 0 else 0
    for c in range(scores.size):
        gradient[c] = 0.0
        if c != label and scores[c] > scores[best]:
            best = c
    excess = scores[best] - scores[label] + loss.margin
    if excess <= 0:
        return 0.0
    gradient[best], gradient[label] = 1.0, -1.0
    return excess


class Softmax(NamedTuple):
    """log Σ exp(s_j) - s_y."""

    of_classes = True
    curvature, bounded = 0.5, True


@loss_of_classes.register(Softmax)
def _softmax(loss, scores, label, gradient):
    highest = scores[0]
    for c in range(scores.size):
        highest = max(highest, scores[c])
    total = 0.0
    for c in range(scores.size):
        gradient[c] = np.exp(scores[c] - highest)
        total += gradient[c]
    for c in range(scores.size):
        gradient[c] /= total
    gradient[label] -= 1.0
    return np.log(total) + highest - scores[label]


for _kind in (
    Hinge, SquaredHinge, Log, ModifiedHuber, Squared, Huber, EpsilonInsensitive, SquaredEpsilonInsensitive
):  # fmt: skip
    add_losses.register(_kind)(_each_score)
for _kind in (WestonWatkins, CrammerSinger, Softmax):
    add_losses.register(_kind)(_all_scores)

REGRESSION: dict[str, Any] = {
    "squared_error": Squared,
    "huber": Huber,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}
"""Losses of a real number by name."""

CLASSIFICATION: dict[str, Any] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "log_loss": Log,
    "modified_huber": ModifiedHuber,
    "perceptron": Hinge,
    "weston_watkins": WestonWatkins,
    "crammer_singer": CrammerSinger,
    "softmax": Softmax,
}
"""Losses of a class by name."""

LOSSES = CLASSIFICATION | REGRESSION
"""All losses by name."""
