"""Compare parameters by cross-validation, as a job asks, and say which are best."""

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV

from fastsvm._threads import at_most
from fastsvm.budget import parse_memory
from fastsvm.estimators import SVC, SVCSearch
from fastsvm.jobs.job_file import Job
from fastsvm.jobs.training import estimator_of, split
from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["search"]

_SHARE = 2  # of the memory, that rows may take


def search(job: Job) -> dict[str, Any]:
    """Return the best parameters of a job's grid, their score, and the means of all cells.

    Folds are of the rows that are trained on, never of those held out. Kernel models share their kernel rows between
    all C and folds (`SVCSearch`).

    Parameters
    ----------
    job : Job
        Its `grid` is not empty; its files are HDF5 files.

    Raises
    ------
    ValueError
        If the rows do not fit in half of the memory: folds are cut from rows in memory.
    """
    with open_hdf5(job.train) as data, at_most(job.threads):
        rows, _ = split(len(data), job.holdout, job.seed)
        X, y = _rows(job, data, rows), data.y[rows]
        estimator = estimator_of(job, data.y).set_params(verbose=False)
        kind = SVCSearch if isinstance(estimator, SVC) else GridSearchCV
        found = kind(estimator, dict(job.grid), cv=job.folds, scoring=job.scoring, refit=False).fit(X, y)
    cells = found.cv_results_
    best = int(np.argmax(cells["mean_test_score"]))
    return {
        "best_parameters": cells["params"][best],
        "best_score": float(cells["mean_test_score"][best]),
        "cells": [
            {**parameters, "mean_score": float(mean), "std_score": float(std)}
            for parameters, mean, std in zip(
                cells["params"], cells["mean_test_score"], cells["std_test_score"], strict=True
            )
        ],
    }


def _rows(job: Job, data: HDF5Data, rows: np.ndarray) -> Any:
    """Return the rows to cut folds from, in memory."""
    most = parse_memory("auto" if job.memory is None else job.memory) // _SHARE
    size = data.X.nbytes * len(rows) // max(1, len(data))
    if size > most:
        raise ValueError(
            f"[search] cuts folds from rows in memory: those of {data.path} take {size / 1e6:.0f} MB, half of the "
            f"memory is {most / 1e6:.0f} MB. Raise limits.memory, or search on a part of the rows."
        )
    source = data.X if len(rows) == len(data) else data.X.take(rows)
    return source.in_memory().block.user_array()
