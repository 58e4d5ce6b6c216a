"""A warning of a fit is of the line that calls the fit."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fastsvm

X = np.random.default_rng(0).normal(size=(600, 3))
Y = (X[:, 0] + np.random.default_rng(1).normal(size=600) > 0).astype(int)


@pytest.mark.parametrize(
    "model",
    [
        fastsvm.SVC(max_iter=1),
        fastsvm.OneClassSVM(max_iter=1),
        fastsvm.LinearSVC(max_iter=1, tol=1e-12),
        fastsvm.LinearOneClassSVM(max_iter=1, tol=1e-12),
        fastsvm.NystroemSVR(max_iter=1, tol=1e-12, n_components=64),
        fastsvm.SGDClassifier(max_iter=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_warning_is_of_the_line_that_calls_the_fit(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y)
    told = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    assert told and {each.filename for each in told} == {__file__}
