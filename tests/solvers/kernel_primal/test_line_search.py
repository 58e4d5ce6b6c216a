import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_primal.line_search import Line, best_intercept, best_length, slope_at_start
from fastsvm.solvers.kernel_primal.margin_losses import MarginLoss

squared_hinge = MarginLoss(squared=True)
Z = np.linspace(-3, 3, 241)

# --- losses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
def test_a_loss_and_how_fast_it_falls(squared):
    loss, step = MarginLoss(squared), 1e-5
    np.testing.assert_allclose(loss.value(Z), np.maximum(0, 1 - Z) ** (1 + squared), rtol=1e-14)
    z = Z[np.abs(Z - 1) > 1e-4]
    np.testing.assert_allclose(
        loss.fall(z), (loss.value(z - step) - loss.value(z + step)) / (2 * step), rtol=1e-6, atol=1e-7
    )
    assert loss.fall(np.ones(1)) == 0


# --- minima along a line ---------------------------------------------------------------------------------


def least(function, low, high):
    """Return the least value of a convex function."""
    return optimize.minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-11}).fun


def draw(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 40)
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1, -1
    upper = rng.uniform(0.1, 3, n) * 10 ** rng.uniform(-2, 2)
    return rng, KernelProblem(y, upper, y), 3 * rng.normal(size=n)


@given(seed=st.integers(0, 10**6))
def test_the_best_intercept_has_the_least_loss(seed):
    _, problem, scores = draw(seed)

    def total(shift):
        return problem.upper @ squared_hinge.value(problem.y * (scores + shift))

    found = total(best_intercept(problem, scores))
    assert found <= least(total, -40, 40) * (1 + 1e-9) + 1e-9


def test_the_best_intercept_of_one_class_has_no_loss():
    problem = KernelProblem(np.ones(3), np.ones(3), np.ones(3))
    scores = np.array([-5.0, 0.0, 2.0])
    assert squared_hinge.value(scores + best_intercept(problem, scores)).max() <= 1e-20


@given(seed=st.integers(0, 10**6), curved=st.booleans())
def test_the_best_length_has_the_least_objective_unless_one_is_good_enough(seed, curved):
    rng, problem, scores = draw(seed)
    line = Line(scores, rng.normal(size=len(scores)), 5 * rng.normal(), 5 * rng.random() * curved)

    def objective(t):
        margins = problem.y * (scores + t * line.direction)
        return problem.upper @ squared_hinge.value(margins) + line.slope * t + line.curvature * t * t / 2

    slope = slope_at_start(problem, line)
    if slope >= 0 or objective(1e4) < objective(9e3):  # it does not fall at all, or has no end
        return
    length = best_length(problem, line)
    if length == 1:
        assert objective(1) <= objective(0) * (1 + 1e-15) + 0.25 * slope
        return
    found = objective(length)
    assert found <= min(least(objective, 0, end) for end in (0.1, 3, 100, 1e4)) + 1e-9 * max(1, abs(found))


def test_the_slope_at_the_start_is_that_of_differences():
    rng, problem, scores = draw(3)
    line = Line(scores, rng.normal(size=len(scores)), -0.7, 1.3)

    def objective(t):
        margins = problem.y * (scores + t * line.direction)
        return problem.upper @ squared_hinge.value(margins) + line.slope * t + line.curvature * t * t / 2

    wanted = (objective(1e-6) - objective(-1e-6)) / 2e-6
    assert slope_at_start(problem, line) == pytest.approx(wanted, rel=1e-6)


def test_one_is_taken_for_the_best_length_where_it_is_good_enough():
    line = Line(np.zeros(1), np.array([0.8]), 0.0, 0.0)
    assert best_length(KernelProblem(np.array([1.0]), np.array([1.0]), np.array([1.0])), line) == 1


def test_a_minimum_beyond_one_is_looked_for_but_not_far_beyond():
    problem = KernelProblem(np.ones(2), np.ones(2), np.ones(2))
    line = Line(np.array([0.9, 0.0]), np.array([1.0, 1e-3]), 0.0, 1e-9)  # the minimum is at 999.5
    assert best_length(problem, line) == pytest.approx(16, rel=1e-9)
