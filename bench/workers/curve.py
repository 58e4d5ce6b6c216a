"""What does a larger budget bring? `python -m bench.workers.curve`, started by the harness.

A run makes several fits from zero, with increasing budgets, and saves the weights of each. So the weights of earlier
fits remain if a fit takes too long and the process is ended. The clock runs during these fits only. It does not run
while data are read and converted, while a first fit with the smallest budget compiles and starts threads, and while a
learning rate is chosen.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench.harness.competitor import Resources
from bench.harness.data import Data, load
from bench.linear.competitors import LinearCompetitor, linear_competitor
from bench.linear.parameters import LinearParameters
from bench.linear.referee import Weights, objectives, refusal
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.memory import Memory
from bench.workers.results import claims_of, measured, megabytes, write

_TRIAL_EPOCHS = 2  # after which choices are compared


@dataclass(frozen=True)
class _Ready:
    """A competitor after its warm-up, its parameters, and the data, also in the form that it prefers."""

    competitor: LinearCompetitor
    resources: Resources
    parameters: LinearParameters
    data: Data
    rows: Any
    watch: Watch
    parts: dict[str, float]

    def build(self, **told: Any) -> Any:
        return self.competitor.build(replace(self.parameters, **told), self.resources)

    def fitted(self, **told: Any) -> Any:
        return self.build(**told).fit(self.rows, self.data.y)


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data, warm up, choose a learning rate; return the function of one run."""
    competitor, data = linear_competitor(task.stage, task.competitor), load(Path(task.data))
    parameters = LinearParameters(**task.parameters).of_rows(len(data.y))
    rows, resources = competitor.prepare(data.X, data.y), Resources(task.threads, task.memory_mb)
    ready = _Ready(competitor, resources, parameters, data, rows, watch, {})
    first = {"budget": competitor.budgets[0], "chosen": next(iter(competitor.choices), None)}
    ready.parts["warm-up"] = watch("warm-up", lambda: _quietly(partial(ready.fitted, **first)), UNTIMED_S)
    return partial(_run, _tuned(ready) if competitor.choices else ready)


def _quietly(action: Callable[[], Any]) -> None:
    """Ignore warnings of work that is not measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action()


def _tuned(ready: _Ready) -> _Ready:
    """Return the choice with the best objective after a few epochs."""
    choices, found = ready.competitor.choices, []
    seconds = ready.watch("choice of a rate", lambda: found.extend(_trial(ready, one) for one in choices), UNTIMED_S)
    best = replace(ready.parameters, chosen=choices[int(np.argmin(found))])
    return replace(ready, parameters=best, parts={**ready.parts, "tuning": seconds})


def _trial(ready: _Ready, choice: float | str) -> float:
    """Return the objective of a fit; infinity if its weights overflow."""
    data, weights = ready.data, _weights(ready.fitted(budget=_TRIAL_EPOCHS, chosen=choice))
    if refusal(data.y, ready.parameters.loss, data.X.shape[1], weights):
        return np.inf
    return objectives(data.X, data.y, ready.parameters, [weights])[0]


def _run(ready: _Ready, out: Path) -> None:
    points, answers, warned, memory = [], [], set(), Memory()
    for budget in ready.competitor.budgets_for(ready.parameters):
        model = ready.build(budget=budget)
        fit = partial(_without_end, model, ready)
        seconds, said = measured(ready.watch, f"fit with budget {budget:g}", fit)
        warned.update(said["warnings"])
        points.append({"budget": budget, "seconds": seconds, **claims_of(model)})
        answers.append(_weights(model))
        record = {"seconds": seconds, "points": points, "chosen": ready.parameters.chosen, **memory.json()}
        record |= {"rows_mb": megabytes(ready.data.X), "warnings": sorted(warned), "parts": ready.parts}
        write(out, record, _stored(points, answers))


def _without_end(model: Any, ready: _Ready) -> None:
    """Fit, without a warning that the budget is too small to converge."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    model.fit(ready.rows, ready.data.y)


def _stored(points: list[dict[str, Any]], answers: list[Weights]) -> dict[str, np.ndarray]:
    """Return the weights for the referee. Objectives that were not claimed are NaN."""
    coef, intercept = map(np.array, zip(*answers, strict=True))
    budgets = np.array([one["budget"] for one in points])
    claimed = np.array([one["claimed"].get("objective_", np.nan) for one in points])
    return {"budget": budgets, "coef": coef, "intercept": intercept, "claimed": claimed}


def _weights(model: Any) -> Weights:
    return Weights(np.atleast_2d(model.coef_), np.asarray(model.intercept_))


if __name__ == "__main__":
    serve(prepare)
