"""A search that chooses its own cells."""

import json
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from fastsvm.estimators.search.evaluation import Rules, Scored, SearchData, evaluate
from fastsvm.estimators.search.out_of_fold import OutOfFold
from fastsvm.estimators.search.shared_fits import Split
from fastsvm.estimators.search.walk import AUTO, AXES, Cell, Lattice, Scores, Walk, is_auto
from fastsvm.progress_bar import Bar
from fastsvm.tuning import current_tuning
from fastsvm.tuning.records import SearchTuning


class Journal(NamedTuple):
    """What a walk writes down."""

    begun: dict[tuple[str, int], list[float]]  # Scores by cell and number of samples are not computed again.
    write: Callable[[dict, int, list[float]], None]  # It gets parameters, the number of samples, and the scores.
    pause: Callable[[], None]  # It is called after each step.


def name_of(parameters: dict) -> str:
    """Return by what name a cell of a job is known."""
    return json.dumps(parameters, sort_keys=True)


class Walked(NamedTuple):
    """What a walk found: cells, the fits of all, the number of the best cell, and from how many samples each is."""

    cells: list[dict]
    fits: list[Scored]
    best: int
    n_samples: list[int]


def automatic_grid(estimator: BaseEstimator | None, given: BaseEstimator, grid: dict | list | None) -> dict | None:
    """Return the grid of a walk, None where all values are listed; `given` stands for a missing estimator."""
    if grid is not None:
        return grid if isinstance(grid, dict) and any(map(is_auto, grid.values())) else None
    known = given.get_params(deep=False)
    names = AXES.keys() & known.keys()
    if getattr(given, "kernel", "rbf") in ("linear", "precomputed"):
        names -= {"gamma"}
    if not names:
        name = type(given).__name__
        raise ValueError(f"param_grid is missing, and {name} has no parameter that is chosen without: list values.")
    found: dict = {name: AUTO for name in AXES if name in names}
    return found if estimator is not None else found | {"standardize": AUTO}


def walk(
    estimator: BaseEstimator,
    grid: dict,
    rows: SearchData,
    splits: list[Split],
    rules: Rules,
    decided: OutOfFold,
    bar: Bar,
    journal: Journal | None,
) -> Walked:
    """Walk over the automatic axes of a grid, to the best score, whose metric `decided` has."""
    tuning, n = current_tuning().search, rows.n_samples
    order = _balanced_order(rows, is_classifier(estimator))
    few = rows.part(estimator, np.sort(order[: tuning.distance_rows]))
    lattice = Lattice.of(estimator, grid, few.block(), few.y)
    cells: list[tuple[Cell, int]] = []
    fits: list[Scored] = []
    parts = {n: (rows, splits)}

    def score(new: list[Cell], size: int) -> list[Scores]:
        chosen = [lattice.parameters(cell) for cell in new]
        known = [journal and journal.begun.get((name_of(one), size)) for one in chosen]
        to_fit = [k for k, scores in enumerate(known) if scores is None]
        table = np.array([scores or [np.nan] * len(splits) for scores in known]).reshape(len(new), len(splits))
        for k in set(range(len(new))).difference(to_fit):
            fits.extend(Scored(k + len(cells), j, float(one), None, 0.0, 0.0) for j, one in enumerate(table[k]))
        if to_fit:
            if size not in parts:
                taken = np.sort(order[:size])
                parts[size] = rows.part(estimator, taken), [split.among(taken, n) for split in splits]
            models = [clone(estimator).set_params(**clone(chosen[k], safe=False)) for k in to_fit]
            bar.total += len(models) * len(splits)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of values that the user did not choose
                for fit in evaluate(models, *parts[size], rules if size == n else rules._replace(kept_classes=None)):
                    k, found = to_fit[fit.cell], fit.test_scores
                    table[k, fit.split] = found[decided.metric] if isinstance(found, dict) else found
                    fits.append(decided.take(fit._replace(cell=k + len(cells))))
                    bar.update(1)
        cells.extend((cell, size) for cell in new)
        if journal is not None:
            for k in to_fit:
                journal.write(chosen[k], size, table[k].tolist())
            journal.pause()
        return list(table)

    n_classes = len(set(np.asarray(rows.y).tolist())) if is_classifier(estimator) else 1
    best = Walk(lattice, _sizes(n, n_classes, tuning), score, tuning).best()
    n_samples = [size for _, size in cells]
    return Walked([lattice.parameters(cell) for cell, _ in cells], fits, cells.index((best, n)), n_samples)


def _sizes(n_samples: int, n_classes: int, tuning: SearchTuning) -> list[int]:
    """Return the numbers of samples of the parts of a walk, the last of which is all."""
    sizes = [n_samples]
    while sizes[0] // tuning.growth >= max(tuning.least_rows, tuning.least_of_class * n_classes):
        sizes.insert(0, sizes[0] // tuning.growth)
    return sizes


def _balanced_order(rows: SearchData, by_class: bool) -> np.ndarray:
    """Return row numbers in a random order, in which the first rows have the classes in the proportions of all."""
    order = np.random.RandomState(0).permutation(rows.n_samples)
    if not by_class:
        return order
    labels = np.unique(np.asarray(rows.y)[order], return_inverse=True)[1]
    counts, by_label = np.bincount(labels), np.argsort(labels, kind="stable")
    rank = np.empty(len(order))
    rank[by_label] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.argsort((rank + 0.5) / counts[labels], kind="stable")]
