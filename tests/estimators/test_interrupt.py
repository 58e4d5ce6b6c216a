import json

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import SVC

PROGRAM = """
import json, os, signal, threading, time
import h5py, numpy as np
from sklearn.exceptions import NotFittedError
from fastsvm import SVC, open_hdf5

rng = np.random.default_rng(0)
X = rng.normal(size=(20000, 40))
y = (X[:, :5].sum(axis=1) + 2 * rng.normal(size=20000) > 0).astype(int)
parameters = dict(gamma=0.02, C=1000.0, tol=1e-4, memory="60MB")
SVC(gamma=0.02, memory="4MB").fit(X[:1100], y[:1100])  # code is compiled before the clock runs
with h5py.File("data.h5", "w") as file:
    file["X"], file["y"] = X, y

def interrupted(rows):
    model, sent, report = SVC(**parameters), [], {}
    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(1.0, interrupt).start()
    try:
        model.fit(rows, y)
    except KeyboardInterrupt:
        report["seconds"] = time.perf_counter() - sent[0]
    try:
        model.predict(X[:2])
    except NotFittedError:
        report["unfitted"] = True
    except AttributeError:
        report["unfitted"] = False
    end = time.perf_counter() + 10  # a machine that is busy lets them end late
    while (left := [one.name for one in threading.enumerate() if "reader" in one.name]) and time.perf_counter() < end:
        time.sleep(0.05)
    report["readers"] = left
    return report

with open_hdf5("data.h5") as data:
    print(json.dumps({"memory": interrupted(X), "file": interrupted(data)}))
"""


@pytest.fixture(scope="module")
def reports(python, tmp_path_factory):
    return json.loads(python.run(PROGRAM, tmp_path_factory.mktemp("interrupt")))


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_interrupt_ends_the_fit_at_once(where, reports):
    assert reports[where]["seconds"] < 1.0


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_interrupted_estimator_is_not_fitted(where, reports):
    assert reports[where].get("unfitted")


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_interrupt_leaves_no_reader(where, reports):
    assert reports[where]["readers"] == []


class Interrupting:
    """The RBF kernel, interrupted in one of its calls."""

    def __init__(self, when):
        self.calls, self.when = 0, when

    def __call__(self, X, Z):
        self.calls += 1
        if self.calls == self.when:
            raise KeyboardInterrupt
        return rbf_kernel(X, Z, gamma=0.5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("data", ["overlapping", "three_classes", "rows"])
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
    """Return more rows than one working set holds."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3500, 4))
    return X, (X[:, 0] + 0.5 * rng.normal(size=3500) > 0).astype(int)


class Recorder:
    """Sees every task; may stop after some, or raise."""

    def __init__(self, stop_after=np.inf, error_after=np.inf):
        self.stop_after, self.error_after = stop_after, error_after
        self.calls, self.scores, self.tasks = [], [], []

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
    n = len(model.history_["gap"])
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


# --- linear models ---------------------------------------------------------------------------------------

LINEAR = """
import json, os, signal, threading, time
import h5py, numpy as np
from fastsvm import LinearSVC, open_hdf5

rng = np.random.default_rng(0)
X = rng.normal(size=(40000, 60)).astype(np.float32)
y = (X[:, :5].sum(axis=1) + 2 * rng.normal(size=40000) > 0).astype(int)
parameters = dict(loss="hinge", tol=1e-9, random_state=0, memory="4MB", warm_start=True, max_iter=10**6)
with h5py.File("data.h5", "w") as file:
    file["X"], file["y"] = X, y

def interrupted(rows):
    LinearSVC(loss="hinge", tol=0.1, memory="4MB").fit(rows, y)  # code is compiled before the clock runs
    model, sent, report = LinearSVC(**parameters), [], {}
    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(1.0, interrupt).start()
    try:
        model.fit(rows, y)
    except KeyboardInterrupt:
        report["seconds"] = time.perf_counter() - sent[0]
    end = time.perf_counter() + 10  # a machine that is busy lets them end late
    while (left := [one.name for one in threading.enumerate() if "reader" in one.name]) and time.perf_counter() < end:
        time.sleep(0.05)
    report["readers"] = left
    report["epochs"] = model._fit_state.state.epoch
    wanted = LinearSVC(loss="hinge", tol=0.01, random_state=0).fit(X, y)
    model.set_params(tol=0.01).fit(rows, y)
    report["same"] = [model.objective_, wanted.objective_]
    report["first"], report["ends"] = int(model.history_["epoch"][0]), model.n_iter_
    return report

with open_hdf5("data.h5") as data:
    print(json.dumps({"memory": interrupted(X), "file": interrupted(data)}))
"""


@pytest.fixture(scope="module")
def linear_reports(python, tmp_path_factory):
    return json.loads(python.run(LINEAR, tmp_path_factory.mktemp("interrupt_linear")))


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_interrupted_linear_fit_ends_at_once_and_resumes(where, linear_reports):
    report = linear_reports[where]
    assert report["seconds"] < 1.0
    assert report["readers"] == []
    assert report["first"] == 1
    assert report["ends"] >= report["epochs"] > 0
    assert report["same"][0] == pytest.approx(report["same"][1], rel=0.01)
