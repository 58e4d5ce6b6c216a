"""Slow and obvious versions of what the package computes, to compare with."""

import math
from itertools import combinations

import numpy as np
from scipy import optimize


def kernel_value(name, x, z, gamma=1.0, coef0=0.0, degree=3):
    dot = math.fsum(float(a) * float(b) for a, b in zip(x, z, strict=True))
    difference = [float(a) - float(b) for a, b in zip(x, z, strict=True)]
    squared = math.fsum(d * d for d in difference)
    return {
        "linear": lambda: dot,
        "poly": lambda: (gamma * dot + coef0) ** degree,
        "rbf": lambda: math.exp(-gamma * squared),
        "sigmoid": lambda: math.tanh(gamma * dot + coef0),
        "laplacian": lambda: math.exp(-gamma * math.fsum(map(abs, difference))),
        "exponential": lambda: math.exp(-gamma * math.sqrt(squared)),
    }[name]()


def kernel_matrix(name, X, Z, **parameters):
    return np.array([[kernel_value(name, x, z, **parameters) for z in Z] for x in X])


def dual_objective(K, y, alpha):
    beta = alpha * y
    return alpha.sum() - beta @ K @ beta / 2


def solve_dual(K, y, upper):
    """Return alpha, offset and objective of the dual, by a solver for any smooth problem."""
    Q = K * np.outer(y, y)
    found = optimize.minimize(
        lambda alpha: alpha @ Q @ alpha / 2 - alpha.sum(),
        np.zeros(len(y)),
        jac=lambda alpha: Q @ alpha - 1,
        bounds=[(0, bound) for bound in upper],
        constraints={"type": "eq", "fun": lambda alpha: alpha @ y, "jac": lambda alpha: y},
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    alpha = np.clip(found.x, 0, upper)
    return alpha, offset(K, y, upper, alpha), dual_objective(K, y, alpha)


def offset(K, y, upper, alpha, close=1e-6):
    """Return the offset: the mean over free rows, or the middle of what the others allow."""
    missing = y - K @ (alpha * y)
    free = (alpha > close * upper) & (alpha < (1 - close) * upper)
    if free.any():
        return missing[free].mean()
    may_rise = np.where(y > 0, alpha < upper / 2, alpha > upper / 2)
    return (missing[may_rise].max() + missing[~may_rise].min()) / 2


def kkt_violation(K, y, upper, alpha):
    F = K @ (alpha * y) - y
    may_rise = np.where(y > 0, alpha < upper, alpha > 0)
    may_fall = np.where(y > 0, alpha > 0, alpha < upper)
    return max(0.0, F[may_fall].max() - F[may_rise].min())


def duality_gap(K, y, upper, alpha, intercept):
    beta = alpha * y
    slack = np.maximum(0, 1 - y * (K @ beta + intercept))
    primal = beta @ K @ beta / 2 + upper @ slack
    return primal - dual_objective(K, y, alpha)


def pair_problems(model, labels, upper):
    """Yield the rows, y, upper bounds, multipliers and offset of each two-class problem of a fitted SVC.

    `labels` are class numbers; a coefficient of class i against class j stands in row j - 1 of dual_coef_ if
    i < j, else in row j.
    """
    class_of = np.repeat(np.arange(len(model.n_support_)), model.n_support_)
    n_classes = len(model.classes_)
    for number, (a, b) in enumerate(combinations(range(n_classes), 2)):
        coefficient = np.zeros(len(labels))
        for place, (row, label) in enumerate(zip(model.support_, class_of, strict=True)):
            if label == a:
                coefficient[row] = model.dual_coef_[b - 1, place]
            elif label == b:
                coefficient[row] = model.dual_coef_[a, place]
        rows = np.flatnonzero((labels == a) | (labels == b))
        positive = b if n_classes == 2 else a
        y = np.where(labels[rows] == positive, 1.0, -1.0)
        yield rows, y, upper[rows], coefficient[rows] * y, model.intercept_[number]


def certificate(model, K, labels, upper):
    """Return objective, violation and gap of a fitted SVC as its attributes define them, from K."""
    objective, violation, gap = 0.0, 0.0, 0.0
    for rows, y, bound, alpha, intercept in pair_problems(model, labels, upper):
        block = K[np.ix_(rows, rows)]
        objective += dual_objective(block, y, alpha)
        violation = max(violation, kkt_violation(block, y, bound, alpha))
        gap += duality_gap(block, y, bound, alpha, intercept)
    return objective, violation, gap


def problem(seed, n, gamma=0.5, C=1.0, d=3, noise=0.5):
    """Return the kernel matrix, labels and bounds of a noisy problem of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + noise * rng.normal(size=n) > 0.7, 1.0, -1.0)
    y[:2] = 1, -1
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    return K, y, np.full(n, C)
