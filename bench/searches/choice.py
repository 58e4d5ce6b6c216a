"""How good is a search that chooses its values? `python -m bench.searches.choice`, from the root.

`SVCSearch()` chooses the values of C and gamma. Beside it, `SVCSearch` and scikit-learn's `HalvingGridSearchCV` take
10 × 10 values, as LIBSVM's guide advises: C from 2^-5 to 2^13, gamma from .001 to 10 over the number of features. Each
search learns the same samples; its accuracy is that of its best model on samples that no search has seen. "aside" are
tables that were measured for the first time when the search was finished. The run is written as JSON.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import (
    load_wine,
    make_blobs,
    make_circles,
    make_classification,
    make_gaussian_quantiles,
    make_hastie_10_2,
    make_moons,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV
from sklearn.svm import SVC as TheirSVC

from bench.harness.data import Data, DataMissing, standardised
from bench.harness.study import RESULTS, Study
from bench.harness.text import aligned
from bench.made_up_tables import arcs, board, centres, mixture, walks
from bench.recipes import a9a, breast_cancer, cifar10, cod_rna, covtype5000, digits, iris, mnist_pixels, vessels
from fastsvm import SVC, SVCSearch

__all__ = ["GRID", "HALVING", "WALK", "better_by"]

WALK, GRID, HALVING = "SVCSearch()", "SVCSearch, 10 × 10", "HalvingGridSearchCV, 10 × 10"


def _made(draw: Callable[..., tuple], n: int, n_test: int, *where: Any, **how: Any) -> Data:
    X, y = draw(n + n_test, *where, **how)
    return standardised(Data(X[:n], y[:n], X[n:], y[n:]))


def _drawn(draw: Callable[..., tuple], n: int, n_test: int, **how: Any) -> Data:
    """Return samples of a function that takes their number by name only."""
    return _made(lambda total: draw(n_samples=total, **how), n, n_test)


def _shuffled(load: Callable[..., tuple]) -> Data:
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return _made(lambda _: (X[order], y[order]), len(y) * 7 // 10, 0)


def _first(recipe: Callable[[], Data], n: int) -> Data:
    """Return the first training samples, densely, and up to 20,000 test samples."""
    data = recipe()
    X, X_test = data.X[:n], data.X_test[:20_000]
    if sparse.issparse(X):
        X, X_test = X.toarray(), X_test.toarray()
    return Data(X, data.y[:n], X_test, data.y_test[:20_000])


_TABLES: dict[str, Callable[[], Data]] = {
    "iris": lambda: standardised(iris()),
    "wine": partial(_shuffled, load_wine),
    "breast cancer": lambda: standardised(breast_cancer()),
    "digits": digits,
    "cod-rna 5,000": lambda: _first(cod_rna, 5000),
    "a9a 4,000": lambda: _first(a9a, 4000),
    "covtype 4,858": partial(covtype5000, scaled=False),
    "mnist 3,000": lambda: _first(mnist_pixels, 3000),
    "moons 1,500": partial(_made, make_moons, 1500, 4500, noise=0.25, random_state=0),
    "circles 600": partial(_made, make_circles, 600, 5400, noise=0.15, factor=0.6, random_state=0),
    "20 features 3,000": partial(_made, make_classification, 3000, 5000, n_informative=8, flip_y=0.1, random_state=1),
    "5 classes 3,000": partial(
        _made, make_classification, 3000, 5000, 15, n_informative=10, n_classes=5, flip_y=0.05, class_sep=1.5,
        random_state=2,
    ),
    "400 features 400": partial(
        _made, make_classification, 400, 800, 400, n_informative=20, flip_y=0.05, random_state=3
    ),
    "20 blobs 2,000": partial(_made, make_blobs, 2000, 3000, 5, centers=20, cluster_std=3.0, random_state=4),
    "quadratic 4,000": partial(_made, make_hastie_10_2, 4000, 8000, random_state=5),
    "imbalanced 3,000": partial(
        _made, make_classification, 3000, 5000, 10, weights=[0.93], flip_y=0.02, random_state=7
    ),
    "ten centres 4,000": lambda: _first(partial(centres, 12_500, 10), 4000),
    "shells 2,000 (aside)": partial(
        _drawn, make_gaussian_quantiles, 2000, 6000, n_features=12, n_classes=4, random_state=21
    ),
    "board 4,000 (aside)": lambda: _first(board, 4000),
    "heavy tails 4,000 (aside)": lambda: _first(mixture, 4000),
    "walks 2,000 (aside)": lambda: _first(walks, 2000),
    "arcs 3,000 (aside)": lambda: _first(arcs, 3000),
    "cifar-10 1,500 (aside)": lambda: _first(partial(cifar10, 5000), 1500),
    "vessels 4,000 (aside)": lambda: _first(partial(vessels, 20_000), 4000),
}  # fmt: skip


def searches(data: Data) -> Iterator[tuple[str, Any]]:
    """Yield the searches by name."""
    gammas = np.geomspace(1e-3, 10, 10) / (data.X.shape[1] * data.X.var())
    grid = {"C": np.geomspace(2**-5, 2**13, 10).tolist(), "gamma": gammas.tolist()}
    yield WALK, SVCSearch()
    yield GRID, SVCSearch(SVC(), grid)
    if len(data.y) <= 3000:  # on more samples, the machine of scikit-learn takes minutes a cell
        yield HALVING, HalvingGridSearchCV(TheirSVC(), grid, cv=5, random_state=0, n_jobs=2)


def measured(data: Data) -> Iterator[dict[str, Any]]:
    """Run each search, and yield what it found."""
    for name, search in searches(data):
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(data.X, data.y)
        seconds = time.perf_counter() - begin
        best = {name: value for name, value in search.best_params_.items()}
        yield {
            "competitor": name, "seconds": seconds, "cells": len(search.cv_results_["params"]), "best": best,
            "score": float(search.best_score_), "test": float(search.score(data.X_test, data.y_test)),
            "n_test": len(data.y_test),
        }  # fmt: skip


def better_by(walk: dict[str, Any], grid: dict[str, Any]) -> float:
    """Return by how many standard errors of the test score of the grid that of the walk is better."""
    error = (grid["test"] * (1 - grid["test"]) / grid["n_test"]) ** 0.5
    return float((walk["test"] - grid["test"]) / max(error, 1 / grid["n_test"]))


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m bench.searches.choice", description=__doc__.split("\n")[0])
    parser.add_argument("--table", action="append", metavar="NAME", help="only this table (repeatable)")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    study = Study("choice", asked.out)
    warm = iris()
    SVCSearch(cv=2).fit(warm.X, warm.y)  # with compilation
    for name in asked.table or _TABLES:
        try:
            data = _TABLES[name]()
        except DataMissing as missing:
            print(f"{name} is left out: {missing}")
            continue
        results = list(measured(data))
        rows = [
            (one["competitor"], f"{one['seconds']:.2f}", f"{one['cells']}", f"{one['score']:.4f}", f"{one['test']:.4f}")
            for one in results
        ]
        errors = better_by(results[0], results[1])
        head = ("search", "seconds", "cells", "score", "test")
        print(f"{name}: {errors:+.2f} standard errors", *aligned([head, *rows]), "", sep="\n", flush=True)
        study.add(name, results, n=len(data.y), n_features=data.X.shape[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
