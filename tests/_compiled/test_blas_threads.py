"""BLAS has one thread during a fit in any thread, whatever sets limits meanwhile. Limits are restored after it."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fastsvm import SVC, LinearSVC, LinearSVR, SGDClassifier
from fastsvm._compiled import threads
from fastsvm._compiled.threads import Pool, one_threaded_blas

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(60, 3))
y = (X[:, 0] + 0.3 * _RNG.normal(size=60) > 0).astype(int)


def limits():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _as_before():
    """Give BLAS two threads during a test, then restore its limits."""
    assert limits()
    with threadpool_limits(2, user_api="blas"):
        yield
        assert set(limits()) == {2}


class Watched:
    """A kernel that records the limits at each call, and may run an action first."""

    def __init__(self, first=lambda: None):
        self.seen, self._first = [], first

    def __call__(self, rows, others):
        first, self._first = self._first, lambda: None
        first()
        self.seen.append(limits())
        return rows @ others.T

    def fit(self):
        SVC(kernel=self, cache_size=1e-3).fit(X, y)
        return self


def elsewhere(function):
    with ThreadPoolExecutor(1) as other:
        return other.submit(function).result()


def is_one(seen):
    return len(seen) > 0 and all(set(each) == {1} for each in seen)


@pytest.mark.parametrize("run", [lambda f: f(), elsewhere, lambda f: asyncio.run(asyncio.to_thread(f))])
def test_a_fit_has_one_thread_in_any_thread_within_limits_of_the_main_one(run):
    assert is_one(run(Watched().fit).seen)
    assert set(limits()) == {2}


def test_a_prediction_in_another_thread_has_one_thread():
    kernel = Watched()
    model = SVC(kernel=kernel).fit(X, y)
    kernel.seen.clear()
    elsewhere(lambda: model.predict(X))
    assert is_one(kernel.seen)


def test_a_thread_that_fitted_does_not_keep_others_from_setting_limits():
    fitted, done = threading.Event(), threading.Event()

    def fit():
        Watched().fit()
        fitted.set()
        done.wait(60)

    thread = threading.Thread(target=fit)
    thread.start()
    assert fitted.wait(60)
    with threadpool_limits(3, user_api="blas"):
        assert set(limits()) == {3}
    done.set()
    thread.join()


def test_limits_of_the_thread_that_fits_come_back():
    def within():
        with threadpool_limits(1, user_api="blas"):
            before = limits()
            assert is_one(Watched().fit().seen)
            return before, limits()

    before, after = elsewhere(within)
    assert before == after


def test_fits_at_once_hold_it_until_the_last_has_ended():
    both, one_ended = threading.Barrier(2, timeout=60), threading.Event()
    short, long = Watched(both.wait), Watched(lambda: (both.wait(), one_ended.wait(60)))
    with ThreadPoolExecutor(2) as others:
        ends = others.submit(short.fit), others.submit(long.fit)
        ends[0].result()
        one_ended.set()
        ends[1].result()
    assert is_one(short.seen)
    assert is_one(long.seen)


def test_limits_that_are_set_during_a_fit_end_with_its_next_pieces_and_those_from_before_come_back():
    seen = []
    with Pool.open() as pool:
        threadpool_limits(3, user_api="blas")
        pool.run(lambda: seen.append(limits()), [()] * 3)
        with threadpool_limits(3, user_api="blas"):
            list(pool.ahead([lambda: seen.append(limits())] * 3, 2))
    assert is_one(seen)
    assert set(limits()) == {2}


def test_a_limit_that_is_in_force_when_a_fit_ends_stays():
    with one_threaded_blas:
        threadpool_limits(3, user_api="blas")
    assert set(limits()) == {3}
    threadpool_limits(2, user_api="blas")


@pytest.mark.parametrize("name", ["_restore", "hold"])
def test_an_interrupt_while_limits_are_set_or_restored_does_not_leave_one_thread(name, monkeypatch):
    owner = one_threaded_blas if name == "hold" else threads
    real = getattr(owner, name)

    def interrupted(*given):
        monkeypatch.setattr(owner, name, real)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        Watched().fit()
    assert set(limits()) == {2}
    assert is_one(Watched().fit().seen) and set(limits()) == {2}


def fits(rows):
    labels = (rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0)
    models = [
        SVC(max_iter=50),
        LinearSVC(max_iter=3, random_state=0, standardize=True),
        LinearSVC(max_iter=3, random_state=0, multi_class="crammer_singer"),
        LinearSVR(max_iter=3, random_state=0),
        SGDClassifier(max_iter=2, tol=None, random_state=0, standardize=True),
    ]
    for model in models:
        model.fit(rows, labels)
    parts = [(getattr(m, "dual_coef_", None), getattr(m, "coef_", None) if not isinstance(m, SVC) else None,
              m.intercept_, m.predict(rows)) for m in models]  # fmt: skip
    return b"".join(np.asarray(part).tobytes() for each in parts for part in each if part is not None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_have_the_same_bits_in_any_thread_and_beside_others():
    rows = _RNG.normal(size=(1500, 160))  # large enough for BLAS to use several threads
    wanted = fits(rows)
    assert elsewhere(lambda: fits(rows)) == wanted
    with ThreadPoolExecutor(3) as others:
        assert [each.result() for each in [others.submit(fits, rows) for _ in range(3)]] == [wanted] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork in a process with threads
def test_a_child_has_the_limits_from_before_a_fit_in_another_thread():
    begun, done = threading.Event(), threading.Event()

    def hold():
        with one_threaded_blas:
            begun.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(max(limits()))
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 2
