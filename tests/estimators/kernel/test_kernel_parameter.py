"""The type of kernel values is precise enough."""

import naive
import numpy as np
import pytest
from kernel_machines import KERNELS, kernel_matrix
from sklearn import svm

from fastsvm import SVC
from fastsvm.estimators.kernel import kernel_parameter


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_meets_the_tolerance(kernel, many, monkeypatch):
    monkeypatch.setattr(kernel_parameter, "_SMALL", 0)
    X, y = many
    found = SVC(kernel=kernel, tol=1e-3, **KERNELS[kernel]).fit(X, y)
    wanted = svm.SVC(kernel=kernel, tol=1e-5, cache_size=500, **KERNELS[kernel]).fit(X, y)
    K, upper = kernel_matrix(kernel, X), np.ones(len(y))
    objective, violation, _ = naive.certificate(found, K, y, upper)
    assert found.converged_
    assert violation <= 1.1e-3
    assert found.kkt_violation_ == pytest.approx(violation, abs=2e-4)
    assert objective == pytest.approx(naive.certificate(wanted, K, y, upper)[0], rel=1e-5)
    assert (found.predict(X) == wanted.predict(X)).mean() >= 0.999


@pytest.mark.parametrize("far", [1e6, 1e12])
@pytest.mark.parametrize("row", [0, 399])
@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_one_far_row_does_not_blur_the_others(far, row):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.standard_normal((400, 3)) + y[:, None]
    X[row, 0] = far
    wanted = svm.SVC(gamma=0.5, tol=1e-6).fit(X, y)
    found = SVC(gamma=0.5, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-4)
