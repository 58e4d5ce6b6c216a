"""Grid searches in model files."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer

import fastsvm
from fastsvm import SVC, LinearSVC, SVCSearch
from fastsvm.files.array_file import read_arrays, write_arrays
from fastsvm.kernels import RBF

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["ant", "bee", "cat"])[Y]
SEARCHES = {
    "one grid": SVCSearch(SVC(class_weight={"ant": 2.0}), {"C": [0.1, 1], "gamma": ["scale", 0.1]}, cv=3),
    "two grids": SVCSearch(SVC(), [{"kernel": ["linear"]}, {"C": np.array([1, 10]), "kernel": [RBF(0.5)]}], cv=3),
    "several scores": SVCSearch(
        None, {"C": [1, 2]}, cv=3, scoring=["accuracy", "f1_macro"], refit="f1_macro", return_train_score=True
    ),
    "no refit": SVCSearch(LinearSVC(tol=1e-2), {"C": [0.1, 1]}, cv=3, refit=False, error_score=-1.0),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.search"


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_the_same_after_a_round_trip(name, path):
    search = clone(SEARCHES[name]).fit(pd.DataFrame(X, columns=list("abcd")), NAMES)
    fastsvm.save(search, path)
    again = fastsvm.load(path)
    assert type(again) is SVCSearch
    left, right = pd.DataFrame(search.cv_results_), pd.DataFrame(again.cv_results_)
    pd.testing.assert_frame_equal(left, right)
    for attribute in ("best_params_", "best_index_", "best_score_", "n_splits_", "multimetric_", "refit_time_"):
        assert getattr(again, attribute, None) == getattr(search, attribute, None)
    assert repr(again.get_params()["estimator"]) == repr(search._given())
    if search.refit:
        frame = pd.DataFrame(X, columns=list("abcd"))
        np.testing.assert_array_equal(again.predict(frame), search.predict(frame))
        assert again.score(frame, NAMES) == search.score(frame, NAMES)
        assert list(again.feature_names_in_) == list("abcd")
    assert clone(again).fit(X, NAMES).n_splits_ == 3


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (SVCSearch(SVC(), {"C": [1]}, scoring=make_scorer(accuracy_score)), "scoring=.* code is not data"),
        (SVCSearch(SVC(kernel=lambda a, b: a @ b.T), {"C": [1]}), "code is not data"),
        (SVCSearch(LogisticRegression(max_iter=1000), {"C": [1]}), "its estimator is of fastsvm"),
    ],
)
def test_code_is_not_saved(search, words, path):
    with pytest.raises(TypeError, match=words):
        fastsvm.save(search.fit(X, Y), path)
    assert not path.exists()


def test_a_search_that_is_not_fitted(path):
    with pytest.raises(ValueError, match="not fitted"):
        fastsvm.save(SVCSearch(SVC(), {"C": [1]}), path)


FORGERIES = {
    "a best cell that is not there": lambda header, arrays: header["attributes"].update(best_index_=9),
    "a best cell that is no number": lambda header, arrays: header["attributes"].update(best_index_="0"),
    "an attribute of no search": lambda header, arrays: header["attributes"].update(predict=1),
    "fewer scores": lambda header, arrays: arrays.update({"cv_results_.mean_test_score": np.zeros(1)}),
    "scores as words": lambda header, arrays: arrays.update({"cv_results_.mean_test_score": np.array(["a"] * 4)}),
    "an estimator that is not there": lambda header, arrays: header["parameters"]["estimator"].update({"class": "X"}),
    "a parameter that is not there": lambda header, arrays: header["parameters"].update(gamma=1),
    "a model without coefficients": lambda header, arrays: arrays.pop("best_estimator_.dual_coef_"),
    "a model that is a search": lambda header, arrays: header["model"].update(estimator="SVCSearch"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_searches_are_refused(name, path):
    fastsvm.save(clone(SEARCHES["one grid"]).fit(X, NAMES), path)
    header, arrays = read_arrays(path)
    FORGERIES[name](header, arrays)
    write_arrays(path, json.dumps(header), arrays)
    with pytest.raises(ValueError, match="is damaged, or was not written by fastsvm"):
        fastsvm.load(path)
