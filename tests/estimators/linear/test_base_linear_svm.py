"""What both linear SVMs promise: certificates, tolerances, small problems, bad parameters."""

import contextlib
import io
import pickle
import warnings

import naive
import numpy as np
import pytest
from linear_svms import (
    COUPLED,
    LOSSES,
    REGRESSION,
    assert_same,
    data_of,
    made,
    objectives,
    with_constant,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fastsvm import LinearSVC, LinearSVR
from fastsvm._compiled.processor import JIT_DISABLED
from fastsvm.losses import LOSSES as LOSSES_OF
from fastsvm.losses import Demands, feasible, violation_of
from fastsvm.tuning import changed, tuned

UNMERGED = {"linear": {"small_values": 0, "newton": False}}
"""Rows are not merged, and no solver sees that tables are not small but ascent."""


def dual_variables(model, rows, y):
    """Return those of rows that are not merged or put in another order."""
    with tuned(changed(UNMERGED)):
        model.set_params(warm_start=True).fit(rows, y)
    return model._fit_state.state.dual.astype(float)


PRECISE = [(name, np.float64) for name in LOSSES] + [("crammer_singer", np.float32)]


@pytest.mark.parametrize("several", [False, True], ids=["two", "several"])
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
@pytest.mark.parametrize(("name", "real"), PRECISE)
def test_the_certificate_is_that_of_a_computation_from_scratch(name, real, tol, several, request):
    X, y = data_of(name, request, several)
    X = X.astype(real)
    model = made(name, C=0.7, tol=tol)
    beta = dual_variables(model, X, y)
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
    assert model.duality_gap_ == max(model.objective_ - model.dual_objective_, 0.0)
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
    X, y = (part[:80] for part in data_of(name, request))
    model = made(name, criterion="gradient", tol=1e-4).fit(X, y)
    assert model.converged_
    assert model.kkt_violation_ <= 1e-4
    assert model.objective_ == pytest.approx(made(name).fit(X, y).objective_, rel=1e-3)


def test_a_smaller_tolerance_takes_longer_and_comes_closer(three):
    models = [made("crammer_singer", tol=tol).fit(*three) for tol in (1e-1, 1e-3, 1e-6)]
    gaps = [model.duality_gap_ for model in models]
    assert gaps[0] > gaps[1] > gaps[2]
    assert models[0].n_iter_ < models[1].n_iter_ < models[2].n_iter_
    np.testing.assert_array_less(gaps, [1e-1 * models[0].objective_, 1e-3 * models[1].objective_, 1e-3])


def test_the_same_seed_gives_the_same_bits(three):
    X, y = three
    models = [made("crammer_singer", tol=1e-3, random_state=seed).fit(X, y) for seed in (0, 0, 1, None)]
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


@pytest.mark.parametrize(
    ("value", "fit_intercept", "layout"),
    [(0.0, False, np.asarray), (0.0, True, sparse.csr_array), (5.0, False, sparse.csr_array), (5.0, True, np.asarray)],
)
@pytest.mark.parametrize("name", LOSSES)
def test_features_that_are_constant(name, value, fit_intercept, layout):
    X, y = np.full((50, 3), value), np.array([0] * 20 + [1] * 30)
    model = made(name, tol=1e-5, fit_intercept=fit_intercept).fit(layout(X), y)
    assert model.converged_
    np.testing.assert_array_equal(np.isfinite(model.coef_), True)
    assert model.objective_ == pytest.approx(objectives(name, model, X, y).sum(), rel=1e-9)
    if value == 0:
        assert not model.coef_.any()


@pytest.mark.parametrize(
    ("name", "layout"), [(name, [np.asarray, sparse.csr_array][i % 2]) for i, name in enumerate(LOSSES)]
)
def test_some_rows_of_zeros(name, layout, request):
    X, y = data_of(name, request)
    X = X * (np.arange(120) % 4 > 0)[:, None]
    model = made(name, tol=1e-6, fit_intercept=False).fit(layout(X), y)
    assert model.converged_
    kept = np.arange(120) % 4 > 0
    rest = made(name, tol=1e-6, fit_intercept=False).fit(layout(X[kept]), y[kept])
    assert model.objective_ == pytest.approx(objectives(name, rest, X, y).sum(), rel=2e-6)


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


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_named(name, kind, two):
    for value in BAD[name]:
        with pytest.raises(ValueError, match=name if name != "intercept_scaling" else "(?i)intercept.scaling"):
            kind(**{name: value}).fit(*two)


def test_an_intercept_that_is_not_fitted_needs_no_scaling(two):
    assert made("hinge", fit_intercept=False, intercept_scaling=0.0).fit(*two).intercept_ == 0


X60, Y60 = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2


BAD_DATA = {
    "one class": ((X60, np.zeros(60)), "number of classes"),
    "one class with weight": ((X60, Y60, Y60.astype(float)), "number of classes.*positive weight"),
    "more rows": ((X60, Y60[:-1]), "X has 60, y has 59"),
    "no labels": ((X60, None), "y"),
    "numbers as labels": ((X60, X60[:, 0]), "continuous"),
    "NaN as a label": ((X60, np.where(Y60, np.nan, 0.0)), "y contains NaN"),
    "one dimension": ((X60[:, 0], Y60), "2D"),
    "words": ((np.array([["a", "b"]] * 60), Y60), "string|numeric|number"),
    "negative weights": ((X60, Y60, np.where(np.arange(60) == 9, -0.5, 1)), "-0.5 at sample 9"),
    "NaN among weights": ((X60, Y60, np.where(np.arange(60) == 9, np.nan, 1)), "sample_weight contains NaN"),
    "few weights": ((X60, Y60, np.ones(59)), "sample_weight"),
    "no weights": ((X60, Y60, np.zeros(60)), "sample_weight are zero"),
    "no rows": ((X60[:0], Y60[:0]), "0 sample"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused(name):
    given, words = BAD_DATA[name]
    for model in (LinearSVC(), LinearSVR()):
        if isinstance(model, LinearSVR) and ("class" in name or name == "numbers as labels"):
            continue
        with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
            model.fit(*given)


@pytest.mark.parametrize("name", ["squared_hinge", "crammer_singer"])
def test_a_warm_start_after_refused_data_begins_anew(name, request):
    X, y = data_of(name, request)
    X, y = np.tile(X, (100, 1)) + np.linspace(0, 0.01, 100 * len(X))[:, None], np.tile(y, 100)  # no rows are equal
    bad = X.copy()
    bad[6000, 1] = np.nan  # in a row that is not sampled: it is found in the first epoch
    model = made(name, tol=1e-2, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="row 6000, column 1"):
        model.fit(bad, y)
    assert model.fit(X, y).converged_


def test_a_fit_ends_when_time_is_over(three):
    with pytest.warns(ConvergenceWarning, match=r"max_time.*may be too high by.*warm_start=True"):
        model = made("crammer_singer", max_time=1e-9).fit(*three)
    assert (model.stop_reason_, model.n_iter_, model.converged_) == ("max_time", 1, False)
    assert model.predict(three[0]).shape == (120,)


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


def test_a_fit_leaves_no_warnings_and_no_numpy_state(three):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="raise"):
        warnings.simplefilter("always")
        for name in ("hinge", "weston_watkins"):
            made(name, tol=1e-4).fit(*three).predict(three[0])
            made(name, tol=1e-4, C=1e-6).fit(*three)
    assert not caught


PLAIN = """
import numpy as np
from scipy import sparse
from fastsvm import LinearSVC, LinearSVR
from fastsvm._compiled import processor
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 20)
X = rng.normal(size=(20, 4)) + np.eye(4)[y]
for rows in (X, sparse.csr_array(X)):
    for kind, parameters in (
        (LinearSVC, {"loss": "hinge"}),
        (LinearSVC, {"loss": "squared_hinge"}),
        (LinearSVC, {"multi_class": "crammer_singer"}),
        (LinearSVC, {"multi_class": "weston_watkins"}),
        (LinearSVR, {"epsilon": 0.1}),
        (LinearSVR, {"loss": "squared_epsilon_insensitive"}),
    ):
        model = kind(C=0.1, tol=1e-2, random_state=0, **parameters).fit(rows, y)
        print(repr(float(model.objective_)), repr(float(model.dual_objective_)))
print(int(processor.JIT_DISABLED))
"""


def test_the_same_fits_without_compilation(importing):
    process, printed = importing.start(PLAIN, NUMBA_DISABLE_JIT=1), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(PLAIN, {})
    found = (text.splitlines() for text in (importing.output(process), printed.getvalue()))
    slow, fast = ([list(map(float, line.split())) for line in lines] for lines in found)
    assert (slow.pop(), fast.pop()) == ([1.0], [float(JIT_DISABLED)])
    assert len(slow) == 12
    np.testing.assert_allclose(slow, fast, rtol=1e-6)


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
