"""The squared hinge, the default of `LinearSVC`."""

from typing import NamedTuple

import numpy as np

from fastsvm.losses.interface import (
    box,
    conjugate,
    coordinate_update,
    loss_curvature,
    loss_slope,
    loss_value,
    projected_gradient,
    register_loss,
)


@register_loss("squared_hinge", of="labels", curvature=2.0, bounded=False)
class SquaredHinge(NamedTuple):
    """max(0, 1 - y f)²."""


@loss_value.register(SquaredHinge)
def _value(loss, score, target):
    return max(0.0, 1.0 - target * score) ** 2


@loss_slope.register(SquaredHinge)
def _slope(loss, score, target):
    return -2.0 * target * max(0.0, 1.0 - target * score)


@loss_curvature.register(SquaredHinge)
def _curvature(loss, score, target):
    return 2.0 if target * score < 1.0 else 0.0


@coordinate_update.register(SquaredHinge)
def _update(loss, dual, score, target, cost, curvature):
    ridge = 0.5 / cost
    return target * max(target * dual - (target * score - 1.0 + ridge * target * dual) / (curvature + ridge), 0.0)


@conjugate.register(SquaredHinge)
def _conjugate(loss, dual, target, cost):
    return -target * dual + 0.25 * dual * dual / cost


@projected_gradient.register(SquaredHinge)
def _projected_gradient(loss, dual, score, target, cost):
    alpha = target * dual
    slope = target * score - 1.0 + 0.5 * alpha / cost
    return 0.0 if slope > 0 and alpha <= 0 else abs(slope)


@box.register(SquaredHinge)
def _box(loss, cost):
    return np.inf, 0.5 / cost
