"""How long does a fit of a textbook problem take? `python -m bench.workers.classical`, started by the harness."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.classical.competitors import ClassicalCompetitor, classical_competitor
from bench.classical.parameters import ClassicalParameters
from bench.classical.referee import answer_of_all
from bench.harness.competitor import Resources
from bench.harness.data import Data, load
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.fit import part, touch_kernel
from bench.workers.memory import Memory
from bench.workers.results import claims_of, measured, megabytes, write


@dataclass(frozen=True)
class _Ready:
    """A competitor after its warm-up, the data, and the samples or kernel matrix to fit to."""

    competitor: ClassicalCompetitor
    build: Callable[[], Any]
    data: Data
    rows: Any
    watch: Watch
    warm_up_s: float = 0.0


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data, compute the kernel matrix if the competitor needs it, and warm up."""
    competitor, parameters = classical_competitor(task.competitor), ClassicalParameters(**task.parameters)
    data = load(Path(task.data))
    build = partial(competitor.build, parameters, Resources(task.threads, task.memory_mb))
    rows = parameters.matrix(data.X) if competitor.precomputed else data.X
    touch_kernel(len(data.y), task.memory_mb)
    warm_up_s = watch("warm-up", lambda: _warm_up(competitor, build, rows, data.y), UNTIMED_S)
    return partial(_run, _Ready(competitor, build, data, rows, watch, warm_up_s))


def _warm_up(competitor: ClassicalCompetitor, build: Callable[[], Any], rows: Any, y: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_rows in sorted({min(most, len(y)) for most in competitor.warm_up_rows}):
            some = part(y, np.unique(y), n_rows)
            build().fit(rows[np.ix_(some, some)] if competitor.precomputed else rows[some], y[some])


def _run(ready: _Ready, out: Path) -> None:
    model, y, memory = ready.build(), ready.data.y, Memory()
    seconds, told = measured(ready.watch, "fit", lambda: model.fit(ready.rows, y))
    record = {"seconds": seconds, **memory.json(), "rows_mb": megabytes(ready.rows), **told, **claims_of(model)}
    if ready.competitor.goal:
        record["curve"] = {name: model.history_[name].tolist() for name in ("time", "objective")}
    answer = answer_of_all(model, len(y), ready.competitor.has_intercept)._asdict()
    if not ready.competitor.precomputed and hasattr(model, "predict"):
        answer["predicted"] = model.predict(ready.data.X_test)
    write(out, {**record, "parts": {"warm-up": ready.warm_up_s}}, answer)


if __name__ == "__main__":
    serve(prepare)
