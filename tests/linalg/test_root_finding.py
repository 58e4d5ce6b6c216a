"""Roots of increasing functions, against those that are known."""

from typing import NamedTuple

import numpy as np
import pytest

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at

LIMITS = RootLimits(doublings=4, steps=60, value=0.0, width=1e-15)


class Cubic(NamedTuple):
    root: float
    calls: np.ndarray


@slope_at.register(Cubic)
def cubic(line, t):
    line.calls[0] += 1
    return (t - line.root) + (t - line.root) ** 3


class Kinked(NamedTuple):
    """A piecewise linear function with the root 2."""

    steep: float


@slope_at.register(Kinked)
def kinked(line, t):
    return line.steep * (t - 2) if t > 2 else (t - 2) / line.steep


@jit
def root_of(line, low, high, limits):
    return illinois_root(line, Bracket(low, slope_at(line, low), high, slope_at(line, high)), limits)


@pytest.mark.parametrize("root", [0.3, 0.999, 1e-7, 1.5, 7.0, 15.0])
def test_the_root_is_found_in_few_steps(root):
    calls = np.zeros(1)
    assert root_of(Cubic(root, calls), 0.0, 1.0, LIMITS) == pytest.approx(root, rel=1e-14)
    assert calls[0] < 40


@pytest.mark.parametrize("steep", [1e-3, 1.0, 1e3])
def test_a_kink_at_the_root(steep):
    assert root_of(Kinked(steep), 0.0, 3.0, LIMITS._replace(steps=200)) == pytest.approx(2, rel=1e-12)


def test_a_root_far_beyond_is_not_looked_for():
    assert root_of(Cubic(17.0, np.zeros(1)), 0.0, 1.0, LIMITS) == 16


def test_a_value_that_is_small_enough_ends_the_search():
    found = root_of(Cubic(0.7, np.zeros(1)), 0.0, 1.0, LIMITS._replace(value=1e-2))
    assert 1e-6 < abs(found - 0.7) <= 1e-2
