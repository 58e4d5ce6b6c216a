"""Exact machines for the samples around each of some centres, or one for all samples.

The samples are divided into cells by k-means on a part of them, and those of a cell are learnt by themselves. A sample
is predicted by the machine of its cell. The kernel decays with the distance, so that samples of other cells would
change the machine little (Bottou and Vapnik 1992, Local learning algorithms, Neural Computation 4; Hsieh, Si and
Dhillon 2014, A divide-and-conquer solver for kernel support vector machines, ICML, section 4; Thomann, Blaschzyk,
Meister and Steinwart 2017, Spatial decompositions for large scale SVMs, AISTATS).

Cost: that of exact machines of some 10,000 samples each, so that it grows in proportion to the number of samples.
Memory: half of it for a machine, a quarter for the samples of some cells and a quarter for those of one. The samples
of one machine for all are read as `SVC` reads them.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils.extmath import safe_sparse_dot

from fastsvm.estimators.kernel.prepare import check_memory
from fastsvm.estimators.linear.training_task import Task
from fastsvm.multiclass import class_pairs
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import Source

__all__ = [
    "Cells",
    "Division",
    "centers_of",
    "divide",
    "drawn_for_centers",
    "learn",
    "nearest",
    "number_of_cells",
]

_CELL = 10_000  # samples of a cell, in the mean
_DRAWN, _LEAST_DRAWN = 100, 20_000  # samples for k-means, for each cell and in all
_MOST_ITERATIONS = 20
_SHARE = 4  # of the memory for samples of cells that are read together, and for those of one
_MACHINE_SHARE = 2  # of the memory for a machine


class Cells(NamedTuple):
    """Centres, and what predicts the samples that are nearest to each.

    Attributes
    ----------
    centers : ndarray of float64, shape (n_cells, n_features)
        Centres of the samples as the kernel sees them.
    machines : tuple
        Fitted SVC or SVR of each cell; the number of a class where there is only one; None where time ran out.
    """

    centers: np.ndarray
    machines: tuple[Any, ...]

    def scores(self, X: Any, otherwise: np.ndarray, n_paired: int = 0) -> np.ndarray:
        """Return the scores of samples.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            Samples as the kernel sees them.
        otherwise : ndarray of float64, shape (n_samples, n_scores)
            Scores where a cell has no machine.
        n_paired : int, default=0
            Number of classes, if the scores are those of their pairs, each positive for the first.
        """
        found, cell = otherwise.copy(), nearest(X, self.centers)
        for number in np.unique(cell):
            rows, machine = np.flatnonzero(cell == number), self.machines[number]
            if machine is not None:
                own = _of_pairs(machine, X[rows], n_paired) if n_paired else _scores(machine, X[rows], found.shape[1])
                found[rows] = own
        return found


def nearest(X: Any, centers: np.ndarray) -> np.ndarray:
    """Return the number of the nearest centre of each sample."""
    distance = np.square(centers).sum(axis=1) - 2 * safe_sparse_dot(X.astype(np.float64), centers.T, dense_output=True)
    return np.asarray(distance).argmin(axis=1)


def _scores(machine: Any, X: Any, n_scores: int) -> np.ndarray:
    """Return scores of a machine of some classes as scores of all."""
    n = X.shape[0]
    if not hasattr(machine, "fit"):
        machine, values = int(machine), np.ones((n, 1))
        known = np.array([machine])
    elif not hasattr(machine, "classes_"):
        return machine.predict(X)[:, None]
    else:
        known, values = machine.classes_, machine.decision_function(X)
        values = np.column_stack([-values, values]) if values.ndim == 1 else values
    if n_scores == 1:  # of the second class against the first
        return values[:, -1:] if len(known) == 2 else np.where(known == 1, 1.0, -1.0) * values
    found = np.repeat(values.min(axis=1, keepdims=True) - 1, n_scores, axis=1)  # of classes that the cell lacks
    found[:, known] = values
    return found


def _of_pairs(machine: Any, X: Any, n_classes: int) -> np.ndarray:
    """Return the decisions of all pairs of classes. Classes that the machine does not know lose against the others."""
    is_fitted = hasattr(machine, "fit")
    known = machine.classes_ if is_fitted else np.array([machine])
    pairs, is_known = np.array(class_pairs(n_classes)), np.isin(np.arange(n_classes), known)
    found = np.repeat((is_known[pairs[:, 0]] * 1.0 - is_known[pairs[:, 1]])[None], X.shape[0], axis=0)
    if is_fitted:
        values = machine.decision_function(X)
        values = -values[:, None] if values.ndim == 1 else values  # of two classes, positive for the second
        found[:, is_known[pairs].all(axis=1)] = values
    return found


class Division(NamedTuple):
    """Which samples are learnt together.

    Attributes
    ----------
    centers : ndarray of float64, shape (n_cells, n_features)
        Centres of the samples as the kernel sees them.
    cell : ndarray of int32, shape (n_samples,)
        Number of the cell of each sample, -1 where the weight is 0.
    """

    centers: np.ndarray
    cell: np.ndarray

    def sizes(self) -> np.ndarray:
        """Return the number of samples of each cell."""
        return np.bincount(self.cell[self.cell >= 0], minlength=len(self.centers))


def divide(task: Task, is_whole: bool, budget: int, seed: int) -> Division:
    """Return cells of samples. This is done before all other work, because it knows what memory they need.

    Parameters
    ----------
    task : Task
        Samples as the kernel sees them, with numbers of classes or targets. Those of weight 0 are left out.
    is_whole : bool
        Whether there is only one cell.
    budget : int
        Bytes that may be used.
    seed : int
        Seed of k-means.

    Raises
    ------
    ValueError
        If the memory does not suffice for the machine of the largest cell.
    """
    used = np.flatnonzero(task.weights > 0)
    count = number_of_cells(len(used), is_whole)
    centers = np.zeros((1, task.source.shape[1])) if count == 1 else _centers(task.source, used, count, seed)
    found = Division(centers, np.zeros(len(task.source), np.int32))
    if count > 1:
        for start, block in task.source.blocks():
            found.cell[start : start + block.shape[0]] = nearest(block.user_array(), centers)
    found.cell[task.weights <= 0] = -1
    _check_memory(task, found, budget)
    return found


def _check_memory(task: Task, division: Division, budget: int) -> None:
    """Raise ValueError if the memory does not suffice for the machine of the largest cell."""
    source, most, count = task.source, int(division.sizes().max()), len(division.centers)
    own, share = most * _row_bytes(source), 1 if count == 1 else _MACHINE_SHARE
    if count > 1 and own > budget // _SHARE:
        raise ValueError(
            f"The largest of {count} cells has {most:,} samples of {own / 1e6:.4g} MB, and refine='cells' needs them "
            f"in a quarter of memory={budget / 1e6:.4g} MB: raise memory, or leave refine out."
        )
    try:
        n_classes = int(task.targets.max()) + 1 if task.of_classes else 0
        check_memory(source, most, n_classes, budget // share, source.resident or count > 1)
    except ValueError as error:
        raise ValueError(
            f"refine={'exact' if count == 1 else 'cells'!r} needs an exact machine of {most:,} samples, which may use "
            f"1/{share} of memory={budget / 1e6:.4g} MB. {error} Raise memory, or leave refine out."
        ) from error


def _row_bytes(source: Source) -> int:
    return max(1, source.nbytes // max(1, len(source)))


def learn(
    task: Task, division: Division, make: Callable[[int, float], Any], budget: int, deadline: float, verbose: Any
) -> Cells:
    """Return the machines of cells.

    Parameters
    ----------
    task : Task
        As for `divide`.
    division : Division
        The cells.
    make : callable
        `make(memory, seconds)` returns a machine that may use so many bytes and, if not infinite, so many seconds.
    budget : int
        Bytes that may be used.
    deadline : float
        Time (of time.perf_counter) from which on no machine is begun.
    verbose : bool or int
        Show progress, on a terminal.
    """
    sizes = division.sizes()
    machines: list[Any] = [None] * len(sizes)
    bar = progress_bar(shown=verbose, total=len(sizes), unit="cell", desc="machines of cells")
    try:
        for group in _groups(sizes, task.source, budget // _SHARE):
            rows = np.flatnonzero(np.isin(division.cell, group))
            samples = None if len(sizes) == 1 else task.source.take(rows).in_memory().block
            for number in group:
                left = deadline - time.perf_counter()
                if left <= 0:
                    return Cells(division.centers, tuple(machines))
                if samples is None:
                    machines[number] = _machine(task, rows, _whole(task.source, rows), partial(make, budget, left))
                else:
                    places = np.flatnonzero(division.cell[rows] == number)
                    own = samples if len(group) == 1 else samples.take(places)
                    one = partial(make, budget // _MACHINE_SHARE, left)
                    machines[number] = _machine(task, rows[places], own.user_array(), one)
                bar.update(1)
    finally:
        bar.close()
    return Cells(division.centers, tuple(machines))


def _whole(source: Source, rows: np.ndarray) -> Source:
    """Return the samples of one machine for all; those of a file stay there."""
    source = source if len(rows) == len(source) else source.take(rows)
    if not source.resident:
        return source
    found = source.in_memory()
    found.held = found.nbytes if source.held else 0
    return found


def _machine(task: Task, rows: np.ndarray, samples: Any, make: Callable[[], Any]) -> Any:
    targets = task.targets[rows]
    if task.of_classes and len(rows) and (targets == targets[0]).all():
        return int(targets[0])
    return make().fit(samples, targets, task.weights[rows]) if len(rows) else None


def number_of_cells(n: int, is_whole: bool) -> int:
    """Return the number of cells of so many samples."""
    return 1 if is_whole else max(1, round(n / _CELL))


def drawn_for_centers(n: int, count: int, seed: int) -> tuple[np.ndarray, np.random.RandomState]:
    """Return the places of the samples for k-means among so many, and the source of its random numbers."""
    rng = np.random.RandomState(seed)
    return np.sort(rng.permutation(n)[: max(_DRAWN * count, _LEAST_DRAWN)]), rng


def centers_of(samples: Any, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Return the centres of some samples by k-means."""
    samples = samples.astype(np.float32)
    found = KMeans(count, n_init=1, max_iter=_MOST_ITERATIONS, random_state=rng).fit(samples)
    return np.asarray(found.cluster_centers_, np.float64)


def _centers(source: Source, used: np.ndarray, count: int, seed: int) -> np.ndarray:
    drawn, rng = drawn_for_centers(len(used), count, seed)
    return centers_of(source.take(used[drawn]).in_memory().block.user_array(), count, rng)


def _groups(sizes: np.ndarray, source: Source, most_bytes: int) -> Iterator[list[int]]:
    """Yield cells whose samples are read together, as many as fit in so many bytes, at least one."""
    of_row, total = _row_bytes(source), 0
    group: list[int] = []
    for number, size in enumerate(sizes):
        if group and (total + size) * of_row > most_bytes:
            yield group
            group, total = [], 0
        group.append(number)
        total += size
    if group:
        yield group
