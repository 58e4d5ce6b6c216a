"""Fits of many models on subsets of the same samples, which share one kernel matrix.

All models with the same kernel take their kernel rows from one matrix, for any C and any training set. Models that
differ in C alone are fitted in increasing order of C, each from the solution before. Decision values of the test
samples are computed from the same matrix.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.convergence_warnings import warn_of_violation
from fastsvm.estimators.fitting.labels import encode
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.kernel_parameter import (
    is_precomputed,
    resolve_gamma,
    resolve_kernel,
    training_pairwise,
    training_rows,
)  # fmt: skip
from fastsvm.estimators.kernel.machines.svc import SVC
from fastsvm.estimators.kernel.one_vs_one import OneVsOneFit, solve_paths
from fastsvm.estimators.kernel.prepare import plan_shared
from fastsvm.estimators.kernel.progress import NoMonitor
from fastsvm.estimators.kernel.sample_geometry import SampleGeometry
from fastsvm.estimators.kernel.solver_parameter import is_dual, most_steps, solver_of
from fastsvm.estimators.kernel.standardization import Standardization, attributes_of
from fastsvm.estimators.kernel.statements import bounds
from fastsvm.estimators.kernel.two_class import TwoClass
from fastsvm.kernel_matrix.cross_validation import SharedKernel
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.memory_plan import Plan
from fastsvm.kernels import is_kernel
from fastsvm.memory import parse_memory
from fastsvm.multiclass import class_pairs
from fastsvm.solvers.outer_loop import Limits
from fastsvm.sources import Source, feature_statistics

__all__ = ["FoldModel", "KernelGroup", "Part", "SharedFits", "Split", "may_share"]

_DECIDED_ROWS = 512  # test samples of a task for a thread
_SUMMED_ROWS = 1024
_PROBLEM_BYTES = 48  # for a row of a two-class problem: number, label, bound, multiplier and gradient
_LEAST_SHARING = 2  # fits: a single one has nothing to share


class Split(NamedTuple):
    """Row numbers of the training and test samples."""

    train: np.ndarray
    test: np.ndarray


class Part(NamedTuple):
    """A fit: the numbers of its model and of its split."""

    model: int
    split: int


class KernelGroup(NamedTuple):
    """Fits with one kernel.

    Attributes
    ----------
    kernel : Kernel or callable
        The kernel.
    gamma : float
        Value of `gamma`, with "scale" and "auto" resolved.
    standardization : Standardization or None
        Map of samples to standardised ones, which is that of one split.
    parts : list of Part
        The fits.
    """

    kernel: Any
    gamma: float
    standardization: Standardization | None
    parts: list[Part]


class _Fold(NamedTuple):
    """A split: its classes, class number of every row or -1, weights, and two-class problems without bounds."""

    split: Split
    classes: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    pairs: list[TwoClass]


class _Given(NamedTuple):
    """Common to all fits of a kernel: the kernel matrix, the geometry of the samples, and the memory plan."""

    kernel: SharedKernel
    geometry: SampleGeometry
    spent: Plan


class FoldModel(SVC):
    """A model of a split, which knows the decision values of its test samples, and may know those of training."""

    _known: tuple[Any, np.ndarray | None] = None, None
    _of_test: np.ndarray
    _of_train: np.ndarray | None
    _source: Source
    _support_rows: np.ndarray

    def know_test(self, X: Any) -> None:
        """Take X for the test samples."""
        self._known = X, self._of_test

    def know_train(self, X: Any) -> None:
        """Take X for the training samples."""
        self._known = X, self._of_train

    @property
    def support_vectors_(self) -> Any:
        """Support vectors, copied on each access."""
        return self._source.as_passed(self._source.rows(self._support_rows))

    def _decisions(self, X: Any) -> np.ndarray:
        known = self._known[1] if X is self._known[0] else None
        return super()._decisions(X) if known is None else known


FoldModel.__name__ = SVC.__name__  # which messages of scorers use; pickle uses the qualified name


def may_share(model: Any) -> bool:
    """Return whether a model may share kernel values and starts with others without a change of its solution."""
    return (
        type(model) is SVC
        and is_dual(model)
        and not is_precomputed(model)
        and model.max_iter == -1  # the result of a limited fit depends on its start
        and model.max_time is None
        and not hasattr(model, "_skl_callbacks")
    )


class SharedFits:
    """Fits of some models on some splits of a training set.

    Parameters
    ----------
    models : dict of int to SVC
        Unfitted models for which `may_share` holds, by number. Their parameters are valid.
    data : TrainingSet
        All samples.
    splits : list of Split
        Training and test samples.
    pool : Pool
        Threads.
    """

    def __init__(self, models: dict[int, SVC], data: TrainingSet, splits: list[Split], pool: Pool) -> None:
        self.models, self.data, self.splits, self.pool = models, data, splits, pool
        self._variances: dict[tuple[int, bool], float] = {}
        self._maps: dict[int, Standardization] = {}
        self._folds: dict[int, _Fold] = {}
        self._place = self._places()
        self._arena = np.empty(0, np.uint8)  # reused for all matrices: the first access to new memory is expensive

    def _places(self) -> np.ndarray:
        """Return a position for each row, such that rows of the same class and fold are adjacent."""
        fold = np.zeros(len(self.data.y), np.int64)
        for k, split in enumerate(self.splits):
            fold[split.test] = k
        order = np.lexsort((fold, np.unique(self.data.y, return_inverse=True)[1]))
        return np.argsort(order)

    # --- groups of fits with the same kernel ------------------------------------------------------------------

    def groups(self) -> list[KernelGroup]:
        """Return the fits that can share kernel values, grouped by kernel."""
        groups: list[KernelGroup] = []
        usable = [k for k, split in enumerate(self.splits) if len(np.unique(split.train)) == len(split.train)]
        for number, model in self.models.items():
            for k in usable:
                kernel, gamma = self._kernel(model, k)
                standardization = self._standardization(k) if model.standardize else None
                group = next((group for group in groups if _same(group, kernel, standardization)), None)
                if group is None:
                    groups.append(group := KernelGroup(kernel, gamma, standardization, []))
                group.parts.append(Part(number, k))
        return [group for group in groups if len(group.parts) >= _LEAST_SHARING]

    def _kernel(self, model: SVC, split: int) -> tuple[Any, float]:
        """Return the kernel and gamma of a model on a split, whose training set defines gamma="scale"."""
        by_name = isinstance(model.kernel, str)
        varies = by_name and model.gamma == "scale" and "gamma" in getattr(resolve_kernel(model), "_fields", ())
        variance = self._variance(split, model.standardize) if varies else 0.0
        gamma = resolve_gamma(model.gamma, self.data.source.shape[1], variance)
        return resolve_kernel(model, gamma), gamma

    def _variance(self, split: int, standardize: bool) -> float:
        if (split, standardize) not in self._variances:
            rows, weight = self._training_rows(split)
            if standardize:
                rows = self._standardization(split).apply(rows)
            self._variances[split, standardize] = feature_statistics(rows, weight).variance
        return self._variances[split, standardize]

    def _standardization(self, split: int) -> Standardization:
        if split not in self._maps:
            self._maps[split] = Standardization.of(*self._training_rows(split))
        return self._maps[split]

    def _training_rows(self, split: int) -> tuple[Source, np.ndarray | None]:
        """Return the training samples of a split, and their weights if there are any."""
        train = self.splits[split].train
        return self.data.source.take(train), self.data.weight[train] if self.data.weighted else None

    # --- fits -------------------------------------------------------------------------------------------------

    def fit(self, group: KernelGroup, train_score: bool = False) -> Iterator[tuple[Part, FoldModel, float]]:
        """Yield the fits of a group: the fit, its model, and the seconds.

        Yields nothing if the memory is too small for a shared kernel matrix.

        Parameters
        ----------
        group : KernelGroup
            The fits.
        train_score : bool, default=False
            Whether a model knows the decision values of its training samples too.
        """
        begin = time.perf_counter()
        bounded = {part: self._bounds(part) for part in group.parts}
        given = self._given(group, max(float(upper.max()) for _, upper in bounded.values()))
        if given is None:
            return
        tasks = {part: self._task(part, given, bounded[part][1]) for part in group.parts}
        paths = [[tasks[part] for part in path] for path in self._paths(group.parts)]
        limits = Limits(most_steps(self.models[group.parts[0].model], len(self.data.y)), np.inf)
        solve_paths(paths, limits, NoMonitor())
        seconds = (time.perf_counter() - begin) / len(group.parts)
        for k in dict.fromkeys(part.split for part in group.parts):
            parts = [part for part in group.parts if part.split == k]
            models = [self._model(part, tasks[part], bounded[part][0], given.geometry) for part in parts]
            for model in models:
                model.__dict__.update(attributes_of(group.standardization))
            fold = self._fold(k)
            of_test = self._decisions(given.kernel, fold, models, fold.split.test)
            of_train: list[Any] = [None] * len(models)
            if train_score:
                of_train = self._decisions(given.kernel, fold, models, fold.split.train)
            for part, model, test, train in zip(parts, models, of_test, of_train, strict=True):
                model._of_test, model._of_train = test, train
                warn_of_violation(model)
                yield part, model, seconds

    def _given(self, group: KernelGroup, most: float) -> _Given | None:
        """Return what the fits of a group share, None if the memory is too small; `most` is the largest bound."""
        models = [self.models[part.model] for part in group.parts]
        first, source = min(models, key=lambda model: model.tol), self.data.source
        budget = min(parse_memory(model.memory) for model in models)
        if not source.resident:
            if source.nbytes > budget // 3:
                return None
            source = source.in_memory()
            budget -= source.nbytes
        rows = training_rows(first, source, group.standardization, None, budget, self.pool)
        budget -= rows.source.nbytes if rows.source is not source else 0
        place = np.arange(len(source))
        if rows.source.nbytes <= budget // 4:
            place, rows = self._place, rows._replace(source=rows.source.take(np.argsort(self._place)))
            budget -= rows.source.nbytes
        gram = Gram(training_pairwise(first, group.gamma, rows, most, len(source)), rows.source, self.pool)
        sizes = [len(pair.rows) for part in group.parts for pair in self._fold(part.split).pairs]
        spent = plan_shared(first, gram, max(sizes), budget - sum(sizes) * _PROBLEM_BYTES)
        if spent is None:
            return None
        if len(self._arena) < spent.tile_bytes:
            self._arena = np.empty(0, np.uint8)  # freed before the next is allocated
            self._arena = np.empty(spent.tile_bytes, np.uint8)
        kernel = SharedKernel(gram, self._arena[: spent.tile_bytes], place)
        if any(len(self._fold(part.split).classes) > 2 for part in group.parts):
            kernel.fill()  # almost all rows are needed by some problem
        return _Given(kernel, SampleGeometry.of(group.gamma, rows.statistics), spent)

    def _task(self, part: Part, given: _Given, upper: np.ndarray) -> OneVsOneFit:
        """Return the two-class problems of a fit."""
        fold, model = self._fold(part.split), self.models[part.model]
        pairs = [pair._replace(upper=upper[pair.rows]) for pair in fold.pairs]
        spent = given.spent if model.shrinking else given.spent._replace(active_set=0)
        return OneVsOneFit(given.kernel, pairs, fold.labels, spent, solver_of(model))

    def _fold(self, k: int) -> _Fold:
        if k not in self._folds:
            split, n = self.splits[k], len(self.data.y)
            weight = np.zeros(n)
            weight[split.train] = self.data.weight[split.train]
            classes, of_train = encode(self.data.y[split.train], weight[split.train])
            labels = np.full(n, -1, np.int64)
            labels[split.train] = of_train
            pairs = [self._in_place(TwoClass.of(labels, weight, a, b)) for a, b in class_pairs(len(classes))]
            self._folds[k] = _Fold(split, classes, labels, weight, pairs)
        return self._folds[k]

    def _in_place(self, pair: TwoClass) -> TwoClass:
        order = np.argsort(self._place[pair.rows])
        return pair._replace(rows=pair.rows[order], y=pair.y[order], upper=pair.upper[order])

    def _bounds(self, part: Part) -> tuple[np.ndarray, np.ndarray]:
        fold = self._fold(part.split)
        return bounds(self.models[part.model], fold.classes, fold.labels, fold.weight)

    def _paths(self, parts: list[Part]) -> list[list[Part]]:
        """Return lists of fits that differ in C alone, in increasing order of C."""
        paths: list[tuple[dict, int, list[Part]]] = []
        for part in parts:
            others = self.models[part.model].get_params(deep=False) | {"C": None}
            found = next((path for path in paths if path[1] == part.split and _equal(path[0], others)), None)
            if found is None:
                paths.append(found := (others, part.split, []))
            found[2].append(part)
        return [sorted(path, key=lambda part: self.models[part.model].C) for _, _, path in paths]

    def _model(self, part: Part, task: OneVsOneFit, class_weight: np.ndarray, geometry: SampleGeometry) -> FoldModel:
        """Return the fitted model of a part, with indices relative to its training set."""
        given, fold = self.models[part.model], self._fold(part.split)
        model = FoldModel(**given.get_params(deep=False))
        model.__dict__.update(model._solution(task, fold.classes))
        place = np.empty(len(fold.labels), np.int64)
        place[fold.split.train] = np.arange(len(fold.split.train))
        model._support_rows = model.support_
        model.support_, model.within_margin_ = place[model.support_], np.sort(place[model.within_margin_])
        model.class_weight_, model.shape_fit_ = class_weight, (len(fold.split.train), self.data.source.shape[1])
        model._source = self.data.source
        model.__dict__.update(geometry.attributes())
        return model

    def _decisions(
        self, kernel: SharedKernel, fold: _Fold, models: list[FoldModel], test: np.ndarray
    ) -> list[np.ndarray]:
        """Return each model's decision values of the rows `test`, one for each pair of classes."""
        n_classes = len(fold.classes)
        pairs = class_pairs(n_classes)
        coef = np.zeros((len(fold.labels), n_classes - 1, len(models)))
        for k, model in enumerate(models):
            coef[model._support_rows, :, k] = model.dual_coef_.T
        terms, supports = [], coef.any(axis=(1, 2))
        for label in range(n_classes):
            used = np.flatnonzero((fold.labels == label) & supports)
            columns = [k for k, pair in enumerate(pairs) if label in pair]
            for a, b in spans(len(used), _SUMMED_ROWS):
                terms.append((used[a:b], coef[used[a:b]].reshape(b - a, -1), columns))
        decided, order = np.empty((len(models), len(test), len(pairs))), np.argsort(self._place[test])

        def decide(a: int, b: int) -> None:
            sums = np.zeros((b - a, len(pairs), len(models)))
            rows = order[a:b]
            for support, weights, columns in terms:
                part = kernel.values(support, test[rows]).T.astype(np.float64) @ weights
                sums[:, columns] += part.reshape(b - a, n_classes - 1, -1)
            for k, model in enumerate(models):
                decided[k, rows] = sums[:, :, k] + model.intercept_

        self.pool.run(decide, spans(len(test), _DECIDED_ROWS))
        return list(decided)


def _same(group: KernelGroup, kernel: Any, standardization: Standardization | None) -> bool:
    """Return whether a group has this kernel, of samples standardised by this very map; functions must be identical."""
    a, b = group.kernel, kernel
    is_same = a is b or (type(a) is type(b) and is_kernel(a) and a == b)
    return is_same and group.standardization is standardization


def _equal(one: dict, other: dict) -> bool:
    """Return whether two sets of parameters are equal; class weights are compared by their entries."""
    return all(value is other[name] or bool(np.all(value == other[name])) for name, value in one.items())
