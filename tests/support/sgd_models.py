"""SGD estimators for tests, by the name of their loss, and their objectives."""

import naive
import numpy as np

from fastsvm import SGDClassifier, SGDRegressor
from fastsvm.losses import loss_names

REGRESSION = loss_names("numbers")

BINARY = ["hinge", "log_loss", "squared_hinge", "modified_huber", "perceptron"]


STEPWISE = {
    "batch_size": 1, "average": False, "shuffle": False, "max_iter": 3, "tol": None, "alpha": 1e-2, "eta0": 0.02
}  # fmt: skip


def plain(parameters):
    """Return the parameters that scikit-learn has too."""
    return {name: value for name, value in parameters.items() if name != "batch_size"}


def made_sgd(loss, **parameters):
    return (SGDRegressor if loss in REGRESSION else SGDClassifier)(loss=loss, random_state=0, **parameters)


def objective(loss, coef, intercept, X, y, alpha, l1=0.0):
    """Return mean loss + alpha (½ ‖w‖² or ‖w‖₁), for labels ±1, real targets or classes."""
    penalty = (1 - l1) * alpha / 2 * (coef**2).sum() + l1 * alpha * np.abs(coef).sum()
    found = X @ np.atleast_2d(coef).T + intercept
    k = found.shape[1]
    return naive.mean_loss(loss, found, y, np.ones(len(X)), np.ones(k))[0] / len(X) + penalty
