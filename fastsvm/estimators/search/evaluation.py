"""Scores of all cells of a grid search on all splits: first of fits that share kernel values, then of the others."""

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.model_selection._validation import _score
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from fastsvm._compiled.compilations import work_clock
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.validation import Column, Samples, TrainingSet
from fastsvm.estimators.search.linear_paths import LinearPaths, may_follow
from fastsvm.estimators.search.shared_fits import KernelGroup, SharedFits, Split, may_share
from fastsvm.memory import parse_memory, threads_within
from fastsvm.sources import as_source, is_stored

Score: TypeAlias = float | dict[str, float] | None
"""A number, or several by name; None where none was wanted."""


class Rules(NamedTuple):
    """How cells are scored; `n_jobs` and `pre_dispatch` are those of joblib."""

    scorer: Callable  # It returns a number, or a dict of several.
    error_score: float | str  # It is the score of a fit that fails, or "raise".
    train_score: bool
    n_jobs: int | None
    pre_dispatch: int | str
    kept_classes: int | None = None  # Decision values are kept of models of so many classes, 0 for those without.


class Scored(NamedTuple):
    """Scores of the fit of a model, `cell`, on a split, named as in scikit-learn."""

    cell: int
    split: int
    test_scores: Score
    train_scores: Score
    fit_time: float
    score_time: float
    fit_error: str | None = None  # It is a traceback.
    decided: np.ndarray | None = None  # Decision values of the test samples, or predictions of a regressor.


class SearchData(NamedTuple):
    """Samples, labels and further arguments of `fit`, as the user passed them."""

    X: Samples
    y: np.ndarray | None
    fit_params: dict[str, object]

    @classmethod
    def of(cls, X: Samples, y: Column, fit_params: dict[str, object]) -> "SearchData":
        """Return the data in a form that rows can be taken of."""
        X, y = (X, y) if is_stored(X) else indexable(X, y)
        return cls(X, y, fit_params)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return _num_samples(self.to_split())

    def part(self, model: BaseEstimator, rows: np.ndarray) -> "SearchData":
        """Return some of the samples."""
        cut = {name: self._cut(value, rows) for name, value in self.fit_params.items()}
        return SearchData(*self._of(model, rows, rows), cut).loaded(model)

    def loaded(self, model: BaseEstimator) -> "SearchData":
        """Return the samples in memory, if they are in a file and take at most a quarter of the memory of a fit."""
        if not is_stored(self.X):
            return self
        source = as_source(self.X)
        if 4 * source.nbytes > parse_memory(getattr(model, "memory", "auto")):
            return self
        return self._replace(X=source.loaded())

    def block(self) -> Samples:
        """Return the samples as the user passed them, or as an array if they are in a file."""
        return as_source(self.X).read(0, self.n_samples).user_array() if is_stored(self.X) else self.X

    def to_split(self) -> Samples:
        """Return the samples for a splitter; for samples in a file, an array of the same length without columns."""
        return np.empty((len(as_source(self.X)), 0)) if is_stored(self.X) else self.X

    def to_fit(self, model: BaseEstimator, split: Split) -> tuple[Samples, np.ndarray | None, dict[str, object]]:
        """Return training samples, labels and further arguments of `fit`."""
        cut = {name: self._cut(value, split.train) for name, value in self.fit_params.items()}
        return *self._of(model, split.train), cut

    def to_score(self, model: BaseEstimator, split: Split) -> tuple[Samples, np.ndarray | None]:
        """Return test samples and labels; a precomputed kernel matrix keeps the columns of the training set only."""
        return self._of(model, split.test, split.train)

    def weight(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the weights of some samples, None if there are none."""
        weight = self.fit_params.get("sample_weight")
        return None if weight is None else self._cut(weight, rows)

    def _of(
        self, model: BaseEstimator, rows: np.ndarray, columns: np.ndarray | None = None
    ) -> tuple[Samples, np.ndarray | None]:
        if is_stored(self.X):
            return as_source(self.X).take(rows), None if self.y is None else np.asarray(self.y)[rows]
        return _safe_split(model, self.X, self.y, rows, columns)

    def _cut(self, value: Column, rows: np.ndarray) -> Column:
        """Return the entries of these rows if `value` has one entry for each row, else `value`."""
        whole = hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and np.ndim(value) > 0
        return np.asarray(value)[rows] if whole and len(value) == self.n_samples else value


def evaluate(models: list[BaseEstimator], rows: SearchData, splits: list[Split], rules: Rules) -> Iterator[Scored]:
    """Fit and score all models on all splits; yield the scores in any order."""
    left = {(cell, k) for cell in range(len(models)) for k in range(len(splits))}
    for sharing, kind in ((may_share, SharedFits), (may_follow, LinearPaths)):
        for scored in _together(models, rows, splits, rules, (sharing, kind)):
            left.remove((scored.cell, scored.split))
            yield scored
    common = _Common(dict(enumerate(_within_one_share(models, rules))), rows, splits, rules)
    if _in_this_process(rules, len(left)):
        yield from (_fitted_and_scored(common, *place) for place in sorted(left))
    else:
        yield from _parallel(rules)(delayed(_fitted_and_scored)(common, *place) for place in sorted(left))


@dataclass(eq=False)
class _Common:
    """What all tasks of a search need; an object of its own, so that a cluster sends it once to each worker."""

    models: dict[int, BaseEstimator]
    rows: SearchData
    splits: list[Split]
    rules: Rules
    data: TrainingSet | None = None
    checked: BaseEstimator | None = None

    def __sizeof__(self) -> int:
        """Return about the bytes, by which joblib's Dask backend decides and Dask counts."""
        return 2048 + getattr(self.rows.X, "nbytes", 0) + sum(rows.nbytes for split in self.splits for rows in split)


def _in_this_process(rules: Rules, n_tasks: int) -> bool:
    return n_tasks <= 1 or effective_n_jobs(rules.n_jobs) == 1


def _parallel(rules: Rules) -> Parallel:
    streams = getattr(get_active_backend()[0], "supports_return_generator", False)  # "multiprocessing" does not
    return_as = "generator_unordered" if streams else "list"
    return Parallel(n_jobs=rules.n_jobs, pre_dispatch=rules.pre_dispatch, return_as=return_as)


def _within_one_share(models: list[BaseEstimator], rules: Rules) -> list[BaseEstimator]:
    """Return the models; with several processes, those with `memory="auto"` get a share of the memory each."""
    n_jobs = effective_n_jobs(rules.n_jobs)
    if n_jobs == 1:
        return models
    automatic = [getattr(model, "memory", None) == "auto" for model in models]
    share = parse_memory("auto") // n_jobs
    return [clone(m).set_params(memory=share) if is_auto else m for m, is_auto in zip(models, automatic, strict=True)]


# --- fits that share kernel values, or passes over the samples ---------------------------------------------


def _together(
    models: list[BaseEstimator], rows: SearchData, splits: list[Split], rules: Rules, way: tuple[Callable, type]
) -> Iterator[Scored]:
    """Yield the scores of fits that can share work in some way. A group with one kernel is a task for a process."""
    (may, kind), here = way, rules._replace(n_jobs=1) if way[1] is LinearPaths else rules
    models = _within_one_share(models, here)
    sharing = {cell: clone(model) for cell, model in enumerate(models) if may(model)}
    if not sharing or not set(rows.fit_params) <= {"sample_weight"}:
        return
    checked = clone(next(iter(sharing.values())))
    data = checked._checked(rows.X, rows.y, rows.fit_params.get("sample_weight"))
    with Pool.open(most=threads_within(checked.memory)) as pool:
        fits = kind(sharing, data, splits, pool)
        try:
            groups = fits.groups()
        except Exception:
            if rules.error_score == "raise":
                raise
            return  # fits by themselves will tell which of them fail
        if _in_this_process(here, len(groups)):
            for batch in fits.batches(groups):
                yield from scored_groups(fits, batch, rows, checked, rules)
            return
    common = _Common(sharing, rows, splits, rules, data, checked)
    tasks = (delayed(_group_alone)(common, group) for group in groups)
    for scores in _parallel(rules)(tasks):
        yield from scores


def _group_alone(common: _Common, group: KernelGroup) -> list[Scored]:
    """Return the scores of a group, in a process of its own."""
    data, checked = common.data, common.checked
    assert data is not None and checked is not None
    with Pool.open(most=threads_within(checked.memory)) as pool:
        fits = SharedFits(common.models, data, common.splits, pool)
        return list(scored_groups(fits, [group], common.rows, checked, common.rules))


def scored_groups(fits: Any, groups: list, rows: SearchData, checked: BaseEstimator, rules: Rules) -> Iterator[Scored]:
    """Yield the scores of groups; of one, none of those after an error, which a fit by itself will meet again."""
    is_begun, tests = False, {}
    try:
        for part, model, seconds in fits.fit(groups, rules.train_score):
            begin, split, is_begun = work_clock(), fits.splits[part.split], True
            model.__dict__.update(vars(checked) | vars(model))  # number and names of features
            if part.split not in tests:
                tests[part.split] = rows.to_score(model, split)
            X, y = tests[part.split]
            model.decided = X, model.of_test
            test, decided = _scored(rules, model, X, y, rows.weight(split.test)), _decided(rules, model, X)
            train = None
            scored = work_clock()
            if rules.train_score:
                X, y, _ = rows.to_fit(model, split)
                model.decided = X, model.of_train
                train = _scored(rules, model, X, y, rows.weight(split.train))
            yield Scored(part.model, part.split, test, train, seconds, scored - begin, decided=decided)
    except Exception:
        if rules.error_score == "raise":
            raise
        for group in groups if len(groups) > 1 and not is_begun else ():
            yield from scored_groups(fits, [group], rows, checked, rules)


# --- fits by themselves ------------------------------------------------------------------------------------


def _fitted_and_scored(common: _Common, cell: int, k: int) -> Scored:
    """Fit and score a model on a split."""
    begin, rows, split, rules = work_clock(), common.rows, common.splits[k], common.rules
    try:
        model = clone(common.models[cell])
        X, y, beside = rows.to_fit(model, split)
        model.fit(X, y, **beside) if y is not None else model.fit(X, **beside)
    except Exception:
        if rules.error_score == "raise":
            raise
        score, seconds = float(rules.error_score), work_clock() - begin
        return Scored(cell, k, score, score, seconds, 0.0, traceback.format_exc())
    fitted = work_clock()
    X_test, y_test = rows.to_score(model, split)
    test = _scored(rules, model, X_test, y_test, rows.weight(split.test))
    scored, decided = work_clock(), _decided(rules, model, X_test)
    train = _scored(rules, model, X, y, rows.weight(split.train)) if rules.train_score else None
    return Scored(cell, k, test, train, fitted - begin, scored - fitted, decided=decided)


def _decided(rules: Rules, model: BaseEstimator, X: Samples) -> np.ndarray | None:
    """Return decision values, or the predictions of a regressor; None if none are kept, or the model has none."""
    form = model.predict if is_regressor(model) else getattr(model, "decision_function", None)
    if form is None or len(getattr(model, "classes_", ())) != rules.kept_classes:
        return None
    return np.asarray(form(X), np.float64)


def _scored(rules: Rules, model: BaseEstimator, X: Samples, y: np.ndarray | None, weight: np.ndarray | None) -> Score:
    """Return the score of a model; weights are passed to scorers that accept them, as in scikit-learn's searches."""
    scorer = rules.scorer
    if hasattr(scorer, "_accept_sample_weight"):
        takes_weight = scorer._accept_sample_weight()
    else:
        takes_weight = inspect.isfunction(scorer) and "sample_weight" in inspect.signature(scorer).parameters
    beside = {"sample_weight": weight} if weight is not None and takes_weight else {}
    return _score(model, X, y, scorer, beside, rules.error_score)
