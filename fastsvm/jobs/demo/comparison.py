"""The demo: write deformed images to a file, train an exact SVM from it, compare with scikit-learn, save."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC as ReferenceSVC

from fastsvm.estimators import SVC
from fastsvm.files.atomic_file import atomic_write, check_folder
from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.jobs.demo.deformations import deformed, enlarged
from fastsvm.jobs.demo.picture import draw
from fastsvm.memory import parse_memory
from fastsvm.multiclass import pair_coefficients
from fastsvm.persistence.model_file import load, save
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import open_hdf5
from fastsvm.sources.hdf5 import attribute
from fastsvm.tuning import current_tuning

__all__ = ["DemoReport", "demo"]

_SIDE, _MEMORY = 24, "64MB"
_PARAMETERS: dict[str, Any] = {"C": 10.0, "gamma": 0.022}  # of values from 0 to 1
_FILES = "train.h5", "test.h5", "model.fastsvm", "demo.png"
_MADE_BY = "fastsvm demo"


class DemoReport(NamedTuple):
    """The result of the demo. Names with `reference` are of scikit-learn; megabytes are 10⁶ bytes."""

    folder: str
    n_training: int
    n_test: int
    n_features: int
    n_originals: int  # The training images are deformations of so many images.
    memory_mb: float  # It is the memory budget of the fit.
    kernel_matrix_mb: float  # The whole kernel matrix would take so much.
    compile_seconds: float  # A first fit took so much longer: it compiles code that is not cached.
    fit_seconds: float  # It is the time of the fit from the file.
    reference_seconds: float  # It is the time of scikit-learn's fit in memory.
    times_faster: float  # It is the ratio of both.
    accuracy: float  # It is that of the model loaded from its file, on the test images.
    reference_accuracy: float
    plain_accuracy: float  # It is that of a model of the originals alone.
    objective: float  # Dual objectives are computed by one judge in float64; larger is better.
    reference_objective: float
    kkt_violation: float  # It is the largest violation of the optimality conditions, which `tol` bounds.
    tol: float
    same_predictions: float  # Both models predict the same digit for this share of the test images.
    picture: str  # It is the file of the picture, "" without matplotlib.


def demo(
    folder: str | Path | None = None,
    n_training: int = 20_000,
    progress: bool = False,
    tell: Callable[[str], None] = lambda words: None,
) -> DemoReport:
    """Train on deformed images of digits from a file, and compare with scikit-learn on the same images.

    The files replace those of an earlier demo in the folder; None makes a temporary one, which is not removed. The
    training images are deformations of 1,347 originals. `tell` takes a line on each step. A folder that is a file
    raises NotADirectoryError, and one with a file of the same name that the demo did not make raises ValueError.
    """
    folder = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="fastsvm-demo-"))
    _check_own(folder)
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    parts = train_test_split(digits.images / 16, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
    images, test_images, labels, y_test = parts
    X, originals = deformed(images, n_training, _SIDE, seed=0, progress=progress)
    y, X_test = labels[originals], enlarged(test_images, _SIDE)
    _write(folder / "train.h5", X, y)
    _write(folder / "test.h5", X_test, y_test)
    given = _PARAMETERS | {"gamma": _PARAMETERS["gamma"] / 255**2}

    tell("compiling, once: later runs load the code")
    with open_hdf5(folder / "train.h5") as data:
        with _clock("compiling, once", progress):
            _, first = _timed(SVC(memory=_MEMORY, **given).fit, data)
            plain = SVC(**given).fit(enlarged(images, _SIDE), labels)
        tell(f"training on {n_training:,} images from {folder / 'train.h5'}, in {_MEMORY}")
        model, seconds = _timed(SVC(memory=_MEMORY, verbose=progress, **given).fit, data)
    save(model, folder / "model.fastsvm")
    with open_hdf5(folder / "test.h5") as test:
        predicted = load(folder / "model.fastsvm").predict(test)

    tell(f"training scikit-learn's SVC on the same images; fastsvm took {seconds:.2f} s")
    with _clock("scikit-learn", progress):
        reference, reference_seconds = _timed(ReferenceSVC(**_PARAMETERS).fit, X / 255, y)
    expected = reference.predict(X_test / 255)
    report = DemoReport(
        folder=str(folder),
        n_training=n_training,
        n_test=len(y_test),
        n_features=X.shape[1],
        n_originals=len(images),
        memory_mb=parse_memory(_MEMORY) / 1e6,
        kernel_matrix_mb=n_training**2 * 8 / 1e6,
        compile_seconds=max(0.0, first - seconds),
        fit_seconds=seconds,
        reference_seconds=reference_seconds,
        times_faster=reference_seconds / seconds,
        accuracy=float(np.mean(predicted == y_test)),
        reference_accuracy=float(np.mean(expected == y_test)),
        plain_accuracy=plain.score(X_test, y_test),
        objective=_objective(model, X),
        reference_objective=_objective(reference, X),
        kkt_violation=model.kkt_violation_,
        tol=model.tol,
        same_predictions=float(np.mean(predicted == expected)),
        picture="",
    )
    return report._replace(picture=draw(folder / "demo.png", report, (images, X, _SIDE), (X_test, y_test, predicted)))


def _check_own(folder: Path) -> None:
    """Raise an error if the demo would replace files that it did not make."""
    check_folder(folder)
    there = [folder / name for name in _FILES if (folder / name).exists()]
    if there and not _is_own(folder / _FILES[0]):
        raise ValueError(f"{there[0]} exists, and the demo would replace it. Name another folder.")


def _is_own(path: Path) -> bool:
    try:
        with h5py.File(path, "r") as file:
            return attribute(file, "made_by") == _MADE_BY
    except (OSError, ValueError):
        return False


def _write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    def fill(file: h5py.File) -> None:
        file.create_dataset("X", data=X, chunks=(min(256, len(X)), X.shape[1]))
        file["y"], file.attrs["made_by"] = y, _MADE_BY

    with atomic_write(path) as part, hdf5_written(part) as output:
        output.do(fill)


def _timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    return function(*arguments), time.perf_counter() - begin


@contextmanager
def _clock(words: str, progress: bool) -> Iterator[None]:
    """Show the time that passes, on a terminal: what is called here cannot tell how far it is."""
    ended = threading.Event()
    with progress_bar(shown=progress, desc=words, bar_format="{desc}: {elapsed}") as bar:

        def tick() -> None:
            while not ended.wait(0.5):
                bar.refresh()

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _objective(model: Any, X: np.ndarray) -> float:
    """Return the dual objective of a fitted model of either library, summed over the pairs of classes, in float64."""
    rows, gamma = X[model.support_] / 255, _PARAMETERS["gamma"]
    pairs: Any = pair_coefficients(model.dual_coef_, model.n_support_)
    coef, norms = pairs.T.toarray(), np.einsum("ij,ij->i", rows, rows)
    total = np.abs(coef).sum()
    step = current_tuning().storage.resident_rows
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        distances = np.maximum(norms[part, None] + norms - 2 * rows[part] @ rows.T, 0)
        total -= np.einsum("ij,ij->", np.exp(-gamma * distances) @ coef, coef[part]) / 2
    return float(total)
