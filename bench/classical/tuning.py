"""The learning rate of the loops of tutorials, and the tolerance of exact steps, chosen outside the clock."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench.classical.competitors import EPOCHS, classical_competitor
from bench.classical.loops import DualLoop, PrimalLoop, Recipe, kernel_of
from bench.classical.parameters import ClassicalParameters
from bench.classical.referee import SAME, answer_of_all, examine
from bench.harness.competitor import Resources
from bench.harness.data import Data
from bench.harness.outcomes import Options
from bench.harness.suite import Case

__all__ = ["tuned"]

_TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def tuned(case: Case, options: Options, folder: Path) -> tuple[Case, Data]:
    """Return a case with the best rate and the largest sufficient tolerance, and its data."""
    data, parameters = case.recipe(), case.parameters
    if parameters.rates:
        losses = [_loss_of_loop(parameters, rate, data) for rate in parameters.rates]
        best = int(np.nanargmin(losses))
        parameters = replace(parameters, rate=parameters.rates[best])
        tol = _tolerance(parameters, losses[best], data, Resources(options.threads, options.memory_mb))
        case = replace(case, parameters=replace(parameters, tol=tol))
    return case, data


def _loss_of_loop(parameters: ClassicalParameters, rate: float, data: Data) -> float:
    loop = PrimalLoop if parameters.primal else DualLoop
    recipe = Recipe(rate, EPOCHS, parameters.C, recorded=False)
    return _loss(parameters, loop(kernel_of(parameters), recipe), data)


def _tolerance(parameters: ClassicalParameters, loss: float, data: Data, resources: Resources) -> float:
    """Return the largest tolerance with which exact steps reach a loss, or the smallest one tried."""
    build = classical_competitor("smo, exact" if parameters.primal else "coordinate, exact").build
    for tol in _TOLERANCES:
        found = _loss(parameters, build(replace(parameters, tol=tol), resources), data)
        if found <= loss + SAME * abs(loss):
            break
    return tol


def _loss(parameters: ClassicalParameters, model: Any, data: Data) -> float:
    """Fit, and return the objective by the referee, the dual one with its sign turned: less is better."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
    (found,) = examine(parameters, data, [answer_of_all(model, len(data.y), parameters.primal)])
    return found.primal if parameters.primal else -found.dual
