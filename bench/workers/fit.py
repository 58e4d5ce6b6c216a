"""How long does a fit, or a prediction, take? `python -m bench.workers.fit`, started by the harness.

The clock runs only during `fit` or `predict`. It does not run while data are read and converted, while the first fits
of a process compile, start threads and load libraries, and while the host of a virtual machine provides memory.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness.competitor import Resources
from bench.harness.data import Data, load
from bench.kernel.competitors import COMPETITORS, KernelParameters
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.memory import Memory, touch
from bench.workers.results import answer_of, claims_of, measured, megabytes, write

__all__ = ["FEW", "MORE", "Ready", "fit_once", "part", "touch_kernel", "try_out"]

FEW, MORE = 300, 4200  # rows of the warm-up fits
_LEAST_FITS, _MOST_FITS, _FITS_S = 3, 100, 0.5  # of a small problem, whose median counts
_VALUE_BYTES = 8  # of a kernel value, at most


@dataclass(frozen=True)
class Ready:
    """A competitor after its warm-up, and the data in the form that it prefers."""

    build: Callable[[], Any]
    data: Data
    watch: Watch
    warm_up_s: float
    memory_mb: int


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data and warm up; for predictions, also fit the model. Return the function of one run."""
    competitor = next(one for one in COMPETITORS if one.name == task.competitor)
    data = load(Path(task.data))
    X, X_test = competitor.prepare(data.X, data.y), competitor.prepare(data.X_test, data.y_test)
    data = data._replace(X=X, X_test=X_test)
    resources = Resources(task.threads, task.memory_mb)
    build = partial(competitor.build, KernelParameters(**task.parameters), resources)
    ready = Ready(build, data, watch, watch("warm-up", lambda: _warm_up(build, data), UNTIMED_S), task.memory_mb)
    runs = {"fit": partial(fit_once, ready), "fits": partial(_fits, ready)}
    return runs[task.stage] if task.stage in runs else _fitted(ready)


def fit_once(ready: Ready, out: Path) -> None:
    """Measure a fit."""
    model, data = ready.build(), ready.data
    touch_kernel(len(data.y), ready.memory_mb)
    memory = Memory()
    seconds, told = measured(ready.watch, "fit", lambda: model.fit(data.X, data.y))
    record = {"seconds": seconds, **memory.json(), "rows_mb": megabytes(data.X), **told, **claims_of(model)}
    write(out, {**record, "parts": {"warm-up": ready.warm_up_s}}, answer_of(model))


def _fits(ready: Ready, out: Path) -> None:
    """Take the median of several fits, because a single one of a millisecond says little."""
    data, seconds, memory = ready.data, [], Memory()
    while len(seconds) < _LEAST_FITS or (sum(seconds) < _FITS_S and len(seconds) < _MOST_FITS):
        model = ready.build()
        taken, told = measured(ready.watch, "fit", partial(model.fit, data.X, data.y))
        seconds.append(taken)
    record = {"seconds": float(np.median(seconds)), **memory.json(), "rows_mb": megabytes(data.X), **told}
    write(out, {**record, **claims_of(model), "parts": {"warm-up": ready.warm_up_s}}, answer_of(model))


def touch_kernel(n_rows: int, memory_mb: int) -> None:
    """Touch as much memory as the kernel matrix takes; see `touch`."""
    touch(min(memory_mb, _VALUE_BYTES * n_rows**2 / 1e6))


def _fitted(ready: Ready) -> Callable[[Path], None]:
    model = ready.build()
    fit_s, told = measured(ready.watch, "fit", lambda: model.fit(ready.data.X, ready.data.y))
    parts = {"warm-up": ready.warm_up_s, "fit": fit_s}
    return partial(_predict, ready, model, {**told, **claims_of(model), "parts": parts})


def _predict(ready: Ready, model: Any, known: dict[str, Any], out: Path) -> None:
    rows, found, memory = ready.data.X_test, {}, Memory()
    seconds, told = measured(ready.watch, "predict", lambda: found.update(predicted=model.predict(rows)))
    told["warnings"] = sorted({*told["warnings"], *known["warnings"]})
    record = {**known, **told, "seconds": seconds, **memory.json(), "rows_mb": megabytes(rows)}
    write(out, record, answer_of(model) | found)


def _warm_up(build: Callable[[], Any], data: Data) -> None:
    """Fit and predict small parts.

    The first part has a few hundred samples of all classes. The second one has all samples of two classes, at most some
    thousand, because implementations may use other code, such as another precision, for larger problems.
    """
    y = data.y
    classes, count = np.unique(y, return_counts=True)
    parts = [part(y, classes, FEW)]
    most = int(np.sort(count)[-2:].sum())
    if most > FEW:
        parts.append(part(y, classes[np.argsort(-count, kind="stable")[:2]], min(MORE, most)))
    try_out(build, data, parts)


def try_out(build: Callable[[], Any], data: Data, parts: list[np.ndarray]) -> None:
    """Fit parts of the samples and predict, so that code is compiled and loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in parts:
            build().fit(data.X[rows], data.y[rows]).predict(data.X[rows[:10]])


def part(y: np.ndarray, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the numbers of about `n_rows` samples, the same number of each class."""
    each = -(-n_rows // len(classes))
    return np.sort(np.concatenate([np.flatnonzero(y == one)[:each] for one in classes]))


if __name__ == "__main__":
    serve(prepare)
