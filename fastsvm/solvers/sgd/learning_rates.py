"""Learning rates of gradient descent: each a function of the step number, registered by its name."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["SCHEDULES", "Schedule", "register_rate"]

_EARLY = 4  # an epoch ends at less than half of the first rate


class Schedule(NamedTuple):
    """A learning rate.

    Attributes
    ----------
    name : str
        Which of `SCHEDULES`.
    first : float
        The first rate.
    power : float
        Exponent of the inverse scaling.
    alpha : float
        Factor of the penalty in the objective.
    steps_per_epoch : float
        Steps of an epoch; infinite if steps follow the exact gradient of a smooth loss.
    """

    name: str
    first: float
    power: float
    alpha: float
    steps_per_epoch: float

    def rates(self, before: int, count: int) -> np.ndarray:
        """Return the rates of `count` steps after the first `before`."""
        return SCHEDULES[self.name](self, before + np.arange(count, dtype=np.float64))


Rates = Callable[[Schedule, np.ndarray], np.ndarray]
SCHEDULES: dict[str, Rates] = {}
"""Rates of the steps t = 0, 1, ..., by name."""


def register_rate(name: str) -> Callable[[Rates], Rates]:
    """Return a decorator that gives a learning rate the name by which estimators know it.

    A learning rate is a function of a `Schedule` and of step numbers 0, 1, ..., an array, and returns the lengths of
    these steps.

    Raises
    ------
    ValueError
        If there is a learning rate of that name already.
    """
    if name in SCHEDULES:
        raise ValueError(f"There is a learning rate {name!r} already: choose another name.")

    def add(rates: Rates) -> Rates:
        SCHEDULES[name] = rates
        return rates

    return add


@register_rate("auto")
def _auto(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    # The smaller of the two rates of theory: 1/√t without and 1/(αt) with strong convexity.
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
@register_rate("adaptive")  # the solver divides it when progress ends
def _constant(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return np.full(len(t), schedule.first)
