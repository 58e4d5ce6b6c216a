"""The protocol of solvers, and their outer loop: convergence, limits of steps and time, a callback for each step."""

import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

State = TypeVar("State")
Start = TypeVar("Start", contravariant=True)
Solution = TypeVar("Solution", covariant=True)
Memory = TypeVar("Memory")


class StopReason(StrEnum):
    """Why a fit ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    STALLED = "stalled"

    @classmethod
    def of_all(cls, reasons: Iterable["StopReason"]) -> "StopReason":
        """Return why several problems ended: the first of callback, max_time, max_iter, stalled that occurred."""
        met = set(reasons)
        order = cls.CALLBACK, cls.MAX_TIME, cls.MAX_ITER, cls.STALLED
        return next((one for one in order if one in met), cls.CONVERGED)


class Report(NamedTuple):
    """Result of one outer step."""

    gap: float  # Distance from optimality, comparable with the tolerance; NaN if unknown, as in gradient descent.
    objective: float  # Dual solvers report the dual objective.
    n_steps: int  # So many units of work were done, as the solver counts them: steps, epochs or problems.
    within: bool  # The gap is within tolerance.
    converged: bool  # Convergence is verified.
    stalled: bool  # The step made no progress although the gap is not within tolerance.
    n_newton: int = 0  # So many Newton steps were taken.


class Limits(NamedTuple):
    """Largest number of steps, in the solver's unit, and the time (of time.perf_counter) at which to stop."""

    max_steps: int
    deadline: float


class OutOfTime(Exception):
    """Raised by a part of a long step, whose solver returns what the step began with."""


def check_time(deadline: float) -> None:
    """Raise OutOfTime if a moment (of time.perf_counter) is past."""
    if time.perf_counter() >= deadline:
        raise OutOfTime


class Steps(Protocol[State]):
    """The part of a solver that the loop uses."""

    def step(self, state: State, most_steps: int) -> tuple[State, Report]:
        """Do at most `most_steps` units of work; return the new state and a report."""


class Solver(Steps[State], Protocol[State, Start, Solution, Memory]):
    """A solver of one problem, from its initial state to its solution.

    State and memory together hold all that changes. After `recall`, steps have the bits of those of the other solver.
    """

    def init(self, start: Start | None = None, /) -> State:
        """Return the initial state at `start`, or at zero."""

    def finish(self, state: State) -> Solution:
        """Return the solution at a state, with its certificate."""

    def memory(self) -> Memory:
        """Return what decides the next steps beside the state, as a storable record, or None."""

    def recall(self, memory: Memory) -> None:
        """Restore the memory of another solver of the same problem."""


def check_solver(kind: type) -> None:
    """Raise ValueError, which names it, if a class lacks a method of the protocol `Solver`."""
    for name in (*vars(Solver), *vars(Steps)):
        if not name.startswith("_") and not callable(getattr(kind, name, None)):
            raise ValueError(f"{kind.__name__} has no {name}: see `Solver` in fastsvm/solvers/outer_loop.py.")


class Memoryless:
    """Base of solvers that store nothing outside the state that decides the next steps."""

    def memory(self) -> None:
        """Return None."""

    def recall(self, memory: None) -> None:
        """Do nothing."""


def copied(state: Any) -> Any:
    """Return a copy of a state, whose arrays change in place."""
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else value for value in state))


def drive(
    solver: Steps[State], state: State, limits: Limits, watch: Callable[[State, Report], bool]
) -> tuple[State, StopReason, int]:
    """Step until convergence, a limit, or `watch` returns true; return state, reason, and units of work."""
    n_steps, is_late = 0, False
    while True:
        state, report = solver.step(state, limits.max_steps - n_steps)
        n_steps += report.n_steps
        stop = watch(state, report)
        if report.converged:
            return state, StopReason.CONVERGED, n_steps
        if stop:
            return state, StopReason.CALLBACK, n_steps
        if report.within and report.n_steps > 0 and not is_late:  # the next step verifies it, even if time is up
            is_late = time.perf_counter() >= limits.deadline
            continue
        if n_steps >= limits.max_steps:
            return state, StopReason.MAX_ITER, n_steps
        if time.perf_counter() >= limits.deadline:
            return state, StopReason.MAX_TIME, n_steps
        if report.stalled:
            return state, StopReason.STALLED, n_steps
