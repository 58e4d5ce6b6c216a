"""Sequential minimal optimisation within classes: two multipliers of one class at a time."""

import numpy as np

from fastsvm.solvers.kernel_dual.gram_block import reordered
from fastsvm.solvers.kernel_dual.nu.within_classes import WithinClasses
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.kernel_dual.smo_block import solve_block

__all__ = ["NuSMO"]


class NuSMO(SMO):
    """Solve one problem in which the total of each class is given (`within_classes`)."""

    formulated = WithinClasses

    def _solve_block(
        self,
        block: np.ndarray,
        part: KernelProblem,
        alpha: np.ndarray,
        gradient: np.ndarray,
        target: float,
        most_steps: int,
    ) -> int:
        n_first = int(np.count_nonzero(part.y > 0))
        groups = np.unique([0, n_first, len(alpha)])
        if len(groups) == 2:
            return solve_block(block, part, alpha, gradient, groups, target, most_steps)
        order = np.argsort(-part.y, kind="stable")
        sorted_alpha, block = alpha[order], reordered(block, order, self.pool)
        n_steps = solve_block(block, part.take(order), sorted_alpha, gradient[order], groups, target, most_steps)
        alpha[order] = sorted_alpha
        return n_steps
