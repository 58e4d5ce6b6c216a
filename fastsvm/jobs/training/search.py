"""The search of a job: compare parameters by cross-validation, group by group, and choose the best."""

import json
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid

from fastsvm._compiled.threads import at_most
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.estimators.search.svc_search import SVCSearch
from fastsvm.jobs.inputs import Json, labels_of, rows_named
from fastsvm.jobs.say import say
from fastsvm.jobs.training.job_file import Job, learns_labels
from fastsvm.jobs.training.train import estimator_of, split, with_labels
from fastsvm.memory import parse_memory
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import HDF5Data, check_finite, open_hdf5
from fastsvm.tuning import current_tuning


def search(job: Job, cells: Sequence[Json], keep: Callable[[list[Json]], None], seconds: float = np.inf) -> list[Json]:
    """Return the scores of the cells of a job's grid, first those of `cells`, which an earlier process evaluated.

    The folds divide the training samples. Cells whose fits share kernel rows form a group, other cells are groups by
    themselves; `keep` is called after each with all cells so far. Cells whose fits fail have no number as score. The
    search ends after the first group that exceeds the time limit.
    """
    end = time.perf_counter() + seconds
    cells = list(cells)

    def left(grid: dict[str, list]) -> bool:
        done = {_name(cell["parameters"]) for cell in cells}
        return any(_name(one) not in done for one in ParameterGrid(grid))

    grids = list(filter(left, _groups(job)))
    if not grids:
        return cells
    with open_hdf5(job.train) as data, at_most(job.threads):
        labels = labels_of(data)
        rows, _ = split(len(data), job.holdout, job.seed)
        with rows_named(data.path, rows):
            X = _rows(job, data, rows)
        y = labels[rows]
        estimator = estimator_of(job, labels).set_params(verbose=False)
        failures: dict[str, ValueError] = {}
        for grid in progress_bar(grids, desc="search", unit="group"):
            if cells and time.perf_counter() >= end:
                say(f"the search reached its time limit after {len(cells)} cells; the best of them is used.")
                break
            labelled = {
                name: [with_labels({name: value}, y)[name] for value in values] for name, values in grid.items()
            }
            compared = SVCSearch(
                estimator, labelled, cv=job.folds, scoring=job.scoring, refit=False, error_score="raise"
            )
            each = list(ParameterGrid(grid))
            try:
                results = compared.fit(X, y).cv_results_
            except AttributeError as error:  # such as predict_proba, which the scorer needs
                raise ValueError(f"[search] scoring={job.scoring!r} cannot be computed: {error}") from error
            except ValueError as error:
                if len(each) > 1:
                    grids += filter(left, _single(grid))  # some may fit
                    continue
                if str(error) not in failures:
                    without = ", ".join(f"{name}={value}" for name, value in each[0].items())
                    say(f"the search goes on without {without}: {error}")
                failures[str(error)] = error
                results = {"mean_test_score": [np.nan], "std_test_score": [np.nan]}
            scores = zip(each, results["mean_test_score"], results["std_test_score"], strict=True)
            cells += [
                {"parameters": one, "mean_score": float(mean), "std_score": float(std)} for one, mean, std in scores
            ]
            if _has_score(cells):  # else the job may be wrong, and leaves its folder as it was
                keep(cells)
    if failures and not _has_score(cells):
        first = next(iter(failures.values()))
        raise ValueError(f"[search] scoring={job.scoring!r} gives no number in any cell: {first}") from first
    return cells


def check_grid(job: Job) -> None:
    """Check the grid and the scoring of a job, as far as that is possible without the data."""
    for parameters in ParameterGrid(dict(job.grid)):
        ESTIMATORS[job.kind](**{**job.parameters, **parameters})._check_parameters()
    if job.scoring is not None:
        get_scorer(job.scoring)
    elif job.grid and not learns_labels(job.kind):
        raise ValueError(f"A model of kind {job.kind!r} has no score of its own. [search] needs scoring, such as 'f1'.")


def best_of(job: Job, cells: Sequence[Json]) -> Json:
    """Return the cell of the best score, of equal ones the first of the grid; ValueError says that there is none."""
    by_name = {_name(cell["parameters"]): cell for cell in cells}
    names = map(_name, ParameterGrid(dict(job.grid)))
    ordered = [by_name[name] for name in names if name in by_name and not np.isnan(by_name[name]["mean_score"])]
    if not ordered:
        raise ValueError(
            f"[search] scoring={job.scoring!r} gives no number for these labels in any cell. Choose another scoring, "
            "such as 'accuracy'."
        )
    return max(ordered, key=lambda cell: cell["mean_score"])


def _has_score(cells: Sequence[Json]) -> bool:
    """Return whether the score of a cell is a number."""
    return not all(np.isnan(cell["mean_score"]) for cell in cells)


def _groups(job: Job) -> list[dict[str, list]]:
    """Return grids of the cells that are evaluated together: a kernel machine begins some at the solution of others."""
    kind = ESTIMATORS[job.kind]
    follows = kind.follows if issubclass(kind, KernelMachine) else ()
    together = {name: values for name, values in job.grid.items() if name in follows}
    others = {name: values for name, values in job.grid.items() if name not in together}
    return [grid | together for grid in _single(others)]


def _single(grid: dict[str, list]) -> list[dict[str, list]]:
    """Return a grid for each cell."""
    return [{name: [value] for name, value in one.items()} for one in ParameterGrid(grid)]


def _name(parameters: Json) -> str:
    return json.dumps(parameters, sort_keys=True)


def _rows(job: Job, data: HDF5Data, rows: np.ndarray) -> np.ndarray | csr_matrix:
    """Return the training samples as an array or a CSR matrix."""
    memory = parse_memory("auto" if job.memory is None else job.memory)
    most = int(memory * current_tuning().jobs.search_share)
    size = data.X.nbytes * len(rows) // max(1, len(data))
    if size > most:
        raise ValueError(
            f"[search] needs the training samples in memory: those of {data.path} take {size / 1e6:.0f} MB, and half "
            f"of the memory is {most / 1e6:.0f} MB. Raise limits.memory, or search on a part of the samples."
        )
    source = data.X if len(rows) == len(data) else data.X.take(rows)
    block = source.read(0, len(source))
    check_finite(block, 0)
    return block.user_array()
