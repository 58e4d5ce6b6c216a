"""The modified Huber loss (Zhang 2004, Solving large scale linear prediction problems, section 2)."""

from typing import NamedTuple

import numpy as np

from fastsvm.losses.interface import loss_slope, loss_value, probabilities, register_loss


@register_loss("modified_huber", of="labels", curvature=2.0, bounded=True)
class ModifiedHuber(NamedTuple):
    """max(0, 1 - y f)² where y f ≥ -1, else -4 y f."""


@loss_value.register(ModifiedHuber)
def _value(loss, score, target):
    margin = target * score
    return max(0.0, 1.0 - margin) ** 2 if margin >= -1.0 else -4.0 * margin


@loss_slope.register(ModifiedHuber)
def _slope(loss, score, target):
    margin = target * score
    return -2.0 * target * max(0.0, 1.0 - margin) if margin >= -1.0 else -4.0 * target


@probabilities.register(ModifiedHuber)
def _probabilities(loss, scores):
    return (np.clip(scores, -1, 1) + 1) / 2
