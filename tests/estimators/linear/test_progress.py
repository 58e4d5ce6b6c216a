"""Progress of linear machines: history and callbacks."""

import numpy as np
import pytest
from linear_svms import assert_same, data_of, made
from scipy import sparse
from sgd_models import made_sgd
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SGDClassifier


def test_the_history_has_a_row_an_epoch(three):
    model = made("crammer_singer").fit(*three)
    history, n = model.history_, model.n_iter_
    assert history.keys() == {"epoch", "time", "objective", "dual_objective", "gap", "bytes_read"}
    assert {len(column) for column in history.values()} == {n}
    np.testing.assert_array_equal(history["epoch"], np.arange(1, n + 1))
    assert (np.diff(history["time"]) > 0).all()
    assert (np.diff(history["objective"]) <= 0).all() and (np.diff(history["gap"]) <= 0).all()
    assert history["objective"][-1] == pytest.approx(model.objective_, rel=1e-9)
    assert history["dual_objective"][-1] == pytest.approx(model.dual_objective_, rel=1e-9)
    assert history["gap"][-1] <= 1e-7
    assert (history["dual_objective"] <= model.objective_).all()
    assert not history["bytes_read"].any()


class Recorder:
    """Sees every epoch, and may stop after some."""

    def __init__(self, rows, stop_after, method):
        self.rows, self.stop_after, self.method, self.seen = rows, stop_after, method, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.parent is None:
            return False
        self.seen.append(getattr(fitted_estimator, self.method)(self.rows))
        return len(self.seen) >= self.stop_after


def recorded(model, rows, y, stop_after=np.inf, method="predict"):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    recorder = Recorder(rows, stop_after, method)
    model.set_callbacks(recorder).fit(rows, y)
    return recorder.seen


@pytest.mark.parametrize("name", ["crammer_singer", "weston_watkins"])
def test_a_task_for_every_epoch(name, request):
    X, y = data_of(name, request)
    model = made(name, tol=1e-3)
    seen = recorded(model, X, y)
    assert len(seen) == model.n_iter_
    np.testing.assert_array_equal(seen[-1], model.predict(X))
    assert_same(model, made(name, tol=1e-3).fit(X, y))


def test_a_callback_may_stop_and_the_next_fit_resumes(three):
    X, y = three
    model = made("hinge", warm_start=True)
    with pytest.warns(ConvergenceWarning, match=r"\(callback\).*What to try: resume with warm_start=True\.$"):
        assert len(recorded(model, X, y, stop_after=2)) == 2
    assert (model.stop_reason_, model.n_iter_, model.converged_) == ("callback", 2, False)
    model.set_callbacks().fit(X, y)
    assert model.converged_ and model.n_iter_ > 2
    assert model.objective_ == pytest.approx(made("hinge").fit(X, y).objective_, rel=2e-7)


COLUMNS = {"epoch", "time", "steps", "objective", "rate", "validation_score", "bytes_read"}


def test_the_history_of_sgd_has_a_row_an_epoch(two_300):
    model = made_sgd("log_loss", batch_size=25, learning_rate="constant", eta0=0.1, max_iter=9, tol=None).fit(*two_300)
    history, n = model.history_, model.n_iter_
    assert history.keys() == COLUMNS
    assert {len(column) for column in history.values()} == {n}
    np.testing.assert_array_equal(history["epoch"], np.arange(1, n + 1))
    np.testing.assert_array_equal(history["steps"], 12 * np.arange(1, n + 1))
    np.testing.assert_array_equal(history["rate"], 0.1)
    assert (np.diff(history["time"]) > 0).all()
    assert np.isnan(history["validation_score"]).all()
    assert model.t_ == 12 * n + 1
    assert history["objective"][-1] == pytest.approx(model.objective_, rel=0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_task_for_every_epoch_with_the_weights_of_then(two_300):
    X, y = two_300
    seen = recorded(SGDClassifier(random_state=0, max_iter=4, tol=None), X, y, method="decision_function")
    assert len(seen) == 4
    for n_epochs, scores in enumerate(seen, 1):
        wanted = SGDClassifier(random_state=0, max_iter=n_epochs, tol=None).fit(X, y).decision_function(X)
        np.testing.assert_array_equal(scores, wanted)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_callback_may_stop_sgd_and_the_next_fit_resumes(two_300):
    X, y = two_300
    wanted = SGDClassifier(random_state=0, max_iter=6, tol=None).fit(X, y)
    model = SGDClassifier(random_state=0, max_iter=6, tol=None, warm_start=True)
    assert len(recorded(model, X, y, stop_after=2)) == 2
    assert (model.stop_reason_, model.n_iter_, model.converged_) == ("callback", 2, False)
    model.set_callbacks().fit(X, y)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fewer_epochs_than_were_done_are_none(two_300):
    X, y = two_300
    model = SGDClassifier(random_state=0, max_iter=6, tol=None, warm_start=True)
    recorded(model, X, y, stop_after=3)
    before = model.coef_
    model.set_callbacks().set_params(max_iter=2).fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_callbacks_do_not_change_sparse_fits_with_an_l1_penalty():
    rng = np.random.default_rng(0)
    X, y = sparse.random_array((500, 300), density=0.02, rng=rng).tocsr(), rng.integers(0, 2, 500)
    parameters = {"penalty": "l1", "alpha": 0.003, "random_state": 0, "max_iter": 10, "tol": None}
    model = SGDClassifier(**parameters)
    recorded(model, X, y)
    np.testing.assert_array_equal(model.coef_, SGDClassifier(**parameters).fit(X, y).coef_)
