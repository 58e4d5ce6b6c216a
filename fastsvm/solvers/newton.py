"""Newton steps on the free support vectors, to end where pair steps become slow.

Problem
    That of `smo`, with every multiplier that is at a bound held there. With β = y ∘ α the free ones solve
        K_FF Δ = ρ − F_F,   Σ Δ = 0
    so that F is equal to ρ on all of them: one symmetric system of order m + 1.

Step
    The solution if no bound is in the way, else as far as the first bound; then the multipliers that reached a
    bound leave the set and rows that violate join it, as in active-set methods (Scheinberg 2006; Shilton et al. 2005).
    The block is ridged by a little of its trace, for repeated rows make it singular; a few rounds make up for it.

Cost
    m³/3 operations and m² values a round, one product with m kernel rows.
"""

import numpy as np
from scipy import linalg

__all__ = ["newton_direction", "step_to_bounds"]

_RIDGE = 1e-12


def newton_direction(block: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
    """Return Δ for the free rows, or None if the system cannot be solved.

    Parameters
    ----------
    block : ndarray of float64, shape (m, m)
        Kernel values among the free rows.
    gradient : ndarray of float64, shape (m,)
        F on the free rows.
    """
    block = (block + block.T) / 2
    ridge = _RIDGE * max(float(np.trace(block)), 1e-300)
    block[np.diag_indices_from(block)] += ridge
    try:
        factor = linalg.cho_factor(block, lower=True, overwrite_a=True, check_finite=False)
        ones = np.ones(len(gradient))
        both = linalg.cho_solve(factor, np.column_stack([gradient, ones]), check_finite=False)
    except linalg.LinAlgError:
        return None
    total = both[:, 1].sum()
    if not np.isfinite(both).all() or total <= 0:
        return None
    rho = both[:, 0].sum() / total
    direction = rho * both[:, 1] - both[:, 0]
    return direction - direction.mean()


def step_to_bounds(alpha: np.ndarray, upper: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return `alpha` moved along `change` by at most one, as far as the first bound, which is met exactly."""
    room = np.where(change > 0, upper - alpha, alpha)
    size = np.abs(change)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(size > 0, room / size, np.inf)
    length = min(1.0, float(reach.min()))
    moved = np.clip(alpha + length * change, 0, upper)
    if length < 1:
        first = reach <= length
        moved[first] = np.where(change[first] > 0, upper[first], 0.0)
    return moved
