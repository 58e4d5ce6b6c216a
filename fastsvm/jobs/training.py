"""Train a model from a file, measure it on rows held out, save it."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastsvm.estimators import SVC
from fastsvm.jobs.memory import peak_memory
from fastsvm.jobs.outputs import check_output
from fastsvm.model_file import save
from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["TrainingReport", "train"]


class TrainingReport(NamedTuple):
    """What `train` tells.

    Attributes
    ----------
    model : str
        File of the model, "" if it was not saved.
    n_samples, n_features, n_classes : int
        Shape of the problem, without rows held out.
    accuracy : float or None
        Share of the rows held out whose class is predicted correctly.
    n_holdout : int
        Number of rows held out.
    objective, duality_gap, kkt_violation : float
        Certificate of the fit.
    converged : bool
        Whether the violation is within the tolerance.
    stop_reason : str
        Why the fit ended.
    n_support : int
        Number of support vectors.
    n_iter : int
        Pair steps, all two-class problems together.
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
    n_classes: int
    accuracy: float | None
    n_holdout: int
    objective: float
    duality_gap: float
    kkt_violation: float
    converged: bool
    stop_reason: str
    n_support: int
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
) -> TrainingReport:
    """Train an `SVC` from an HDF5 file and save it.

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
        Which rows those are.

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
        model = SVC(**_with_labels(parameters, data.y))
        training, held = _split(len(data), holdout, seed)
        begin = time.perf_counter()
        _fit(model, data, training)
        seconds = time.perf_counter() - begin
        reads = data.X.reads
        passes, speed = reads.nbytes / max(1, data.X.nbytes), reads.nbytes / 1e6 / max(reads.seconds, 1e-9)
        if destination is not None:
            save(model, destination)
        accuracy = float(model.score(data.X.take(held), data.y[held])) if len(held) else None
    return TrainingReport(
        model=str(destination or ""),
        n_samples=len(training),
        n_features=model.n_features_in_,
        n_classes=len(model.classes_),
        accuracy=accuracy,
        n_holdout=len(held),
        objective=model.objective_,
        duality_gap=model.duality_gap_,
        kkt_violation=model.kkt_violation_,
        converged=bool(model.converged_),
        stop_reason=model.stop_reason_,
        n_support=len(model.support_),
        n_iter=int(model.n_iter_.sum()),
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


def _fit(model: SVC, data: HDF5Data, rows: np.ndarray) -> None:
    if len(rows) == len(data):
        model.fit(data)
    else:
        weight = None if data.sample_weight is None else data.sample_weight[rows]
        model.fit(data.X.take(rows), data.y[rows], weight)


def _with_labels(parameters: dict[str, Any], y: np.ndarray) -> dict[str, Any]:
    """Return parameters in which the keys of `class_weight`, text on a command line, are labels."""
    weights = parameters.get("class_weight")
    if not isinstance(weights, dict):
        return parameters
    labels = {str(label): label for label in np.unique(y).tolist()}
    return parameters | {"class_weight": {labels.get(str(key), key): value for key, value in weights.items()}}
