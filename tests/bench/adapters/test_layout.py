"""Is LIBSVM's layout converted to scikit-learn's?"""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from bench.adapters.layout import sorted_layout


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_layout_is_that_of_sorted_classes(n_classes):
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < n_classes)[:200]
    X, codes = X[few] / 16, n_classes - 1 - y[few]
    model = SVC(C=1, gamma=0.1, tol=1e-9).fit(X, codes)
    order = list(dict.fromkeys(codes.tolist()))
    assert order != sorted(order)
    # SVC numbers classes by value: renumbered by appearance its own layout is LIBSVM's.
    renumbered = np.array([order.index(one) for one in codes])
    other = SVC(C=1, gamma=0.1, tol=1e-9).fit(X, renumbered)
    sign = -1 if n_classes == 2 else 1
    coef, intercept = sorted_layout(codes, other.support_, sign * other.dual_coef_, -sign * other.intercept_)
    by_row = np.zeros((2, n_classes - 1, len(codes)))
    by_row[0][:, model.support_] = model.dual_coef_
    by_row[1][:, other.support_] = coef
    np.testing.assert_allclose(*by_row, atol=1e-4)
    np.testing.assert_allclose(intercept, model.intercept_, atol=1e-4)
