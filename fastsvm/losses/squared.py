"""The squared error, for least squares by gradient descent."""

from typing import NamedTuple

from fastsvm.losses.interface import loss_slope, loss_value, register_loss


@register_loss("squared_error", of="numbers", curvature=1.0, bounded=False)
class Squared(NamedTuple):
    """½ (f - y)²."""


@loss_value.register(Squared)
def _value(loss, score, target):
    return 0.5 * (score - target) ** 2


@loss_slope.register(Squared)
def _slope(loss, score, target):
    return score - target
