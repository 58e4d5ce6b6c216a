"""Learning rates: schedules, which are functions of the step number by name, and rates by feature.

Rates by feature depend on the gradients so far and on the lengths of the features.

Step
    A weight after t steps is w = sign(v) max(0, |v| - l1 t) / (h + l2 t). In step t = 0, 1, ... with the gradient g of
    the loss it moves by
        v ← v + w (h' - h) - g,  h ← h'
    where h' differs from h only if g is not zero:
        s ← s + (u g)²,  h' = h₀ + √s / (u max(η, |w|))
    Without h this is the rate of Pegasos. It is the proximally regularised leader, of which an L1 penalty leaves few
    weights, and an untouched weight takes all its penalties at once.

Lengths
    u = 1 / (σ √m) for a feature whose nonzero values have the root mean square σ, with m nonzero values a row. The
    first step of a weight is no longer than η = u times the size of a score. Thus a feature that is measured in another
    unit takes the same steps. A weight that has grown beyond η moves by a share of itself, for it seems to need longer
    steps. The floor h₀ keeps the first steps of features that occur together from overshooting. It is small for rare
    features.

After
    Duchi, Hazan and Singer (2011), Adaptive subgradient methods; McMahan (2011), Follow-the-regularized-leader and
    mirror descent; Ross, Mineiro and Langford (2013), Normalized online learning; Ivgi, Hinder and Carmon (2023),
    DoG is SGD's best friend, for the share of the weight.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable

BY_FEATURE = "adagrad"
"""The schedule whose rates depend on the gradients and lengths of the features."""

_EARLY = 4  # After one epoch, "auto" is below half of the first rate.
FIRST_STEP = 0.3
"""The first step changes a score by so many sizes of a score: that of the intercept, and those of one rate for all."""


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
SCHEDULES: dict[str, Rates] = {
    # About the smaller of 1/√t, the rate for convex losses, and 1/(αt), the rate under strong convexity.
    "auto": lambda schedule, t: (
        schedule.first / (np.sqrt(1 + _EARLY * t / schedule.steps_per_epoch) + schedule.alpha * schedule.first * t)
    ),
    # Bottou (2012), Stochastic gradient descent tricks.
    "optimal": lambda schedule, t: 1 / (schedule.alpha * t + 1 / schedule.first),
    # Shalev-Shwartz et al. (2011), figure 2.
    "pegasos": lambda schedule, t: 1 / (schedule.alpha * (t + 1)),
    "invscaling": lambda schedule, t: schedule.first / (t + 1) ** schedule.power,
    "constant": lambda schedule, t: np.full(len(t), schedule.first),
    "adaptive": lambda schedule, t: np.full(len(t), schedule.first),  # divided when the objective stops falling
    BY_FEATURE: lambda schedule, t: np.ones(len(t)),  # in multiples of the rate of each feature
}
"""Learning rates by name: functions of a `Schedule` and an array of step numbers 0, 1, ..."""


def averaging_weights(t: np.ndarray) -> np.ndarray:
    """Return ω_t = t³ + t / 4, the integral of x³ from t - ½ to t + ½, and zero for steps before the first."""
    t = np.maximum(0.0, t)
    return t**3 + t / 4


# --- rates by feature ----------------------------------------------------------------------------------------


@storable("sgd feature lengths")
class FeatureLengths(NamedTuple):
    """Sums over the rows so far, of which one of weight 2 counts as two.

    `counts` has the number of nonzero values of each feature, and `squares` their sum of squares.
    """

    n_rows: float
    counts: np.ndarray
    squares: np.ndarray

    def rates(self, first: float, score: float, dtype: np.dtype) -> "FeatureRates":
        """Return the rates for scores of the size `score`.

        The first rate of features of length 1 that always occur is `first` divided by the nonzero values of a row.
        """
        n_values = max(1.0, float(self.counts.sum()) / self.n_rows)
        with np.errstate(all="ignore"):  # the epochs report values that are not finite
            length = np.sqrt(self.squares / np.where(self.counts > 0, self.counts, 1.0))
            unit = 1 / (np.where(length > 0, length, 1.0) * n_values**0.5)
            floor = self.squares / self.n_rows * (n_values / first)
            return FeatureRates(unit.astype(dtype), floor.astype(dtype), score)


class FeatureRates(NamedTuple):
    """What decides the rates of features beside their gradients.

    `unit` is u of each feature, weights that change a score by one in all. `floor` is h₀, and `score` the size of a
    score.
    """

    unit: np.ndarray
    floor: np.ndarray
    score: float

    @classmethod
    def none(cls, dtype: np.dtype) -> "FeatureRates":
        """Return rates for no feature, where one rate serves all."""
        return cls(np.empty(0, dtype), np.empty(0, dtype), 0.0)


def added_lengths(lengths: FeatureLengths | None, weights: np.ndarray, sums: np.ndarray) -> FeatureLengths:
    """Return the lengths with more rows, of which each has a weight; `sums` has their counts and squares as columns."""
    n_rows, (counts, squares) = float(weights.sum()), sums.T.copy()
    if lengths is None:
        return FeatureLengths(n_rows, counts, squares)
    return FeatureLengths(lengths.n_rows + n_rows, lengths.counts + counts, lengths.squares + squares)
