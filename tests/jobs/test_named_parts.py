"""Jobs and commands on files whose samples are read where they are, by the names of their parts."""

import h5py
import numpy as np
import pytest

from fastsvm import load
from fastsvm.cli import main

N = 80
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = np.where(X[:, 0] > 0, "warm", "cold")


@pytest.fixture
def cells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("cells.h5ad", "w") as file:
        file["layers/counts"] = X
        kinds = file.create_group("obs/kind")
        names, codes = np.unique(Y, return_inverse=True)
        kinds["categories"], kinds["codes"] = names.astype(object), codes
        file["obs/depth"] = np.linspace(1, 2, N)
    with h5py.File("plain.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = X, Y.astype(object), np.linspace(1, 2, N)
    return tmp_path


PARTS = ["--array", "counts", "--label", "kind", "--sample-weight", "depth"]


def test_train_and_predict(cells, capsys):
    assert main(["train", "cells.h5ad", *PARTS, "--model", "linear", "-o", "named.model"]) == 0
    assert main(["train", "plain.h5", "--model", "linear", "-o", "plain.model"]) == 0
    np.testing.assert_array_equal(load("named.model").coef_, load("plain.model").coef_)
    assert main(["evaluate", "named.model", "cells.h5ad", *PARTS]) == 0
    assert main(["predict", "named.model", "cells.h5ad", "--array", "counts", "-o", "found.csv"]) == 0
    assert (cells / "found.csv").read_text().count("\n") == N + 1
    assert main(["info", "cells.h5ad", *PARTS]) == 0
    assert "warm" in capsys.readouterr().out


def test_a_job(cells):
    (cells / "job.toml").write_text(
        '[data]\ntrain = "cells.h5ad"\narray = "counts"\nlabel = "kind"\nholdout = 0.25\n'
        '[model]\nkind = "svc"\n[search]\nC = [1, 10]\n'
    )
    assert main(["run", "job.toml", "--folder", "done"]) == 0
    assert sorted(load("done/model.fastsvm").classes_) == ["cold", "warm"]
    assert (cells / "done" / "report.html").exists()


def test_zarr(cells):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group("cells.zarr", mode="w")
    group["X"], group["kind"] = X, (Y == "warm").astype(np.int8)
    assert main(["train", "cells.zarr", "--label", "kind", "--model", "linear", "-o", "zarr.model"]) == 0
    assert load("zarr.model").n_features_in_ == 4


def test_options_that_do_not_apply(cells, capsys):
    assert main(["train", "cells.h5ad", *PARTS, "--id", "name", "-o", "named.model"]) == 2
    assert "read where it is" in capsys.readouterr().err
    assert main(["train", "cells.h5ad", "--array", "counts", "--label", "none", "-o", "named.model"]) == 2
    assert "no part 'none'; it holds layers/counts (80, 4) float64" in capsys.readouterr().err
