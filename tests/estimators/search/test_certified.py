"""No C of the interval has a lower error than a search with a guarantee says."""

import h5py
import numpy as np
import pytest
from certified import drawn, look_at_bounds, look_at_search
from scipy import sparse
from sklearn.datasets import load_digits

from fastsvm import SVC, SVR, LinearSVC, LogisticRegression, SVCSearch, open_hdf5
from fastsvm.estimators.search import certified

X, Y = load_digits(return_X_y=True)
X, Y = X[:400] / 16, Y[:400] % 2
GRID = {"C": [1e-3, 1.0]}


@pytest.mark.parametrize("seed", [3, 12, 18])
def test_scores_of_exact_fits_are_within_bounds(seed):
    assert 0.1 < look_at_bounds(seed) < 0.9


def test_bounds_that_are_half_as_wide_are_wrong(monkeypatch):
    sizes = certified.CertifiedPath._sizes
    monkeypatch.setattr(certified.CertifiedPath, "_sizes", lambda self, *args: sizes(self, *args) / 2)
    wrong = 0
    for seed in (12, 18, 19):
        try:
            look_at_bounds(seed)
        except AssertionError:
            wrong += 1
    assert wrong > 0


@pytest.mark.parametrize("seed", range(4))
def test_no_exact_fit_has_a_lower_error(seed):
    look_at_search(seed)


@pytest.mark.parametrize("model", [LinearSVC(random_state=0), LogisticRegression(random_state=0)])
def test_a_proof_is_complete(model):
    found = SVCSearch(model, GRID, cv=3, guarantee=0.005).fit(X, Y)
    results, error = found.cv_results_, 1 - found.best_score_
    assert error - 0.005 <= found.guaranteed_error_ <= error + 1e-12
    cells = [cell["C"] for cell in results["params"]]
    assert 5 < len(cells) < 100 and set(GRID["C"]) == {min(cells), max(cells)}
    assert found.best_score_ == results["mean_test_score"].max() and found.best_estimator_.tol == model.tol
    assert found.oof_decision_.shape == (400,) and np.isfinite(found.oof_decision_).all()


def test_what_a_few_cells_prove_is_less():
    few, more = (
        SVCSearch(LinearSVC(random_state=0), GRID, cv=3, guarantee=1e-4, max_cells=k).fit(X, Y) for k in (3, 9)
    )
    assert len(few.cv_results_["params"]) == 3 and len(more.cv_results_["params"]) == 9
    assert few.guaranteed_error_ < more.guaranteed_error_ < 1 - more.best_score_
    model = LinearSVC(random_state=0, memory=16 * 400 * 3 * 4)
    assert len(SVCSearch(model, GRID, cv=3, guarantee=1e-4).fit(X, Y).cv_results_["params"]) == 4


def test_three_classes_from_a_file_and_of_sparse_rows(tmp_path):
    rows, y, _, _, splits = drawn(5)
    assert len(np.unique(y)) == 3
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = rows, y
    stored = open_hdf5(tmp_path / "rows.h5")
    found = [
        SVCSearch(LinearSVC(random_state=0), GRID, cv=splits, guarantee=0.05, max_cells=6).fit(*given)
        for given in ((rows, y), (stored,), (sparse.csr_matrix(rows), y))
    ]
    assert len({one.best_score_ for one in found}) == 1
    np.testing.assert_allclose([one.guaranteed_error_ for one in found], found[0].guaranteed_error_)


@pytest.mark.parametrize(
    ("model", "grid", "more", "words"),
    [
        (SVC(), {"C": [1, 2]}, {}, "needs a LinearSVC or LogisticRegression"),
        (SVR(), {"C": [1, 2]}, {}, "needs a LinearSVC or LogisticRegression"),
        (LinearSVC(penalty="l1"), {"C": [1, 2]}, {}, "penalty='l2'"),
        (LinearSVC(multi_class="crammer_singer"), {"C": [1, 2]}, {}, "without multi_class"),
        (LinearSVC(standardize=True), {"C": [1, 2]}, {}, "standardize, max_time"),
        (LinearSVC(), {"C": [1, 1]}, {}, "two or more distinct values of C alone"),
        (LinearSVC(), {"C": [1, 2], "loss": ["hinge"]}, {}, "two or more distinct values of C alone"),
        (LinearSVC(), None, {}, "two or more distinct values of C alone"),
        (LinearSVC(), {"C": [1, 2]}, {"scoring": "f1"}, "the accuracy as scoring"),
        (LinearSVC(), {"C": [1, 2]}, {"guarantee": 0}, "guarantee"),
    ],
)
def test_what_cannot_be_proved_is_refused(model, grid, more, words):
    with pytest.raises(ValueError, match=words):
        SVCSearch(model, grid, cv=2, **{"guarantee": 0.01} | more).fit(X, Y)


def test_weights_and_splits_without_a_class_are_refused():
    search = SVCSearch(LinearSVC(), GRID, guarantee=0.01, cv=2)
    with pytest.raises(ValueError, match="no sample_weight"):
        search.fit(X, Y, sample_weight=np.ones(400))
    one = np.flatnonzero(Y == 1)
    with pytest.raises(ValueError, match="all classes"):
        search.set_params(cv=[(one[:50], np.arange(400))]).fit(X, Y)
