"""Predictions and scores of any fitted model for collections of Dask, block by block on the workers."""

import warnings
from collections.abc import Callable

import dask
import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from fastsvm.dask.rows import blocks_of, blocks_together
from fastsvm.estimators.fitting.documentation import documented_by
from fastsvm.estimators.fitting.validation import Samples


class PredictionsOnCluster:
    """What predictions on a cluster share.

    Parameters
    ----------
    model : estimator
        A fitted estimator of fastsvm, of kernels or linear, or one of `fastsvm.dask`.
    X : dask array or dataframe, shape (n_samples, n_features)
        Samples: dense or CSR blocks. Anything else goes to the model's own method.
    y : dask array, series or array of shape (n_samples,)
        Labels or targets; as a collection of Dask, in the blocks of X.
    sample_weight : as y, or None
        Weights of the samples.

    Raises
    ------
    ValueError
        If X does not have the features of the fit, or, once it is computed, is not finite.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> import fastsvm.dask
    >>> X, y = load_iris(return_X_y=True)
    >>> model, rows = fastsvm.SVC().fit(X, y), da.from_array(X, chunks=(50, 4))
    >>> bool((fastsvm.dask.predict(model, rows).compute() == model.predict(X)).all())
    True
    >>> fastsvm.dask.decision_function(model, rows).shape, fastsvm.dask.score(model, rows, y) > 0.9
    ((150, 3), True)
    >>> landmarks = fastsvm.NystroemFeatures(n_components=20).fit(X)
    >>> fastsvm.dask.transform(landmarks, rows).shape == (150, landmarks.rank_)
    True
    """


@documented_by(PredictionsOnCluster)
def predict(model: BaseEstimator, X: object) -> da.Array | np.ndarray:
    """Return the predictions of a fitted model for samples on a cluster.

    Returns
    -------
    dask array of shape (n_samples,)
        Predictions, computed by the workers when they are asked for.
    """
    return _by_block(_local(model), X, "predict")


@documented_by(PredictionsOnCluster)
def decision_function(model: BaseEstimator, X: object) -> da.Array | np.ndarray:
    """Return the decision values of a fitted model for samples on a cluster.

    Parameters
    ----------
    model : estimator
        A fitted estimator that has decision values.

    Returns
    -------
    dask array of float64
        In the shape of the model's `decision_function`, computed by the workers when it is asked for.
    """
    return _by_block(_local(model), X, "decision_function")


@documented_by(PredictionsOnCluster)
def transform(model: BaseEstimator, X: object) -> da.Array | np.ndarray:
    """Return what a fitted transformer makes of samples on a cluster, as scaling or features of landmarks.

    Parameters
    ----------
    model : estimator
        A fitted transformer of fastsvm or scikit-learn, whose answers are dense.

    Returns
    -------
    dask array of shape (n_samples, n_features_out)
        Computed by the workers when it is asked for.
    """
    return _by_block(_local(model), X, "transform")


@documented_by(PredictionsOnCluster)
def score(model: BaseEstimator, X: object, y: object = None, sample_weight: object = None) -> float:
    """Return the share of correct classes, or R² of a regression, of a fitted model for samples on a cluster.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor.

    Returns
    -------
    float
        At most 1. It is computed now.

    Raises
    ------
    ValueError
        If there is no y.
    """
    model = _local(model)
    if not dask.is_dask_collection(X):
        return float(model.score(X, y, sample_weight))
    if y is None:
        raise ValueError("score needs y, the labels or targets of X: it was not passed.")
    rows, *others = blocks_together(X, y, sample_weight)
    shared, none = dask.delayed(model), [None] * len(rows)
    each = zip(rows, *(part or none for part in others), strict=True)
    parts = dask.compute(*(dask.delayed(_sums)(shared, *of_block) for of_block in each))
    weight, loss, mean, deviation = np.array(parts).T
    total = float(weight.sum())
    if total <= 0:
        raise ValueError("X has no samples of positive weight.")
    if is_classifier(model):
        return float(loss.sum()) / total
    away = mean - mean[np.argmax(weight)]  # 0 for targets that are all the same
    spread = float(deviation.sum() + weight @ (away - weight @ away / total) ** 2)
    return 1 - float(loss.sum()) / spread if spread else float(not loss.any())


def _sums(model: BaseEstimator, X: Samples, y: object, sample_weight: object) -> tuple[float, float, float, float]:
    """Return the weight of a block, its hits or squared errors, and mean and squared deviations of its targets."""
    n = len(X) if hasattr(X, "columns") else X.shape[0]
    y = np.asarray(y)
    if len(y) != n:
        raise ValueError(f"A block of X has {n} samples, and that of y has {len(y)}: their chunks must be the same.")
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if n == 0 or not weight.any():
        return 0.0, 0.0, 0.0, 0.0
    predicted = model.predict(X)
    if is_classifier(model):
        return float(weight.sum()), float(weight[predicted == y].sum()), 0.0, 0.0
    mean = float(np.average(y, weights=weight))
    return float(weight.sum()), float(weight @ (y - predicted) ** 2), mean, float(weight @ (y - mean) ** 2)


def _local(model: BaseEstimator) -> BaseEstimator:
    """Return a model that needs no cluster."""
    return model.to_local() if hasattr(model, "to_local") else model


def _by_block(model: BaseEstimator, X: Samples, method: str) -> da.Array | np.ndarray:
    """Return what a method of a model answers for each block."""
    if not dask.is_dask_collection(X):
        return getattr(model, method)(X)
    width = X.shape[1]
    if width != model.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(model).__name__} is expecting {model.n_features_in_} features as input."
        )
    sample = _answer(model, X._meta if hasattr(X, "columns") else None, method)
    chunks = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * X.npartitions
    shared, answer = dask.delayed(model), dask.delayed(_answer)
    parts = [
        da.from_delayed(answer(shared, block, method), (length, *sample.shape[1:]), sample.dtype)
        for block, length in zip(blocks_of(X), chunks, strict=True)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _answer(model: BaseEstimator, X: Samples, method: str) -> np.ndarray:
    """Return what a method answers; without rows, an array of its shape and type for none."""
    call: Callable[[object], np.ndarray] = getattr(model, method)
    n = 0 if X is None else len(X) if hasattr(X, "columns") else X.shape[0]
    if n:
        return call(X)
    zeros = np.zeros((1, model.n_features_in_))
    if hasattr(X, "columns"):
        zeros = type(X)(zeros, columns=X.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of features that zeros lack
        return call(zeros)[:0]
