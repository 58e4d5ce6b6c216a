"""How long does a grid search with shared kernel values take? `python -m bench.searches.grid`, from the root.

`SVCSearch` runs twice, first with compilation. scikit-learn's `GridSearchCV` runs with our estimator and, for SVC, with
that of scikit-learn-intelex. All searches of a case have the same folds, and their scores are compared in every cell.
Scores differ if a sample lies on the border between two classes. The run is written as JSON.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from bench.harness.data import Data, DataMissing
from bench.harness.study import RESULTS, Study
from bench.harness.text import aligned
from bench.machines.cases import images
from bench.made_up_tables import centres, houses
from bench.recipes import covtype5000, digits, mnist_pixels
from fastsvm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch

__all__ = ["EACH_FIT", "OURS", "Case", "differences", "measured"]

OURS, EACH_FIT = "SVCSearch", "GridSearchCV(fastsvm)"
_FIRST = "SVCSearch, first in a process"
_PIXELS = 0.02 / 255**2


class Case(NamedTuple):
    """What is searched: samples, the estimator, values of its parameters, and folds."""

    recipe: Callable[[], Data]
    estimator: BaseEstimator
    grid: dict[str, list[float]]
    n_folds: int = 3


def _first(n: int, recipe: Callable[[], Data]) -> Data:
    data = recipe()
    return data._replace(X=data.X[:n], y=data.y[:n])


def _even() -> Data:
    """Return images, and whether the digit is even."""
    data = images(4000)
    return data._replace(y=data.y.astype(int) % 2)


_HOUSES, _IMAGES = partial(houses, 5000), partial(images, 4000)
_CS, _GAMMAS = [1.0, 10.0], [0.05, 0.2]
_CASES = {
    "mnist": Case(
        partial(_first, 10_000, mnist_pixels),
        SVC(),
        {"C": [0.1, 0.4, 1.6, 6.3, 25.0, 100.0], "gamma": [0.005, 0.01, 0.02]},
        5,
    ),
    # The grid of liquidSVM (Steinwart and Thomann 2017) and that of TorchKM (2026).
    "covtype": Case(
        partial(covtype5000, scaled=False),
        SVC(),
        {
            "C": (1 / (2 * 0.8 * 4858 * np.geomspace(0.1, 2.57e-7, 10))).tolist(),
            "gamma": (1 / np.geomspace(0.1717, 5.36, 10) ** 2).tolist(),
        },
        5,
    ),
    "centres": Case(
        partial(centres, 12_500, 10),
        SVC(gamma=0.136),
        {"C": (1 / (2 * 10_000 * np.geomspace(1e3, 1e-3, 50))).tolist()},
        10,
    ),
    "svr-houses": Case(_HOUSES, SVR(), {"C": [0.3, 1.0, 3.0, 10.0], "epsilon": [0.05, 0.2], "gamma": _GAMMAS}),
    "nu-svr-houses": Case(_HOUSES, NuSVR(), {"C": _CS, "nu": [0.2, 0.5], "gamma": _GAMMAS}),
    "svr-images": Case(_IMAGES, SVR(gamma=_PIXELS), {"C": [1.0, 3.0, 10.0], "epsilon": [0.1, 0.5]}),
    "one-class-images": Case(_IMAGES, OneClassSVM(), {"nu": [0.01, 0.05, 0.2, 0.5], "gamma": [_PIXELS / 2, _PIXELS]}),
    "nu-svc-images": Case(_even, NuSVC(gamma=_PIXELS), {"nu": [0.02, 0.05, 0.1]}),
}
_QUICK = {"digits": Case(digits, SVC(), {"C": _CS, "gamma": _GAMMAS}, 5)}


def searches(case: Case, folds: list) -> dict[str, Callable[[], Any]]:
    """Return a function for each search, ours first."""
    scoring = _inliers if isinstance(case.estimator, OneClassSVM) else None
    given = {"cv": folds, "scoring": scoring}
    ours = partial(SVCSearch, case.estimator, case.grid, **given)
    found = {_FIRST: ours, OURS: ours, EACH_FIT: partial(GridSearchCV, case.estimator, case.grid, **given)}
    if isinstance(case.estimator, SVC) and importlib.util.find_spec("sklearnex") is not None:
        found["GridSearchCV(scikit-learn-intelex)"] = lambda: GridSearchCV(_of_intelex(), case.grid, **given)
    return found


def _inliers(model: OneClassSVM, X: Any, y: Any = None) -> float:
    """Return the share of samples that are no outliers."""
    return float(np.mean(model.predict(X) > 0))


def _of_intelex() -> Any:
    from sklearnex.svm import SVC as Theirs

    return Theirs()


def measured(case: Case, only: str = "") -> Iterator[dict[str, Any]]:
    """Run the searches whose names contain `only`, and yield what they found."""
    data = case.recipe()
    folds = list((StratifiedKFold if is_classifier(case.estimator) else KFold)(case.n_folds).split(data.X, data.y))
    for name, make in searches(case, folds).items():
        if only in name:
            search = make()
            begin = time.perf_counter()
            search.fit(data.X, data.y)
            seconds = time.perf_counter() - begin
            scores = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(case.n_folds)])
            yield {"competitor": name, "seconds": seconds, "best": search.best_params_, "scores": scores.tolist()}
            print(f"{name}: {seconds:.1f} s", flush=True)


def differences(results: list[dict[str, Any]]) -> list[float]:
    """Return the largest difference of a fold's score of each search from ours, in any cell."""
    ours = next((one for one in results if one["competitor"] == OURS), results[0])
    return [float(np.abs(np.subtract(one["scores"], ours["scores"])).max()) for one in results]


def table(results: list[dict[str, Any]]) -> list[str]:
    """Return a line for each search: seconds, ratio to ours, best cell, and difference of scores."""
    ours = next((one for one in results if one["competitor"] == OURS), results[0])
    rows = [("search", "best", "seconds", "ratio", "mean score", "largest difference")]
    for one, apart in zip(results, differences(results), strict=True):
        best = ", ".join(f"{name}={value:g}" for name, value in one["best"].items())
        score, ratio = np.mean(one["scores"], axis=0).max(), one["seconds"] / ours["seconds"]
        rows.append((one["competitor"], best, f"{one['seconds']:.1f}", f"{ratio:.1f}", f"{score:.4f}", f"{apart:.4f}"))
    return aligned(rows)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m bench.searches.grid", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="bundled digits and a small grid, in seconds")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--only", default="", help="part of the names of searches to run")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    study, cases = Study("search", asked.out), _QUICK if asked.quick else _CASES
    for name in asked.case or cases:
        try:
            results = list(measured(cases[name], asked.only))
        except DataMissing as missing:
            print(f"{name} is left out: {missing}")
            continue
        print(f"{name}:", *table(results), "", sep="\n", flush=True)
        cells = int(np.prod([len(values) for values in cases[name].grid.values()]))
        study.add(name, results, cells=cells, folds=cases[name].n_folds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
