"""The Huber loss: squared near the target, linear far from it."""

from typing import NamedTuple

from fastsvm.losses.interface import loss_slope, loss_value, register_loss


@register_loss("huber", of="numbers", curvature=1.0, bounded=True)
class Huber(NamedTuple):
    """½ r² where |r| = |f - y| ≤ epsilon, else epsilon |r| - ½ epsilon²."""

    epsilon: float = 0.1


@loss_value.register(Huber)
def _value(loss, score, target):
    distance = abs(score - target)
    return 0.5 * distance**2 if distance <= loss.epsilon else loss.epsilon * (distance - 0.5 * loss.epsilon)


@loss_slope.register(Huber)
def _slope(loss, score, target):
    return min(max(score - target, -loss.epsilon), loss.epsilon)
