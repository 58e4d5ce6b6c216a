"""When a decomposition ends: the gap to aim for, the confirmation of F, and polishing to rounding error.

End
    A gap within tolerance counts only by an F that is verified, where kernel values are float64, or confirmed in
    float64, where they are float32. If F in float64 refuses the gap, steps aim for a smaller one. A solution that is
    confirmed is polished by Newton steps to rounding error, where they are cheap. If the gap is within the rounding
    error of F but not within tolerance, steps follow an F in more digits, and the fit ends once they gain nothing.
"""

from collections.abc import Callable
from enum import Enum, auto

import numpy as np

from fastsvm.kernel_matrix.rounding import EXACT, SEEN, UNIT
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.solvers.kernel_dual.newton_step import NewtonTrial
from fastsvm.solvers.kernel_dual.problem import Formulation, KernelDualState
from fastsvm.solvers.outer_loop import Report
from fastsvm.tuning import KernelTuning

__all__ = ["SetSteps", "Termination", "Verdict"]

SetSteps = Callable[[KernelDualState, float, int], tuple[KernelDualState, int]]
"""Solves one working set of a state, to a gap, in so many steps at most; returns the state and the steps taken."""


class Verdict(Enum):
    """Whether a state is a solution."""

    CONTINUE = auto()
    CONFIRMED = auto()
    ROUNDING = auto()
    """The gap is not within tolerance, but within the rounding error of F."""


class Termination:
    """Decides when one problem is solved, with a gap of at most `tol`.

    Steps aim for the gap `aim`: the tolerance, or less. `best` and `lowest` are the highest objective and the least gap
    after a working set, and `in_vain` counts the sets and steps that reached neither since.
    """

    def __init__(self, formulation: Formulation, gradient: DualGradient, tol: float, tuning: KernelTuning) -> None:
        self.aim = tol
        self.best, self.lowest, self.in_vain = -np.inf, np.inf, (0, 0)
        self._formulation, self._gradient, self._tol, self._tuning = formulation, gradient, tol, tuning

    def verdict(self, state: KernelDualState) -> Verdict:
        """Return whether the state is a solution; to find out, F may be recomputed and the aim lowered."""
        while True:
            low, high = self._formulation.bounds(state)
            if self._gradient.is_rounding(high - low) and not (high - low <= self._tol and self._is_certified(state)):
                if not self._gradient.refines(state):
                    return Verdict.ROUNDING
                low, high = self._formulation.bounds(state)
                if high - low > self._tol:
                    return Verdict.CONTINUE
            while 0 < high - low <= self.aim and not self._is_certified(state):
                self.aim = (high - low) / 2
            if high - low <= self.aim:
                if state.alpha.any() and self._gradient.exact and not self._gradient.verified:
                    self._gradient.recompute(state)
                    self.best, self.lowest = -np.inf, np.inf
                    continue
                if not self._gradient.confirm(state):
                    return Verdict.CONFIRMED
                self.best, self.lowest = -np.inf, np.inf  # those were of another F
                low, high = self._formulation.bounds(state)
                enough = self._tol - 2 * self._gradient.doubt
                if not enough > 0:
                    return Verdict.ROUNDING
                if high - low <= enough and self._is_certified(state):
                    return Verdict.CONFIRMED
                self.aim = min(self.aim, enough, max(0.0, high - low)) * (1 - SEEN)
            if not (self._gradient.is_blurred(max(high - low, self.aim)) and self._gradient.may_be_exact(state)):
                return Verdict.CONTINUE
            self._gradient.correct(state)  # further steps should follow the true gradient
            self.best, self.lowest = -np.inf, np.inf

    def is_vain(self, state: KernelDualState, report: Report) -> bool:
        """Return whether working sets only follow rounding errors: neither objective nor gap were better for long.

        Progress is a rise of the objective by more than its own rounding, or a fall of the gap that is seen beside it.
        Where kernel values are huge but finite, F has errors that are larger than all that steps could gain.
        """
        objective, gap = report.objective, report.gap
        is_better = not objective <= self.best + 8 * UNIT * abs(self.best) or gap < (1 - SEEN) * self.lowest
        self.best, self.lowest = max(self.best, objective), min(self.lowest, gap)
        n_sets, n_steps = self.in_vain
        self.in_vain = (0, 0) if is_better else (n_sets + 1, n_steps + report.n_steps)
        if self.in_vain[0] == self._tuning.many_sets // 2:
            self._gradient.recompute(state)  # the errors may be those that steps left there
        many, steps = self._tuning.many_sets, self._tuning.many_sets * self._tuning.many_steps
        return self.in_vain[0] >= many and self.in_vain[1] >= steps

    def report(self, state: KernelDualState, gap: float, n_steps: int = 0) -> Report:
        """Return the report of a step that reached a gap."""
        within = gap <= self.aim and self._is_certified(state)
        converged = within and (self._gradient.verified or not state.alpha.any())
        stalled = n_steps == 0 and not converged
        return Report(max(0.0, gap), self._formulation.objective(state), n_steps, within, converged, stalled)

    def polish(self, state: KernelDualState, newton: NewtonTrial, set_steps: SetSteps, size: int) -> float:
        """Reduce a gap within tolerance to rounding error, where that is cheap, and return the gap.

        The multipliers and the gradient of the state are changed in place. Where Newton steps show that the free set is
        not the right one yet, `set_steps` takes `size` steps on a working set.
        """
        gap, gradient = self._formulation.gap(state), self._gradient
        begin = state.alpha.copy(), state.gradient.copy(), gradient.products.drift, gap
        for _ in range(self._tuning.rounds):
            before = state.alpha.copy(), state.gradient.copy()
            if gap <= EXACT or gradient.is_rounding(gap):
                break
            if not gradient.exact or not newton.improve(state, self._tuning.polished_rows):
                break
            if self._formulation.gap(state) > gap * 0.5:  # the free set is not the right one yet
                state, _ = set_steps(state, 2 * EXACT, size)
            if self._formulation.gap(state) >= gap:  # the rest is rounding error
                state.alpha[:], state.gradient[:] = before
                break
            gap = self._formulation.gap(state)
        if gradient.verified:
            return gap
        gradient.recompute(state)
        if self._formulation.gap(state) > max(begin[3], EXACT):  # the gain was rounding error
            state.alpha[:], state.gradient[:], gradient.products.drift = begin[:3]
        return self._formulation.gap(state)

    def _is_certified(self, state: KernelDualState) -> bool:
        return self._formulation.is_certified(state, self._tol)
