"""Data files of commands: HDF5, or any other known format, which is converted to HDF5 on the way."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector
from sklearn.utils.multiclass import type_of_target

from fastsvm.estimators.fitting.validation import origin_of
from fastsvm.files.atomic_file import atomic_write, check_input, remove_left, scratch_folder
from fastsvm.formats import FORMATS, convert, recognise
from fastsvm.messages import in_options, say
from fastsvm.sources import Data, Origin, error_in_file, open_hdf5, opening
from fastsvm.sources.data import part_of
from fastsvm.sources.hdf5 import attribute, open_file
from fastsvm.sources.opening import is_zarr
from fastsvm.tuning import current_tuning

Json = dict[str, Any]
"""An object of JSON."""


OPTIONS = "format", "label", "id", "split", "last_label", "sample_weight", "first_index", "array", "strict"
"""Parameters of `convert` that say how a file is read."""
_PARTS = {"array": "X", "label": "y", "sample_weight": "sample_weight"}
"""Those that name parts of files whose samples are read where they are, and what `fastsvm.open` calls the parts."""
_REFERENCE = "fastsvm:open"  # the attribute of a file that stands for another one


class Expected(NamedTuple):
    """The features that a file should have, with their names if they are known."""

    n_features: int
    names: tuple[str, ...] | None = None
    coarse: bool = False  # The fit was to values of at most float32, so values to predict may be rounded too.
    origin: Origin = Origin()  # The table or the text of the training called features and labels so.
    n_more: int = 0  # Sparse text may have so many more: a model's text does not say whether index 0 is one.

    @classmethod
    def by(cls, model: BaseEstimator, of_text: bool) -> "Expected":
        """Return the features of a fitted model, or of one that was read from text."""
        model = getattr(model, "best_estimator_", getattr(model, "estimator_", model))
        names = getattr(model, "feature_names_in_", None)
        vectors = getattr(model, "support_vectors_", None)
        coarse = vectors is not None and np.can_cast(vectors.dtype, np.float32)
        origin = origin_of(model)
        n_more = int(of_text and not origin.sure)
        return cls(model.n_features_in_, None if names is None else tuple(names), coarse, origin, n_more)

    @classmethod
    def of(cls, data: Data) -> "Expected":
        """Return the features of a data set."""
        names, coarse = data.feature_names, np.can_cast(data.X.dtype, np.float32)
        return cls(data.shape[1], None if names is None else tuple(names), coarse, data.X.origin)


def is_streamed(path: str | Path) -> bool:
    """Return whether samples are read where they are: of HDF5, by content or name, and of Zarr."""
    path = Path(path)
    return is_zarr(path) or (path.is_file() and (path.suffix in (".h5", ".hdf5") or h5py.is_hdf5(path)))


def check_options(path: str | Path, options: Json) -> None:
    """Raise ValueError for options that a file does not take whose samples are read where they are."""
    passed = {name for name, value in options.items() if value is not None and value is not False}
    names = [name for name in OPTIONS if name in passed and name not in (*_PARTS, "last_label")]
    if names:
        raise ValueError(
            f"{path} is read where it is: label, sample_weight and array name its parts. Files that are converted take "
            f"{', '.join(names)}."
        )


def named_parts(path: str | Path, options: Json) -> Json:
    """Return the parts of a file that options name, for `fastsvm.open`; {} for those that every HDF5 file has."""
    check_options(path, options)
    named = {part: options.get(name) for name, part in _PARTS.items()}
    return {part: str(name) for part, name in named.items() if name is not None and name is not False}


def check_parts(path: str | Path, parts: Json) -> None:
    """Raise ValueError, which lists what there is, if an HDF5 file lacks a part that a job names."""
    if not is_zarr(path):
        with open_file(path) as file:
            for name, part in parts.items():
                part_of(file, part, "layers" if name == "X" else "obs", path)


def refer(file: Path, path: str | Path, parts: Json) -> Path:
    """Write a file that stands for parts of another one, for `open_data`; it has a copy of rows stored by columns."""
    words = json.dumps({"where": str(Path(path).absolute()), **parts})
    with opening.open(path, scratch=file.parent, **parts) as data, atomic_write(file) as part:
        if isinstance(data, opening.ScratchData):
            shutil.copyfile(data.scratch, part)
        else:
            with h5py.File(part, "w") as reference:
                reference.attrs[_REFERENCE] = words
    return file


def open_data(path: str | Path) -> Data:
    """Open the samples of an HDF5 file, or those that a file written by `refer` stands for."""
    with open_file(path) as file:
        words = attribute(file, _REFERENCE)
    return open_hdf5(path) if words is None else opening.open(**json.loads(words))


@contextmanager
def naming(path: str | Path, converted: str | Path) -> Iterator[None]:
    """Name the file of the user, instead of the one that it was converted to, in the messages of errors."""
    try:
        yield
    except ValueError as error:
        error.args = tuple(
            one.replace(str(converted), str(path)) if isinstance(one, str) else one for one in error.args
        )
        raise


@contextmanager
def rows_named(path: str | Path, rows: np.ndarray) -> Iterator[None]:
    """Name a file and its row in the error of a bad value, where the samples are some rows of the file."""
    try:
        yield
    except ValueError as error:
        raise error_in_file(error, rows, path) from error.__cause__


@contextmanager
def as_hdf5(
    path: str | Path,
    options: Json | None = None,
    expected: Expected | None = None,
    *,
    beside: str | Path | None = None,
    **more: object,
) -> Iterator[Path]:
    """Yield the file, or the HDF5 file that it was converted to, beside `beside` and removed at the end."""
    check_input(path)
    parts = named_parts(path, options or {}) if is_streamed(path) else None
    if parts == {} and not is_zarr(path):
        yield Path(path)
        return
    with scratch_folder(_temporary() if beside is None else Path(beside)) as folder:
        file = folder / "data.h5"
        if parts is not None:
            yield refer(file, path, parts)
            return
        converted(path, file, options, expected, **more)
        with naming(path, file):
            yield file


def _temporary() -> Path:
    return Path(tempfile.gettempdir(), "fastsvm")


def remove_left_tables() -> None:
    """Remove the converted tables that killed processes left in the system's folder of temporary files."""
    with suppress(OSError):  # there may be no such folder
        remove_left(_temporary())


def converted(
    path: str | Path,
    destination: Path,
    options: Json | None = None,
    expected: Expected | None = None,
    **more: object,
) -> None:
    """Convert a file to HDF5; say what was read and what the user should know."""
    parameters = dict(options or {})
    kind = parameters.pop("format", None) or recognise(path)
    if kind not in FORMATS:
        raise ValueError(f"There is no format {kind!r}; there are {', '.join(FORMATS)}.")
    if "last_label" not in FORMATS[kind].options:
        parameters.pop("last_label", None)
    if expected is not None:
        exact = "float64" if FORMATS[kind].text else "exact"  # text is seldom exact in float32, which needs a pass more
        of_model = {
            "least_features": expected.n_features + expected.n_more,
            "model_features": expected.n_features,
            "model_label": expected.origin.label,
            "model_id": expected.origin.id,
            "model_first_index": expected.origin.first_index,
            "feature_names": expected.names,
            "dtype": None if expected.coarse else exact,
        }
        parameters |= {name: value for name, value in of_model.items() if name in FORMATS[kind].options}
    parameters = {name: value for name, value in parameters.items() if value is not None} | more
    summary = convert(path, destination, format=kind, progress=True, **parameters)
    labels = f"; labels: {summary.labels}" if summary.labels else ""
    say(f"{path} is read as {summary.n_samples:,} rows of {summary.n_features:,} features{labels}.")
    for note in summary.notes:
        say(in_options(f"note: {note}"))


def fingerprint(path: str | Path, options: Json | None = None) -> Json:
    """Return what tells a file from others: size and time, and of an HDF5 file with X also shape, type and a digest."""
    of_file = Path(path).stat()
    of_any = {"file": str(path), "bytes": of_file.st_size, "changed_ns": of_file.st_mtime_ns}
    if not is_streamed(path):
        return of_any | {"options": options}
    parts = named_parts(path, options or {})
    with opening.open(path, **parts) if parts or is_zarr(path) else open_data(path) as data:
        digest = hashlib.blake2b(data.X.digest().encode(), digest_size=16)
        for column in (data.y, data.sample_weight):
            if column is not None:
                digest.update((np.strings.encode(column, "utf-8") if column.dtype.kind == "U" else column).tobytes())
        return of_any | {"shape": list(data.shape), "dtype": str(data.X.dtype), "digest": digest.hexdigest()}


# --- labels ------------------------------------------------------------------------------------------------------


class UnknownLabels(ValueError):
    """No label of a file is a class of the model, or the labels cannot be compared with predictions."""


def labels_of(data: Data) -> np.ndarray:
    """Return the labels of a file to learn from; ValueError says that it has none."""
    if data.y is None:
        raise ValueError(
            f"{data.path} has no labels; training needs them. They are the dataset y of HDF5 files, --label of others."
        )
    return data.y


def check_labels(classes: np.ndarray | None, data: Data, path: object) -> str:
    """Return a note on rows whose class a model does not know, "" if there are none or it is a regressor."""
    if data.y is None:
        return ""
    if classes is None:
        if data.y.dtype.kind not in "biuf" or not np.isfinite(data.y).all():
            raise UnknownLabels(f"The labels in {path} must be finite numbers, for the model is a regression.")
        return ""
    if data.y.dtype.kind == "f" and not np.isfinite(data.y).all():
        raise UnknownLabels(f"The labels in {path} contain NaN or infinity, which name no class.")
    if type_of_target(data.y).startswith("continuous"):
        raise UnknownLabels(f"The labels in {path} are real numbers, but the model predicts classes.")
    labels, counts = np.unique(data.y, return_counts=True)
    n = len(classes)
    in_one_type = np.concatenate([classes, labels])
    unknown = ~np.isin(in_one_type[n:], in_one_type[:n])
    if unknown.all():
        raise UnknownLabels(
            f"No label in {path} is a class of the model: the labels are {listed(labels)}, the classes are "
            f"{listed(classes)}. Name the column of the labels by --label, or its values as in the training."
        )
    rows = int(counts[unknown].sum())
    note = f"{rows:,} of {len(data):,} rows have a class that the model does not know: {listed(labels[unknown])}."
    return note if rows else ""


def classes_of(model: BaseEstimator) -> np.ndarray | None:
    """Return the classes of a classifier, -1 and 1 for outliers and others, or None for a regressor."""
    if is_outlier_detector(model):
        return np.array([-1, 1])
    return model.classes_ if is_classifier(model) else None


def class_figures(counts: np.ndarray, names: list[str]) -> Json:
    """Return the accuracy of a confusion matrix, of each class in it and their mean; say if one class is predicted."""
    n, predicted = counts.sum(axis=1), counts.sum(axis=0)
    per_class = {name: float(counts[i, i] / n[i]) for i, name in enumerate(names) if n[i]}
    if np.count_nonzero(predicted) == 1 < len(per_class):
        only = int(predicted.argmax())
        say(
            f"note: the model predicts {names[only]} for all {n.sum():,} rows, of which {n[only] / n.sum():.1%} are. "
            "What to try: class_weight 'balanced', other parameters, or standardize."
        )
    accuracy = float(np.trace(counts) / n.sum())
    return {"accuracy": accuracy, "balanced_accuracy": float(np.mean([*per_class.values()])), "per_class": per_class}


def listed(things: np.ndarray) -> str:
    """Return the first of some labels or names, and how many there are more."""
    most = current_tuning().limits.shown
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(map(str, things[:most].tolist())) + more
