"""The hinge loss of support vector machines; with margin 0, the loss of the perceptron."""

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


@register_loss("perceptron", of="labels", curvature=np.inf, bounded=True, margin=0.0)
@register_loss("hinge", of="labels", curvature=np.inf, bounded=True)
class Hinge(NamedTuple):
    """max(0, margin - y f)."""

    margin: float = 1.0


@loss_value.register(Hinge)
def _value(loss, score, target):
    return max(0.0, loss.margin - target * score)


@loss_slope.register(Hinge)
def _slope(loss, score, target):
    return -target if target * score <= loss.margin else 0.0


@coordinate_update.register(Hinge)
def _update(loss, dual, score, target, cost, curvature):
    return target * min(max(target * dual - (target * score - loss.margin) / curvature, 0.0), cost)


@conjugate.register(Hinge)
def _conjugate(loss, dual, target, cost):
    return -loss.margin * target * dual


@projected_gradient.register(Hinge)
def _projected_gradient(loss, dual, score, target, cost):
    slope, alpha = target * score - loss.margin, target * dual
    return 0.0 if (slope > 0 and alpha <= 0) or (slope < 0 and alpha >= cost) else abs(slope)


@box.register(Hinge)
def _box(loss, cost):
    return cost, 0.0
