"""Is the large file what it should be?"""

from dataclasses import replace

import h5py
import numpy as np
import pytest

from bench.__main__ import main
from bench.cases import cases_of
from bench.harness.data import DataMissing
from bench.harness.processes import ROOT
from bench.streaming.big_file import Plan, drop_from_cache, write, written


def images():
    """Return twenty images that are far from each other, and their numbers as labels."""
    return np.repeat(np.arange(0, 260, 13, dtype=np.uint8)[:, None], 6, axis=1), np.arange(20)


def test_file_has_every_image_equally_often_with_noise_in_random_order(tmp_path):
    rows, labels = images()
    path = write(tmp_path, Plan(rows=1000, chunk_rows=64, noise=4), rows, labels)
    with h5py.File(path) as file:
        X, y = file["X"][:], file["y"][:]
        assert (file["X"].dtype, file["X"].chunks, X.shape) == (np.uint8, (64, 6), (1000, 6))
    assert np.bincount(y).tolist() == [50] * 20
    assert (np.diff(y) < 0).mean() > 0.4
    noise = X.astype(int) - rows[y]
    assert set(noise.ravel().tolist()) == set(range(-4, 5))
    assert noise[y == 0].min() == 0  # there is nothing below 0
    assert len(np.unique(X, axis=0)) > 900


def test_file_of_the_same_plan_is_taken_and_an_unfinished_one_is_not(tmp_path, monkeypatch):
    rows, labels = images()
    path = write(tmp_path, Plan(100, 10), rows, labels)
    before = path.stat().st_mtime_ns
    assert write(tmp_path, Plan(100, 10), rows, labels) == path
    assert path.stat().st_mtime_ns == before
    assert write(tmp_path, Plan(100, 20), rows, labels) != path
    with pytest.raises(IndexError):
        write(tmp_path, Plan(60, 10), rows, labels[:5])
    assert not list(tmp_path.glob("*.part"))
    monkeypatch.setattr("bench.streaming.big_file._MARGIN", 1e15)
    with pytest.raises(OSError, match="has no room for"):
        write(tmp_path, Plan(200, 10), rows, labels)


def test_file_is_still_there_after_the_system_forgot_it(tmp_path):
    path = write(tmp_path, Plan(100, 10), *images())
    assert drop_from_cache(path) in (True, False)
    with h5py.File(path) as file:
        assert file["X"][:].any()


def test_folder_is_needed_outside_the_repository(options, tmp_path, capsys):
    large = cases_of("streaming")["cifar-10-8GB"]
    with pytest.raises(DataMissing, match="inside the repository"):
        written(large, replace(options, folder=ROOT / "data"), tmp_path)
    assert main(["streaming", "--case", "cifar*", "--out", str(tmp_path)]) == 0
    assert "cifar-10-8GB is skipped: --folder is needed" in capsys.readouterr().out
