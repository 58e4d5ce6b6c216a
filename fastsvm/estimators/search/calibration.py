"""Probabilities of classes, from decision values of samples that the fit has not seen.

Calibrators are those of scikit-learn. They get their decision values from an estimator that returns what it is given.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from typing import NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, PublicEstimator, documented, documented_by, parametrised
from fastsvm.estimators.fitting.predictions import Answer, Classifier
from fastsvm.estimators.fitting.session import drafted, lent, of_one_model, view_of
from fastsvm.estimators.fitting.validation import (
    Column,
    Rule,
    Samples,
    check_parameters,
    either,
    forget,
    number,
    one_of,
    optional,
)
from fastsvm.estimators.kernel.kernel_parameter import has_scaled_gamma
from fastsvm.estimators.kernel.machines.classifiers import SVC
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.search.evaluation import Rules, Scored, SearchData, evaluate
from fastsvm.estimators.search.out_of_fold import out_of_fold
from fastsvm.estimators.search.shared_fits import Split, may_share
from fastsvm.sources import of_open_file

METHODS = "sigmoid", "isotonic", "temperature"
"""How decision values become probabilities."""
OVR = 'pass decision_function_shape="ovr".'
SPLITS = Rule(
    lambda value: not isinstance(value, str) and (hasattr(value, "split") or isinstance(value, Iterable)),
    "a splitter, an iterable of splits",
)
_RULES = {
    "method": one_of(*METHODS),
    "cv": either(SPLITS, one_of("prefit"), optional(number(integral=True, least=2))),
    "n_jobs": optional(number(integral=True)),
}


# --- from decision values to probabilities -------------------------------------------------------------------


class DecisionValues(ClassifierMixin, BaseEstimator):
    """A classifier whose samples are decision values, a column for each class, or one for two classes."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Note the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the decision values."""
        return X[:, 0] if len(self.classes_) == 2 else X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the classes of the largest values, for which cross-validation asks."""
        return self.classes_[(X[:, 0] > 0).astype(np.intp) if len(self.classes_) == 2 else X.argmax(axis=1)]


class Calibration(NamedTuple):
    """The calibrators of some classes, in scikit-learn's estimator, whose classes are numbers."""

    classes: np.ndarray
    calibrated: CalibratedClassifierCV

    @classmethod
    def of(cls, method: str, decided: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> "Calibration":
        """Return the calibration by decision values of samples; those of weight 0, or without values, have no share."""
        values = decided.reshape(len(decided), -1)
        used = np.isfinite(values).all(axis=1) & (True if weight is None else weight > 0)
        classes, numbers = np.unique(y[used], return_inverse=True)
        n_columns = 1 if len(classes) == 2 else len(classes)
        if len(classes) < 2 or values.shape[1] != n_columns:
            raise ValueError(
                f"Samples of {len(classes)} classes have decision values, in {values.shape[1]} columns. Calibration "
                f"needs samples of each class, and a column for each, or one for two: {OVR}"
            )
        rows = np.arange(len(numbers))  # by one split, of which all are test samples, the values are taken as they are
        plain = CalibratedClassifierCV(DecisionValues(), method=method, ensemble=False, cv=[(rows, rows)])
        weights = None if weight is None else np.asarray(weight, np.float64)[used]
        plain.fit(values[used], numbers, weights).cv = None  # whose rows are as many as the samples
        return cls(classes, plain)

    def probabilities(self, decided: np.ndarray) -> np.ndarray:
        """Return the probabilities of the classes for decision values."""
        return np.asarray(self.calibrated.predict_proba(decided.reshape(len(decided), -1)))

    @property
    def calibrators(self) -> list[BaseEstimator]:
        """scikit-learn's calibrators: of each class, or one for two classes, or one of all with "temperature"."""
        return list(self.calibrated.calibrated_classifiers_[0].calibrators)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what each calibrator has learnt: a number or two, or the thresholds of its steps and their values."""
        names = _LEARNT[self.calibrated.method]
        learnt = [[getattr(each, name) for name in names] for each in self.calibrators]
        return {f"calibrator{k}": np.array(numbers, np.float64) for k, numbers in enumerate(learnt)}

    @classmethod
    def from_arrays(cls, method: str, classes: np.ndarray, arrays: dict[str, np.ndarray]) -> "Calibration":
        """Return the calibration of `arrays`; ones that do not fit raise ValueError."""
        k, names = len(classes), _LEARNT[method]
        made = cls.of(method, np.eye(k)[:, 1:] if k == 2 else np.eye(k), classes, None)
        if set(arrays) != set(made.arrays()):
            raise ValueError(f"the calibration has the arrays {sorted(arrays)}, not {sorted(made.arrays())}")
        for place, calibrator in enumerate(made.calibrators):
            learnt, is_steps = arrays[f"calibrator{place}"], method == "isotonic"
            shape = (2, learnt.shape[-1]) if is_steps and learnt.size else (len(names),)
            if learnt.shape != shape or learnt.dtype != np.float64 or not np.isfinite(learnt).all():
                raise ValueError(f"calibrator {place} has {learnt.dtype} of shape {learnt.shape}, or not finite")
            if not is_steps:
                vars(calibrator).update(zip(names, learnt.tolist(), strict=True))
            elif (np.diff(learnt, axis=1) < 0).any() or not 0 <= learnt[1, 0] <= learnt[1, -1] <= 1:
                raise ValueError(f"the steps of calibrator {place} must rise, to probabilities")
            else:
                calibrator.fit(*learnt)
        return made


_LEARNT = {"sigmoid": ("a_", "b_"), "temperature": ("beta_",), "isotonic": ("X_thresholds_", "y_thresholds_")}


# --- the estimator -----------------------------------------------------------------------------------------------


@documented
@parametrised
class CalibratedClassifier(PublicEstimator, Classifier, BaseEstimator):
    """A classifier with probabilities, calibrated by decision values of samples that its fit has not seen.

    The probabilities are those of `sklearn.calibration.CalibratedClassifierCV(estimator, ensemble=False)` with the same
    `method` and `cv`. The model is fitted to all samples. Its folds take less time than by themselves if it is an
    `SVC` or `NuSVC`: they begin at its solution, on the kernel rows that it has computed, and the steps leave the
    decision values of the samples that they have not seen. Folds then have the gamma of the model, also if it is
    "scale", which scikit-learn computes anew for each fold; it changed probabilities by less than 0.001 on small data.

    Folds are fitted by themselves if the estimator is another one, has `standardize`, `max_iter`, `max_time`,
    `learning_rate` or `solver="primal"`, or a kernel matrix, and for "isotonic" with `gamma="scale"`, as the steps of
    that depend on the order of the decision values.

    Parameters
    ----------
    estimator : SVC, NuSVC, LinearSVC, LogisticRegression, NystroemSVC, SGDClassifier or None, default=None
        Classifier with a `decision_function`. Of several classes, the values are those of
        `decision_function_shape="ovr"`, whatever it says. None is `SVC()`.
    method : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
        "sigmoid" is a logistic function of the decision value, "isotonic" a step function that never falls, which needs
        a thousand samples or more. Of several classes, each has its own, against the rest, and probabilities are
        divided by their sum. "temperature" has one number, by which all decision values are multiplied before a
        softmax.
    cv : int, cross-validation generator, iterable, "prefit" or None, default=None
        Number of folds, stratified, a splitter of scikit-learn, or pairs of arrays with the indices of training and
        test samples. None is 5. With "prefit", the estimator is a fitted one, which stays as it is, and X are samples
        that it has not seen. If several folds test a sample, its decision value is the mean; samples that none tests
        have no share.
    n_jobs : int or None, default=None
        Number of processes, by joblib, for folds that are fitted by themselves. None is 1, -1 is one for each
        processor.

    Attributes
    ----------
    estimator_ : estimator
        The model, whose decision values are calibrated.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    calibrators_ : list of estimators
        scikit-learn's calibrators, of each class, or one for two classes and for "temperature".
    oof_decision_ : ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
        Decision values of the samples by fits that have not seen them, nan where there are none. They are not stored in
        model files.

    References
    ----------
    Platt (1999), Probabilistic outputs for support vector machines, for "sigmoid". DeCoste and Wagstaff (2000), Alpha
    seeding for support vector machines, KDD, for where folds begin.

    Examples
    --------
    >>> from fastsvm import SVC, CalibratedClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedClassifier(SVC(C=10, gamma=0.1)).fit(X, y)
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    estimator: BaseEstimator | None = None
    _: KW_ONLY
    method: str = "sigmoid"
    cv: int | str | BaseCrossValidator | Iterable | None = None
    n_jobs: int | None = None

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: samples are taken as the estimator takes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._given()).input_tags
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "estimator_")

    def _given(self) -> BaseEstimator:
        return SVC() if self.estimator is None else self.estimator

    def _set_model(self, model: BaseEstimator, calibration: Calibration) -> None:
        """Set the attributes that a model and its calibration determine."""
        self.estimator_, self._calibration = model, calibration
        self.classes_, self.calibrators_ = model.classes_, calibration.calibrators
        of_samples = "n_features_in_", "feature_names_in_", "_origin"
        self.__dict__.update({name: getattr(model, name) for name in of_samples if hasattr(model, name)})

    def _check_parameters(self) -> BaseEstimator:
        """Return the given estimator; raise ValueError or TypeError for a parameter that is not usable."""
        check_parameters(self, _RULES)
        given = self._given()
        if not (is_classifier(given) and hasattr(given, "_checked") and hasattr(given, "decision_function")):
            raise TypeError(f"estimator must be a classifier of fastsvm, found {given!r}.")
        return given

    # --- the fit -------------------------------------------------------------------------------------------------

    @documented_by(Learning)
    @drafted
    @one_threaded_blas
    def fit(self, X: Samples, y: Column = None, sample_weight: Column = None, groups: Column = None) -> Self:
        """Fit the model to all samples, and calibrators to decision values of samples that a fit has not seen.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples, in the fits and in the calibration.
        groups : array-like of shape (n_samples,) or None
            Groups of samples, for splitters that use them.

        Raises
        ------
        ValueError
            If a fold lacks a class.
        TypeError
            If the estimator is no classifier of fastsvm.
        NotFittedError
            If `cv="prefit"`, and the estimator is not fitted.
        """
        given = self._check_parameters()
        is_prefit = isinstance(self.cv, str)
        if is_prefit:
            check_is_fitted(given)
        forget(self)
        X = of_open_file(X)
        data = clone(given)._checked(X, y, sample_weight)
        weight = data.weight if data.weighted else None
        model = view_of(given) if is_prefit else clone(given)
        if hasattr(model, "decision_function_shape"):  # of which a view has its own
            model.__dict__ = vars(model) | {"decision_function_shape": "ovr"}
        if is_prefit:
            decided = model.decision_function(X)
        else:
            rows = SearchData.of(X, data.y, {} if weight is None else {"sample_weight": weight})
            model, decided = self._out_of_fold(model, rows, groups)
        calibration = Calibration.of(self.method, decided, data.y, weight)
        if not np.array_equal(calibration.classes, model.classes_):
            raise ValueError(
                f"The samples of the calibration have the classes {calibration.classes.tolist()}, the model has "
                f"{model.classes_.tolist()}. Pass samples of each class, which some fold tests."
            )
        self._set_model(model, calibration)
        self.oof_decision_ = decided
        return self

    def _out_of_fold(self, model: BaseEstimator, rows: SearchData, groups: Column) -> tuple[BaseEstimator, np.ndarray]:
        """Fit the model to all samples, and return it, and decision values of the samples by its folds."""
        y = np.asarray(rows.y)
        cv = check_cv(self.cv, y, classifier=True)
        splits = [Split.of(*split) for split in cv.split(rows.to_split(), y, groups)]
        _check_classes(splits, y, rows.weight(np.arange(len(y))))
        alone = clone(model)
        is_machine = isinstance(model, KernelMachine) and may_share(model) and not model.standardize
        has_its_gamma = is_machine and (self.method != "isotonic" or not has_scaled_gamma(model))
        together = has_its_gamma and all(len(set(train.tolist())) == len(train) for train, _ in splits)
        decided: list[np.ndarray] = []
        checkpoints = vars(self).get("_checkpoints", (None, None))
        with lent(model, _checkpoints=checkpoints, _held_out=(splits if together else [], decided)):
            model.fit(rows.X, rows.y, **rows.fit_params)
        rules = Rules(lambda *samples: 0.0, "raise", False, self.n_jobs, "2*n_jobs", len(model.classes_))
        fits: Iterable[Scored] = [Scored(0, k, 0.0, None, 0.0, 0.0, decided=values) for k, values in enumerate(decided)]
        if not together:
            fits = evaluate([alone], rows.loaded(alone), splits, rules)
        return model, np.asarray(out_of_fold(fits, splits, len(y)))  # there are some, as each fold has all classes

    # --- predictions ---------------------------------------------------------------------------------------------

    def _decided_by(self, X: Samples, *forms: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        check_is_fitted(self)
        return self.estimator_._decided_by(X, *forms)

    def _as_decisions(self, decisions: np.ndarray) -> np.ndarray:
        return self.estimator_._as_decisions(decisions)

    def _probabilities(self, decisions: np.ndarray) -> np.ndarray:
        return self._calibration.probabilities(self._as_decisions(decisions))

    def _labels(self, decisions: np.ndarray) -> np.ndarray:
        return self.classes_[self._probabilities(decisions).argmax(axis=1)]

    @documented_by(Answer)
    @of_one_model
    def predict_proba(self, X: Samples) -> np.ndarray:
        """Return the probabilities of the classes.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Probabilities in the order of `classes_`, which sum to 1.
        """
        return self._decided_by(X, self._probabilities)[0]


def _check_classes(splits: list[Split], y: np.ndarray, weight: np.ndarray | None) -> None:
    """Raise ValueError if the training samples of a split lack a class."""
    used = np.ones(len(y), bool) if weight is None else weight > 0
    classes = np.unique(y[used])
    if not splits:
        raise ValueError("cv gives no splits.")
    for k, split in enumerate(splits):
        lacking = np.setdiff1d(classes, y[split.train][used[split.train]]).tolist()
        if lacking:
            raise ValueError(
                f"The training samples of fold {k} have no sample of class {lacking[0]!r}. Take fewer folds, or "
                "stratified ones, or leave the class out."
            )
