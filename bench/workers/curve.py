"""What does each further epoch bring? `python -m bench.workers.curve`, called by `bench.processes`.

A run fits from the start several times, for more and more epochs, and keeps the weights of each fit. The clock runs
during the fits only: not while data are read and converted, not during a first fit of one epoch, which compiles and
starts threads, and not while a learning rate is chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.competitors import Resources
from bench.data import Data, load
from bench.linear_competitors import LINEAR_COMPETITORS, LinearParameters
from bench.linear_referee import Weights, objectives, refusal
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.memory import Memory
from bench.workers.results import claims_of, measured, megabytes, write

_EPOCHS = (1, 2, 5, 10, 20, 50, 100)  # where a curve has points, as far as the case goes
_TRIAL_EPOCHS = 2  # after which choices are compared


@dataclass(frozen=True)
class _Ready:
    """A competitor that has warmed up, what it is told, and the data, also as it wants them."""

    build: Callable[[LinearParameters], Any]
    parameters: LinearParameters
    data: Data
    rows: Any
    watch: Watch
    parts: dict[str, float]


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data, warm up, choose a rate; return what makes one run."""
    competitor = next(one for one in LINEAR_COMPETITORS if one.name == task.competitor)
    data, parameters = load(Path(task.data)), LinearParameters(**task.parameters)
    resources = Resources(task.threads, task.memory_mb)
    rows = competitor.prepare(data.X, data.y)
    ready = _Ready(lambda told: competitor.build(told, resources), parameters, data, rows, watch, {})
    first = replace(parameters, epochs=1, chosen=next(iter(competitor.choices), None))
    ready.parts["warm-up"] = watch("warm-up", lambda: _fit(ready, first), UNTIMED_S)
    return partial(_run, _tuned(ready, competitor.choices) if competitor.choices else ready)


def _fit(ready: _Ready, parameters: LinearParameters) -> Any:
    return ready.build(parameters).fit(ready.rows, ready.data.y)


def _tuned(ready: _Ready, choices: tuple[float | str, ...]) -> _Ready:
    """Choose what has the best objective after a few epochs."""
    told = [replace(ready.parameters, epochs=_TRIAL_EPOCHS, chosen=one) for one in choices]
    found: list[float] = []
    seconds = ready.watch("choice of a rate", lambda: found.extend(_trial(ready, one) for one in told), UNTIMED_S)
    best = replace(ready.parameters, chosen=choices[int(np.argmin(found))])
    return replace(ready, parameters=best, parts={**ready.parts, "tuning": seconds})


def _trial(ready: _Ready, parameters: LinearParameters) -> float:
    """Return the objective that a fit reaches, infinite if its weights overflow."""
    p, data, weights = parameters, ready.data, _weights(_fit(ready, parameters))
    if refusal(data.y, p.loss, data.X.shape[1], weights):
        return np.inf
    return objectives(data.X, data.y, p.loss, p.alpha, [weights])[0]


def _run(ready: _Ready, out: Path) -> None:
    points, answers, warned, memory = [], [], set(), Memory()
    for count in (count for count in _EPOCHS if count <= ready.parameters.epochs):
        told = replace(ready.parameters, epochs=count)
        model = ready.build(told)
        seconds, said = measured(ready.watch, f"fit of {count} epochs", partial(model.fit, ready.rows, ready.data.y))
        warned.update(said["warnings"])
        points.append({"epochs": count, "seconds": seconds})
        answers.append(_weights(model))
    record = {"seconds": points[-1]["seconds"], "points": points, "chosen": ready.parameters.chosen, **memory.json()}
    record |= {"rows_mb": megabytes(ready.data.X), "warnings": sorted(warned), **claims_of(model), "parts": ready.parts}
    coef, intercept = map(np.array, zip(*answers, strict=True))
    write(out, record, {"epochs": np.array([one["epochs"] for one in points]), "coef": coef, "intercept": intercept})


def _weights(model: Any) -> Weights:
    return Weights(np.asarray(model.coef_), np.asarray(model.intercept_))


if __name__ == "__main__":
    serve(prepare)
