"""Data files of commands: HDF5, or any other known format, which is converted to HDF5 on the way."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from fastsvm.estimators.fitting.validation import origin_of
from fastsvm.files.atomic_file import check_input, remove_left, scratch_folder
from fastsvm.formats import FORMATS, Summary, convert, recognise
from fastsvm.jobs.say import in_options, say
from fastsvm.sources import HDF5Data, Origin, error_in_file

__all__ = [
    "Expected",
    "InputOptions",
    "as_hdf5",
    "converted",
    "is_hdf5",
    "naming",
    "remove_left_tables",
    "rows_named",
    "tell",
]


class InputOptions(NamedTuple):
    """How to read a file that is not in HDF5; the parameters are those of `convert`."""

    format: str | None = None  # It is a key of `FORMATS`; None recognises it.
    label: str | int | bool | None = None
    id: str | int | None = None
    split: str | None = None
    last_label: bool = True  # A table without a name of labels has them in its last column.
    sample_weight: str | int | None = None
    first_index: int | None = None


class Expected(NamedTuple):
    """The features that a file should have, with their names if they are known.

    `coarse` says whether the model was fitted to values of at most float32, so that values to predict may be rounded as
    those of a fit are. Otherwise they are not rounded: a few rows to predict do not show what the fit distinguished.
    """

    n_features: int
    names: tuple[str, ...] | None = None
    coarse: bool = False
    origin: Origin = Origin()  # The table or the text of the training called features and labels so.
    n_more: int = 0  # Sparse text may have so many more: a model's text does not say whether index 0 is one.

    @classmethod
    def by(cls, model: Any, of_text: bool) -> "Expected":
        """Return the features of a fitted model, or of one that was read from text."""
        model = getattr(model, "best_estimator_", model)
        names = getattr(model, "feature_names_in_", None)
        vectors = getattr(model, "support_vectors_", None)
        coarse = vectors is not None and _is_coarse(vectors.dtype)
        origin = origin_of(model)
        n_more = int(of_text and not origin.sure)
        return cls(model.n_features_in_, None if names is None else tuple(names), coarse, origin, n_more)

    @classmethod
    def of(cls, data: HDF5Data) -> "Expected":
        """Return the features of a data set."""
        names = data.feature_names
        return cls(data.shape[1], None if names is None else tuple(names), _is_coarse(data.X.dtype), data.X.origin)


def _is_coarse(dtype: np.dtype) -> bool:
    return np.can_cast(dtype, np.float32)


def is_hdf5(path: str | Path) -> bool:
    """Return whether a file is in HDF5, so that it needs no conversion, or has a name that says so."""
    path = Path(path)
    return path.is_file() and (path.suffix in (".h5", ".hdf5") or h5py.is_hdf5(path))


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
    options: InputOptions | None = None,
    expected: Expected | None = None,
    *,
    beside: str | Path | None = None,
    memory: int | None = None,
    **more: Any,
) -> Iterator[Path]:
    """Yield the file itself, or the HDF5 file that it was converted to, which is removed at the end.

    The converted file is in a folder beside the path `beside`, or in the system's folder of temporary files. `memory`
    is the bytes of rows in memory, None for 256 MiB; `more` are parameters of `convert`. FileNotFoundError or
    ValueError says that there is no such file, or that it is damaged or not of a known format.
    """
    check_input(path)
    if is_hdf5(path):
        if options is not None and options._replace(label=options.label or None, last_label=True) != InputOptions():
            raise ValueError(
                f"{path} is an HDF5 file: format, label, id, sample_weight, first_index and split apply to files that "
                "are converted."
            )
        yield Path(path)
        return
    with scratch_folder(_temporary() if beside is None else Path(beside)) as folder:
        file = converted(path, folder / "data.h5", options, expected, memory=memory, **more)
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
    options: InputOptions | None = None,
    expected: Expected | None = None,
    *,
    memory: int | None = None,
    **more: Any,
) -> Path:
    """Convert a file to HDF5, say so, and return the HDF5 file."""
    options = InputOptions() if options is None else options
    kind = recognise(path) if options.format is None else options.format
    if kind not in FORMATS:
        raise ValueError(f"There is no format {kind!r}; there are {', '.join(FORMATS)}.")
    names = ("label", "id", "split", "sample_weight", "first_index")
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    if not options.last_label and "last_label" in FORMATS[kind].options:
        given["last_label"] = False
    if expected is not None:
        exact = "float64" if FORMATS[kind].text else "exact"  # text is seldom exact in float32, which needs a pass more
        wanted: dict[str, Any] = {
            "least_features": expected.n_features + expected.n_more,
            "model_features": expected.n_features,
            "model_label": expected.origin.label,
            "model_first_index": expected.origin.first_index,
            "feature_names": expected.names,
            "dtype": None if expected.coarse else exact,
        }
        given |= {name: value for name, value in wanted.items() if name in FORMATS[kind].options}
    given = {name: value for name, value in given.items() if value is not None}
    given |= {"progress": True} | ({} if memory is None else {"memory": memory}) | more
    summary = convert(path, destination, format=kind, **given)
    tell(summary, path)
    return summary.path


def tell(summary: Summary, path: str | Path) -> None:
    """Say that a file was converted, where its labels were found, and what else the user should know."""
    labels = f"; labels: {summary.labels}" if summary.labels else ""
    say(f"{path} is read as {summary.n_samples:,} rows of {summary.n_features:,} features{labels}.")
    for note in summary.notes:
        say(in_options(f"note: {note}"))
