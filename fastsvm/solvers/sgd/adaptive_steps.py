"""Steps on dense rows with learning rates by feature; see `feature_rates` for the step."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.solvers.sgd.dense_steps import DenseModel, LinearFunction, Penalty, mean_factor, update
from fastsvm.solvers.sgd.feature_rates import INTERCEPT_REACH, FeatureRates

__all__ = ["AdaptiveModel"]


@storable("adaptive sgd model")
class AdaptiveModel(NamedTuple):
    """What `DenseModel` holds, and what rates by feature depend on.

    `squares` and `squares_intercept` are s and `slowness` and `slowness_intercept` are h of the weights and intercepts.
    With an L1 penalty `leader` is v, else it has no columns. `total` holds the sum of the averaging weights, and
    `penalties` the penalties l2 and l1.
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
    leader: np.ndarray
    penalties: np.ndarray
    total: np.ndarray

    @classmethod
    def of(
        cls, last: LinearFunction, mean: LinearFunction, total: float, dtype: np.dtype, penalty: Penalty
    ) -> "AdaptiveModel":
        """Return a model with the weights `last` and the average `mean`, whose averaging weights sum to `total`."""
        plain = DenseModel.of(last, mean, total, dtype, penalty.momentum > 0)
        leader = np.zeros_like(plain.coef if penalty.l1 > 0 else plain.coef[:, :0])
        return cls(
            **plain._asdict() | {"total": np.array([total])},
            squares=np.zeros_like(plain.coef),
            squares_intercept=np.zeros_like(plain.intercept),
            slowness=np.zeros_like(plain.coef),
            slowness_intercept=np.zeros_like(plain.intercept),
            leader=leader,
            penalties=np.full(2, np.nan),
        )

    def begin(self, floor: np.ndarray, n_steps: int) -> None:
        """Set the rates to those of the first step."""
        self.slowness[:] = floor
        self.penalties[:] = np.nan

    def measure(self, features: FeatureRates) -> None:
        """Take the lengths of the features, which each step is told."""

    def plan(self, penalty: Penalty, n_steps: int) -> None:
        """Continue with other penalties after so many steps."""
        wanted = np.array([penalty.l2, penalty.l1])
        if self.leader.size and not np.array_equal(self.penalties, wanted):
            accrued, due = wanted * n_steps
            self.leader[:] = self.coef * (self.slowness + accrued) + np.sign(self.coef) * due
        self.penalties[:] = wanted

    def slowness_of_weights(self) -> np.ndarray:
        """Return h of all weights."""
        return self.slowness

    def moved(self, last: LinearFunction, mean: LinearFunction) -> "AdaptiveModel":
        """Return the model with other weights and another average, after as many steps and with the same rates."""
        dtype = self.coef.dtype
        found = self._replace(coef=last.coef.astype(dtype), intercept=last.intercept.astype(dtype))
        found = found._replace(mean=mean.coef.astype(dtype), mean_intercept=mean.intercept.astype(dtype))
        return found._replace(penalties=np.full(2, np.nan))  # `plan` sets the leader anew

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
        scores = AdaptiveModel(*(array[start:stop] for array in self))
        return scores._replace(penalties=self.penalties, total=self.total.copy())


@update.register(AdaptiveModel)
def _update(model, n_rows, plan, s):
    penalty, features, weight = plan.penalty, plan.features, plan.averaging[s]
    real = model.coef.dtype.type
    along, momentum = real(mean_factor(model, n_rows, penalty)), real(penalty.momentum)
    t = plan.before + s + 1
    l2, accrued, due = real(penalty.l2), real(penalty.l2 * t), real(penalty.l1 * t)
    zero, score = real(0.0), real(features.score)
    tiny = real(np.finfo(model.coef.dtype).tiny)  # a denominator that nothing has added to yet
    model.total[0] += weight
    share = real(weight / model.total[0] if weight > 0 else 0.0)
    for c in range(model.coef.shape[0]):
        w, g, squares, slow, v = model.coef[c], model.gradient[c], model.squares[c], model.slowness[c], model.leader[c]
        for j in range(v.size):
            v[j] -= w[j] * slow[j]
        for j in range(w.size):
            new, unit = along * g[j], features.unit[j]
            squares[j] += (unit * new) * (unit * new)
            slower = features.floor[j] + np.sqrt(squares[j]) / (unit * max(unit * score, abs(w[j])))
            slow[j] = slower if new != zero else slow[j]  # no branch, so that this becomes vector instructions
        move, factor = g, along
        if penalty.momentum > 0:
            move, factor = model.velocity[c], real(1.0)
            for j in range(w.size):
                move[j] = momentum * move[j] + along * g[j]
        if v.size:
            for j in range(w.size):
                v[j] += w[j] * slow[j] - factor * move[j]
                w[j] = (max(v[j] - due, zero) + min(v[j] + due, zero)) / max(slow[j] + accrued, tiny)
        else:
            for j in range(w.size):
                w[j] -= (factor * move[j] + l2 * w[j]) / max(slow[j] + accrued, tiny)
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
