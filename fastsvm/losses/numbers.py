"""Losses of a score and a real number, for regression: squared, Huber, and the epsilon-insensitive ones."""

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


@register_loss("squared_error", of="numbers", curvature=1.0, bounded=False)
class Squared(NamedTuple):
    """½ (f - y)²."""


@loss_value.register(Squared)
def _squared_value(loss, score, target):
    return 0.5 * (score - target) ** 2


@loss_slope.register(Squared)
def _squared_slope(loss, score, target):
    return score - target


@register_loss("huber", of="numbers", curvature=1.0, bounded=True)
class Huber(NamedTuple):
    """½ r² where |r| = |f - y| ≤ epsilon, else epsilon |r| - ½ epsilon²."""

    epsilon: float = 0.1


@loss_value.register(Huber)
def _huber_value(loss, score, target):
    distance = abs(score - target)
    return 0.5 * distance**2 if distance <= loss.epsilon else loss.epsilon * (distance - 0.5 * loss.epsilon)


@loss_slope.register(Huber)
def _huber_slope(loss, score, target):
    return min(max(score - target, -loss.epsilon), loss.epsilon)


@register_loss("epsilon_insensitive", of="numbers", curvature=np.inf, bounded=True)
class EpsilonInsensitive(NamedTuple):
    """max(0, |f - y| - epsilon)."""

    epsilon: float = 0.1


@loss_value.register(EpsilonInsensitive)
def _tube_value(loss, score, target):
    return max(0.0, abs(score - target) - loss.epsilon)


@loss_slope.register(EpsilonInsensitive)
def _tube_slope(loss, score, target):
    if score > target + loss.epsilon:
        return 1.0
    return -1.0 if score < target - loss.epsilon else 0.0


@coordinate_update.register(EpsilonInsensitive)
def _tube_update(loss, dual, score, target, cost, curvature):
    free = dual - (score - target) / curvature
    size = min(max(abs(free) - loss.epsilon / curvature, 0.0), cost)
    return size if free > 0 else -size


@conjugate.register(EpsilonInsensitive)
def _tube_conjugate(loss, dual, target, cost):
    return loss.epsilon * abs(dual) - target * dual


@projected_gradient.register(EpsilonInsensitive)
def _tube_projected_gradient(loss, dual, score, target, cost):
    slope = score - target
    if dual == 0:
        return max(0.0, abs(slope) - loss.epsilon)
    outward = slope * (1.0 if dual > 0 else -1.0) + loss.epsilon  # with the sign of β, which may not grow beyond c
    return 0.0 if abs(dual) >= cost and outward < 0 else abs(outward)


@box.register(EpsilonInsensitive)
def _tube_box(loss, cost):
    return cost, 0.0


@register_loss("squared_epsilon_insensitive", of="numbers", curvature=2.0, bounded=False)
class SquaredEpsilonInsensitive(NamedTuple):
    """max(0, |f - y| - epsilon)²."""

    epsilon: float = 0.1


@loss_value.register(SquaredEpsilonInsensitive)
def _squared_tube_value(loss, score, target):
    return max(0.0, abs(score - target) - loss.epsilon) ** 2


@loss_slope.register(SquaredEpsilonInsensitive)
def _squared_tube_slope(loss, score, target):
    excess = 2.0 * max(0.0, abs(score - target) - loss.epsilon)
    return excess if score > target else -excess


@coordinate_update.register(SquaredEpsilonInsensitive)
def _squared_tube_update(loss, dual, score, target, cost, curvature):
    free = curvature * dual - (score - target)
    size = max(abs(free) - loss.epsilon, 0.0) / (curvature + 0.5 / cost)
    return size if free > 0 else -size


@conjugate.register(SquaredEpsilonInsensitive)
def _squared_tube_conjugate(loss, dual, target, cost):
    return loss.epsilon * abs(dual) - target * dual + 0.25 * dual * dual / cost


@projected_gradient.register(SquaredEpsilonInsensitive)
def _squared_tube_projected_gradient(loss, dual, score, target, cost):
    slope = score - target + 0.5 * dual / cost
    if dual == 0:
        return max(0.0, abs(slope) - loss.epsilon)
    return abs(slope * (1.0 if dual > 0 else -1.0) + loss.epsilon)


@box.register(SquaredEpsilonInsensitive)
def _squared_tube_box(loss, cost):
    return np.inf, 0.5 / cost
