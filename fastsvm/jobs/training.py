"""Train a model from a file, measure it on rows held out, save it."""

import time
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from fastsvm.estimators import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor
from fastsvm.jobs.memory import peak_memory
from fastsvm.jobs.outputs import check_output
from fastsvm.model_file import save
from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["MODELS", "TrainingReport", "train"]

MODELS = {
    "svc": SVC,
    "linear": LinearSVC,
    "linear-regressor": LinearSVR,
    "sgd": SGDClassifier,
    "sgd-regressor": SGDRegressor,
}
"""Estimators by the names that the command line gives them."""


class TrainingReport(NamedTuple):
    """What `train` tells.

    Attributes
    ----------
    model : str
        File of the model, "" if it was not saved.
    n_samples, n_features : int
        Shape of the problem, without rows held out.
    n_classes : int or None
        Number of classes.
    accuracy : float or None
        Share of the rows held out whose class is predicted correctly.
    r2 : float or None
        Of a regression, the share of the variance of the rows held out that is explained.
    n_holdout : int
        Number of rows held out.
    objective, duality_gap, kkt_violation : float or None
        Certificate of the fit.
    converged : bool
        Whether it ended within its tolerance.
    stop_reason : str
        Why the fit ended.
    n_support : int or None
        Number of support vectors.
    n_iter : int
        Pair steps, all two-class problems together, or epochs.
    seconds : float
        Time of the fit.
    passes : float
        Bytes read from the file during the fit, in multiples of the rows' size.
    read_mb_per_second : float
        Speed of those reads, in 10⁶ bytes a second.
    peak_memory_mb : float or None
        Largest memory of the process so far, in 10⁶ bytes.
    """

    model: str
    n_samples: int
    n_features: int
    n_classes: int | None
    accuracy: float | None
    r2: float | None
    n_holdout: int
    objective: float | None
    duality_gap: float | None
    kkt_violation: float | None
    converged: bool
    stop_reason: str
    n_support: int | None
    n_iter: int
    seconds: float
    passes: float
    read_mb_per_second: float
    peak_memory_mb: float | None


def train(
    path: str | Path,
    destination: str | Path | None,
    parameters: dict[str, Any],
    holdout: float = 0.0,
    seed: int = 0,
    model: str = "svc",
) -> TrainingReport:
    """Train a model from an HDF5 file and save it.

    Parameters
    ----------
    path : str or Path
        File with X and y.
    destination : str or Path or None
        File for the model; None does not save it.
    parameters : dict
        Parameters of the estimator, by name.
    holdout : float, default=0.0
        Share of rows, at least 0 and less than 1, not trained on but predicted to measure the accuracy.
    seed : int, default=0
        Which rows those are, and the order in which a stochastic solver visits the others.
    model : str, default="svc"
        Which estimator, a key of `MODELS`.

    Returns
    -------
    TrainingReport

    Raises
    ------
    ValueError, FileNotFoundError
        If the file, a parameter or the destination is not usable. The destination is checked before the fit.
    """
    if destination is not None:
        check_output(destination, path)
    if not 0 <= holdout < 1:
        raise ValueError(f"holdout must be at least 0 and less than 1, found {holdout}.")
    with open_hdf5(path) as data:
        if data.y is None:
            raise ValueError(f"{data.path} has no dataset 'y'; training needs labels.")
        if "random_state" in signature(MODELS[model]).parameters:
            parameters = {"random_state": seed} | parameters
        estimator = MODELS[model](**_with_labels(parameters, data.y))
        training, held = _split(len(data), holdout, seed)
        begin = time.perf_counter()
        _fit(estimator, data, training)
        seconds = time.perf_counter() - begin
        reads = data.X.reads
        passes, speed = reads.nbytes / max(1, data.X.nbytes), reads.nbytes / 1e6 / max(reads.seconds, 1e-9)
        if destination is not None:
            save(estimator, destination)
        score = float(estimator.score(data.X.take(held), data.y[held])) if len(held) else None
    found = vars(estimator)
    classes, support = found.get("classes_"), found.get("support_")
    return TrainingReport(
        model=str(destination or ""),
        n_samples=len(training),
        n_features=estimator.n_features_in_,
        n_classes=None if classes is None else len(classes),
        accuracy=score if is_classifier(estimator) else None,
        r2=None if is_classifier(estimator) else score,
        n_holdout=len(held),
        objective=estimator.objective_,
        duality_gap=found.get("duality_gap_"),
        kkt_violation=found.get("kkt_violation_"),
        converged=bool(estimator.converged_),
        stop_reason=estimator.stop_reason_,
        n_support=None if support is None else len(support),
        n_iter=int(np.sum(estimator.n_iter_)),
        seconds=seconds,
        passes=passes,
        read_mb_per_second=speed,
        peak_memory_mb=peak_memory(),
    )


def _split(n: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and those held out, each in the order of the file."""
    order = np.random.default_rng(seed).permutation(n)
    n_held = round(n * holdout)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def _fit(model: Any, data: HDF5Data, rows: np.ndarray) -> None:
    if len(rows) == len(data):
        model.fit(data)
    else:
        weight = None if data.sample_weight is None else data.sample_weight[rows]
        model.fit(data.X.take(rows), data.y[rows], sample_weight=weight)


def _with_labels(parameters: dict[str, Any], y: np.ndarray) -> dict[str, Any]:
    """Return parameters in which the keys of `class_weight`, text on a command line, are labels."""
    weights = parameters.get("class_weight")
    if not isinstance(weights, dict):
        return parameters
    labels = {str(label): label for label in np.unique(y).tolist()}
    return parameters | {"class_weight": {labels.get(str(key), key): value for key, value in weights.items()}}
