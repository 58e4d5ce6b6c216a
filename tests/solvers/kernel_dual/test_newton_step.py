import numpy as np
import pytest
from naive import problem
from scipy.optimize import minimize

from fastsvm._compiled.threads import Pool
from fastsvm.solvers.kernel_dual.decomposition import moved, newton_step
from fastsvm.tuning import KernelTuning


def newton_direction(block, gradient):
    bound = np.full(len(gradient), np.inf)
    return newton_step(block.copy(), block.dtype, gradient, -bound, bound, Pool(1), True, KernelTuning())


def test_a_newton_step_makes_the_gradient_equal():
    K, y, _ = problem(14, 12)
    gradient = np.random.default_rng(0).normal(size=12)
    direction = newton_direction(K, gradient)
    moved = gradient + K @ direction
    assert np.ptp(moved) <= 1e-8
    assert abs(direction.sum()) <= 1e-10
    assert len(y) == 12


def test_a_newton_step_on_repeated_rows_is_finite():
    K, _, _ = problem(14, 6)
    twice = np.repeat(np.arange(6), 2)
    direction = newton_direction(K[np.ix_(twice, twice)], np.repeat(np.arange(6.0), 2))
    assert direction is None or np.isfinite(direction).all()


def test_rows_of_zeros_have_no_newton_step():
    with Pool.open() as pool:
        for count in (2, 8):
            given = np.zeros((count, count)), np.dtype(float), np.resize([-1.0, 1.0], count)
            assert newton_step(*given, -np.ones(count), np.ones(count), pool, True, KernelTuning()) is None


def test_an_indefinite_block_has_no_newton_step():
    assert newton_direction(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0])) is None


@pytest.mark.parametrize("width", [2.0, 5.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_newton_step_is_the_solution_within_its_bounds(seed, width):
    rng = np.random.default_rng(seed)
    K, _, _ = problem(seed, 12)
    gradient, low, high = rng.normal(size=12), -width * rng.random(12), width * rng.random(12)
    step = newton_step(K.copy(), K.dtype, gradient, low, high, Pool(1), True, KernelTuning(most_fixed=0.75))
    assert abs(step.sum()) <= 1e-9
    assert (step >= low - 1e-9).all()
    assert (step <= high + 1e-9).all()
    wanted = minimize(
        lambda x: x @ K @ x / 2 + gradient @ x,
        np.zeros(12),
        jac=lambda x: K @ x + gradient,
        bounds=list(zip(low, high, strict=True)),
        constraints={"type": "eq", "fun": np.sum, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    short = newton_step(K.copy(), K.dtype, gradient, low, high, Pool(1), True, KernelTuning(most_fixed=0.0))
    value, least, most = (x @ K @ x / 2 + gradient @ x for x in (step, wanted.x, short))
    if width >= 5:
        assert value == pytest.approx(least, rel=1e-9)
    else:  # too many rows may be held
        assert value == pytest.approx(least, rel=1e-9) or value == pytest.approx(most, rel=1e-12)


def test_a_newton_step_that_would_hold_many_rows_ends_at_the_first_bound():
    K, _, _ = problem(1, 12)
    gradient, bound = np.random.default_rng(1).normal(size=12), np.full(12, 0.01)
    direction = newton_direction(K, gradient)
    step = newton_step(K.copy(), K.dtype, gradient, -bound, bound, Pool(1), True, KernelTuning())
    np.testing.assert_allclose(step, direction * 0.01 / np.abs(direction).max(), rtol=1e-9)


def test_multipliers_within_rounding_of_a_bound_meet_it():
    result = moved(np.array([0.5, 0.5, 0.5]), np.ones(3), np.array([0.5 - 1e-16, -0.5 + 1e-16, 0.25]))
    np.testing.assert_array_equal(result, [1.0, 0.0, 0.75])


def test_small_multipliers_are_no_rounding_errors():
    result = moved(np.array([1e-15, 3e-15]), np.ones(2), np.array([1e-15, -1e-15]))
    np.testing.assert_allclose(result, [2e-15, 2e-15], rtol=1e-12)
