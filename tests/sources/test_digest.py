"""Digests that distinguish rows, in memory and on disk."""

import os

import h5py
import numpy as np
import pytest
from scipy import sparse

from fastsvm import open_hdf5
from fastsvm.sources import ScaledSource, SubsetSource, as_source

LAYOUTS = {"dense": np.asarray, "CSR": sparse.csr_array, "bytes": np.uint8, "half": np.float16}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_value_in_memory_counts(layout):
    X = np.random.default_rng(0).integers(0, 5, size=(300, 7)).astype(float)
    wanted = as_source(layout(X)).digest()
    assert as_source(layout(X.copy())).digest() == wanted
    assert as_source(np.asfortranarray(X)).digest() == as_source(X).digest()
    for row in (0, 150, 299):
        other = X.copy()
        other[row, 3] += 1
        assert as_source(layout(other)).digest() != wanted


def test_shape_type_and_layout_count():
    X = np.zeros((6, 4))
    found = [as_source(a).digest() for a in (X, X.reshape(4, 6), X.astype(np.float32), sparse.csr_array(X))]
    assert len(set(found)) == 4


def test_views_count_with_what_they_do():
    X = np.random.default_rng(0).normal(size=(30, 4))
    source = as_source(X)
    views = [
        source, ScaledSource(source, None, 2.0), ScaledSource(source, None, 3.0), ScaledSource(source, X[0], 2.0),
        SubsetSource(source, np.arange(10)), SubsetSource(source, np.arange(1, 11)),
    ]  # fmt: skip
    assert len({view.digest() for view in views}) == len(views)
    assert ScaledSource(source, X[0], 2.0).digest() == views[3].digest()


def test_a_file_counts_with_its_version(tmp_path):
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.random.default_rng(0).normal(size=(5000, 3))
    found = []
    for moment in (10**18, 10**18, 2 * 10**18):
        os.utime(path, ns=(moment, moment))
        with open_hdf5(path) as data:
            found.append(data.X.digest())
    assert found[0] == found[1] != found[2]
