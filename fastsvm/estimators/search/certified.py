"""Fits along C of a linear classifier, with a proof that no other C of the interval has a much lower error.

Between two solutions, weights and dual variables on the chord have small duality gaps at the C between. A gap bounds
the distance of the weights from the optimum, and thus all scores. Samples that are wrong within these bounds are wrong
for every C of a piece of the chord. The page "A proof along C" of the documentation derives the bounds, with sources.
"""

import heapq
import math
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import expit
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.linear.base_linear_svm import BaseLinearSVM, problem_of
from fastsvm.estimators.search.evaluation import Rules, Scored, SearchData, scored_groups
from fastsvm.estimators.search.linear_paths import FoldModel, LinearPaths, Solved, may_follow
from fastsvm.estimators.search.shared_fits import Part, Split
from fastsvm.losses import LOSSES, Loss, feasible, primal_losses, targets_and_costs
from fastsvm.memory import parse_memory, threads_within
from fastsvm.solvers.linear_dual.problem import PIECE_ROWS, ROUNDING, LinearProblem
from fastsvm.solvers.linear_primal.quadratic_model import empty_model, update_models
from fastsvm.tuning import current_tuning

Goal: TypeAlias = tuple[float, int]  # The difference of errors to be proved, and the largest number of models.

_TOL = 1e-9  # Solutions have this relative gap, if they can.
_PIECES = 16  # A chord has so many.
_SIZES = 2  # An ellipsoid is computed so many times.


def check_certifiable(search: GridSearchCV, models: list[BaseEstimator], rows: SearchData) -> None:
    """Raise ValueError if nothing can be proved of a search of `models`, which have the parameters of its grid."""
    model, grid, lack = search.estimator, search.param_grid, ""
    values = {each.C for each in models if hasattr(each, "C")}
    if not may_follow(model) or not is_classifier(model) or model._has_l1_penalty():
        lack = "a LinearSVC or LogisticRegression with penalty='l2', and without multi_class, standardize, max_time, "
        lack += "warm_start and class_weight='balanced'"
    elif type(model._chosen_loss()) not in map(LOSSES.get, ("hinge", "squared_hinge", "log_loss")):
        lack = "the loss 'hinge', 'squared_hinge' or 'log_loss'"
    elif not isinstance(grid, dict) or set(grid) != {"C"} or not 1 < len(models) == len(values):
        lack = "a param_grid that lists two or more distinct values of C alone"
    elif search.scoring not in (None, "accuracy") or rows.fit_params:
        lack = "the accuracy as scoring, and no sample_weight"
    if lack:
        raise ValueError(f"guarantee needs {lack}. Change this, or leave guarantee out.")


def certified(
    models: list[BaseLinearSVM], rows: SearchData, splits: list[Split], rules: Rules, goal: Goal
) -> "tuple[CertifiedPath, list[Scored]]":
    """Return the path of some models after its proof, and the scores of all of its models."""
    checked = clone(models[0])
    data = checked._checked(rows.X, rows.y, None)
    with Pool.open(most=threads_within(checked.memory)) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a tolerance that the user did not choose
        path = CertifiedPath(dict(enumerate(models)), data, splits, pool, goal)
        order = np.argsort([m.C for m in models])
        rules = rules._replace(error_score="raise")
        return path, list(scored_groups(path, [order.tolist()], rows, checked, rules))


class CertifiedPath(LinearPaths):
    """Fits at the C of some models, `models`, which get others between them until the proof is complete."""

    keeps_dual = True
    bound = 0.0  # It is at most the error of any C of the interval.

    def __init__(
        self, models: dict[int, BaseLinearSVM], data: TrainingSet, splits: list[Split], pool: Pool, goal: Goal
    ) -> None:
        super().__init__({k: clone(model).set_params(tol=_TOL) for k, model in models.items()}, data, splits, pool)
        (self._margin, self._most), self._share = goal, np.zeros((len(splits), len(data.y)))
        if len(self._usable) < len(splits):
            raise ValueError("guarantee needs all classes, and no sample twice, in the training set of each split.")
        for k, split in enumerate(splits):
            np.add.at(self._share[k], split.test, 1 / (len(split.test) * len(splits)))

    def fit(self, groups: list[list[int]], train_score: bool = False) -> Iterator[tuple[Part, FoldModel, float]]:
        """Yield the fits of the models, and of those that the proof adds: the fit, its model, and the seconds."""
        (numbers,) = groups
        self._first = self.models[numbers[0]]
        (self._task, names), self._loss = self._stated(self._first), self._first._chosen_loss()
        room = parse_memory(self._first.memory) // (16 * len(self.data.y) * len(self._task.balance))
        most_models = min(self._most, room)  # whose scores and dual variables are kept
        solved: list[Solved] = []
        for number in numbers:
            solved.append(self._solved(self.models[number], self._task, solved[-2:]))
            yield from self._models(number, solved[-1], names, train_score)
        least, ends = min(self._error(each.scores, each.scores) for each in solved), list(pairwise(solved))
        chords: list[tuple[float, float, Solved, Solved]] = []
        while True:
            for left, right in ends:
                bound = min(self._error(low, high) for _, low, high in self.pieces(left, right))
                heapq.heappush(chords, (bound, left.C, left, right))
            self.bound, _, left, right = chords[0]
            number, C = max(self.models) + 1, math.sqrt(left.C * right.C)
            if self.bound >= least - self._margin or len(self.models) >= most_models or not left.C < C < right.C:
                break
            heapq.heappop(chords)
            self.models[number] = clone(self._first).set_params(C=C)
            middle = self._solved(self.models[number], self._task, [left, right])
            yield from self._models(number, middle, names, train_score)
            least, ends = min(least, self._error(middle.scores, middle.scores)), [(left, middle), (middle, right)]
        self.bound = min(self.bound, least)

    def _error(self, low: np.ndarray, high: np.ndarray) -> float:
        """Return the mean share of samples of the splits that are wrong for all scores within bounds."""
        targets = self._task.targets
        if low.shape[1] == 1:
            wrong = np.where(targets > 0, high[:, 0] < 0, low[:, 0] > 0)
        else:
            labels, splits = np.maximum(targets, 0).astype(np.int64), np.arange(len(low))[:, None]
            others, rows = low.copy(), np.arange(len(targets))
            others[splits, labels, rows] = -np.inf
            wrong = others.max(axis=1) > high[splits, labels, rows]
        return float((wrong * self._share).sum())

    # --- chords ---------------------------------------------------------------------------------------------

    def pieces(self, left: Solved, right: Solved) -> Iterator[tuple[tuple, np.ndarray, np.ndarray]]:
        """Yield the interval of C of each piece of a chord, and bounds of the scores of all rows for all C in it."""
        k, shares, loss, ends = len(self._task.balance), np.linspace(0, 1, _PIECES + 1), self._loss, []
        for end in (left, right):
            problem = self._problem(end.C)
            dual = feasible(loss, problem.demands, end.dual.astype(np.float64))
            scores, position = end.scores.reshape(k, -1), problem.weighted_sum(dual, self.pool)
            ends.append((end.C, end.weights, scores, dual, position))

        def at(t: float) -> list:
            return [(1 - t) * a + t * b for a, b in zip(*ends, strict=True)]

        gaps, losses = np.empty((len(shares), k)), np.zeros((len(shares), k))
        for j, t in enumerate(shares):
            C, weights, scores, dual, position = at(t)
            some = self._problem(C)
            primal_losses(loss, some.demands, 0, np.ascontiguousarray(scores), losses[j])
            primal = losses[j] + some.penalty(weights)
            gaps[j] = primal + some.conjugates(dual) + some.penalty(position) + ROUNDING * primal
            losses[j] /= C
        steps = (right.C - left.C) / _PIECES
        gaps = np.maximum(gaps[:-1], gaps[1:]) + steps * np.maximum(losses[:-1] - losses[1:], 0.0) / 4
        reach = np.sqrt(2 * np.maximum(gaps, 0.0))[:, :, None]
        sizes = self._sizes(self._problem(left.C), (ends[0][2], ends[1][2]), reach.max(axis=0))
        for (a, b), each in zip(pairwise(shares), reach, strict=True):
            (first, _, one, *_), (last, _, other, *_) = at(a), at(b)
            low, high = np.minimum(one, other) - each * sizes, np.maximum(one, other) + each * sizes
            yield (first, last), low.reshape(left.scores.shape), high.reshape(left.scores.shape)

    def _problem(self, C: float) -> LinearProblem:
        return problem_of(clone(self._first).set_params(C=C), self._task, self._loss)

    def _sizes(self, problem: LinearProblem, ends: tuple[np.ndarray, np.ndarray], reach: np.ndarray) -> np.ndarray:
        """Return the lengths of the rows in the metric of each score, shape (n_scores, n)."""
        width, k = problem.source.shape[1] + 1, problem.n_scores
        norms = np.concatenate([block.sq_norms() for _, block in problem.source.blocks()])
        sizes = np.repeat(np.sqrt(norms + problem.constant**2)[None], k, axis=0)
        tuning = current_tuning().linear
        if not np.isfinite(problem.loss.curvature) or width > tuning.shared_features + 1:
            return sizes
        (targets, costs), low, high = targets_and_costs(problem.demands), np.minimum(*ends), np.maximum(*ends)
        for _ in range(_SIZES):
            room = reach * sizes
            curvatures = costs.T * _least_curvatures(problem.loss, low - room, high + room, targets.T)
            models = [empty_model(np.arange(width), len(norms)) for _ in range(k)]
            for c, model in enumerate(update_models(problem, models, curvatures, self.pool, tuning)):
                try:
                    factor = cholesky(model.hessian + np.eye(width), lower=True)
                except LinAlgError:  # rounding errors hide the identity
                    continue
                for start, block in problem.source.blocks():
                    for a, b in spans(block.shape[0], PIECE_ROWS):
                        rows = solve_triangular(factor, problem.dense(block.slice(a, b), width).T, lower=True)
                        sizes[c, start + a : start + b] = np.sqrt(np.einsum("ji,ji->i", rows, rows))
        return sizes


def _least_curvatures(loss: Loss, low: np.ndarray, high: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the least second derivatives of a loss between bounds of the scores."""
    if isinstance(loss, LOSSES["log_loss"]):
        share = expit(np.maximum(high, -low))
        return np.asarray(share * (1 - share))
    return loss.curvature * (np.where(targets > 0, high, -low) < 1)
