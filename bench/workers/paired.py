"""How long does a fit by one of two versions take? `python -m bench.workers.paired`, started by the harness.

A first fit, outside the clock, compiles and starts threads. The process then stays for all turns of its case. A first
fit with another tuning that takes hardly longer than fits of the first side compiled nothing, and counts.
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
from bench.harness.data import load
from bench.paired.estimators import build, parameters_of
from bench.workers import SIDE, UNTIMED_S, Task, Watch, serve
from bench.workers.fit import touch_kernel
from bench.workers.results import claims_of, write

_LEAST_S, _MOST_FITS = 0.3, 100  # fits of a turn: the least of them counts
_HARDLY = 1.1  # times the seconds of the first side


class _Side:
    """Fits of one tuning."""

    def __init__(self, fit: Callable[[], None], changes: dict[str, Any]) -> None:
        self._fit, self._changes, self._first_s = fit, changes, 0.0
        self.fastest = 0.0

    def turn(self, watch: Watch, models: list[Any], out: Path, usual: float) -> None:
        """Fit again and again, and leave a record of the fastest fit; fits of the first side take `usual` seconds."""
        taken: list[tuple[float, float]] = []

        def fit(stage: str, more: float = 0.0) -> tuple[float, float]:
            begin = time.process_time()
            return watch(stage, self._fit, more), time.process_time() - begin

        with warnings.catch_warnings(record=True) as caught, self._tuned():
            warnings.simplefilter("always")
            if not self._first_s:
                first = fit("first fit", UNTIMED_S)
                self._first_s = first[0]
                taken += [first] if self._first_s < _HARDLY * usual else []
            while sum(seconds for seconds, _ in taken) < _LEAST_S and len(taken) < _MOST_FITS:
                taken.append(fit("fit"))
        self.fastest, processor_s = (min(clock) for clock in zip(*taken, strict=True))
        told = sorted({str(one.message) for one in caught})
        model = models[0]
        claims = {**claims_of(model), "converged": bool(np.all(getattr(model, "converged_", True)))}
        of_dual = hasattr(model, "dual_coef_") and getattr(model, "solver", "") != "primal"  # what is its objective
        record = {"of_dual": of_dual, "seconds": self.fastest, "processor_s": processor_s, "warnings": told}
        write(out, {**record, "parts": {"first fit": self._first_s}, **claims}, {})

    def _tuned(self) -> Any:
        """Return a context in which fits have the tuning of this side."""
        if not self._changes:
            return nullcontext()
        from fastsvm.tuning import changed, tuned

        return tuned(changed(self._changes))


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data; return the function of one turn."""
    data, fields = load(Path(task.data)), dict(task.parameters)
    tunings = fields.pop("tunings")
    parameters, resources = parameters_of(task.stage, fields), Resources(task.threads, task.memory_mb)
    make = partial(build, task.stage, parameters, len(data.y), resources)
    touch_kernel(len(data.y), task.memory_mb)
    models: list[Any] = []

    def fit() -> None:
        models[:] = [make().fit(data.X, data.y)]

    def predict() -> None:
        if not models:
            fit()
        models[0].predict(data.X_test)

    sides = {name: _Side(predict if task.stage == "predict" else fit, changes) for name, changes in tunings.items()}
    first = next(iter(sides.values()))
    return lambda out: sides[(out / SIDE).read_text()].turn(watch, models, out, first.fastest)


if __name__ == "__main__":
    serve(prepare)
