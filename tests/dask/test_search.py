"""Searches on a cluster by joblib's backend: the same scores, and one task for all fits that share kernel rows."""

import re
from collections import Counter

import joblib
import numpy as np
import pytest
from distributed import get_task_stream
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier

import fastsvm

pytestmark = pytest.mark.dask
GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}


@pytest.fixture(scope="module")
def four(digits):
    X, y = digits
    return X[y < 4], y[y < 4]


def test_fits_that_share_kernel_rows_are_one_task(client, four):
    here = fastsvm.SVCSearch(fastsvm.SVC(), GRID, cv=2).fit(*four)
    with joblib.parallel_config(backend="dask"), get_task_stream(client) as seen:
        there = fastsvm.SVCSearch(fastsvm.SVC(memory="100MB"), GRID, cv=2, n_jobs=-1).fit(*four)
    np.testing.assert_array_equal(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])
    assert calls(seen) == {"_group_alone": 2}


def calls(seen):
    """Return how often functions were called in tasks of joblib."""
    found = Counter()
    for task in seen.data:
        if words := re.match(r"batch_of_(\w+)_(\d+)_calls", task["key"]):
            found[words[1]] += int(words[2])
    return found


def test_pairs_of_classes_are_tasks(client, four):
    with joblib.parallel_config(backend="dask"), get_task_stream(client) as seen:
        there = OneVsOneClassifier(fastsvm.SVC(gamma=0.02), n_jobs=-1).fit(*four)
    assert calls(seen) == {"_fit_ovo_binary": 6}
    here = fastsvm.SVC(gamma=0.02).fit(*four)
    assert (there.predict(four[0]) == here.predict(four[0])).mean() > 0.99


def test_a_search_of_scikit_learn_runs_unchanged(client, four):
    with joblib.parallel_config(backend="dask"):
        found = GridSearchCV(fastsvm.LinearSVC(random_state=0), {"C": [0.01, 1.0]}, cv=2, refit=False).fit(*four)
    assert found.best_score_ > 0.9 and not np.isnan(found.cv_results_["mean_test_score"]).any()
