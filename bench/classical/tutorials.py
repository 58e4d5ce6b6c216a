"""Who is compared with the loops of the tutorials, with which rate and tolerance? Both are chosen outside the clock."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench.classical.competitors import Competitor, ours
from bench.classical.judge import SAME, Finding, Solved, judge, solved
from bench.classical.loops import DualLoop, Kernel, Loop, PrimalLoop, Recipe, gaussian, quadratic
from bench.classical.problems import Problem

__all__ = ["against_dual_loop", "against_primal_loop"]

_LOOP = "numpy loop"
_TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
_WARM_ROWS = (300,)  # a loop has nothing to compile
_FEW_ROWS, _LONGER = 1000, 20  # up to so many rows the dual loop also has so many times as many epochs: it converges


class _Chosen(NamedTuple):
    """The best rate, and the objective that it reaches, with its sign turned so that less is better."""

    rate: float
    loss: float
    n_tried: int


def against_dual_loop(rates: list[float], problem: Problem) -> list[Competitor]:
    """Return coordinate ascent with exact steps, the same with the loop's rate, and the loop."""
    return _against(DualLoop, rates, problem)


def against_primal_loop(rates: list[float], problem: Problem) -> list[Competitor]:
    """Return Newton's method, descent with the loop's rate, and the loop."""
    return _against(PrimalLoop, rates, problem)


def _against(loop: type[Loop], rates: list[float], problem: Problem) -> list[Competitor]:
    chosen, solver = _best_rate(loop, rates, problem), "coordinate" if loop is DualLoop else "primal"
    tol, recipe = _tolerance(loop, chosen, problem, solver), Recipe(chosen.rate, C=problem.C)
    exact = ours(problem, solver=solver, tol=tol)
    stepped = ours(problem, solver=solver, learning_rate=chosen.rate, max_iter=recipe.epochs)
    rate = f"rate {chosen.rate:.3g}" + (f", the best of {chosen.n_tried}" if chosen.n_tried > 1 else "")
    same = partial(loop, _kernel(problem), recipe)
    found = [
        Competitor(solver, exact, offset=loop is PrimalLoop, goal=_LOOP, chosen=f"tol {tol:g}"),
        replace(_stepped(loop, f"{solver}, loop's rate", stepped), chosen=rate),
        replace(_stepped(loop, _LOOP, same), chosen=rate, warm_rows=_WARM_ROWS),
    ]
    if loop is DualLoop and len(problem.data.y) <= _FEW_ROWS:
        longer = recipe._replace(epochs=_LONGER * recipe.epochs, recorded=False)
        name = f"{_LOOP}, {_LONGER} times as long"
        found.append(_stepped(loop, name, partial(loop, _kernel(problem), longer)))
    return found


def _stepped(loop: type[Loop], name: str, build: Callable[[], Any]) -> Competitor:
    """Return who goes with the loop's rate: so many epochs are asked for, wherever they end."""
    dual = loop is DualLoop
    against = None if dual else "primal"
    return Competitor(name, build, offset=not dual, feasible=dual, certified=dual, stops=False, against=against)


def _kernel(problem: Problem) -> Kernel:
    return gaussian(problem.gamma**-0.5) if problem.kernel == "rbf" else quadratic


def _best_rate(loop: type[Loop], rates: list[float], problem: Problem) -> _Chosen:
    """Return the rate whose answer has the best objective after all epochs, by the judge."""
    recipes = [Recipe(rate, C=problem.C, recorded=False) for rate in rates]
    answers = [_answer(loop, partial(loop, _kernel(problem), recipe), problem) for recipe in recipes]
    losses = [_loss(loop, one) for one in judge(problem, answers)]
    best = int(np.nanargmin(losses))
    return _Chosen(rates[best], losses[best], len(rates))


def _tolerance(loop: type[Loop], chosen: _Chosen, problem: Problem, solver: str) -> float:
    """Return the largest tolerance with which fastsvm gets as far as the loop, or the smallest there is."""
    for tol in _TOLERANCES:
        (found,) = judge(problem, [_answer(loop, ours(problem, solver=solver, tol=tol), problem)])
        if _loss(loop, found) <= chosen.loss + SAME * abs(chosen.loss):
            break
    return tol


def _answer(loop: type[Loop], build: Callable[[], Any], problem: Problem) -> Solved:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = build().fit(problem.data.X, problem.data.y)
    return solved(model, len(problem.data.y), offset=loop is PrimalLoop)


def _loss(loop: type[Loop], found: Finding) -> float:
    return found.primal if loop is PrimalLoop else -found.dual
