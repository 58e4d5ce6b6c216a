"""Variables of a given sum, and the offset that is its multiplier."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fastsvm.solvers.linear_dual.one_class import GivenSum


@pytest.mark.parametrize("total", [0.5, 3.0, 9.0, None], ids=str)
def test_corrected_variables_are_feasible(total):
    rng = np.random.default_rng(0)
    costs = rng.exponential(size=12) * (np.arange(12) % 4 > 0)
    given = GivenSum(costs, float(costs.sum()) if total is None else total)
    for share in (0.0, 0.3, 1.0):
        found = given.corrected(share * costs * rng.random(12))
        assert found.sum() == pytest.approx(given.total, rel=1e-14)
        assert (found >= 0).all() and (found <= costs * (1 + 1e-14)).all()


def test_variables_that_are_feasible_stay_as_they_are():
    costs = np.ones(6)
    dual = np.array([1.0, 0.0, 0.5, 1.0, 0.25, 0.25])
    np.testing.assert_array_equal(GivenSum(costs, 3.0).corrected(dual), dual)


def test_variables_that_are_0_stay_so_if_the_others_suffice():
    dual = np.array([0.9, 0.0, 0.5, 1.0, 0.0, 0.3])
    found = GivenSum(np.ones(6), 3.0).corrected(dual)
    assert found.sum() == pytest.approx(3, rel=1e-14)
    np.testing.assert_array_equal(found == 0, dual == 0)
    assert (GivenSum(np.ones(6), 4.5).corrected(dual) > 0).all()


def test_no_other_offset_is_better():
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores, costs = rng.normal(size=15), rng.exponential(size=15)
        given = GivenSum(costs, rng.random() * costs.sum())
        best = minimize_scalar(lambda offset, s=scores, g=given: g.losses(s, offset), (-1, 1), tol=1e-12).fun
        assert given.losses(scores, given.offset(scores)) <= best + 1e-12


def test_the_offset_is_between_two_scores_where_all_there_are_as_good():
    scores, costs = np.array([4.0, 1.0, 2.0, 7.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    assert GivenSum(costs, 2.0).offset(scores) == 3.0  # between 2 and 4: nothing costs 3
    assert GivenSum(costs, 1.5).offset(scores) == 2.0
    assert GivenSum(costs, 4.0).offset(scores) == 7.0
