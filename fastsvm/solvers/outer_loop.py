"""The outer loop of all solvers: tolerance, limits of work and time, and who observes each step."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

__all__ = ["Limits", "Memoryless", "Report", "Solver", "Steps", "StopReason", "drive"]

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


class Report(NamedTuple):
    """What one outer step reached.

    Attributes
    ----------
    gap : float
        Distance from optimality, in the unit of the tolerance.
    objective : float
        Value of the objective; of a dual solver, that of the dual.
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
    """The most inner steps a solver may take, and the moment (of time.perf_counter) to stop at."""

    max_steps: int
    deadline: float


class Steps(Protocol[State]):
    """What the loop asks of a solver."""

    def step(self, state: State, most_steps: int) -> tuple[State, Report]:
        """Advance the state by at most so many inner steps, and return it with what was reached."""


class Solver(Steps[State], Protocol[State, Start, Solution, Memory]):
    """A solver of one problem, from its initial state to its solution.

    The state holds all that changes from step to step, but for what `memory` returns. A solver that recalls the memory
    of another one continues with the other's state as the other would have, to the bit.
    """

    def init(self, start: Start | None = None, /) -> State:
        """Return the state at a start, or at zero."""

    def finish(self, state: State) -> Solution:
        """Return the solution that a state stands for, and its certificate."""

    def memory(self) -> Memory:
        """Return what the solver knows beside the state, as a storable record; None if that is nothing."""

    def recall(self, memory: Memory) -> None:
        """Take over what another solver of the same problem returned as its memory."""


class Memoryless:
    """A solver that knows nothing beside its state."""

    def memory(self) -> None:
        """Return None."""

    def recall(self, memory: None) -> None:
        """Do nothing."""


def drive(
    solver: Steps[State], state: State, limits: Limits, watch: Callable[[State, Report], bool]
) -> tuple[State, StopReason, int]:
    """Step until converged or out of work, and return the state, why it ended, and the number of inner steps.

    Parameters
    ----------
    solver : Steps
        Advances the state.
    state : State
        Where to begin.
    limits : Limits
        When to stop early.
    watch : callable
        `watch(state, report)` is called after each step. The loop stops when it returns true.
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
