"""A search that chooses its own cells."""

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM, SVCSearch, open_hdf5
from fastsvm.estimators.search.evaluation import SearchData
from fastsvm.estimators.search.walk import AUTO, AXES, Cell, Lattice, Walk
from fastsvm.tuning import current_tuning


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.3, random_state=0)


def same_as_each_alone(search, X, y, **fit_params):
    """Check that the scores are those of scikit-learn's search with the same values."""
    alone = [{name: [value] for name, value in cell.items()} for cell in search.cv_results_["params"]]
    theirs = GridSearchCV(search._given(), alone, cv=search.cv, scoring=search.scoring, refit=False)
    theirs.fit(X, y, **fit_params)
    for k in range(search.n_splits_):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(search.cv_results_[name], theirs.cv_results_[name])
    return theirs


def test_neither_an_estimator_nor_a_grid(iris):
    X, y = iris
    search = SVCSearch().fit(X, y)
    assert set(search.best_params_) == {"standardize", "C", "gamma"}
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.96
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_estimator_.get_params()["C"] == search.best_params_["C"]
    assert (search.cv_results_["n_resources"] == len(y)).all()
    assert search.score(X, y) > 0.96
    same_as_each_alone(search, X, y)


def test_features_that_differ_are_standardised():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:300] * np.geomspace(1e-3, 1e3, 30), y[:300]
    search = SVCSearch().fit(X, y)
    assert search.best_params_["standardize"]
    assert search.best_score_ > 0.95


def test_many_samples_begin_with_a_part(shared):
    X, y = make_moons(3300, noise=0.3, random_state=1)
    search = SVCSearch(SVC(), cv=StratifiedKFold(3)).fit(X, y)
    counts = search.cv_results_["n_resources"]
    assert set(counts.tolist()) == {825, 3300}
    assert counts[search.best_index_] == 3300
    whole = counts == 3300
    assert search.best_score_ == max(search.cv_results_["mean_test_score"][whole])
    assert whole.sum() < (~whole).sum() + 7
    assert len(shared) == 3 * len(counts)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (SVC(kernel="linear"), {"C"}),
        (SVC(kernel="poly", degree=2, coef0=1.0), {"C", "gamma"}),
        (NuSVC(), {"nu", "gamma"}),
        (LinearSVC(), {"C"}),
        (LogisticRegression(), {"C"}),
    ],
)
def test_classifiers(moons, model, names):
    search = SVCSearch(model, cv=3).fit(*moons)
    assert set(search.best_params_) == names
    assert search.best_score_ > 0.82


def test_regression():
    X, y = load_diabetes(return_X_y=True)
    y = 100 * y
    search = SVCSearch(SVR(), cv=3).fit(X, y)
    assert set(search.best_params_) == {"C", "gamma", "epsilon"}
    assert search.best_score_ > 0.45  # SVR() has less than 0, as these targets are large
    assert 0.001 < search.best_params_["epsilon"] / np.std(y) < 3


def test_outliers_with_labels():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(190, 2)), rng.uniform(-6, 6, (60, 2))])
    y = np.repeat([1, -1], [190, 60])
    search = SVCSearch(OneClassSVM(), scoring="balanced_accuracy", cv=StratifiedKFold(3)).fit(X, y)
    assert set(search.best_params_) == {"nu", "gamma"}
    assert search.best_score_ > 0.75


def test_values_that_are_listed_stay(moons):
    grid = {"kernel": ["rbf", "laplacian"], "gamma": [0.5, 2.0], "C": AUTO}
    search = SVCSearch(SVC(), grid, cv=3).fit(*moons)
    assert set(search.best_params_) == set(grid)
    assert search.best_params_["gamma"] in (0.5, 2.0)
    tried = {(one["kernel"], one["gamma"]) for one in search.cv_results_["params"]}
    assert len(tried) == 4


def test_a_step_of_a_pipeline(moons):
    X, y = moons
    model = make_pipeline(StandardScaler(), SVC())
    near = SVCSearch(model, {"svc__C": AUTO, "svc__gamma": AUTO}, cv=3).fit(X, y)
    far = SVCSearch(model, {"svc__C": AUTO, "svc__gamma": AUTO}, cv=3).fit(1024 * X, y)
    assert near.best_params_ == far.best_params_  # distances are those after the scaler


@pytest.mark.parametrize("kind", ["frame", "sparse", "file", "kernel values"])
def test_samples_of_all_kinds(kind, moons, tmp_path):
    X, y = moons
    expected = SVCSearch(SVC(), {"C": AUTO, "gamma": [1.0]}, cv=3).fit(X, y)
    model, given, grid = SVC(), X, {"C": AUTO, "gamma": [1.0]}
    if kind == "frame":
        given = pd.DataFrame(X, columns=["a", "b"])
    elif kind == "sparse":
        given = sparse.csr_matrix(X)
    elif kind == "kernel values":
        model, given, grid = SVC(kernel="precomputed"), rbf_kernel(X, gamma=1.0), {"C": AUTO}
    else:
        with h5py.File(tmp_path / "moons.h5", "w") as file:
            file["X"], file["y"] = X, y
        given = open_hdf5(tmp_path / "moons.h5")
    search = SVCSearch(model, grid, cv=3).fit(given, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=0.004
    )


def test_a_file_begins_with_a_part(tmp_path):
    X, y = make_moons(3300, noise=0.3, random_state=1)
    with h5py.File(tmp_path / "moons.h5", "w") as file:
        file["X"], file["y"] = X, y
    search = SVCSearch(SVC(), {"C": AUTO, "gamma": [1.0]}, cv=2)
    with open_hdf5(tmp_path / "moons.h5") as data:
        of_file = search.fit(data).cv_results_
    of_array = search.fit(X, y).cv_results_
    assert of_file["params"] == of_array["params"]
    assert (of_file["mean_test_score"] == of_array["mean_test_score"]).all()


def test_groups_and_weights(moons):
    X, y = moons
    groups, weight = np.arange(300) // 30, np.linspace(0.5, 2, 300)
    search = SVCSearch(SVC(), {"C": AUTO, "gamma": [1.0]}, cv=GroupKFold(3))
    search.fit(X, y, groups=groups, sample_weight=weight)
    same_as_each_alone(search, X, y, groups=groups, sample_weight=weight)


def test_several_scores(moons):
    search = SVCSearch(SVC(), cv=3, scoring=["accuracy", "roc_auc"], refit="roc_auc").fit(*moons)
    assert search.best_score_ == max(search.cv_results_["mean_test_roc_auc"])


def test_what_cannot_be_chosen(moons):
    with pytest.raises(ValueError, match=r'degree="auto", but the search chooses C, nu, alpha, gamma, epsilon only'):
        SVCSearch(SVC(), {"degree": AUTO}).fit(*moons)
    with pytest.raises(ValueError, match="GaussianNB has no parameter"):
        SVCSearch(GaussianNB()).fit(*moons)


# --- the walk alone ----------------------------------------------------------------------------------------------


def walked(height, sizes=(100,), n_choices=1):
    """Return the best cell of a walk on a function of positions, and the cells that it scored."""
    lattice = Lattice([{}] * n_choices, [[AXES["C"], AXES["gamma"]]] * n_choices)
    asked: list[tuple[Cell, int]] = []

    def score(cells, size):
        asked.extend((cell, size) for cell in cells)
        return [height(cell, size) + np.array([-1e-3, 0, 1e-3]) for cell in cells]

    return Walk(lattice, sizes, score, current_tuning().search).best(), asked


@pytest.mark.parametrize("top", [(2, 0), (-3, 5), (11, -9), (7, 7)])
def test_it_finds_the_top_of_a_hill(top):
    best, asked = walked(lambda cell, size: -0.01 * ((cell.at[0] - top[0]) ** 2 + (cell.at[1] - top[1]) ** 2))
    assert best.at == top
    assert len(set(asked)) == len(asked) < 50


def test_it_stays_where_nothing_is_to_be_gained():
    best, asked = walked(lambda cell, size: 0.0)
    assert len(asked) == 9
    assert best.at == (2, 0)


def test_it_does_not_leave_the_range():
    best, asked = walked(lambda cell, size: 0.1 * (cell.at[0] + cell.at[1]))
    assert best.at == (14, 14)
    assert all(-7 <= cell.at[0] <= 14 and abs(cell.at[1]) <= 14 for cell, _ in asked)


def test_scores_that_are_missing_are_passed_by():
    best, _ = walked(lambda cell, size: np.nan if cell.at[1] < 0 else -0.01 * (cell.at[1] - 3) ** 2)
    assert best.at[1] == 3


def test_all_choices_are_tried_once():
    best, asked = walked(lambda cell, size: 0.1 * cell.choice - 0.01 * (cell.at[1] - 3) ** 2, n_choices=3)
    assert best.choice == 2
    assert sum(cell.choice == 0 for cell, _ in asked) == 9


def test_cells_that_a_part_cannot_tell_from_the_best_are_carried_on():
    def height(cell, size):
        near = [(2, 0), (6, -4)]
        if size == 100:
            return 0.0 if cell.at == near[0] else -1e-5 if cell.at == near[1] else -1.0
        return 1.0 if cell.at == near[1] else 0.0

    best, asked = walked(height, sizes=(100, 400))
    assert best.at == (6, -4)
    assert {cell.at for cell, size in asked if size == 400} >= {(2, 0), (6, -4)}


def test_rows_that_are_loaded_from_a_file_count_as_memory(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = np.ones((1000, 10))
        rows = SearchData(file["X"], None, {})
        assert rows.loaded(SVC(memory="1MB")).X.held == 80_000
        assert rows.loaded(SVC(memory="300KB")) is rows  # they are more than a quarter of it
