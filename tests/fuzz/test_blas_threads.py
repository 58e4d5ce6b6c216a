"""BLAS within fits and predictions has one thread, whichever thread they run in, and the user's limit comes back."""

import random
import threading

import numpy as np
import pytest
import threadpoolctl
from fuzz.budget import SEED, chunks

from fastsvm import SVC

ONE = 1


def _limits():
    return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]


def _fit(rows, seen):
    """Fit and predict with a kernel that looks at the limits meanwhile."""
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 3))
    y = np.arange(rows) % 2

    def kernel(A, B):
        seen.append(_limits())
        return A @ B.T

    SVC(kernel=kernel, max_time=20).fit(X, y).predict(X)


def _work(fits, own, seen, after, errors):
    """Do what a thread of a server does: set a limit of its own or none, fit some times, look at what is left."""
    try:
        if own is None:
            for rows in fits:
                _fit(rows, seen)
            return
        with threadpoolctl.threadpool_limits(own, user_api="blas"):
            before = _limits()
            for rows in fits:
                _fit(rows, seen)
            after.append((before, _limits()))
    except Exception as error:
        errors.append(error)


def check(threads, fits, own, at_once):
    """Raise AssertionError if a fit in one of the threads sees or leaves another limit than it should."""
    most = max(threadpoolctl.threadpool_info(), key=lambda each: each["num_threads"])["num_threads"]
    if most == ONE:
        pytest.skip("BLAS has one thread here, whatever is asked for")
    user, seen, after, errors = _limits(), [], [], []
    works = [threading.Thread(target=_work, args=(fits, own, seen, after, errors)) for _ in range(threads)]
    for work in works:
        work.start()
        if not at_once:
            work.join()
    for work in works:
        work.join()
    assert not errors, errors
    words = f"check(threads={threads}, fits={fits}, own={own}, at_once={at_once})"
    most = max(max(limits) for limits in seen)
    assert most == ONE, f"BLAS had {most} threads within a fit: {words}"
    if not at_once:
        assert all(before == left for before, left in after), f"limits before and after a fit: {after}: {words}"
    assert _limits() == user, f"the limits were {user}, and are {_limits()} after the fits: {words}"
    with threadpoolctl.threadpool_limits(ONE, user_api="blas"):
        assert set(_limits()) == {ONE}, f"limits have no effect after the fits: {words}"
    assert _limits() == user


@pytest.mark.parametrize(("chunk", "count"), [(k, max(1, count // 10)) for k, count in chunks()])
def test_blas_has_one_thread_in_fits_of_any_thread(chunk, count):
    rng = random.Random(f"{SEED} {chunk}")
    for _ in range(count):
        at_once = rng.random() < 0.5
        own = None if at_once else rng.choice([None, 1, 2])  # what two threads ask for at once is no promise of ours
        check(rng.randint(1, 3), [rng.randint(4, 30) for _ in range(rng.randint(1, 3))], own, at_once)
