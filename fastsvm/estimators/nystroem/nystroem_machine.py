"""What kernel machines of landmarks have in common: the course of a fit, and sums of kernel values."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.fitting.validation import (
    Attributes,
    Rule,
    Samples,
    boolean,
    check_rows,
    either,
    one_of,
    optional,
)
from fastsvm.estimators.kernel.kernel_parameter import Standardization
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.estimators.linear.base_linear_svm import BaseLinearSVM, demands_of
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.estimators.linear.training_task import Task, distinct
from fastsvm.estimators.nystroem.exact_bounds import DualExpansion, Machine, exact_bounds
from fastsvm.estimators.nystroem.landmarks import (
    LANDMARK_RULES,
    ROWS,
    Chosen,
    LandmarkEstimator,
    choose,
    stored_features,
)
from fastsvm.losses import Loss
from fastsvm.memory import parse_memory, threads_within
from fastsvm.sources import Source, SubsetSource, is_stored
from fastsvm.tuning import NystroemTuning, current_tuning

_FOLDER = Rule(lambda value: isinstance(value, str), "the path of a folder")
_RULES = {
    "landmarks": either(one_of("uniform", "rpcholesky", "support"), ROWS),
    "bounds": boolean,
    "scratch_folder": optional(_FOLDER),
}
_OF_EXACT_MACHINES = "C", "epsilon", "kernel", "degree", "coef0"


class _Learning(NamedTuple):
    """What a fit knows until it ends; `left` bytes may be used."""

    chosen: Chosen
    task: Task
    loss: Loss
    left: int


def _shuffled(task: Task, budget: int, tuning: NystroemTuning) -> tuple[Task, np.ndarray, np.ndarray]:
    """Return the task of the rows in an order that mixes classes, and their numbers; few rows are the distinct ones.

    Features of a file that is sorted by class would take up to three times as many epochs. Places in the order of rows
    in memory come last: landmarks are drawn by them, so that they are the same.
    """
    source, rng = task.source, np.random.default_rng(0)
    if source.resident:
        most = current_tuning().linear.small_values
        places, weights = distinct(task, most) or (np.arange(len(task.weights)), task.weights)
        order = rng.permutation(len(places))
        turns = np.arange(len(places)) if tuning.mixed else order
        places, weights = (places[order], weights[order]) if tuning.mixed else (places, weights)
        size = int(np.clip(budget // source.tuning.block_share // source.row_bytes, 1, source.block_rows))
    else:
        turns, places, size = rng.permutation(len(source)), np.arange(len(source)), source.block_rows
        if tuning.mixed:
            # Of a file more rows are held at once than of an array, so that even little memory mixes some.
            most = budget // source.tuning.window_share // source.row_bytes
            source, places, size = _mixed(source, most, rng, tuning.runs)
        turns, weights = np.argsort(places)[turns], task.weights[places]
    subset = SubsetSource(source, places)
    subset.block_rows = size
    return task._replace(source=subset, targets=task.targets[places], weights=weights), places, turns


def _mixed(source: Source, most: int, rng: np.random.Generator, n_runs: int) -> tuple[Source, np.ndarray, int]:
    """Return rows of a file, an order that mixes distant runs of them, and the number of rows that are mixed at once.

    A pass in this order reads each run once: some rows, or a chunk. About `most` rows are mixed.
    """
    size = int(np.clip(most // n_runs, 1, source.block_rows))
    source = source.in_blocks(size * source.row_bytes)
    runs = list(source.spans())
    count = int(np.clip(most // source.block_rows, 1, n_runs))
    share = -(-len(runs) // count)  # of the file, from which a run is drawn each time
    turns = np.concatenate([rng.permutation(share) for _ in range(count)])[: len(runs) - 1]
    chosen = np.append(np.argsort(turns, kind="stable"), len(runs) - 1)  # the last may be shorter
    groups = [np.concatenate([np.arange(*runs[k]) for k in chosen[a:b]]) for a, b in spans(len(chosen), count)]
    return source, np.concatenate([rng.permutation(group) for group in groups]), count * source.block_rows


class NystroemMachine(LandmarkEstimator, BaseLinearSVM):
    """Learns on features of the samples, which their kernel values with the landmarks determine.

    The class attributes are what linear machines have as parameters.

    Parameters
    ----------
    landmarks : {"uniform", "rpcholesky", "support"} or array-like of shape (n_landmarks, n_features), \
default="uniform"
        Landmarks are samples of positive weight, drawn without replacement, or by randomly pivoted Cholesky
        factorisation among 16 times as many as landmarks, or fewer if the memory asks for it. "support" draws them
        among the support vectors of an exact machine of 10 times as many samples, at least 2,000. An array holds the
        landmarks themselves; `n_components` is ignored.
    intercept_scaling : float, default=1.0
        Value s of a constant feature. The intercept is its weight times this value. It is penalised like all weights;
        the larger the value, the less. The kernel is then K + s².
    max_iter : int, default=1000
        Largest number of epochs, which are passes over the features.
    max_time : float or None, default=None
        Time limit of a fit in seconds. Landmarks and features come first, and are not cut short.
    memory : "auto", int or str, default="auto"
        Memory that the fit may use: bytes, or a size such as "2GB". "auto" is half of what is available. If half of it
        holds the features as float32, or else as float16, they stay in memory, else they are float16 in a scratch file.
        Samples in memory do not count.
    scratch_folder : str or None, default=None
        Folder of the scratch file, which takes two bytes for each sample and landmark, and is removed when the fit
        ends. None is the folder of temporary files.
    bounds : bool, default=False
        Whether to compute `exact_bounds_`. That takes a kernel value for each pair of support vectors.
    warm_start : bool, default=False
        Begin the next fit at the dual variables of the last, if the numbers of samples and classes are the same.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (1, n_landmarks)
        Coefficients of the kernel values with the landmarks.
    objective_ : float
        ½‖w‖² + C Σ loss on the features as they are stored, that of the constant feature among the weights,
        summed over the classes one against the rest, or the pairs.
    exact_bounds_ : tuple of float
        With `bounds`, lower and upper bound of the optimum of the kernel problem, in which all samples are landmarks.
        The upper one is the objective of this model there.

    References
    ----------
    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS. Zhang, Lan, Wang and
    Moerchen (2012), Scaling up kernel SVM on limited resources: a low-rank linearization approach, AISTATS. Chen,
    Epperly, Tropp and Webber (2024), Randomly pivoted Cholesky: practical approximation of a kernel matrix with few
    entry evaluations, Communications on Pure and Applied Mathematics 78. Hsieh, Chang, Lin, Keerthi and Sundararajan
    (2008), A dual coordinate descent method for large-scale linear SVM, ICML.
    """

    dual: str = "auto"
    criterion: str = "gap"
    window_visits: int = 1
    _merges_rows: ClassVar[bool] = False
    _exact_kind: ClassVar[type[KernelMachine]]
    _learning: _Learning

    def _own_rules(self) -> dict[str, Rule]:
        return LANDMARK_RULES | _RULES

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_landmark_kernel()

    # --- the course of a fit -----------------------------------------------------------------------------

    def _memory_left(self, enough: int) -> int:
        return self._learning.left

    def _fit(self, task: Task, loss: Loss, names: Attributes, session: FitSession) -> None:
        """Choose landmarks, compute features, and learn on them."""
        rng, memory = check_random_state(self.random_state), parse_memory(self.memory)
        budget, tuning = memory - task.source.held, current_tuning().nystroem
        task, places, turns = _shuffled(task, memory, tuning)
        with Pool.open(most=threads_within(self.memory)) as pool:
            used, supports = turns[task.weights[turns] > 0], partial(self._supports, task, budget)
            chosen = choose(self, task.source, used, rng, memory, pool, supports)
            self._learning = _Learning(chosen, task, loss, budget)
            try:
                with stored_features(self, task.source, chosen.features, budget, tuning) as features:
                    left = budget - (features.nbytes - features.stored_bytes)
                    self._learning = self._learning._replace(left=left)
                    names = names | self._landmark_attributes(chosen, places)
                    super()._fit(task._replace(source=features), loss, names, session)
            finally:
                del self._learning

    def _supports(self, task: Task, budget: int, rows: np.ndarray) -> np.ndarray:
        """Return the support vectors of the exact machine of some samples; none if all are of one class."""
        map_, targets, weights = Standardization.of_model(self), task.targets[rows], task.weights[rows]
        if task.of_classes:
            targets = (targets > 0 if len(task.balance) == 1 else targets).astype(np.int64)
            weights = weights if len(task.balance) == 1 else weights * task.balance[targets]
            if (targets == targets[0]).all():
                return rows[:0]
        seen = task.source if map_ is None else map_.apply(task.source)
        samples = seen.take(rows).in_memory().block.user_array()
        same = {name: value for name, value in self.get_params(deep=False).items() if name in _OF_EXACT_MACHINES}
        tol = max(self.tol, current_tuning().nystroem.support_tol)
        machine = self._exact_kind(**same, gamma=self._gamma, memory=budget // 2, tol=tol)
        return rows[machine.fit(samples, targets, weights).support_]

    def _for_rows_as_passed(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients of the landmarks for those of the features."""
        return coef @ self._learning.chosen.features.map.whitening, intercept

    def _shaped(self, coef: np.ndarray, intercept: np.ndarray) -> dict[str, np.ndarray]:
        return {"coef_": coef, "intercept_": intercept}

    def _conclude(self, weights: np.ndarray, dual: Callable[[], np.ndarray], pool: Pool) -> None:
        """Set the bounds of the optimum of the kernel problem, if they are asked for."""
        if not self.bounds:
            return
        now = self._learning
        features, source = now.chosen.features, now.task.source
        coef = weights[:, :-1] @ features.map.whitening
        constant = float(self.intercept_scaling) if self.fit_intercept else 0.0
        machine = Machine(features.landmarks, coef, weights[:, -1], constant, now.loss, features.map.square)
        here = DualExpansion(self, machine, source, demands_of(float(self.C), now.task), dual(), pool, now.left)
        self.exact_bounds_ = exact_bounds(here)

    # --- scores ------------------------------------------------------------------------------------------

    def _scores(self, X: Samples) -> np.ndarray:
        """Return the scores of samples, shape (n_samples, n_scores)."""
        check_is_fitted(self)
        source = check_rows(self, X, reset=False)
        with Pool.open(most=threads_within(self.memory)) as pool:
            coef = dense_coef(self)
            predictor = Predictor(self, coef.T, source, pool, self.components_, np.float64)
            decisions = np.empty((len(source), len(coef)))
            for start, some in predictor.decisions(source, self.intercept_, is_checked=not is_stored(X)):
                decisions[start : start + len(some)] = some
        return decisions
