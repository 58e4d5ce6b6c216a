"""Linear classifiers of two classes on a cluster, ours and others': `python -m bench.cluster.peers`, from the root.

The cluster has two processes of one thread on this machine. Each fit has one of its own. Rows are in the memory of the
workers before the clock begins, standardised, in float32, and a small fit has compiled and warmed up. All have the same
C for the loss, and a penalty of the squared norm of the weights. Who takes longer than the limit is ended, and who is
not installed or raises an error is told. From the weights, the accuracy on the test samples is computed here, and
C Σ log-loss + ‖(w, b)‖² / 2, which all but the hinge minimise.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.cluster.rows import cluster_of_two, persisted, written
from bench.harness.data import Data, standardised
from bench.harness.processes import ROOT, limited_to
from bench.harness.study import RESULTS, Study
from bench.recipes import cifar_standardised, digits_odd_even, kdd

__all__ = ["COMPETITORS", "judged"]

Weights = tuple[np.ndarray, float]
"""Weights of the features, and the intercept, of scores that are positive for class 1."""


class Case(NamedTuple):
    """A recipe of standardised data with the classes 0 and 1, and C."""

    recipe: Callable[[], Data]
    C: float


_CASES = {
    "animals": Case(lambda: cifar_standardised(50_000), 1e-3),
    "kdd": Case(lambda: kdd(False, distinct=False), 1e-3),
}
_QUICK = {"digits": Case(lambda: standardised(digits_odd_even()), 1e-2)}


# --- competitors: each fits on the client's cluster, and returns its weights -------------------------------


def _ours(loss: str) -> Callable[..., Weights]:
    def fit(client: Any, X: Any, y: Any, C: float) -> Weights:
        from fastsvm.dask import LinearSVC

        return _weights(LinearSVC(loss, C=C, tol=1e-3, random_state=0, client=client).fit(X, y))

    return fit


def _our_descent(client: Any, X: Any, y: Any, C: float) -> Weights:
    from fastsvm.dask import SGDClassifier

    return _weights(SGDClassifier("log_loss", alpha=1 / (C * len(y)), random_state=0, client=client).fit(X, y))


def _dask_ml(solver: str) -> Callable[..., Weights]:
    def fit(client: Any, X: Any, y: Any, C: float) -> Weights:
        from dask_ml.linear_model import LogisticRegression

        return _weights(LogisticRegression(C=C, solver=solver).fit(X, y))

    return fit


def _post_fit(client: Any, X: Any, y: Any, C: float) -> Weights:
    from dask_ml.wrappers import ParallelPostFit
    from sklearn.linear_model import SGDClassifier

    descent = SGDClassifier(loss="log_loss", alpha=1 / (C * len(y)), random_state=0)
    return _weights(ParallelPostFit(descent).fit(X, y))


def _xgboost(client: Any, X: Any, y: Any, C: float) -> Weights:
    import xgboost.dask

    parameters = {
        "booster": "gblinear", "objective": "binary:logistic", "lambda": 1 / (C * len(y)), "base_score": 0.5,
        "nthread": 1,
    }  # fmt: skip
    rows = xgboost.dask.DaskDMatrix(client, X, y)
    booster = xgboost.dask.train(client, parameters, rows, num_boost_round=100)["booster"]
    numbers = [float(line) for line in booster.get_dump()[0].split() if not line.endswith(":")]
    return np.array(numbers[1:]), numbers[0]


def _weights(model: Any) -> Weights:
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


COMPETITORS: dict[str, Callable[..., Weights]] = {
    "fastsvm LinearSVC, hinge": _ours("hinge"),
    "fastsvm LinearSVC, log-loss": _ours("log_loss"),
    "fastsvm SGDClassifier, log-loss": _our_descent,
    "dask-ml LogisticRegression, ADMM": _dask_ml("admm"),
    "dask-ml LogisticRegression, L-BFGS": _dask_ml("lbfgs"),
    "dask-ml ParallelPostFit of scikit-learn's SGD": _post_fit,
    "XGBoost gblinear, 100 rounds": _xgboost,
}


# --- processes ---------------------------------------------------------------------------------------------


def _work(name: str, path: Path, warming: Path, C: float) -> dict[str, Any]:
    """Fit in this process, and return seconds and weights."""
    fit = COMPETITORS[name]
    with cluster_of_two() as client:
        fit(client, *persisted(warming), C)
        rows = persisted(path)
        begin = time.perf_counter()
        weights, intercept = fit(client, *rows, C)
        return {"seconds": time.perf_counter() - begin, "weights": weights.tolist(), "intercept": intercept}


def _measured(name: str, paths: tuple[Path, Path], C: float, limit: float) -> dict[str, Any]:
    """Fit in a process of its own; return what it found, or an error."""
    command = [sys.executable, "-m", "bench.cluster.peers", "--work", name, *map(str, paths), str(C)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=limited_to(1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        answer, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"error": f"ended after {limit:.0f} s"}
    if process.returncode:
        return {"error": (errors.strip().splitlines() or ["ended"])[-1]}
    return json.loads(answer.splitlines()[-1])


def _varying(data: Data) -> Data:
    """Return data without constant features, which dask-ml refuses."""
    varies = np.ptp(data.X, axis=0) > 0
    return data._replace(X=np.ascontiguousarray(data.X[:, varies]), X_test=np.asarray(data.X_test)[:, varies])


def _noise(n_features: int) -> Data:
    """Return a few rows of noise, on which a fit compiles and warms up."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, n_features)), rng.integers(0, 2, 1000)
    return Data(X, y, X[:0], y[:0])


def judged(data: Data, C: float, weights: np.ndarray, intercept: float) -> dict[str, float]:
    """Return the accuracy on the test samples, and the objective of the log-loss on those for training."""
    margins = np.where(data.y == 1, 1, -1) * (np.asarray(data.X) @ weights + intercept)
    objective = C * np.logaddexp(0, -margins).sum() + (weights @ weights + intercept**2) / 2
    predicted = np.asarray(data.X_test) @ weights + intercept > 0
    return {"accuracy": float(np.mean(predicted == (data.y_test == 1))), "log_loss_objective": float(objective)}


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.cluster.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small bundled data")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only competitors with it in their names")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="fits of each, in turns (3)")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds of a process (300)")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.work:
        name, path, warming, C = asked.work
        print(json.dumps(_work(name, Path(path), Path(warming), float(C))))
        return 0
    cases = _QUICK if asked.quick else _CASES
    names = [name for name in COMPETITORS if not asked.only or any(text in name for text in asked.only)]
    study = Study("peers", asked.out)
    print("| case | competitor | seconds | accuracy | objective of the log-loss |\n|---|---|---|---|---|")
    for case in asked.case or cases:
        data, C = _varying(cases[case].recipe()), cases[case].C
        results: dict[str, dict[str, Any]] = {}
        with tempfile.TemporaryDirectory() as folder:
            paths = written(data, Path(folder)), written(_noise(data.X.shape[1]), Path(folder), "warming.h5")
            for turn in range(asked.repeat):
                for name in names:
                    known = results.setdefault(name, {"competitor": name, "seconds": []})
                    if "error" in known:
                        continue
                    found = _measured(name, paths, C, asked.timeout)
                    if "error" in found:
                        known["error"] = found["error"]
                        continue
                    known["seconds"].append(found["seconds"])
                    if turn == 0:
                        known |= judged(data, C, np.array(found["weights"]), found["intercept"])
        for one in results.values():
            print(f"| {case} | {_line(one)} |", flush=True)
        study.add(case, list(results.values()), C=C, shape=data.X.shape)
    return 0


def _line(found: dict[str, Any]) -> str:
    """Return the cells of a competitor."""
    if "error" in found:
        return f"{found['competitor']} | {found['error']} | | "
    seconds, accuracy = float(np.median(found["seconds"])), found["accuracy"]
    return f"{found['competitor']} | {seconds:.2f} | {accuracy:.4f} | {found['log_loss_objective']:.6g}"


if __name__ == "__main__":
    sys.exit(main())
