"""What users pass to `fit` and `predict`, checked once and turned into a source and arrays."""

from os import PathLike
from typing import Any, NamedTuple

import h5py
import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from fastsvm.sources import HDF5Data, Source, as_source, check_compressed, check_finite, is_stored, read_column
from fastsvm.sources.hdf5_checks import place_of

__all__ = ["TrainingSet", "check_rows", "check_training_set", "forget", "labels_of", "required_labels"]


class TrainingSet(NamedTuple):
    """Rows, labels and weights of equal length.

    Attributes
    ----------
    source : Source
        Rows; whether they are finite is not yet known.
    y : ndarray
        Labels as given, one-dimensional.
    weight : ndarray of float64
        Not negative, not all zero.
    weighted : bool
        Whether weights were given.
    """

    source: Source
    y: np.ndarray
    weight: np.ndarray
    weighted: bool


def labels_of(X: Any, y: Any) -> Any:
    """Return y, read from its file if it is a dataset, or the labels that come with X if it is None."""
    if y is None and isinstance(X, HDF5Data):
        return X.y
    if isinstance(y, (h5py.Group, h5py.Datatype)):
        raise TypeError(f"y is {y!r}, which holds no labels; pass a dataset.")
    return read_column(y) if isinstance(y, h5py.Dataset) else y


def required_labels(X: Any, y: Any) -> Any:
    """Return y, or the labels that come with X if it is None; raise ValueError if there are none to score by."""
    y = labels_of(X, y)
    if y is None:
        raise ValueError("score needs y: none was passed and X does not bring labels.")
    return y


def forget(estimator: Any) -> None:
    """Make an estimator unfitted, so that a fit that fails leaves no half of an older model."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]:
        delattr(estimator, name)


def check_rows(estimator: Any, X: Any, *, reset: bool) -> Source:
    """Return the source of X, and check or set the estimator's number and names of features.

    Arrays are kept in their type. Whether values are finite is found by whoever reads them, but for arrays to
    predict it is known on return.
    """
    if isinstance(X, (h5py.SoftLink, h5py.ExternalLink, h5py.HardLink)):
        raise TypeError(f"X is an HDF5 link, {X!r}; pass the dataset or group that it leads to, such as file[name].")
    if not is_stored(X):
        if sparse.issparse(X):
            _check_convertible(X)
        rows = check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, estimator=estimator)
        source = as_source(_plain(rows))
        if not reset:
            check_finite(source.block, 0)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return source
    source = as_source(X)
    if source.shape[0] == 0 or source.shape[1] == 0:
        where = place_of(X) if isinstance(X, (h5py.Dataset, h5py.Group)) else "X"
        where = f"X in {X.path}" if isinstance(X, HDF5Data) else where
        raise ValueError(
            f"{where} holds no data, its shape is {source.shape}; it needs at least one row and one feature."
        )
    if reset:
        estimator.n_features_in_ = source.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif source.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {source.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return source


def _check_convertible(X: Any) -> None:
    """Raise ValueError for a sparse matrix that SciPy would make a CSR matrix of by writing outside of its arrays."""
    if X.format == "csc":
        check_compressed(X, *X.shape[::-1])
    elif X.format == "coo":
        for axis, (places, n) in enumerate(zip(X.coords, X.shape, strict=True)):
            if len(places) != len(X.data) or (len(places) and not 0 <= places.min() <= places.max() < n):
                found = f"from {places.min()} to {places.max()}" if len(places) else "nothing"
                raise ValueError(
                    f"The COO matrix is damaged: its places along axis {axis} are {len(places)} for {len(X.data)} "
                    f"values, {found}; the last may be {n - 1}."
                )


def _plain(X: Any) -> Any:
    """Return X in a type that the rest of the package stores: real numbers of at most 8 bytes."""
    dtype = X.dtype
    if dtype.kind == "b":
        return X.astype(np.uint8)
    if dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers.")
    if dtype.kind == "f" and dtype.itemsize > 8:
        return X.astype(np.float64)
    return X


def check_training_set(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, of_classes: bool = True, reset: bool = True
) -> TrainingSet:
    """Return rows, labels or, unless `of_classes`, real numbers, and weights of equal length.

    With `reset`, the estimator's number and names of features are set, else X is checked against them.

    Raises
    ------
    ValueError
        If y is missing, is not of the right kind, does not have one entry a row, or weights are negative, not
        finite or all zero.
    """
    if isinstance(X, (str, PathLike)):
        raise TypeError(f"X is the path {X}; pass fastsvm.open_hdf5({str(X)!r}).")
    y = labels_of(X, y)
    name = "sample_weight"
    if sample_weight is None and isinstance(X, HDF5Data):
        sample_weight, name = X.sample_weight, f"sample_weight of {X.path}"
    if isinstance(sample_weight, h5py.Dataset):
        sample_weight = sample_weight[:]
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
            + (f"; {X.path} has no dataset 'y'." if isinstance(X, HDF5Data) else ".")
        )
    source = check_rows(estimator, X, reset=reset)
    if not of_classes and np.asarray(y).dtype.kind in "SU":
        raise ValueError(f"y holds strings; {type(estimator).__name__} needs numbers. For classes take a classifier.")
    kind = None if of_classes else np.float64
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=kind, ensure_all_finite=False), warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        words = "labels must name classes" if of_classes else "targets must be finite numbers"
        raise ValueError(f"Input y contains NaN or infinity; {words}.")
    if of_classes:
        check_classification_targets(y)
    if len(y) != len(source):
        raise ValueError(
            f"X and y have inconsistent numbers of samples: X has {len(source)} rows, y has {len(y)} entries."
        )
    return TrainingSet(source, y, _weights(sample_weight, len(y), name), sample_weight is not None)


def _weights(sample_weight: Any, n: int, name: str) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    if sparse.issparse(sample_weight):
        raise TypeError(f"{name} must be an array, found a sparse matrix.")
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        if weight.ndim != 1:
            raise ValueError(f"Sample weights must be 1D array or scalar, got {weight.ndim}D array.")
        raise ValueError(f"{name} has the shape {weight.shape}, expected {(n,)}: one weight for each row of X.")
    if not np.isfinite(weight).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(f"Negative values in {name}: {weight[row]} at row {row}; weights must be at least 0.")
    if not weight.any():
        raise ValueError(f"All entries of {name} are zero: there is nothing to fit.")
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if not n * np.finfo(np.float64).tiny <= total < np.inf:
        raise ValueError(f"The entries of {name} sum to {total}; multiply them so that they are about 1.")
    return weight
