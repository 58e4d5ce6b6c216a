"""Is one problem solved in both scales?"""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from bench.linear.parameters import LinearParameters
from bench.linear.referee import Weights, objectives
from bench.streaming.parameters import LEVELS, StreamingParameters

parameters = partial(StreamingParameters, rows=10, chunk_rows=10, memory="1MB", limit_s=1, rows_at_once=10)


def test_objective_of_weights_of_bytes_is_that_of_weights_of_pixels():
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(0, 256, (50, 7), dtype=np.uint8), rng.integers(0, 3, 50)
    coef, intercept = rng.normal(size=(3, 7)), rng.normal(size=3)
    (wanted,) = objectives(rows / LEVELS, labels, LinearParameters("hinge", C=0.3), [Weights(coef, intercept)])
    (found,) = objectives(rows, labels, parameters(0.3), [Weights(coef / LEVELS, intercept)])
    assert found == pytest.approx(wanted, rel=1e-13)


def test_bytes_with_a_large_constant_feature_are_the_same_problem():
    rows, labels = load_digits(n_class=3, return_X_y=True)
    rows, problem = 15 * rows, parameters(0.5)
    given = {"tol": 1e-9, "max_iter": 1_000_000, "random_state": 0}
    of_pixels = LinearSVC(C=problem.C, loss="hinge", **given).fit(rows / LEVELS, labels)
    of_bytes = LinearSVC(**given, **problem.of_bytes).fit(rows, labels)
    np.testing.assert_allclose(LEVELS * of_bytes.coef_, of_pixels.coef_, atol=1e-4)
    np.testing.assert_allclose(of_bytes.intercept_, of_pixels.intercept_, atol=1e-4)


def test_penalty_of_the_loop_is_that_of_the_mean_loss():
    assert parameters(0.2).alpha(50) == LinearParameters("hinge", C=0.2).of_rows(50).alpha == pytest.approx(0.1)
