"""The same rows as an array, a memory map and a file, dense and sparse: the same model.

Lengths are drawn around those at which estimators choose another way, so that a storage that took a way of its own
would show.
"""

import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from fuzz.budget import chunks, examine
from fuzz.judges import Find
from hypothesis import strategies as st
from scipy import sparse

import fastsvm
from fastsvm.estimators.registry import ESTIMATORS

LENGTHS = (64, 256, 512, 1024, 2048, 3072, 4096, 10_000)
WIDTHS = (16, 64, 128, 256, 512)
_MOST_VALUES = 200_000
ATTRIBUTES = ("coef_", "dual_coef_", "support_", "intercept_", "objective_", "n_iter_", "classes_", "components_")
USUAL = 12


@dataclass(frozen=True)
class Drawn:
    """An estimator, its parameters, rows, and how the file stores them."""

    name: str
    seed: int
    n: int
    d: int
    classes: int
    density: float
    dtype: str
    chunk: tuple[float, float] | None
    parameters: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return rows, and labels or targets where the estimator takes any."""
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(self.n, self.d)) * (rng.random((self.n, self.d)) < self.density)
        X = (40 * X + 128).clip(0, 255).astype(np.uint8) if self.dtype == "uint8" else X.astype(self.dtype)
        scores = X @ rng.normal(size=self.d).astype(X.dtype if X.dtype.kind == "f" else float) + rng.normal(size=self.n)
        if self.name in ("one-class", "linear-one-class"):
            return X, None
        if self.name in ("svr", "nu-svr", "linear-regressor", "nystroem-regressor", "sgd-regressor"):
            return X, scores / max(1e-9, float(np.abs(scores).max()))
        return X, np.argsort(np.argsort(scores)) * self.classes // self.n

    def model(self) -> Any:
        """Return the estimator; what limits it counts steps, since seconds would end it elsewhere each time."""
        return ESTIMATORS[self.name](**self.parameters)


def _near(values: tuple[int, ...], most: int) -> st.SearchStrategy[int]:
    around = [each + k for each in values for k in (-1, 0, 1) if each + k <= most]
    return st.one_of(st.integers(6, 40), st.sampled_from(around or [40]))


@st.composite
def drawn(draw: Any) -> Drawn:
    """Draw a case."""
    name = draw(st.sampled_from(sorted(ESTIMATORS)))
    d = draw(_near(WIDTHS, 512))
    n = draw(_near(LENGTHS, min(10_001, _MOST_VALUES // d)))
    classes = draw(st.sampled_from([2, 2, 2, 3, 5, 20, 100, 500]))
    parameters: dict[str, Any] = {"max_iter": draw(st.sampled_from([1, 3, 50]))}
    if name not in ("svc", "svr", "nu-svc", "nu-svr", "one-class"):
        parameters["random_state"] = 0
    if "window_visits" in ESTIMATORS[name]().get_params():
        parameters["window_visits"] = 1
    if "n_components" in ESTIMATORS[name]().get_params():
        parameters["n_components"] = draw(st.sampled_from([5, 40]))
    if "loss" in ESTIMATORS[name]().get_params() and name in ("linear", "sgd"):
        parameters["loss"] = draw(st.sampled_from(["hinge", "squared_hinge"]))
    if "C" in ESTIMATORS[name]().get_params():
        parameters["C"] = draw(st.sampled_from([1e-3, 1.0, 100.0]))
    if name == "nu-svc":
        parameters["nu"] = 0.05
    return Drawn(
        name,
        draw(st.integers(0, 2**31 - 1)),
        n,
        d,
        min(classes, n // 3),
        draw(st.sampled_from([1.0, 1.0, 0.3, 0.02])),
        draw(st.sampled_from(["float64", "float64", "float32", "uint8"])),
        draw(st.sampled_from([None, (0.1, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.3, 0.5)])),
        parameters,
    )


def _fitted(case: Drawn, X: Any, y: np.ndarray | None) -> dict[str, Any]:
    """Return what a fit leaves, or the words with which it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = case.model().fit(X) if y is None else case.model().fit(X, y)
        except ValueError as error:
            return {"refused": str(error).partition(".")[0]}
    found = {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
    return {name: each.toarray() if sparse.issparse(each) else np.asarray(each) for name, each in found.items()}


def _compare(case: Drawn, found: dict[str, Any], wanted: dict[str, Any], words: str) -> None:
    for name in sorted(found.keys() | wanted.keys()):
        a, b = found.get(name), wanted.get(name)
        if a is None or b is None or np.shape(a) != np.shape(b) or not np.array_equal(a, b):
            raise Find(f"{words}: {name} differs: {np.asarray(a).ravel()[:3]}, {np.asarray(b).ravel()[:3]}; {case!r}")


def check(case: Drawn) -> None:
    """Raise `Find` if the storage of rows that memory holds changes a model."""
    X, y = case.rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        chunk = (
            None if case.chunk is None else tuple(max(1, int(f * s)) for f, s in zip(case.chunk, X.shape, strict=True))
        )
        with h5py.File(path / "dense.h5", "w") as file:
            file.create_dataset("X", data=X, chunks=chunk)
        np.save(path / "rows.npy", X)
        wanted = _fitted(case, X, y)
        _compare(case, _fitted(case, np.load(path / "rows.npy", mmap_mode="r"), y), wanted, "memory map")
        with fastsvm.open_hdf5(path / "dense.h5") as data:
            _compare(case, _fitted(case, data, y), wanted, "dense file")
        rows = sparse.csr_matrix(X)
        with h5py.File(path / "sparse.h5", "w") as file:
            write_csr(file.create_group("X"), rows)
        wanted = _fitted(case, rows, y)
        with fastsvm.open_hdf5(path / "sparse.h5") as data:
            _compare(case, _fitted(case, data, y), wanted, "sparse file")


@pytest.mark.parametrize(("chunk", "count"), chunks(usual=USUAL))
def test_the_storage_of_the_rows_changes_no_bit(chunk, count):
    examine(drawn(), check, chunk, count)
