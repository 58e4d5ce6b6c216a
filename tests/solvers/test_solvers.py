"""What holds for every solver of SVC: weights, attributes, parameters, threads."""

import contextlib
import io
import json
import pickle
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
from kernel_fits import ALL, RATES, every, exact, fit, same
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import fastsvm
from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.cli import main

# --- weights and labels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        ("overlapping", {"class_weight": {1: 3.0}}),
        ("three_classes", {"class_weight": "balanced"}),
        ("three_classes", {}),
    ],
    ids=str,
)
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
        pair = fit(name, X[rows], y[rows])
        np.testing.assert_allclose(decisions[:, column], -pair.decision_function(X), atol=1e-4)
        objective += pair.objective_
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
        "problem", "time", "iteration", "objective", "violation", "rows_computed", "cache_hits", "bytes_read", "newton"
    ]  # fmt: skip
    assert table["time"].is_monotonic_increasing
    assert table["iteration"].is_monotonic_increasing
    assert table["iteration"].iloc[-1] == found.n_iter_[0]
    if name in RATES:
        assert table["objective"].iloc[-1] == pytest.approx(found.objective_, rel=1e-9)
    else:
        assert table["objective"].iloc[-1] == pytest.approx(found.objective_, rel=1e-4)
    falls = np.diff(table["objective"]) * (1 if "primal" in name else -1)
    if name in ("smo", "coordinate", "primal", "coordinate, rate"):
        assert (falls <= 1e-9 * found.objective_).all()


@exact
def test_a_converged_fit_is_within_its_tolerance(name, overlapping):
    for tol in (1e-1, 1e-3, 1e-5):
        found = fit(name, *overlapping, tol=tol)
        assert found.converged_
        assert found.kkt_violation_ <= tol * (1 + 1e-9)
        assert found.duality_gap_ >= 0


@exact
def test_constant_features(name):
    found = fit(name, np.ones((30, 2)), np.arange(30) % 2, tol=1e-3)
    assert found.converged_
    assert np.isfinite(found.decision_function(np.zeros((2, 2)))).all()


@exact
def test_two_rows(name):
    found = fit(name, [[-1.0], [1.0]], [0, 1], tol=1e-3)
    assert found.predict([[-2.0], [2.0]]).tolist() == [0, 1]


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
    "primal": ["--solver", "primal", "--loss", "squared_hinge"],
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
    wanted = fit(name, X, y, tol=1e-3)
    assert report["objective"] == pytest.approx(wanted.objective_, rel=1e-9)
    found = fastsvm.load(tmp_path / "model")
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-9)
    assert found.solver == ALL[name]["solver"]


# --- wrong words -----------------------------------------------------------------------------------------

WRONG = {
    "solver": ({"solver": "newton"}, r"'solver'.*'smo', 'coordinate', 'primal'.*'newton'"),
    "loss": ({"solver": "primal", "loss": "log"}, r"'loss'.*'log'"),
    "loss for Newton": ({"solver": "primal"}, r"pass loss='squared_hinge'.*solver='smo'.*learning_rate"),
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
two = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=1300) > 1).astype(int)
three = two + (X[:, 2] > 1)
for solver in [
    {"memory": "1GB"},
    {"memory": "6MB"},
    {"solver": "coordinate"},
    {"solver": "coordinate", "selection": "random", "random_state": 1},
    {"solver": "coordinate", "learning_rate": 1e-3, "max_iter": 10},
    {"solver": "primal", "loss": "squared_hinge"},
    {"solver": "primal", "learning_rate": 1e-3, "max_iter": 10},
]:
    model = SVC(**solver).fit(X, two if "memory" in solver else three)
    values = model.dual_coef_, model.intercept_, model.decision_function(X)
    print(*(value.tobytes().hex() for value in values))
"""


def run_here(program):
    """Return what a program prints, run in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        exec(program, {})
    return out.getvalue().strip()


def test_the_number_of_threads_does_not_change_a_bit(importing):
    with Pool.open() as pool:
        other = 2 if pool.n_threads == 1 else 1
    started = importing.start(THREADS, NUMBA_NUM_THREADS=other)
    here, there = run_here(THREADS).splitlines(), importing.output(started).splitlines()
    assert len(here) == 7
    assert [a == b for a, b in zip(here, there, strict=True)] == [True] * 7


PLAIN = """
import warnings
import numpy as np
from fastsvm import SVC
from fastsvm._compiled import processor
from fastsvm.kernel_matrix.pairwise.base import map_tile
from fastsvm.kernels import Sigmoid
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 3))
y = (X[:, 0] + X[:, 1] ** 2 > 0.7).astype(int)
for solver in [
    {"solver": "coordinate"},
    {"solver": "coordinate", "selection": "random", "random_state": 1},
    {"solver": "primal", "loss": "squared_hinge"},
    {"solver": "primal", "learning_rate": 1e-3, "max_iter": 10},
]:
    model = SVC(gamma=0.5, tol=1e-8, **solver).fit(X, y)
    print(repr(model.objective_), *map(repr, map(float, model.decision_function(X))))
for kernel in ("linear", "rbf", "poly", "sigmoid", "laplacian", "exponential"):
    model = SVC(kernel=kernel, gamma=0.5, coef0=0.3, tol=1e-8).fit(X, y)
    print(repr(model.objective_), *map(repr, map(float, model.decision_function(X))))
out = np.empty((1, 2))
map_tile(Sigmoid(1.0, 0.0), np.array([[2000.0, -2000.0]]), np.ones(1), np.ones(2), out, np.array([0]), 0)
print(*out[0])
print(int(processor.JIT_DISABLED))
"""


def test_the_same_fits_without_compilation(importing):
    started = importing.start(PLAIN, NUMBA_DISABLE_JIT=1)
    printed = run_here(PLAIN), importing.output(started)
    fast, slow = ([list(map(float, line.split())) for line in lines.splitlines()] for lines in printed)
    assert (slow.pop(), fast.pop()) == ([1.0], [0.0])
    assert slow.pop() == fast.pop() == [1.0, -1.0]  # the sigmoid of large numbers
    assert len(slow) == 4 + 6
    for a, b, atol in zip(slow, fast, [1e-6] * 4 + [1e-7] * 6, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=atol)
