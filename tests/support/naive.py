"""Slow and obvious implementations, to compare with those of the package."""

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy import optimize, special


def kernel_value(name, x, z, gamma=1.0, coef0=0.0, degree=3):
    def dot():
        return math.fsum(a * b for a, b in zip(x, z, strict=True))

    def differences():
        return [a - b for a, b in zip(x, z, strict=True)]

    def squared():
        return math.fsum(d * d for d in differences())

    x, z = map(float, x), map(float, z)
    return {
        "linear": dot,
        "poly": lambda: (gamma * dot() + coef0) ** degree,
        "rbf": lambda: math.exp(-gamma * squared()),
        "sigmoid": lambda: math.tanh(gamma * dot() + coef0),
        "laplacian": lambda: math.exp(-gamma * math.fsum(map(abs, differences()))),
        "exponential": lambda: math.exp(-gamma * math.sqrt(squared())),
    }[name]()


def kernel_matrix(name, X, Z, **parameters):
    X, Z = (tuple(map(tuple, np.asarray(rows).tolist())) for rows in (X, Z))  # of Python, whose loops take them faster
    return np.array(_kernel_rows(name, X, Z, **parameters))


@lru_cache(maxsize=64)  # tests of several solvers ask for the same matrix
def _kernel_rows(name, X, Z, **parameters):
    return [[kernel_value(name, x, z, **parameters) for z in Z] for x in X]


def dual_objective(K, y, alpha):
    beta = alpha * y
    return alpha.sum() - beta @ K @ beta / 2


def solve_dual(K, y, upper, balanced=True):
    """Return alpha, intercept and objective of the dual, found by a general solver.

    Unless `balanced`, the sum of alpha y is free, as for a decision function without an intercept.
    """
    Q = K * np.outer(y, y)
    sum_is_zero = {"type": "eq", "fun": lambda alpha: alpha @ y, "jac": lambda alpha: y}
    found = optimize.minimize(
        lambda alpha: alpha @ Q @ alpha / 2 - alpha.sum(),
        np.zeros(len(y)),
        jac=lambda alpha: Q @ alpha - 1,
        bounds=[(0, bound) for bound in upper],
        constraints=sum_is_zero if balanced else (),
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    alpha = np.clip(found.x, 0, upper)
    return alpha, offset(K, y, upper, alpha), dual_objective(K, y, alpha)


def solve_primal(K, y, upper, squared=False, fit_intercept=True):
    """Return beta, intercept and objective of the primal with slack variables, found by a general solver."""
    n, power = len(y), 2 if squared else 1

    def objective(x):
        beta, slack = x[:n], x[n + 1 :]
        return beta @ K @ beta / 2 + upper @ slack**power

    def gradient(x):
        return np.concatenate([K @ x[:n], [0.0], upper * (2 * x[n + 1 :] if squared else 1)])

    separation = np.hstack([y[:, None] * K, y[:, None], np.eye(n)])
    found = optimize.minimize(
        objective,
        np.concatenate([np.zeros(n + 1), np.ones(n)]),
        jac=gradient,
        bounds=[(None, None)] * n + [(None, None) if fit_intercept else (0, 0)] + [(0, None)] * n,
        constraints={"type": "ineq", "fun": lambda x: separation @ x - 1, "jac": lambda x: separation},
        method="SLSQP",
        options={"maxiter": 5000, "ftol": 1e-15},
    )
    beta, intercept = found.x[:n], found.x[n]
    return beta, intercept, primal_objective(K, y, upper, beta, intercept, squared)


def primal_objective(K, y, upper, beta, intercept, squared=False):
    slack = np.maximum(0, 1 - y * (K @ beta + intercept))
    return beta @ K @ beta / 2 + upper @ slack ** (2 if squared else 1)


def offset(K, y, upper, alpha, close=1e-6):
    """Return the intercept: the mean over free rows, or else the middle of the feasible interval."""
    missing = y - K @ (alpha * y)
    free = (alpha > close * upper) & (alpha < (1 - close) * upper)
    if free.any():
        return missing[free].mean()
    may_rise = np.where(y > 0, alpha < upper / 2, alpha > upper / 2)
    return (missing[may_rise].max() + missing[~may_rise].min()) / 2


def kkt_violation(K, y, upper, alpha, balanced=True):
    F = K @ (alpha * y) - y
    may_rise = np.where(y > 0, alpha < upper, alpha > 0)
    may_fall = np.where(y > 0, alpha > 0, alpha < upper)
    if balanced:
        return max(0.0, F[may_fall].max() - F[may_rise].min())
    return max(0.0, F[may_fall].max(initial=0)) - min(0.0, F[may_rise].min(initial=0))


def duality_gap(K, y, upper, alpha, intercept):
    return primal_objective(K, y, upper, alpha * y, intercept) - dual_objective(K, y, alpha)


def pair_problems(model, labels, upper):
    """Yield the rows, y, upper bounds, multipliers and intercept of each two-class problem of a fitted SVC.

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


# --- losses ----------------------------------------------------------------------------------------------


def binary_loss(name, score, y, margin=1.0, **parameters):
    """Return the value and a subgradient of a loss for labels ±1."""
    z = y * score
    if name in ("hinge", "perceptron"):
        margin = 0.0 if name == "perceptron" else margin
        return (margin - z, -y) if z <= margin else (0.0, 0.0)
    if name == "squared_hinge":
        return ((1 - z) ** 2, -2 * y * (1 - z)) if z < 1 else (0.0, 0.0)
    if name == "log_loss":
        return np.logaddexp(0, -z), -y * special.expit(-z)
    if name == "modified_huber":
        return (-4 * z, -4 * y) if z < -1 else binary_loss("squared_hinge", score, y)
    return real_loss(name, score, y, **parameters)


def real_loss(name, score, y, epsilon=0.1):
    """Return the value and a subgradient of a loss for real targets."""
    r = score - y
    beyond = abs(r) - epsilon
    if name == "squared_error":
        return r**2 / 2, r
    if name == "huber":
        return (r**2 / 2, r) if beyond <= 0 else (epsilon * (abs(r) - epsilon / 2), epsilon * np.sign(r))
    if name == "epsilon_insensitive":
        return (beyond, np.sign(r)) if beyond > 0 else (0.0, 0.0)
    if name == "squared_epsilon_insensitive":
        return (beyond**2, 2 * beyond * np.sign(r)) if beyond > 0 else (0.0, 0.0)
    raise KeyError(name)


def loss_of_classes(name, scores, label, margin=1.0):
    """Return the value and a subgradient of a loss of the scores of all classes."""
    scores = np.asarray(scores, float)
    own = np.eye(len(scores))[label]
    if name == "softmax":
        return special.logsumexp(scores) - scores[label], special.softmax(scores) - own
    excess = scores - scores[label] + margin
    excess[label] = -np.inf
    if name == "weston_watkins":
        violated = (excess > 0) * 1.0
        return excess[excess > 0].sum(), violated - violated.sum() * own
    if name == "crammer_singer":
        best = np.argmax(excess)
        return (excess[best], np.eye(len(scores))[best] - own) if excess[best] > 0 else (0.0, 0 * own)
    raise KeyError(name)


OF_CLASSES = "weston_watkins", "crammer_singer", "softmax"


def mean_loss(name, scores, targets, weights, balance, **parameters):
    """Return the sum of weighted losses of some rows, and its gradient by the scores."""
    n, k = scores.shape
    total, gradient = 0.0, np.zeros((n, k))
    for i in range(n):
        if name in OF_CLASSES:
            value, slope = loss_of_classes(name, scores[i], int(targets[i]), **parameters)
            total, gradient[i] = total + weights[i] * value, weights[i] * slope
            continue
        for c in range(k):
            y = targets[i] if k == 1 else (1.0 if targets[i] == c else -1.0)
            weight = weights[i] * (balance[c] if k > 1 and y > 0 else 1.0)
            value, slope = binary_loss(name, scores[i, c], y, **parameters)
            total, gradient[i, c] = total + weight * value, weight * slope
    return total, gradient


# --- gradient descent ------------------------------------------------------------------------------------


class Descended:
    """Weights after some steps of gradient descent, their average, and the loss of each batch."""

    def __init__(self, n_scores, n_features):
        self.coef, self.intercept = np.zeros((n_scores, n_features)), np.zeros(n_scores)
        self.mean, self.mean_intercept = self.coef.copy(), self.intercept.copy()
        self.losses = []


def descend(
    name, X, targets, batches, rates, *, n_scores=1, weights=None, balance=None, l2=0.0, l1=0.0,
    momentum=0.0, clip=np.inf, intercept_rate=1.0, average_from=0.0, leads=False,
):  # fmt: skip
    """Return the result of one gradient step on each of some batches of rows.

    With `leads`, the L1 penalty is that of dual averaging (Xiao 2010): what is due is subtracted from the sum of all
    gradients, and from the average of these sums.
    """
    found = Descended(n_scores, X.shape[1])
    weights = np.ones(len(X)) if weights is None else weights
    balance = np.ones(n_scores) if balance is None else balance
    velocity, velocity_intercept = np.zeros_like(found.coef), np.zeros_like(found.intercept)
    leader, due, size, total = np.zeros_like(found.coef), 0.0, 1.0, 0.0
    sums = [np.zeros_like(found.coef), 0.0]
    for t, (batch, rate) in enumerate(zip(batches, rates, strict=True)):
        scores = X[batch] @ found.coef.T + found.intercept
        loss, slopes = mean_loss(name, scores, targets[batch], weights[batch], balance)
        G, g = slopes.T @ X[batch] / len(batch), slopes.sum(axis=0) / len(batch) * (intercept_rate > 0)
        norm = np.sqrt((G**2).sum() + (g**2).sum())
        shorter = min(1.0, clip / norm) if norm > 0 else 1.0
        velocity = momentum * velocity + shorter * G
        velocity_intercept = momentum * velocity_intercept + shorter * g
        left = max(0.0, 1 - rate * l2)
        if leads:
            leader, due, size = (leader, due, size / left) if left > 0 else (0 * leader, 0.0, 1.0)
            leader, due = leader - rate * size * velocity, due + rate * size * l1
            found.coef = np.sign(leader) * np.maximum(0, np.abs(leader) - due) / size
        else:
            W = left * found.coef - rate * velocity
            found.coef = np.sign(W) * np.maximum(0, np.abs(W) - rate * l1)
        found.intercept = found.intercept - rate * intercept_rate * velocity_intercept
        weight = max(0.0, t + 1 - average_from)
        weight = weight**3 + weight / 4
        if weight > 0:
            total += weight
            found.mean = found.mean + weight / total * (found.coef - found.mean)
            sums = [sums[0] + weight * leader / size, sums[1] + weight * due / size]
            found.mean_intercept = found.mean_intercept + weight / total * (found.intercept - found.mean_intercept)
        found.losses.append(loss)
    if leads:
        found.mean = np.sign(sums[0]) * np.maximum(0, np.abs(sums[0]) - sums[1]) / max(total, 1e-300)
    return found


# --- all rows at once ------------------------------------------------------------------------------------


def ascend_dual(K, y, upper, rate, n_steps):
    """Return alpha after steps of projected gradient ascent with all multipliers at once."""
    alpha = np.zeros(len(y))
    for _ in range(n_steps):
        alpha = np.clip(alpha + rate * (1 - y * (K @ (alpha * y))), 0, upper)
    return alpha


def descend_primal(K, y, C, rate, n_steps, squared=False, fit_intercept=True):
    """Return beta and intercept after steps of gradient descent; for the hinge, along a subgradient."""
    beta, intercept = np.zeros(len(y)), 0.0
    for _ in range(n_steps):
        slack = np.maximum(0, 1 - y * (K @ beta + intercept))
        pull = C * y * (2 * slack if squared else slack > 0)
        beta = beta - rate * (K @ beta - K @ pull)
        intercept = intercept + rate * pull.sum() * fit_intercept
    return beta, intercept


# --- duals of linear losses ------------------------------------------------------------------------------


def conjugate(name, beta, target, cost, epsilon=0.1, slack=1e-12):
    """Return the supremum of -β·f - c loss(f) over the scores f of a row; it may be infinite.

    For rounding errors, β may be infeasible by `slack` times the cost.
    """
    beta, slack = np.atleast_1d(np.asarray(beta, float)), slack * cost
    if name in OF_CLASSES:
        own, others = beta[int(target)], np.delete(beta, int(target))
        inside = abs(beta.sum()) <= slack and others.max() <= slack
        inside &= own <= cost + slack if name == "crammer_singer" else others.min() >= -cost - slack
        return -own if inside else np.inf
    (beta,) = beta
    if name == "log_loss":
        share = target * beta / cost
        inside = -slack <= share * cost <= cost + slack
        return cost * -special.entr([max(share, 0), max(1 - share, 0)]).sum() if inside else np.inf
    squared = name.startswith("squared")
    inside = squared or abs(beta) <= cost + slack
    curved = 0.25 * beta**2 / cost if squared else 0.0
    if name.endswith("hinge"):
        return curved - target * beta if inside and target * beta >= -slack else np.inf
    return curved + epsilon * abs(beta) - target * beta if inside else np.inf


def row_loss(name, scores, target, epsilon=0.1):
    """Return the loss of a row's scores: one score, or one per class for losses of all classes."""
    if name in OF_CLASSES:
        return loss_of_classes(name, scores, int(target))[0]
    if "epsilon" in name:
        return real_loss(name, scores[0], target, epsilon)[0]
    return binary_loss(name, scores[0], target)[0]


def dual_gap_of_row(name, scores, beta, target, cost, epsilon=0.1, slack=1e-12):
    """Return the duality gap of one row, which is zero if its dual variables are optimal for its scores."""
    return cost * row_loss(name, scores, target, epsilon) + conjugate(
        name, beta, target, cost, epsilon, slack
    ) + np.dot(beta, scores)  # fmt: skip


# --- linear models ---------------------------------------------------------------------------------------


def linear_objectives(name, W, Z, targets, costs, balance, **parameters):
    """Return ½ ‖w‖² + Σ c loss for each class against the rest, or the sum for losses of all classes.

    The last column of Z is the constant feature, if any.
    """
    parts = range(len(W)) if name not in OF_CLASSES and len(W) > 1 else [slice(None)]
    found = []
    for c in parts:
        w, labels, weights, factors = np.atleast_2d(W[c]), targets, costs, balance
        if not isinstance(c, slice):
            labels = np.where(targets == c, 1.0, -1.0)
            weights, factors = costs * np.where(labels > 0, balance[c], 1.0), np.ones(1)
        loss = mean_loss(name, Z @ w.T, labels, weights, factors, **parameters)[0]
        found.append((w**2).sum() / 2 + loss)
    return np.array(found)


def solve_linear_of_classes(name, Z, labels, costs, k):
    """Return the optimal objective of a loss of all classes, found by a general solver with slack variables."""
    n, d = Z.shape
    pairs = [(i, c) for i in range(n) for c in range(k) if c != labels[i]]
    n_slacks = n if name == "crammer_singer" else len(pairs)
    rows = np.zeros((len(pairs), k * d + n_slacks))
    prices = np.empty(n_slacks)
    for place, (i, c) in enumerate(pairs):
        slack = i if name == "crammer_singer" else place
        rows[place, labels[i] * d : (labels[i] + 1) * d] = Z[i]
        rows[place, c * d : (c + 1) * d] = -Z[i]
        rows[place, k * d + slack], prices[slack] = 1, costs[i]
    weights = np.arange(k * d + n_slacks) < k * d
    linear = np.concatenate([np.zeros(k * d), prices])
    return optimize.minimize(
        lambda x: (x[weights] ** 2).sum() / 2 + linear @ x,
        np.concatenate([np.zeros(k * d), np.ones(n_slacks)]),
        jac=lambda x: np.where(weights, x, linear),
        bounds=[(None, None)] * (k * d) + [(0, None)] * n_slacks,
        constraints={"type": "ineq", "fun": lambda x: rows @ x - 1, "jac": lambda x: rows},
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-15},
    ).fun
