"""Linear SVMs for tests, by the name of their loss, and their objectives."""

import naive
import numpy as np
from sklearn import svm

from fastsvm import LinearSVC, LinearSVR

OVR = ["hinge", "squared_hinge"]


COUPLED = ["crammer_singer", "weston_watkins"]


REGRESSION = ["epsilon_insensitive", "squared_epsilon_insensitive"]


LOSSES = OVR + COUPLED + REGRESSION


def made(name, **parameters):
    """Return an estimator with a loss, and with a tight tolerance by default."""
    parameters = {"random_state": 0, "tol": 1e-7, "max_iter": 20_000} | parameters
    if name in COUPLED:
        return LinearSVC(multi_class=name, **parameters)
    if name in REGRESSION:
        return LinearSVR(loss=name, **{"epsilon": 0.2} | parameters)
    return LinearSVC(loss=name, **parameters)


def data_of(name, request, several=True):
    return request.getfixturevalue("line" if name in REGRESSION else "three" if several else "two")


def with_constant(X, model):
    return np.hstack([X, np.full((len(X), 1), model.intercept_scaling if model.fit_intercept else 0.0)])


def weights_of(model):
    """Return the weights of all scores. The last column is that of the constant feature."""
    coef = np.atleast_2d(model.coef_)
    last = np.broadcast_to(model.intercept_, len(coef)) / model.intercept_scaling
    W = np.hstack([coef, last[:, None]])
    return np.vstack([-W / 2, W / 2]) if len(W) == 1 and getattr(model, "multi_class", "ovr") != "ovr" else W


def objectives(name, model, X, y, weight=1.0, factors=None):
    """Return the objective of each problem of a model."""
    W, costs = weights_of(model), np.broadcast_to(model.C * np.asarray(weight, float), len(X))
    parameters = {"epsilon": model.epsilon} if name in REGRESSION else {}
    factors = np.ones(len(np.unique(y)) if name not in REGRESSION else 1) if factors is None else np.asarray(factors)
    if name in COUPLED or (name in OVR and len(W) == 1):
        costs, factors = costs * factors[y], np.ones(len(W))
    targets = np.where(y == 1, 1.0, -1.0) if name in OVR and len(W) == 1 else np.asarray(y, float)
    return naive.linear_objectives(name, W, with_constant(X, model), targets, costs, factors, **parameters)


def assert_same(model, other, tolerance=0.0):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=tolerance)


def of_liblinear(name, model):
    """Return LIBLINEAR's estimator with the parameters of ours."""
    same = {key: getattr(model, key) for key in ("C", "fit_intercept", "intercept_scaling")}
    same |= {"tol": 1e-10, "max_iter": 10**6, "random_state": 0, "dual": True}
    if name in REGRESSION:
        return svm.LinearSVR(loss=name, epsilon=model.epsilon, **same)
    multi_class = "ovr" if name in OVR else name
    same |= {"multi_class": multi_class, "class_weight": model.class_weight}
    return svm.LinearSVC(loss=name if name in OVR else "hinge", **same)
