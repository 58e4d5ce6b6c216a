"""How long does `LinearSVC` take from the file, epoch by epoch?

A fit to some samples, from a file too, compiles before the clock starts.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench.streaming.big_file import drop_from_cache
from bench.streaming.parameters import LEVELS, StreamingParameters
from bench.workers import Watch
from fastsvm import LinearSVC, open_hdf5

_FEW = 2_000


class _Dropping:
    """A callback that drops the file from the page cache after each epoch, so that the next one reads from the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Drop the file, and do not stop."""
        drop_from_cache(self.path)
        return False


def measure(parameters: StreamingParameters, path: Path, watch: Watch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how the fit went, and its weights."""
    given = {"tol": parameters.tol, "max_iter": parameters.max_iter}
    model = LinearSVC(**parameters.of_bytes, **given, random_state=0)
    with open_hdf5(path) as data, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record says why the fit stopped
        _warm_up(model, data)
        model.set_params(memory=parameters.memory, max_time=parameters.limit_s, max_iter=parameters.max_iter)
        if hasattr(model, "set_callbacks"):  # since scikit-learn 1.9
            model.set_callbacks(_Dropping(path))
        drop_from_cache(path)
        seconds = watch("fit", lambda: model.fit(data))
    record = {
        "seconds": seconds,
        "history": _history(model),
        "objective": LEVELS**2 * float(model.objective_),
        "epochs": int(model.n_iter_),
        "stopped": str(model.stop_reason_),
    }
    return record, {"coef": model.coef_[None], "intercept": np.atleast_1d(model.intercept_)[None]}


def _history(model: LinearSVC) -> dict[str, list[float | None]]:
    """Return the history with objectives of pixels. None stands for values that are not known yet."""
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
