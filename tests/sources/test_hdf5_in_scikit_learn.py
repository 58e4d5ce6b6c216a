"""Data in files that scikit-learn's tools split."""

import pickle

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import SVC, LinearSVC, SGDClassifier, open_hdf5

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def data(tmp_path):
    """Return iris in a file, in a random order."""
    order = np.random.default_rng(0).permutation(len(Y))
    with h5py.File(tmp_path / "iris.h5", "w") as file:
        file["X"], file["y"] = X[order], Y[order]
        file["id"] = np.arange(len(Y)) + 1000
        file["sample_weight"] = np.ones(len(Y))
    with open_hdf5(tmp_path / "iris.h5") as opened:
        yield opened


def array(data):
    return data.X.in_memory().block.user_array()


@pytest.mark.parametrize(
    "model", [SVC(), LinearSVC(tol=1e-9, random_state=0), SGDClassifier(max_iter=20, tol=None, random_state=0)]
)
def test_scores_are_those_of_arrays(model, data):
    cv = StratifiedKFold(3)
    found = cross_val_score(model, data, data.y, cv=cv)
    np.testing.assert_array_equal(found, cross_val_score(model, array(data), data.y, cv=cv))


def test_a_grid_search_in_two_processes(data):
    grid = {"C": [0.01, 1]}
    found = GridSearchCV(SVC(), grid, cv=3, n_jobs=2).fit(data, data.y)
    wanted = GridSearchCV(SVC(), grid, cv=3).fit(array(data), data.y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(found.predict(data), wanted.predict(array(data)))


def test_labels_of_the_file_are_used_without_y(data):
    found = GridSearchCV(SVC(), {"C": [1]}, cv=3).fit(data)
    wanted = GridSearchCV(SVC(), {"C": [1]}, cv=StratifiedKFold(3)).fit(array(data), data.y)
    assert abs(found.best_score_ - wanted.best_score_) < 0.05
    np.testing.assert_array_equal(found.predict(data), wanted.predict(array(data)))


def test_split_and_predict(data):
    train, test = train_test_split(data, random_state=0)
    assert train.shape == (112, 4) and len(test) == 38
    np.testing.assert_array_equal(np.sort(np.r_[train.ids, test.ids]), data.ids)
    np.testing.assert_array_equal(array(test), array(data)[test.ids - 1000])
    assert SVC().fit(train).score(test) > 0.9
    predicted = cross_val_predict(SVC(), data, data.y, cv=3)
    assert (predicted == data.y).mean() > 0.9


def test_parts_of_parts(data):
    part = data[np.arange(100)[::-1]][np.arange(100) % 2 == 0][:5]
    np.testing.assert_array_equal(part.ids, 1099 - 2 * np.arange(5))
    np.testing.assert_array_equal(part.y, data.y[99 - 2 * np.arange(5)])
    again = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(array(again), array(part))
    np.testing.assert_array_equal(again.ids, part.ids)
    with pytest.raises(TypeError, match="Only rows"):
        data[:, 0]


def test_what_needs_an_array_says_what_to_use_instead(data):
    with pytest.raises(TypeError, match="standardize=True"):
        make_pipeline(StandardScaler(), SVC()).fit(data, data.y)
    with pytest.raises(TypeError, match="in_memory"):
        np.asarray(data)
