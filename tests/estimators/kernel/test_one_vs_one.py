"""Limits of the two-class problems of a fit, their history, and warm starts."""

import numpy as np
import pandas as pd
import pytest
from kernel_machines import same
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm.tuning import changed, tuned


@pytest.fixture(autouse=True)
def short():
    """Fits have several outer iterations."""
    with tuned(changed({"kernel": {"set_steps": 1}})):
        yield


def test_the_history_has_one_entry_an_outer_iteration(many):
    model = SVC(gamma=0.1).fit(*many)
    table = pd.DataFrame(model.history_)
    assert len(table) > 3
    assert table["time"].is_monotonic_increasing
    assert (np.diff(table["objective"]) >= -1e-8 * model.objective_).all()  # rounding of float32 may take back
    assert table["violation"].iloc[-1] <= model.tol
    assert table["iteration"].iloc[-1] == model.n_iter_[0]
    assert table["objective"].iloc[-1] == pytest.approx(model.objective_, rel=1e-6)
    assert model.passes_ > 0


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [({"max_iter": 5}, "max_iter"), ({"max_time": 1e-9}, "max_time")],
    ids=["iter", "time"],
)
def test_limits_end_a_fit_with_a_warning(parameters, reason, many):
    X, y = many[0][::-1], many[1][::-1]
    with pytest.warns(ConvergenceWarning, match=reason) as caught:
        model = SVC(gamma=0.1, **parameters).fit(X, y)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.fit_status_ == 1
    assert model.stop_reason_ == reason
    assert model.kkt_violation_ > model.tol
    assert model.duality_gap_ > 0
    assert model.predict(X).shape == y.shape


def test_no_steps_at_all(overlapping):
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_iter=0).fit(*overlapping)
    assert len(model.support_) == 0
    assert model.predict(overlapping[0]).shape == (150,)


def test_each_problem_may_take_as_many_steps(three_classes):
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_iter=3).fit(*three_classes)
    np.testing.assert_array_equal(model.n_iter_, 3)


@pytest.mark.parametrize("data", ["overlapping", "three_classes"])
def test_warm_start_resumes(data, request):
    X, y = request.getfixturevalue(data)
    wanted = SVC(C=10.0, tol=1e-8).fit(X, y)
    model = SVC(C=10.0, tol=1e-8, warm_start=True, max_iter=30)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    before = model.objective_
    model.set_params(max_iter=-1).fit(X, y)
    assert model.history_["objective"][0] >= before / len(model.n_iter_) * 0.1
    assert model.objective_ > before
    same(model, wanted, X)


def test_warm_start_at_the_end_takes_no_steps(overlapping):
    model = SVC(warm_start=True).fit(*overlapping)
    model.fit(*overlapping)
    assert model.n_iter_[0] <= 2


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_warm_start_with_another_penalty(C, overlapping):
    X, y = overlapping
    model = SVC(warm_start=True, tol=1e-9).fit(X, y)
    same(model.set_params(C=C).fit(X, y), SVC(C=C, tol=1e-9).fit(X, y), X)


def test_warm_start_with_other_data(overlapping, three_classes):
    model = SVC(warm_start=True, tol=1e-9).fit(*overlapping)
    same(model.fit(*three_classes), SVC(tol=1e-9).fit(*three_classes), three_classes[0])


def test_warm_start_with_other_labels(overlapping):
    X, y = overlapping
    model = SVC(warm_start=True, tol=1e-9).fit(X, y)
    same(model.fit(X, 1 - y), SVC(tol=1e-9).fit(X, 1 - y), X)


def test_time_is_up_between_problems_too():
    """Every problem is handed to a thread by itself, between two looks at the clock."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), np.arange(600) % 60
    one_by_one = changed({"kernel": {"task_ns": 1.0, "call_ns": 1.0}})
    with tuned(one_by_one), pytest.warns(ConvergenceWarning, match="max_time"):
        model = SVC(max_time=1e-6).fit(X, y)
    assert (model.n_iter_ > 0).sum() == 1
    assert model.predict(X).shape == (600,)


def test_problems_that_small_steps_gave_up_keep_what_these_reached_when_time_is_up(three_classes):
    few_steps = changed({"kernel": {"many_steps": 5}})
    with tuned(few_steps), pytest.warns(ConvergenceWarning, match="max_time"):
        model = SVC(max_time=1e-9).fit(*three_classes)
    assert (model.n_iter_ >= 5).all() and np.isfinite(model.duality_gap_) and model.kkt_violation_ > model.tol
