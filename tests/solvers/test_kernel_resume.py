"""Every solver of SVC may be stopped, interrupted, watched, and resumed."""

import threading

import numpy as np
import pytest
from kernel_fits import RATES, every, exact, fit, model, same
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import SVC


@pytest.mark.parametrize("limit", [{"max_iter": 2}, {"max_time": 1e-9}], ids=["max_iter", "max_time"])
@every
def test_limits_leave_a_usable_model(name, limit, three_classes):
    X, y = three_classes
    if name == "smo" and "max_time" in limit:  # few samples are all solved before the clock is read
        X, y = make_blobs(7000, centers=3, cluster_std=3.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=next(iter(limit))):
        found = model(name, C=10.0, **limit).fit(X, y)
    assert found.stop_reason_ == next(iter(limit))
    assert found.predict(X).shape == y.shape
    assert np.isfinite(found.decision_function(X)).all()
    assert np.isfinite(found.objective_)
    assert found.duality_gap_ > 0
    if "max_iter" in limit:
        np.testing.assert_array_equal(found.n_iter_, 2)


@every
def test_no_steps_at_all(name, overlapping):
    X, y = overlapping
    with pytest.warns(ConvergenceWarning):
        found = model(name, max_iter=0).fit(X, y)
    assert found.predict(X).shape == (150,)
    assert np.isfinite(found.decision_function(X)).all()


@pytest.mark.parametrize("data", ["overlapping", "three_classes"])
@exact
def test_warm_start_goes_on_to_the_same_end(name, data, request):
    X, y = request.getfixturevalue(data)
    wanted = fit(name, X, y, C=10.0)
    began = model(name, C=10.0, warm_start=True, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        began.fit(X, y)
    same(began.set_params(max_iter=-1).fit(X, y), wanted, X)


@pytest.mark.parametrize("name", ["smo", "coordinate", "coordinate, no offset", "primal"])
def test_warm_start_at_the_end_takes_no_steps(name, overlapping):
    found = model(name, warm_start=True).fit(*overlapping)
    first = found.n_iter_[0]
    assert found.fit(*overlapping).n_iter_[0] <= 2 < first


@pytest.mark.parametrize("name", RATES)
def test_a_rate_goes_on_from_where_it_was(name, overlapping):
    X, y = overlapping
    found = fit(name, X, y, warm_start=True, max_iter=20)
    half = found.objective_
    with pytest.warns(ConvergenceWarning):
        found.fit(X, y)
    way = 1 if "coordinate" in name else -1
    assert way * found.objective_ > way * half
    if "coordinate" in name:
        same(found, fit(name, X, y, max_iter=40), X)


@pytest.mark.parametrize("name", ["coordinate", "primal"])
def test_warm_start_from_another_solver(name, overlapping):
    X, y = overlapping
    began = SVC(gamma=0.3, warm_start=True).fit(X, y)
    same(began.set_params(**model(name, warm_start=True).get_params()).fit(X, y), fit(name, X, y), X)


@pytest.mark.parametrize("C", [0.01, 100.0])
@exact
def test_warm_start_with_another_penalty(name, C, overlapping):
    X, y = overlapping
    began = model(name, warm_start=True).fit(X, y)
    same(began.set_params(C=C).fit(X, y), fit(name, X, y, C=C), X, atol=1e-3)


class Interrupting:
    """The RBF kernel, interrupted in one of its calls."""

    def __init__(self, when):
        self.calls, self.when = 0, when

    def __call__(self, X, Z):
        self.calls += 1
        if self.calls == self.when:
            raise KeyboardInterrupt
        return rbf_kernel(X, Z, gamma=0.3)


@pytest.mark.parametrize("share", [0.1, 0.9])
@exact
def test_an_interrupted_fit_goes_on(name, share, three_classes):
    X, y = three_classes
    whole = Interrupting(0)
    wanted = fit(name, X, y, kernel=whole, C=10.0)
    began = model(name, kernel=Interrupting(max(1, int(share * whole.calls))), C=10.0, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        began.fit(X, y)
    assert not began.__sklearn_is_fitted__()
    same(began.fit(X, y), wanted, X)


class Recorder:
    """Keeps the objective of every model on the way; may stop after some, or interrupt."""

    def __init__(self, stop_after=np.inf, interrupt_after=np.inf):
        self.stop_after, self.interrupt_after, self.seen = stop_after, interrupt_after, []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.parent is None:
            return False
        self.seen.append(fitted_estimator.objective_)
        assert np.isfinite(fitted_estimator.decision_function(self.rows)).all()
        if len(self.seen) >= self.interrupt_after:
            raise KeyboardInterrupt
        return len(self.seen) >= self.stop_after


def observed(name, recorder, X, y, **parameters):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    recorder.rows = X[:5]
    return model(name, **parameters).set_callbacks(recorder)


@every
def test_callbacks_see_models_that_can_predict_and_do_not_change_them(name, overlapping):
    X, y = overlapping
    recorder = Recorder()
    watched = observed(name, recorder, X, y)
    wanted = fit(name, X, y)
    if name in RATES:
        with pytest.warns(ConvergenceWarning):
            watched.fit(X, y)
    else:
        watched.fit(X, y)
    assert len(recorder.seen) == len(watched.history_["violation"])
    # The model that a callback sees may need rows sooner, which are then computed with others, and rounded otherwise.
    np.testing.assert_allclose(watched.dual_coef_, wanted.dual_coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["primal", *RATES])
def test_a_callback_can_stop_or_interrupt_the_fit(name, overlapping):
    X, y = overlapping
    recorder = Recorder(stop_after=2)
    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped = observed(name, recorder, X, y).fit(X, y)
    assert stopped.stop_reason_ == "callback"
    assert len(recorder.seen) == 2
    assert np.isfinite(stopped.decision_function(X)).all()
    with pytest.raises(KeyboardInterrupt):
        observed(name, Recorder(interrupt_after=2), X, y).fit(X, y)
    assert not [thread for thread in threading.enumerate() if "reader" in thread.name]
