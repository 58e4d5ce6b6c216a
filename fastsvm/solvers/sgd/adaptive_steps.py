"""Steps on dense rows with learning rates by feature; see `feature_rates` for the step."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.solvers.sgd.dense_steps import DenseModel, LinearFunction, Penalty, mean_factor, update
from fastsvm.solvers.sgd.feature_rates import INTERCEPT_REACH, FeatureRates

__all__ = ["AdaptiveModel"]

_TINY = 1e-30  # a denominator that nothing has added to yet


@storable("adaptive sgd model")
class AdaptiveModel(NamedTuple):
    """What `DenseModel` holds, and what rates by feature depend on.

    `squares` and `squares_intercept` are s and `slowness` and `slowness_intercept` are h of the weights and intercepts.
    `total` holds the sum of the averaging weights.
    """

    coef: np.ndarray
    intercept: np.ndarray
    velocity: np.ndarray
    velocity_intercept: np.ndarray
    mean: np.ndarray
    mean_intercept: np.ndarray
    gradient: np.ndarray
    gradient_intercept: np.ndarray
    squares: np.ndarray
    squares_intercept: np.ndarray
    slowness: np.ndarray
    slowness_intercept: np.ndarray
    total: np.ndarray

    @classmethod
    def of(
        cls, last: LinearFunction, mean: LinearFunction, total: float, dtype: np.dtype, momentum: bool
    ) -> "AdaptiveModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        plain = DenseModel.of(last, mean, total, dtype, momentum)
        zeros = [np.zeros_like(array) for array in (plain.coef, plain.intercept) * 2]
        return cls(*plain[:-1], *zeros, np.array([total]))

    def begin(self, floor: np.ndarray, n_steps: int) -> None:
        """Set the rates to those of the first step."""
        self.slowness[:] = floor

    def measure(self, features: FeatureRates) -> None:
        """Take the lengths of the features, which each step is told."""

    def plan(self, penalty: Penalty, average_from: float) -> None:
        """Continue with other penalties, which each step is told."""

    def slowness_of_weights(self) -> np.ndarray:
        """Return h of all weights."""
        return self.slowness

    def copied(self) -> "AdaptiveModel":
        """Return a deep copy."""
        return AdaptiveModel(*(array.copy() for array in self))

    def last(self) -> LinearFunction:
        """Return the weights of the last step."""
        return LinearFunction(self.coef.astype(np.float64), self.intercept.astype(np.float64))

    def averaged(self) -> tuple[LinearFunction, float]:
        """Return the averaged weights and the sum of the averaging weights."""
        mean = LinearFunction(self.mean.astype(np.float64), self.mean_intercept.astype(np.float64))
        return mean, float(self.total[0])

    def part(self, start: int, stop: int) -> "AdaptiveModel":
        """Return a view of the scores `start` to `stop`, with a copy of `total`."""
        return AdaptiveModel(*(array[start:stop] for array in self))._replace(total=self.total.copy())


@update.register(AdaptiveModel)
def _update(model, n_rows, plan, s):
    penalty, features, weight = plan.penalty, plan.features, plan.averaging[s]
    real = model.coef.dtype.type
    along, momentum = real(mean_factor(model, n_rows, penalty)), real(penalty.momentum)
    l2, l1, accrued = real(penalty.l2), real(penalty.l1), real(penalty.l2 * (plan.before + s + 1))
    zero, tiny, score = real(0.0), real(_TINY), real(features.score)
    model.total[0] += weight
    share = real(weight / model.total[0] if weight > 0 else 0.0)
    for c in range(model.coef.shape[0]):
        w, g, squares, slow = model.coef[c], model.gradient[c], model.squares[c], model.slowness[c]
        for j in range(w.size):
            new, unit = along * g[j], features.unit[j]
            if new != zero:
                squares[j] += (unit * new) * (unit * new)
                slow[j] = features.floor[j] + np.sqrt(squares[j]) / (unit * max(unit * score, abs(w[j])))
        if penalty.momentum > 0:
            v = model.velocity[c]
            for j in range(w.size):
                v[j] = momentum * v[j] + along * g[j]
                w[j] -= (v[j] + l2 * w[j]) / max(slow[j] + accrued, tiny)
        else:
            for j in range(w.size):
                w[j] -= (along * g[j] + l2 * w[j]) / max(slow[j] + accrued, tiny)
        if penalty.l1 > 0:
            for j in range(w.size):
                threshold = l1 / max(slow[j] + accrued, tiny)
                w[j] = max(w[j] - threshold, zero) + min(w[j] + threshold, zero)
        if penalty.intercept_rate > 0:
            new, step = along * model.gradient_intercept[c], along * model.gradient_intercept[c]
            if new != zero:
                model.squares_intercept[c] += new * new
                longest = max(real(INTERCEPT_REACH) * score, abs(model.intercept[c]))
                model.slowness_intercept[c] = np.sqrt(model.squares_intercept[c]) / longest
            if penalty.momentum > 0:
                model.velocity_intercept[c] = momentum * model.velocity_intercept[c] + new
                step = model.velocity_intercept[c]
            model.intercept[c] -= step / max(model.slowness_intercept[c], tiny)
        if weight > 0:
            mean = model.mean[c]
            for j in range(w.size):
                mean[j] += share * (w[j] - mean[j])
            model.mean_intercept[c] += share * (model.intercept[c] - model.mean_intercept[c])
