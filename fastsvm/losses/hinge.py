"""The hinge loss of support vector machines; with margin 0, the loss of the perceptron."""

from typing import NamedTuple

import numpy as np

import fastsvm.losses.interface as interface

__all__ = ["Hinge"]


@interface.register_loss("perceptron", of="labels", curvature=np.inf, bounded=True, margin=0.0)
@interface.register_loss("hinge", of="labels", curvature=np.inf, bounded=True)
class Hinge(NamedTuple):
    """max(0, margin - y f)."""

    margin: float = 1.0


@interface.loss_value.register(Hinge)
def _value(loss, score, target):
    return max(0.0, loss.margin - target * score)


@interface.loss_slope.register(Hinge)
def _slope(loss, score, target):
    return -target if target * score <= loss.margin else 0.0


@interface.coordinate_update.register(Hinge)
def _update(loss, dual, score, target, cost, curvature):
    return target * min(max(target * dual - (target * score - loss.margin) / curvature, 0.0), cost)


@interface.conjugate.register(Hinge)
def _conjugate(loss, dual, target, cost):
    return -loss.margin * target * dual


@interface.projected_gradient.register(Hinge)
def _projected_gradient(loss, dual, score, target, cost):
    slope, alpha = target * score - loss.margin, target * dual
    return 0.0 if (slope > 0 and alpha <= 0) or (slope < 0 and alpha >= cost) else abs(slope)


@interface.box.register(Hinge)
def _box(loss, cost):
    return cost, 0.0


@interface.feasible.register(Hinge)
def _feasible(loss, demands, dual):
    targets, costs = interface.targets_and_costs(demands)
    return targets * np.clip(targets * dual, 0.0, costs)
