"""The epsilon-insensitive loss of support vector regression."""

from typing import NamedTuple

import numpy as np

from fastsvm.losses.interface import (
    box,
    conjugate,
    coordinate_update,
    loss_slope,
    loss_value,
    projected_gradient,
    register_loss,
)


@register_loss("epsilon_insensitive", of="numbers", curvature=np.inf, bounded=True)
class EpsilonInsensitive(NamedTuple):
    """max(0, |f - y| - epsilon)."""

    epsilon: float = 0.1


@loss_value.register(EpsilonInsensitive)
def _value(loss, score, target):
    return max(0.0, abs(score - target) - loss.epsilon)


@loss_slope.register(EpsilonInsensitive)
def _slope(loss, score, target):
    if score > target + loss.epsilon:
        return 1.0
    return -1.0 if score < target - loss.epsilon else 0.0


@coordinate_update.register(EpsilonInsensitive)
def _update(loss, dual, score, target, cost, curvature):
    free = dual - (score - target) / curvature
    size = min(max(abs(free) - loss.epsilon / curvature, 0.0), cost)
    return size if free > 0 else -size


@conjugate.register(EpsilonInsensitive)
def _conjugate(loss, dual, target, cost):
    return loss.epsilon * abs(dual) - target * dual


@projected_gradient.register(EpsilonInsensitive)
def _projected_gradient(loss, dual, score, target, cost):
    slope = score - target
    if dual == 0:
        return max(0.0, abs(slope) - loss.epsilon)
    outward = slope * (1.0 if dual > 0 else -1.0) + loss.epsilon  # with the sign of β, which may not grow beyond c
    return 0.0 if abs(dual) >= cost and outward < 0 else abs(outward)


@box.register(EpsilonInsensitive)
def _box(loss, cost):
    return cost, 0.0
