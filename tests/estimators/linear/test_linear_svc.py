"""LinearSVC: the optimum is that of LIBLINEAR and of general solvers, for two classes and several."""

import naive
import numpy as np
import pytest
from linear_svms import COUPLED, OVR, REGRESSION, data_of, made, objectives, of_liblinear, with_constant
from scipy import sparse
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import LinearSVC

CASES = {
    "plain": {},
    "no offset": {"fit_intercept": False},
    "offset scaled": {"intercept_scaling": 10.0, "tol": 1e-6},
    "much": {"C": 50.0},
    "little": {"C": 1e-3},
}


LIBLINEAR = [  # each name with each case; two classes or several, and dense or CSR, in turn
    (name, case, name not in REGRESSION and (i + j) % 2 > 0, [np.asarray, sparse.csr_array][(i + j) // 2 % 2])
    for i, name in enumerate([*OVR, "crammer_singer", *REGRESSION])
    for j, case in enumerate(CASES)
]


@pytest.mark.parametrize(("name", "case", "several", "layout"), LIBLINEAR)
def test_the_objective_is_that_of_liblinear(name, case, several, layout, request):
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


EACH_WEIGHTED = [
    (name, case, (i + j) % 2 > 0) for i, name in enumerate([*OVR, "crammer_singer"]) for j, case in enumerate(WEIGHTED)
]


@pytest.mark.parametrize(("name", "case", "several"), EACH_WEIGHTED)
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


@pytest.mark.parametrize("name", [*OVR, *COUPLED])
def test_one_row_a_class(name):
    X = np.eye(6)
    model = made(name, C=10.0).fit(X, np.arange(6))
    np.testing.assert_array_equal(model.predict(X), np.arange(6))


BAD_OF_CLASSES = {
    "penalty": ["elasticnet", None],
    "multi_class": ["ovo", None],
    "class_weight": ["even", {5: 1.0}, {0: -1}],
}


@pytest.mark.parametrize("name", BAD_OF_CLASSES)
def test_bad_parameters_of_classifiers_are_named(name, two):
    for value in BAD_OF_CLASSES[name]:
        with pytest.raises(ValueError, match=name):
            LinearSVC(**{name: value}).fit(*two)


def test_a_search_among_parameters(three):
    grid = {"C": [1e-3, 1.0], "multi_class": ["ovr", "weston_watkins"]}
    found = GridSearchCV(made("hinge", tol=1e-3), grid, cv=3).fit(*three)
    assert found.best_score_ > 0.6
    assert found.best_estimator_.converged_
    scores = cross_val_score(make_pipeline(StandardScaler(), made("epsilon_insensitive", tol=1e-3)), *three)
    assert len(scores) == 5


def test_rows_that_are_converted_in_parts_take_the_same_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 120)).astype(np.float16)  # with fewer values they would all be converted to float64
    y = X @ np.arange(120) + 120 * rng.normal(size=9000) > 0
    fits = [LinearSVC(loss="hinge", tol=0.1, random_state=0).fit(rows, y) for rows in (X, np.float32(X))]
    assert fits[0].n_iter_ == fits[1].n_iter_
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
