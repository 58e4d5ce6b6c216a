"""Prediction with linear machines: shapes, names and numbers of features."""

import numpy as np
import pandas as pd
import pytest
from linear_svms import assert_same, data_of, made
from sgd_models import made_sgd
from sklearn.exceptions import NotFittedError

from fastsvm import SGDClassifier


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive"])
def test_rows_of_another_width_are_refused(name, request):
    X, y = data_of(name, request)
    model = made(name).fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features"):
        model.predict(X[:, 1:])
    with pytest.raises(ValueError, match="row 3"):
        model.predict(np.where(np.arange(120)[:, None] == 3, np.nan, X))


def test_names_of_features(three):
    X, y = three
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = made("hinge", tol=1e-3).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert_same(model, made("hinge", tol=1e-3).fit(X, y))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


def test_shapes_and_soft_decisions(two, three, line):
    for (X, y), k in ((two, 1), (three, 3)):
        model = made("squared_hinge", tol=1e-3).fit(X, y)
        assert model.coef_.shape == (k, 5) and model.intercept_.shape == (k,)
        found = model.decision_function(X)
        assert found.shape == ((120,) if k == 1 else (120, 3))
        np.testing.assert_allclose(found.reshape(120, k), X @ model.coef_.T + model.intercept_, atol=1e-12)
        np.testing.assert_array_equal(model.soft_decision(X), np.clip(found, -1, 1))
        assert model.coef_.dtype == model.intercept_.dtype == np.float64
    X, y = line
    model = made("epsilon_insensitive", tol=1e-3).fit(X, y)
    assert model.coef_.shape == (5,) and model.intercept_.shape == (1,)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, atol=1e-12)
    assert not hasattr(model, "decision_function")


def test_rows_of_another_width_are_refused_after_sgd(two_300):
    model = made_sgd("hinge").fit(*two_300)
    for method in (model.predict, model.decision_function, model.soft_decision):
        with pytest.raises(ValueError, match="X has 4 features"):
            method(two_300[0][:, 1:])
    with pytest.raises(NotFittedError):
        SGDClassifier().predict(two_300[0])
