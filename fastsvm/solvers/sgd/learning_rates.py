"""How long the steps of gradient descent are: one function of the step number a schedule, in the table `SCHEDULES`."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["SCHEDULES", "Schedule"]

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


def _constant(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return np.full(len(t), schedule.first)


def _inverse_scaling(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return schedule.first / (t + 1) ** schedule.power


def _pegasos(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return 1 / (schedule.alpha * (t + 1))


def _optimal(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    return 1 / (schedule.alpha * t + 1 / schedule.first)


def _auto(schedule: Schedule, t: np.ndarray) -> np.ndarray:
    slowing = np.sqrt(1 + _EARLY * t / schedule.steps_per_epoch)
    return schedule.first / (slowing + schedule.alpha * schedule.first * t)


SCHEDULES: dict[str, Callable[[Schedule, np.ndarray], np.ndarray]] = {
    "auto": _auto,  # the smaller of the two rates that theory knows, 1/√t without and 1/(αt) with strong convexity
    "optimal": _optimal,  # Bottou (2012), Stochastic gradient descent tricks
    "pegasos": _pegasos,  # Shalev-Shwartz et al. (2011), figure 2
    "invscaling": _inverse_scaling,
    "constant": _constant,
    "adaptive": _constant,  # divided when progress ends
}
"""Rates of the steps t = 0, 1, ..., by name."""
