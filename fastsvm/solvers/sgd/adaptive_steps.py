"""Steps on dense rows with learning rates by feature; see `feature_rates` for the step."""

from typing import Any

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.solvers.sgd.feature_rates import FIRST_STEP

__all__ = ["adaptive_update", "average"]


@jit
def adaptive_update(model: Any, mean: float, plan: Any, s: int) -> None:
    """Take step `s` of a plan along `mean` times the gradient of a `DenseModel`, and average."""
    penalty, features, weight = plan.penalty, plan.features, plan.averaging[s]
    real = model.coef.dtype.type
    along, momentum = real(mean), real(penalty.momentum)
    t = plan.before + s + 1
    l2, accrued, due = real(penalty.l2), real(penalty.l2 * t), real(penalty.l1 * t)
    zero, score = real(0.0), real(features.score)
    tiny = real(np.finfo(model.coef.dtype).tiny)  # a denominator that nothing has added to yet
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
                longest = max(real(FIRST_STEP) * score, abs(model.intercept[c]))
                model.slowness_intercept[c] = np.sqrt(model.squares_intercept[c]) / longest
            if penalty.momentum > 0:
                model.velocity_intercept[c] = momentum * model.velocity_intercept[c] + new
                step = model.velocity_intercept[c]
            model.intercept[c] -= step / max(model.slowness_intercept[c], tiny)
        average(model, c, weight)


@jit
def average(model: Any, c: int, weight: float) -> None:
    """Add the weights of a score, which count so much, to their average; `total` has the weight already."""
    if weight > 0:
        share = model.coef.dtype.type(weight / model.total[0])
        w, mean = model.coef[c], model.mean[c]
        for j in range(w.size):
            mean[j] += share * (w[j] - mean[j])
        model.mean_intercept[c] += share * (model.intercept[c] - model.mean_intercept[c])
