"""Learning rate schedules: functions of the step number, registered by name."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BY_FEATURE = "adagrad"
"""The schedule whose rates depend on the gradients and lengths of the features; see `feature_rates`."""

_EARLY = 4  # After one epoch, "auto" is below half of the first rate.


class Schedule(NamedTuple):
    """A learning rate schedule, by its name in `SCHEDULES`, and its parameters.

    `first` is the first rate; if rates are by feature, for features of length 1 and times the number of values in a
    row. `power` is the exponent of the inverse scaling, and `alpha` the factor of the penalty in the objective.
    `steps_per_epoch` is infinite if steps use the exact gradient of a smooth loss.
    """

    name: str
    first: float
    power: float
    alpha: float
    steps_per_epoch: float

    def rates(self, before: int, count: int) -> np.ndarray:
        """Return the learning rates of steps `before` to `before + count - 1`."""
        return SCHEDULES[self.name](self, before + np.arange(count, dtype=np.float64))


Rates = Callable[[Schedule, np.ndarray], np.ndarray]
SCHEDULES: dict[str, Rates] = {}
"""Schedules by name."""


def register_rate(name: str) -> Callable[[Rates], Rates]:
    """Return a decorator that registers a schedule as a value of `learning_rate`.

    A schedule is a function of a `Schedule` and an array of step numbers 0, 1, .... It returns the learning rates of
    these steps. A name that is taken raises ValueError.
    """
    if name in SCHEDULES:
        raise ValueError(f"There is a learning rate {name!r} already: choose another name.")

    def add(rates: Rates) -> Rates:
        SCHEDULES[name] = rates
        return rates

    return add


@register_rate("auto")
def _auto(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    # About the smaller of 1/√t, the rate for convex losses, and 1/(αt), the rate under strong convexity.
    slowing = np.sqrt(1 + _EARLY * t / schedule.steps_per_epoch)
    return schedule.first / (slowing + schedule.alpha * schedule.first * t)


@register_rate("optimal")
def _optimal(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    # Bottou (2012), Stochastic gradient descent tricks.
    return 1 / (schedule.alpha * t + 1 / schedule.first)


@register_rate("pegasos")
def _pegasos(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    # Shalev-Shwartz et al. (2011), figure 2.
    return 1 / (schedule.alpha * (t + 1))


@register_rate("invscaling")
def _inverse_scaling(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return schedule.first / (t + 1) ** schedule.power


@register_rate("constant")
@register_rate("adaptive")  # the solver divides it when the objective stops falling
def _constant(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return np.full(len(t), schedule.first)


@register_rate(BY_FEATURE)  # in multiples of the rate of each feature
def _by_feature(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return np.ones(len(t))


def averaging_weights(t: np.ndarray) -> np.ndarray:
    """Return ω_t = t³ + t / 4, the integral of x³ from t - ½ to t + ½, and zero for steps before the first."""
    t = np.maximum(0.0, t)
    return t**3 + t / 4
