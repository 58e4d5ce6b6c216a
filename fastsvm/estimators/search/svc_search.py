"""Grid search with cross-validation for kernel machines; fits share their kernel values."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import BaseCrossValidator, GridSearchCV, ParameterGrid, check_cv
from sklearn.model_selection._search import _search_estimator_has
from sklearn.model_selection._validation import _insert_error_scores, _warn_or_raise_about_fit_failures
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from fastsvm._compiled.compilations import work_clock
from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, PublicEstimator, documented, documented_by, parametrised
from fastsvm.estimators.fitting.predictions import Answer
from fastsvm.estimators.fitting.session import drafted
from fastsvm.estimators.fitting.validation import (
    Column,
    Rule,
    Samples,
    boolean,
    check_parameters,
    either,
    labels_of,
    number,
    one_of,
    optional,
)
from fastsvm.estimators.kernel.machines.classifiers import SVC
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.search.automatic import Journal, automatic_grid, walk
from fastsvm.estimators.search.calibration import METHODS, OVR, SPLITS, Calibration
from fastsvm.estimators.search.certified import certified, check_certifiable
from fastsvm.estimators.search.evaluation import Rules, Score, SearchData, evaluate
from fastsvm.estimators.search.out_of_fold import OutOfFold, out_of_fold
from fastsvm.estimators.search.shared_fits import Split
from fastsvm.estimators.search.walk import AXES
from fastsvm.messages import tell
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import MemorySource, check_finite, columns_of, of_open_file

_RULES = {
    "cv": either(SPLITS, optional(number(integral=True, least=2))),
    "n_jobs": optional(number(integral=True)),
    "error_score": either(one_of("raise"), Rule(lambda value: isinstance(value, Real), "a number")),
    "return_train_score": boolean,
    "calibration": optional(one_of(*METHODS)),
    "guarantee": optional(number(above=0)),
    "max_cells": number(integral=True, least=1),
}


def _has_probabilities(search: GridSearchCV) -> bool:
    """Return whether a search has probabilities: with `calibration`, or those of its estimator."""
    return search.calibration is not None or _search_estimator_has("predict_proba")(search)


@documented
@parametrised
class SVCSearch(PublicEstimator, GridSearchCV):
    """Search with cross-validation for the parameters of an `SVC`, whose fits share their kernel values.

    Without `param_grid`, it chooses the values of C and gamma itself. With it, it is a grid search.

    So do the fits of `SVR`, `NuSVR`, `NuSVC` and `OneClassSVM`. Scores, best parameters and `cv_results_` agree with
    `sklearn.model_selection.GridSearchCV` with the same estimator. Only samples whose decision value is within `tol` of
    0 may get another class, and decision values are as near to each other as `tol` allows. The search is faster for
    three reasons. Kernel values of the training set are computed once for all fits with the same kernel, and cached
    within the `memory` of the estimator. A fit starts from the solution for the next smaller `C` or `nu`, and from its
    gradient. Test scores use the same kernel values. Each fit meets its `tol`, of the kernel values that are cached.

    Fits share kernel values if the solver is "smo" or "coordinate", there is no `learning_rate`, `max_iter` or
    `max_time`, and the kernel is not "precomputed". Linear machines without `standardize`, `max_time`, `warm_start` and
    balanced classes are fitted on all splits at once, in the same passes over the samples, of files too. All others are
    fitted one by one, and so are fits for which the memory is too small, or whose parameters do not suit their split.

    A search that chooses values begins with coarse steps: C of 1/4 to 64, and gamma of 1/8 to 8 times the inverse of
    the median squared distance of samples. It moves to better cells by factors of 16, 4 and 2 in C, of 8, 2.8 and 1.7
    in gamma. It ends when half a step promises less than a standard error of the score. From 3,200 samples on, the
    first steps take a quarter of them, or less, and the best cells go on to all.

    Parameters
    ----------
    estimator : SVC, SVR, NuSVR, NuSVC, OneClassSVM, estimator or None, default=None
        Estimator to fit. It sets the parameters that are not in the grid. None is `SVC()`.
    param_grid : dict, list of dict or None, default=None
        Values to try, by parameter name. Of a list, all grids are tried. Instead of a list of values, a dict may have
        "auto" for C, gamma, epsilon, nu and alpha, also as parameters of the last step of a pipeline, such as
        `{"svc__C": "auto"}`. None is "auto" for all of these that the estimator has. Without an estimator, the search
        also tries `standardize=True`, if some features are more than twice as large as others.
    cv : int, cross-validation generator, iterable or None, default=None
        Number of folds (stratified for a classifier), a splitter of scikit-learn, or pairs of arrays with the indices
        of training and test samples. None is 5.
    scoring : str, callable, list, tuple, dict or None, default=None
        Name of a score of scikit-learn, or a function `scoring(estimator, X, y)`. With several scores, `refit` names
        the one that selects the best model. None is the estimator's own `score`.
    refit : bool, str or callable, default=True
        Whether to fit a model with the best parameters to all samples. With several scores, the name of the one that
        selects the best. A function gets `cv_results_` and returns the index of the best cell. "one_standard_error"
        takes the simplest cell within a standard error of the best: the least C (largest nu, alpha), then gamma.
    n_jobs : int or None, default=None
        Number of processes, by joblib. All fits with the same kernel values are one task. None is 1, in which each fit
        uses all threads; -1 is one for each processor.
    pre_dispatch : int or str, default="2*n_jobs"
        Number of tasks that are sent to processes in advance, as in `joblib.Parallel`.
    error_score : "raise" or float, default=nan
        Score of a fit that fails, which is warned of. Parameters are checked before the first fit in any case.
    return_train_score : bool, default=False
        Whether `cv_results_` has scores of the training samples.
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default=None
        How decision values of the best model become probabilities, as the `method` of `CalibratedClassifier`; from
        `oof_decision_`, without more fits. Of several classes it needs `decision_function_shape="ovr"`.
    guarantee : float or None, default=None
        Prove that no C within the range of `param_grid` has an error, one minus the mean accuracy, lower by more than
        this than the best, such as 0.001 for a tenth of a point. Values of C are added until the proof is complete. For
        a `LinearSVC` or `LogisticRegression` with penalty "l2", and a grid of C alone. Its fits have a `tol` of 1e-9.
    max_cells : int, default=100
        Largest number of values of C with `guarantee`, or as many as the `memory` of the estimator holds.

    Attributes
    ----------
    cv_results_ : dict of str to ndarray
        One entry for each cell of the grid, in the columns of `GridSearchCV`. `pandas.DataFrame` makes a table of it.
        If the search chose values, "n_resources" is the number of samples from which a cell has its scores; best is
        the best of all samples.
        Fits that share kernel values have equal fit times, whose sum is the time that all of them took.
    best_params_ : dict
        Parameters of the best cell; of equally good cells, the first.
    best_score_ : float
        Mean test score of the best cell. Missing if `refit` is a function.
    best_score_error_ : float
        Standard error of `best_score_`, by the scores of the splits.
    best_at_edge_ : dict of str to str
        Parameters whose best value is the "least" or "largest" of three or more: beyond it may be a better one.
    guaranteed_error_ : float
        With `guarantee`: what is proved. No C of the range has a lower error, for exact fits.
    oof_decision_ : ndarray of shape (n_samples,) or (n_samples, n_classes), or None
        Decision values of the best cell, or predictions of a regressor, each by a fit that has not seen the sample. The
        mean of several, if several splits test it; nan if none does. None if a split lacks a class, or the estimator
        has no `decision_function`. Missing if `refit` is False.
    best_index_ : int
        Index of the best cell.
    best_estimator_ : estimator
        Model with the best parameters, fitted to all samples. Missing if `refit` is False.
    refit_time_ : float
        Time of that fit in seconds.
    scorer_ : callable or dict of str to callable
        Scoring functions.
    n_splits_ : int
        Number of splits.
    multimetric_ : bool
        Whether there are several scores.
    classes_ : ndarray of shape (n_classes,)
        Labels of the best model.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them, and `refit`.

    Examples
    --------
    >>> from fastsvm import SVC, SVCSearch
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SVCSearch(SVC(), {"C": [0.1, 1, 10], "gamma": [0.01, 0.1]}).fit(X, y)
    >>> search.best_params_
    {'C': 1, 'gamma': 0.1}
    >>> search.predict(X[:2])
    array([0, 0])
    >>> sorted(SVCSearch().fit(X, y).best_params_)
    ['C', 'gamma', 'standardize']
    """

    _journal: Journal | None = None  # of a job, whose walk goes on after an interruption

    estimator: BaseEstimator | None = None
    param_grid: dict | list[dict] | None = None
    _: KW_ONLY
    cv: int | BaseCrossValidator | Iterable | None = None
    scoring: str | Callable | list | tuple | dict | None = None
    refit: bool | str | Callable = True
    n_jobs: int | None = None
    pre_dispatch: int | str = "2*n_jobs"
    error_score: float | str = np.nan
    return_train_score: bool = False
    calibration: str | None = None
    verbose: bool | int = False
    guarantee: float | None = None
    max_cells: int = 100

    @property
    def n_features_in_(self) -> int:
        """Number of features of the best model."""
        return int(super().n_features_in_)

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: those of the estimator."""
        return self._plain().__sklearn_tags__()

    def _given(self) -> BaseEstimator:
        return SVC() if self.estimator is None else self.estimator

    def _plain(self) -> GridSearchCV:
        """Return scikit-learn's search with the same parameters."""
        given = self.get_params(deep=False) | {"estimator": self._given()}
        return GridSearchCV(**{name: given[name] for name in given.keys() - {"calibration", "guarantee", "max_cells"}})

    @documented_by(Learning)
    @drafted
    @one_threaded_blas
    def fit(self, X: object, y: object = None, *, groups: object = None, **fit_params: object) -> "SVCSearch":
        """Score all cells of the grid. If `refit`, fit the best one to all samples.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or None
            Labels or targets. None takes those that come with an `HDF5Data`; `OneClassSVM` needs none, but `scoring`
            may.
        groups : array-like of shape (n_samples,) or None
            Groups of samples, for splitters that use them.
        **fit_params : dict
            Further arguments of `fit`, such as `sample_weight`. Arrays with an entry for each sample are split like X.

        Raises
        ------
        ValueError
            If a value in the grid is invalid. The whole grid is checked before the first fit.
        """
        check_parameters(self, _RULES)
        if self.calibration is not None and not (self.refit and hasattr(self._given(), "decision_function")):
            raise ValueError(f"calibration={self.calibration!r} needs a classifier with decision values, and refit.")
        self._check_shape(self._given())
        grid = automatic_grid(self.estimator, self._given(), self.param_grid)
        cells, models = ([], []) if grid is not None else self._cells()
        X = of_open_file(X)
        rows = self._rows(X, labels_of(X, y), fit_params)
        n_classes = len(np.unique(np.asarray(rows.y))) if is_classifier(self._given()) else 0
        rules = Rules(
            self._plain()._get_scorers()[0], self.error_score, self.return_train_score, self.n_jobs, self.pre_dispatch,
            n_classes if self.refit else None,
        )  # fmt: skip
        cv = check_cv(self.cv, rows.y, classifier=is_classifier(self._given()))
        splits = [Split.of(*split) for split in cv.split(rows.to_split(), rows.y, groups)]
        if not splits:
            raise ValueError(f"cv={self.cv!r} gives no splits.")
        if self.guarantee is not None:
            check_certifiable(self, models, rows)
        loaded = rows.loaded(self._given())
        chosen, more = None, {}
        metric = self.refit if isinstance(self.refit, str) and self.refit != "one_standard_error" else "score"
        decided = OutOfFold(splits, metric)
        begin = work_clock()
        with progress_bar(shown=self.verbose, total=len(models) * len(splits), unit="fit", desc="SVCSearch") as bar:
            if grid is not None:
                cells, fits, chosen, n_samples = walk(
                    self._given(), grid, loaded, splits, rules, decided, bar, self._journal
                )
                more = {"n_resources": n_samples}
            elif self.guarantee is not None:
                path, found = certified(models, loaded, splits, rules, (self.guarantee, self.max_cells))
                fits = [decided.take(fit) for fit in found]
                cells = [{"C": model.C} for model in path.models.values()]
                self.guaranteed_error_ = path.bound
            else:
                fits = []
                for fit in evaluate(models, loaded, splits, rules):
                    fits.append(decided.take(fit))
                    bar.update(1)
        spent = work_clock() - begin
        scored = [fit._asdict() for fit in sorted(fits, key=lambda fit: fit[:2])]
        if grid is None or all(fit["fit_error"] for fit in scored):  # else the user did not choose what failed
            _warn_or_raise_about_fit_failures(scored, self.error_score)
        _insert_error_scores(scored, self.error_score)
        score, self.n_splits_, self.scorer_ = scored[0]["test_scores"], len(splits), self._scorers()
        self.multimetric_ = isinstance(score, dict)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of scores that are not finite
            results = self._format_results(cells, len(splits), scored, more)
        self._choose(results, score, rows, chosen)
        self.cv_results_ = results
        if self.verbose:
            best = f"; best: {self.best_params_}" if hasattr(self, "best_params_") else ""
            tell(f"SVCSearch: {len(cells)} cells, {len(fits)} fits, {spent:.3g} s{best}")
        if self.refit:
            self.oof_decision_ = decided.of(self.best_index_, rows.n_samples)
            if decided.best not in (None, self.best_index_):  # a function may choose another one
                model = clone(self._given()).set_params(**clone(self.best_params_, safe=False))
                self.oof_decision_ = out_of_fold(evaluate([model], loaded, splits, rules), splits, rows.n_samples)
        if self.calibration is not None:
            self._check_shape(self.best_estimator_)
            if self.oof_decision_ is None:
                raise ValueError("There are no decision values to calibrate: a split lacks a class.")
            y = np.asarray(rows.y)
            weight = rows.weight(np.arange(len(y)))
            self._calibration = Calibration.of(self.calibration, self.oof_decision_, y, weight)
        return self

    @available_if(_has_probabilities)
    @documented_by(Answer)
    def predict_proba(self, X: Samples) -> np.ndarray:
        """Return the probabilities of the classes by the best model, with `calibration` by its decision values.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Probabilities in the order of `classes_`. The most probable class may be another one than `predict` elects.
        """
        if self.calibration is None:
            return super().predict_proba(X)
        return self._calibration.probabilities(self.decision_function(X))

    def _rows(self, X: Samples, y: Column, fit_params: dict[str, object]) -> SearchData:
        """Return samples and labels, checked if the estimator is a kernel machine, and weights that come with X."""
        X, y, _ = SearchData.of(X, y, {})
        weight = columns_of(X).sample_weight if fit_params.get("sample_weight") is None else None
        if weight is not None and has_fit_parameter(self._given(), "sample_weight"):
            fit_params = fit_params | {"sample_weight": weight}  # which samples of a split, a source, come without
        if isinstance(self._given(), KernelMachine):
            data = clone(self._given())._checked(X, y, fit_params.get("sample_weight"))
            y = data.y if self._given().has_targets else y
            if isinstance(data.source, MemorySource):
                check_finite(data.source.block, 0)
        return SearchData(X, y, fit_params)

    # --- grid and scores ------------------------------------------------------------------------------------

    def _check_shape(self, model: BaseEstimator) -> None:
        """Raise ValueError if decision values that are to be calibrated are those of pairs of classes."""
        parameters = model.get_params().items()
        shapes = [value for name, value in parameters if name.endswith("decision_function_shape")]
        if self.calibration is not None and "ovo" in shapes:
            raise ValueError(f"calibration={self.calibration!r} needs decision values of classes, not of pairs: {OVR}")

    def _cells(self) -> tuple[list[dict], list[BaseEstimator]]:
        """Return the cells of the grid and an unfitted model for each, with valid parameters."""
        cells = list(ParameterGrid(self.param_grid))
        if not cells:
            raise ValueError(f"param_grid={self.param_grid!r} has no cells.")
        models = [clone(self._given()).set_params(**clone(cell, safe=False)) for cell in cells]
        for cell, model in zip(cells, models, strict=True):
            if isinstance(model, KernelMachine):
                try:
                    model._check_parameters()
                except ValueError as error:
                    raise ValueError(f"param_grid has a cell that cannot be fitted, {cell}: {error}") from error
        return cells, models

    def _scorers(self) -> Callable | dict[str, Callable]:
        """Return the attribute `scorer_`, a dict if there are several scores."""
        scorers, _ = self._plain()._get_scorers()
        return getattr(scorers, "_scorers", scorers)

    # --- results ----------------------------------------------------------------------------------------

    def _choose(self, results: dict[str, Column], score: Score, rows: SearchData, chosen: int | None) -> None:
        """Set the attributes of the best cell, which a walk has `chosen`, and fit its model; `score` is of some fit."""
        metric: bool | str | Callable = "score"
        if isinstance(score, dict):
            self._check_refit_for_multimetric(score)
            metric = self.refit
        if self.refit or metric:
            if self.refit == "one_standard_error":
                chosen = _simplest(results)
            elif chosen is None or callable(self.refit):
                chosen = int(self._select_best_index(self.refit, metric, results))
            self.best_index_ = chosen
            self.best_params_ = results["params"][self.best_index_]
            self.best_at_edge_ = _edges(results["params"], self.best_params_)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
                each = [results[f"split{k}_test_{metric}"][self.best_index_] for k in range(self.n_splits_)]
                self.best_score_error_ = float(np.std(each, ddof=1) / len(each) ** 0.5) if len(each) > 1 else np.nan
        if self.refit:
            model = clone(self._given()).set_params(**clone(self.best_params_, safe=False))
            begin = work_clock()
            self.best_estimator_ = model.fit(rows.X, rows.y, **rows.fit_params)
            self.refit_time_ = work_clock() - begin
            if hasattr(model, "feature_names_in_"):
                self.feature_names_in_ = model.feature_names_in_


def _simplest(results: dict[str, Column]) -> int:
    """Return the index of the simplest cell within a standard error of the best of all that have all samples."""
    each = np.array([results[name] for name in results if name.startswith("split") and name.endswith("_test_score")])
    size = np.asarray(results.get("n_resources", np.zeros(each.shape[1])))
    mean = np.where((size == size.max()) & np.isfinite(each).all(axis=0), each.mean(axis=0), -np.inf)
    best = int(mean.argmax())
    error = np.std(each[:, best], ddof=1) / len(each) ** 0.5 if len(each) > 1 else 0.0

    def closeness(cell: int) -> list[float]:
        """Return how closely a cell fits its samples, by one parameter after another; then how bad it is."""
        values = {name.rpartition("__")[2]: value for name, value in results["params"][cell].items()}
        known = [(axis.factor, values[name]) for name, axis in AXES.items() if isinstance(values.get(name), Real)]
        return [float(value) if factor > 1 else -float(value) for factor, value in known] + [-mean[cell]]

    return int(min(np.flatnonzero(mean >= mean[best] - error).tolist(), key=closeness))


def _edges(cells: list[dict], best: dict) -> dict[str, str]:
    """Return which parameters of the best cell have the least or the largest of all their values, if these are many."""
    tried = {name: {cell[name] for cell in cells if isinstance(cell.get(name), Real)} for name in best}
    ends = {name: (min(values), max(values)) for name, values in tried.items() if len(values) > 2}
    return {
        name: "least" if best[name] == low else "largest" for name, (low, _) in ends.items() if best[name] in ends[name]
    }
