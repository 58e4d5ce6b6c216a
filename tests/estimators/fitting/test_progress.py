import numpy as np
import pytest

from fastsvm.estimators.fitting.progress import time_left

AT = np.arange(10.0)


def test_a_gap_that_falls_evenly_tells_when_it_will_be_small():
    assert time_left(AT, np.exp(-0.5 * AT), np.exp(-6)) == pytest.approx(3)
    assert time_left(AT, np.exp(-0.5 * AT), np.exp(-4)) == 0


def test_the_pace_of_the_last_half_counts():
    gaps = np.where(AT < 5, 1.0, np.exp(-(AT - 4)))
    assert time_left(AT, gaps, np.exp(-10)) == pytest.approx(5)


@pytest.mark.parametrize("gaps", [[], [1.0], [np.inf, np.inf], [1.0, 0.5], [1.0] * 10, 2.0**AT, [np.nan, 1.0, 0.5]])
def test_nothing_is_told_where_nothing_tells(gaps):
    assert time_left(AT[: len(gaps)], gaps, 1e-3) is None
