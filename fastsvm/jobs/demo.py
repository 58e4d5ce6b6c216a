"""A small demo: write real images to a file, train an exact SVM by streaming it, compare with scikit-learn, save."""

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC as ReferenceSVC

from fastsvm.estimators import SVC
from fastsvm.files.atomic_file import atomic_write
from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.persistence.model_file import load, save
from fastsvm.sources import open_hdf5

__all__ = ["DemoReport", "demo"]

_MEMORY = "2MB"
_PARAMETERS: dict[str, Any] = {"C": 10.0, "gamma": 0.001, "tol": 1e-4}


class DemoReport(NamedTuple):
    """The result of the demo. Names with `reference` are of scikit-learn.

    Attributes
    ----------
    folder : str
        Folder of the files.
    n_training, n_test : int
        Number of training and of test images.
    memory_mb, kernel_matrix_mb : float
        Memory budget of the fit, and size of the whole kernel matrix, in 10⁶ bytes.
    passes : float
        Bytes read during the fit, in multiples of the size of X.
    first_fit_seconds, fit_seconds, reference_seconds : float
        Time of the first fit, which may compile, of a second fit, and of scikit-learn's fit.
    accuracy, reference_accuracy : float
        Accuracy on the test images; ours is that of the model loaded from its file.
    objective, reference_objective : float
        Dual objectives; larger is better.
    same_predictions : float
        Share of test images for which both models predict the same digit.
    picture : str
        File of the picture, "" without matplotlib.
    """

    folder: str
    n_training: int
    n_test: int
    memory_mb: float
    kernel_matrix_mb: float
    passes: float
    first_fit_seconds: float
    fit_seconds: float
    reference_seconds: float
    accuracy: float
    reference_accuracy: float
    objective: float
    reference_objective: float
    same_predictions: float
    picture: str


def demo(folder: str | Path | None = None) -> DemoReport:
    """Train on scikit-learn's bundled digits from a file, in less memory than their kernel matrix takes.

    Parameters
    ----------
    folder : str or Path or None
        Folder for the files; None makes a temporary folder, which is not removed.

    Returns
    -------
    DemoReport
    """
    folder = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="fastsvm-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    parts = train_test_split(digits.data, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
    X, X_test, y, y_test = parts
    _write(folder / "train.h5", X, y)
    _write(folder / "test.h5", X_test, y_test)
    with open_hdf5(folder / "train.h5") as data:
        model, first = _timed(SVC(memory=_MEMORY, **_PARAMETERS).fit, data)
        before = data.X.reads.nbytes
        model, seconds = _timed(SVC(memory=_MEMORY, **_PARAMETERS).fit, data)
        passes = (data.X.reads.nbytes - before) / data.X.nbytes
    save(model, folder / "model.fastsvm")
    with open_hdf5(folder / "test.h5") as test:
        predicted = load(folder / "model.fastsvm").predict(test)
    reference, reference_seconds = _timed(ReferenceSVC(**_PARAMETERS).fit, X, y)
    expected = reference.predict(X_test)
    return DemoReport(
        folder=str(folder),
        n_training=len(X),
        n_test=len(X_test),
        memory_mb=2.0,
        kernel_matrix_mb=len(X) ** 2 * 8 / 1e6,
        passes=passes,
        first_fit_seconds=first,
        fit_seconds=seconds,
        reference_seconds=reference_seconds,
        accuracy=float(np.mean(predicted == y_test)),
        reference_accuracy=float(np.mean(expected == y_test)),
        objective=model.objective_,
        reference_objective=_objective(reference, X),
        same_predictions=float(np.mean(predicted == expected)),
        picture=_picture(folder / "demo.png", model, X_test, y_test, predicted),
    )


def _write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    def fill(file: h5py.File) -> None:
        file.create_dataset("X", data=X, chunks=(64, X.shape[1]))
        file["y"] = y

    with atomic_write(path) as part, hdf5_written(part) as output:
        output.do(fill)


def _timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    return function(*arguments), time.perf_counter() - begin


def _objective(model: ReferenceSVC, X: np.ndarray) -> float:
    """Return scikit-learn's dual objective, summed over the pairs of classes."""
    norms = (X**2).sum(axis=1)
    support = model.support_
    squared = norms[support, None] + norms[support] - 2 * X[support] @ X[support].T
    kernel = np.exp(-_PARAMETERS["gamma"] * squared)
    stop = np.cumsum(model.n_support_)
    start = stop - model.n_support_
    total = 0.0
    for a in range(len(stop)):
        for b in range(a + 1, len(stop)):
            rows = np.r_[start[a] : stop[a], start[b] : stop[b]]
            beta = np.r_[model.dual_coef_[b - 1, start[a] : stop[a]], model.dual_coef_[a, start[b] : stop[b]]]
            total += np.abs(beta).sum() - beta @ kernel[np.ix_(rows, rows)] @ beta / 2
    return float(total)


def _picture(path: Path, model: SVC, X: np.ndarray, y: np.ndarray, predicted: np.ndarray) -> str:
    """Draw the memory, the certificate of every two-class problem, and test images, first those with errors.

    Return the file, "" without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.4))[0]
    memory, certificate = left.subplots(2, 1, height_ratios=(1, 2))
    sizes = {"budget": 2.0, "kernel matrix": model.shape_fit_[0] ** 2 * 8 / 1e6}
    bars = memory.barh(list(sizes), list(sizes.values()), color=("tab:blue", "lightgray"))
    memory.bar_label(bars, fmt="%.1f MB", padding=3)
    memory.set(title="Memory of the fit", xlim=(0, 1.3 * max(sizes.values())), xticks=[])
    memory.invert_yaxis()
    history = model.history_
    last = np.flatnonzero(np.diff(history["problem"], append=-1))
    certificate.semilogy(history["iteration"][last], np.maximum(history["gap"][last], 1e-17), ".")
    certificate.axhline(model.tol, color="black", ls="--", lw=1, label="tolerance")
    certificate.set(xlabel="pair steps", ylabel="KKT violation", title="Violation at the end, 45 pairs of digits")
    certificate.legend()
    order = np.argsort(predicted == y, kind="stable")[:24]
    for image, place in zip(order, right.subplots(3, 8).ravel(), strict=True):
        place.imshow(X[image].reshape(8, 8), cmap="gray_r")
        wrong = predicted[image] != y[image]
        place.set_title(f"{y[image]} → {predicted[image]}", fontsize=8, color="crimson" if wrong else "black")
        place.set_axis_off()
    right.suptitle("true → predicted, errors first", fontsize=10)
    figure.savefig(path, dpi=120)
    return str(path)
