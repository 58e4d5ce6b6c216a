"""Linear machines are fitted on all splits at once; scores are those of separate fits."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from searches import both
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, TimeSeriesSplit

from fastsvm import LinearSVC, LinearSVR, LogisticRegression, SVCSearch, open_hdf5
from fastsvm.estimators.search import evaluation, linear_paths
from fastsvm.tuning import changed, tuned

GRID = {"C": [1.0, 0.01, 0.1, 10.0]}
X, TWO = make_classification(260, 9, n_informative=6, flip_y=0.1, random_state=0)
FOUR = make_classification(260, 9, n_informative=6, n_classes=4, random_state=0)
NUMBERS = make_regression(260, 9, noise=20, random_state=0)
WIDE = make_classification(60, 90, n_informative=20, random_state=1)
TIGHT = {"tol": 1e-8, "random_state": 0}
CASES = {
    "squared hinge": (LinearSVC(**TIGHT), X, TWO),
    "hinge": (LinearSVC(loss="hinge", **TIGHT), X, TWO),
    "logistic": (LogisticRegression(**TIGHT), X, TWO),
    "l1": (LogisticRegression(penalty="l1", **TIGHT), X, TWO),
    "classes": (LinearSVC(class_weight={0: 3.0}, **TIGHT), *FOUR),
    "logistic classes": (LogisticRegression(fit_intercept=False, **TIGHT), *FOUR),
    "regression": (LinearSVR(**TIGHT), *NUMBERS),
    "squared regression": (LinearSVR(loss="squared_epsilon_insensitive", **TIGHT), *NUMBERS),
    "gradient": (LinearSVC(criterion="gradient", **TIGHT), X, TWO),
    "wide": (LinearSVC(**TIGHT), *WIDE),
    "sparse": (LinearSVC(**TIGHT), sparse.csr_matrix(np.where(np.abs(FOUR[0]) > 1, FOUR[0], 0)), FOUR[1]),
}


@pytest.fixture
def together(monkeypatch):
    """Return a list to which every fit in a path is added."""
    parts, fit = [], linear_paths.LinearPaths.fit

    def recorded(self, *args):
        for found in fit(self, *args):
            parts.append(found[:2])
            yield found

    monkeypatch.setattr(linear_paths.LinearPaths, "fit", recorded)
    return parts


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_separate_fits(name, together):
    model, rows, y = CASES[name]
    ours, theirs = both(rows, y, GRID, model, cv=3, return_train_score=True)
    assert len(together) == 4 * 3 and all(one.converged_ for _, one in together)
    assert [part.model for part, _ in together[::3]] == [1, 2, 0, 3]
    np.testing.assert_allclose(ours.best_estimator_.coef_, theirs.best_estimator_.coef_)


@pytest.mark.parametrize("solver", ["ascent", "newton", "rounds"])
def test_every_solver_learns_all_splits(solver, together):
    off = {"linear": {name: False for name in ("weights", "gram", "newton", "rounds") if name != solver}}
    off["linear"]["small_values"] = 0
    rows = sparse.random(300, 40, 0.05, "csr", random_state=0) if solver == "rounds" else FOUR[0]
    y = np.asarray(rows.sum(axis=1)).ravel() > 1 if solver == "rounds" else FOUR[1]
    with tuned(changed(off)):
        both(rows, y, GRID, LinearSVC(tol=1e-8, random_state=0), cv=3)
    assert {one.solver_ for _, one in together} == {solver} and len(together) == 12


def test_splits_that_share_no_rows_and_weights(together):
    weight = np.random.default_rng(0).uniform(0, 2, 260) * (np.arange(260) % 7 > 0)
    model = LogisticRegression(**TIGHT)
    both(X, TWO, GRID, model, cv=ShuffleSplit(4, test_size=0.3, random_state=0), fit={"sample_weight": weight})
    both(X, TWO, GRID, model, cv=TimeSeriesSplit(3), scoring=["neg_log_loss", "roc_auc"], refit="roc_auc")
    assert len(together) == 4 * 4 + 4 * 3


def test_a_file_is_read_in_passes_for_all_splits(tmp_path, together):
    rows, y = np.hstack([FOUR[0], np.random.default_rng(0).normal(size=(260, 391))]), FOUR[1]
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = rows.astype(np.float32), y
    data = open_hdf5(tmp_path / "rows.h5")
    model = LinearSVC(tol=1e-6, random_state=0, window_visits=1, memory=rows.size * 8)
    stored = SVCSearch(model, {"C": [0.01, 0.1]}, cv=3).fit(data)
    assert len(together) == 6 and {one.solver_ for _, one in together} == {"ascent"}
    again = SVCSearch(model, {"C": [0.01, 0.1]}, cv=3).fit(rows.astype(np.float32), y)
    for name in ("split0_test_score", "split1_test_score", "split2_test_score"):
        np.testing.assert_allclose(stored.cv_results_[name], again.cv_results_[name], atol=2e-3)


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(standardize=True, **TIGHT),
        LinearSVC(class_weight="balanced", **TIGHT),
        LinearSVC(multi_class="crammer_singer", **TIGHT),
        LinearSVC(max_time=60.0, **TIGHT),
        LinearSVC(warm_start=True, **TIGHT),
    ],
)
def test_others_are_fitted_by_themselves(model, together):
    both(*FOUR, {"C": [0.1, 1.0]}, model, cv=2)
    assert not together


def test_splits_without_a_class_are_fitted_by_themselves(together):
    order = np.argsort(FOUR[1], kind="stable")
    splits = [(order[:180], order[180:]), (order[::2], order[1::2])]
    both(*FOUR, {"C": [0.1, 1.0]}, LinearSVC(**TIGHT), cv=splits)
    assert [part.split for part, _ in together] == [1, 1]


def test_a_fit_begins_at_the_solution_before(together):
    SVCSearch(LogisticRegression(tol=1e-9), {"C": [1.0, 1.0001]}, cv=3, refit=False).fit(X, TWO)
    first, last = together[0][1].n_iter_, together[-1][1].n_iter_
    with tuned(changed({"linear": {"weights": False, "small_values": 0}})):
        together.clear()
        SVCSearch(LogisticRegression(tol=1e-9), {"C": [1.0, 1.0001]}, cv=3, refit=False).fit(X, TWO)
    assert together[-1][1].n_iter_ < together[0][1].n_iter_ and first > 0 and last > 0


def test_a_fit_that_does_not_converge_is_warned_of(together):
    slow = {"linear": {"weights": False, "newton": False, "lagrangian": False}}
    with pytest.warns(ConvergenceWarning, match="100 epochs"), tuned(changed(slow)):
        SVCSearch(LinearSVC(loss="hinge", tol=1e-15, max_iter=100), {"C": [1e3, 1e4]}, cv=2, refit=False).fit(X, TWO)
    assert not together[-1][1].converged_


def test_an_error_of_one_cell_is_that_of_its_own_fit(monkeypatch, together):
    rows = X.copy()
    rows[3, 4] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SVCSearch(LinearSVC(), GRID, cv=2, error_score="raise").fit(rows, TWO)


def test_the_walk_has_paths_too(together):
    found = SVCSearch(LinearSVC(random_state=0), cv=3).fit(X, TWO)
    assert len(together) == 3 * len(found.cv_results_["params"])
    assert evaluation.may_follow(LinearSVC()) and not evaluation.may_follow(LinearSVC(max_iter=5))
