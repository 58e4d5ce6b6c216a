"""How long does a grid search with shared kernel values take? `python -m bench.search`, from the root.

The grid has 6 values of C and 3 of gamma, in 5 folds. `SVCSearch` runs twice, first with compilation. scikit-learn's
`GridSearchCV` runs with our SVC and with that of scikit-learn-intelex. All searches have the same folds, and their
scores are compared in every cell. Scores differ if a sample lies on the border between two classes.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from bench.harness.data import Data
from bench.harness.text import aligned
from bench.recipes import digits, mnist_pixels
from fastsvm import SVC, SVCSearch

_ROWS, _FOLDS = 10_000, 5
_GRID = {"C": [0.1, 0.4, 1.6, 6.3, 25.0, 100.0], "gamma": [0.005, 0.01, 0.02]}
_QUICK = {"C": [1.0, 10.0], "gamma": [0.005, 0.02]}


class Found(NamedTuple):
    """Seconds and results of a search."""

    name: str
    seconds: float
    best: dict[str, float]
    scores: np.ndarray


def searches(grid: dict[str, list], folds: list) -> dict[str, Callable[[], Any]]:
    """Return a function for each search, ours first."""
    found = {
        "SVCSearch, first in a process": lambda: SVCSearch(SVC(), grid, cv=folds),
        "SVCSearch": lambda: SVCSearch(SVC(), grid, cv=folds),
        "GridSearchCV(fastsvm)": lambda: GridSearchCV(SVC(), grid, cv=folds),
    }
    if importlib.util.find_spec("sklearnex") is not None:
        found["GridSearchCV(scikit-learn-intelex)"] = lambda: GridSearchCV(_of_intelex(), grid, cv=folds)
    return found


def _of_intelex() -> Any:
    from sklearnex.svm import SVC as Theirs

    return Theirs()


def measured(data: Data, grid: dict[str, list], only: str = "") -> list[Found]:
    """Run the searches whose names contain `only`, and return what they found."""
    folds = list(StratifiedKFold(_FOLDS).split(data.X, data.y))
    found = []
    for name, make in searches(grid, folds).items():
        if only in name:
            search = make()
            begin = time.perf_counter()
            search.fit(data.X, data.y)
            seconds = time.perf_counter() - begin
            scores = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(_FOLDS)])
            found.append(Found(name, seconds, search.best_params_, scores))
            print(f"{name}: {seconds:.1f} s", flush=True)
    return found


def table(found: list[Found]) -> list[str]:
    """Return a line for each search: seconds, ratio to ours, best cell, and difference of scores."""
    ours = next((one for one in found if one.name == "SVCSearch"), found[0])
    rows = [("search", "best", "seconds", "ratio", "mean score", "largest difference")]
    for one in found:
        best = ", ".join(f"{name}={value:g}" for name, value in one.best.items())
        apart = float(np.abs(one.scores - ours.scores).max())
        score = f"{one.scores.mean(axis=0).max():.4f}"
        rows.append((one.name, best, f"{one.seconds:.1f}", f"{one.seconds / ours.seconds:.1f}", score, f"{apart:.4f}"))
    return aligned(rows)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="bundled digits and a small grid, in seconds")
    parser.add_argument("--only", default="", help="part of the names of searches to run")
    options = parser.parse_args(arguments)
    data, grid = (digits(), _QUICK) if options.quick else (mnist_pixels(), _GRID)
    data = data._replace(X=data.X[:_ROWS], y=data.y[:_ROWS])
    if options.quick:
        data = data._replace(X=data.X / 16)
    print("\n".join(table(measured(data, grid, options.only))))


if __name__ == "__main__":
    main()
