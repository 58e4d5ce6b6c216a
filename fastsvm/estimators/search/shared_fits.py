"""Fits of many models on subsets of the same samples, which share one kernel matrix.

All models with the same kernel take their kernel rows from one matrix, for any parameters and any training set. Models
that differ in C alone, or in what else a machine follows, are fitted in increasing order, each from the solution
before. Decision values of the test samples are computed from the same matrix.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator

from fastsvm._compiled.compilations import work_clock
from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.validation import Attributes, TrainingSet
from fastsvm.estimators.kernel.kernel_parameter import (
    Standardization,
    attributes_of,
    check_values,
    geometry_of,
    has_scaled_gamma,
    is_precomputed,
    resolve_gamma,
    resolve_kernel,
    training_pairwise,
    training_rows,
)
from fastsvm.estimators.kernel.machines.classifiers import SVC, NuSVC
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.machines.one_class_svm import OneClassSVM
from fastsvm.estimators.kernel.machines.regressors import SVR, NuSVR
from fastsvm.estimators.kernel.one_vs_one import KernelFit, solve_paths
from fastsvm.estimators.kernel.prepare import Statement, plan_shared
from fastsvm.estimators.kernel.progress import KernelMonitor
from fastsvm.estimators.kernel.solver_parameter import is_dual, most_steps, solver_of
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.memory_plan import Plan
from fastsvm.kernel_matrix.rows import SharedKernel
from fastsvm.kernels import Kernel, is_kernel
from fastsvm.memory import parse_memory
from fastsvm.solvers.kernel_dual.problem import Problems
from fastsvm.solvers.outer_loop import Limits
from fastsvm.sources import Source, feature_statistics
from fastsvm.tuning import current_tuning

_MACHINES = SVC, SVR, NuSVC, NuSVR, OneClassSVM  # a user's subclass may fit in another way


# --- models of a split -------------------------------------------------------------------------------------------


def may_share(model: BaseEstimator) -> bool:
    """Return whether a model may share kernel values and starts with others without a change of its solution."""
    return (
        type(model) in _MACHINES
        and is_dual(model)
        and not is_precomputed(model)
        and model.max_iter == -1  # the result of a limited fit depends on its start
        and model.max_time is None
        and not hasattr(model, "_skl_callbacks")
    )


class FoldModel(KernelMachine):
    """A model of a split, which knows the decision values of its test samples, and may know those of training."""

    decided: tuple[object, np.ndarray | None] = None, None  # samples, and their decision values
    of_test: np.ndarray
    of_train: np.ndarray | None
    _source: Source
    _support_rows: np.ndarray

    def __reduce__(self) -> tuple:
        """Return how to make the model anew: its class has no name in this module."""
        return _new, (type(self).__mro__[2],), self.__getstate__()

    @property
    def support_vectors_(self) -> np.ndarray | csr_matrix:
        """Support vectors, copied on each access."""
        return self._source.as_passed(self._source.rows(self._support_rows))

    def _decided_by(self, X: object, *forms: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        values = self.decided[1] if X is self.decided[0] else None
        return super()._decided_by(X, *forms) if values is None else [form(values.copy()) for form in forms]


_KINDS: dict[type, type[FoldModel]] = {
    machine: type(machine.__name__, (FoldModel, machine), {})  # messages of scorers use the name
    for machine in _MACHINES
}


def _new(machine: type) -> FoldModel:
    return _KINDS[machine].__new__(_KINDS[machine])


# --- fits of a kernel --------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """Row numbers of the training and test samples."""

    train: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, *parts: ArrayLike) -> "Split":
        """Return a split whose parts are row numbers or masks."""
        rows = map(np.asarray, parts)
        return cls(*(np.flatnonzero(part) if part.dtype == bool else part.astype(np.int64) for part in rows))

    def among(self, rows: np.ndarray, n_samples: int) -> "Split":
        """Return the split of some of the samples, in ascending order, by their places among these."""
        place = np.full(n_samples, -1)
        place[rows] = np.arange(len(rows))
        return Split(*(places[places >= 0] for places in (place[self.train], place[self.test])))


class Part(NamedTuple):
    """A fit: the numbers of its model and of its split."""

    model: int
    split: int


class KernelGroup(NamedTuple):
    """Fits with one kernel, whose `gamma` is a number, of samples that one split may standardise."""

    kernel: Kernel | Callable | None
    gamma: float
    standardization: Standardization | None
    parts: list[Part]


class _Stated(NamedTuple):
    """Fits of a group, what their models ask, and what they share: the kernel matrix, and the samples' geometry."""

    group: KernelGroup
    tasks: dict[Part, KernelFit]
    asked: dict[Part, Statement]
    kernel: SharedKernel
    geometry: Attributes


class SharedFits:
    """Fits of unfitted models for which `may_share` holds, by number, on some splits of a training set."""

    def __init__(self, models: dict[int, KernelMachine], data: TrainingSet, splits: list[Split], pool: Pool) -> None:
        self.models, self.data, self.splits, self.pool = models, data, splits, pool
        self._tuning = current_tuning()
        self._variances: dict[tuple[int, bool], float] = {}
        self._maps: dict[int, Standardization] = {}
        self._problems: dict[int, Problems] = {}
        self._place = self._places()
        self._arenas: dict[int, np.ndarray] = {}  # reused for all matrices: the first access to new memory is expensive

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

    def _kernel(self, model: KernelMachine, split: int) -> tuple[Kernel | Callable | None, float]:
        """Return the kernel and gamma of a model on a split, whose training set defines gamma="scale"."""
        variance = self._variance(split, model.standardize) if has_scaled_gamma(model) else 0.0
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

    def batches(self, groups: list[KernelGroup]) -> Iterator[list[KernelGroup]]:
        """Yield groups that are solved together: so many that their paths keep all threads busy to the end."""
        while groups:
            size = self._batch_size(groups)
            yield groups[:size]
            groups = groups[size:]

    def _batch_size(self, groups: list[KernelGroup]) -> int:
        n, k = len(self.data.y), len(np.unique(self.data.y)) if self.models[groups[0].parts[0].model].of_classes else 2
        n_paths = len(self._paths(groups[0].parts)) * max(1, k * (k - 1) // 2)
        budget = min(parse_memory(model.memory) for model in self.models.values())
        most = budget // (self._tuning.search.matrix_share * np.dtype(np.float64).itemsize * n**2)
        rounds = {size: -(-size * n_paths // self.pool.n_threads) / size for size in range(1, len(groups) + 1)}
        return min(list(rounds)[: max(1, most)], key=lambda size: (round(rounds[size] / rounds[len(groups)], 1), size))

    def fit(self, groups: list[KernelGroup], train_score: bool = False) -> Iterator[tuple[Part, FoldModel, float]]:
        """Yield the fits of some groups: the fit, its model, and the seconds; none of groups that are better apart."""
        begin = work_clock()
        stated = [one for k in range(len(groups)) if (one := self._together(groups, k)) is not None]
        paths = [[one.tasks[part] for part in path] for one in stated for path in self._paths(list(one.tasks))]
        if not paths:
            return
        steps = max(most_steps(self.models[one.group.parts[0].model], len(self.data.y)) for one in stated)
        solve_paths(paths, Limits(steps, np.inf), KernelMonitor())
        seconds = (work_clock() - begin) / sum(len(one.tasks) for one in stated)
        for one in stated:
            for part, model in self._models(one, train_score):
                yield part, model, seconds

    def _together(self, groups: list[KernelGroup], number: int) -> _Stated | None:
        """Return the fits of one of the groups, None if the memory is too small, or a fit by itself takes less time."""
        asked = self._stated(groups[number].parts)
        if not asked or any(self._has_many_small_pairs(one) for one in asked.values()):
            return None
        problems = {part: self._in_place(part.split, one) for part, one in asked.items()}
        shared = self._shared(groups, number, asked, problems)
        if shared is None:
            return None
        kernel, geometry, plan = shared
        tasks = {
            part: KernelFit(kernel, each, asked[part].labels, lambda: plan, solver_of(self.models[part.model]))
            for part, each in problems.items()
        }
        return _Stated(groups[number], tasks, asked, kernel, geometry)

    def _models(self, stated: _Stated, train_score: bool) -> Iterator[tuple[Part, FoldModel]]:
        """Yield the models of a group, and what fit each is."""
        group, tasks, asked, kernel, geometry = stated
        for k in dict.fromkeys(part.split for part in tasks):
            parts = [part for part in tasks if part.split == k]
            models = [self._model(part, tasks[part], asked[part], geometry) for part in parts]
            for model in models:
                model.__dict__.update(attributes_of(group.standardization))
            of_test = self._decisions(kernel, tasks[parts[0]], models, self.splits[k].test)
            of_train: Sequence[np.ndarray | None] = [None] * len(models)
            if train_score:
                of_train = self._decisions(kernel, tasks[parts[0]], models, self.splits[k].train)
            for part, model, test, train in zip(parts, models, of_test, of_train, strict=True):
                model.of_test, model.of_train = test, train
                model._warn()
                yield part, model

    def _has_many_small_pairs(self, stated: Statement) -> bool:
        """Return whether a fit has many pairs of classes with few samples each."""
        k, counts, tuning = len(stated.classes), np.bincount(stated.labels[stated.labels >= 0]), self._tuning.search
        return k * (k - 1) // 2 >= tuning.many_pairs and int(np.sort(counts)[-2:].sum()) <= tuning.few_rows

    def _stated(self, parts: list[Part]) -> dict[Part, Statement]:
        """Return what models ask of their training samples; a fit by itself will say why one of them cannot."""
        statements: dict[Part, Statement] = {}
        labels: dict[int, np.ndarray] = {}
        for part in parts:
            weight, train = np.zeros(len(self.data.y)), self.splits[part.split].train
            weight[train] = self.data.weight[train]
            with suppress(ValueError):
                one = self.models[part.model]._state(self.data._replace(weight=weight))
                first = labels.setdefault(part.split, one.labels)  # kept once
                statements[part] = one._replace(labels=first) if np.array_equal(first, one.labels) else one
        return statements

    def _in_place(self, split: int, stated: Statement) -> Problems:
        """Return the problems of a fit in the order of the kernel matrix, with the rows and signs of its split."""
        problems = stated.problems(stated.labels, stated.upper)
        problems = problems.sorted_by(self._place[problems.samples])
        first = self._problems.setdefault(split, problems)
        if not (np.array_equal(problems.samples, first.samples) and np.array_equal(problems.y, first.y)):
            return problems
        target = first.y if problems.target is problems.y else problems.target
        return problems._replace(samples=first.samples, y=first.y, target=target)

    def _shared(
        self, groups: list[KernelGroup], number: int, stated: dict[Part, Statement], problems: dict[Part, Problems]
    ) -> tuple[SharedKernel, Attributes, Plan] | None:
        """Return the kernel matrix, geometry and memory plan of one of the groups; None if the memory is too small."""
        group = groups[number]
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
        tuning = self._tuning.kernel._replace(block_rows=self._tuning.search.block_rows)
        gram = Gram(pairwise, rows.source, self.pool, tuning=tuning)
        check_values(gram, rows.statistics.sq_norm)
        every = list(problems.values())
        longest, n_problems = max(int(one.sizes.max()) for one in every), sum(one.n_problems for one in every)
        budget -= sum(len(one.y) for one in every) * self._tuning.search.multiplier_bytes
        budget -= 8 * n_problems * max(len(self.splits[part.split].test) for part in problems)  # decision values
        budget -= (len(groups) - 1) * len(gram) ** 2 * gram.dtype.itemsize
        plan = plan_shared(first, gram, longest, every[0].multipliers_per_sample, budget)
        if plan is None:
            return None
        if len(self._arenas.get(number, ())) < plan.tile_bytes:
            self._arenas.pop(number, None)  # freed before the next is allocated
            self._arenas[number] = np.empty(plan.tile_bytes, np.uint8)
        kernel = SharedKernel(gram, self._arenas[number][: plan.tile_bytes], place)
        if any(one.n_problems > 1 for one in every):
            kernel.fill()  # almost all rows are needed by some problem
        return kernel, geometry_of(group.gamma, rows.statistics), plan

    def _paths(self, parts: list[Part]) -> list[list[Part]]:
        """Return lists of fits that differ only in what their machine follows, in increasing order."""
        paths: list[tuple[dict, int, list[Part]]] = []
        for part in parts:
            model = self.models[part.model]
            others = model.get_params(deep=False) | dict.fromkeys(model.follows)
            path_of_part = next((path for path in paths if path[1] == part.split and are_equal(path[0], others)), None)
            if path_of_part is None:
                paths.append(path_of_part := (others, part.split, []))
            path_of_part[2].append(part)

        def followed(part: Part) -> tuple[float, ...]:
            model = self.models[part.model]
            return tuple(getattr(model, name) for name in model.follows)

        return [sorted(path, key=followed) for _, _, path in paths]

    def _model(self, part: Part, task: KernelFit, stated: Statement, geometry: Attributes) -> FoldModel:
        """Return the fitted model of a part, with indices relative to its training set."""
        train = self.splits[part.split].train
        machine = self.models[part.model]
        model = _KINDS[type(machine)](**machine.get_params(deep=False))
        model.__dict__.update(model._solution(task.outcome(), stated.classes), solver_=model.solver)
        place = np.empty(len(stated.labels), np.int64)
        place[train] = np.arange(len(train))
        model._support_rows = model.support_
        model.support_ = place[model.support_]
        if hasattr(model, "within_margin_"):
            model.within_margin_ = np.sort(place[model.within_margin_])
        shape = len(train), self.data.source.shape[1]
        model.__dict__.update(stated.more | geometry, shape_fit_=shape, _source=self.data.source)
        return model

    def _decisions(
        self, kernel: SharedKernel, task: KernelFit, models: list[FoldModel], test: np.ndarray
    ) -> list[np.ndarray]:
        """Return the decision values of the rows `test` for each model; `task` has the labels and pairs of all."""
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

        self.pool.run(decide, spans(len(test), step // 4))
        return list(decided)


def _same(group: KernelGroup, kernel: Kernel | Callable | None, standardization: Standardization | None) -> bool:
    """Return whether a group has this kernel, of samples standardised by this very map; functions must be identical."""
    a, b = group.kernel, kernel
    is_same = a is b or (type(a) is type(b) and is_kernel(a) and a == b)
    return is_same and group.standardization is standardization


def are_equal(one: dict, other: dict) -> bool:
    """Return whether two sets of parameters are equal; class weights are compared by their entries."""
    return all(value is other[name] or bool(np.all(value == other[name])) for name, value in one.items())
