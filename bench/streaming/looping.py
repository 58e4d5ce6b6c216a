"""Which objective does scikit-learn's `partial_fit` reach from the file, in the usual loop?

The loop reads some thousand samples, scales them to pixels from 0 to 1, shuffles them and calls `partial_fit`, until
the time is over. A dozen intermediate weights are stored for the referee.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from sklearn.linear_model import SGDClassifier

from bench.streaming.big_file import drop_from_cache
from bench.streaming.parameters import LEVELS, StreamingParameters
from bench.workers import Watch

_POINTS = 12


def measure(
    parameters: StreamingParameters, threads: int, average: bool, path: Path, watch: Watch
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return when weights were stored and after how many epochs, and the weights."""
    points: list[dict[str, float]] = []
    answers: list[tuple[np.ndarray, np.ndarray]] = []
    with h5py.File(path) as file:
        alpha = parameters.alpha(len(file["y"]))
        model = SGDClassifier(loss=parameters.loss, alpha=alpha, average=average, random_state=0, n_jobs=threads)
        seconds = watch("loop", lambda: _loop(model, parameters, file, points, answers))
    coef, intercept = map(np.array, zip(*answers, strict=True))
    return {"seconds": seconds, "points": points}, {"coef": coef, "intercept": intercept}


def _loop(model: SGDClassifier, parameters: StreamingParameters, file: h5py.File, points: list, answers: list) -> None:
    due = np.geomspace(parameters.limit_s / 2**_POINTS, parameters.limit_s, _POINTS + 1).tolist()
    classes, n_rows = np.unique(file["y"][:]), len(file["y"])
    begin, seen = time.perf_counter(), 0
    for rows, labels in _shuffled(file, parameters.rows_at_once):
        model.partial_fit(rows, labels, classes=classes)
        seconds, seen = time.perf_counter() - begin, seen + len(labels)
        if seconds >= due[0]:
            points.append({"seconds": seconds, "epochs": seen / n_rows})
            answers.append((np.atleast_2d(model.coef_) / LEVELS, model.intercept_.copy()))
            due = [one for one in due if one > seconds]
        if not due:
            return


def _shuffled(file: h5py.File, at_once: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    while True:
        drop_from_cache(Path(file.filename))
        for start in range(0, len(file["y"]), at_once):
            rows = file["X"][start : start + at_once].astype(np.float32) / LEVELS
            order = rng.permutation(len(rows))
            yield rows[order], file["y"][start : start + at_once][order]
