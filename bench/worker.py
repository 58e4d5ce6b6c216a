"""How long does one fit take in a fresh process? `python -m bench.worker TASK.json`, called by `bench.runs`.

The clock runs while `fit` does and at no other time: not while data are read and converted, and not while
the first fits of a process compile, start threads and load libraries.
"""

import json
import resource
import signal
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bench.cases import Parameters
from bench.competitors import COMPETITORS
from bench.data import load

__all__ = ["ANSWER", "RECORD", "Task", "main"]

ANSWER, RECORD = "answer.npz", "record.json"
_FEW, _MORE = 300, 2200  # rows of the warm-up fits
_CERTIFICATE = ("objective_", "kkt_violation_", "duality_gap_")


@dataclass(frozen=True)
class Task:
    """One run: who, with which parameters, data from where, results to where, seconds until it is ended."""

    competitor: str
    parameters: dict[str, Any]
    data: str
    out: str
    timeout: float
    predict: bool

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> "Task":
        return cls(**json.loads(path.read_text()))


def main(path: str) -> None:
    """Fit, note the result, then predict and note that too: a prediction that is too slow loses no fit."""
    task = Task.read(Path(path))
    parameters = Parameters(**task.parameters)
    competitor = next(one for one in COMPETITORS if one.name == task.competitor)
    data = load(Path(task.data))
    X, X_test = competitor.prepare(data.X), competitor.prepare(data.X_test)
    record: dict[str, Any] = {"warm_up_s": _warm_up(lambda: competitor.build(parameters), X, data.y)}
    record["peak_before_mb"] = _peak_mb()
    model = competitor.build(parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record["fit_s"] = _timed(lambda: model.fit(X, data.y), task.timeout)
    record["warnings"] = sorted({str(one.message) for one in caught})
    record["peak_mb"] = _peak_mb()
    record["claimed"] = {name: float(getattr(model, name)) for name in _CERTIFICATE if hasattr(model, name)}
    record["n_iter"] = np.ravel(getattr(model, "n_iter_", [])).tolist()
    answer = _answer(model)
    _write(Path(task.out), record, answer)
    if task.predict:
        record["predict_s"] = _timed(lambda: answer.update(predicted=model.predict(X_test)), task.timeout)
        _write(Path(task.out), record, answer)


def _answer(model: Any) -> dict[str, np.ndarray]:
    coef = model.dual_coef_
    return {
        "support": np.asarray(model.support_),
        "dual_coef": coef.toarray() if sparse.issparse(coef) else np.asarray(coef),
        "intercept": np.atleast_1d(model.intercept_),
    }


def _write(folder: Path, record: dict[str, Any], answer: dict[str, np.ndarray]) -> None:
    np.savez(folder / ANSWER, **answer)
    (folder / RECORD).write_text(json.dumps(record))


def _timed(action: Any, timeout: float) -> float:
    """Return the seconds an action takes; the process ends by SIGALRM if they are too many.

    The signal is left to the system, because Python would handle it only after the compiled code returns.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    start = time.perf_counter()
    action()
    seconds = time.perf_counter() - start
    signal.setitimer(signal.ITIMER_REAL, 0)
    return seconds


def _warm_up(build: Any, X: Any, y: np.ndarray) -> float:
    """Fit and predict small parts, and return the seconds it took.

    A few hundred rows of all classes, then some thousand of two classes if there are more: implementations
    may use other code, for instance another precision, as soon as a problem is not small.
    """
    start = time.perf_counter()
    classes, count = np.unique(y, return_counts=True)
    largest = classes[np.argsort(-count, kind="stable")[:2]]
    parts = [_part(y, classes, _FEW)]
    if np.sort(count)[-2:].sum() > _MORE:
        parts.append(_part(y, largest, _MORE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in parts:
            build().fit(X[rows], y[rows]).predict(X[rows[:10]])
    return time.perf_counter() - start


def _part(y: np.ndarray, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the numbers of about `n_rows` rows, equally many of each class."""
    each = -(-n_rows // len(classes))
    return np.sort(np.concatenate([np.flatnonzero(y == one)[:each] for one in classes]))


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main(sys.argv[1])
