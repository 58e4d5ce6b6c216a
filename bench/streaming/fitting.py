"""How long does `LinearSVC` take from the file, epoch by epoch?

A fit of some rows before it, from a file too, compiles outside the clock.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.streaming.big_file import drop_from_cache
from bench.streaming.problem import LEVELS, Pixels
from bench.streaming.process import answer
from fastsvm import LinearSVC, open_hdf5

_FEW = 2_000


class _Forgetting:
    """A callback that has the system forget the file after each epoch: the next one reads from the disk again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Forget, and do not stop."""
        drop_from_cache(self.path)
        return False


def measure(told: dict[str, Any]) -> dict[str, Any]:
    """Return how the fit went, and leave its weights."""
    path, problem = Path(told["path"]), Pixels(told["C"])
    model = LinearSVC(
        loss=problem.loss, C=problem.C_of_bytes, intercept_scaling=LEVELS, random_state=0, max_iter=told["max_iter"],
        tol=told["tol"],
    )  # fmt: skip
    with open_hdf5(path) as data:
        _warm_up(model, data)
        model.set_params(memory=told["memory"], max_time=told["limit"], max_iter=told["max_iter"])
        if hasattr(model, "set_callbacks"):  # since scikit-learn 1.9
            model.set_callbacks(_Forgetting(path))
        drop_from_cache(path)
        begin = time.perf_counter()
        model.fit(data)
        seconds = time.perf_counter() - begin
    np.savez(told["answer"], coef=[model.coef_], intercept=[model.intercept_])
    return {
        "seconds": seconds,
        "history": _history(model),
        "objective": LEVELS**2 * float(model.objective_),
        "epochs": int(model.n_iter_),
        "stopped": str(model.stop_reason_),
    }


def _history(model: LinearSVC) -> dict[str, list[float | None]]:
    """Return what is known after each epoch, objectives for pixels; None is what is not known yet."""
    scales = {"objective": LEVELS**2, "dual_objective": LEVELS**2}
    scaled = {name: scales.get(name, 1) * np.asarray(values, float) for name, values in model.history_.items()}
    return {
        name: [value if np.isfinite(value) else None for value in values.tolist()] for name, values in scaled.items()
    }


def _warm_up(model: LinearSVC, data: h5py.File) -> None:
    rows = data.X.read(0, min(_FEW, len(data))).user_array()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "few.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=rows, chunks=(100, rows.shape[1]))
            file["y"] = data.y[: len(rows)]
        with open_hdf5(path) as few:
            model.set_params(memory=rows.nbytes, max_iter=2).fit(few)


if __name__ == "__main__":
    answer(measure)
