"""Linear SVMs: the optimum, what is said of it, and that it is the same however rows are passed."""

import pickle
import threading
import warnings

import naive
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import LinearSVC, LinearSVR
from fastsvm._compiled.threads import at_most
from fastsvm.estimators.linear import dual_fit
from fastsvm.losses import LOSSES as LOSSES_OF
from fastsvm.losses import Demands, feasible, violation_of
from fastsvm.solvers.linear_dual.dense_epoch import BlockVisits
from fastsvm.solvers.linear_dual.sparse_epoch import RowVisits
from fastsvm.sources import ScaledSource, SubsetSource, as_source, hdf5

OVR = ["hinge", "squared_hinge"]
COUPLED = ["crammer_singer", "weston_watkins"]
REGRESSION = ["epsilon_insensitive", "squared_epsilon_insensitive"]
LOSSES = OVR + COUPLED + REGRESSION


@pytest.fixture(scope="module")
def two():
    """Return 120 rows of two classes that overlap."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 5))
    return X, (X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=120) > 0).astype(int)


@pytest.fixture(scope="module")
def three():
    """Return 120 rows of three classes that overlap."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 120)
    return rng.normal(size=(120, 5)) + 1.2 * np.eye(5)[y], y


@pytest.fixture(scope="module")
def line():
    """Return 120 rows with real targets."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 5))
    return X, X @ [1.0, -2.0, 0.5, 0.0, 0.3] + 0.7 + 0.3 * rng.normal(size=120)


def made(name, **parameters):
    """Return an estimator for the name of a loss, exact unless something else is asked for."""
    parameters = {"random_state": 0, "tol": 1e-7, "max_iter": 20_000} | parameters
    if name in COUPLED:
        return LinearSVC(multi_class=name, **parameters)
    if name in REGRESSION:
        return LinearSVR(loss=name, **{"epsilon": 0.2} | parameters)
    return LinearSVC(loss=name, **parameters)


def data_of(name, request, several=True):
    return request.getfixturevalue("line" if name in REGRESSION else "three" if several else "two")


def with_constant(X, model):
    return np.hstack([X, np.full((len(X), 1), model.intercept_scaling if model.fit_intercept else 0.0)])


def weights_of(model):
    """Return the weights of all scores, that of the constant feature last."""
    coef = np.atleast_2d(model.coef_)
    last = np.broadcast_to(model.intercept_, len(coef)) / model.intercept_scaling
    W = np.hstack([coef, last[:, None]])
    return np.vstack([-W / 2, W / 2]) if len(W) == 1 and getattr(model, "multi_class", "ovr") != "ovr" else W


def objectives(name, model, X, y, weight=1.0, factors=None):
    """Return the objective of each problem that a model is the answer to."""
    W, costs = weights_of(model), np.broadcast_to(model.C * np.asarray(weight, float), len(X))
    parameters = {"epsilon": model.epsilon} if name in REGRESSION else {}
    factors = np.ones(len(np.unique(y)) if name not in REGRESSION else 1) if factors is None else np.asarray(factors)
    if name in COUPLED or (name in OVR and len(W) == 1):
        costs, factors = costs * factors[y], np.ones(len(W))
    targets = np.where(y == 1, 1.0, -1.0) if name in OVR and len(W) == 1 else np.asarray(y, float)
    return naive.linear_objectives(name, W, with_constant(X, model), targets, costs, factors, **parameters)


def assert_same(model, other, tolerance=0.0):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=tolerance)


# --- the optimum -----------------------------------------------------------------------------------------


def of_liblinear(name, model):
    """Return LIBLINEAR's estimator with the parameters of ours."""
    same = {key: getattr(model, key) for key in ("C", "fit_intercept", "intercept_scaling")}
    same |= {"tol": 1e-10, "max_iter": 10**6, "random_state": 0, "dual": True}
    if name in REGRESSION:
        return svm.LinearSVR(loss=name, epsilon=model.epsilon, **same)
    multi_class = "ovr" if name in OVR else name
    same |= {"multi_class": multi_class, "class_weight": model.class_weight}
    return svm.LinearSVC(loss=name if name in OVR else "hinge", **same)


CASES = {
    "plain": {},
    "no offset": {"fit_intercept": False},
    "offset scaled": {"intercept_scaling": 10.0, "tol": 1e-6},
    "much": {"C": 50.0},
    "little": {"C": 1e-3},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("several", [False, True], ids=["two", "several"])
@pytest.mark.parametrize("name", [*OVR, "crammer_singer", *REGRESSION])
def test_the_objective_is_that_of_liblinear(name, several, layout, case, request):
    if name in REGRESSION and several:
        return
    X, y = data_of(name, request, several)
    model = made(name, **CASES[case]).fit(layout(X), y)
    wanted = objectives(name, of_liblinear(name, model).fit(X, y), X, y)
    assert objectives(name, model, X, y) == pytest.approx(wanted, rel=1e-6)
    assert model.objective_ == pytest.approx(wanted.sum(), rel=1e-6)


WEIGHTED = {
    "sample_weight": (None, True),
    "dict": ({0: 3.0, 1: 0.2}, False),
    "balanced": ("balanced", False),
    "both": ({1: 4.0}, True),
}


@pytest.mark.parametrize("case", WEIGHTED)
@pytest.mark.parametrize("several", [False, True], ids=["two", "several"])
@pytest.mark.parametrize("name", [*OVR, "crammer_singer"])
def test_weights_of_rows_and_classes_are_those_of_liblinear(name, several, case, request):
    X, y = data_of(name, request, several)
    kept = np.flatnonzero((y > 0) | (np.arange(120) % 3 == 0))
    X, y = X[kept], y[kept]
    class_weight, weighted = WEIGHTED[case]
    weight = np.random.default_rng(0).exponential(size=len(y)) if weighted else np.ones(len(y))
    model = made(name, class_weight=class_weight).fit(X, y, sample_weight=weight if weighted else None)
    theirs = of_liblinear(name, model).fit(X, y, sample_weight=weight)
    k = y.max() + 1
    if class_weight == "balanced":
        factors = len(y) / (k * np.bincount(y))
    else:
        factors = [(class_weight or {}).get(c, 1.0) for c in range(k)]
    wanted = objectives(name, theirs, X, y, weight, factors)
    assert objectives(name, model, X, y, weight, factors) == pytest.approx(wanted, rel=1e-6)
    assert model.objective_ == pytest.approx(wanted.sum(), rel=1e-6)


@pytest.mark.parametrize("name", REGRESSION)
def test_weights_of_rows_of_regressions_are_those_of_liblinear(name, line):
    X, y = line
    weight = np.random.default_rng(0).exponential(size=120)
    model = made(name).fit(X, y, sample_weight=weight)
    wanted = objectives(name, of_liblinear(name, model).fit(X, y, sample_weight=weight), X, y, weight)
    assert model.objective_ == pytest.approx(wanted.sum(), rel=1e-6)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("name", COUPLED)
def test_the_objective_of_all_classes_is_that_of_a_general_solver(name, k):
    rng = np.random.default_rng(k)
    y = rng.permutation(np.arange(24) % k)
    X = rng.normal(size=(24, 3)) + np.eye(4)[y][:, :3]
    weight, factors = rng.exponential(size=24) + 0.1, dict(enumerate(np.arange(1.0, k + 1)))
    model = made(name, C=0.7, class_weight=factors, tol=1e-9).fit(X, y, sample_weight=weight)
    costs = 0.7 * weight * (1.0 + y)
    wanted = naive.solve_linear_of_classes(name, with_constant(X, model), y, costs, k)
    assert model.objective_ == pytest.approx(wanted, rel=1e-6)


# --- what is said of it ----------------------------------------------------------------------------------


def dual_variables(model, monkeypatch, rows, y):
    """Return those of rows that are not merged or put in another order."""
    monkeypatch.setattr(dual_fit, "_FEW_VALUES", 0)
    model.set_params(warm_start=True).fit(rows, y)
    return model._kept.state.dual.astype(float)


PRECISE = [(name, np.float64) for name in LOSSES] + [("crammer_singer", np.float32)]


@pytest.mark.parametrize("several", [False, True], ids=["two", "several"])
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
@pytest.mark.parametrize(("name", "real"), PRECISE)
def test_the_certificate_is_that_of_a_computation_from_scratch(name, real, tol, several, request, monkeypatch):
    X, y = data_of(name, request, several)
    X = X.astype(real)
    model = made(name, C=0.7, tol=tol)
    beta = dual_variables(model, monkeypatch, X, y)
    X = X.astype(float)
    primal = objectives(name, model, X, y)
    assert model.objective_ == pytest.approx(primal.sum(), rel=1e-9)
    targets = y if name in REGRESSION or beta.shape[1] > 1 else np.where(y == 1, 1.0, -1.0)
    demands = Demands(targets.astype(float), np.full(120, 0.7), np.ones(beta.shape[1]))
    loss = LOSSES_OF[name](0.2) if name in REGRESSION else LOSSES_OF[name]()
    scores = with_constant(X, model) @ (beta.T @ with_constant(X, model)).T
    violation = violation_of(loss, demands, 0, beta.astype(real), np.ascontiguousarray(scores.T))
    assert model.kkt_violation_ == pytest.approx(violation, abs=1e-9 if real is np.float64 else 1e-3)
    beta = feasible(loss, demands, beta)  # which float32 leaves by its rounding
    dual = -((beta.T @ with_constant(X, model)) ** 2).sum(axis=1) / 2
    if name in COUPLED:
        dual = np.array([dual.sum() - sum(naive.conjugate(name, b, c, 0.7) for b, c in zip(beta, y, strict=True))])
    else:
        for c in range(len(dual)):
            labels = targets if len(dual) == 1 else np.where(y == c, 1.0, -1.0)
            dual[c] -= sum(naive.conjugate(name, b, t, 0.7, 0.2) for b, t in zip(beta[:, c], labels, strict=True))
    assert model.dual_objective_ == pytest.approx(dual.sum(), rel=1e-9)
    assert model.duality_gap_ == model.objective_ - model.dual_objective_
    assert ((primal - dual) >= -1e-12 * primal).all()
    assert model.converged_
    assert ((primal - dual) <= tol * primal * (1 + 1e-9)).all()


@pytest.mark.parametrize("C", [1e-3, 1 / 300, 0.9e-3])
@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
def test_variables_at_bounds_that_float32_rounds_up_prove_no_more_than_there_is(name, C, three):
    X, y = three
    model = made(name, C=C, tol=1e-6).fit(X.astype(np.float32), y)
    assert model.duality_gap_ >= -1e-14 * model.objective_
    assert model.kkt_violation_ < 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_the_objective_is_between_the_bounds_of_an_early_stop(name, request):
    X, y = data_of(name, request)
    best = made(name).fit(X, y).objective_
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*3 epochs.*may be too high by.*tol"):
        model = made(name, max_iter=3).fit(X, y)
    assert (model.converged_, model.stop_reason_, model.n_iter_) == (False, "max_iter", 3)
    assert model.dual_objective_ < best * (1 + 1e-7) and best < model.objective_
    assert model.objective_ == pytest.approx(objectives(name, model, X, y).sum(), rel=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_the_violation_may_be_what_the_tolerance_bounds(name, request):
    X, y = data_of(name, request)
    model = made(name, criterion="gradient", tol=1e-4).fit(X, y)
    assert model.converged_
    assert model.kkt_violation_ <= 1e-4
    assert model.objective_ == pytest.approx(made(name).fit(X, y).objective_, rel=1e-3)


def test_a_smaller_tolerance_takes_longer_and_comes_closer(three):
    models = [made("hinge", tol=tol).fit(*three) for tol in (1e-1, 1e-3, 1e-6)]
    gaps = [model.duality_gap_ for model in models]
    assert gaps[0] > gaps[1] > gaps[2]
    assert models[0].n_iter_ < models[1].n_iter_ < models[2].n_iter_
    np.testing.assert_array_less(gaps, [1e-1 * models[0].objective_, 1e-3 * models[1].objective_, 1e-3])


def test_the_history_has_a_row_an_epoch(three):
    model = made("hinge").fit(*three)
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


# --- the same, however it is passed ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole():
    """Return 130 rows of three classes, of whole numbers from 0 to 8, so that all types hold them."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 130)
    return np.clip(np.round(rng.normal(2, 1.5, (130, 6)) + 2 * np.eye(6)[y]), 0, 8), y


TYPES = [np.uint8, np.int16, np.int64, np.float16, np.float32, bool]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_any_type(dtype, layout, whole, name="squared_hinge"):
    if dtype is np.float16 and layout is sparse.csr_array:
        pytest.skip("SciPy has no sparse arrays of float16")
    X, y = whole
    X = (X > 2).astype(float) if dtype is bool else X
    parameters = {"C": 0.01, "tol": 1e-6}
    wanted = made(name, **parameters).fit(X, y)
    model = made(name, **parameters).fit(layout(X.astype(dtype)), y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


FORMS = {
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "read only": read_only,
    "source": as_source,
    "DataFrame": pd.DataFrame,
    "CSR matrix": sparse.csr_matrix,
    "CSR of int64": lambda X: sparse.csr_array(
        (X.ravel(), np.tile(np.arange(6), 130), np.arange(0, 781, 6)), shape=X.shape
    ),
    "CSC": sparse.csc_array,
    "COO": sparse.coo_array,
    "standardised": lambda X: ScaledSource(as_source(2 * X + 5), np.full(6, 5.0), np.full(6, 0.5), np.float64),
    "subset": lambda X: SubsetSource(as_source(np.repeat(X, 2, axis=0)), np.arange(0, 260, 2)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["hinge", "weston_watkins"])
def test_rows_in_any_form(name, form, whole):
    X, y = whole
    parameters = {"C": 0.01, "tol": 1e-6}
    wanted = made(name, **parameters).fit(X, y)
    rows = FORMS[form](X)
    model = made(name, **parameters).fit(rows, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)
    if form in ("list", "Fortran order", "not contiguous", "reversed", "read only", "source", "DataFrame"):
        assert_same(model, wanted)


@pytest.mark.parametrize("memory", [8000, 20_000, "1GB"])
@pytest.mark.parametrize("kind", ["dense", "CSR", "uint8", "float32", "subset", "scaled", "standardize"])
def test_rows_in_a_file(kind, memory, whole, stored):
    X, y = whole
    parameters = {"C": 0.01, "tol": 1e-6}
    rows = {"CSR": sparse.csr_array(X), "uint8": X.astype(np.uint8), "float32": X.astype(np.float32)}.get(kind, X)
    if kind == "subset":
        rows = np.vstack([X, X])
    data = stored(rows)
    source = data
    if kind == "subset":
        source = data.X.take(np.arange(130) * 2 % 130 + np.repeat([0, 130], 65))
        y = y[np.arange(130) * 2 % 130]
        X = X[np.arange(130) * 2 % 130]
    if kind == "scaled":
        X, source = (X - 2) / 3, ScaledSource(data.X, np.full(6, 2.0), np.full(6, 1 / 3), np.float64)
    parameters["standardize"] = kind == "standardize"
    wanted = made("hinge", **parameters).fit(X, y)
    model = made("hinge", memory=memory, **parameters).fit(source, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_do_not_fit_in_memory(name, request, stored):
    X, y = data_of(name, request)
    wanted = made(name, tol=1e-5).fit(X, y)
    data = stored(X, y)
    model = made(name, tol=1e-5, memory=6000).fit(data)
    assert model.converged_
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-5)
    assert model.objective_ == pytest.approx(objectives(name, model, X, y).sum(), rel=1e-9)
    assert model.history_["bytes_read"][-1] >= model.n_iter_ * X.nbytes


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_windows_visited_as_often_as_asked_for_give_the_same_bits(layout, three, stored):
    X, y = three
    data = stored(layout(X), y)
    parameters = {"memory": 6000, "tol": 1e-3}
    models = [made("hinge", window_visits=n, **parameters).fit(data) for n in (1, 3, 3)]
    assert_same(models[1], models[2])
    assert not np.array_equal(models[0].coef_, models[1].coef_)
    assert models[0].objective_ == pytest.approx(models[1].objective_, rel=2e-3)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_an_epoch_reads_the_file_once(layout, three, stored):
    X, y = three
    data = stored(layout(X), y)
    data.X.reads.nbytes = 0
    model = made("hinge", memory=6000, tol=1e-4, window_visits=2).fit(data)
    read = np.diff(model.history_["bytes_read"])
    once = data.X.read(0, 120).nbytes
    extra = 8 * len(list(data.X.spans())) if layout is sparse.csr_array else 0
    assert len(read) > 5
    assert ((read[:-1] >= once) & (read[:-1] <= once + extra)).all()  # the last may have certified


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_weight_counts_as_so_many_rows(name, layout, request):
    X, y = data_of(name, request)
    count = np.random.default_rng(0).integers(0, 4, 120)
    weighted = made(name).fit(layout(X), y, sample_weight=2.0 * count)
    repeated = made(name, C=2.0).fit(layout(np.repeat(X, count, axis=0)), np.repeat(y, count))
    assert_same(weighted, repeated)
    assert weighted.objective_ == repeated.objective_


def test_repeated_rows_that_are_not_merged(three, monkeypatch):
    X, y = three
    monkeypatch.setattr(dual_fit, "_FEW_VALUES", 0)
    count = np.random.default_rng(0).integers(0, 4, 120)
    weighted = made("crammer_singer").fit(X, y, sample_weight=2.0 * count)
    repeated = made("crammer_singer", C=2.0).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-7)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("name", ["hinge", "weston_watkins"])
def test_rows_of_weight_zero_are_left_out(name, layout, three, monkeypatch):
    X, y = three
    monkeypatch.setattr(dual_fit, "_FEW_VALUES", 0)
    weight = (np.arange(120) % 3 > 0) * 1.0
    wanted = made(name).fit(layout(X[weight > 0]), y[weight > 0])
    model = made(name).fit(layout(X), y, sample_weight=weight)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-7)
    few = made(name).fit(layout(X), y, sample_weight=(y > 0) * 1.0)
    assert few.classes_.tolist() == [1, 2]


@pytest.mark.parametrize("name", [*OVR, *COUPLED])
def test_swapped_labels_change_the_sign(name, two):
    X, y = two
    model, other = made(name).fit(X, y), made(name).fit(X, 1 - y)
    assert model.objective_ == pytest.approx(other.objective_, rel=2e-7)
    np.testing.assert_allclose(model.coef_, -other.coef_, atol=2e-3)


@pytest.mark.parametrize("name", COUPLED)
def test_two_classes_at_once_are_one_against_the_other_with_half_the_penalty(name, two):
    X, y = two
    model = made(name, C=0.3).fit(X, y)
    wanted = made("hinge", C=0.6).fit(X, y)
    assert model.objective_ == pytest.approx(wanted.objective_ / 2, rel=2e-7)
    assert model.coef_.shape == (1, 5) and model.decision_function(X).shape == (120,)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=2e-3)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))


@pytest.mark.parametrize("name", [*OVR, *COUPLED])
def test_string_labels(name, three):
    X, y = three
    names = np.array(["pear", "apple", "fig"])[y]
    model = made(name, class_weight={"apple": 2.0}).fit(X, names)
    assert model.classes_.tolist() == ["apple", "fig", "pear"]
    assert model.score(X, names) > 0.6
    same = made(name, class_weight={1: 2.0}).fit(X, y)
    assert np.mean(model.predict(X) == np.array(["pear", "apple", "fig"])[same.predict(X)]) >= 0.98


def test_the_same_seed_gives_the_same_bits(three):
    X, y = three
    models = [made("hinge", tol=1e-3, random_state=seed).fit(X, y) for seed in (0, 0, 1, None)]
    assert_same(models[0], models[1])
    assert not np.array_equal(models[0].coef_, models[2].coef_)
    for model in models[2:]:
        assert model.converged_
        assert model.objective_ == pytest.approx(models[0].objective_, rel=2e-3)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("name", ["hinge", "crammer_singer", "squared_epsilon_insensitive"])
def test_standardised_features(name, layout, request):
    X, y = data_of(name, request)
    wide = X * [1e-3, 1.0, 1e3, 5.0, 0.1] + (0 if layout is sparse.csr_array else np.array([0, 9.0, -1e3, 0, 3]))
    scaled = (wide - (0 if layout is sparse.csr_array else wide.mean(axis=0))) / wide.std(axis=0)
    wanted = made(name).fit(layout(scaled), y)
    model = made(name, standardize=True).fit(layout(wide), y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-7)
    np.testing.assert_allclose(model._scores(layout(wide)), wanted._scores(layout(scaled)), atol=2e-3)


# --- small and odd problems ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (3, 1), (50, 1), (4, 60)])
@pytest.mark.parametrize("name", LOSSES)
def test_few_rows_and_features(name, shape):
    X = np.random.default_rng(0).normal(size=shape)
    X[0], X[1] = -1, 1
    y = X[:, 0] if name in REGRESSION else (X[:, 0] > 0).astype(int)
    for rows in (X, sparse.csr_array(X)):
        model = made(name, tol=1e-5).fit(rows, y)
        assert model.converged_ and model.n_features_in_ == shape[1]
        if name not in REGRESSION:
            assert model.predict(X)[:2].tolist() == [0, 1]
    assert model.objective_ == pytest.approx(objectives(name, model, X, y).sum(), rel=1e-9)


@pytest.mark.parametrize("name", [*OVR, *COUPLED])
def test_one_row_a_class(name):
    X = np.eye(6)
    model = made(name, C=10.0).fit(X, np.arange(6))
    np.testing.assert_array_equal(model.predict(X), np.arange(6))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("value", [0.0, 5.0])
@pytest.mark.parametrize("name", LOSSES)
def test_features_that_are_constant(name, value, fit_intercept, layout):
    X, y = np.full((50, 3), value), np.array([0] * 20 + [1] * 30)
    model = made(name, tol=1e-5, fit_intercept=fit_intercept).fit(layout(X), y)
    assert model.converged_
    np.testing.assert_array_equal(np.isfinite(model.coef_), True)
    assert model.objective_ == pytest.approx(objectives(name, model, X, y).sum(), rel=1e-9)
    if value == 0:
        assert not model.coef_.any()


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("name", LOSSES)
def test_some_rows_of_zeros(name, layout, request):
    X, y = data_of(name, request)
    X = X * (np.arange(120) % 4 > 0)[:, None]
    model = made(name, tol=1e-6, fit_intercept=False).fit(layout(X), y)
    assert model.converged_
    kept = np.arange(120) % 4 > 0
    rest = made(name, tol=1e-6, fit_intercept=False).fit(layout(X[kept]), y[kept])
    assert model.objective_ == pytest.approx(objectives(name, rest, X, y).sum(), rel=2e-6)


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", ["dense", "float32", "CSR", "wide CSR", "file", "CSR file", "streamed", "large"])
@pytest.mark.parametrize("name", ["squared_hinge", "crammer_singer", "epsilon_insensitive"])
def test_rows_that_are_not_finite_are_named(name, layout, bad, request, stored, monkeypatch):
    X, y = data_of(name, request)
    X = X.copy()
    X[87, 3] = bad
    memory = 8000 if layout == "streamed" else "auto"
    if layout == "large":
        monkeypatch.setattr(dual_fit, "_FEW_VALUES", 0)
    if layout == "float32":
        X = X.astype(np.float32)
    if "CSR" in layout:
        X = sparse.csr_array(X)
    if layout == "wide CSR":
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(120, 200))
    if "file" in layout or layout == "streamed":
        X = stored(X)
    model = made(name, memory=memory)
    for weight in (None, (np.arange(120) != 87) * 1.0):  # rows that are not learnt from must be finite too
        with pytest.raises(ValueError, match="row 87") as error:
            model.fit(X, y, sample_weight=weight)
        assert "NaN" in str(error.value) or "infinity" in str(error.value)
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((1, 5)))


@pytest.mark.parametrize("layout", ["dense", "CSR", "file"])
def test_values_that_overflow_are_refused(layout, two, stored):
    X, y = two
    X = X.astype(np.float32) if layout == "file" else X.copy()
    X[7, 2] = 1e30 if layout == "file" else 1e200  # whose steps are in float64
    rows = {"dense": X, "CSR": sparse.csr_array(X)}.get(layout)
    rows = stored(X) if rows is None else rows
    with pytest.raises(ValueError, match=r"too large.*standardize"):
        made("hinge", memory=8000).fit(rows, y)


BAD = {
    "C": [0, -1.0, np.nan, "1"],
    "tol": [0, -1e-3, None, "small"],
    "dual": ["yes", None, 2],
    "fit_intercept": ["yes", 1],
    "intercept_scaling": [0, -1.0, "one"],
    "max_iter": [0, -1, 2.5, None],
    "max_time": [0, -1.0],
    "memory": ["much", 0, -1],
    "warm_start": [None, "yes"],
    "standardize": [None, 1],
    "criterion": ["loss", None],
    "window_visits": [0, 1.5, "often"],
    "verbose": ["loud", -1],
    "loss": ["unknown", None],
}
BAD_OF_CLASSES = {
    "penalty": ["l1", None],
    "multi_class": ["ovo", None],
    "class_weight": ["even", {5: 1.0}, {0: -1}],
}


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_named(name, kind, two):
    for value in BAD[name]:
        with pytest.raises(ValueError, match=name if name != "intercept_scaling" else "(?i)intercept.scaling"):
            kind(**{name: value}).fit(*two)


@pytest.mark.parametrize("name", BAD_OF_CLASSES)
def test_bad_parameters_of_classifiers_are_named(name, two):
    for value in BAD_OF_CLASSES[name]:
        with pytest.raises(ValueError, match=name):
            LinearSVC(**{name: value}).fit(*two)


def test_bad_parameters_of_regressors_are_named(line):
    for value in (-0.1, None, np.nan):
        with pytest.raises(ValueError, match="epsilon"):
            LinearSVR(epsilon=value).fit(*line)


def test_an_intercept_that_is_not_fitted_needs_no_scaling(two):
    assert made("hinge", fit_intercept=False, intercept_scaling=0.0).fit(*two).intercept_ == 0


X60, Y60 = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
BAD_DATA = {
    "one class": ((X60, np.zeros(60)), "number of classes"),
    "one class with weight": ((X60, Y60, Y60.astype(float)), "number of classes.*positive weight"),
    "more rows": ((X60, Y60[:-1]), "60 rows, y has 59"),
    "no labels": ((X60, None), "y"),
    "numbers as labels": ((X60, X60[:, 0]), "continuous"),
    "NaN as a label": ((X60, np.where(Y60, np.nan, 0.0)), "y contains NaN"),
    "one dimension": ((X60[:, 0], Y60), "2D"),
    "words": ((np.array([["a", "b"]] * 60), Y60), "string|numeric|number"),
    "negative weights": ((X60, Y60, np.where(np.arange(60) == 9, -0.5, 1)), "-0.5 at row 9"),
    "NaN among weights": ((X60, Y60, np.where(np.arange(60) == 9, np.nan, 1)), "sample_weight contains NaN"),
    "few weights": ((X60, Y60, np.ones(59)), "sample_weight"),
    "no weights": ((X60, Y60, np.zeros(60)), "sample_weight are zero"),
    "no rows": ((X60[:0], Y60[:0]), "0 sample"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_and_leave_the_estimator_unfitted(name):
    given, words = BAD_DATA[name]
    for model in (LinearSVC(), LinearSVR()):
        if isinstance(model, LinearSVR) and ("class" in name or name == "numbers as labels"):
            continue
        model.fit(X60, Y60)
        with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
            model.fit(*given)
        with pytest.raises(NotFittedError):
            model.predict(X60)


def test_targets_that_are_not_numbers_are_refused(line):
    X, y = line
    with pytest.raises(ValueError, match="y contains NaN"):
        LinearSVR().fit(X, np.where(np.arange(120) == 3, np.nan, y))
    with pytest.raises(ValueError, match="strings"):
        LinearSVR().fit(X, np.full(120, "a"))


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive"])
def test_rows_of_another_width_are_refused(name, request):
    X, y = data_of(name, request)
    model = made(name).fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features"):
        model.predict(X[:, 1:])
    with pytest.raises(ValueError, match="row 3"):
        model.predict(np.where(np.arange(120)[:, None] == 3, np.nan, X))


# --- when a fit ends, and going on -----------------------------------------------------------------------


def test_a_fit_ends_when_time_is_over(three):
    with pytest.warns(ConvergenceWarning, match=r"max_time.*may be too high by.*warm_start=True"):
        model = made("hinge", max_time=1e-9).fit(*three)
    assert (model.stop_reason_, model.n_iter_, model.converged_) == ("max_time", 1, False)
    assert model.predict(three[0]).shape == (120,)


class Interrupted:
    """Visits to windows of all fits, interrupted before, within or after one of them."""

    def __init__(self, patch, when, where="before"):
        self.count = 0
        for kind in (BlockVisits, RowVisits):
            patch.setattr(kind, "visit", self.interrupting(kind.visit, when, where))

    def interrupting(self, visit, when, where):
        def interrupted(visits, block, places, rows, *rest):
            self.count += 1
            if self.count != when:
                return visit(visits, block, places, rows, *rest)
            if where == "within":  # as if some of the steps had been taken, and their weights forgotten
                half = len(places) // 2
                before = [np.copy(part) for part in rest[0][:3]]
                visit(visits, block, places[:half], rows[:half], *rest)
                for part, value in zip(rest[0][:3], before, strict=True):
                    part[:] = value
            if where == "after":
                visit(visits, block, places, rows, *rest)
            raise KeyboardInterrupt

        return interrupted


WHERE = ["memory", "file", "CSR", "CSR file"]


def rows_at(where, X, stored):
    rows = sparse.csr_array(X * (np.abs(X) > 0.5)) if "CSR" in where else X
    return stored(rows) if "file" in where else rows


@pytest.mark.parametrize("when", [2, 9])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", ["hinge", "crammer_singer"])
def test_an_interrupted_fit_goes_on_as_if_it_had_not_been(name, where, when, request, stored, monkeypatch):
    X, y = data_of(name, request)
    rows = rows_at(where, X, stored)
    parameters = {"tol": 1e-3, "memory": 6000}
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


@pytest.mark.parametrize("place", ["within", "after"])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", ["squared_hinge", "weston_watkins"])
def test_steps_that_were_taken_by_half_are_mended(name, where, place, three, stored, monkeypatch):
    X, y = three
    rows = rows_at(where, X, stored)
    wanted = made(name, tol=1e-5).fit(rows, y)
    model = made(name, tol=1e-5, warm_start=True, memory=6000)
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
    model = made("hinge", tol=1e-3)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 4)
        model.fit(*three)
    wanted = made("hinge", tol=1e-3).fit(*three)
    assert_same(model.fit(*three), wanted)
    assert model.n_iter_ == wanted.n_iter_


@pytest.mark.parametrize("name", LOSSES)
def test_a_fit_out_of_epochs_goes_on(name, request):
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


def test_a_fit_out_of_time_goes_on(three, stored):
    X, y = three
    data = stored(X, y)
    model = made("hinge", tol=1e-2, memory=6000, warm_start=True, max_time=1e-9)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        while not model.fit(data).converged_:
            count += 1
            assert model.stop_reason_ == "max_time"
            assert model.duality_gap_ > 0
            assert count < 5000
    assert count > model.n_iter_  # several windows an epoch
    assert model.objective_ == pytest.approx(made("hinge", tol=1e-2).fit(X, y).objective_, rel=2e-2)


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


def test_what_was_learnt_of_other_rows_does_no_harm(two, three, line):
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


# --- as estimators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_models_can_be_pickled_and_cloned(name, request):
    X, y = data_of(name, request)
    model = made(name, tol=1e-4, warm_start=True).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert_same(copy.fit(X, y), model.fit(X, y))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "coef_")
    assert_same(fresh.fit(X, y), clone(model).fit(X, y))


def test_a_search_among_parameters(three):
    grid = {"C": [1e-3, 1.0], "multi_class": ["ovr", "weston_watkins"]}
    found = GridSearchCV(made("hinge", tol=1e-3), grid, cv=3).fit(*three)
    assert found.best_score_ > 0.6
    assert found.best_estimator_.converged_
    scores = cross_val_score(make_pipeline(StandardScaler(), made("epsilon_insensitive", tol=1e-3)), *three)
    assert len(scores) == 5


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


class Recorder:
    """Sees every epoch, and may stop after some."""

    def __init__(self, rows, stop_after=np.inf):
        self.rows, self.stop_after, self.seen = rows, stop_after, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.parent is None:
            return False
        self.seen.append(fitted_estimator.predict(self.rows))
        return len(self.seen) >= self.stop_after


def recorded(model, rows, y, stop_after=np.inf):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    recorder = Recorder(rows, stop_after)
    model.set_callbacks(recorder).fit(rows, y)
    return recorder.seen


@pytest.mark.parametrize("name", ["hinge", "crammer_singer", "epsilon_insensitive"])
def test_a_task_for_every_epoch(name, request):
    X, y = data_of(name, request)
    model = made(name, tol=1e-3)
    seen = recorded(model, X, y)
    assert len(seen) == model.n_iter_
    np.testing.assert_array_equal(seen[-1], model.predict(X))
    assert_same(model, made(name, tol=1e-3).fit(X, y))


def test_a_callback_may_stop_and_the_next_fit_goes_on(three):
    X, y = three
    model = made("hinge", warm_start=True)
    with pytest.warns(ConvergenceWarning, match="callback asked to stop"):
        assert len(recorded(model, X, y, stop_after=2)) == 2
    assert (model.stop_reason_, model.n_iter_, model.converged_) == ("callback", 2, False)
    model.set_callbacks().fit(X, y)
    assert model.converged_ and model.n_iter_ > 2
    assert model.objective_ == pytest.approx(made("hinge").fit(X, y).objective_, rel=2e-7)


def test_a_fit_leaves_no_warnings_and_no_numpy_state(three):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="raise"):
        warnings.simplefilter("always")
        for name in ("hinge", "weston_watkins"):
            made(name, tol=1e-4).fit(*three).predict(three[0])
            made(name, tol=1e-4, C=1e-6).fit(*three)
    assert not caught


# --- files that fail -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_file_that_is_closed_in_the_middle(layout, three, stored, monkeypatch):
    X, y = three
    data = stored(layout(X), y)
    visit, count = BlockVisits.visit if layout is np.asarray else RowVisits.visit, iter(range(1000))

    def closing(*arguments):
        if next(count) == 20:
            data.close()
        return visit(*arguments)

    monkeypatch.setattr(BlockVisits if layout is np.asarray else RowVisits, "visit", closing)
    with pytest.raises((ValueError, OSError), match=r"closed|\.h5"):
        made("hinge", memory=6000).fit(data)


def test_the_number_of_threads_does_not_change_a_bit(stored):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500)
    X = np.clip(np.round(rng.normal(4, 2, (1500, 70)) + 2 * np.eye(70)[y]), 0, 9)
    wide = sparse.csr_array(X * (rng.random(X.shape) < 0.2))
    data = stored(X.astype(np.float32), y)
    for rows, name in ((X, "ovr"), (X, "weston_watkins"), (X.astype(np.uint8), "ovr"), (wide, "ovr"), (data, "ovr")):
        memory, found = 100_000 if rows is data else "1GB", []
        for n_threads in (1, 2):
            with at_most(n_threads):
                model = LinearSVC(C=1e-3, multi_class=name, random_state=0, memory=memory, window_visits=1)
                found.append(model.fit(rows, y))
        assert_same(*found)
        assert found[0].objective_ == found[1].objective_


# --- in another process -----------------------------------------------------------------------------------


PLAIN = """
import numpy as np
from scipy import sparse
from fastsvm import LinearSVC, LinearSVR
from fastsvm._compiled import compiler
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 30)
X = rng.normal(size=(30, 4)) + np.eye(4)[y]
for rows in (X, sparse.csr_array(X)):
    for kind, parameters in (
        (LinearSVC, {"loss": "hinge"}),
        (LinearSVC, {"loss": "squared_hinge"}),
        (LinearSVC, {"multi_class": "crammer_singer"}),
        (LinearSVC, {"multi_class": "weston_watkins"}),
        (LinearSVR, {"epsilon": 0.1}),
        (LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    ):
        model = kind(C=0.1, tol=1e-3, random_state=0, **parameters).fit(rows, y)
        print(repr(float(model.objective_)), repr(float(model.dual_objective_)))
print(int(compiler.JIT_DISABLED))
"""


def test_the_same_fits_without_compilation(python):
    plain, compiled = python.start(PLAIN, NUMBA_DISABLE_JIT=1), python.start(PLAIN)
    slow, fast = ([list(map(float, line.split())) for line in python.output(p).splitlines()] for p in (plain, compiled))
    assert (slow.pop(), fast.pop()) == ([1.0], [0.0])
    assert len(slow) == 12
    np.testing.assert_allclose(slow, fast, rtol=1e-6)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_file_that_is_cut_off_in_the_middle(layout, tmp_path, stored, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 50)), rng.integers(0, 2, 4000)
    data = stored(layout(X))
    path = tmp_path / "0.h5"
    monkeypatch.setattr(hdf5, "_BLOCK_BYTES", 10_000)
    source = as_source(data.X.node)  # of the new block size
    visit, count = BlockVisits.visit if layout is np.asarray else RowVisits.visit, iter(range(10**6))

    def cutting(*arguments):
        if next(count) == 3:
            with path.open("r+b") as file:
                file.truncate(200_000)
        return visit(*arguments)

    monkeypatch.setattr(BlockVisits if layout is np.asarray else RowVisits, "visit", cutting)
    with pytest.raises((OSError, ValueError), match=r"0\.h5 changed"):
        made("hinge", memory=200_000, max_iter=3).fit(source, y)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("changed", ["row", "label", "weight"])
def test_an_unfinished_fit_of_what_has_changed_since_is_not_gone_on_with(changed, layout):
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


@pytest.mark.parametrize("factor", [1e-2, 1e2])
@pytest.mark.parametrize("name", LOSSES)
def test_variables_for_rows_scaled_otherwise_are_not_worse_than_none(name, factor, request):
    X, y = data_of(name, request)
    model = made(name, warm_start=True, tol=1e-3).fit(X, y)
    again = model.fit(factor * X, y)
    fresh = made(name, tol=1e-3).fit(factor * X, y)
    assert again.converged_ and again.n_iter_ <= 2 * fresh.n_iter_ + 10


def test_an_end_within_tolerance_is_one_whatever_stopped_the_fit(three):
    model = made("squared_hinge", tol=0.5, max_time=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*three)
    assert model.converged_ == (model.duality_gap_ <= 0.5 * model.objective_)
    assert (model.stop_reason_ == "converged") == model.converged_


def test_costs_too_small_to_compute_with_are_refused(three):
    weight = np.ones(120)
    weight[17] = 1e-310
    with pytest.raises(ValueError, match=r"weight of row .* too small"):
        made("hinge").fit(*three, sample_weight=weight)


def test_windows_of_few_rows_do_not_take_more_epochs(stored):
    rng = np.random.default_rng(0)
    X = sparse.random_array((40_000, 60), density=0.2, rng=rng).tocsr()
    y = (X @ rng.normal(size=60) + 0.3 * rng.normal(size=40_000) > 0).astype(int)
    in_memory = made("hinge", tol=1e-3).fit(X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5, "_BLOCK_BYTES", 4 << 20)
        data = stored(X, y)
        assert data.X.block_rows > 2000
    streamed = made("hinge", tol=1e-3, memory="4MB", window_visits=1).fit(data)
    assert streamed.n_iter_ <= 1.5 * in_memory.n_iter_ + 3


@pytest.mark.parametrize("name", ["hinge", "weston_watkins"])
def test_the_weights_of_the_last_epoch_from_a_file_are_looked_at(name, three, stored):
    data, found = stored(*three), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for n in (2, 3):
            found.append(made(name, memory=6000, window_visits=1, tol=1e-9, max_iter=n).fit(data))
    few, more = found
    assert few.objective_ == pytest.approx(more.history_["objective"][2], rel=1e-9)
    assert few.objective_ <= more.history_["objective"][1] * (1 + 1e-12)
    assert objectives(name, few, *three).sum() == pytest.approx(few.objective_, rel=1e-9)
