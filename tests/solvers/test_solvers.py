"""What the solvers of SVC have in common, whichever it is."""

import json
import pickle
import threading

import h5py
import numpy as np
import pandas as pd
import pytest
from csr_group import write_csr
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import fastsvm
from fastsvm import SVC, kernels, open_hdf5
from fastsvm.cli import main
from fastsvm.sources import ScaledSource, as_source

EXACT = {
    "smo": {},
    "coordinate": {"solver": "coordinate"},
    "coordinate, no offset": {"solver": "coordinate", "fit_intercept": False},
    "coordinate, random": {"solver": "coordinate", "selection": "random", "random_state": 0},
    "primal": {"solver": "primal"},
    "primal, no offset": {"solver": "primal", "fit_intercept": False},
    "primal, squared": {"solver": "primal", "loss": "squared_hinge"},
}
LANDMARKS = {
    "landmarks": {"solver": "primal", "n_components": 25},
    "landmarks, squared": {"solver": "primal", "loss": "squared_hinge", "n_components": 25},
}
RATES = {
    "coordinate, rate": {"solver": "coordinate", "learning_rate": 5e-3, "max_iter": 40},
    "primal, rate": {"solver": "primal", "learning_rate": 1e-3, "max_iter": 40},
    "primal, squared, rate": {"solver": "primal", "loss": "squared_hinge", "learning_rate": 1e-4, "max_iter": 40},
}
ALL = EXACT | LANDMARKS | RATES
WITHOUT_SMO = {name: given for name, given in ALL.items() if name != "smo"}

exact = pytest.mark.parametrize("name", EXACT)
steady = pytest.mark.parametrize("name", EXACT | LANDMARKS)
every = pytest.mark.parametrize("name", ALL)
added = pytest.mark.parametrize("name", WITHOUT_SMO)


def model(name, **parameters):
    tight = {} if name in RATES else {"tol": 1e-5 if name in LANDMARKS else 1e-8}  # those are rounded more
    return SVC(**({"gamma": 0.3} | tight | ALL[name] | parameters))


def fit(name, X, y, weight=None, **parameters):
    """Fit; with a rate, until the steps are taken."""
    made = model(name, **parameters)
    if name not in RATES:
        return made.fit(X, y, weight)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        return made.fit(X, y, weight)


def same(found, wanted, X, rel=1e-6, atol=2e-4):
    assert found.objective_ == pytest.approx(wanted.objective_, rel=rel)
    np.testing.assert_array_equal(found.classes_, wanted.classes_)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=atol)


# --- the same model, wherever rows are -------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return whole numbers, labels, and a file that holds them densely and sparsely."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 9, (160, 7)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = 0
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=160) > 2).astype(int)
    path, S = tmp_path_factory.mktemp("solvers") / "data.h5", sparse.csr_matrix(X)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(16, 7), compression="gzip")
        file["y"] = y
        group = file.create_group("S")
        write_csr(group, S)
    with open_hdf5(path) as data:
        yield X, y, data


FORMS = {
    "float32": lambda X, data: X,
    "uint8": lambda X, data: X.astype(np.uint8),
    "csr": lambda X, data: sparse.csr_array(X),
    "file": lambda X, data: data.X,
    "sparse file": lambda X, data: data._file["S"],
    "scaled": lambda X, data: ScaledSource(as_source(2 * X + 1), np.ones(7), 0.5),
    "frame": lambda X, data: pd.DataFrame(X),
}


@pytest.mark.parametrize("form", FORMS)
@every
def test_every_form_of_rows_gives_the_same_model(name, form, stored):
    X, y, data = stored
    rows = FORMS[form](X, data)
    wanted = fit(name, X.astype(float), y, gamma=0.02)
    found = fit(name, rows, y, gamma=0.02)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_array_equal(found.support_, wanted.support_)
    np.testing.assert_allclose(found.decision_function(rows), wanted.decision_function(X), atol=1e-4)


@every
def test_streaming_gives_the_model_of_rows_in_memory(name, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(700, 5))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=700) > 0.7).astype(int)
    with h5py.File(tmp_path / "wide.h5", "w") as file:  # features of zeros, so that rows outgrow the memory
        file.create_dataset("X", data=np.hstack([X, np.zeros((700, 995))]), chunks=(64, 1000))
        file["y"] = y
    few = {"max_iter": 5} if name in RATES else {"tol": 1e-5}
    wanted = fit(name, X, y, **few)
    with open_hdf5(tmp_path / "wide.h5") as data:
        found = fit(name, data, data.y, memory="7MB", **few)
        assert found.history_["bytes_read"][-1] > data.X.nbytes
        np.testing.assert_allclose(found.decision_function(data.X), wanted.decision_function(X), atol=1e-3)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)


@every
def test_little_memory_gives_the_same_model(name):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=900) > 0.7).astype(int)
    few = {"max_iter": 5} if name in RATES else {"tol": 1e-5}
    same(fit(name, X, y, memory="3MB", **few), fit(name, X, y, **few), X, atol=1e-3)


@every
def test_kernels_in_other_words_give_the_same_model(name, overlapping):
    X, y = overlapping
    wanted = fit(name, X, y)
    K = rbf_kernel(X, gamma=0.3)
    same(fit(name, X, y, kernel=kernels.RBF(0.3), gamma=9.0), wanted, X)
    same(fit(name, X, y, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)), wanted, X)
    found = fit(name, K, y, kernel="precomputed")
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(K), wanted.decision_function(X), atol=1e-4)


@exact
def test_weights_of_the_linear_kernel(name, overlapping):
    X, y = overlapping
    found = fit(name, X, y, kernel="linear", tol=1e-6)
    np.testing.assert_allclose(X @ found.coef_[0] + found.intercept_, found.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("name", ["coordinate", "coordinate, rate", "primal", "primal, squared"])
def test_repeated_rows_of_bytes(name):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, (40, 64), np.uint8)
    kind = rng.integers(0, 40, 200)
    y = (kinds[kind][:, :9].sum(axis=1) + rng.normal(size=200) > 4.5).astype(int)
    X = kinds[kind]
    found, wanted = (fit(name, rows, y, gamma=0.05, tol=1e-5) for rows in (X, X.astype(float)))
    same(found, wanted, X, atol=1e-3)
    margins = np.where(y == 1, 1, -1) * (found.decision_function(X) - found.intercept_ * (found.solver != "primal"))
    clear = np.abs(margins - 1) > 1e-3
    if found.converged_:
        np.testing.assert_array_equal(np.isin(np.arange(200), found.within_margin_)[clear], (margins < 1)[clear])


# --- weights and labels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}, {"class_weight": {1: 3.0}}], ids=str)
@pytest.mark.parametrize("data", ["overlapping", "three_classes"])
@exact
def test_weights_are_repeated_rows(name, data, parameters, request):
    X, y = request.getfixturevalue(data)
    weight = np.random.default_rng(5).integers(0, 4, len(y))
    weighted = fit(name, X, y, weight, **parameters)
    same(weighted, fit(name, np.repeat(X, weight, axis=0), np.repeat(y, weight), **parameters), X)


@every
def test_class_weights_are_weights_of_rows(name, overlapping):
    X, y = overlapping
    same(fit(name, X, y, class_weight={1: 2.5}), fit(name, X, y, np.where(y == 1, 2.5, 1.0)), X)


@every
def test_rows_of_weight_zero_are_no_support_vectors(name, overlapping):
    X, y = overlapping
    weight = np.ones(len(y))
    weight[:40] = 0
    found = fit(name, X, y, weight)
    if name not in LANDMARKS:
        same(found, fit(name, X[40:], y[40:]), X)
    assert found.support_.min() >= 40
    assert found.within_margin_.min() >= 40
    np.testing.assert_array_equal(found.support_vectors_, X[found.support_])


@every
def test_swapped_labels_flip_the_signs(name, overlapping):
    X, y = overlapping
    a, b = fit(name, X, y), fit(name, X, 1 - y)
    np.testing.assert_allclose(a.decision_function(X), -b.decision_function(X), atol=1e-5)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-7)


@every
def test_three_classes_are_three_problems_of_two(name, three_classes):
    X, y = three_classes
    found = fit(name, X, np.array(["ant", "bee", "cow"])[y], decision_function_shape="ovo")
    decisions, objective = found.decision_function(X), 0.0
    assert decisions.shape == (120, 3)
    assert found.n_iter_.shape == found.intercept_.shape == (3,)
    assert found.dual_coef_.shape == (2, len(found.support_))
    for column, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = (y == a) | (y == b)
        if name not in LANDMARKS:  # whose numbers are drawn anew for each problem
            pair = fit(name, X[rows], y[rows])
            np.testing.assert_allclose(decisions[:, column], -pair.decision_function(X), atol=1e-4)
            objective += pair.objective_
    if objective:
        assert found.objective_ == pytest.approx(objective, rel=1e-6)
    assert found.set_params(decision_function_shape="ovr").decision_function(X).shape == (120, 3)
    assert set(found.predict(X)) <= {"ant", "bee", "cow"}
    assert found.score(X, np.array(["ant", "bee", "cow"])[y]) > 0.5


# --- attributes ------------------------------------------------------------------------------------------


@every
def test_decisions_are_those_of_the_attributes(name, overlapping):
    X, y = overlapping
    found = fit(name, X, y)
    K = rbf_kernel(X, found.support_vectors_, gamma=0.3)
    np.testing.assert_allclose(found.decision_function(X), K @ found.dual_coef_[0] + found.intercept_, atol=1e-9)
    np.testing.assert_array_equal(found.classes_[(found.decision_function(X) >= 0).astype(int)], found.predict(X))
    assert found.n_support_.sum() == len(found.support_)
    assert found.n_support_[0] == np.count_nonzero(y[found.support_] == 0)
    assert found.fit_status_ == int(not found.converged_)
    assert found.intercept_.any() == ("no offset" not in name)


@every
def test_the_history(name, overlapping):
    X, y = overlapping
    found = fit(name, X, y, C=10.0)
    table = pd.DataFrame(found.history_)
    assert list(table) == [
        "problem", "time", "iteration", "objective", "gap", "rows_computed", "cache_hits", "bytes_read", "newton"
    ]  # fmt: skip
    assert table["time"].is_monotonic_increasing
    assert table["iteration"].is_monotonic_increasing
    assert table["iteration"].iloc[-1] == found.n_iter_[0]
    if name in RATES or name in LANDMARKS:
        assert table["objective"].iloc[-1] == pytest.approx(found.objective_, rel=1e-9)
    else:
        assert table["objective"].iloc[-1] == pytest.approx(found.objective_, rel=1e-4)
    falls = np.diff(table["objective"]) * (1 if "primal" in name or name in LANDMARKS else -1)
    if name in ("smo", "coordinate", "primal, squared", "landmarks, squared", "coordinate, rate"):
        assert (falls <= 1e-9 * found.objective_).all()


@steady
def test_a_converged_fit_is_within_its_tolerance(name, overlapping):
    for tol in (1e-1, 1e-3, 1e-5):
        found = fit(name, *overlapping, tol=tol)
        assert found.converged_
        assert found.kkt_violation_ <= tol * (1 + 1e-9)
        assert found.duality_gap_ >= 0


@steady
def test_constant_features(name):
    found = fit(name, np.ones((30, 2)), np.arange(30) % 2, tol=1e-3)
    assert found.converged_
    assert np.isfinite(found.decision_function(np.zeros((2, 2)))).all()


@steady
def test_two_rows(name):
    found = fit(name, [[-1.0], [1.0]], [0, 1], tol=1e-3)
    assert found.predict([[-2.0], [2.0]]).tolist() == [0, 1]


# --- early ends and going on -----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"max_iter": 2}, {"max_time": 1e-9}], ids=["max_iter", "max_time"])
@every
def test_limits_leave_a_usable_model(name, limit, three_classes):
    X, y = three_classes
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
@steady
def test_warm_start_goes_on_to_the_same_end(name, data, request):
    X, y = request.getfixturevalue(data)
    wanted = fit(name, X, y, C=10.0)
    began = model(name, C=10.0, warm_start=True, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        began.fit(X, y)
    same(began.set_params(max_iter=-1).fit(X, y), wanted, X)


@pytest.mark.parametrize("name", ["smo", "coordinate", "coordinate, no offset", "primal, squared"])
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


@pytest.mark.parametrize("name", ["coordinate", "primal", "primal, squared", "landmarks"])
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
@steady
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
    assert len(recorder.seen) == len(watched.history_["gap"])
    # The model that a callback sees may need rows sooner, which are then computed with others, and rounded otherwise.
    np.testing.assert_allclose(watched.dual_coef_, wanted.dual_coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["primal", "primal, squared", "landmarks", *RATES])
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


# --- saved, copied, from the command line ----------------------------------------------------------------


@every
def test_saved_and_pickled_models_are_the_same(name, overlapping, tmp_path):
    X, y = overlapping
    found = fit(name, X, y)
    fastsvm.save(found, tmp_path / "model.h5")
    for again in (fastsvm.load(tmp_path / "model.h5"), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(again.decision_function(X), found.decision_function(X))
        np.testing.assert_array_equal(again.within_margin_, found.within_margin_)
        assert again.get_params() == found.get_params()
        assert (again.objective_, again.stop_reason_) == (found.objective_, found.stop_reason_)
    assert clone(found).get_params() == found.get_params()


WORDS = {
    "coordinate": ["--solver", "coordinate"],
    "coordinate, no offset": ["--solver", "coordinate", "--no-fit-intercept"],
    "coordinate, random": ["--solver", "coordinate", "--selection", "random"],
    "primal, squared": ["--solver", "primal", "--loss", "squared_hinge"],
    "landmarks": ["--solver", "primal", "--n-components", "25"],
    "primal, squared, rate": [
        "--solver", "primal", "--loss", "squared_hinge", "--learning-rate", "1e-4", "--max-iter", "40"
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", WORDS)
def test_the_command_line(name, overlapping, tmp_path, capsys):
    X, y = overlapping
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"] = X, y
    words = ["train", str(tmp_path / "data.h5"), "-o", str(tmp_path / "model"), "--gamma", "0.3", *WORDS[name]]
    code = main([*words, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    wanted = fit(name, X, y, tol=1e-3, **({"random_state": 0} if name in LANDMARKS else {}))
    assert report["objective"] == pytest.approx(wanted.objective_, rel=1e-9)
    found = fastsvm.load(tmp_path / "model")
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-9)
    assert found.solver == ALL[name]["solver"]


# --- wrong words -----------------------------------------------------------------------------------------

WRONG = {
    "solver": ({"solver": "newton"}, r"'solver'.*'smo', 'coordinate', 'primal'.*'newton'"),
    "loss": ({"solver": "primal", "loss": "log"}, r"'loss'.*'log'"),
    "loss for smo": ({"loss": "squared_hinge"}, r"loss='squared_hinge' needs solver='primal'.*'smo'"),
    "loss for coordinate": (
        {"solver": "coordinate", "loss": "squared_hinge"}, r"loss='squared_hinge' needs solver='primal'.*'coordinate'"
    ),
    "offset of smo": ({"fit_intercept": False}, r"fit_intercept=False needs solver='coordinate' or solver='primal'"),
    "offset a word": ({"solver": "primal", "fit_intercept": "no"}, r"'fit_intercept'"),
    "rate for smo": ({"learning_rate": 0.1}, r"learning_rate=0.1 needs solver='coordinate' or solver='primal'"),
    "rate zero": ({"solver": "primal", "learning_rate": 0.0}, r"'learning_rate'"),
    "rate negative": ({"solver": "coordinate", "learning_rate": -1.0}, r"'learning_rate'"),
    "rate infinite": ({"solver": "coordinate", "learning_rate": np.inf}, r"'learning_rate'"),
    "rate a word": ({"solver": "coordinate", "learning_rate": "fast"}, r"'learning_rate'"),
    "selection": ({"solver": "coordinate", "selection": "greedy"}, r"'selection'.*'greedy'"),
    "selection for smo": ({"selection": "random"}, r"selection='random' needs solver='coordinate'"),
    "selection for primal": (
        {"solver": "primal", "selection": "random"}, r"selection='random' needs solver='coordinate'.*'primal'"
    ),
    "no landmarks": ({"solver": "primal", "n_components": 0}, r"'n_components'"),
    "half a landmark": ({"solver": "primal", "n_components": 2.5}, r"'n_components'"),
    "an order with a rate": (
        {"solver": "coordinate", "selection": "random", "learning_rate": 0.1}, r"selection='random'.*learning_rate=0.1"
    ),
    "random state": ({"solver": "coordinate", "selection": "random", "random_state": "x"}, r"random|seed"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters_are_refused_by_name(case, overlapping):
    parameters, words = WRONG[case]
    wrong = SVC(**parameters)
    with pytest.raises(ValueError, match=f"(?s){words}"):
        wrong.fit(*overlapping)
    assert not wrong.__sklearn_is_fitted__()


# --- threads, and no compilation -------------------------------------------------------------------------

THREADS = """
import warnings
import numpy as np
from fastsvm import SVC
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(1300, 8)).astype(np.float32)
y = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=1300) > 1).astype(int) + (X[:, 2] > 1)
for solver in [
    {"solver": "coordinate"},
    {"solver": "coordinate", "selection": "random", "random_state": 1},
    {"solver": "coordinate", "learning_rate": 1e-3, "max_iter": 10},
    {"solver": "primal"},
    {"solver": "primal", "loss": "squared_hinge"},
    {"solver": "primal", "n_components": 150},
    {"solver": "primal", "learning_rate": 1e-3, "max_iter": 10},
]:
    model = SVC(**solver).fit(X, y)
    values = model.dual_coef_, model.intercept_, model.decision_function(X)
    print(*(value.tobytes().hex() for value in values))
"""


def test_the_number_of_threads_does_not_change_a_bit(python):
    one, two = python.start(THREADS, NUMBA_NUM_THREADS=1), python.start(THREADS, NUMBA_NUM_THREADS=2)
    one, two = python.output(one).splitlines(), python.output(two).splitlines()
    assert len(one) == 7
    assert [a == b for a, b in zip(one, two, strict=True)] == [True] * 7


PLAIN = """
import warnings
import numpy as np
from fastsvm import SVC
from fastsvm._compiled import compiler
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 3))
y = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int)
for solver in [
    {"solver": "coordinate"},
    {"solver": "coordinate", "selection": "random", "random_state": 1},
    {"solver": "primal"},
    {"solver": "primal", "loss": "squared_hinge"},
    {"solver": "primal", "n_components": 8},
    {"solver": "primal", "learning_rate": 1e-3, "max_iter": 10},
]:
    model = SVC(gamma=0.5, tol=1e-8, **solver).fit(X, y)
    print(repr(model.objective_), *map(repr, map(float, model.decision_function(X))))
print(int(compiler.JIT_DISABLED))
"""


def test_the_same_fits_without_compilation(python):
    plain, compiled = python.start(PLAIN, NUMBA_DISABLE_JIT=1), python.start(PLAIN)
    slow, fast = ([list(map(float, line.split())) for line in python.output(p).splitlines()] for p in (plain, compiled))
    assert (slow.pop(), fast.pop()) == ([1.0], [0.0])
    assert len(slow) == 6
    for a, b in zip(slow, fast, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
