"""Kernel rows that small problems compute when they need them; `test_svc.py` compares the solutions."""

import numpy as np
import pytest

from fastsvm import SVC
from fastsvm.kernel_matrix.rows_on_demand import has_rows_on_demand
from fastsvm.kernels import RBF, Laplacian


@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_distances_of_rows_far_from_the_origin_cancel_nothing(gamma):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (60, 3)).astype(float)
    y = X[:, 0] + X[:, 1] + rng.normal(size=60) > 4
    found, wanted = (SVC(gamma=gamma, tol=1e-9).fit(X + far, y) for far in (1e8, 0.0))
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-12)
    np.testing.assert_allclose(found.decision_function(X + 1e8), wanted.decision_function(X), rtol=0, atol=1e-9)


def test_other_kernels_are_given_as_their_values():
    assert not has_rows_on_demand(Laplacian(0.2)) and has_rows_on_demand(RBF(0.2))
