"""Fits of many models on subsets of the same samples, which share one kernel matrix.

All models with the same kernel take their kernel rows from one matrix, for any parameters and any training set. Models
that differ in C alone, or in what else a machine follows, are fitted in increasing order, each from the solution
before. Decision values of the test samples are computed from the same matrix.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.kernel_parameter import (
    check_values,
    resolve_gamma,
    resolve_kernel,
    training_pairwise,
    training_rows,
)  # fmt: skip
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.one_vs_one import OneVsOneFit, solve_paths
from fastsvm.estimators.kernel.prepare import Statement, plan_shared
from fastsvm.estimators.kernel.progress import KernelMonitor
from fastsvm.estimators.kernel.solver_parameter import most_steps, solver_of
from fastsvm.estimators.kernel.standardization import SampleGeometry, Standardization, attributes_of
from fastsvm.estimators.search.fold_models import FoldModel, fold_model
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.memory_plan import Plan
from fastsvm.kernel_matrix.rows import SharedKernel
from fastsvm.kernels import is_kernel
from fastsvm.memory import parse_memory
from fastsvm.solvers.kernel_dual.problem import Problems
from fastsvm.solvers.outer_loop import Limits
from fastsvm.sources import Source, feature_statistics
from fastsvm.tuning import SearchTuning, current_tuning

__all__ = ["KernelGroup", "Part", "SharedFits", "Split"]

_PROBLEM_BYTES = 48  # A row of a two-class problem takes so many: number, label, bound, multiplier and gradient.


class Split(NamedTuple):
    """Row numbers of the training and test samples."""

    train: np.ndarray
    test: np.ndarray


class Part(NamedTuple):
    """A fit: the numbers of its model and of its split."""

    model: int
    split: int


class KernelGroup(NamedTuple):
    """Fits with one kernel, whose `gamma` is a number, with "scale" and "auto" resolved.

    `standardization` maps samples to standardised ones, and is that of one split.
    """

    kernel: Any
    gamma: float
    standardization: Standardization | None
    parts: list[Part]


class _Given(NamedTuple):
    """Common to all fits of a kernel: the kernel matrix, the geometry of the samples, and the memory plan."""

    kernel: SharedKernel
    geometry: SampleGeometry
    spent: Plan


class SharedFits:
    """Fits of some models on some splits of a training set.

    The models are unfitted ones for which `may_share` holds, by number. Their parameters are valid.
    """

    def __init__(self, models: dict[int, KernelMachine], data: TrainingSet, splits: list[Split], pool: Pool) -> None:
        self.models, self.data, self.splits, self.pool = models, data, splits, pool
        self._tuning = current_tuning()
        self._variances: dict[tuple[int, bool], float] = {}
        self._maps: dict[int, Standardization] = {}
        self._problems: dict[int, Problems] = {}
        self._place = self._places()
        self._arena = np.empty(0, np.uint8)  # reused for all matrices: the first access to new memory is expensive

    def _places(self) -> np.ndarray:
        """Return a position for each row, such that rows of the same class, if there are any, and fold are adjacent."""
        fold = np.zeros(len(self.data.y), np.int64)
        for k, split in enumerate(self.splits):
            fold[split.test] = k
        of_classes = next(iter(self.models.values())).of_classes
        order = np.lexsort((fold, np.unique(self.data.y, return_inverse=True)[1] if of_classes else fold))
        return np.argsort(order)

    # --- groups of fits with the same kernel ------------------------------------------------------------------

    def groups(self) -> list[KernelGroup]:
        """Return the fits that can share kernel values, grouped by kernel."""
        groups: list[KernelGroup] = []
        if not self._tuning.search.shared:
            return groups
        usable = [k for k, split in enumerate(self.splits) if len(np.unique(split.train)) == len(split.train)]
        for number, model in self.models.items():
            for k in usable:
                kernel, gamma = self._kernel(model, k)
                standardization = self._standardization(k) if model.standardize else None
                group = next((group for group in groups if _same(group, kernel, standardization)), None)
                if group is None:
                    groups.append(group := KernelGroup(kernel, gamma, standardization, []))
                group.parts.append(Part(number, k))
        return [group for group in groups if len(group.parts) > 1]  # a single one has nothing to share

    def _kernel(self, model: KernelMachine, split: int) -> tuple[Any, float]:
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

        Yields nothing if the memory is too small for a shared kernel matrix, or a fit by itself takes less time. If
        `train_score`, a model knows the decision values of its training samples too.
        """
        begin = time.perf_counter()
        stated = self._stated(group.parts)
        if any(_are_many_and_small(one, self._tuning.search) for one in stated.values()):
            return
        tasks_of = {part: self._in_place(part.split, one) for part, one in stated.items()}
        given = self._given(group, stated, tasks_of) if stated else None
        if given is None:
            return
        tasks = {part: self._task(part, given, stated[part], problems) for part, problems in tasks_of.items()}
        paths = [[tasks[part] for part in path] for path in self._paths(list(tasks))]
        limits = Limits(most_steps(self.models[group.parts[0].model], len(self.data.y)), np.inf)
        solve_paths(paths, limits, KernelMonitor())
        seconds = (time.perf_counter() - begin) / len(tasks)
        for k in dict.fromkeys(part.split for part in tasks):
            parts = [part for part in tasks if part.split == k]
            models = [self._model(part, tasks[part], stated[part], given.geometry) for part in parts]
            for model in models:
                model.__dict__.update(attributes_of(group.standardization))
            of_test = self._decisions(given.kernel, tasks[parts[0]], models, self.splits[k].test)
            of_train: list[Any] = [None] * len(models)
            if train_score:
                of_train = self._decisions(given.kernel, tasks[parts[0]], models, self.splits[k].train)
            for part, model, test, train in zip(parts, models, of_test, of_train, strict=True):
                model._of_test, model._of_train = test, train
                model._warns(model)
                yield part, model, seconds

    def _stated(self, parts: list[Part]) -> dict[Part, Statement]:
        """Return what models ask of their training samples; a fit by itself will say why one of them cannot."""
        found: dict[Part, Statement] = {}
        labels: dict[int, np.ndarray] = {}
        for part in parts:
            weight, train = np.zeros(len(self.data.y)), self.splits[part.split].train
            weight[train] = self.data.weight[train]
            with suppress(ValueError):
                one = self.models[part.model]._state(self.data._replace(weight=weight))
                known = labels.setdefault(part.split, one.labels)  # kept once
                found[part] = one._replace(labels=known) if np.array_equal(known, one.labels) else one
        return found

    def _in_place(self, split: int, stated: Statement) -> Problems:
        """Return the problems of a fit, with their rows in the order of the kernel matrix.

        The fits of a split have the same rows and signs, which are kept once.
        """
        problems = stated.problems(stated.labels, stated.upper)
        problems = problems.sorted_by(self._place[problems.rows])
        first = self._problems.setdefault(split, problems)
        if not (np.array_equal(problems.rows, first.rows) and np.array_equal(problems.y, first.y)):
            return problems
        target = first.y if problems.target is problems.y else problems.target
        return problems._replace(rows=first.rows, y=first.y, target=target)

    def _given(
        self, group: KernelGroup, stated: dict[Part, Statement], problems: dict[Part, Problems]
    ) -> _Given | None:
        """Return what the fits of a group share, None if the memory is too small."""
        most = max(float(one.upper.max()) for one in stated.values())
        models = [self.models[part.model] for part in group.parts]
        first, source = min(models, key=lambda model: model.tol), self.data.source
        budget = min(parse_memory(model.memory) for model in models)
        if not source.resident:
            return None
        budget -= source.held
        rows = training_rows(first, source, group.standardization, None, budget, self.pool, self._tuning.kernel)
        budget -= rows.source.nbytes if rows.source is not source else 0
        place = np.arange(len(source))
        if rows.source.nbytes <= budget // 4:
            place, rows = self._place, rows._replace(source=rows.source.take(np.argsort(self._place)))
            budget -= rows.source.nbytes
        pairwise = training_pairwise(first, group.gamma, rows, most, len(source), self._tuning.kernel)
        gram = Gram(pairwise, rows.source, self.pool, tuning=self._tuning.kernel)
        check_values(gram, rows.statistics.sq_norm)
        every = list(problems.values())
        longest, n_problems = max(int(one.sizes.max()) for one in every), sum(one.n_problems for one in every)
        budget -= sum(len(one.y) for one in every) * _PROBLEM_BYTES
        budget -= 8 * n_problems * max(len(self.splits[part.split].test) for part in problems)  # decision values
        spent = plan_shared(first, gram, longest, every[0].rows_of_sample, budget)
        if spent is None:
            return None
        if len(self._arena) < spent.tile_bytes:
            self._arena = np.empty(0, np.uint8)  # freed before the next is allocated
            self._arena = np.empty(spent.tile_bytes, np.uint8)
        kernel = SharedKernel(gram, self._arena[: spent.tile_bytes], place)
        if any(one.n_problems > 1 for one in every):
            kernel.fill()  # almost all rows are needed by some problem
        return _Given(kernel, SampleGeometry.of(group.gamma, rows.statistics), spent)

    def _task(self, part: Part, given: _Given, stated: Statement, problems: Problems) -> OneVsOneFit:
        """Return the problems of a fit."""
        model = self.models[part.model]
        return OneVsOneFit(given.kernel, problems, stated.labels, lambda: given.spent, solver_of(model))

    def _paths(self, parts: list[Part]) -> list[list[Part]]:
        """Return lists of fits that differ only in what their machine follows, in increasing order."""
        paths: list[tuple[dict, int, list[Part]]] = []
        for part in parts:
            model = self.models[part.model]
            others = model.get_params(deep=False) | dict.fromkeys(model.follows)
            found = next((path for path in paths if path[1] == part.split and _equal(path[0], others)), None)
            if found is None:
                paths.append(found := (others, part.split, []))
            found[2].append(part)
        return [sorted(path, key=self._followed) for _, _, path in paths]

    def _followed(self, part: Part) -> tuple[float, ...]:
        model = self.models[part.model]
        return tuple(getattr(model, name) for name in model.follows)

    def _model(self, part: Part, task: OneVsOneFit, stated: Statement, geometry: SampleGeometry) -> FoldModel:
        """Return the fitted model of a part, with indices relative to its training set."""
        train = self.splits[part.split].train
        model = fold_model(self.models[part.model])
        model.__dict__.update(model._solution(task, stated.classes), solver_=model.solver)
        place = np.empty(len(stated.labels), np.int64)
        place[train] = np.arange(len(train))
        model._support_rows = model.support_
        model.support_ = place[model.support_]
        if hasattr(model, "within_margin_"):
            model.within_margin_ = np.sort(place[model.within_margin_])
        model.__dict__.update(stated.more | {"shape_fit_": (len(train), self.data.source.shape[1])})
        model._source = self.data.source
        model.__dict__.update(geometry.attributes())
        return model

    def _decisions(
        self, kernel: SharedKernel, task: OneVsOneFit, models: list[FoldModel], test: np.ndarray
    ) -> list[np.ndarray]:
        """Return each model's decision values of the rows `test`, one for each problem.

        `task` is that of one of the models, whose labels and pairs of classes are those of all.
        """
        pairs, labels = task.problems.classes.tolist(), task.labels
        n_rows = len(models[0].dual_coef_)
        coef = np.zeros((len(labels), n_rows, len(models)))
        for k, model in enumerate(models):
            coef[model._support_rows, :, k] = model.dual_coef_.T
        terms, supports, step = [], coef.any(axis=(1, 2)), current_tuning().products.piece_rows
        for label in range(int(labels.max()) + 1):
            used = np.flatnonzero((labels == label) & supports)
            columns = [k for k, pair in enumerate(pairs) if label in pair]
            for a, b in spans(len(used), step):
                terms.append((used[a:b], coef[used[a:b]].reshape(b - a, -1), columns))
        decided, order = np.empty((len(models), len(test), len(pairs))), np.argsort(self._place[test])

        def decide(a: int, b: int) -> None:
            sums = np.zeros((b - a, len(pairs), len(models)))
            rows = order[a:b]
            for support, weights, columns in terms:
                part = kernel.values(support, test[rows]).T.astype(np.float64) @ weights
                sums[:, columns] += part.reshape(b - a, n_rows, -1)
            for k, model in enumerate(models):
                decided[k, rows] = sums[:, :, k] + model.intercept_

        self.pool.run(decide, spans(len(test), step))
        return list(decided)


def _are_many_and_small(stated: Statement, tuning: SearchTuning) -> bool:
    """Return whether a fit has many pairs of classes with few samples each."""
    k, counts = len(stated.classes), np.bincount(stated.labels[stated.labels >= 0], minlength=2)
    return k * (k - 1) // 2 >= tuning.many_pairs and int(np.sort(counts)[-2:].sum()) <= tuning.few_rows


def _same(group: KernelGroup, kernel: Any, standardization: Standardization | None) -> bool:
    """Return whether a group has this kernel, of samples standardised by this very map; functions must be identical."""
    a, b = group.kernel, kernel
    is_same = a is b or (type(a) is type(b) and is_kernel(a) and a == b)
    return is_same and group.standardization is standardization


def _equal(one: dict, other: dict) -> bool:
    """Return whether two sets of parameters are equal; class weights are compared by their entries."""
    return all(value is other[name] or bool(np.all(value == other[name])) for name, value in one.items())
