"""Data sets of the runs."""

import h5py
import numpy as np
import pytest
from runs import D, N
from sklearn.datasets import load_iris


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs") / "data.h5"
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    X = 128 + 20 * (rng.normal(size=(N, D)) + 1.2 * np.eye(D)[y])
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X.astype(np.uint8), chunks=(100, D))
        file["y"] = y
    return path


@pytest.fixture
def iris(tmp_path):
    X, y = load_iris(return_X_y=True)
    with h5py.File(tmp_path / "iris.h5", "w") as data:
        data["X"], data["y"] = X, y
    return str(tmp_path / "iris.h5")
