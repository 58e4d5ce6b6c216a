"""Pairs of classes that are solved side by side."""

import warnings

import numpy as np
import pytest
import threadpoolctl
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm._compiled import threads
from fastsvm.estimators.kernel import one_vs_one, prepare
from fastsvm.kernel_matrix.pairwise import multiplies_bytes
from fastsvm.tuning import changed, tuned

needs_bytes = pytest.mark.skipif(not multiplies_bytes(70), reason="the processor does not multiply bytes")


def four_classes(n=240):
    rng = np.random.default_rng(4)
    y = rng.integers(0, 4, n)
    centres = rng.integers(90, 160, (4, 70))
    return np.clip(rng.normal(centres[y], 60), 0, 255).astype(np.uint8), y


def fit(**parameters):
    return SVC(**({"C": 2.0, "tol": 1e-5} | parameters)).fit(*four_classes())


@pytest.fixture
def spent(monkeypatch):
    """Solve by working sets; return the plans of all fits and let `change` alter them."""
    plans, change, whole = [], {}, prepare.plan

    def spy(*given):
        plans.append(whole(*given)._replace(**change))
        return plans[-1]

    monkeypatch.setattr(prepare, "plan", spy)
    spy.plans, spy.change = plans, change
    with tuned(changed({"kernel": {"small": False}})):
        yield spy


@needs_bytes
def test_the_number_of_workers_does_not_change_a_bit(spent, monkeypatch):
    found = []
    for k in (1, 2):
        monkeypatch.setattr(threads, "thread_count", lambda k=k: k)
        found.append(fit())
    one, two = spent.plans
    assert (one.workers, two.workers) == (1, 2)
    for name in ("support_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(*(getattr(model, name) for model in found))


@needs_bytes
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("at", [1, 4])
def test_an_interrupt_in_a_worker_ends_the_fit(at, workers, spent, monkeypatch):
    calls, whole = [], one_vs_one.drive

    def interrupt(*given):
        calls.append(given)
        if len(calls) == at:
            raise KeyboardInterrupt
        return whole(*given)

    spent.change["workers"] = workers
    model = SVC().fit(*four_classes())
    monkeypatch.setattr(one_vs_one, "drive", interrupt)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
        with pytest.raises(KeyboardInterrupt):
            model.fit(*four_classes())
        assert [library["num_threads"] for library in threadpoolctl.threadpool_info()] == before
    assert at <= len(calls) < 6
    assert len(model.predict(four_classes()[0])) > 0  # by the model of the fit before


@needs_bytes
@pytest.mark.parametrize("workers", [1, 2])
def test_time_that_is_up_is_told(workers, spent):
    spent.change["workers"] = workers
    with pytest.warns(ConvergenceWarning):
        model = fit(max_time=1e-9)
    assert model.stop_reason_ == "max_time"
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(max_time=1e3).stop_reason_ == "converged"
