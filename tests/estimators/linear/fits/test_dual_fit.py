"""Runs of dual coordinate ascent: windows of a file, merged samples, resumed fits and warm starts."""

import pickle
import threading
import warnings

import numpy as np
import pytest
from linear_svms import (
    COUPLED,
    LOSSES,
    assert_same,
    data_of,
    made,
    objectives,
)
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fastsvm.solvers.linear_dual.dense_epochs import DenseEpochs
from fastsvm.solvers.linear_dual.epochs import SparseEpochs
from fastsvm.tuning import changed, tuned


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_windows_visited_as_often_as_asked_for_give_the_same_bits(layout, three, stored):
    X, y = three[0][:60], three[1][:60]
    data = stored(layout(X), y)
    parameters = {"C": 0.1, "memory": 3000, "tol": 1e-3}
    models = [made("hinge", window_visits=n, **parameters).fit(data) for n in (1, 3, 3)]
    assert_same(models[1], models[2])
    assert not np.array_equal(models[0].coef_, models[1].coef_)
    assert models[0].objective_ == pytest.approx(models[1].objective_, rel=2e-3)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_an_epoch_reads_the_file_once(layout, three, stored):
    X, y = three
    data = stored(layout(X), y)
    data.X.reads.nbytes = 0
    model = made("hinge", memory=6000, tol=1e-3, window_visits=2).fit(data)
    read = np.diff(model.history_["bytes_read"])
    once = data.X.read(0, 120).nbytes
    extra = 8 * len(list(data.X.spans())) if layout is sparse.csr_array else 0
    assert len(read) > 5
    assert ((read[:-1] >= once) & (read[:-1] <= once + extra)).all()  # the last may have certified


LAYOUTS = [np.asarray, sparse.csr_array]


@pytest.mark.parametrize(("name", "layout"), [(name, LAYOUTS[i % 2]) for i, name in enumerate(LOSSES)])
def test_a_weight_counts_as_so_many_rows(name, layout, request):
    X, y = data_of(name, request)
    count = np.random.default_rng(0).integers(0, 4, 120)
    weighted = made(name).fit(layout(X), y, sample_weight=2.0 * count)
    repeated = made(name, C=2.0).fit(layout(np.repeat(X, count, axis=0)), np.repeat(y, count))
    if name not in COUPLED:  # solved to rounding error, so that nothing is merged
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
        assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-12)
        return
    assert_same(weighted, repeated)
    assert weighted.objective_ == repeated.objective_


@pytest.mark.usefixtures("unmerged")
def test_repeated_rows_that_are_not_merged(three):
    X, y = three
    count = np.random.default_rng(0).integers(0, 4, 120)
    weighted = made("crammer_singer").fit(X, y, sample_weight=2.0 * count)
    repeated = made("crammer_singer", C=2.0).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-7)


@pytest.mark.parametrize(("name", "layout"), [("hinge", np.asarray), ("weston_watkins", sparse.csr_array)])
@pytest.mark.usefixtures("unmerged")
def test_rows_of_weight_zero_are_left_out(name, layout, three):
    X, y = three
    weight = (np.arange(120) % 3 > 0) * 1.0
    wanted = made(name, C=0.1).fit(layout(X[weight > 0]), y[weight > 0])
    model = made(name, C=0.1).fit(layout(X), y, sample_weight=weight)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-7)
    few = made(name, tol=1e-2).fit(layout(X), y, sample_weight=(y > 0) * 1.0)
    assert few.classes_.tolist() == [1, 2]


class Interrupted:
    """Visits to windows of all fits, interrupted before, within or after one of them."""

    def __init__(self, patch, when, where="before"):
        self.count = 0
        for kind in (DenseEpochs, SparseEpochs):
            patch.setattr(kind, "process", self.interrupting(kind.process, when, where))

    def interrupting(self, visit, when, where):
        def interrupted(visits, window, path, seed):
            self.count += 1
            if self.count != when:
                return visit(visits, window, path, seed)
            if where == "within":  # as if some of the steps had been taken, and their weights forgotten
                half = len(window.places) // 2
                before = [np.copy(part) for part in path[:3]]
                first = window._replace(places=window.places[:half], rows=window.rows[:half])
                visit(visits, first, path, seed)
                for part, value in zip(path[:3], before, strict=True):
                    part[:] = value
            if where == "after":
                visit(visits, window, path, seed)
            raise KeyboardInterrupt

        return interrupted


WHERE = ["memory", "file", "CSR", "CSR file"]


def everywhere(names, times):
    """Return each name with each place of the rows, and the times in turn."""
    return [(name, where, times[(i + j) % 2]) for i, name in enumerate(names) for j, where in enumerate(WHERE)]


def rows_at(where, X, stored):
    rows = sparse.csr_array(X * (np.abs(X) > 0.5)) if "CSR" in where else X
    return stored(rows) if "file" in where else rows


@pytest.fixture
def by_epochs():
    """Let sparse rows be learnt by epochs, not by rounds."""
    with tuned(changed({"linear": {"rounds": False}})):
        yield


@pytest.mark.usefixtures("by_epochs")
@pytest.mark.parametrize(("name", "where", "when"), everywhere(["hinge", "crammer_singer"], [2, 9]))
def test_an_interrupted_fit_resumes_to_the_same_model(name, where, when, request, stored, monkeypatch):
    X, y = data_of(name, request)
    rows = rows_at(where, X, stored)
    parameters = {"C": 0.1, "tol": 1e-3, "memory": 6000}
    wanted = made(name, **parameters).fit(rows, y)
    model = made(name, warm_start=True, **parameters)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, when)
        model.fit(rows, y)
    with pytest.raises(NotFittedError):
        model.predict(rows)
    model = pickle.loads(pickle.dumps(model)).fit(rows, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-3)
    assert model.converged_
    assert model.objective_ - model.dual_objective_ == model.duality_gap_
    np.testing.assert_array_equal(model.history_["epoch"], np.arange(1, model.n_iter_ + 1))


@pytest.mark.parametrize(
    ("name", "where", "place"), everywhere(["squared_hinge", "weston_watkins"], ["within", "after"])[:-1]
)
def test_incomplete_steps_are_repaired(name, where, place, three, stored, monkeypatch):
    X, y = three
    rows = rows_at(where, X, stored)
    wanted = made(name, C=0.1, tol=1e-5).fit(rows, y)
    model = made(name, C=0.1, tol=1e-5, warm_start=True, memory=6000)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 12, place)
        model.fit(rows, y)
    model.fit(rows, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-5)


def test_an_interrupt_leaves_no_reader(three, stored, monkeypatch):
    X, y = three
    data = stored(X, y)
    with monkeypatch.context() as patch:
        Interrupted(patch, 5)
        with pytest.raises(KeyboardInterrupt) as error:  # which keeps what the fit had
            made("hinge", memory=6000).fit(data)
    assert error.tb
    assert not [thread for thread in threading.enumerate() if "reader" in thread.name]


def test_an_interrupted_fit_begins_again_without_a_warm_start(three, monkeypatch):
    model = made("crammer_singer", tol=1e-3)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 4)
        model.fit(*three)
    wanted = made("crammer_singer", tol=1e-3).fit(*three)
    assert_same(model.fit(*three), wanted)
    assert model.n_iter_ == wanted.n_iter_


@pytest.mark.parametrize("name", LOSSES)
def test_a_fit_out_of_epochs_resumes(name, request):
    X, y = data_of(name, request)
    wanted = made(name, tol=1e-6).fit(X, y)
    model = made(name, tol=1e-6, warm_start=True, max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        assert (model.n_iter_, model.stop_reason_) == (2, "max_iter")
        model.fit(X, y)  # no epochs are left
        assert model.n_iter_ == 2
    model.set_params(max_iter=20_000).fit(X, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_array_equal(model.history_["epoch"], np.arange(1, model.n_iter_ + 1))


def test_a_fit_out_of_time_resumes(three, stored):
    X, y = three[0][:60], three[1][:60]
    data = stored(X, y)
    given = {"C": 0.1, "tol": 1e-2}
    model = made("hinge", memory=3000, warm_start=True, max_time=1e-9, **given)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        while not model.fit(data).converged_:
            count += 1
            assert model.stop_reason_ == "max_time"
            assert model.duality_gap_ > 0
            assert count < 5000
    assert count > model.n_iter_  # several windows an epoch
    assert model.objective_ == pytest.approx(made("hinge", **given).fit(X, y).objective_, rel=2e-2)


@pytest.mark.parametrize("name", LOSSES)
def test_the_next_fit_begins_near_the_last(name, request):
    X, y = data_of(name, request)
    model = made(name, tol=1e-5, warm_start=True).fit(X, y)
    n = model.n_iter_
    assert model.fit(X, y).n_iter_ < n
    for change in ({"C": 1.3}, {"C": 0.5}, {"intercept_scaling": 2.0}):
        model.set_params(**change).fit(X, y)
        fresh = made(name, tol=1e-5, **{key: getattr(model, key) for key in ("C", "intercept_scaling")}).fit(X, y)
        assert model.objective_ == pytest.approx(fresh.objective_, rel=2e-5)
        assert model.converged_


def test_a_warm_start_of_other_rows_does_no_harm(two, three, line):
    model = made("hinge", warm_start=True).fit(*three)
    for X, y in (two, (three[0], (three[1] + 1) % 3), (three[0][:50], three[1][:50]), (three[0][:, :2], three[1])):
        wanted = made("hinge").fit(X, y)
        assert model.fit(X, y).objective_ == pytest.approx(wanted.objective_, rel=2e-7)
    for loss, multi_class in (("squared_hinge", "ovr"), ("hinge", "crammer_singer"), ("hinge", "weston_watkins")):
        model.set_params(loss=loss, multi_class=multi_class).fit(*three)
        wanted = made(loss if multi_class == "ovr" else multi_class).fit(*three)
        assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-7)
    weight = np.random.default_rng(0).exponential(size=120) * (np.arange(120) % 5 > 0)
    wanted = made("weston_watkins").fit(*three, sample_weight=weight)
    assert model.fit(*three, sample_weight=weight).objective_ == pytest.approx(wanted.objective_, rel=2e-7)
    regression = made("epsilon_insensitive", warm_start=True).fit(*line)
    regression.set_params(C=0.1, loss="squared_epsilon_insensitive").fit(line[0], -line[1])
    wanted = made("squared_epsilon_insensitive", C=0.1).fit(line[0], -line[1])
    assert regression.objective_ == pytest.approx(wanted.objective_, rel=2e-7)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("changed", ["row", "label", "weight"])
def test_a_fit_of_changed_data_is_not_resumed(changed, layout):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(400, 3)), rng.integers(0, 2, 400), np.ones(400)
    model = made("hinge", tol=1e-9, warm_start=True, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(layout(X), y, sample_weight=weight)
    {"row": X[:, 0], "label": y, "weight": weight}[changed][201] = 0
    y[200] = 1 - y[201]
    model.set_params(max_iter=20_000, tol=1e-6).fit(layout(X), y, sample_weight=weight)
    wanted = made("hinge", tol=1e-6).fit(layout(X), y, sample_weight=weight)
    assert model.converged_ and model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)


@pytest.mark.parametrize(("name", "factor"), [(name, (1e-2, 1e2)[i % 2]) for i, name in enumerate(LOSSES)])
def test_variables_for_rows_scaled_otherwise_are_not_worse_than_none(name, factor, request):
    X, y = data_of(name, request)
    model = made(name, warm_start=True, tol=1e-3).fit(X, y)
    again = model.fit(factor * X, y)
    fresh = made(name, tol=1e-3, warm_start=True).fit(factor * X, y)  # by epochs, as those that begin there
    assert again.converged_ and again.n_iter_ <= 2 * fresh.n_iter_ + 10


def test_windows_of_few_rows_do_not_take_more_epochs(stored):
    rng = np.random.default_rng(0)
    X = sparse.random_array((40_000, 60), density=0.2, rng=rng).tocsr()
    y = (X @ rng.normal(size=60) + 0.3 * rng.normal(size=40_000) > 0).astype(int)
    in_memory = made("hinge", tol=1e-3).fit(X, y)
    with tuned(changed({"storage": {"block_bytes": 4 << 20}})):
        data = stored(X, y)
        assert data.X.block_rows > 2000
    streamed = made("hinge", tol=1e-3, memory="4MB", window_visits=1).fit(data)
    assert streamed.n_iter_ <= 1.5 * in_memory.n_iter_ + 3


@pytest.mark.parametrize("name", ["hinge", "weston_watkins"])
def test_the_weights_of_the_last_epoch_from_a_file_are_evaluated(name, three, stored):
    data, found = stored(*three), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for n in (2, 3):
            found.append(made(name, memory=6000, window_visits=1, tol=1e-9, max_iter=n).fit(data))
    few, more = found
    assert few.objective_ == pytest.approx(more.history_["objective"][2], rel=1e-9)
    assert few.objective_ <= more.history_["objective"][1] * (1 + 1e-12)
    assert objectives(name, few, *three).sum() == pytest.approx(few.objective_, rel=1e-9)
