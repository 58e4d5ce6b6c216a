"""Subgradient descent in the primal, for kernel SVMs with hinge or squared hinge: slow, and easy to follow.

Problem
    That of `newton`, over the coefficients β and the intercept b.

Step
    β ← β − η K v,   b ← b + η Σ_i y_i C_i |ℓ'(y_i f_i)|,   v_i = β_i − y_i C_i |ℓ'(y_i f_i)|
    with one learning rate η. K v is the gradient with respect to β. For the hinge it is a subgradient: the derivative
    at the corner is taken as 0.

End
    The gradient is small: max |K v| ≤ tol, in units of decision values, and |Σ_i (v_i − β_i)| ≤ tol for the intercept.
    With the hinge and a constant rate the iterates oscillate about the minimum, so most fits end at the step limit.

Cost
    Two products of the whole kernel matrix with a vector per step.

Memory
    56 n bytes, and the row cache. Rows that do not fit are recomputed in every step.
"""

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rows import KernelProducts, ProblemRows
from fastsvm.solvers.kernel_dual.problem import KernelProblem, KernelSolution
from fastsvm.solvers.kernel_primal.certificate import DualView, KernelPrimalState, bounded_sums
from fastsvm.solvers.outer_loop import Memoryless, Report

_BLOWN_UP = 1e6  # An objective of so many times that at zero is divergence.


class PrimalDescent(Memoryless):
    """Solve one two-class problem by subgradient descent with the learning rate η, to a gradient of at most `tol`."""

    def __init__(
        self,
        problem: KernelProblem,
        rows: ProblemRows,
        tol: float,
        pool: Pool,
        *,
        rate: float,
        squared: bool,
        fit_intercept: bool,
    ) -> None:
        self.problem, self.tol, self._rate, self._fit_intercept = problem, tol, rate, fit_intercept
        self._rows = rows
        self._dual, self._products = DualView(problem, squared, fit_intercept), KernelProducts(rows, pool)

    def init(self, alpha: np.ndarray | None = None) -> KernelPrimalState:
        """Return the state at `alpha`, or at zero, with no intercept."""
        n = len(self.problem.y)
        if alpha is None:
            return KernelPrimalState(np.zeros(n), np.zeros(n), 0.0)
        return KernelPrimalState(alpha.copy(), self._products.times(self.problem.y * alpha), 0.0)

    def step(self, state: KernelPrimalState, most_steps: int) -> tuple[KernelPrimalState, Report]:
        """Take one step, or declare convergence."""
        y, upper = self.problem.y, self.problem.upper
        gradient, missing, size = self._gradient(state)
        if size <= self.tol:
            return state, Report(size, self._objective(state), 0, True, True, False)
        if most_steps < 1:
            return state, Report(size, self._objective(state), 0, False, False, False)
        with np.errstate(over="ignore", invalid="ignore"):  # at too large a rate the iterates diverge
            alpha = state.alpha - self._rate * y * gradient
            sums = state.sums - self._rate * self._products.times(gradient)
            moved = KernelPrimalState(alpha, sums, state.intercept + self._rate * missing)
            objective = self._objective(moved)
        if not objective < _BLOWN_UP * float(upper.sum()):
            return state, Report(size, self._objective(state), 1, False, False, True)
        return moved, Report(size, objective, 1, False, False, False)

    def finish(self, state: KernelPrimalState) -> KernelSolution:
        """Return the solution and its certificate."""
        sums = self._products.times(self.problem.y * state.alpha)  # a sum of updates has the rounding error of each
        state = state._replace(sums=sums)
        sums_of = bounded_sums(self.problem, self._rows)
        solution = self._dual.solution(state.alpha, state.intercept, sums_of, self.tol)
        return solution._replace(kkt_violation=self._gradient(state)[2])  # its multipliers may be out of bounds

    def _gradient(self, state: KernelPrimalState) -> tuple[np.ndarray, float, float]:
        """Return the gradient by β, minus the derivative by the intercept, and the largest absolute value."""
        y, upper = self.problem.y, self.problem.upper
        loss_term = y * upper * self._dual.loss.fall(y * (state.sums + state.intercept))
        gradient = self._products.times(y * state.alpha - loss_term)
        missing = float(loss_term.sum()) if self._fit_intercept else 0.0
        return gradient, missing, max(float(np.abs(gradient).max()), abs(missing))

    def _objective(self, state: KernelPrimalState) -> float:
        return self._dual.primal(*state)
