"""Data that tests of this room share."""

import numpy as np
import pytest
from sklearn import svm

from fastsvm import SVC


@pytest.fixture(scope="module")
def many():
    """Return more rows than a working set holds, sorted by label."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [1500, 1900])
    X = rng.normal(size=(3400, 6)) + 0.9 * y[:, None]
    return X, y


@pytest.fixture(params=["binary", "multiclass"])
def both(request, overlapping, three_classes):
    """Return X, y and both fitted linear models."""
    X, y = overlapping if request.param == "binary" else three_classes
    y = np.array(["ant", "bee", "cow"])[y]
    return X, y, SVC(kernel="linear", tol=1e-9).fit(X, y), svm.SVC(kernel="linear", tol=1e-9).fit(X, y)
