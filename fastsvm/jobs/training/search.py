"""Compare parameters of a job by cross-validation, and choose the best."""

import time
from collections.abc import Callable, Collection, Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid

from fastsvm._compiled.threads import at_most
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.estimators.search.automatic import Journal, automatic_grid, name_of
from fastsvm.estimators.search.svc_search import SVCSearch
from fastsvm.estimators.search.walk import AUTO
from fastsvm.jobs.inputs import Json, labels_of, open_data, rows_named
from fastsvm.jobs.training.job_file import Job, learns_labels
from fastsvm.jobs.training.train import estimator_of, split, with_labels
from fastsvm.memory import parse_memory
from fastsvm.messages import say
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import Data, check_finite
from fastsvm.tuning import current_tuning


def search(job: Job, cells: Sequence[Json], keep: Callable[[list[Json]], None], seconds: float = np.inf) -> list[Json]:
    """Return the scores of the cells of a job's grid, first those of `cells`, which an earlier process evaluated.

    `keep` is called with all cells so far after each group whose fits share kernel rows. Cells whose fits fail have no
    number as score.
    """
    end = time.perf_counter() + seconds
    cells, is_walk = list(cells), bool(job.chosen)

    def left(grid: dict[str, list]) -> bool:
        done = {name_of(cell["parameters"]) for cell in cells}
        return any(name_of(one) not in done for one in ParameterGrid(grid))

    grids = [] if is_walk else list(filter(left, _groups(job)))
    if not grids and not is_walk:
        return cells
    with open_data(job.train) as data, at_most(job.threads):
        labels = labels_of(data)
        rows, _ = split(len(data), job.holdout, job.seed)
        with rows_named(data.path, rows):
            X = _rows(job, data, rows)
        y = labels[rows]
        estimator = estimator_of(job, labels).set_params(verbose=False)
        if is_walk:
            return _walked(job, estimator, X, y, cells, keep, end)
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


class _TimeIsUp(Exception):
    """Ends a walk between two steps."""


def _walked(
    job: Job,
    estimator: BaseEstimator,
    X: np.ndarray | csr_matrix,
    y: np.ndarray,
    cells: list[Json],
    keep: Callable[[list[Json]], None],
    end: float,
) -> list[Json]:
    """Return the cells of a search that chooses them, which repeats none of `cells`."""

    def write(parameters: Json, n_samples: int, scores: list[float]) -> None:
        mean, std = round(float(np.mean(scores)), 12), float(np.std(scores))  # ties are those of the walk
        one = {"parameters": parameters, "mean_score": mean, "std_score": std}
        cells.append(one | {"n_samples": n_samples, "scores": scores})

    def pause() -> None:
        if _has_score(cells):
            keep(cells)
        if time.perf_counter() >= end:
            raise _TimeIsUp

    walk = SVCSearch(estimator, dict(job.grid), cv=job.folds, scoring=job.scoring, refit=False, verbose=True)
    begun = {(name_of(cell["parameters"]), cell["n_samples"]): cell["scores"] for cell in cells}
    walk._journal = Journal(begun, write, pause)
    try:
        walk.fit(X, y)
    except _TimeIsUp:
        say(f"the search reached its time limit after {len(cells)} cells; the best of them is used.")
    return cells


def check_grid(job: Job) -> None:
    """Check the grid and the scoring of a job, as far as that is possible without the data."""
    for parameters in ParameterGrid(job.listed):
        ESTIMATORS[job.kind](**{**job.parameters, **parameters})._check_parameters()
    if job.scoring is not None:
        get_scorer(job.scoring)
    elif job.grid and not learns_labels(job.kind):
        raise ValueError(f"A model of kind {job.kind!r} has no score of its own. [search] needs scoring, such as 'f1'.")


def best_of(job: Job, cells: Sequence[Json]) -> Json:
    """Return the cell of the best score, of equal ones the first of the grid; ValueError says that there is none.

    Of cells that a search chose, it is the first of all samples.
    """
    if job.chosen:
        most = max((cell["n_samples"] for cell in cells), default=0)
        ordered = [cell for cell in cells if cell["n_samples"] == most]
    else:
        by_name = {name_of(cell["parameters"]): cell for cell in cells}
        names = map(name_of, ParameterGrid(job.listed))
        ordered = [by_name[name] for name in names if name in by_name]
    ordered = [cell for cell in ordered if not np.isnan(cell["mean_score"])]
    if not ordered:
        raise ValueError(
            f"[search] scoring={job.scoring!r} gives no number for these labels in any cell. Choose another scoring, "
            "such as 'accuracy'."
        )
    return max(ordered, key=lambda cell: cell["mean_score"])


def searched(job: Job) -> tuple[Job, Json]:
    """Return a job with the best parameters of its grid, and the cell of these."""
    best = best_of(job, search(job, [], lambda cells: None))
    return job._replace(parameters={**job.parameters, **best["parameters"]}, grid={}), told(best)


def told(cell: Json) -> Json:
    """Return what the result of a job says of the best cell."""
    return {name: value for name, value in cell.items() if name != "scores"}


def automatic(kind: str, passed: Collection[str]) -> Json:
    """Return the grid of a search that chooses all values of a kind of model that were not `passed`."""
    model = ESTIMATORS[kind]()
    grid: Json = automatic_grid(model, model, None) or {}
    if getattr(model, "standardize", None) is False:
        grid["standardize"] = AUTO
    return {name: values for name, values in grid.items() if name not in passed}


def _has_score(cells: Sequence[Json]) -> bool:
    """Return whether the score of a cell is a number."""
    return not all(np.isnan(cell["mean_score"]) for cell in cells)


def _groups(job: Job) -> list[dict[str, list]]:
    """Return grids of the cells that are evaluated together: a kernel machine begins some at the solution of others."""
    kind = ESTIMATORS[job.kind]
    follows = kind.follows if issubclass(kind, KernelMachine) else ()
    together = {name: values for name, values in job.listed.items() if name in follows}
    others = {name: values for name, values in job.listed.items() if name not in together}
    return [grid | together for grid in _single(others)]


def _single(grid: dict[str, list]) -> list[dict[str, list]]:
    """Return a grid for each cell."""
    return [{name: [value] for name, value in one.items()} for one in ParameterGrid(grid)]


def _rows(job: Job, data: Data, rows: np.ndarray) -> np.ndarray | csr_matrix:
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
