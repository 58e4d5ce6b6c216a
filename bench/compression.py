"""What do fewer support vectors cost? `python -m bench.compression`, from the root; arguments are names of cases.

Each model is compressed three times: to 5.2 times fewer support vectors, to as many with the labels of the samples, and
to the tolerance .1, this only where the model has at most 5,000 support vectors, as with more it takes many minutes.
The table shows support vectors, seconds for the prediction of the test samples, the share of correct test labels (of
regressions R², of one class the share of equal signs), and the largest difference of a decision value on the given
rows. These are at most 20,000 samples of the fit. The run is written as JSON.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.datasets import load_diabetes

import fastsvm
from bench import recipes
from bench.harness.data import Data, DataMissing, standardised
from bench.harness.study import RESULTS, Study

__all__ = ["EXACT", "FEWER", "TOL", "WITH_LABELS", "compare"]

EXACT, FEWER, WITH_LABELS, TOL = "exact", "fewer", "fewer, labels", "tol"
_TIMES_FEWER, _TOL, _MOST_ROWS = 5.2, 0.1, 20_000
_TIMES = 3
_MOST_TO_TOL = 5000  # support vectors


class Case(NamedTuple):
    """A model and its data."""

    model: Any
    data: Any


def _diabetes() -> Data:
    data = standardised(recipes._split(*load_diabetes(return_X_y=True)))
    return data._replace(y=(data.y - 150) / 75, y_test=(data.y_test - 150) / 75)


def _sums() -> Data:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=12_000)
    return Data(X[:8000], y[:8000], X[8000:], y[8000:])


CASES = {
    "digits": Case(fastsvm.SVC(C=10, gamma=0.2), recipes.digits),
    "cifar-10-20000": Case(fastsvm.SVC(C=10, gamma=0.002 / 255**2), partial(recipes.cifar10, 20_000)),
    "mnist": Case(fastsvm.SVC(C=10, gamma=0.02 / 255**2), recipes.mnist),
    "cod-rna": Case(fastsvm.SVC(C=10, gamma=0.5), partial(recipes.cod_rna, 20_000)),
    "a9a": Case(fastsvm.SVC(C=1, gamma=0.05), recipes.a9a),
    "svr-diabetes": Case(fastsvm.SVR(C=1, gamma=0.05), _diabetes),
    "svr-made-up": Case(fastsvm.SVR(C=10, gamma=0.1), _sums),
    "one-class-cod-rna": Case(fastsvm.OneClassSVM(nu=0.1, gamma=0.5), partial(recipes.cod_rna, 20_000)),
    "kdd-attacks": Case(fastsvm.SVC(C=10, gamma=0.02), partial(recipes.kdd, False)),
    "kdd-kinds": Case(fastsvm.SVC(C=10, gamma=0.02), partial(recipes.kdd, True)),
}


def compare(case: Case) -> Iterator[dict[str, Any]]:
    """Yield what is measured of a model, and of each way to compress it."""
    model, data = case.model, case.data()
    begin = time.perf_counter()
    model.fit(data.X, data.y)
    yield _measured(EXACT, model, model, data, 0.0, time.perf_counter() - begin)
    rows = np.random.default_rng(0).permutation(data.X.shape[0])[:_MOST_ROWS]
    n = max(1, int(len(model.support_) / _TIMES_FEWER))
    ways: dict[str, dict[str, Any]] = {FEWER: {"n_support": n}}
    if is_classifier(model):
        ways[WITH_LABELS] = {"n_support": n, "y": data.y[rows]}
    if len(model.support_) <= _MOST_TO_TOL:
        ways[TOL] = {"tol": _TOL}
    for way, given in ways.items():
        begin = time.perf_counter()
        found = fastsvm.compress(model, data.X[rows], **given)
        yield _measured(way, model, found.model, data, found.max_difference, time.perf_counter() - begin)


def _measured(way: str, exact: Any, model: Any, data: Data, difference: float, seconds: float) -> dict[str, Any]:
    took = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        predicted = model.predict(data.X_test)
        took.append(time.perf_counter() - begin)
    if isinstance(model, fastsvm.OneClassSVM):
        score = np.mean(predicted == exact.predict(data.X_test))
    else:
        score = model.score(data.X_test, data.y_test)
    return {
        "way": way,
        "n_support": len(model.support_),
        "predict_s": min(took),
        "score": float(score),
        "largest_difference": float(difference),
        "seconds": seconds,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.compression", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="NAME", help="only these cases")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    study = Study("compression", asked.out)
    print("| case | | support vectors | predict, s | score | largest difference | fit or compress, s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in asked.cases or CASES:
        results = []
        try:
            for one in compare(CASES[name]):
                way, n, *measured = one.values()
                print(f"| {name} | {way} | {n:,} | {' | '.join(f'{value:.4g}' for value in measured)} |", flush=True)
                results.append(one)
        except DataMissing as missing:
            print(f"{name}: {missing}")
            continue
        study.add(name, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
