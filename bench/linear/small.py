"""What do linear machines of few samples cost, beside LIBLINEAR? `python -m bench.linear.small`, from the root.

`LinearSVC` and `LinearSVR` and those of scikit-learn, which are LIBLINEAR, take turns, after a fit of each that is not
timed. Both have their defaults. The referee computes the objectives. The run is written as JSON.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from sklearn import svm
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_regression,
)
from sklearn.exceptions import ConvergenceWarning

import fastsvm
from bench.harness.competitor import OURS
from bench.harness.study import RESULTS, Study
from bench.kernel.small_tables import clusters, noisy
from bench.linear.parameters import LinearParameters
from bench.linear.referee import Weights, objectives

__all__ = ["LIBLINEAR", "OF_CLASSES", "OF_TARGETS", "Case", "compare"]

LIBLINEAR = "liblinear"
OF_CLASSES, OF_TARGETS = ("squared_hinge", "hinge"), ("epsilon_insensitive",)
_REFEREES = {"epsilon_insensitive": "absolute_error"}  # with an epsilon of 0, the default of both
_N_FITS = 25

Made = tuple[np.ndarray, np.ndarray]


class Case(NamedTuple):
    """Samples with their classes or targets, and the losses to fit them with."""

    made: Callable[[], Made]
    losses: tuple[str, ...] = OF_CLASSES


def _of(load: Callable[..., Made], divisor: float | str = 1.0) -> Made:
    """Return a table that comes with scikit-learn, divided by a number or, with "std", standardised."""
    X, y = load(return_X_y=True)
    return ((X - X.mean(axis=0)) / X.std(axis=0) if divisor == "std" else X / divisor), y


def _clusters(n_classes: int, each: int, n_features: int) -> Made:
    data = clusters(n_classes, each * 5 // 4, n_features)  # a fifth of them are test samples
    return data.X, data.y


def _noisy(n: int) -> Made:
    data = noisy(n * 5 // 4)
    return data.X, data.y


def _wide() -> Made:
    return make_classification(300, 1_000, n_informative=20, random_state=0)


def _targets(n: int, n_features: int) -> Made:
    X, y = make_regression(n, n_features, n_informative=10, noise=20.0, random_state=0)
    return X, y / y.std()


CASES = {
    "iris-standardised": Case(partial(_of, load_iris, "std")),
    "iris": Case(partial(_of, load_iris)),
    "wine-standardised": Case(partial(_of, load_wine, "std")),
    "wine": Case(partial(_of, load_wine)),
    "cancer-standardised": Case(partial(_of, load_breast_cancer, "std")),
    "7-classes-of-200": Case(partial(_clusters, 7, 200, 8)),
    "digits": Case(partial(_of, load_digits, 16)),
    "60-classes-of-100": Case(partial(_clusters, 60, 100, 20)),
    "noisy-2000": Case(partial(_noisy, 2_000)),
    "wide-300": Case(_wide),
    "diabetes": Case(partial(_of, load_diabetes, "std"), OF_TARGETS),
    "targets-500": Case(partial(_targets, 500, 20), OF_TARGETS),
    "targets-2000": Case(partial(_targets, 2_000, 20), OF_TARGETS),
    "targets-1000": Case(partial(_targets, 1_000, 100), OF_TARGETS),
    "wide-targets-300": Case(partial(_targets, 300, 1_000), OF_TARGETS),
}


def compare(X: np.ndarray, y: np.ndarray, loss: str, n_fits: int = _N_FITS) -> Iterator[dict[str, Any]]:
    """Yield seconds and the objective of ours and of LIBLINEAR."""
    kind = "LinearSVR" if loss in OF_TARGETS else "LinearSVC"
    models = {OURS: getattr(fastsvm, kind)(loss=loss), LIBLINEAR: getattr(svm, kind)(loss=loss)}
    took: dict[str, list[float]] = {name: [] for name in models}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the objective tells how far it came
        for model in models.values():
            model.fit(X, y)
        for name in n_fits * list(models):
            begin = time.perf_counter()
            models[name].fit(X, y)
            took[name].append(time.perf_counter() - begin)
    weights = [Weights(np.atleast_2d(one.coef_), np.atleast_1d(one.intercept_)) for one in models.values()]
    found = objectives(X, y, LinearParameters(_REFEREES.get(loss, loss), C=1.0), weights)
    for (name, seconds), objective in zip(took.items(), found, strict=True):
        yield {
            "competitor": name, "loss": loss, "median_s": median(seconds), "seconds": seconds, "objective": objective
        }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases, print a line for each, and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.linear.small", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="NAME", help="only these cases")
    parser.add_argument("--fits", type=int, default=_N_FITS, metavar="N", help=f"of each ({_N_FITS})")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    study = Study("small_linear", asked.out)
    print("case, loss: ms, objective of ours and of LIBLINEAR")
    for name in asked.cases or CASES:
        X, y = CASES[name].made()
        results = [one for loss in CASES[name].losses for one in compare(X, y, loss, asked.fits)]
        for ours, theirs in zip(results[::2], results[1::2], strict=True):
            told = (f"{1e3 * one['median_s']:.2f}, {one['objective']:.8g}" for one in (ours, theirs))
            print(f"{name}, {ours['loss']}: {'; '.join(told)}", flush=True)
        study.add(name, results, shape=X.shape)
    return 0


if __name__ == "__main__":
    sys.exit(main())
