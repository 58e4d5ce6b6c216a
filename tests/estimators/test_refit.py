"""An estimator that is fitted anew has one model or the other, although the fit fails or another thread reads it."""

import numpy as np
import pytest

from fastsvm import SVC, NystroemFeatures, SGDClassifier, SVCSearch
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.registry import ESTIMATORS

rng = np.random.default_rng(0)
X, OTHER = np.abs(rng.normal(size=(40, 3))), np.abs(rng.normal(size=(40, 3))) + 1
Y = (X[:, 0] > 0.6).astype(int)
KINDS = ESTIMATORS | {"features": NystroemFeatures, "search": lambda: SVCSearch(param_grid={"C": [1.0, 2.0]}, cv=2)}
BAD_ROWS = np.where(np.arange(120).reshape(40, 3) == 31, np.nan, X)
FAILURES = {
    "NaN": lambda model: model.fit(BAD_ROWS, Y),
    "lengths": lambda model: model.fit(X, Y[:-1]),
    "one class": lambda model: model.fit(X, np.zeros(40)),
    "parameter": lambda model: model.set_params(**{PARAMETER_OF.get(type(model), "tol"): -1.0}).fit(X, Y),
    "interrupt": lambda model: model.fit(OTHER, Y),
}
PARAMETER_OF = {NystroemFeatures: "rank_tol", SVCSearch: "cv"}
NO_LABELS = "one-class", "linear-one-class", "features"
OF_EACH_BASE = "svc", "svr", "one-class", "linear", "linear-one-class", "nystroem", "sgd", "features", "search"
"""The classes of one base refuse lengths, labels and parameters by the same code."""
NOT_FAILURES = {
    "lengths": NO_LABELS,
    "one class": (*NO_LABELS, "svr", "nu-svr", "linear-regressor", "nystroem-regressor", "sgd-regressor"),
    "interrupt": ("features", "search"),  # which have no session
}


def fitted(name):
    model = KINDS[name]()
    known = {"random_state": 0, "max_iter": 20, "tol": None} if name.startswith("sgd") else {}
    return model.set_params(**known).fit(X, Y)


def answers(model, rows=X):
    if isinstance(model, NystroemFeatures):
        return model.transform(rows)
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


@pytest.mark.parametrize(
    ("name", "failure"),
    [(name, failure)
     for name in KINDS for failure in FAILURES
     if name not in NOT_FAILURES.get(failure, ()) and (name in OF_EACH_BASE or failure in ("NaN", "interrupt"))],
)  # fmt: skip
def test_a_fit_that_fails_leaves_the_model_as_it_was(name, failure, monkeypatch):
    model = fitted(name)
    before, wanted = dict(vars(model)), answers(model)
    if failure == "interrupt":

        def interrupted(self, monitor, warn):
            raise KeyboardInterrupt

        monkeypatch.setattr(FitSession, "finish", interrupted)
    with pytest.raises((ValueError, KeyboardInterrupt)):
        FAILURES[failure](model)
    assert all(vars(model)[key] is before[key] for key in before if key.endswith("_"))
    np.testing.assert_array_equal(answers(model), wanted)


class Refitting:
    """Rows that fit the model anew, as another thread may, while they are read."""

    def __init__(self, model):
        self.model = model

    def __array__(self, dtype=None, copy=None):
        self.model.fit(OTHER[:30], 1 - Y[:30])
        return X.astype(dtype or float)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "search"])
def test_a_prediction_is_of_one_model(name):
    model = fitted(name)
    wanted = answers(model)
    np.testing.assert_array_equal(answers(model, Refitting(model)), wanted)
    assert not np.array_equal(answers(model), wanted)


def test_a_partial_fit_that_fails_leaves_the_model_as_it_was():
    model = SGDClassifier(random_state=0, eta0=0.1, learning_rate="constant").partial_fit(X, Y, classes=[0, 1])
    again = SGDClassifier(random_state=0, eta0=0.1, learning_rate="constant").partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(1e300 * X, Y)
    np.testing.assert_array_equal(model.loss_curve_, again.loss_curve_)
    for one in (model, again):
        one.partial_fit(OTHER, Y)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_a_callback_that_raises_leaves_the_model_as_it_was():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    model = fitted("svc")
    wanted = model.decision_function(X)

    class Raising:
        def setup(self, estimator, context):
            pass

        teardown = on_fit_task_begin = setup

        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        model.set_callbacks(Raising()).fit(OTHER, Y)
    np.testing.assert_array_equal(model.decision_function(X), wanted)
    assert isinstance(model.set_callbacks().fit(OTHER, Y), SVC)
