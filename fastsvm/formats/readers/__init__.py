"""The table of formats, each read by a file here. To add a format, add a line here or assign to `FORMATS`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import h5py

from fastsvm.files.atomic_file import check_input
from fastsvm.formats.readers import arrow, cifar10, csv_text, idx, numpy_arrays, svmlight
from fastsvm.formats.readers.stream import Options, Stream


class Format(NamedTuple):
    """A data format: `recognises` tells whether a file or folder looks like it, `read` gives its `Stream`."""

    title: str  # It describes the format in a few words.
    options: frozenset[str]  # They are the fields of `Options` that apply to it.
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Options], AbstractContextManager[Stream]]
    text: bool = False  # Its values are text, which have no type of their own.


_OF_TABLES = frozenset(
    {"label", "last_label", "id", "sample_weight", "dtype", "feature_names", "strict"}
    | {"model_features", "model_label", "model_id"}
)
FORMATS: dict[str, Format] = {
    "cifar10": Format(
        "CIFAR-10 batches, binary or Python: folder, .tar.gz or one batch",
        frozenset({"split"}),
        cifar10.recognises,
        cifar10.read,
    ),
    "idx": Format(
        "IDX images with labels beside them, as of MNIST: file or folder, plain or .gz",
        frozenset({"split", "label"}),
        idx.recognises,
        idx.read,
    ),
    "npy": Format("one NumPy array", frozenset({"label"}), numpy_arrays.is_npy, numpy_arrays.read_npy),
    "npz": Format(
        "an archive of NumPy arrays, or a sparse matrix that SciPy saved",
        frozenset({"array", "label"}),
        numpy_arrays.is_npz,
        numpy_arrays.read_npz,
    ),
    "arrow": Format(
        "Parquet, Feather or Arrow tables, or a folder of their parts (with pyarrow)",
        _OF_TABLES,
        arrow.recognises,
        arrow.read,
    ),
    "svmlight": Format(
        "svmlight or LIBSVM text, plain, .gz, .bz2 or .xz",
        frozenset({"dense", "n_features", "least_features", "dtype", "first_index", "model_first_index"}),
        svmlight.recognises,
        svmlight.read,
        text=True,
    ),
    "csv": Format(
        "numbers separated by commas, semicolons or tabs, plain, .gz, .bz2 or .xz",
        _OF_TABLES,
        csv_text.recognises,
        csv_text.read,
        text=True,
    ),
}


def formats_with(option: str) -> str:
    """Return the names of the formats that an option applies to, separated by commas."""
    return ", ".join(name for name, kind in FORMATS.items() if option in kind.options)


def recognise(path: str | Path) -> str:
    r"""Return the key in `FORMATS` of the format of a file or folder, by its content and name.

    A missing file raises FileNotFoundError; an unknown format raises ValueError, which lists the known ones.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.5 3:2\n")
    >>> recognise(path)
    'svmlight'
    """
    path = Path(path)
    check_input(path)
    for name, kind in FORMATS.items():
        if kind.recognises(path):
            return name
    if path.is_file() and h5py.is_hdf5(path):
        raise ValueError(f"{path} is an HDF5 file already.")
    listed = "".join(f"\n  {name}: {kind.title}" for name, kind in FORMATS.items())
    raise ValueError(f"The format of {path} is not recognised; set format= to one of:{listed}")
