"""Coordinate steps: one multiplier at a time, within a block of the kernel that the processor's cache holds."""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.solvers.kernel_dual.working_set import freedom

__all__ = ["solve_block"]

_SHARE = 0.3  # of the largest violation of a sweep, less than which the next one leaves alone
_TINY = 1e-12
_MULTIPLIER, _MODULUS = 48271, 2147483647  # Park and Miller 1988, as revised 1993: products fit int64


@jit
def solve_block(K, y, upper, alpha, gradient, order, seed, tol, most_steps):
    """Solve the block's own problem in `alpha` by sweeps over its coordinates and return the number of steps.

    Rows are visited as `order` says, which is shuffled before each sweep if `seed` is not 0. A step costs a pass over a
    row of the block, a visit without one costs next to nothing: so rows that violate little wait until others do not
    violate more.
    """
    q = K.shape[0]
    g = np.empty(q, K.dtype)
    for k in range(q):
        g[k] = gradient[k]
    steps, worst = 0, np.inf
    while steps < most_steps:
        if seed != 0:
            seed = _shuffle(order, seed)
        least, last = max(0.5 * tol, _SHARE * worst if worst < np.inf else 0.0), worst
        worst = 0.0
        before = steps
        for t in range(q):
            k = order[t]
            violation = _violation(y[k], alpha[k], upper[k], g[k])
            worst = max(worst, violation)
            if violation <= least:
                continue
            length = _step(y, upper, alpha, k, float(g[k]) / max(float(K[k, k]), _TINY))
            if length != 0.0:
                _add(g, K[k], K.dtype.type(length))
                steps += 1
                if steps == most_steps:
                    break
        if steps == before and (least <= 0.5 * tol or worst >= last):  # or steps are lost in rounding
            break
    return steps


@jit
def _violation(y, alpha, upper, gradient):
    """Return the size of the projected gradient."""
    rises, falls = freedom(y, alpha, upper)
    down = -gradient if rises else 0.0
    return max(down, gradient if falls else 0.0)


@jit
def _step(y, upper, alpha, k, newton):
    """Take `newton` off y_k α_k, as far as the bounds, and return the change."""
    old = alpha[k]
    alpha[k] = min(max(old - y[k] * newton, 0.0), upper[k])
    return y[k] * (alpha[k] - old)


@jit
def _add(g, row, length):
    for i in range(g.size):
        g[i] += length * row[i]


@jit
def _shuffle(order, seed):
    """Shuffle in place (Fisher and Yates) by a congruential generator, and return its next state."""
    for t in range(order.size - 1, 0, -1):
        seed = seed * _MULTIPLIER % _MODULUS
        k = seed % (t + 1)
        order[t], order[k] = order[k], order[t]
    return seed
