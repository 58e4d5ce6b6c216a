"""The cross-entropy of the softmax, for multinomial logistic regression by gradient descent."""

from typing import NamedTuple

import numpy as np
from scipy import special

from fastsvm.losses.interface import loss_of_classes, probabilities, register_loss


@register_loss("softmax", of="classes", curvature=0.5, bounded=True)
class Softmax(NamedTuple):
    """log Σ exp(s_j) - s_y."""


@loss_of_classes.register(Softmax)
def _value(loss, scores, label, gradient):
    highest = scores[0]
    for c in range(scores.size):
        highest = max(highest, scores[c])
    for c in range(scores.size):
        gradient[c] = np.exp(scores[c] - highest)
    total = 0.0
    for c in range(scores.size):
        total += gradient[c]
    for c in range(scores.size):
        gradient[c] /= total
    gradient[label] -= 1.0
    return np.log(total) + highest - scores[label]


@probabilities.register(Softmax)
def _probabilities(loss, scores):
    return special.softmax(scores, axis=1) if scores.shape[1] > 1 else special.expit(scores)  # one is a difference
