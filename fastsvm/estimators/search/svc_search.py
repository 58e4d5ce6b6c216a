"""Search over the parameters of an SVC by cross-validation, whose fits share their kernel values."""

import time
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.validation import check_training_set, labels_of
from fastsvm.estimators.kernel.svc import SVC
from fastsvm.estimators.search.cv_results import SearchTable
from fastsvm.estimators.search.evaluation import SearchData, evaluate, row_numbers
from fastsvm.estimators.search.shared_fits import Split
from fastsvm.sources import is_stored

__all__ = ["SVCSearch"]


def _best_has(name: str) -> Callable[[Any], bool]:
    """Return whether the best model, or before the fit the estimator, has a method; if not, its own error is raised."""

    def check(search: "SVCSearch") -> bool:
        getattr(search.best_estimator_ if hasattr(search, "best_estimator_") else search._given(), name)
        return True

    return check


class SVCSearch(BaseEstimator):
    """Exhaustive search over parameters of an `SVC` by cross-validation, in a fraction of the time of its fits.

    Scores, best parameters and `cv_results_` are those of `sklearn.model_selection.GridSearchCV` with the same `SVC`;
    only a row whose decision value is within `tol` of 0 may be given to another class. But the kernel values of the
    training set are computed once for all fits with the same kernel, whatever their `C` and fold, and kept as far as
    the `memory` of the `SVC` allows; fits that differ in `C` alone begin where those with the `C` before ended; and
    test scores are sums of the same kernel values. Each fit meets its `tol`, with the certificate of every `SVC`.

    Fits share what they have in common if the `SVC` is exact and unlimited: solver "smo" or "coordinate" without
    `learning_rate`, `max_iter` or `max_time`, and a kernel that is not "precomputed". Others, those for which there is
    too little memory, and other estimators are fitted one by one.

    Parameters
    ----------
    estimator : SVC, estimator or None, default=None
        What is fitted, with the parameters that the grid leaves alone. None is `SVC()`.
    param_grid : dict or list of dict
        Values to try for each parameter by its name; of a list each grid is tried.
    cv : int, cross-validation generator, iterable or None, default=None
        Number of folds, stratified for a classifier; a splitter of scikit-learn; or pairs of row numbers to fit and to
        score. None is 5.
    scoring : str, callable, list, tuple, dict or None, default=None
        A score of scikit-learn by name, or `scoring(estimator, X, y)`; several by their names, for which `refit` names
        one if a best model is wanted. None is the estimator's own `score`.
    refit : bool, str or callable, default=True
        Whether a model with the best parameters is fitted to all rows; the name of the score that decides if there are
        several; or a function from `cv_results_` to the number of the best cell.
    verbose : bool, default=False
        Show progress, on a terminal.

    Attributes
    ----------
    cv_results_ : dict of str to ndarray
        One entry a cell, in the columns of `GridSearchCV`; `pandas.DataFrame(search.cv_results_)` is a table of it. The
        fit times of fits that share are equal parts of their time in all.
    best_params_ : dict
        Parameters of the best cell, the first of equal ones.
    best_score_ : float
        Its mean score over the splits. Not there if `refit` is a function.
    best_index_ : int
        Its number.
    best_estimator_ : estimator
        The model fitted to all rows, if `refit`.
    refit_time_ : float
        Seconds of that fit.
    scorer_ : callable or dict of str to callable
        What scores.
    n_splits_ : int
        Number of splits.
    multimetric_ : bool
        Whether there are several scores.
    classes_ : ndarray of shape (n_classes,)
        Labels of the best model.
    n_features_in_ : int
        Number of features of the best model.
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
    """

    def __init__(
        self,
        estimator: Any = None,
        param_grid: dict | list[dict] | None = None,
        *,
        cv: Any = None,
        scoring: Any = None,
        refit: bool | str | Callable = True,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.verbose = verbose

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: those of the estimator."""
        tags, given = super().__sklearn_tags__(), get_tags(self._given())
        tags.estimator_type, tags.classifier_tags = given.estimator_type, given.classifier_tags
        tags.regressor_tags = given.regressor_tags
        tags.input_tags.pairwise, tags.input_tags.sparse = given.input_tags.pairwise, given.input_tags.sparse
        return tags

    def _given(self) -> Any:
        return SVC() if self.estimator is None else self.estimator

    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **fit_params: Any) -> "SVCSearch":
        """Score all cells of the grid, and fit the best to all rows if `refit`.

        Parameters
        ----------
        X : as for `SVC.fit`, shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or None
            Labels. None takes those that come with an `HDF5Data`.
        groups : array-like of shape (n_samples,) or None
            Groups of rows, for splitters that keep them together.
        **fit_params : dict
            What the fits are given beside, such as `sample_weight`; arrays of an entry a row are split as the rows are.

        Returns
        -------
        SVCSearch
            The search itself.

        Raises
        ------
        ValueError
            If a parameter, a value in the grid or the data are not usable. All of the grid is looked at before the
            first fit.
        """
        cells, models = self._cells()
        scorer = self._scorer()
        rows = self._rows(X, labels_of(X, y), fit_params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self._given()))
        splits = [Split(*map(row_numbers, split)) for split in cv.split(rows.to_split(), y, groups)]
        if not splits:
            raise ValueError(f"cv={self.cv!r} gives no splits.")
        table = SearchTable(cells, len(splits))
        with tqdm(
            total=len(models) * len(splits), unit="fit", desc="SVCSearch", disable=None if self.verbose else True
        ) as bar:
            for cell, split, score, seconds in evaluate(models, rows, splits, scorer):
                table.note(cell, split, score, seconds)
                bar.update(1)
        self.multimetric_, self.n_splits_ = table.named, len(splits)
        self.scorer_ = self._scorers()
        self._choose(table, rows)
        self.cv_results_ = table.results()
        return self

    def _rows(self, X: Any, y: Any, fit_params: dict[str, Any]) -> SearchData:
        """Return rows and labels; those for an SVC are checked."""
        if not is_stored(X):
            X, y = indexable(X, y)
        if isinstance(self._given(), SVC):
            y = check_training_set(SVC(), X, y, fit_params.get("sample_weight")).y
        return SearchData(X, y, fit_params)

    # --- what is asked for ------------------------------------------------------------------------------------

    def _cells(self) -> tuple[list[dict], list[Any]]:
        """Return the cells of the grid and a model of each, not fitted, whose parameters are checked."""
        if self.param_grid is None:
            raise ValueError('param_grid is missing: pass values by name, such as {"C": [0.1, 1, 10]}.')
        cells = list(ParameterGrid(self.param_grid))
        if not cells:
            raise ValueError(f"param_grid={self.param_grid!r} has no cells.")
        models = [clone(self._given()).set_params(**clone(cell, safe=False)) for cell in cells]
        for cell, model in zip(cells, models, strict=True):
            if isinstance(model, SVC):
                try:
                    model._check_parameters()
                except ValueError as error:
                    raise ValueError(f"param_grid has a cell that cannot be fitted, {cell}: {error}") from error
        return cells, models

    def _scorer(self) -> Callable:
        """Return what scores a model: a number, or several by name."""
        if isinstance(self.scoring, (list, tuple, set, dict)):
            self._check_refit(list(self.scoring))
        return self.scoring if callable(self.scoring) else check_scoring(self._given(), self.scoring)

    def _scorers(self) -> Any:
        """Return the attribute `scorer_`: several are a dict."""
        if not isinstance(self.scoring, (list, tuple, set, dict)):
            return self._scorer()
        named = self.scoring if isinstance(self.scoring, dict) else dict.fromkeys(self.scoring)
        return {name: check_scoring(self._given(), given or name) for name, given in named.items()}

    def _check_refit(self, names: list[str]) -> None:
        if self.refit is not False and self.refit not in names and not callable(self.refit):
            raise ValueError(
                f"There are several scores: refit must name the one that decides, one of {names}, or be a function or "
                f"False. Got {self.refit!r} instead."
            )

    # --- what is found ----------------------------------------------------------------------------------------

    def _choose(self, table: SearchTable, rows: SearchData) -> None:
        """Note the best cell, and fit its model to all rows if asked to."""
        if table.named:
            self._check_refit(table.metrics)
        if not self.refit and table.named:
            return
        results = table.results()
        metric = self.refit if table.named else "score"
        if callable(self.refit):
            self.best_index_ = self.refit(results)
            if not isinstance(self.best_index_, Integral) or not 0 <= self.best_index_ < len(table.cells):
                raise ValueError(f"refit must return the number of a cell; it returned {self.best_index_!r}.")
        else:
            self.best_index_ = int(results[f"rank_test_{metric}"].argmin())
            self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
        self.best_params_ = table.cells[self.best_index_]
        if self.refit:
            model = clone(self._given()).set_params(**clone(self.best_params_, safe=False))
            begin = time.perf_counter()
            self.best_estimator_ = model.fit(rows.X, rows.y, **rows.fit_params)
            self.refit_time_ = time.perf_counter() - begin
            if hasattr(model, "feature_names_in_"):
                self.feature_names_in_ = model.feature_names_in_

    # --- the best model ---------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a search was completed."""
        return hasattr(self, "cv_results_")

    @property
    def classes_(self) -> np.ndarray:
        """Labels of the best model."""
        return self._best("classes_").classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features of the best model."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("SVCSearch has no n_features_in_: it has no fitted model.")
        return self.best_estimator_.n_features_in_

    def _best(self, name: str) -> Any:
        check_is_fitted(self)
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{name} needs a model fitted to all rows; refit={self.refit!r} makes none.")
        return self.best_estimator_

    @available_if(_best_has("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Return what the best model predicts.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._best("predict").predict(X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision values of the best model.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of float64
            Shape as that of the estimator.
        """
        return self._best("decision_function").decision_function(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the score of the best model, by `scoring`; of several the one that `refit` names.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or None
            Labels.

        Returns
        -------
        float
        """
        scorer = self.scorer_[self.refit] if isinstance(self.__dict__.get("scorer_"), dict) else None
        found = (scorer or self._scorer())(self._best("score"), X, y)
        return found[self.refit] if isinstance(found, dict) else found
