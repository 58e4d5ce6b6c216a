import numpy as np
import pytest

from fastsvm.solvers.outer_loop import Limits, Memoryless, Report, StopReason, drive

STEP = Report(1.0, 0.0, 3, False, False, False)


class Counting:
    """Counts steps; reports say what it is told."""

    def __init__(self, **changed):
        self.report = STEP._replace(**changed)

    def step(self, state, most_steps):
        return state + 1, self.report


def test_a_watcher_may_stop():
    states = []

    def watch(state, report):
        states.append(state)
        return len(states) == 4

    assert drive(Counting(), 0, Limits(10**7, np.inf), watch) == (4, StopReason.CALLBACK, 12)
    assert states == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("changed", "limits", "wanted"),
    [
        ({"converged": True}, Limits(3, 0.0), (1, StopReason.CONVERGED, 3)),
        ({}, Limits(8, np.inf), (3, StopReason.MAX_ITER, 9)),
        ({}, Limits(10**7, 0.0), (1, StopReason.MAX_TIME, 3)),
        ({"stalled": True}, Limits(10**7, np.inf), (1, StopReason.STALLED, 3)),
    ],
)
def test_why_a_fit_ends(changed, limits, wanted):
    assert drive(Counting(**changed), 0, limits, lambda state, report: False) == wanted


def test_a_gap_within_tolerance_is_verified_by_another_step_whatever_the_limits():
    class Verifying(Counting):
        def step(self, state, most_steps):
            return state + 1, STEP._replace(n_steps=0 if state else 3, within=True, converged=state > 0)

    assert drive(Verifying(), 0, Limits(3, 0.0), lambda state, report: False) == (2, StopReason.CONVERGED, 3)


def test_time_is_up_although_each_step_is_within_tolerance():
    class Refusing(Counting):
        def step(self, state, most_steps):
            return state + 1, STEP._replace(within=True, converged=state > 9)

    assert drive(Refusing(), 0, Limits(10**7, 0.0), lambda state, report: False) == (2, StopReason.MAX_TIME, 6)


def test_a_solver_without_memory_recalls_it():
    solver = Memoryless()
    assert solver.recall(solver.memory()) is None


def test_what_cut_a_fit_of_several_problems_short_is_said_first():
    reason = StopReason
    for several, wanted in (
        ([reason.CONVERGED], reason.CONVERGED),
        ([], reason.CONVERGED),
        ([reason.CONVERGED, reason.STALLED], reason.STALLED),
        ([reason.MAX_ITER, reason.STALLED, reason.CONVERGED], reason.MAX_ITER),
        ([reason.MAX_ITER, reason.MAX_TIME], reason.MAX_TIME),
        ([reason.MAX_TIME, reason.CALLBACK], reason.CALLBACK),
    ):
        assert reason.of_all(several) is wanted
