"""What workers do: gather the rows of a shard, look at their labels, and take part in rounds.

The rows of a shard are one result of Dask, which it keeps, spills to disk, sends to another worker or computes again.
What was prepared for them, Gram matrices above all, lives as long as they do in the memory of this worker.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from distributed import get_worker
from scipy import sparse
from sklearn.base import BaseEstimator

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool
from fastsvm.dask.tasks import Account, Result, counting, counting_rows
from fastsvm.estimators.fitting.validation import Column, Samples, check_training_set
from fastsvm.estimators.linear.base_linear_svm import demands_of
from fastsvm.estimators.linear.training_task import Task, in_pairs, task_of_classes
from fastsvm.losses import Loss
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_dual.shards import Shard, ShardState
from fastsvm.sources import MemorySource, ScaledSource, Source, open_hdf5, stacked
from fastsvm.tuning import LinearTuning, current_tuning

_prepared: "WeakKeyDictionary[ShardRows, _Prepared]" = WeakKeyDictionary()
_lock = threading.Lock()


class FilePart(NamedTuple):
    """Some consecutive rows of an HDF5 file."""

    path: str
    start: int
    stop: int


class ShardRows:
    """The rows of a shard, perhaps none, with labels or targets, weights, and the names of the features."""

    def __init__(self, X: Samples, y: np.ndarray, weight: np.ndarray, names: np.ndarray | None) -> None:
        self.X, self.y, self.weight, self.names = X, y, weight, names

    def __sizeof__(self) -> int:
        """Return the bytes of the arrays, by which Dask counts."""
        X = self.X
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        return 64 + sum(part.nbytes for part in (*parts, self.y, self.weight))


class ShardFacts(NamedTuple):
    """What the client learns of a shard: the labels of positive weight, each once, and the sums of their weights."""

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    names: np.ndarray | None
    labels: np.ndarray
    weights: np.ndarray
    total: float  # It is the sum of the weights.


class Plan(NamedTuple):
    """What is to be learnt from all shards.

    Values x are mapped to (x - shift) scale, arrays of float64 and shape (n_features,); empty for no mapping. Sparse
    rows are only scaled. `block_rows` is as in `Layout`.
    """

    loss: Loss
    C: float  # It is the factor of the losses.
    constant: float  # It is the value of the constant feature, 0 if there is none.
    classes: np.ndarray  # They are the labels, and are empty for a regression, as the factors are.
    factors: np.ndarray  # For the rows of each class, C is multiplied by them.
    block_rows: int
    tuning: LinearTuning
    together: int  # So many shards share the threads of a worker.
    shift: np.ndarray = np.empty(0)
    scale: np.ndarray = np.empty(0)
    of_pairs: bool = False  # Each pair of classes is told apart, not each class from the rest.


class Classes(Protocol):
    """The part of a plan that says which classes are learnt, and with which factors."""

    @property
    def classes(self) -> np.ndarray:
        """The labels."""

    @property
    def factors(self) -> np.ndarray:
        """Factors of the weights of the rows of each class."""


class Place(NamedTuple):
    """Number of a shard, and the number of its first row among all."""

    number: int
    first: int


# --- rows ------------------------------------------------------------------------------------------------


def _counted(function: Callable[..., "ShardRows"]) -> Callable[..., "ShardRows"]:
    """Return a function that makes rows, such that the rows and its time are counted."""

    @wraps(function)
    def counted(*arguments: object) -> ShardRows:
        with counting("reading"):
            rows = function(*arguments)
        counting_rows(len(rows.y))
        return rows

    return counted


@_counted
def gather_rows(blocks: list[Samples], labels: list | None, weights: list | None, of_classes: bool) -> ShardRows:
    """Return the rows of some blocks as one shard; labels and weights are in blocks of the same lengths."""
    parts, names = [], None
    for number, block in enumerate(blocks):
        estimator = _Holder()
        y: Column = None if labels is None else labels[number]
        weight = None if weights is None else weights[number]
        if len(block) if hasattr(block, "columns") else block.shape[0]:
            weight = None if weight is None else np.asarray(weight, np.float64)
            if weight is not None and weight.shape == np.shape(y) and not weight.any():
                data = check_training_set(estimator, block, y, None, of_classes=of_classes)
                data = data._replace(weight=np.zeros(len(data.y)))  # other shards may have weights
            else:
                data = check_training_set(estimator, block, y, weight, of_classes=of_classes)
            parts.append((data.source.read(0, len(data.source)).user_array(), data.y, data.weight))
            names = getattr(estimator, "feature_names_in_", names)
        elif y is not None and len(y):
            raise ValueError(f"A block of X has no rows, and that of y has {len(y)}: their chunks must be the same.")
    if not parts:
        block = blocks[0].to_numpy() if hasattr(blocks[0], "columns") else blocks[0]
        return ShardRows(block, np.empty(0), np.empty(0), None)
    return joined(parts, names)


class _Holder(BaseEstimator):
    """Stands in for an estimator in checks of data."""

    memory = "auto"


_Holder.__name__ = "LinearSVM"  # as messages name it


def joined(parts: list[tuple[Samples, np.ndarray, np.ndarray]], names: np.ndarray | None) -> ShardRows:
    """Return blocks of rows, labels and weights as one shard."""
    X, y, weight = zip(*parts, strict=True)
    if len(parts) == 1:
        return ShardRows(X[0], y[0], weight[0], names)
    return ShardRows(stacked(X), np.concatenate(y), np.concatenate(weight), names)


@_counted
def read_rows(parts: list[FilePart]) -> ShardRows:
    """Return rows of HDF5 files, with their labels and weights, as one shard."""
    blocks, names = [], None
    for part in parts:
        with open_hdf5(part.path) as data:
            if data.y is None:
                raise ValueError(f"{part.path} has no dataset 'y' with the labels.")
            rows, n = slice(part.start, part.stop), part.stop - part.start
            weight = np.ones(n) if data.sample_weight is None else data.sample_weight[rows].astype(np.float64)
            blocks.append((data.X.read(part.start, part.stop).user_array(), data.y[rows], weight))
            names = data.feature_names
    return joined(blocks, names)


def rows_at(rows: ShardRows, numbers: np.ndarray) -> ShardRows:
    """Return some rows of a shard."""
    return ShardRows(rows.X[numbers], rows.y[numbers], rows.weight[numbers], None)


def facts_of(rows: ShardRows, of_classes: bool) -> ShardFacts:
    """Return what the client needs to know of a shard."""
    used = rows.weight > 0
    labels, weights = np.empty(0), np.empty(0)
    if of_classes and used.any():
        labels, number = np.unique(rows.y[used], return_inverse=True)
        weights = np.bincount(number.ravel(), rows.weight[used], len(labels)).astype(np.float64)
    total = float(rows.weight.sum())
    return ShardFacts(rows.X.shape, rows.X.dtype, sparse.issparse(rows.X), rows.names, labels, weights, total)


# --- rounds ----------------------------------------------------------------------------------------------


class _Prepared:
    """A shard that is ready for rounds, of which one task at a time takes hold."""

    def __init__(self, shard: Shard) -> None:
        self.shard, self.lock = shard, threading.Lock()


class Room(NamedTuple):
    """What a shard may use of this worker: threads, and bytes of Gram matrices, None for any number of them."""

    n_threads: int
    gram_bytes: int | None

    @classmethod
    def of(cls, rows: ShardRows, plan: Plan) -> "Room":
        """Return the share of a shard on the worker that this task is on.

        Above a share of its memory limit, a worker writes rows to disk, and then it pauses. So Gram matrices that would
        take it there are computed anew in each round, which changes no bit.
        """
        limit, n_threads = get_worker().memory_manager.memory_limit, threads_of(plan.together)
        if not limit:
            return cls(n_threads, None)
        duals = 4 * 8 * len(rows.y) * max(1, len(plan.classes))
        return cls(
            n_threads,
            max(0, int(current_tuning().cluster.spilled * limit) // plan.together - rows.__sizeof__() - duals),
        )


def threads_of(together: int) -> int:
    """Return the threads of a shard, of which so many share those of this worker."""
    return max(1, get_worker().state.nthreads // together)


@contextmanager
def shard_of(
    rows: ShardRows, plan: Plan, place: Place, room: Room | None = None, account: Account | None = None
) -> Iterator[Shard]:
    """Give the shard of some rows. Outside of tasks the room is told, and the account of the time."""
    room = Room.of(rows, plan) if room is None else room
    with _lock:
        ready = _prepared.get(rows)
        if ready is None:
            shard = Shard(problem_of(rows, plan), plan.block_rows, plan.tuning, *place, room.gram_bytes)
            ready = _prepared[rows] = _Prepared(shard)
    with ready.lock, Pool.open(room.n_threads) as ready.shard.pool, counting("computing", account):
        yield ready.shard


def problem_of(rows: ShardRows, plan: Plan) -> LinearProblem:
    """Return the problem of the rows of a shard, perhaps none."""
    source, shift, scale = MemorySource.of(rows.X), plan.shift, plan.scale
    if source.sparse and scale.size:
        source, shift, scale = ScaledSource(source, None, scale, np.float64).in_memory(), np.empty(0), np.empty(0)
    if len(plan.classes):
        task = task_of_labels(source, rows, plan, plan.loss.of_classes or plan.of_pairs)
        if plan.of_pairs:
            task = in_pairs(task)
        elif plan.loss.of_classes:
            task = task._replace(balance=np.ones(len(plan.classes)))
    else:
        targets, weight = np.ascontiguousarray(rows.y, np.float64), writeable(rows.weight)
        task = Task(source, targets, weight, float(weight.sum()), np.ones(1), of_classes=False)
    return LinearProblem(source, shift, scale, plan.loss, demands_of(plan.C, task), plan.constant)


def task_of_labels(source: Source, rows: ShardRows, plan: Classes, coupled: bool) -> Task:
    """Return the task of rows that are in a source, as they are learnt, by a plan's classes and factors."""
    labels, used = np.full(len(rows.y), -1, np.int64), rows.weight > 0
    labels[used] = np.searchsorted(plan.classes, rows.y[used])
    return task_of_classes(source, labels, writeable(rows.weight), plan.factors, coupled)


def ask(rows: ShardRows, plan: Plan, place: Place, question: str, *arguments: object) -> Result:
    """Return what a method of a shard answers."""
    with shard_of(rows, plan, place) as shard:
        return getattr(shard, question)(*arguments)


def settled(state: ShardState, share: np.ndarray) -> ShardState:
    """Return the state after a round with the share of its change; the variables before are sent as none."""
    return state.settled(share)._replace(before=np.empty(0))
