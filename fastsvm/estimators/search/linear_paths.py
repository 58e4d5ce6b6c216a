"""Fits of linear machines on all splits of the same samples at once, along C.

The scores of all splits and classes are those of one problem, in which rows that a split holds out cost nothing. They
share all passes over the samples, and begin at the solutions for the next smaller C (Chu, Ho, Tsai, Lin and Lin 2015,
Warm start for parameter selection of linear classifiers, KDD).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from fastsvm._compiled.compilations import work_clock
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.choice import linear_solvers
from fastsvm.estimators.fitting.session import warn_of_gap
from fastsvm.estimators.fitting.validation import Attributes, Samples, TrainingSet, check_columns
from fastsvm.estimators.linear.base_linear_svm import BaseLinearSVM, facts_of, problem_of, solver_of
from fastsvm.estimators.linear.linear_svc import LinearSVC
from fastsvm.estimators.linear.linear_svr import LinearSVR
from fastsvm.estimators.linear.logistic_regression import LogisticRegression
from fastsvm.estimators.linear.training_task import Task, seed_of
from fastsvm.estimators.search.shared_fits import Part, Split, are_equal
from fastsvm.losses import targets_and_costs
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.problem import Certificate, LinearSettings
from fastsvm.solvers.linear_primal.proximal_newton import ProximalNewton
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.tuning import current_tuning

_MACHINES = LinearSVC, LinearSVR, LogisticRegression  # a user's subclass may fit in another way

_AT_BOUND = 0.999  # From this share of its bound on, a variable goes with it.
_BYTES = 32  # of the dual variable, the score, the curvature and the decision value of a row in a score


def may_follow(model: BaseEstimator) -> bool:
    """Return whether fits of a model on all splits may be one problem, from one C to the next."""
    return (
        type(model) in _MACHINES
        and not model.standardize  # each split has statistics of its own
        and getattr(model, "class_weight", None) != "balanced"
        and not model._chosen_loss().of_classes
        and model.max_iter >= current_tuning().linear.least_epochs  # else the result depends on its start
        and model.max_time is None
        and not model.warm_start
        and not hasattr(model, "_skl_callbacks")
    )


class FoldModel(BaseLinearSVM):
    """A model of a split, which knows the scores of its test samples, and may know those of training."""

    decided: tuple[object, np.ndarray | None] = None, None  # samples, and their scores
    of_test: np.ndarray
    of_train: np.ndarray | None
    _shift = _scale = None

    def _scores(self, X: Samples) -> np.ndarray:
        return self.decided[1] if X is self.decided[0] and self.decided[1] is not None else super()._scores(X)


_KINDS = {machine: type(machine.__name__, (FoldModel, machine), {}) for machine in _MACHINES}


Fits: TypeAlias = Iterator[tuple[Part, FoldModel, float]]


class Solved(NamedTuple):
    """A solution of all splits at some C; scores, of all rows, have the shape (n_splits, n_classes, n)."""

    C: float
    weights: np.ndarray
    dual: np.ndarray  # They are kept on demand.
    scores: np.ndarray
    certificate: Certificate
    fitted: Attributes  # They are those of all splits.
    state: Any  # The next fit begins there.
    seconds: float


class LinearPaths:
    """Fits of models for which `may_follow` holds, by number, on some splits of a training set."""

    keeps_dual = False

    def __init__(self, models: dict[int, BaseLinearSVM], data: TrainingSet, splits: list[Split], pool: Pool) -> None:
        self.models, self.data, self.splits, self.pool = models, data, splits, pool
        self._usable = [k for k, split in enumerate(splits) if self._is_whole(split)]

    def _is_whole(self, split: Split) -> bool:
        """Return whether a split trains on each of its rows once, and on all classes."""
        y, used = self.data.y, split.train[self.data.weight[split.train] > 0]
        k, n_classes = len(np.unique(y[used])), len(np.unique(y[self.data.weight > 0]))
        is_once = len(used) > 0 and len(np.unique(split.train)) == len(split.train)
        return is_once and (k == n_classes or not is_classifier(next(iter(self.models.values()))))

    def groups(self) -> list[list[int]]:
        """Return the numbers of models that differ in C alone, in its order."""
        groups: list[list[int]] = []
        others = {number: model.get_params(deep=False) | {"C": None} for number, model in self.models.items()}
        for number in sorted(others, key=lambda number: self.models[number].C):
            group = next((group for group in groups if are_equal(others[group[0]], others[number])), None)
            if group is None:
                groups.append(group := [])
            group.append(number)
        model, n_classes = self.models[groups[0][0]], len(np.unique(self.data.y))
        n_scores = len(self._usable) * (n_classes if is_classifier(model) and n_classes > 2 else 1)
        most = parse_memory(model.memory) if current_tuning().search.shared else 0
        return groups if 0 < _BYTES * n_scores * len(self.data.y) <= most else []

    def batches(self, groups: list[list[int]]) -> Iterator[list[list[int]]]:
        """Yield all groups: the fits of each keep all threads busy."""
        yield groups

    def fit(self, groups: list[list[int]], train_score: bool = False) -> Fits:
        """Yield the fits of some groups: the fit, its model, and the seconds."""
        for group in groups:
            task, names = self._stated(self.models[group[0]])
            last: list[Solved] = []
            for number in group:
                last = [*last[-1:], self._solved(self.models[number], task, last)]
                yield from self._models(number, last[-1], names, train_score)

    def _stated(self, model: BaseLinearSVM) -> tuple[Task, Attributes]:
        """Return what a model is to learn on all splits, and fitted attributes that the samples determine."""
        held = np.ones((len(self.data.y), len(self._usable)), np.bool_)
        for place, k in enumerate(self._usable):
            held[self.splits[k].train, place] = False
        task, names = clone(model)._task(self.data, model._chosen_loss())
        k, n_splits = len(task.balance), held.shape[1]
        labels = np.tile(np.arange(k) if k > 1 else [-1], n_splits)
        folds = np.column_stack([np.repeat(np.arange(n_splits), k), labels]).astype(np.int64)
        return task._replace(balance=np.tile(task.balance, n_splits), folds=folds, held=held), names

    def _solved(self, model: BaseLinearSVM, task: Task, last: list[Solved]) -> Solved:
        """Return the solution of all splits at the C of a model, from the last two."""
        begin, tuning, loss = work_clock(), current_tuning().linear, model._chosen_loss()
        settings = LinearSettings(model.tol, seed_of(model), criterion=model.criterion, tuning=tuning)
        problem = problem_of(model, task, loss)
        for choice in linear_solvers(facts_of(model, task, loss, is_watched=False), tuning):
            check_columns(model.memory, task.source.shape[1], choice.n_copies, len(task.balance))
            solver = solver_of(choice.name, model, problem, settings, self.pool)
            limits, state = Limits(model.max_iter, np.inf), self._begin(solver, model.C, last)
            try:
                state, reason, _ = drive(solver, state, limits, lambda *_: False)
            finally:
                solver.close()
            state, certificate = solver.finish(state)
            reason = StopReason.CONVERGED if solver.is_within(certificate) else reason
            if reason != StopReason.STALLED:
                break
        weights = solver.weights(state)
        scores = problem.scores(weights, self.pool).reshape(len(self._usable), -1, len(self.data.y))
        fitted = {"n_iter_": state.epoch, "kkt_violation_": certificate.violation, "solver_": choice.name}
        fitted |= {"converged_": reason is StopReason.CONVERGED, "stop_reason_": str(reason)}
        dual, kept = solver.dual_of(state) if self.keeps_dual else np.empty(0), solver.kept(state, True)
        return Solved(model.C, weights, dual, scores, certificate, fitted, kept, work_clock() - begin)

    def _begin(self, solver: Any, C: float, last: list[Solved]) -> Any:
        """Return the state with which a solver begins at C, from the last two solutions.

        Weights are foreseen along the logarithm of C. Dual variables of a smooth loss are foreseen along C; others keep
        their share of the bound, or with more features than rows, which a large C separates, their value within it.
        """
        if not last or (start := solver.start_of(last[-1].state)) is None:
            return solver.init()
        first, before, is_primal = last[0].C, last[-1].C, isinstance(solver, ProximalNewton)
        second = solver.start_of(last[0].state) if first < before else None
        if second is None or not np.isfinite(solver.problem.loss.curvature):
            grown, problem = 1.0 if is_primal else C / before, solver.problem
            if is_primal or problem.source.shape[1] <= len(problem.source):
                return solver.init(start * grown)
            bounds = targets_and_costs(problem.demands)[1] / grown
            return solver.init(np.where(np.abs(start) >= _AT_BOUND * bounds, start * grown, start))
        along = min(np.log(C / before) / np.log(before / first), 1.0)
        share = along if is_primal else (C - before) / (before - first)
        return solver.init(start + share * (start - second))

    def _models(self, number: int, solved: Solved, names: Attributes, train_score: bool) -> Fits:
        """Yield the fits of a model on all splits: the fit, its model, and the seconds."""
        unfitted, k = self.models[number], solved.scores.shape[1]
        for place, split in enumerate(self._usable):
            model, some = _KINDS[type(unfitted)](**unfitted.get_params(deep=False)), slice(place * k, (place + 1) * k)
            model.__dict__.update(names | model._weights(solved.weights[some], 0) | solved.fitted)
            model.objective_, model.dual_objective_ = (float(each[some].sum()) for each in solved.certificate[:2])
            model.duality_gap_, scores = model.objective_ - model.dual_objective_, solved.scores[place]
            model.of_test = np.ascontiguousarray(scores[:, self.splits[split].test].T)
            model.of_train = np.ascontiguousarray(scores[:, self.splits[split].train].T) if train_score else None
            warn_of_gap(model)
            yield Part(number, split), model, solved.seconds / len(self._usable)
