"""When gradient descent ends: the objective stopped to fall, or the validation score to rise.

The full objective of the answer is computed after epochs whose numbers grow by √2. The fit ends if the objective
fell by no more than a tolerance and a tenth of itself while the number of epochs doubled. An error of the order
1/epochs that is left then is as large as this fall, one of the order 1/√epochs 2.4 times as large. Such an estimate
fails with a constant rate, whose error does not vanish: it stalls.
"""

import numpy as np

from fastsvm.solvers.sgd.problem import LinearFunction, SGDState

__all__ = ["examined", "has_settled", "is_examined", "validated"]

_SHARE = 0.1  # A fit ends if the objective fell by no more than this share of itself, or the share is within tolerance.


def validated(
    state: SGDState, answer: LinearFunction, score: float, tol: float | None, patience: int
) -> tuple[SGDState, bool]:
    """Return the state after an epoch with a validation score, and whether the score stopped to rise."""
    if score > state.best_score:
        state = state._replace(best=answer, best_score=score)
    if tol is None:
        return state, False
    stale = state.stale + 1 if -score > state.lowest - tol else 0
    state = state._replace(stale=stale, lowest=min(-score, state.lowest))
    return (state, False) if stale < patience else (state._replace(stale=0), True)


def examined(state: SGDState, objective: float, tol: float, at_zero: float) -> tuple[SGDState, bool]:
    """Return the state after a look at the objective, and whether it stopped to fall; `at_zero` is that of zero."""
    fall = state.earlier_objective - objective
    state = state._replace(answer_objective=objective, earlier_objective=state.answer_objective)
    return state, has_settled(fall, objective, tol * at_zero) or (tol == 0 and fall <= 0)


def has_settled(fall: float, objective: float, allowed: float) -> bool:
    """Return whether an objective that fell so much, where `allowed` is the tolerance, is near its least value."""
    return abs(fall) <= allowed and (abs(fall) <= _SHARE * objective or _SHARE * objective <= allowed)


def is_examined(epoch: int, patience: int) -> bool:
    """Return whether the epochs have just grown to `patience` times some power of √2."""
    if epoch <= patience:
        return epoch == patience
    before, now = np.floor(2 * np.log2(np.array([epoch - 1, epoch]) / patience))
    return bool(now > before)
