"""Runs of SGD: samples in memory and in files, validation sets, resumed fits."""

import pickle
import threading
import warnings

import numpy as np
import pytest
from linear_svms import assert_same
from scipy import sparse
from sgd_models import made_sgd
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fastsvm import SGDClassifier, SGDRegressor
from fastsvm.estimators.linear import sgd_fit
from fastsvm.solvers.sgd.solver import SGD
from fastsvm.sources import ScaledSource, as_source


@pytest.mark.parametrize("loss", ["hinge", "softmax"])
def test_rows_in_any_layout_give_the_same_model(loss, three_300, stored):
    X, y = three_300
    parameters = {"max_iter": 5, "tol": None}
    wanted = made_sgd(loss, **parameters).fit(X, y)
    narrow = sparse.csr_array(X)
    for rows in (narrow, sparse.csr_matrix(X), np.asfortranarray(X), X.tolist()):
        model = made_sgd(loss, **parameters).fit(rows, y)
        assert_same(model, wanted, 1e-12)
        np.testing.assert_allclose(model.predict(rows), wanted.predict(X), atol=1e-10)
    for rows in (stored(X), stored(narrow)):
        model = made_sgd(loss, **parameters, memory="1GB").fit(rows, y)
        assert_same(model, wanted, 1e-12)
        np.testing.assert_allclose(model.predict(rows), wanted.predict(X), atol=1e-10)


@pytest.mark.parametrize(("loss", "sparse_rows"), [("log_loss", False), ("softmax", True), ("squared_error", True)])
def test_rows_that_do_not_fit_in_memory(loss, sparse_rows, three_300, stored):
    X, y = three_300
    data = stored(sparse.csr_array(X) if sparse_rows else X, y)
    parameters = {"alpha": 0.01, "max_iter": 20, "tol": None}
    wanted = made_sgd(loss, **parameters).fit(X, y)
    model = made_sgd(loss, **parameters, memory=8000).fit(data)
    assert model.history_["bytes_read"][0] >= X.nbytes
    assert (np.diff(model.history_["bytes_read"]) >= X.nbytes).all()
    assert model.objective_ == pytest.approx(wanted.objective_, rel=0.003)
    assert model.score(data) == pytest.approx(wanted.score(X, y), abs=0.02)


def test_labels_that_come_with_the_rows(three_300, stored):
    X, y = three_300
    data = stored(X, np.array(["a", "b", "c"], object)[y])
    model = made_sgd("hinge").fit(data)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(data) == model.score(X, np.array(["a", "b", "c"])[y]) > 0.7


def test_bytes_that_are_scaled_are_standardised_rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = np.clip(rng.normal(120, 40, (400, 6)) + 40 * np.eye(6)[y], 0, 255).astype(np.uint8)
    shift, scale = X.mean(axis=0), 1 / X.std(axis=0)
    parameters = {"max_iter": 5, "tol": None}
    scaled = ScaledSource(as_source(X), shift, scale)
    wanted = made_sgd("hinge", **parameters).fit((X - shift) * scale, y)
    model = made_sgd("hinge", **parameters).fit(scaled, y)
    assert_same(model, wanted, 2e-5)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-5)
    np.testing.assert_allclose(
        model.decision_function(scaled), wanted.decision_function((X - shift) * scale), atol=1e-4
    )


def test_a_fit_ends_when_time_is_over(two_300):
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = made_sgd("log_loss", max_time=1e-6).fit(*two_300)
    assert model.stop_reason_ == "max_time"
    assert model.n_iter_ == model.n_iter_no_change // 2  # few rows have several epochs in a window
    assert model.predict(two_300[0]).shape == (300,)


@pytest.fixture
def held_out(monkeypatch):
    """Return a list to which the rows that fits hold out are added."""
    found, held_out = [], sgd_fit._held_out

    def spy(*arguments):
        found.append(held_out(*arguments))
        return found[-1]

    monkeypatch.setattr(sgd_fit, "_held_out", spy)
    return found


@pytest.mark.parametrize("fraction", [0.1, 0.3])
def test_a_share_of_each_class_is_held_out(fraction, three_300, held_out):
    X, y = three_300
    made_sgd("hinge", early_stopping=True, validation_fraction=fraction).fit(X, y)
    rows = held_out[0]
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_allclose(np.bincount(y[rows]), fraction * np.bincount(y), atol=0.5)


def test_whole_blocks_of_a_file_are_held_out(three_300, stored, held_out):
    X, y = three_300
    data = stored(X, y)
    size = data.X.block_rows
    made_sgd("hinge", early_stopping=True, memory=8000, validation_fraction=0.08, max_iter=20, tol=None).fit(data)
    assert len(held_out[0]) == 24
    assert size > 3
    assert len(np.unique(held_out[0] // size)) == -(-24 // size)


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_rows_held_out_are_not_learnt_from(loss, three_300, held_out):
    X, y = three_300
    parameters = {"max_iter": 4, "tol": None, "shuffle": False, "batch_size": 8}
    made_sgd(loss, early_stopping=True, **parameters).fit(X, y)
    rows = held_out[0]
    spoiled, other = X.copy(), y.copy()
    spoiled[rows] = 0.0
    seen = []
    visit = SGD._process
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SGD, "_process", lambda *args: (seen.append(args[2].rows), visit(*args))[1])
        made_sgd(loss, early_stopping=True, **parameters).fit(X, other)
    assert not np.isin(np.concatenate(seen), rows).any()
    assert len(np.concatenate(seen)) == 4 * (300 - len(rows))


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
@pytest.mark.parametrize("data", ["two_300", "three_300"])
def test_the_weights_of_the_best_score_are_kept(data, loss, held_out, request):
    X, y = request.getfixturevalue(data)
    model = made_sgd(
        loss, early_stopping=True, validation_fraction=0.2, learning_rate="constant",
        eta0=0.05 if loss == "squared_error" else 3.0, average=False, batch_size=4, max_iter=15, tol=None,
    ).fit(X, y)  # fmt: skip
    scores = model.history_["validation_score"]
    assert len(scores) == 15
    assert scores.max() > scores[-1]
    assert model.score(X[held_out[0]], y[held_out[0]]) == pytest.approx(scores.max(), abs=1e-12)


def test_a_constant_rate_converges_by_the_validation_score(two_300):
    model = made_sgd("hinge", early_stopping=True, learning_rate="constant", eta0=0.1, max_iter=500).fit(*two_300)
    assert (model.stop_reason_, model.converged_) == ("converged", True) and model.n_iter_ < 500


def test_a_fit_ends_when_the_score_does_not_rise(two_300):
    model = made_sgd("hinge", early_stopping=True, n_iter_no_change=3).fit(*two_300)
    scores, lowest = model.history_["validation_score"], -np.inf
    stale = 0
    for score in scores:
        stale = stale + 1 if score < lowest + 1e-3 else 0
        lowest = max(lowest, score)
    assert stale == 3
    assert model.converged_


def test_too_few_rows_to_hold_out():
    X = np.arange(10.0)[:, None]
    with pytest.raises(ValueError, match="validation_fraction"):
        SGDClassifier(early_stopping=True).fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="validation_fraction"):  # of one number there is no R²
        SGDRegressor(early_stopping=True).fit(X, X[:, 0])


def test_of_small_classes_a_row_each_is_held_out():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 10
    model = SGDClassifier(early_stopping=True, random_state=0, max_iter=3, tol=None).fit(X, y)
    assert set(np.round(10 * model.history_["validation_score"], 6)) <= set(range(11))


@pytest.mark.parametrize("row", [0, 7, 150, 299])
def test_rows_that_are_not_learnt_from_must_be_finite_too(row, two_300):
    X, y = two_300
    bad, weight = X.copy(), np.ones(len(y))
    bad[row, 1], weight[row] = np.nan, 0
    with pytest.raises(ValueError, match=f"row {row},"):
        SGDClassifier("log_loss", random_state=0, max_iter=3, tol=None).fit(bad, y, sample_weight=weight)
    with pytest.raises(ValueError, match=f"row {row},"):
        SGDClassifier(early_stopping=True, random_state=0, max_iter=3, tol=None).fit(bad, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"batch_size": 7, "penalty": "elasticnet", "momentum": 0.5, "average": False},
        {"loss": "softmax", "learning_rate": "auto"},
        {"learning_rate": "adaptive", "max_iter": 50, "shuffle": False},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_several_epochs_in_a_step_have_the_bits_of_one(parameters, two_300, choose):
    together = SGDClassifier(random_state=0, **parameters).fit(*two_300)
    choose(sgd={"together": False})
    apart = SGDClassifier(random_state=0, **parameters).fit(*two_300)
    assert (together.n_iter_, together.objective_) == (apart.n_iter_, apart.objective_)
    np.testing.assert_array_equal(together.coef_, apart.coef_)
    np.testing.assert_allclose(together.loss_curve_, apart.loss_curve_, rtol=1e-12)
    for name in set(sgd_fit.SGDMonitor.COLUMNS) - {"time"}:
        np.testing.assert_allclose(
            together.history_[name], apart.history_[name], rtol=1e-6 if name == "rate" else 1e-12
        )


def test_an_interrupt_after_a_window_resumes_to_the_same_bits(two_300, monkeypatch):
    X, y = two_300
    parameters = {"random_state": 0, "max_iter": 6, "tol": None}
    wanted, visit, count = SGDClassifier(**parameters).fit(X, y), SGD._process, iter(range(100))

    def interrupted(self, state, window):
        after = visit(self, state, window)
        if next(count) == 1:
            raise KeyboardInterrupt
        return after

    monkeypatch.setattr(SGD, "_process", interrupted)
    monkeypatch.setattr(SGD, "_epochs_at_once", lambda self, state, most: 1)
    model = SGDClassifier(warm_start=True, **parameters)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, wanted.coef_)


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float16])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_other_types_are_converted_a_window_at_a_time(dtype, layout, choose):
    choose(sgd={"window_bytes": 400})
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (300, 5)), rng.integers(0, 2, 300)
    parameters = {"random_state": 0, "max_iter": 3, "tol": None}
    if dtype == np.float16 and layout is sparse.csr_array:
        pytest.skip("SciPy has no sparse arrays of float16")
    model = SGDClassifier(**parameters).fit(layout(X.astype(dtype)), y)
    wanted = SGDClassifier(**parameters).fit(layout(X.astype(np.float32 if dtype != np.int64 else float)), y)
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=0, atol=1e-6)


class Interrupted:
    """Windows of all fits, each of one epoch at most, interrupted before one of them."""

    def __init__(self, patch, when):
        patch.setattr(SGD, "_epochs_at_once", lambda self, state, most: 1)
        self.count, visit = 0, SGD._process

        def interrupted(*arguments):
            self.count += 1
            if self.count == when:
                raise KeyboardInterrupt
            return visit(*arguments)

        patch.setattr(SGD, "_process", interrupted)


RESUMED = {
    "plain": {},
    "momentum": {"momentum": 0.5},
    "odd batches": {"batch_size": 7},
    "early stopping": {"early_stopping": True},
    "adaptive": {"learning_rate": "adaptive", "eta0": 0.1, "tol": 1e-2, "n_iter_no_change": 1, "max_iter": 12},
    "l1": {"penalty": "l1"},
}


STREAMED = ["file", "CSR file", "wide CSR file"]  # an epoch takes many windows; each case takes one of these
INTERRUPTED = [
    (case, where, (2, 5)[i % 2])
    for i, case in enumerate(RESUMED)
    for where in ("memory", "CSR", STREAMED[(i + 2 * (case == "adaptive")) % 3])
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("case", "where", "when"), INTERRUPTED)
def test_an_interrupted_fit_resumes_to_the_same_model(case, where, when, three_300, stored, monkeypatch):
    X, y = three_300[0][:150], three_300[1][:150]
    rows = sparse.csr_array(X * (np.abs(X) > 0.7)) if "CSR" in where else X
    if where == "wide CSR file":
        rows = sparse.csr_array((rows.data, rows.indices * 20, rows.indptr), shape=(150, 100))
    rows = stored(rows) if "file" in where else rows
    parameters = {"max_iter": 6, "tol": None, "memory": 4000} | RESUMED[case]
    wanted = made_sgd("hinge", **parameters).fit(rows, y)
    model = made_sgd("hinge", warm_start=True, **parameters)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, when)
        model.fit(rows, y)
    with pytest.raises(NotFittedError):
        model.predict(rows)
    model = pickle.loads(pickle.dumps(model))
    model.fit(rows, y)
    assert_same(model, wanted)
    np.testing.assert_array_equal(model.loss_curve_, wanted.loss_curve_)
    assert (model.n_iter_, model.t_, model.objective_) == (wanted.n_iter_, wanted.t_, wanted.objective_)


def test_an_interrupt_leaves_no_reader(three_300, stored, monkeypatch):
    X, y = three_300
    data = stored(X, y)
    with monkeypatch.context() as patch:
        Interrupted(patch, 5)
        with pytest.raises(KeyboardInterrupt) as error:  # which keeps what the fit had
            made_sgd("hinge", memory=8000, max_iter=10, tol=None).fit(data)
    assert error.tb
    assert not [thread for thread in threading.enumerate() if "reader" in thread.name]


def test_an_interrupted_fit_begins_again_without_a_warm_start(two_300, monkeypatch):
    model = made_sgd("hinge", max_iter=6, tol=None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 4)
        model.fit(*two_300)
    assert_same(model.fit(*two_300), made_sgd("hinge", max_iter=6, tol=None).fit(*two_300))
    assert len(model.history_["epoch"]) == 6


def test_a_fit_out_of_time_resumes(three_300, stored):
    X, y = three_300
    data = stored(X, y)
    parameters = {"max_iter": 2, "tol": None, "memory": 8000}
    wanted = made_sgd("hinge", **parameters).fit(data)
    model = made_sgd("hinge", **parameters, warm_start=True, max_time=1e-6)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        while not (model.fit(data).converged_):
            count += 1
            assert model.stop_reason_ == "max_time"
            assert model.predict(X).shape == (300,)
    assert count > 5  # several windows an epoch
    assert_same(model, wanted)


def test_a_fit_of_other_rows_is_not_resumed(two_300, three_300, monkeypatch):
    model = made_sgd("hinge", warm_start=True, max_iter=6, tol=None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 4)
        model.fit(*two_300)
    assert_same(model.fit(*three_300), made_sgd("hinge", max_iter=6, tol=None).fit(*three_300))


BAD_ROWS = ["dense", "float32", "CSR", "wide CSR", "file", "CSR file", "streamed"]
BAD_VALUES = [
    (["hinge", "softmax", "squared_error"][(i + j) % 3], layout, bad)
    for i, layout in enumerate(BAD_ROWS)
    for j, bad in enumerate((np.nan, np.inf, -np.inf))
]


@pytest.mark.parametrize(("loss", "layout", "bad"), BAD_VALUES)
def test_rows_that_are_not_finite_are_named(loss, layout, bad, three_300, stored):
    X, y = three_300
    X = X.copy()
    X[217, 3] = bad
    memory = 8000 if layout == "streamed" else "auto"
    if layout == "float32":
        X = X.astype(np.float32)
    if "CSR" in layout:
        X = sparse.csr_array(X)
    if layout == "wide CSR":
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(300, 200))
    if "file" in layout or layout == "streamed":
        X = stored(X)
    with pytest.raises(ValueError, match="row 217") as error:
        made_sgd(loss, memory=memory, batch_size=4).fit(X, y)
    assert "NaN" in str(error.value) or "infinity" in str(error.value)
