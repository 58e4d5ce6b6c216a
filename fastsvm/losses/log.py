"""The logistic loss, for logistic regression by gradient descent."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from fastsvm.losses.interface import loss_slope, loss_value, probabilities
from fastsvm.losses.registry import register_loss

__all__ = ["Log"]


@register_loss("log_loss", of="labels", curvature=0.25, bounded=True)
class Log(NamedTuple):
    """log(1 + exp(-y f))."""


@loss_value.register(Log)
def _value(loss, score, target):
    margin = target * score
    return max(0.0, -margin) + np.log1p(np.exp(-abs(margin)))


@loss_slope.register(Log)
def _slope(loss, score, target):
    margin = target * score
    small = np.exp(-abs(margin))
    return -target * (small if margin > 0 else 1.0) / (1.0 + small)


@probabilities.register(Log)
def _probabilities(loss, scores):
    return expit(scores)
