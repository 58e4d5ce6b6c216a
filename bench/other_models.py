"""Kernel and linear machines beside gradient boosting and logistic regression: `python -m bench.other_models`.

Seconds are those of the processor with one thread, so that others on the machine count little. Each model is fitted
once before it is timed, so that compilation does not count. Parameters of the kernel machines are chosen by three-fold
cross-validation on 5,000 training rows, which is not timed; the others have their defaults. The run is written as JSON.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from threadpoolctl import threadpool_limits

import fastsvm
from bench import recipes
from bench.harness.data import Data
from bench.harness.study import RESULTS, Study

_FEW = 5_000
_GRID = {"C": [1, 10, 100], "gamma": [0.01, 0.03, 0.1, 0.3, 1]}


def main(arguments: list[str] | None = None) -> int:
    """Print and save, for each data set and model, accuracy on test rows and seconds of fit and prediction."""
    parser = argparse.ArgumentParser("python -m bench.other_models", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    study = Study("other_models", parser.parse_args(arguments).out)
    print("| data | model | accuracy | fit s | predict s |\n|---|---|---|---|---|")
    for name, data in (("a9a", recipes.a9a()), ("cod-rna", recipes.cod_rna()), ("kdd", recipes.kdd(kinds=False))):
        results = []
        for model, words in _models(data):
            accuracy, fit_s, predict_s = _tried(model, data, is_boosting="boosting" in words)
            print(f"| {name} | {words} | {accuracy:.4f} | {fit_s:.2f} | {predict_s:.2f} |", flush=True)
            results.append({"competitor": words, "accuracy": accuracy, "fit_s": fit_s, "predict_s": predict_s})
        study.add(name, results, shape=data.X.shape)
    return 0


def _models(data: Data) -> list[tuple[Any, str]]:
    found = fastsvm.SVCSearch(fastsvm.SVC(), _GRID, cv=3).fit(data.X[:_FEW], data.y[:_FEW]).best_params_
    logistic = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1_000))
    return [
        (HistGradientBoostingClassifier(random_state=0), "gradient boosting, scikit-learn"),
        (logistic, "logistic regression, scikit-learn"),
        (fastsvm.LogisticRegression(), "`LogisticRegression`"),
        (fastsvm.LinearSVC(), "`LinearSVC`"),
        (fastsvm.SVC(**found), f"`SVC`, C={found['C']:g}, γ={found['gamma']:g}"),
    ]


def _tried(model: Any, data: Data, is_boosting: bool) -> tuple[float, float, float]:
    is_sparse = is_boosting and hasattr(data.X, "toarray")  # it takes dense rows only
    X, X_test = (rows.toarray() if is_sparse else rows for rows in (data.X, data.X_test))
    clone(model).fit(X[:_FEW], data.y[:_FEW]).predict(X_test[:100])
    with threadpool_limits(1):
        begin = time.process_time()
        model.fit(X, data.y)
        fitted = time.process_time()
        accuracy = model.score(X_test, data.y_test)
        return accuracy, fitted - begin, time.process_time() - fitted


if __name__ == "__main__":
    sys.exit(main())
