import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest
from scipy import sparse

from fastsvm.formats import convert


class Stored(NamedTuple):
    X: np.ndarray
    y: np.ndarray | None
    class_names: list[str] | None


def _load(path: Path) -> Stored:
    with h5py.File(path) as file:
        node = file["X"]
        if isinstance(node, h5py.Group):
            assert dict(node.attrs)["encoding-type"] == "csr_matrix"
            assert dict(node.attrs)["encoding-version"] == "0.1.0"
            assert node["indptr"].dtype == np.int64 and node["indices"].dtype == np.int32
            parts = (node["data"][:], node["indices"][:], node["indptr"][:])
            X = sparse.csr_array(parts, shape=node.attrs["shape"]).toarray()
        else:
            X = node[:]
        if "y" not in file:
            return Stored(X, None, None)
        y = file["y"]
        names = y.attrs.get("class_names")
        values = y.asstr()[:] if h5py.check_string_dtype(y.dtype) else y[:]
        return Stored(X, values, None if names is None else list(names))


@pytest.fixture
def load() -> Callable[[Path], Stored]:
    """Read a converted file, sparse rows as dense ones."""
    return _load


@pytest.fixture
def converted(tmp_path: Path) -> Callable[..., Stored]:
    """Convert a source, without shuffling unless asked to, and read the result."""

    def run(source: Path, **options: object) -> Stored:
        destination = tmp_path / "converted.h5"
        convert(source, destination, **({"shuffle": False} | options))
        return _load(destination)

    return run


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Convert a source that must be refused; check that nothing is left, and return the message."""

    def run(source: Path, kind: type[Exception] = ValueError, **options: object) -> str:
        folder = tmp_path / "empty"
        folder.mkdir(exist_ok=True)
        with pytest.raises(kind) as caught:
            convert(source, folder / "converted.h5", **options)
        assert not list(folder.iterdir())
        return str(caught.value)

    return run


@pytest.fixture
def real_data() -> Path:
    """Return the folder with real data."""
    if "FASTSVM_DATA" not in os.environ:
        pytest.skip("FASTSVM_DATA names no folder with real data")
    return Path(os.environ["FASTSVM_DATA"])
