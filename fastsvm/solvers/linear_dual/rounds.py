"""Rounds, with which the ascent of some problems begins: their epochs have no proximal term, and cost little.

A round is an epoch of its own kind, which a subclass defines. Accelerated epochs follow where rounds no longer halve
the gap soon.
"""

from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.proximal_metric import Metric, no_metric
from fastsvm.solvers.linear_dual.proximal_point import ProximalPoint
from fastsvm.solvers.linear_dual.state import LinearDualState
from fastsvm.solvers.outer_loop import Report

__all__ = ["AscentAfterRounds"]

_ROUNDS = 10  # within which the gap should be halved


class AscentAfterRounds(LinearDualAscent):
    """Dual coordinate ascent that begins with rounds."""

    def round(self, state: LinearDualState) -> tuple[LinearDualState, Report]:
        """Take a round, which evaluates the weights before."""
        raise NotImplementedError

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Process a window, or take a round."""
        if not state.in_rounds or most_steps == 0:
            return super().step(state, most_steps)
        state, report = self.round(state)
        if not report.converged and self._is_slow(state, report):
            self.proximal = ProximalPoint(self.problem, super()._first_metric(), self.settings.tuning)
            state = self.proximal.placed(state, state.path.position, state.best)._replace(in_rounds=False)
        return state, report._replace(stalled=False)

    @staticmethod
    def _is_slow(state: LinearDualState, report: Report) -> bool:
        """Return whether a round changed nothing, or some did not halve the gap."""
        return report.stalled or state.epoch > state.halved_at + _ROUNDS

    def _first_metric(self) -> Metric:
        """Return the metric with which epochs begin; rounds have none, and may suffice."""
        return no_metric(self.n_scores, self.width) if self._begins_in_rounds() else super()._first_metric()

    def _begins_in_rounds(self) -> bool:
        """Return whether rounds come before epochs."""
        return True

    def _with_metric_of(self, state: LinearDualState) -> None:
        if not state.in_rounds:
            self.proximal = ProximalPoint(self.problem, super()._first_metric(), self.settings.tuning)

    def adopted(self, state: LinearDualState) -> LinearDualState:
        """Return a state that was saved between two windows, to resume with the same bits."""
        self._with_metric_of(state)
        return super().adopted(state)

    def resumed(self, state: LinearDualState, same_windows: bool) -> LinearDualState:
        """Return a state that was interrupted, with Σ β_i x_i computed anew."""
        self._with_metric_of(state)
        return super().resumed(state, same_windows)
