"""Losses of a score and a label ±1: the hinge losses, the modified Huber loss and the logistic loss."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from fastsvm._compiled.scalars import exp
from fastsvm.losses.interface import (
    MOST_STEPS,
    ROUNDINGS,
    box,
    conjugate,
    conjugate_curvature,
    coordinate_update,
    loss_curvature,
    loss_slope,
    loss_value,
    probabilities,
    projected_gradient,
    register_loss,
)

_ENOUGH = float(np.sqrt(np.finfo(np.float64).eps))  # The error after a last step of this length is its square.
_LARGE = float(-np.log(np.finfo(np.float64).tiny))  # With such a score e^-f does not matter.
# Variables with logits between these are not rounded to 0 or to c in float32.
_LEAST_LOGIT = float(np.log(np.finfo(np.float32).tiny))
_LARGEST_LOGIT = float(-np.log(ROUNDINGS * np.finfo(np.float32).eps))


@register_loss("perceptron", of="labels", curvature=np.inf, bounded=True, margin=0.0)
@register_loss("hinge", of="labels", curvature=np.inf, bounded=True)
class Hinge(NamedTuple):
    """The loss of support vector machines, max(0, margin - y f); with margin 0, that of the perceptron."""

    margin: float = 1.0


@loss_value.register(Hinge)
def _hinge_value(loss, score, target):
    return max(0.0, loss.margin - target * score)


@loss_slope.register(Hinge)
def _hinge_slope(loss, score, target):
    return -target if target * score <= loss.margin else 0.0


@coordinate_update.register(Hinge)
def _hinge_update(loss, dual, score, target, cost, curvature):
    return target * min(max(target * dual - (target * score - loss.margin) / curvature, 0.0), cost)


@conjugate.register(Hinge)
def _hinge_conjugate(loss, dual, target, cost):
    return -loss.margin * target * dual


@projected_gradient.register(Hinge)
def _hinge_projected_gradient(loss, dual, score, target, cost):
    slope, alpha = target * score - loss.margin, target * dual
    return 0.0 if (slope > 0 and alpha <= 0) or (slope < 0 and alpha >= cost) else abs(slope)


@box.register(Hinge)
def _hinge_box(loss, cost):
    return cost, 0.0


@register_loss("squared_hinge", of="labels", curvature=2.0, bounded=False)
class SquaredHinge(NamedTuple):
    """max(0, 1 - y f)²."""


@loss_value.register(SquaredHinge)
def _squared_hinge_value(loss, score, target):
    return max(0.0, 1.0 - target * score) ** 2


@loss_slope.register(SquaredHinge)
def _squared_hinge_slope(loss, score, target):
    return -2.0 * target * max(0.0, 1.0 - target * score)


@loss_curvature.register(SquaredHinge)
def _squared_hinge_curvature(loss, score, target):
    return 2.0 if target * score < 1.0 else 0.0


@coordinate_update.register(SquaredHinge)
def _squared_hinge_update(loss, dual, score, target, cost, curvature):
    ridge = 0.5 / cost
    return target * max(target * dual - (target * score - 1.0 + ridge * target * dual) / (curvature + ridge), 0.0)


@conjugate.register(SquaredHinge)
def _squared_hinge_conjugate(loss, dual, target, cost):
    return -target * dual + 0.25 * dual * dual / cost


@projected_gradient.register(SquaredHinge)
def _squared_hinge_projected_gradient(loss, dual, score, target, cost):
    alpha = target * dual
    slope = target * score - 1.0 + 0.5 * alpha / cost
    return 0.0 if slope > 0 and alpha <= 0 else abs(slope)


@box.register(SquaredHinge)
def _squared_hinge_box(loss, cost):
    return np.inf, 0.5 / cost


@register_loss("modified_huber", of="labels", curvature=2.0, bounded=True)
class ModifiedHuber(NamedTuple):
    """max(0, 1 - y f)² where y f ≥ -1, else -4 y f (Zhang 2004, Solving large scale linear prediction problems)."""


@loss_value.register(ModifiedHuber)
def _modified_huber_value(loss, score, target):
    margin = target * score
    return max(0.0, 1.0 - margin) ** 2 if margin >= -1.0 else -4.0 * margin


@loss_slope.register(ModifiedHuber)
def _modified_huber_slope(loss, score, target):
    margin = target * score
    return -2.0 * target * max(0.0, 1.0 - margin) if margin >= -1.0 else -4.0 * target


@probabilities.register(ModifiedHuber)
def _modified_huber_probabilities(loss, scores):
    return (np.clip(scores, -1, 1) + 1) / 2


@register_loss("log_loss", of="labels", curvature=0.25, bounded=True)
class Log(NamedTuple):
    """log(1 + exp(-y f)), whose conjugate is an entropy.

    In the dual, a coordinate has no closed form, and Newton's method finds it (Yu, Huang and Lin 2011, Dual coordinate
    descent methods for logistic regression and maximum entropy models, section 2), here in the logit of the variable:
    the function is then between two straight lines, so that steps are short.
    """


@loss_value.register(Log)
def _log_value(loss, score, target):
    margin = target * score
    return max(0.0, -margin) + np.log1p(np.exp(-abs(margin)))


@loss_slope.register(Log)
def _log_slope(loss, score, target):
    margin = target * score
    small = exp(-abs(margin)) if abs(margin) < _LARGE else 0.0  # `exp` ends above 0
    return -target * (small if margin > 0 else 1.0) / (1.0 + small)


@loss_curvature.register(Log)
def _log_curvature(loss, score, target):
    small = exp(-abs(score)) if abs(score) < _LARGE else 0.0
    return small / (1.0 + small) ** 2


@coordinate_update.register(Log)
def _log_update(loss, dual, score, target, cost, curvature):
    # With y β = c σ(u), what must be 0 is u + y f + q (c σ(u) - y β⁰).
    margin, alpha = target * score, target * dual
    logit, low, high = -margin, -margin - curvature * (cost - alpha), -margin + curvature * alpha
    last = np.inf
    for _ in range(MOST_STEPS):
        small = np.exp(-abs(logit))
        share = (1.0 if logit > 0 else small) / (1.0 + small)
        excess = logit + margin + curvature * (cost * share - alpha)
        if excess > 0:
            high = min(high, logit)
        else:
            low = max(low, logit)
        step = excess / (1.0 + curvature * cost * small / (1.0 + small) ** 2)
        if abs(step) <= _ENOUGH * (1.0 + abs(logit)):
            logit -= step
            break
        if low < logit - step < high and abs(step) <= last / 2:
            last = abs(step)
            logit -= step
        else:  # steps go back and forth between the two lines; from where these meet, they approach the root
            last = high - low
            logit = 0.0 if low < 0.0 < high else (low + high) / 2
    small = np.exp(-abs(logit))
    return target * cost * (1.0 if logit > 0 else small) / (1.0 + small)


@conjugate.register(Log)
def _log_conjugate(loss, dual, target, cost):
    share = min(max(target * dual / cost, 0.0), 1.0)
    total = share * np.log(share) if share > 0 else 0.0
    return cost * (total + ((1.0 - share) * np.log1p(-share) if share < 1 else 0.0))


@projected_gradient.register(Log)
def _log_projected_gradient(loss, dual, score, target, cost):
    share, margin = target * dual / cost, target * score
    if share <= 0:
        return max(0.0, -_LEAST_LOGIT - margin)
    if share >= 1:
        return max(0.0, _LARGEST_LOGIT + margin)
    return abs(np.log(share) - np.log1p(-share) + margin)


@box.register(Log)
def _log_box(loss, cost):
    return cost, 4.0 / cost


@conjugate_curvature.register(Log)
def _log_conjugate_curvature(loss, dual, cost):
    share = abs(dual) / cost
    return 1.0 / (cost * max(share * (1.0 - share), 1e-300))


@probabilities.register(Log)
def _log_probabilities(loss, scores):
    return expit(scores)
