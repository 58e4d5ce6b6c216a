import threading
import time
from functools import partial

import numpy as np
import pytest

from fastsvm._compiled import threads
from fastsvm._compiled.threads import Pool, stoppable


@pytest.fixture(params=[1, 2, 5])
def pool(request, monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 3)  # there may be fewer helpers than a pool requests
    threads._executor.cache_clear()
    yield Pool(request.param)
    threads._executor().shutdown()
    threads._executor.cache_clear()


def test_every_piece_is_done_once(pool):
    done = []
    pool.run(lambda k: done.append(k), [(k,) for k in range(200)])
    assert sorted(done) == list(range(200))
    pool.run(done.append, [])
    assert len(done) == 200


def test_the_thread_that_waits_works_too(pool):
    threads = set()

    def piece():
        threads.add(threading.get_ident())
        time.sleep(0.005)

    pool.run(piece, [()] * 30)
    assert threading.get_ident() in threads
    assert len(threads) == min(pool.n_threads, 3)


@pytest.mark.parametrize("n_threads", [2, 3, 9])
@pytest.mark.parametrize("begin", ["run", "ahead"])
def test_all_threads_of_a_pool_and_no_more_work_at_once(begin, n_threads, monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 12)
    threads._executor.cache_clear()
    pool, all_work = Pool(n_threads), threading.Barrier(n_threads)
    working, most = [], []

    def piece():
        working.append(None)
        most.append(len(working))
        all_work.wait(timeout=60)
        working.pop()

    for _ in range(5):  # and helpers that ended may be woken again
        if begin == "run":
            pool.run(piece, [()] * 3 * n_threads)
        else:
            assert len(list(pool.ahead([piece] * 3 * n_threads, 2 * n_threads))) == 3 * n_threads
    threads._executor().shutdown()
    threads._executor.cache_clear()
    assert max(most) == n_threads


def test_pieces_may_have_pieces(pool):
    done = []

    def outer(k):
        pool.run(lambda i: done.append((k, i)), [(i,) for i in range(4)])

    pool.run(outer, [(k,) for k in range(6)])
    assert sorted(done) == [(k, i) for k in range(6) for i in range(4)]


@pytest.mark.parametrize("error", [ValueError, IndexError, KeyboardInterrupt])
@pytest.mark.parametrize("begin", ["run", "ahead"])
def test_an_error_leaves_the_others_undone(pool, begin, error):
    done = []

    def piece(k):
        if k == 3:
            raise error(f"piece {k}")
        time.sleep(0.001)
        done.append(k)

    with pytest.raises(error, match="piece 3"):
        if begin == "run":
            pool.run(piece, [(k,) for k in range(300)])
        else:
            list(pool.ahead((partial(piece, k) for k in range(300)), 20))
    assert len(done) < 30
    count = len(done)
    pool.run(piece, [(k,) for k in range(10, 14)])  # it can be used again
    assert len(done) == count + 4


def test_results_come_in_order_and_no_more_than_asked_for_are_there(pool):
    asked, used, there = [], [], []

    def calls():
        for k in range(60):
            asked.append(k)
            there.append(len(asked) - len(used))
            yield lambda k=k: (time.sleep(0.003 if k % 7 == 0 else 0), k)[1]

    for found in pool.ahead(calls(), 4):
        assert found == len(used)
        used.append(found)
    assert used == list(range(60))
    assert max(there) == 4


def test_other_threads_make_the_next_calls_while_a_result_is_used(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    threads._executor.cache_clear()
    made = threading.Event()
    results = Pool(2).ahead([lambda: 0, made.set, lambda: 2], 3)
    assert next(results) == 0
    assert made.wait(timeout=60)
    assert list(results) == [None, 2]
    threads._executor().shutdown()
    threads._executor.cache_clear()


def test_an_error_of_a_call_comes_in_its_turn(pool):
    def fail():
        raise ValueError("call 2")

    found = []
    with pytest.raises(ValueError, match="call 2"):
        for result in pool.ahead([lambda: 0, lambda: 1, fail, lambda: 3], 3):
            found.append(result)
    assert found == [0, 1]


def test_calls_that_nobody_waits_for_end_with_the_generator(pool):
    done = []
    results = pool.ahead([lambda k=k: (time.sleep(0.003), done.append(k)) for k in range(50)], 20)
    next(results)
    results.close()
    count = len(done)
    assert count < 20
    time.sleep(0.02)
    assert len(done) == count


def test_what_is_stoppable_is_told_of_the_deadline():
    def until_told(stop):
        while stop[0] == 0:
            time.sleep(0.001)
        return threading.get_ident()

    assert stoppable(until_told, time.perf_counter() + 0.01) != threading.get_ident()
    assert stoppable(lambda stop: stop.sum(), np.inf) == 0
