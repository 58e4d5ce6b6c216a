"""Scores of all cells of a grid search on all splits: first of fits that share kernel values, then of the others."""

import inspect
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.convergence_warnings import warn_caller
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.search.fold_models import may_share
from fastsvm.estimators.search.search_data import SearchData
from fastsvm.estimators.search.shared_fits import KernelGroup, SharedFits, Split
from fastsvm.memory import parse_memory, threads_within

__all__ = ["Rules", "Scored", "evaluate", "row_numbers"]


class Rules(NamedTuple):
    """How cells are scored.

    `scorer` returns a number, or a dict of several. `error_score` is the score of a fit that fails, or "raise". If
    `train_score`, training samples are scored too. `n_jobs` counts processes as joblib does, and `pre_dispatch` says
    how many tasks are sent to them in advance.
    """

    scorer: Callable
    error_score: float | str
    train_score: bool
    n_jobs: int | None
    pre_dispatch: int | str


class Scored(NamedTuple):
    """Scores of a fit. They are numbers, or dicts of several; None if the fit failed.

    `cell` and `split` are the numbers of the model and the split. `error` is the traceback of a fit that failed.
    """

    cell: int
    split: int
    test: Any
    train: Any
    fit_seconds: float
    score_seconds: float
    error: str = ""


def row_numbers(rows: Any) -> np.ndarray:
    """Return the row numbers of a split, given as numbers or as a mask."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def evaluate(models: list[Any], rows: SearchData, splits: list[Split], rules: Rules) -> Iterator[Scored]:
    """Fit and score all models on all splits; yield the scores in any order."""
    left = {(cell, k) for cell in range(len(models)) for k in range(len(splits))}
    for scored in _together(models, rows, splits, rules):
        left.remove((scored.cell, scored.split))
        yield scored
    told = _Told(_within_one_share(models, rules), rows, splits, rules)
    if _in_this_process(rules, len(left)):
        yield from (_fitted_and_scored(told, *place) for place in sorted(left))
    else:
        yield from _parallel(rules)(delayed(_fitted_and_scored)(told, *place) for place in sorted(left))


class _Told:
    """What all tasks of a search are told; an object of its own, so that a cluster sends it once to each worker."""

    def __init__(self, models: Any, rows: SearchData, splits: list[Split], rules: Rules, *more: Any) -> None:
        self.models, self.rows, self.splits, self.rules, self.more = models, rows, splits, rules, more

    def __sizeof__(self) -> int:
        """Return about the bytes, by which joblib's Dask backend decides and Dask counts."""
        return 2048 + getattr(self.rows.X, "nbytes", 0) + sum(rows.nbytes for split in self.splits for rows in split)


def _in_this_process(rules: Rules, n_tasks: int) -> bool:
    return n_tasks <= 1 or effective_n_jobs(rules.n_jobs) == 1


def _parallel(rules: Rules) -> Parallel:
    streams = getattr(get_active_backend()[0], "supports_return_generator", False)  # "multiprocessing" does not
    return_as = "generator_unordered" if streams else "list"
    return Parallel(n_jobs=rules.n_jobs, pre_dispatch=rules.pre_dispatch, return_as=return_as)


def _within_one_share(models: list[Any], rules: Rules) -> list[Any]:
    """Return the models; with several processes, those with `memory="auto"` get a share of the memory each."""
    n_jobs = effective_n_jobs(rules.n_jobs)
    if n_jobs == 1:
        return models
    automatic = [getattr(model, "memory", None) == "auto" for model in models]
    share = parse_memory("auto") // n_jobs
    return [clone(m).set_params(memory=share) if is_auto else m for m, is_auto in zip(models, automatic, strict=True)]


# --- fits that share kernel values -------------------------------------------------------------------------


def _together(models: list[Any], rows: SearchData, splits: list[Split], rules: Rules) -> Iterator[Scored]:
    """Yield the scores of fits that can share kernel values. A group of them is a task for a process."""
    models = _within_one_share(models, rules)
    sharing = {cell: clone(model) for cell, model in enumerate(models) if may_share(model)}
    if not sharing or not set(rows.fit_params) <= {"sample_weight"}:
        return
    checked = clone(next(iter(sharing.values())))
    data = checked._checked(rows.X, rows.y, rows.fit_params.get("sample_weight"))
    with Pool.open(most=threads_within(checked.memory)) as pool:
        fits = SharedFits(sharing, data, splits, pool)
        groups = _groups(fits, rules)
        if _in_this_process(rules, len(groups)):
            for group in groups:
                yield from _scores_of_group(fits, group, rows, checked, rules)
            return
    told = _Told(sharing, rows, splits, rules, data, checked)
    tasks = (delayed(_group_alone)(told, group) for group in groups)
    for scores in _parallel(rules)(tasks):
        yield from scores


def _groups(fits: SharedFits, rules: Rules) -> list[KernelGroup]:
    try:
        return fits.groups()
    except Exception:
        if rules.error_score == "raise":
            raise
        return []  # fits by themselves will tell which of them fail


def _group_alone(told: _Told, group: KernelGroup) -> list[Scored]:
    """Return the scores of a group, in a process of its own."""
    data, checked = told.more
    with Pool.open(most=threads_within(checked.memory)) as pool:
        fits = SharedFits(told.models, data, told.splits, pool)
        return list(_scores_of_group(fits, group, told.rows, checked, told.rules))


def _scores_of_group(
    fits: SharedFits, group: KernelGroup, rows: SearchData, checked: KernelMachine, rules: Rules
) -> Iterator[Scored]:
    """Yield the scores of a group, none of those after an error, which a fit by itself will meet again."""
    try:
        for part, model, seconds in fits.fit(group, rules.train_score):
            begin, split = time.perf_counter(), fits.splits[part.split]
            model.__dict__.update(vars(checked) | vars(model))  # number and names of features
            X, y = rows.to_score(model, split)
            model.know_test(X)
            test = _score(rules, model, X, y, rows.weight(split.test))
            train = None
            scored = time.perf_counter()
            if rules.train_score:
                X, y, _ = rows.to_fit(model, split)
                model.know_train(X)
                train = _score(rules, model, X, y, rows.weight(split.train))
            yield Scored(part.model, part.split, test, train, seconds, scored - begin)
    except Exception:
        if rules.error_score == "raise":
            raise


# --- fits by themselves ------------------------------------------------------------------------------------


def _fitted_and_scored(told: _Told, cell: int, k: int) -> Scored:
    """Fit and score a model on a split."""
    begin, rows, split, rules = time.perf_counter(), told.rows, told.splits[k], told.rules
    try:
        model = clone(told.models[cell])
        X, y, beside = rows.to_fit(model, split)
        model.fit(X, y, **beside) if y is not None else model.fit(X, **beside)
    except Exception:
        if rules.error_score == "raise":
            raise
        return Scored(cell, k, None, None, time.perf_counter() - begin, 0.0, traceback.format_exc())
    fitted = time.perf_counter()
    test = _score(rules, model, *rows.to_score(model, split), rows.weight(split.test))
    scored = time.perf_counter()
    train = _score(rules, model, X, y, rows.weight(split.train)) if rules.train_score else None
    return Scored(cell, k, test, train, fitted - begin, scored - fitted)


def _score(rules: Rules, model: Any, X: Any, y: Any, weight: Any) -> Any:
    """Return the score of a model; weights are passed to scorers that accept them, as in scikit-learn's searches."""
    beside = {} if weight is None or not _takes_weight(rules.scorer) else {"sample_weight": weight}
    try:
        found = rules.scorer(model, X, y, **beside) if y is not None else rules.scorer(model, X, **beside)
    except Exception as error:
        if rules.error_score == "raise":
            raise
        _warn_of_scoring(rules, str(error))
        return rules.error_score
    if not isinstance(found, dict):
        return _number(found)
    for name, value in found.items():  # a scorer of several scores returns the traceback of one that failed
        if isinstance(value, str):
            _warn_of_scoring(rules, value)
            found[name] = rules.error_score
    return {name: _number(value) for name, value in found.items()}


def _number(value: Any) -> Any:
    if np.ndim(value) != 0 or isinstance(value, str) or not isinstance(float(value), float):
        raise ValueError(f"scoring must return a number, or numbers by name; it returned {value!r}.")
    return value


def _warn_of_scoring(rules: Rules, error: str) -> None:
    warn_caller(
        f"Scoring failed. The score of this fit is set to {rules.error_score}. The error: {error}",
        UserWarning,
    )


def _takes_weight(scorer: Callable) -> bool:
    if hasattr(scorer, "_accept_sample_weight"):
        return scorer._accept_sample_weight()
    return inspect.isfunction(scorer) and "sample_weight" in inspect.signature(scorer).parameters
