"""How long does a fit by one of two versions take? `python -m bench.workers.paired`, started by the harness.

A first fit, outside the clock, compiles and starts threads. The process then stays for all turns of its case.
"""

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness.competitor import Resources
from bench.harness.data import Data, load
from bench.paired.estimators import build, parameters_of
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.fit import touch_kernel
from bench.workers.results import claims_of, write

_LEAST_S, _MOST_FITS = 0.3, 100  # fits of a turn: the least of them counts


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data and make the first fit; return the function of one turn."""
    data, fields = load(Path(task.data)), dict(task.parameters)
    within = _tuned(fields.pop("tuning", None))
    parameters, resources = parameters_of(task.stage, fields), Resources(task.threads, task.memory_mb)
    make = partial(build, task.stage, parameters, len(data.y), resources)
    touch_kernel(len(data.y), task.memory_mb)
    models: list[Any] = []

    def fit() -> None:
        models[:] = [make().fit(data.X, data.y)]

    action = partial(_predict, models, data) if task.stage == "predict" else fit
    with warnings.catch_warnings(), within():
        warnings.simplefilter("ignore")
        first_s = watch("first fit", fit, UNTIMED_S)
    return partial(_turn, action, models, watch, within, first_s)


def _tuned(changes: dict[str, Any] | None) -> Callable[[], Any]:
    """Return what makes a context in which fits have another tuning."""
    if not changes:
        return nullcontext
    from fastsvm.tuning import changed, tuned

    return lambda: tuned(changed(changes))


def _predict(models: list[Any], data: Data) -> None:
    models[0].predict(data.X_test)


def _turn(
    action: Callable[[], None], models: list[Any], watch: Watch, within: Callable[[], Any], first_s: float, out: Path
) -> None:
    seconds: list[float] = []
    processor = time.process_time()
    with warnings.catch_warnings(record=True) as caught, within():
        warnings.simplefilter("always")
        while sum(seconds) < _LEAST_S and len(seconds) < _MOST_FITS:
            seconds.append(watch("fit", action))
    processor = (time.process_time() - processor) / len(seconds)
    told = sorted({str(one.message) for one in caught})
    model = models[0]
    claims = {**claims_of(model), "converged": bool(np.all(getattr(model, "converged_", True)))}
    record = {"seconds": min(seconds), "processor_s": processor, "warnings": told, "parts": {"first fit": first_s}}
    write(out, {**record, **claims}, {})


if __name__ == "__main__":
    serve(prepare)
