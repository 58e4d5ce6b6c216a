"""The curve of a process's memory, which the gallery draws."""

from pathlib import Path

import pytest

from bench.workers.memory_curve import MemoryCurve


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system tells the peak only, which may not grow")
def test_a_curve_of_memory_rises_and_falls():
    with MemoryCurve(every_s=0.001) as curve:
        block = bytearray(80_000_000)
        del block
    times, added = zip(*curve.points, strict=True)
    assert curve.falls and times[0] == pytest.approx(0, abs=0.1) and list(times) == sorted(times)
    assert added[0] == pytest.approx(0, abs=1) and added[-1] < 40


def test_a_system_that_tells_the_peak_only(monkeypatch):
    monkeypatch.setattr("bench.workers.memory_curve._STATUS", Path("/no/such/file"))
    with MemoryCurve() as curve:
        pass
    assert not curve.falls and all(added >= 0 for _, added in curve.points)
