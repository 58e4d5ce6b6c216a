"""What does a larger budget bring, from a file? `python -m bench.workers.millions`, started by the harness.

A run makes several fits with increasing budgets, and saves what each predicts for the test samples. So the predictions
of earlier fits remain if a fit takes too long and the process is ended. The clock runs from the file to the model.
"""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.harness.competitor import Resources
from bench.harness.data import FILE, load
from bench.millions.competitors import MILLIONS_COMPETITORS, MillionsCompetitor
from bench.millions.files import LABELS
from bench.millions.parameters import MillionsParameters
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.memory import Memory
from bench.workers.results import claims_of, measured, write

_FEW = 3_000
_TOO_LONG = 2.0  # a larger budget takes at least so many times as long as the last


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Fit some thousand samples from a file of their own; return the function of one run."""
    competitor = next(one for one in MILLIONS_COMPETITORS if one.name == task.competitor)
    parameters, folder = MillionsParameters(**task.parameters), Path(task.data)
    fit = competitor.build(parameters, Resources(task.threads, task.memory_mb))
    few, budgets = _few(folder), competitor.budgets_for(parameters, _FEW, task.memory_mb)
    tried = {budgets[0], min(budgets[-1], _FEW)}  # a larger one may run other code
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up_s = watch("warm-up", lambda: [fit(few, one) for one in sorted(tried)], UNTIMED_S)
    return partial(_run, (competitor, parameters, fit), (folder, task, watch, warm_up_s))


def _few(folder: Path) -> Path:
    """Write a part of the file beside it."""
    path = folder / "few.h5"
    if not path.exists():
        with h5py.File(folder / FILE) as source, h5py.File(path, "w") as file:
            X = source["X"][:_FEW]
            file.create_dataset("X", data=X, chunks=(min(500, len(X)), X.shape[1]))
            file[LABELS] = source[LABELS][:_FEW]
    return path


def _run(asked: tuple[MillionsCompetitor, MillionsParameters, Callable], given: tuple, out: Path) -> None:
    (competitor, parameters, fit), (folder, task, watch, warm_up_s) = asked, given
    data, path = load(folder), folder / FILE
    points: list[dict[str, Any]] = []
    answers: list[dict[str, np.ndarray]] = []
    warned: set[str] = set()
    for budget in competitor.budgets_for(parameters, len(data.y), task.memory_mb):
        found: dict[str, Any] = {}
        memory = Memory()
        action = partial(_into, found, fit, path, budget)
        seconds, said = measured(watch, f"fit with budget {budget}", action)
        model, used = found["model"], memory.json()
        warned.update(said["warnings"])
        points.append({"budget": budget, "seconds": seconds, **used, **claims_of(model), **_told(model)})
        answers.append({"predicted": np.asarray(model.predict(data.X_test)), **_machine(model)})
        record = {"seconds": seconds, "points": points, "warnings": sorted(warned), "parts": {"warm-up": warm_up_s}}
        most = {name: max(point[name] for point in points) for name in used}
        write(
            out, record | most, {f"{name} {k}": value for k, one in enumerate(answers) for name, value in one.items()}
        )
        if seconds * _TOO_LONG > task.timeout:
            break


def _into(found: dict[str, Any], fit: Callable, path: Path, budget: int) -> None:
    found["model"] = fit(path, budget)


def _told(model: Any) -> dict[str, Any]:
    """Return what a model says of landmarks and support vectors."""
    told: dict[str, Any] = {}
    if hasattr(model, "exact_bounds_"):
        told["bounds"] = list(map(float, model.exact_bounds_))
    if hasattr(model, "trace_error_"):
        told |= {"trace_error": float(model.trace_error_), "rank": int(model.rank_)}
    if hasattr(model, "support_"):
        told["n_support"] = len(model.support_)
    return told


def _machine(model: Any) -> dict[str, np.ndarray]:
    """Return a machine of landmarks for the referee."""
    if not hasattr(model, "exact_bounds_"):
        return {}
    return {
        "landmarks": np.asarray(model.components_),
        "coef": np.asarray(model.coef_),
        "intercept": np.asarray(model.intercept_),
        "bounds": np.asarray(model.exact_bounds_),
    }


if __name__ == "__main__":
    serve(prepare)
