import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize

from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_primal.huberized_hinge import huberized_hinge, squared_hinge
from fastsvm.solvers.kernel_primal.line_search import Line, best_intercept, best_length, slope_at_start

LOSSES = {
    "squared hinge": squared_hinge,
    "much smoothing": huberized_hinge(1.0),
    "little smoothing": huberized_hinge(0.01),
    "no visible smoothing": huberized_hinge(2.0**-60),
}
Z = np.linspace(-3, 3, 241)

# --- losses ----------------------------------------------------------------------------------------------


def test_the_squared_hinge():
    np.testing.assert_allclose(squared_hinge.value(Z), np.maximum(0, 1 - Z) ** 2, rtol=1e-14)


@pytest.mark.parametrize("h", [1.0, 0.3, 0.01, 1e-6])
def test_the_huberized_hinge_is_the_huber_loss(h):
    below = 1 - Z
    wanted = np.select([below < -h, below > h], [0, below], (below + h) ** 2 / (4 * h))
    np.testing.assert_allclose(huberized_hinge(h).value(Z), wanted, rtol=1e-9, atol=1e-15)
    assert np.abs(huberized_hinge(h).value(Z) - np.maximum(0, 1 - Z)).max() <= h / 4 + 1e-15


def test_the_hinge_is_a_huberized_one_whose_smoothing_rounds_to_nothing():
    loss = huberized_hinge(2.0**-60)
    np.testing.assert_allclose(loss.value(Z), np.maximum(0, 1 - Z), rtol=1e-14)
    np.testing.assert_allclose(loss.curvature * loss.excess(Z), Z < 1, rtol=1e-14)  # 0 at the corner
    assert not loss.is_curved(Z).any()


@pytest.mark.parametrize("name", ["squared hinge", "much smoothing", "little smoothing"])
@pytest.mark.parametrize("z", [-2.5, -0.3, 0.5, 0.9951, 1.0, 1.0042, 1.5, 2.2])
def test_a_loss_is_the_integral_of_its_slope(z, name):
    loss = LOSSES[name]
    corners = [corner for corner in (loss.start, loss.start - loss.width) if z < corner < 4]
    area = integrate.quad(lambda t: float(loss.curvature * loss.excess(np.array(t))), z, 4, points=corners or None)[0]
    assert loss.value(np.array(z)) == pytest.approx(area, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", ["squared hinge", "much smoothing", "little smoothing"])
def test_the_derivatives_of_a_loss_are_those_of_differences(name):
    loss, step = LOSSES[name], 1e-5
    z = Z[(np.abs(Z - loss.start) > 1e-4) & (np.abs(Z - loss.start + loss.width) > 1e-4)]
    slope = (loss.value(z + step) - loss.value(z - step)) / (2 * step)
    np.testing.assert_allclose(-loss.curvature * loss.excess(z), slope, atol=1e-7)
    second = loss.curvature * (loss.excess(z - step) - loss.excess(z + step)) / (2 * step)
    np.testing.assert_allclose(loss.curvature * loss.is_curved(z), second, rtol=1e-6, atol=1e-7)


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


@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(LOSSES)))
def test_the_best_intercept_has_the_least_loss(seed, name):
    _, problem, scores = draw(seed)

    def total(shift):
        return problem.upper @ LOSSES[name].value(problem.y * (scores + shift))

    found = total(best_intercept(problem, LOSSES[name], scores))
    assert found <= least(total, -40, 40) * (1 + 1e-9) + 1e-9


def test_the_best_intercept_of_one_class_has_no_loss():
    problem = KernelProblem(np.ones(3), np.ones(3), np.ones(3))
    scores = np.array([-5.0, 0.0, 2.0])
    assert squared_hinge.value(scores + best_intercept(problem, squared_hinge, scores)).max() <= 1e-20


@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(LOSSES)), curved=st.booleans())
def test_the_best_length_has_the_least_objective_unless_one_is_good_enough(seed, name, curved):
    rng, problem, scores = draw(seed)
    line = Line(scores, rng.normal(size=len(scores)), 5 * rng.normal(), 5 * rng.random() * curved)

    def objective(t):
        margins = problem.y * (scores + t * line.direction)
        return problem.upper @ LOSSES[name].value(margins) + line.slope * t + line.curvature * t * t / 2

    slope = slope_at_start(problem, LOSSES[name], line)
    if slope >= 0 or objective(1e4) < objective(9e3):  # it does not fall at all, or has no end
        return
    length = best_length(problem, LOSSES[name], line)
    if length == 1:
        assert objective(1) <= objective(0) + 0.25 * slope
        return
    found = objective(length)
    assert found <= min(least(objective, 0, end) for end in (0.1, 3, 100, 1e4)) + 1e-9 * max(1, abs(found))


@pytest.mark.parametrize("name", ["squared hinge", "much smoothing", "little smoothing"])
def test_the_slope_at_the_start_is_that_of_differences(name):
    rng, problem, scores = draw(3)
    line = Line(scores, rng.normal(size=len(scores)), -0.7, 1.3)

    def objective(t):
        margins = problem.y * (scores + t * line.direction)
        return problem.upper @ LOSSES[name].value(margins) + line.slope * t + line.curvature * t * t / 2

    wanted = (objective(1e-6) - objective(-1e-6)) / 2e-6
    assert slope_at_start(problem, LOSSES[name], line) == pytest.approx(wanted, rel=1e-6)


def test_one_is_taken_for_the_best_length_where_it_is_good_enough():
    line = Line(np.zeros(1), np.array([0.8]), 0.0, 0.0)
    assert best_length(KernelProblem(np.array([1.0]), np.array([1.0]), np.array([1.0])), squared_hinge, line) == 1


def test_a_minimum_beyond_one_is_looked_for_but_not_far_beyond():
    problem = KernelProblem(np.ones(2), np.ones(2), np.ones(2))
    line = Line(np.array([0.9, 0.0]), np.array([1.0, 1e-3]), 0.0, 1e-9)  # the minimum is at 999.5
    assert best_length(problem, squared_hinge, line) == pytest.approx(16, rel=1e-9)
