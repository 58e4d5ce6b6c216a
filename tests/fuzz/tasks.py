"""Work that writes files, for disks that are full: what it needs, what it does, and what the files are worth then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from fuzz.specimens import digest, training

import fastsvm
from fastsvm.formats import convert
from fastsvm.jobs import predict
from fastsvm.jobs.runner import resume, run
from fastsvm.jobs.training import checkpoints
from fastsvm.jobs.training.job_file import Job
from fastsvm.tuning import changed, tuned

__all__ = ["TASKS", "Task"]

_BOUND = {"job": "abc"}


class Task(NamedTuple):
    """Work that writes files.

    Attributes
    ----------
    prepare : callable
        Writes what it needs to a folder.
    do : callable
        Does it.
    again : callable
        Does it, or goes on with it, where there is room; returns a digest of what there is in the end.
    may_leave : callable
        Says of a file's name whether an error may leave or change it.
    """

    prepare: Callable[[Path], None]
    do: Callable[[Path], Any]
    again: Callable[[Path], str]
    may_leave: Callable[[str], bool] = lambda name: False


def _rows(folder: Path) -> None:
    X, y = training()
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"], file["y"] = np.tile(X, (30, 1)), np.tile(y, 30)


# --- models, checkpoints ---------------------------------------------------------------------------------


def _prepare_save(folder: Path) -> None:
    X, y = training()
    fastsvm.save(fastsvm.LinearSVC(random_state=0).fit(X, y), folder / "model.h5")


def _save(folder: Path) -> None:
    X, y = training()
    fastsvm.save(fastsvm.SVC(C=3.0).fit(np.tile(X, (1, 50)), y), folder / "model.h5")


def _saved(folder: Path) -> str:
    _save(folder)
    return digest(fastsvm.load(folder / "model.h5").dual_coef_)


def _tree(number: int) -> dict[str, Any]:
    return {"alpha": np.random.default_rng(number).normal(size=3000), "number": number}


def _prepare_checkpoint(folder: Path) -> None:
    checkpoints.Checkpoints(folder, _BOUND).save(_tree(1))


def _keep(folder: Path) -> None:
    checkpoints.Checkpoints(folder, _BOUND).save(_tree(2))


def _kept(folder: Path) -> str:
    found = checkpoints.Checkpoints(folder, _BOUND).latest()
    if found.tree["number"] not in (1, 2) or found.refused:
        raise RuntimeError(f"the last checkpoint is {found.tree['number']}, refused were {found.refused}")
    _keep(folder)
    return digest(checkpoints.Checkpoints(folder, _BOUND).latest().tree["alpha"])


# --- conversions -----------------------------------------------------------------------------------------


def _prepare_text(folder: Path) -> None:
    rng = np.random.default_rng(1)
    lines = (f"{k % 3} " + " ".join(f"{i}:{v:.3f}" for i, v in enumerate(rng.normal(size=20), 1)) for k in range(300))
    (folder / "rows.svm").write_text("\n".join(lines) + "\n")


def _convert(folder: Path, **options: Any) -> None:
    convert(folder / "rows.svm", folder / "rows.h5", format="svmlight", **options)


def _converted(folder: Path, **options: Any) -> str:
    _convert(folder, **options)
    with fastsvm.open_hdf5(folder / "rows.h5") as data:
        return digest(data.X.in_memory().block.dense(np.float64), data.y)


def _conversion(**options: Any) -> Task:
    return Task(_prepare_text, lambda folder: _convert(folder, **options), lambda folder: _converted(folder, **options))


# --- predictions and runs --------------------------------------------------------------------------------


def _prepare_predictions(folder: Path) -> None:
    _rows(folder)
    _prepare_save(folder)


def _predict(folder: Path, name: str) -> None:
    with tuned(changed({"jobs": {"block_rows": 256}})):
        predict.predict(folder / "model.h5", folder / "rows.h5", folder / name)


def _predicted(folder: Path, name: str) -> str:
    _predict(folder, name)
    if list(folder.glob("*.part*")):
        raise RuntimeError(f"{list(folder.glob('*.part*'))} are left")
    return digest((folder / name).read_bytes())


def _prediction(name: str) -> Task:
    return Task(
        _prepare_predictions, lambda folder: _predict(folder, name), lambda folder: _predicted(folder, name),
        lambda file: file.startswith(f"{name}.part"),
    )  # fmt: skip


def _job(folder: Path, kind: str, **parameters: Any) -> Job:
    return Job(
        str(folder / "rows.h5"), kind=kind, parameters={"verbose": False} | parameters, checkpoint_seconds=0.0,
        memory="400MB", report=False,
    )  # fmt: skip


def _run(folder: Path, kind: str, **parameters: Any) -> None:
    run(_job(folder, kind, **parameters), folder / "run")


def _resumed(folder: Path, kind: str, **parameters: Any) -> str:
    """Go on with the run, or begin it if there is none yet."""
    if (folder / "run" / "job.json").exists():
        resume(folder / "run")
    else:
        _run(folder, kind, **parameters)
    model = fastsvm.load(folder / "run" / "model.fastsvm")
    return digest(getattr(model, "coef_", None) if kind != "svc" else model.dual_coef_, model.intercept_)


def _of_run(kind: str, **parameters: Any) -> Task:
    return Task(
        _rows, lambda folder: _run(folder, kind, **parameters), lambda folder: _resumed(folder, kind, **parameters),
        lambda name: name.startswith("run"),
    )  # fmt: skip


TASKS: dict[str, Task] = {
    "save": Task(_prepare_save, _save, _saved),
    "checkpoint": Task(_prepare_checkpoint, _keep, _kept),
    "convert": _conversion(),
    "convert dense": _conversion(dense=True),
    "convert in order": _conversion(shuffle=False),
    "predict csv": _prediction("out.csv"),
    "predict hdf5": _prediction("out.h5"),
    "run sgd": _of_run("sgd", max_iter=10, tol=None),
    "run linear": _of_run("linear", C=0.01),
    "run svc": _of_run("svc", C=1.0),
}
"""Tasks by name."""
