"""Losses of a user: registered in one place, they are losses of the estimators by name and as objects."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge

from fastsvm import LinearSVC, LinearSVR, SGDClassifier, SGDRegressor
from fastsvm.losses import (
    LOSSES,
    box,
    conjugate,
    coordinate_update,
    feasible,
    loss_slope,
    loss_value,
    projected_gradient,
    register_loss,
)
from fastsvm.tuning import changed, tuned


class Quantile(NamedTuple):
    """share (y - f) where the score is below the target, (1 - share) (f - y) above; without a dual."""

    epsilon: float = 0.5  # a parameter that the estimators know


@loss_value.register(Quantile)
def quantile(loss, score, target):
    return max(loss.epsilon * (target - score), (loss.epsilon - 1) * (target - score))


@loss_slope.register(Quantile)
def quantile_slope(loss, score, target):
    return -loss.epsilon if score < target else 1 - loss.epsilon


class SmoothHinge(NamedTuple):
    """0 for y f ≥ 1, 1 - y f - h/2 for y f ≤ 1 - h, (1 - y f)² / 2h between (Shalev-Shwartz and Zhang 2013)."""

    h: float = 0.5


@loss_value.register(SmoothHinge)
def smooth_hinge(loss, score, target):
    excess = max(0.0, 1 - target * score)
    return excess - loss.h / 2 if excess > loss.h else excess**2 / (2 * loss.h)


@loss_slope.register(SmoothHinge)
def smooth_hinge_slope(loss, score, target):
    return -target * min(max(0.0, 1 - target * score) / loss.h, 1.0)


@conjugate.register(SmoothHinge)
def smooth_hinge_conjugate(loss, dual, target, cost):
    return -target * dual + loss.h / 2 * dual * dual / cost


@coordinate_update.register(SmoothHinge)
def smooth_hinge_update(loss, dual, score, target, cost, curvature):
    own, ridge = target * dual, loss.h / cost
    return target * min(max(own - (target * score - 1 + ridge * own) / (curvature + ridge), 0.0), cost)


@projected_gradient.register(SmoothHinge)
def smooth_hinge_projected_gradient(loss, dual, score, target, cost):
    own = target * dual
    slope = target * score - 1 + loss.h * own / cost
    return 0.0 if (slope > 0 and own <= 0) or (slope < 0 and own >= cost) else abs(slope)


@box.register(SmoothHinge)
def smooth_hinge_box(loss, cost):
    return cost, loss.h / cost


@feasible.register(SmoothHinge)
def smooth_hinge_feasible(loss, demands, dual):
    targets = demands.targets[:, None]
    return targets * np.clip(targets * dual, 0, demands.costs[:, None])


class HalfSquare(NamedTuple):
    """½ (f - y)², with a dual."""


@loss_value.register(HalfSquare)
def half_square(loss, score, target):
    return 0.5 * (score - target) ** 2


@loss_slope.register(HalfSquare)
def half_square_slope(loss, score, target):
    return score - target


@conjugate.register(HalfSquare)
def half_square_conjugate(loss, dual, target, cost):
    return 0.5 * dual * dual / cost - target * dual


@coordinate_update.register(HalfSquare)
def half_square_update(loss, dual, score, target, cost, curvature):
    return (curvature * dual - (score - target)) / (curvature + 1 / cost)


@projected_gradient.register(HalfSquare)
def half_square_projected_gradient(loss, dual, score, target, cost):
    return abs(score - target + dual / cost)


@box.register(HalfSquare)
def half_square_box(loss, cost):
    return np.inf, 1 / cost


@feasible.register(HalfSquare)
def half_square_feasible(loss, demands, dual):
    return np.where(demands.costs[:, None] > 0, dual, 0.0)


@pytest.fixture(autouse=True, scope="module")
def registered():
    register_loss("quantile of tests", of="numbers", curvature=np.inf, bounded=True)(Quantile)
    register_loss("smooth hinge of tests", of="labels", curvature=2.0, bounded=True)(SmoothHinge)
    register_loss("half square of tests", of="numbers", curvature=1.0, bounded=False)(HalfSquare)
    yield
    for name in [name for name in LOSSES if name.endswith("of tests")]:
        del LOSSES[name]


@pytest.fixture(scope="module")
def rows():
    """Return rows, labels of two classes that overlap, and targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    scores = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=80)
    return X, (scores > 0).astype(int), scores


def test_a_loss_without_a_dual_is_one_of_gradient_descent():
    X, y = np.zeros((500, 1)), np.random.default_rng(0).normal(size=500)
    named = SGDRegressor("quantile of tests", epsilon=0.8, alpha=1e-6, max_iter=200, random_state=0).fit(X, y)
    below = np.mean(y < named.intercept_)
    assert below == pytest.approx(0.8, abs=0.02)
    own = clone(named).set_params(loss=Quantile(0.8), epsilon=0.1).fit(X, y)
    np.testing.assert_array_equal(own.intercept_, named.intercept_)
    assert own.objective_ == named.objective_


def test_a_loss_of_labels_is_one_of_classification(rows):
    X, labels, _ = rows
    exact = LinearSVC(loss=SmoothHinge(0.5), tol=1e-8, fit_intercept=False, random_state=0).fit(X, labels)
    signs = 2.0 * labels - 1

    def objective(w):
        return w @ w / 2 + sum(smooth_hinge(SmoothHinge(0.5), f, y) for f, y in zip(X @ w, signs, strict=True))

    assert exact.converged_
    assert exact.objective_ == pytest.approx(objective(exact.coef_[0]), rel=1e-12)
    assert exact.objective_ <= optimize.minimize(objective, np.zeros(4)).fun * (1 + 1e-7)
    named = LinearSVC(loss="smooth hinge of tests", tol=1e-8, fit_intercept=False, random_state=0).fit(X, labels)
    np.testing.assert_array_equal(named.coef_, exact.coef_)


def test_a_loss_of_numbers_is_one_of_regression(rows):
    """Of larger problems: the test of a loss of labels takes the way of small ones."""
    X, _, targets = rows
    model = LinearSVR(loss="half square of tests", C=2.0, tol=1e-10, fit_intercept=False, random_state=0)
    wanted = Ridge(alpha=0.5, fit_intercept=False).fit(X, targets)
    with tuned(changed({"linear": {"weights": False, "gram": False, "lagrangian": False}})):
        np.testing.assert_allclose(model.fit(sparse.csr_array(X), targets).coef_, wanted.coef_, rtol=1e-4)
    assert model.converged_


@pytest.mark.parametrize(
    "model",
    [
        LinearSVR(loss=Quantile()),  # it has no dual
        LinearSVR(loss="quantile of tests"),
        LinearSVR(loss=SmoothHinge()),  # it is of labels
        SGDRegressor(loss="smooth hinge of tests"),
        LinearSVC(loss=HalfSquare()),  # it is of numbers
        LinearSVC(multi_class=SmoothHinge()),  # it is not of all classes
        LinearSVC(loss="perceptron"),  # whose best weights are 0
        SGDClassifier(loss=Quantile),  # a class and no loss
        SGDClassifier(loss=(0.5,)),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(model, rows):
    X, labels, _ = rows
    name = "multi_class" if not isinstance(getattr(model, "multi_class", "ovr"), str) else "loss"
    with pytest.raises(ValueError, match=f"The '{name}' parameter of {type(model).__name__} must be one of"):
        model.fit(X, labels)


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="There is a loss 'hinge' already, Hinge: choose another name"):
        register_loss("hinge", of="labels", curvature=1.0, bounded=True)
    with pytest.raises(ValueError, match="of is 'words' but must be one of 'labels', 'numbers', 'classes'"):
        register_loss("another", of="words", curvature=1.0, bounded=True)
