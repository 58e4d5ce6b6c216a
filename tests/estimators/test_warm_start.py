"""After any change, a fit that begins at the solution before finds what a fit from the beginning does."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import fastsvm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 6)) + 0.5
SCORES = X @ RNG.normal(size=6) + RNG.normal(size=160)
LABELS, TARGETS = (SCORES > 1).astype(int), SCORES
WEIGHTS = RNG.integers(0, 3, 160).astype(float)
DATA = {
    "other labels": (X, 1 - LABELS),
    "other names": (X, np.array(["no", "yes"])[LABELS]),
    "three classes": (X, np.digitize(SCORES, [0, 2])),
    "fewer features": (X[:, :4], LABELS),
    "fewer samples": (X[:90], LABELS[:90]),
    "samples of weight 0": (X, LABELS, WEIGHTS),
    "longer samples": (X * 30, LABELS),
}
OF_ALL = [{"C": 1e3}, {"C": 1e-3}, {"C": 1.0, "class_weight": {0: 5.0}}, {"class_weight": None}, *DATA.values()]
OF_LINEAR = [
    {"fit_intercept": False},
    {"fit_intercept": True, "intercept_scaling": 5.0},
    {"standardize": True},
    *OF_ALL,
]
OF_NUMBERS = [
    {"C": 1e3},
    {"C": 1e-2},
    {"epsilon": 0.0},
    {"epsilon": 0.5},
    (X, TARGETS + 100),
    (X[:, :4], TARGETS),
    (X[:90], TARGETS[:90], WEIGHTS[:90]),
    {"standardize": True},
]
KERNELS = [
    {"kernel": "poly", "degree": 2},
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 2.0},
    {"standardize": True},
]
CASES = {
    "LinearSVC": (fastsvm.LinearSVC(), [*OF_LINEAR, {"loss": "hinge"}, {"loss": "squared_hinge", "penalty": "l1"}]),
    "LinearSVC hinge": (fastsvm.LinearSVC(loss="hinge"), [*OF_LINEAR, {"multi_class": "crammer_singer", "tol": 1e-3}]),
    "LinearSVC l1": (fastsvm.LinearSVC(penalty="l1"), [*OF_LINEAR, {"penalty": "l2"}]),
    "LogisticRegression": (fastsvm.LogisticRegression(), [*OF_LINEAR, {"penalty": "l1"}]),
    "LogisticRegression l1": (fastsvm.LogisticRegression(penalty="l1"), [*OF_LINEAR, {"penalty": "l2"}]),
    "LinearSVR": (
        fastsvm.LinearSVR(),
        [{"fit_intercept": False}, {"fit_intercept": True}, *OF_NUMBERS, {"loss": "squared_epsilon_insensitive"}],
    ),
    "LinearOneClassSVM": (fastsvm.LinearOneClassSVM(), [{"nu": 0.1}, {"nu": 0.9}, (X[:, :4],), (X[:90] * 30,)]),
    "SVC": (
        fastsvm.SVC(),
        [*KERNELS, *OF_ALL, {"C": 10.0, "solver": "coordinate"}, {"solver": "primal", "loss": "squared_hinge"}],
    ),
    "NuSVC": (fastsvm.NuSVC(nu=0.2), [{"nu": 0.4}, {"nu": 0.3}, *KERNELS, *DATA.values()]),
    "SVR": (fastsvm.SVR(), [*KERNELS, *OF_NUMBERS]),
    "NuSVR": (fastsvm.NuSVR(), [*KERNELS, {"nu": 0.9}, {"nu": 0.1}, {"C": 100.0}, (X[:90], TARGETS[:90])]),
    "OneClassSVM": (fastsvm.OneClassSVM(), [*KERNELS, {"nu": 0.9}, {"nu": 0.1}, (X[:, :4],), (X[:90],)]),
    "NystroemSVC": (fastsvm.NystroemSVC(n_components=20), [*KERNELS[:3], *OF_ALL]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_that_of_a_cold_fit(name):
    model, changes = CASES[name]
    usual = clone(model).set_params(warm_start=True, tol=1e-6)
    if "random_state" in usual.get_params():
        usual.set_params(random_state=0)
    data = (X,) if "OneClass" in name else (X, TARGETS if "SVR" in name else LABELS)
    warm = usual.fit(*data)
    for change in changes:
        if isinstance(change, dict):
            warm.set_params(**change)
        else:
            data = change
        pair = warm.fit(*data), clone(warm).set_params(warm_start=False).fit(*data)
        a, b = pair
        assert a.converged_ and b.converged_, change
        apart = a.duality_gap_ + b.duality_gap_ + 1e-9 * abs(b.objective_)
        assert abs(a.objective_ - b.objective_) <= apart, (change, a.objective_, b.objective_)


@pytest.mark.parametrize("make", [fastsvm.SGDClassifier, fastsvm.SGDRegressor])
@pytest.mark.parametrize("standardize", [False, True])
def test_descent_forgets_an_intercept_that_is_no_longer_fitted(make, standardize):
    model = make(warm_start=True, random_state=0, standardize=standardize).fit(X, LABELS)
    assert model.intercept_.any()
    model.set_params(fit_intercept=False).fit(X, LABELS)
    at_mean = model.coef_ @ X.mean(axis=0) if standardize else 0.0  # where standardised samples are 0
    np.testing.assert_allclose(model.intercept_, -at_mean, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "kind"), [(fastsvm.SGDClassifier, np.asarray), (fastsvm.SGDRegressor, sparse.csr_matrix)]
)
@pytest.mark.parametrize(
    "given",
    [{}, {"momentum": 0.9}, {"average": True}, {"standardize": True}, {"learning_rate": "adagrad"}],
    ids=["plain", "momentum", "average", "standardize", "adagrad"],
)
def test_a_partial_fit_forgets_an_intercept_that_is_no_longer_fitted(make, given, kind):
    model, rows = make(random_state=0, **given), kind(X)
    classes = {"classes": np.unique(LABELS)} if make is fastsvm.SGDClassifier else {}
    model.partial_fit(rows, LABELS, **classes)
    assert model.intercept_.any()
    model.set_params(fit_intercept=False).partial_fit(rows, LABELS)
    centre = 0 if kind is sparse.csr_matrix else X.mean(axis=0)
    at_mean = model.coef_ @ (centre * np.ones(X.shape[1])) if "standardize" in given else 0.0
    np.testing.assert_allclose(model.intercept_, -at_mean, atol=1e-12)
