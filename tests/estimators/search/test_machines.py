"""Searches of machines other than SVC, whose fits share their kernel rows too."""

import pickle

import numpy as np
import pytest
from searches import both
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

from fastsvm import SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch

_RNG = np.random.default_rng(7)
X = _RNG.normal(size=(150, 4))
Z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * _RNG.normal(size=150)
THREE = np.digitize(Z, [-0.5, 0.5])
GRIDS = {
    "svr": (SVR(tol=1e-9), Z, {"C": [10.0, 0.1], "epsilon": [0.05, 0.5], "gamma": ["scale", 0.2]}, {}),
    "no intercept": (SVR(tol=1e-9), Z, {"solver": ["coordinate"], "C": [0.1, 10.0]}, {"standardize": True}),
    "nu-svr": (NuSVR(tol=1e-8), Z, {"C": [0.1, 10.0], "nu": [0.5, 0.1]}, {}),
    "nu-svc": (NuSVC(tol=1e-9), THREE, {"nu": [0.3, 0.1], "gamma": ["scale", 0.4]}, {}),
    "one class": (OneClassSVM(tol=1e-9), np.where(Z > -1, 1, -1), {"nu": [0.5, 0.1], "gamma": [0.1, 0.4]}, {}),
}


@pytest.mark.parametrize("name", GRIDS)
def test_every_machine_shares(name, shared):
    model, y, grid, more = GRIDS[name]
    scores = {"scoring": "f1"} if name == "one class" else {"return_train_score": True}
    ours, _ = both(X, y, grid, model.set_params(**more), cv=3, **scores)
    assert len(shared) == 3 * len(ours.cv_results_["params"])
    found = shared[-1][1]
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, type(model)) and found.converged_ and again.objective_ == found.objective_
    np.testing.assert_allclose(again.predict(X), found.predict(X))


def test_weights_and_later_fits(shared):
    weight = _RNG.uniform(0, 2, 150) * (np.arange(150) % 9 > 0)
    both(X, Z, {"C": [10.0, 1.0]}, SVR(tol=1e-6), cv=3, fit={"sample_weight": weight}, scoring="r2")
    shared.clear()
    SVCSearch(SVR(), {"C": [10.0, 9.99]}, cv=3).fit(X, Z)
    steps = {(part.split, model.C): model.n_iter_ for part, model in shared}
    assert all(steps[k, 10.0] < steps[k, 9.99] / 4 for k in range(3))


def test_cells_that_are_not_feasible_leave_the_others_to_share(shared):
    y = np.arange(150) % 5 == 0
    with pytest.warns(FitFailedWarning, match=r"(?s)3 fits failed.*at most 0.4 is feasible"):
        found = SVCSearch(NuSVC(), {"nu": [0.2, 0.3, 0.9]}, cv=3).fit(X + y[:, None], y)
    assert len(shared) == 6 and np.isnan(found.cv_results_["mean_test_score"][2])


def test_no_margin_is_warned_of():
    y = np.arange(150) % 2
    with pytest.warns(ConvergenceWarning, match="no margin in 1 of 1 two-class problems.*raise nu"):
        NuSVC(kernel="linear", nu=0.1, tol=1e-9).fit(X, y)


def test_scores_without_labels(shared):
    scores = {"scoring": lambda model, X, y=None: model.score_samples(X).mean()}
    found = SVCSearch(OneClassSVM(), {"nu": [0.1, 0.5]}, cv=2, **scores).fit(X)
    assert len(shared) == 4 and found.best_estimator_.converged_
