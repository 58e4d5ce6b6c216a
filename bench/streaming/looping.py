"""How far does scikit-learn's `partial_fit` come from the file, in a loop as people write it?

Some thousand rows are read, made pixels from 0 to 1, shuffled and learned from, again and again until the time is over.
Now and then its weights are kept for the referee.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from sklearn.linear_model import SGDClassifier

from bench.streaming.big_file import drop_from_cache
from bench.streaming.problem import LEVELS, Pixels
from bench.streaming.process import answer

_POINTS = 12


def measure(told: dict[str, Any]) -> dict[str, Any]:
    """Return when weights were kept and after how many rows, and leave them."""
    path, due = Path(told["path"]), np.geomspace(told["limit"] / 2**_POINTS, told["limit"], _POINTS + 1).tolist()
    points, kept = [], []
    with h5py.File(path) as file:
        classes, n_rows = np.unique(file["y"][:]), len(file["y"])
        problem = Pixels(told["C"])
        model = SGDClassifier(
            loss=problem.loss, alpha=problem.alpha(n_rows), average=told["average"], random_state=0,
            n_jobs=told["threads"],
        )  # fmt: skip
        begin, seen = time.perf_counter(), 0
        for rows, labels in _shuffled(file, path, told["rows_at_once"]):
            model.partial_fit(rows, labels, classes=classes)
            seconds, seen = time.perf_counter() - begin, seen + len(labels)
            if seconds >= due[0]:
                points.append({"seconds": seconds, "epochs": seen / n_rows})
                kept.append((np.atleast_2d(model.coef_) / LEVELS, model.intercept_.copy()))
                due = [one for one in due if one > seconds]
            if not due:
                break
    coef, intercept = map(np.array, zip(*kept, strict=True))
    np.savez(told["answer"], coef=coef, intercept=intercept)
    return {"points": points}


def _shuffled(file: h5py.File, path: Path, at_once: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    while True:
        drop_from_cache(path)
        for start in range(0, len(file["y"]), at_once):
            rows = file["X"][start : start + at_once].astype(np.float32) / LEVELS
            order = rng.permutation(len(rows))
            yield rows[order], file["y"][start : start + at_once][order]


if __name__ == "__main__":
    answer(measure)
