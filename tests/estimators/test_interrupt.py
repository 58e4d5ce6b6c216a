"""Fits that are interrupted, by a signal or by an exception, and fits that callbacks observe and stop."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import SVC, LinearOneClassSVM, LinearSVC
from fastsvm.estimators.fitting.session import checkpointed
from fastsvm.tuning import changed, tuned


class Sigint:
    """A checkpointer that has SIGINT sent by another thread after some steps, while the fit takes the next one.

    Python ignores a KeyboardInterrupt within a weak reference's callback, of which h5py has many. If the fit takes ten
    more steps, the signal is sent again.
    """

    def __init__(self, after):
        self.n_steps, self.sent_at = 0, None
        self._next, self._due = after, threading.Event()
        threading.Thread(target=self._send, daemon=True).start()

    def observe(self, tree, facts):
        self.n_steps += 1
        if self.n_steps == self._next:
            self._next += 10
            self._due.set()

    def _send(self):
        while self._due.wait(60):
            self._due.clear()
            self.sent_at = self.n_steps
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interrupt(stored, choose):
    """Return a function that fits a model, has it interrupted after some steps, and returns the `Sigint`."""
    choose(storage={"block_bytes": 1 << 16})
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest may run where it is ignored

    def fit(model, *data, after=4):
        sigint = Sigint(after)
        with checkpointed(model, sigint), pytest.raises(KeyboardInterrupt):
            model.fit(*data)
        return sigint

    yield fit
    signal.signal(signal.SIGINT, handler)


def assert_no_reader():
    readers = [thread for thread in threading.enumerate() if "reader" in thread.name]
    end = time.perf_counter() + 60
    while any(thread.is_alive() for thread in readers) and time.perf_counter() < end:
        time.sleep(0.01)
    assert not any(thread.is_alive() for thread in readers)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the callbacks
@pytest.mark.parametrize("where", ["memory", "file"])
def test_sigint_ends_a_kernel_fit_within_a_step(where, interrupt, stored):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 200))
    y = (X[:, :5].sum(axis=1) + 2 * rng.normal(size=3000) > 0).astype(int)
    data = (X, y) if where == "memory" else (stored(X, y),)
    model = SVC(gamma=0.005, C=1000.0, tol=1e-6, memory="4MB")
    sigint = interrupt(model, *data)
    assert sigint.n_steps - sigint.sent_at <= 1
    with pytest.raises(NotFittedError):
        model.predict(X[:2])
    assert_no_reader()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the callbacks
@pytest.mark.parametrize(("kind", "where"), [
    (LinearSVC(loss="hinge"), "memory"),
    (LinearSVC(loss="hinge"), "file"),
    (LinearOneClassSVM(nu=0.1), "file"),  # it takes a few rounds
])  # fmt: skip
def test_sigint_ends_a_linear_fit_within_a_step_and_it_resumes(kind, where, interrupt, stored):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    y = (X[:, :5].sum(axis=1) + 2 * rng.normal(size=2000) > 0).astype(int)
    if isinstance(kind, LinearOneClassSVM):
        X = np.abs(X)
    data = (X, y) if where == "memory" else (stored(X, y),)
    model = clone(kind).set_params(tol=1e-14, random_state=0, memory=100_000, warm_start=True, max_iter=10**6)
    sigint = interrupt(model, *data, after=2 if isinstance(kind, LinearOneClassSVM) else 50)
    assert sigint.n_steps - sigint.sent_at <= 1
    assert_no_reader()
    n_epochs = model._fit_state.state.epoch
    wanted = clone(kind).set_params(tol=0.01, random_state=0).fit(X, y)
    model.set_params(tol=0.01).fit(*data)
    assert model.history_["epoch"][0] == 1
    assert model.n_iter_ >= n_epochs > 0
    assert model.objective_ == pytest.approx(wanted.objective_, rel=0.01)


class Interrupting:
    """The RBF kernel, interrupted in one of its calls."""

    def __init__(self, when):
        self.calls, self.when = 0, when

    def __call__(self, X, Z):
        self.calls += 1
        if self.calls == self.when:
            raise KeyboardInterrupt
        return rbf_kernel(X, Z, gamma=0.5)


@pytest.mark.parametrize(
    ("data", "share"),
    [*((data, share) for data in ("overlapping", "three_classes") for share in (0.1, 0.9)), ("rows", 0.5)],
)
def test_an_interrupted_fit_resumes(data, share, request):
    X, y = request.getfixturevalue(data)
    whole = Interrupting(0)
    wanted = SVC(kernel=whole, tol=1e-6, C=10.0).fit(X, y)
    model = SVC(kernel=Interrupting(max(1, int(share * whole.calls))), tol=1e-6, C=10.0, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    model.fit(X, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-4)


def test_an_interrupted_fit_does_not_begin_again(rows):
    X, y = rows
    whole = Interrupting(0)
    wanted = SVC(kernel=whole, C=10.0).fit(X, y)
    model = SVC(kernel=Interrupting(int(0.8 * whole.calls)), C=10.0, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    model.fit(X, y)
    assert model.history_["objective"][0] > 0.5 * wanted.objective_


def test_a_second_interrupt_keeps_what_was_reached(three_classes):
    X, y = three_classes
    model = SVC(kernel=Interrupting(0), C=10.0, warm_start=True).fit(X, y)
    model.set_params(kernel=Interrupting(1))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    model.fit(X, y)
    assert model.n_iter_.sum() <= 10


# --- callbacks -------------------------------------------------------------------------------------------


@pytest.fixture
def rows():
    """Return rows of a fit that has several outer iterations."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3500, 4))
    with tuned(changed({"kernel": {"set_steps": 1}})):
        yield X, (X[:, 0] + 0.5 * rng.normal(size=3500) > 0).astype(int)


class Recorder:
    """Sees every task; may stop after some, or raise."""

    def __init__(self, stop_after=np.inf, error_after=np.inf):
        self.stop_after, self.error_after = stop_after, error_after
        self.calls, self.scores, self.tasks, self.n_iter = [], [], [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.calls.append(f"end {context.task_name}")
        if context.parent is None:
            self.last = fitted_estimator
            return False
        self.tasks.append(context.task_id)
        self.scores.append(fitted_estimator.predict(self.rows).shape)
        self.last_objective = fitted_estimator.objective_
        self.n_iter.append(fitted_estimator.n_iter_)
        if len(self.tasks) >= self.error_after:
            raise RuntimeError("mine")
        return len(self.tasks) >= self.stop_after


def fit(recorder, X, y, **parameters):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    recorder.rows = X[:5]
    return SVC(**parameters).set_callbacks(recorder).fit(X, y)


def test_one_task_an_outer_iteration(rows):
    recorder = Recorder()
    model = fit(recorder, *rows)
    n = len(model.history_["violation"])
    assert n > 3
    assert recorder.tasks == list(range(n))
    inner = ["begin outer iteration", "end outer iteration"] * n
    assert recorder.calls == ["setup", "begin fit", *inner, "end fit", "teardown"]


def test_the_model_of_every_iteration_can_predict(rows):
    recorder = Recorder()
    model = fit(recorder, *rows)
    assert recorder.scores == [(5,)] * len(recorder.tasks)
    assert recorder.last_objective == pytest.approx(model.objective_, rel=1e-9)
    np.testing.assert_array_equal(recorder.last.predict(rows[0]), model.predict(rows[0]))
    np.testing.assert_array_equal(np.concatenate(recorder.n_iter), model.history_["iteration"])


def test_callbacks_do_not_change_the_model(rows):
    model = fit(Recorder(), *rows)
    np.testing.assert_array_equal(model.dual_coef_, SVC().fit(*rows).dual_coef_)


def test_a_callback_can_stop_the_fit(rows):
    recorder = Recorder(stop_after=2)
    with pytest.warns(Warning, match="callback"):
        model = fit(recorder, *rows)
    assert len(recorder.tasks) == 2
    assert model.stop_reason_ == "callback"
    assert not model.converged_
    assert model.predict(rows[0]).shape == (3500,)


def test_a_stop_holds_for_all_problems(three_classes):
    recorder = Recorder(stop_after=1)
    with pytest.warns(Warning, match="callback"):
        model = fit(recorder, *three_classes, tol=1e-12)
    assert len(recorder.tasks) == 1
    assert model.predict(three_classes[0]).shape == (120,)


def test_the_models_on_the_way_to_several_classes_can_predict(three_classes):
    recorder = Recorder()
    fit(recorder, *three_classes)
    assert len(recorder.tasks) >= 3


def test_an_error_in_a_callback_ends_the_fit(rows):
    recorder = Recorder(error_after=2)
    with pytest.raises(RuntimeError, match="mine"):
        fit(recorder, *rows)
    assert recorder.calls[-1] == "teardown"


def test_a_stopped_fit_resumes(rows):
    recorder = Recorder(stop_after=2)
    with pytest.warns(Warning, match="callback"):
        model = fit(recorder, *rows, warm_start=True, tol=1e-6)
    model.set_callbacks().fit(*rows)
    assert model.converged_
    assert model.objective_ == pytest.approx(SVC(tol=1e-6).fit(*rows).objective_, rel=1e-8)
