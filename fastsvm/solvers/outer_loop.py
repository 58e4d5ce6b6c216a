"""The one outer loop of all solvers: tolerance, work and time limits, history, who watches."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

__all__ = ["Limits", "Report", "Solver", "StopReason", "drive"]


class StopReason(StrEnum):
    """Why a fit ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    STALLED = "stalled"


class Report(NamedTuple):
    """What one outer step reached.

    Attributes
    ----------
    gap : float
        Distance from optimality, in the unit of the tolerance.
    objective : float
        Value of the objective, of a dual solver that of the dual.
    n_steps : int
        Inner steps taken.
    within : bool
        Whether the gap is within tolerance.
    converged : bool
        Whether that is verified.
    stalled : bool
        Whether the step could not move although the gap is not within tolerance.
    n_newton : int
        Newton steps taken.
    """

    gap: float
    objective: float
    n_steps: int
    within: bool
    converged: bool
    stalled: bool
    n_newton: int = 0


class Limits(NamedTuple):
    """How much work a solver may do: inner steps, and the moment (of time.perf_counter) to stop at."""

    max_steps: int
    deadline: float


class Solver(Protocol):
    """What the loop asks of a solver."""

    def step(self, state: Any, most_steps: int) -> tuple[Any, Report]:
        """Advance the state."""


def drive(
    solver: Solver, state: Any, limits: Limits, watch: Callable[[Any, Report], bool]
) -> tuple[Any, StopReason, int]:
    """Step until converged or out of work, and return the state, why, and the number of inner steps.

    Parameters
    ----------
    solver : Solver
        Advances the state.
    state : Any
        Where to begin.
    limits : Limits
        When to stop early.
    watch : callable
        `watch(state, report)` is called after each step; a true answer stops the loop.
    """
    n_steps = 0
    while True:
        state, report = solver.step(state, limits.max_steps - n_steps)
        n_steps += report.n_steps
        stop = watch(state, report)
        if report.converged:
            return state, StopReason.CONVERGED, n_steps
        if stop:
            return state, StopReason.CALLBACK, n_steps
        if report.within and report.n_steps > 0:  # the next step verifies it
            continue
        if n_steps >= limits.max_steps:
            return state, StopReason.MAX_ITER, n_steps
        if time.perf_counter() >= limits.deadline:
            return state, StopReason.MAX_TIME, n_steps
        if report.stalled:
            return state, StopReason.STALLED, n_steps
