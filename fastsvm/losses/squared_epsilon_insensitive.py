"""The squared epsilon-insensitive loss of support vector regression."""

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


@register_loss("squared_epsilon_insensitive", of="numbers", curvature=2.0, bounded=False)
class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |f - y| - epsilon)²."""

    epsilon: float = 0.1


@loss_value.register(SquaredEpsilonInsensitive)
def _value(loss, score, target):
    return max(0.0, abs(score - target) - loss.epsilon) ** 2


@loss_slope.register(SquaredEpsilonInsensitive)
def _slope(loss, score, target):
    excess = 2.0 * max(0.0, abs(score - target) - loss.epsilon)
    return excess if score > target else -excess


@coordinate_update.register(SquaredEpsilonInsensitive)
def _update(loss, dual, score, target, cost, curvature):
    free = curvature * dual - (score - target)
    size = max(abs(free) - loss.epsilon, 0.0) / (curvature + 0.5 / cost)
    return size if free > 0 else -size


@conjugate.register(SquaredEpsilonInsensitive)
def _conjugate(loss, dual, target, cost):
    return loss.epsilon * abs(dual) - target * dual + 0.25 * dual * dual / cost


@projected_gradient.register(SquaredEpsilonInsensitive)
def _projected_gradient(loss, dual, score, target, cost):
    slope = score - target + 0.5 * dual / cost
    if dual == 0:
        return max(0.0, abs(slope) - loss.epsilon)
    return abs(slope * (1.0 if dual > 0 else -1.0) + loss.epsilon)


@box.register(SquaredEpsilonInsensitive)
def _box(loss, cost):
    return np.inf, 0.5 / cost
