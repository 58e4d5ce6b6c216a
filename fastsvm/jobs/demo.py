"""The demo: deform real images, train an exact SVM from a file of them, compare with scikit-learn, and save.

Small rotations, shears, shifts and elastic fields teach a classifier what does not change a digit (Simard, Steinkraus
and Platt 2003, Best practices for convolutional neural networks applied to visual document analysis; Loosli, Canu and
Bottou 2007, Training invariant support vector machines using selective sampling).
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import h5py
import numpy as np
from scipy import ndimage
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC as ReferenceSVC
from sklearn.utils import gen_batches

from fastsvm._compiled.compilations import COMPILATIONS
from fastsvm.estimators.kernel.machines.classifiers import SVC
from fastsvm.files.atomic_file import atomic_write, check_folder
from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.jobs.inputs import Json
from fastsvm.memory import parse_memory
from fastsvm.multiclass import pair_coefficients
from fastsvm.persistence.model_file import load, save
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import open_hdf5
from fastsvm.sources.hdf5 import attribute
from fastsvm.tuning import current_tuning

_SIDE, _MEMORY = 24, "64MB"
_PARAMETERS: Json = {"C": 10.0, "gamma": 0.022}  # of values from 0 to 1
_FILES = "train.h5", "test.h5", "model.fastsvm"
_MADE_BY = "fastsvm demo"
_FIRST_ANSWER = """
from sklearn.datasets import load_digits
from {} import SVC
X, y = load_digits(return_X_y=True)
X = X.astype("uint8")
SVC().fit(X, y).predict(X)
"""

# Images are rotated by an angle, sheared and scaled, with these standard deviations. Then pixels are shifted by so many
# of the original at most: all alike, and by an elastic field, which is smooth over one part in so many of a side.
_ANGLE_SHEAR_SCALE, _SHIFT, _ELASTIC, _SMOOTH = (0.12, 0.1, 0.06), 0.6, 0.5, 6

_Result = TypeVar("_Result")


def demo(
    folder: str | Path | None = None,
    n_training: int = 20_000,
    progress: bool = False,
    tell: Callable[[str], None] = lambda words: None,
) -> SimpleNamespace:
    """Train on deformed digits in files in `folder`, None for a new temporary one, and compare with scikit-learn.

    Names of results with `reference` are of scikit-learn; megabytes are 10⁶ bytes.
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
    of_bytes = _PARAMETERS | {"gamma": _PARAMETERS["gamma"] / 255**2}

    compiled = COMPILATIONS.seconds
    with open_hdf5(folder / "train.h5") as data:
        SVC(memory=_MEMORY, **of_bytes).fit(data)  # which compiles
        plain = SVC(**of_bytes).fit(enlarged(images, _SIDE), labels)
        tell(f"training on {n_training:,} images from {folder / 'train.h5'}, in {_MEMORY}")
        model, seconds = _timed(SVC(memory=_MEMORY, verbose=progress, **of_bytes).fit, data)
    save(model, folder / "model.fastsvm")
    with open_hdf5(folder / "test.h5") as test:
        predicted = load(folder / "model.fastsvm").predict(test)

    tell(f"training scikit-learn's SVC on the same images; fastsvm took {seconds:.2f} s")
    reference, reference_seconds = _timed(ReferenceSVC(**_PARAMETERS).fit, X / 255, y)
    expected = reference.predict(X_test / 255)
    return SimpleNamespace(
        folder=str(folder),
        n_training=n_training,
        n_test=len(y_test),
        n_features=X.shape[1],
        n_originals=len(images),
        memory_mb=parse_memory(_MEMORY) / 1e6,  # of the fit
        kernel_matrix_mb=n_training**2 * 8 / 1e6,
        compile_seconds=COMPILATIONS.seconds - compiled,
        first_answer_seconds=_seconds_to_first_answer("fastsvm"),
        reference_first_answer_seconds=_seconds_to_first_answer("sklearn.svm"),
        fit_seconds=seconds,  # from the file; scikit-learn fits in memory
        reference_seconds=reference_seconds,
        times_faster=reference_seconds / seconds,
        accuracy=float(np.mean(predicted == y_test)),  # of the model loaded from its file
        reference_accuracy=float(np.mean(expected == y_test)),
        plain_accuracy=plain.score(X_test, y_test),  # of a model of the originals alone
        objective=_objective(model, X),  # the dual one: larger is better
        reference_objective=_objective(reference, X),
        kkt_violation=model.kkt_violation_,
        tol=model.tol,
        same_predictions=float(np.mean(predicted == expected)),
    )


def _check_own(folder: Path) -> None:
    """Raise an error if the demo would replace files that it did not make."""
    check_folder(folder)
    there = [folder / name for name in _FILES if (folder / name).exists()]
    is_own = False
    with suppress(OSError, ValueError), h5py.File(folder / _FILES[0], "r") as file:
        is_own = attribute(file, "made_by") == _MADE_BY
    if there and not is_own:
        raise ValueError(f"{there[0]} exists, and the demo would replace it. Name another folder.")


def _write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    def fill(file: h5py.File) -> None:
        file.create_dataset("X", data=X, chunks=(min(256, len(X)), X.shape[1]))
        file["y"], file.attrs["made_by"] = y, _MADE_BY

    with atomic_write(path) as part, hdf5_written(part) as do:
        do(fill)


def _timed(function: Callable[..., _Result], *arguments: object) -> tuple[_Result, float]:
    begin = time.perf_counter()
    return function(*arguments), time.perf_counter() - begin


def _seconds_to_first_answer(module: str) -> float:
    """Return how long a new Python takes until it has predicted with the SVC of a module."""
    program = [sys.executable, "-c", _FIRST_ANSWER.format(module)]
    return _timed(lambda: subprocess.run(program, check=True, capture_output=True))[1]


def _objective(model: SVC | ReferenceSVC, X: np.ndarray) -> float:
    """Return the dual objective of a fitted model of either library, summed over the pairs of classes, in float64."""
    pairs: csr_matrix = pair_coefficients(model.dual_coef_, model.n_support_)
    rows, coef = X[model.support_] / 255, pairs.T.toarray()
    total = np.abs(coef).sum()
    for part in gen_batches(len(rows), current_tuning().storage.resident_rows):
        kernel = rbf_kernel(rows[part], rows, gamma=_PARAMETERS["gamma"])
        total -= np.einsum("ij,ij->", kernel @ coef, coef[part]) / 2
    return float(total)


# --- deformed images --------------------------------------------------------------------------------------------------


def enlarged(images: np.ndarray, side: int) -> np.ndarray:
    """Return images of values from 0 to 1 as rows of side² bytes."""
    return np.array([_drawn(image, _grid(side, image.shape[0])) for image in images])


def deformed(images: np.ndarray, n: int, side: int, seed: int, progress: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return n deformed images as rows of side² bytes, and the numbers of their originals, of values from 0 to 1."""
    rng, width = np.random.default_rng(seed), images.shape[1]
    grid = _grid(side, width)
    rows, originals = np.empty((n, side * side), np.uint8), np.arange(n) % len(images)
    for i in progress_bar(range(n), shown=progress, desc="deforming images", unit=" images"):
        angle, shear, scale = rng.normal(0, _ANGLE_SHEAR_SCALE)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        affine = (1 + scale) * turn @ np.array([[1, shear], [0, 1]])
        middle = (width - 1) / 2
        shift = rng.uniform(-_SHIFT, _SHIFT, 2)[:, None, None]
        points = np.tensordot(affine, grid - middle, 1) + middle + shift
        noise = rng.uniform(-1, 1, (2, side, side))
        field = ndimage.gaussian_filter(noise, (0, side / _SMOOTH, side / _SMOOTH))  # a smooth field of shifts
        rows[i] = _drawn(images[originals[i]], points + field * (_ELASTIC / np.abs(field).max()))
    return rows, originals


def _grid(side: int, width: int) -> np.ndarray:
    """Return the places of side² pixels in an image of width² pixels, shape (2, side, side)."""
    centres = (np.arange(side) + 0.5) * width / side - 0.5
    return np.stack(np.meshgrid(centres, centres, indexing="ij"))


def _drawn(image: np.ndarray, points: np.ndarray) -> np.ndarray:
    values = ndimage.map_coordinates(image, points, order=1, mode="constant")
    return (255 * np.clip(values, 0, 1)).astype(np.uint8).ravel()


# --- the result as text -----------------------------------------------------------------------------------------------


def table(r: SimpleNamespace) -> Iterator[str]:
    """Yield the lines of a result."""
    same = f"{100 * r.same_predictions:.1f} % the same predictions"
    first, its_first = r.first_answer_seconds, r.reference_first_answer_seconds
    apart = abs(r.objective - r.reference_objective) / abs(r.reference_objective)
    rows = [
        ("", "fastsvm", "scikit-learn", ""),
        ("fit", f"{r.fit_seconds:.2f} s", f"{r.reference_seconds:.2f} s", f"{r.times_faster:.0f} times faster"),
        (f"{r.n_test} test images", f"{100 * r.accuracy:.1f} %", f"{100 * r.reference_accuracy:.1f} %", same),
        ("dual objective", f"{r.objective:.3f}", f"{r.reference_objective:.3f}", f"{apart:.0e} apart, in float64"),
        ("", "", "", ""),
        ("memory", f"{r.memory_mb:.0f} MB", "", f"the kernel matrix would take {r.kernel_matrix_mb:,.0f} MB"),
        ("largest violation", f"{r.kkt_violation:.1e}", "", f"of the optimality conditions; tol is {r.tol:g}: exact"),
        ("without deformations", f"{100 * r.plain_accuracy:.1f} %", "", "of the test images"),
        ("compiling, once", f"{r.compile_seconds:.1f} s", "", "0.0 if the code was there: it is kept for later runs"),
        (
            "first answer, later",
            f"{first:.1f} s",
            f"{its_first:.1f} s",
            "a new Python imports, fits and predicts digits",
        ),
        ("files", r.folder, "", ""),
    ]
    yield ""
    yield f"{r.n_training:,} images of {r.n_features} pixels, deformed from {r.n_originals:,} digits; RBF kernel"
    yield ""
    for name, ours, theirs, note in rows:
        yield f"{name:22}{ours:>14}{theirs:>16}   {note}".rstrip()
