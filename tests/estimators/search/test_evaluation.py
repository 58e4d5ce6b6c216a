"""Fits that fail, scores of training samples, and processes of a search."""

from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from searches import both
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, cross_val_predict

from fastsvm import SVC, SVR, LinearSVC, SVCSearch
from fastsvm._compiled.threads import Pool, at_most
from fastsvm.estimators.search.evaluation import Scored, _parallel
from fastsvm.estimators.search.out_of_fold import OutOfFold
from fastsvm.estimators.search.shared_fits import SharedFits, Split


@pytest.mark.filterwarnings("ignore:One or more of the")
@pytest.mark.parametrize("error_score", [np.nan, -1.0])
@pytest.mark.parametrize("scoring", [None, ["accuracy", "f1_macro"]])
def test_fits_that_fail_get_the_error_score(iris, scoring, error_score, shared):
    X, y = iris[0][:60], np.repeat([0, 1], [20, 40])
    with pytest.warns(FitFailedWarning, match="fits failed out of a total of"):
        both(X, y, {"C": [0.1, 1]}, cv=KFold(3), scoring=scoring, refit="accuracy" if scoring else True,
             error_score=error_score, return_train_score=True)  # fmt: skip


def test_all_fits_fail(iris):
    with pytest.raises(ValueError, match=r"(?s)All the 4 fits failed.*number of classes"):
        SVCSearch(SVC(), {"C": [1, 2]}, cv=2).fit(iris[0], np.zeros(150))


def test_scores_that_fail(iris):
    def scoring(model, X, y):
        if model.C == 1:
            raise RuntimeError("not this one")
        return 0.5

    with pytest.warns(UserWarning, match=r"(?s)Scoring failed.*not this one"):
        both(*iris, {"C": [0.1, 1]}, scoring=scoring, cv=2, error_score=0.25)
    with pytest.raises(RuntimeError, match="not this one"):
        SVCSearch(SVC(), {"C": [0.1, 1]}, scoring=scoring, error_score="raise").fit(*iris)


@pytest.mark.parametrize("model", [None, SVC(max_iter=10**6), LogisticRegression(max_iter=1000)])
def test_scores_of_training_samples(digits, model, shared):
    both(*digits, {"C": [0.01, 1]}, model, cv=3, return_train_score=True, scoring=["accuracy", "neg_log_loss"][:1],
         refit="accuracy")  # fmt: skip
    assert len(shared) == (6 if model is None else 0)


@pytest.mark.parametrize("model", [None, SVC(max_iter=10**6)])
def test_processes(digits, model):
    grid = {"C": [0.1, 1], "gamma": [0.02, 0.1]}
    ours, _ = both(*digits, grid, model, cv=2, n_jobs=2, pre_dispatch="n_jobs", return_train_score=True)
    np.testing.assert_array_equal(ours.predict(digits[0]), ours.best_estimator_.predict(digits[0]))


def test_a_backend_that_gives_all_results_at_once():
    with parallel_config(backend="multiprocessing"):
        assert not _parallel(SimpleNamespace(n_jobs=2, pre_dispatch="all")).return_generator


def test_methods_are_those_of_the_best_model(iris):
    search = SVCSearch(LogisticRegression(max_iter=1000), {"C": [1]}).fit(*iris)
    np.testing.assert_array_equal(search.predict_proba(iris[0]), search.best_estimator_.predict_proba(iris[0]))
    assert not hasattr(search, "transform") and not hasattr(SVCSearch(SVC(), {"C": [1]}), "predict_proba")


@pytest.mark.parametrize(
    ("n_threads", "memory", "sizes"),
    [(1, "auto", [1] * 8), (2, "auto", [2] * 4), (4, "auto", [4, 4]), (16, "auto", [3, 3, 2]), (4, "1MB", [1] * 8)],
)
def test_groups_are_solved_together_where_threads_would_wait(ten_digits, n_threads, memory, sizes):
    """Five folds of one problem are five paths for a kernel."""
    X, y = ten_digits
    models = {k: SVC(gamma=gamma, memory=memory) for k, gamma in enumerate(np.geomspace(0.01, 1, 8))}
    data = models[0]._checked(X, y > 4, None)
    splits = [Split.of(*split) for split in KFold(5).split(X)]
    fits = SharedFits(models, data, splits, Pool(n_threads))
    assert [len(batch) for batch in fits.batches(fits.groups())] == sizes


def test_a_kernel_that_fails_does_not_harm_others(ten_digits, shared):
    def broken(X, Z):
        raise RuntimeError("no values")

    X, y = ten_digits[0][:300], ten_digits[1][:300] > 4
    with at_most(2), pytest.warns(FitFailedWarning, match="no values"):
        found = SVCSearch(SVC(), {"kernel": ["rbf", broken], "C": [1, 10]}, cv=3, refit=False).fit(X, y).cv_results_
    assert len(shared) == 6
    assert np.isnan(found["mean_test_score"]).sum() == 2
    alone = SVCSearch(SVC(), {"C": [1, 10]}, cv=3, refit=False).fit(X, y).cv_results_
    np.testing.assert_array_equal(np.sort(found["mean_test_score"])[:2], np.sort(alone["mean_test_score"]))


# --- decision values of samples, each by a fit without it --------------------------------------------------------


@pytest.mark.parametrize("model", [SVC(), LinearSVC()])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_decision_values_out_of_fold(ten_digits, model, n_classes, n_jobs):
    few = np.flatnonzero(ten_digits[1] < n_classes)
    X, y = ten_digits[0][few], ten_digits[1][few]
    search = SVCSearch(model, {"C": [0.001, 1, 10]}, cv=KFold(3), n_jobs=n_jobs).fit(X, y)
    wanted = cross_val_predict(search.best_estimator_, X, y, cv=KFold(3), method="decision_function")
    assert search.oof_decision_.shape == wanted.shape
    np.testing.assert_allclose(search.oof_decision_, wanted, atol=5e-3)
    scores = [search.cv_results_[f"split{k}_test_score"][search.best_index_] for k in range(3)]
    assert search.best_score_error_ == pytest.approx(np.std(scores, ddof=1) / 3**0.5)


def test_decision_values_of_a_search_that_chooses_its_cells(ten_digits):
    X, y = ten_digits[0], ten_digits[1] > 4
    search = SVCSearch(SVC(), {"C": "auto"}).fit(X, y)
    assert np.mean((search.oof_decision_ > 0) == y) == pytest.approx(search.best_score_, abs=1e-3)


def test_predictions_out_of_fold_of_a_regressor_and_of_repeated_folds(ten_digits):
    X, y = ten_digits[0][:200], ten_digits[0][:200] @ np.arange(64) / 100
    cv = RepeatedKFold(n_splits=2, n_repeats=2, random_state=0)
    search = SVCSearch(SVR(), {"C": [1, 100]}, cv=cv).fit(X, y)
    sums = np.zeros(200)
    for train, test in cv.split(X):
        sums[test] += SVR(**search.best_params_).fit(X[train], y[train]).predict(X[test])
    np.testing.assert_allclose(search.oof_decision_, sums / 2, atol=0.1)
    once = SVCSearch(SVR(), {"C": [1]}, cv=ShuffleSplit(1, test_size=0.25, random_state=0)).fit(X, y)
    assert np.isfinite(once.oof_decision_).sum() == 50
    assert np.isnan(once.best_score_error_)


def test_decision_values_of_a_cell_that_a_function_chooses(ten_digits):
    X, y = ten_digits[0][:300], ten_digits[1][:300] > 4
    search = SVCSearch(SVC(), {"C": [0.001, 1]}, cv=KFold(3), refit=lambda results: 0).fit(X, y)
    assert search.best_params_ == {"C": 0.001}
    wanted = cross_val_predict(SVC(C=0.001), X, y, cv=KFold(3), method="decision_function")
    np.testing.assert_allclose(search.oof_decision_, wanted, atol=5e-3)


def test_decision_values_are_missing_where_a_split_lacks_a_class(iris):
    search = SVCSearch(SVC(), {"C": [0.1, 1]}, cv=KFold(3), scoring="accuracy").fit(*iris)
    assert search.oof_decision_ is None
    assert not hasattr(SVCSearch(SVC(), {"C": [1]}, refit=False).fit(*iris), "oof_decision_")


def test_decision_values_of_cells_that_cannot_be_complete_are_given_up():
    splits = [Split(np.arange(4), np.array([k])) for k in range(3)]
    kept = OutOfFold(splits, "score")
    for split, decided in enumerate([np.zeros(1), None, np.zeros(1)]):
        assert kept.take(Scored(0, split, 1.0, None, 0.0, 0.0, decided=decided)).decided is None
    assert kept.best is None and not kept._values
    for split in range(3):
        kept.take(Scored(1, split, 0.5, None, 0.0, 0.0, decided=np.full(1, split)))
    np.testing.assert_array_equal(kept.of(1, 3), [0, 1, 2])
