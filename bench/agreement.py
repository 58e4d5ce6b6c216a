"""Does the answer agree with LIBSVM's at a tight tolerance? `python -m bench.agreement`, from the root.

For each data set, kernel and C, both libraries fit to a violation of 1e-6, and the referee judges both answers. The
table shows the dual objective relative to LIBSVM's, and the share of equal predictions for the training samples. The
sigmoid kernel is not positive semi-definite, so its problem has several stationary points. The run is written as JSON.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

from bench.harness.study import RESULTS, Study
from bench.kernel.exact_kernel import ExactKernel
from bench.kernel.referee import Answer, Verdict, examine
from bench.workers.results import answer_of
from fastsvm import SVC

__all__ = ["SAME", "compare", "data_sets"]

_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_PENALTIES = (0.1, 1.0, 100.0)
_MOST_STEPS = 10_000_000
SAME = 1e-5
"""Relative difference of objectives that agree."""
_SAME_PREDICTIONS = 0.999


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return samples and labels by name. a9a is included only if the folder FASTSVM_DATA has it."""
    found = {
        "iris": load_iris(return_X_y=True),
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "breast_cancer, standardised": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
    }
    X, y = found["breast_cancer, standardised"]
    found["breast_cancer, standardised"] = StandardScaler().fit_transform(X), y
    path = Path(os.environ.get("FASTSVM_DATA", "")) / "a9a"
    if path.is_file():
        X, y = load_svmlight_file(str(path))
        found["a9a, 3000 rows"] = X[:3000].toarray(), y[:3000]
    else:
        print("a9a is left out: FASTSVM_DATA names no folder that holds it")
    return found


def compare(X: np.ndarray, y: np.ndarray, given: dict[str, Any]) -> dict[str, Any]:
    """Return how far our answer is from LIBSVM's, and the reason if they do not agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = SVC(**given).fit(X, y)
        theirs = LIBSVM(**given, max_iter=_MOST_STEPS).fit(X, y)
    mine, other = (_judge(model, X, y, given) for model in (ours, theirs))
    relative = (mine.objective - other.objective) / abs(other.objective)
    same = float(np.mean(ours.predict(X) == theirs.predict(X)))
    agrees = abs(relative) <= SAME and same >= _SAME_PREDICTIONS
    return {
        "kernel": given["kernel"], "C": given["C"], "objective": float(mine.objective), "relative": float(relative),
        "gap": float(mine.kkt_gap), "other_gap": float(other.kkt_gap), "same": same,
        "reason": "" if agrees else _reason(theirs, mine, other),
    }  # fmt: skip


def compared(X: np.ndarray, y: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield the comparisons for a data set."""
    gamma = 1 / (X.shape[1] * X.var())
    for kernel, C in product(_KERNELS, _PENALTIES):
        yield compare(X, y, {"kernel": kernel, "C": C, "gamma": gamma, "tol": 1e-6})


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each comparison, and a summary, and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.agreement", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    study, counts = Study("agreement", parser.parse_args(arguments).out), [0, 0]
    print(f"{'data':28} {'kernel':8} {'C':>5} {'objective':>14} {'relative':>10}  our gap LIBSVM gap same")
    for name, (X, y) in data_sets().items():
        results = []
        for one in compared(X, y):
            print(
                f"{name:28} {one['kernel']:8} {one['C']:5g} {one['objective']:14.8g} {one['relative']:10.1e} "
                f"{one['gap']:8.0e} {one['other_gap']:10.0e} {one['same']:.4f} {one['reason']}",
                flush=True,
            )
            results.append(one)
            counts = [counts[0] + (abs(one["relative"]) <= SAME), counts[1] + 1]
        study.add(name, results)
    print(f"{counts[0]} of {counts[1]} objectives agree within {SAME:g}")
    return 0


def _judge(model: SVC | LIBSVM, X: np.ndarray, y: np.ndarray, given: dict) -> Verdict:
    kernel = ExactKernel(X, given["kernel"], given["gamma"], 3, 0.0)
    answer = answer_of(model)
    return examine(kernel, y, given["C"], Answer(answer["support"], answer["dual_coef"], answer["intercept"]))


def _reason(theirs: LIBSVM, mine: Verdict, other: Verdict) -> str:
    if theirs.fit_status_:
        return "LIBSVM reached its limit of steps"
    if mine.objective > other.objective and other.kkt_gap > 10 * mine.kkt_gap:
        return "LIBSVM's own gap is larger than it says"
    return "another stationary point" if theirs.kernel == "sigmoid" else "disagreement"


if __name__ == "__main__":
    sys.exit(main())
