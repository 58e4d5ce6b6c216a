"""Checks of parameters, and of the data passed to `fit`, `predict` and `score`: samples, labels and weights."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

import h5py
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from fastsvm._compiled.compiler import writeable
from fastsvm.memory import parse_memory
from fastsvm.sources import (
    MemorySource,
    Origin,
    Source,
    as_source,
    check_compressed,
    check_finite,
    columns_of,
    is_stored,
    of_open_file,
    read_column,
)
from fastsvm.sources.hdf5 import place_of

Attributes: TypeAlias = dict[str, Any]
"""Fitted attributes of an estimator, or its parameters, by name."""
Samples: TypeAlias = Any
"""What a user passes as samples: array-like, CSR matrix, DataFrame, dataset or group of h5py, HDF5Data or Source."""
Column: TypeAlias = Any
"""What a user passes as labels, targets or weights, one a sample: array-like, dataset of h5py, or None."""

STATISTICS = 6
"""Numbers of each feature that are in memory while means and variances are computed."""
_BESIDE = 16 << 20  # A fit may take so many bytes beyond its memory, as machine code does.
_MISSING = "NAType", "NaTType"  # types of pandas, which need not be installed
# Programs match on the words of scikit-learn's messages, so these contain them.
_ONE_WITH_WEIGHT = ". Invalid input - all samples with positive weights belong to the same class (sample_weight)."
# What to pass instead of objects of packages that need not be installed.
_ANSWERS = {
    "polars.LazyFrame": "a LazyFrame, which has no rows yet; pass fastsvm.open(X) or X.collect()",
    "anndata.AnnData": "an AnnData; pass X.X, or of a backed one fastsvm.open(X.filename), and the labels as y",
    "anndata.CSRDataset": "a matrix of a backed AnnData; pass fastsvm.open(adata.filename), and the labels as y",
}
_PLAIN_KINDS = np.ndarray, sparse.csr_matrix, sparse.csr_array
_PLAIN_TYPES = [np.dtype(kind) for kind in (np.float64, np.float32, np.uint8)]


# --- parameters ----------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """What a parameter must be: a test, and the words for it as text or as what has them when it is printed."""

    holds: Callable[[object], bool]
    words: object


def number(
    *,
    integral: bool = False,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> Rule:
    """Return the rule of a finite number, of at least `least` or above `above`, at most `most` or below `below`."""
    words = ("an int" if integral else "a finite number") + (f" of at least {least}" if least is not None else "")
    words += f" above {above}" if above is not None else ""
    words += f" and at most {most}" if most is not None else ""
    words += f" and below {below}" if below is not None else ""

    def holds(value: Any) -> bool:
        return (
            _is_finite(value, integral)
            and (least is None or value >= least)
            and (above is None or value > above)
            and (most is None or value <= most)
            and (below is None or value < below)
        )

    return Rule(holds, words)


def _is_finite(value: object, integral: bool) -> bool:
    try:
        if type(value) is int or (type(value) is float and not integral):  # whose abstract classes take long to ask
            return math.isfinite(value)
        kind = Integral if integral else Real
        return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def one_of(*names: str) -> Rule:
    """Return the rule of a name from a list."""
    return Rule(lambda value: isinstance(value, str) and value in names, "one of " + ", ".join(map(repr, names)))


def optional(rule: Rule) -> Rule:
    """Return the rule that None passes too."""
    return Rule(lambda value: value is None or rule.holds(value), f"None or {rule.words}")


def either(*rules: Rule) -> Rule:
    """Return the rule that is met if one of `rules` is."""
    return Rule(lambda value: any(rule.holds(value) for rule in rules), " or ".join(str(rule.words) for rule in rules))


boolean = Rule(lambda value: type(value).__name__ in ("bool", "bool_"), "a bool")


def _is_seed(value: object) -> bool:
    try:
        if isinstance(value, Integral):  # of which to construct a generator takes as long as a small fit
            return 0 <= int(value) < 2**32
        check_random_state(value)
    except ValueError:
        return False
    return True


NU = Rule(number(above=0, most=1).holds, "a float in the range (0.0, 1.0]")
"""The rule of a parameter ν."""

_RULES = {
    "C": number(above=0),
    "break_ties": boolean,
    "decision_function_shape": one_of("ovr", "ovo"),
    "epsilon": number(least=0),
    "fit_intercept": boolean,
    "max_time": optional(number(above=0)),
    "nu": NU,
    "random_state": Rule(_is_seed, f"None, an int from 0 to {2**32 - 1} or a numpy.random.RandomState"),
    "standardize": boolean,
    "tol": number(above=0),
    "verbose": either(boolean, number(integral=True, least=0)),
    "warm_start": boolean,
}
"""The rules of parameters by name, unless an estimator has another one."""


def check_parameters(estimator: BaseEstimator, rules: dict[str, Rule]) -> None:
    """Raise the error of `check_rules` for a parameter that breaks its rule, or the one of all estimators."""
    check_rules(estimator, {name: rule for name, rule in _RULES.items() if hasattr(estimator, name)} | rules)


def check_rules(estimator: BaseEstimator, rules: dict[str, Rule]) -> None:
    """Raise scikit-learn's InvalidParameterError, a ValueError, for the first parameter that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.holds(value):
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {rule.words}. Got {value!r} instead."
            )


# --- samples, labels and weights -----------------------------------------------------------------------------


class TrainingSet(NamedTuple):
    """Samples, labels and weights of equal length; samples are not yet checked for NaN and infinity."""

    source: Source
    y: np.ndarray
    weight: np.ndarray  # They are not negative, and ones unless `weighted`.
    weighted: bool
    stored: Source | None = None  # It reads `source` in each pass, if that was read from a file.


def labels_of(X: Samples, y: Column) -> Column:
    """Return the labels: y, the contents of a dataset y, or those of an `HDF5Data` or an open file X if y is None."""
    if y is None:
        return columns_of(X).y
    if isinstance(y, (h5py.Group, h5py.Datatype)):
        raise TypeError(f"y is {y!r}, which has no values; pass a dataset.")
    return read_column(y) if isinstance(y, h5py.Dataset) else y


def required_labels(X: Samples, y: Column) -> Column:
    """Return the labels as `labels_of` does; raise ValueError if there are none."""
    y = labels_of(X, y)
    if y is None:
        raise ValueError("score needs y: it was not passed, and X does not contain labels.")
    return y


def forget(estimator: BaseEstimator) -> None:
    """Delete all fitted attributes of a draft, so that the new model has no part of the one before."""
    for name in [name for name in vars(estimator) if name[-1] == "_" != name[0]]:
        delattr(estimator, name)


def check_rows(estimator: BaseEstimator, X: Samples, *, reset: bool) -> Source:
    """Return the source of X; set (`reset`) or check the features of the estimator. X to predict must be finite."""
    if (answer := _ANSWERS.get(f"{type(X).__module__.partition('.')[0]}.{type(X).__name__.lstrip('_')}")) is not None:
        raise TypeError(f"X is {answer}.")
    if isinstance(X, (h5py.SoftLink, h5py.ExternalLink, h5py.HardLink)):
        raise TypeError(f"X is an HDF5 link, {X!r}; pass the dataset or group that it points to, such as file[name].")
    if reset:
        vars(estimator).pop("_origin", None)
    if _is_plain(estimator, X, reset):
        estimator.n_features_in_ = X.shape[1]
        stored = MemorySource.of(X)
        if not reset:
            check_finite(stored.block, 0)
        return stored
    if not is_stored(X):
        if sparse.issparse(X):
            _check_convertible(X)
        _check_unmasked("X", X)
        _check_columns(X)
        rows = check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, estimator=estimator)
        stored = MemorySource.of(_plain(rows))
        if not reset:
            check_finite(stored.block, 0)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return stored
    source = as_source(X)
    if source.shape[0] == 0 or source.shape[1] == 0:
        where, path = place_of(X) if isinstance(X, (h5py.Dataset, h5py.Group)) else "X", columns_of(X).path
        where = where if path is None else f"X in {path}"
        raise ValueError(
            f"{where} is empty: its shape is {source.shape}. It needs at least one sample and one feature."
        )
    if reset:
        estimator.n_features_in_ = source.shape[1]
        if source.origin != Origin():
            estimator._origin = source.origin
        if source.feature_names is not None:
            estimator.feature_names_in_ = source.feature_names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif source.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {source.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    else:
        _check_feature_names(estimator, source)
        _check_first_index(origin_of(estimator), source.origin)
    return source if reset else source.within(parse_memory(estimator.memory))


def _is_plain(estimator: BaseEstimator, X: Samples, reset: bool) -> bool:
    """Return whether scikit-learn's checks would find nothing in X; they take as long as a small fit."""
    if type(X) not in _PLAIN_KINDS or X.ndim != 2 or X.dtype not in _PLAIN_TYPES or 0 in X.shape:
        return False
    if hasattr(estimator, "feature_names_in_"):
        return False
    return reset or X.shape[1] == estimator.n_features_in_


def _check_feature_names(estimator: BaseEstimator, source: Source) -> None:
    """Raise ValueError if both the fit and stored samples have names of features, and the names differ."""
    of_fit, names = getattr(estimator, "feature_names_in_", None), source.feature_names
    if of_fit is None or names is None or np.array_equal(of_fit, names):
        return
    place = int(np.flatnonzero(of_fit != names)[0])
    reordered = " Their order must be the same." if sorted(of_fit) == sorted(names) else ""
    raise ValueError(
        "The feature names should match those that were passed during fit. "
        f"Feature {place} is {names[place]!r}, in the fit it was {of_fit[place]!r}.{reordered}"
    )


def origin_of(estimator: BaseEstimator) -> Origin:
    """Return what is known of the text or table that an estimator was fitted to."""
    return getattr(estimator, "_origin", Origin())


def _check_first_index(fit: Origin, of_X: Origin) -> None:
    """Raise ValueError if features of svmlight text seem to be shifted by one against those of the fit."""
    if None in (fit.first_index, of_X.first_index) or fit.first_index == of_X.first_index:
        return
    if not of_X.sure:
        raise ValueError(
            f"The first feature of the fit has the index {fit.first_index}, that of X was taken to have the index "
            f"{of_X.first_index}. Convert its svmlight text again with first_index={fit.first_index} or "
            f"first_index={of_X.first_index}, whichever is right."
        )
    if not fit.sure:
        raise ValueError(
            f"The first feature of X has the index {of_X.first_index}, that of the fit was taken to have the index "
            f"{fit.first_index}. Read the svmlight text of the fit again with first_index={of_X.first_index} or "
            f"first_index={fit.first_index}, whichever is right."
        )


def _check_columns(X: Samples) -> None:
    """Raise TypeError for a column of a DataFrame that holds times, and ValueError for one that holds words."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        for place, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
            # Times have no type in common with numbers; polars makes whole numbers of them without being asked.
            if getattr(kind, "kind", "") in ("M", "m") or (hasattr(kind, "is_temporal") and kind.is_temporal()):
                raise TypeError(
                    f"Column {name!r} of X holds times ({kind}), not numbers. Convert it to numbers or drop it."
                )
            if getattr(kind, "kind", "") == "O" and hasattr(X, "iloc"):
                _check_words(name, np.asarray(X.iloc[:, place], object))


def _check_words(name: object, column: np.ndarray) -> None:
    """Raise ValueError for the first word in a column of objects that is not a number."""
    try:
        column.astype(np.float64)
    except ValueError:
        for row, value in enumerate(column):
            if isinstance(value, str) and not _is_number(value):
                raise ValueError(
                    f"Column {name!r} of X holds {value!r} at row {row}: could not convert string to float. Encode it, "
                    "for example with sklearn.preprocessing.OneHotEncoder, or drop it."
                ) from None
    except TypeError:  # no words: scikit-learn's check says what is wrong
        pass


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _check_convertible(X: Samples) -> None:
    """Raise ValueError if the indices of a sparse matrix are out of range: SciPy would write outside of its arrays."""
    if X.format == "csc":
        check_compressed(X, *X.shape[::-1])
    elif X.format == "coo":
        for axis, (places, n) in enumerate(zip(X.coords, X.shape, strict=True)):
            if len(places) != len(X.data) or (len(places) and not 0 <= places.min() <= places.max() < n):
                span = f"from {places.min()} to {places.max()}" if len(places) else "none"
                raise ValueError(
                    f"The COO matrix is damaged: it has {len(places)} indices along axis {axis} for {len(X.data)} "
                    f"values; they range {span}, the largest allowed is {n - 1}."
                )


def _plain(X: Samples) -> Samples:
    """Return X as real numbers of at most 8 bytes; complex numbers raise ValueError, times TypeError."""
    dtype = X.dtype
    if dtype.kind in "Mm":
        raise TypeError(f"X holds times ({dtype}), not numbers. Convert them to numbers.")
    if dtype.kind == "b":
        return X.astype(np.uint8)
    if dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers.")
    if dtype.kind == "f" and dtype.itemsize > 8:
        return X.astype(np.float64)
    return X


def check_training_set(
    estimator: BaseEstimator,
    X: Samples,
    y: Column,
    sample_weight: Column,
    *,
    of_classes: bool = True,
    has_targets: bool = True,
    reset: bool = True,
) -> TrainingSet:
    """Return samples, labels (targets unless `of_classes`, zeros without `has_targets`) and weights."""
    if isinstance(X, (str, PathLike)):
        raise TypeError(f"X is the path {X}; pass fastsvm.open({str(X)!r}).")
    X = of_open_file(X)
    stored_with = columns_of(X)
    y = labels_of(X, y) if has_targets else ()
    name = "sample_weight"
    if sample_weight is None and stored_with.path is not None:
        sample_weight, name = stored_with.sample_weight, f"sample_weight of {stored_with.path}"
    if isinstance(sample_weight, h5py.Dataset):
        sample_weight = sample_weight[:]
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None"
            + ("." if stored_with.path is None else f"; {stored_with.path} has no dataset 'y'.")
        )
    source, stored = check_rows(estimator, X, reset=reset), None
    share = source.tuning.loaded_share
    memory = parse_memory(estimator.memory, share * source.stored_bytes)
    if source.stored_bytes > memory // share:
        source = source.within(memory)
    elif source.stored_bytes > 0:  # before all else, so that a fit does the same as with samples in memory
        source, stored = source.loaded(), source
    if has_targets and not of_classes and np.asarray(y).dtype.kind in "SU":
        raise ValueError(f"y holds strings; {type(estimator).__name__} needs numbers. Use a classifier for classes.")
    y = _checked_labels(y, of_classes) if has_targets else np.zeros(len(source))
    if len(y) != len(source):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {[len(source), len(y)]}. X has "
            f"{len(source)}, y has {len(y)}."
        )
    targets = y if of_classes else writeable(y)
    weight = writeable(_weights(sample_weight, len(y), name))
    return TrainingSet(source, targets, weight, sample_weight is not None, stored)


def _checked_labels(y: Column, of_classes: bool) -> np.ndarray:
    """Return y as a one-dimensional array of classes, or of finite numbers."""
    if of_classes and type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu" and y.size > 0:
        return y  # `encode` counts the classes
    if not of_classes and type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iuf" and y.size > 0:
        # scikit-learn's checks would find nothing, and take as long as a small fit.
        return _finite(y.astype(np.float64, copy=False), of_classes)
    _check_unmasked("y", y)
    kind = None if of_classes else np.float64
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=kind, ensure_all_finite=False), warn=True)
    _finite(y, of_classes)
    if of_classes:
        _check_labelled(y)
        check_classification_targets(y)
    return y


def _finite(y: np.ndarray, of_classes: bool) -> np.ndarray:
    """Return y; raise ValueError if a number is not finite."""
    low, high = (0.0, 0.0) if of_classes else (float(y.min()), float(y.max()))
    is_close = math.isfinite(high - low)
    if (of_classes or not is_close) and y.dtype.kind == "f" and not np.isfinite(y).all():
        words = "labels must name classes" if of_classes else "targets must be finite numbers"
        raise ValueError(f"Input y contains NaN or infinity; {words}.")
    if not is_close:
        raise ValueError(
            f"The targets range from {low:g} to {high:g}, so that their differences overflow. Divide them by a "
            "constant."
        )
    return y


def check_squares(y: np.ndarray) -> None:
    """Raise ValueError for finite targets whose squares overflow; so would the squared weights of a linear machine."""
    with np.errstate(over="ignore"):
        is_finite = bool(np.isfinite(np.square(y).sum()))
    if not is_finite:
        raise ValueError(
            f"The targets are as large as {np.abs(y).max():g}, so that their squares overflow. Divide them, and "
            "epsilon, by a constant."
        )


def check_columns(memory: int | str, n_features: int, copies: int, n_scores: int = 1) -> None:
    """Raise ValueError if memory does not hold `copies` numbers of each feature and score, before they are there."""
    once = 8 * n_scores * n_features
    needed = copies * once
    allowed = parse_memory(memory, enough=needed)
    if once > allowed or needed > allowed + _BESIDE:
        scores = "" if n_scores == 1 else f" of {n_scores} scores"
        raise ValueError(
            f"X has {n_features:,} features, and what a fit has of each{scores} would take {needed / 1e9:.4g} GB, "
            f"and memory allows {allowed / 1e9:.4g} GB. If an index in the samples is too large by mistake, correct "
            "it; else raise memory."
        )


def _weights(sample_weight: Column, n: int, name: str) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    if sparse.issparse(sample_weight):
        raise TypeError(f"{name} must be an array, found a sparse matrix.")
    _check_unmasked(name, sample_weight)
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}.") from error
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        if weight.ndim != 1:
            raise ValueError(f"Sample weights must be 1D array or scalar, got {weight.ndim}D array.")
        raise ValueError(f"{name}.shape == {weight.shape}, expected {(n,)}! There is one weight for each sample of X.")
    if not np.isfinite(weight).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(f"Negative values in {name}: {weight[row]} at sample {row}; weights must be at least 0.")
    if not weight.any():
        raise ValueError(
            f"All entries of {name} are zero. Sample weights must contain at least one non-zero number. "
            "Invalid input - all samples have zero or negative weights."
        )
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if not n * np.finfo(np.float64).tiny <= total < np.inf:
        raise ValueError(f"The entries of {name} sum to {total}; rescale them to about 1.")
    return weight


# --- classes -------------------------------------------------------------------------------------------------


def encode(y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted labels of samples of positive weight, and the class number of each, -1 for weight 0."""
    used = weight > 0
    values = y[used]
    classes = np.unique(values)
    if 2 * len(classes) > len(y):
        check_classification_targets(y)  # which warns that there are many classes
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
            + (_ONE_WITH_WEIGHT if len(np.unique(y)) > 1 else ".")
        )
    labels = np.full(len(y), -1, np.int64)
    labels[used] = np.searchsorted(classes, values)  # faster than np.unique's own inverse, which needs an argsort
    return classes, labels


def check_ties(estimator: BaseEstimator) -> None:
    """Raise ValueError if ties of votes are to be broken although decisions are those of pairs."""
    if estimator.break_ties and estimator.decision_function_shape == "ovo":
        raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")


def class_weights(
    class_weight: dict | str | None, classes: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the factor of C of each class for `class_weight`; labels are class numbers, or -1."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        used = labels >= 0
        count = np.bincount(labels[used], weight[used], len(classes))
        return count.sum() / (len(classes) * count)
    if not isinstance(class_weight, dict):
        raise InvalidParameterError(f"class_weight must be a dict, 'balanced' or None; found {class_weight!r}.")
    names = classes.tolist()
    weighted = [label for label in names if label in class_weight]
    # A misspelt name is more likely than a rare class.
    if len(weighted) < len(names) and len(weighted) < len(class_weight):
        unknown = [label for label in class_weight if label not in names]
        raise ValueError(
            f"class_weight has keys that are not classes, {unknown}. The classes, "
            f"{[label for label in names if label not in class_weight]}, are not in class_weight."
        )
    factors = [class_weight.get(label, 1.0) for label in names]
    numbers = all(isinstance(factor, Real) for factor in class_weight.values())
    if not (numbers and all(0 < factor < np.inf for factor in class_weight.values())):
        raise ValueError(f"class_weight must be a positive, finite number for every class; found {class_weight}.")
    return np.array(factors, dtype=np.float64)


# --- values that are missing: masked ones of numpy.ma, and None, NaN and NA among labels ------------------


def _check_unmasked(name: str, values: Column) -> None:
    """Raise ValueError if values of an array are masked: the numbers below a mask mean nothing."""
    if np.ma.is_masked(values):
        place = ", ".join(map(str, np.argwhere(np.ma.getmaskarray(values))[0]))
        raise ValueError(
            f"{name} contains masked values, the first at [{place}]. Remove these samples, or replace the values by "
            f"numbers: {name}.filled(0)."
        )


def _check_labelled(y: np.ndarray) -> None:
    """Raise ValueError for the first object that is None, NaN or pandas' NA among labels."""
    if y.dtype.kind == "S" or (y.dtype.kind == "O" and isinstance(y[0], bytes)):
        raise TypeError(
            "Support for labels represented as bytes is not supported. y holds bytes, as dataset[:] of h5py returns "
            "text: pass the dataset itself, or dataset.asstr()[:]."
        )
    if y.dtype.kind != "O":
        return
    for row, label in enumerate(y):
        if label is None or (isinstance(label, float) and label != label) or type(label).__name__ in _MISSING:
            raise ValueError(
                f"Input y contains NaN or None: the label of sample {row} is {label}. Remove samples without a label."
            )
