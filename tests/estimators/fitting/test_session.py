"""Warnings of a fit: their line and their advice; and the end of a fit that fails."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fastsvm
from fastsvm.estimators.fitting.session import FitSession

X = np.random.default_rng(0).normal(size=(600, 3))
Y = (X[:, 0] + np.random.default_rng(1).normal(size=600) > 0).astype(int)


@pytest.mark.parametrize(
    "model",
    [
        fastsvm.SVC(max_iter=1),
        fastsvm.OneClassSVM(max_iter=1),
        fastsvm.LinearSVC(max_iter=1, tol=1e-12),
        fastsvm.LinearOneClassSVM(max_iter=1, tol=1e-12),
        fastsvm.NystroemSVR(max_iter=1, tol=1e-12, n_components=64),
        fastsvm.SGDClassifier(max_iter=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_warning_is_of_the_line_that_calls_the_fit(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X + 1, Y)
    told = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    assert told and {each.filename for each in told} == {__file__}


def test_a_folder_whose_name_begins_like_the_package_is_the_users():
    path = str(Path(fastsvm.__file__).parent) + "_lab/program.py"
    program = compile("model.fit(X, y)", path, "exec")
    with pytest.warns(ConvergenceWarning) as caught:
        exec(program, {"model": fastsvm.SVC(max_iter=1), "X": X[:100], "y": Y[:100]})
    assert {each.filename for each in caught} == {path}


@pytest.mark.parametrize(
    ("model", "is_advised"),
    [
        (fastsvm.SVC(max_iter=1), True),
        (fastsvm.SVC(max_iter=1, standardize=True), False),
        (fastsvm.SVC(max_iter=1, kernel="precomputed"), False),
        (fastsvm.LinearSVC(max_iter=1, tol=1e-12), True),
        (fastsvm.LinearSVC(max_iter=1, tol=1e-12, standardize=True), False),
        (fastsvm.SGDClassifier(max_iter=1), True),
        (fastsvm.SGDClassifier(max_iter=1, standardize=True), False),
    ],
    ids=repr,
)
def test_standardising_is_advised_where_it_is_possible_and_not_done(model, is_advised):
    rows = X[:100] @ X[:100].T if getattr(model, "kernel", None) == "precomputed" else X[:100]
    with pytest.warns(ConvergenceWarning, match=r"What to try: raise max_iter") as caught:
        model.fit(rows, Y[:100])
    assert ("standardize=True" in str(caught[0].message).partition("What to try")[2]) is is_advised


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_standardising_is_advised_for_a_missing_margin_where_it_is_possible(kernel):
    rows = np.zeros((20, 20))
    with pytest.warns(ConvergenceWarning, match="found no margin") as caught:
        fastsvm.NuSVC(kernel=kernel).fit(rows, Y[:20])
    assert ("standardize=True" in str(caught[0].message)) is (kernel == "linear")


def test_the_monitor_is_closed_although_the_state_cannot_be_kept():
    closed = []
    monitor = SimpleNamespace(close=lambda: closed.append(1))
    session = FitSession(SimpleNamespace(max_time=None, warm_start=True))

    def reached():
        raise MemoryError

    with (
        pytest.raises(MemoryError),
        session.solving(monitor, "_state", reached),
    ):
        pass
    assert closed == [1]
