"""Are speedups on more processors computed from the pieces that threads share?"""

import time

import pytest

from bench.parallelism import Trace, traced
from fastsvm._compiled.threads import Pool


def test_a_batch_waits_for_its_last_piece():
    trace = Trace([[3.0, 1.0, 1.0, 1.0], [2.0]], [10.0])  # two seconds between the batches
    assert [trace.seconds(p) for p in (1, 2, 3, 64)] == [10.0, 7.0, 7.0, 7.0]
    assert trace.serial == pytest.approx(0.4)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_pieces_count_without_the_batches_within_them(n_threads):
    def busy(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    def piece(pool, seconds):
        busy(seconds)
        pool.run(busy, [(2 * seconds,)])

    with traced() as trace:
        pool = Pool(n_threads)
        pool.run(piece, [(pool, 0.01), (pool, 0.02)])
        assert list(pool.ahead([lambda: busy(0.01)], 2)) == [None]
    assert sorted(map(len, trace.batches)) == [1, 1, 1, 2]
    found = sorted(sum(batch) for batch in trace.batches)
    assert found == pytest.approx([0.01, 0.02, 0.03, 0.04], abs=0.005)
    assert trace.total[0] >= 0.1
    assert Pool.run.__name__ == "run"
