"""Coordinate ascent within a block of the kernel matrix that fits the processor's cache."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.solvers.kernel_dual.working_set import freedom

__all__ = ["Sweeps", "solve_block"]

_SHARE = 0.3  # The next sweep skips rows that violate less than this share of the largest violation of a sweep.
# The generator is that of Park and Miller 1988, revised 1993, modulo the prime 2³¹ − 1: products fit int64.
_MULTIPLIER, _MODULUS = 48271, int(np.iinfo(np.int32).max)


class Sweeps(NamedTuple):
    """Order of the coordinates, and the seed that shuffles it before each sweep; 0 for cyclic order."""

    order: np.ndarray
    seed: int


@jit
def solve_block(K, problem, alpha, gradient, sweeps, tol, most_steps):
    """Solve the problem of a block by sweeps over its coordinates and return the number of steps.

    `problem` is the block's `KernelProblem`. `alpha` is changed in place. A step costs a pass over a row of the block,
    and skipping a row costs almost nothing. So rows with small violations are skipped until no row violates much more.
    """
    y, upper = problem.y, problem.upper
    order, seed = sweeps
    q = K.shape[0]
    g = np.empty(q, K.dtype)
    for k in range(q):
        g[k] = gradient[k]
    steps, worst = 0, np.inf
    for _ in range(2 * most_steps):  # of two sweeps, one takes a step or is the last
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
            length = _step(y, upper, alpha, k, float(g[k]) / max(float(K[k, k]), ROUNDING))
            if length != 0.0:
                _add(g, K[k], K.dtype.type(length))
                steps += 1
                if steps == most_steps:
                    return steps
        if steps == before and (least <= 0.5 * tol or worst >= last):  # or rounding errors cancel the steps
            break
    return steps


@jit
def _violation(y, alpha, upper, gradient):
    """Return the absolute value of the projected gradient."""
    rises, falls = freedom(y, alpha, upper)
    down = -gradient if rises else 0.0
    return max(down, gradient if falls else 0.0)


@jit
def _step(y, upper, alpha, k, newton):
    """Subtract `newton` from y_k α_k, clipped to the bounds, and return the change."""
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
