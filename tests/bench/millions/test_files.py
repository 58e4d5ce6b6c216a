"""Is the file of samples written once, and whole?"""

import h5py
import numpy as np
import pytest

from bench.millions.files import write
from bench.millions.recipes import Blocks, deformed_digits


def _blocks(parts):
    return Blocks(iter(parts), np.empty((0, 2)), np.empty(0))


def test_blocks_are_one_after_the_other_and_a_file_that_exists_is_kept(tmp_path):
    X, y = np.arange(14, dtype=np.float32).reshape(7, 2), np.arange(7)
    path = write(tmp_path / "some.h5", _blocks([(X[:4], y[:4]), (X[4:], y[4:])]))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["X"], X)
        np.testing.assert_array_equal(file["y"], y)
        assert file["X"].dtype == np.float32
    assert write(path, _blocks([(X[:1], y[:1])])) == path
    with h5py.File(path) as file:
        assert len(file["X"]) == 7


def test_a_file_that_was_not_finished_is_removed(tmp_path):
    def broken():
        yield np.ones((3, 2)), np.ones(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "some.h5", _blocks(broken()))
    assert not list(tmp_path.iterdir())


def test_deformed_images_have_the_labels_of_their_originals():
    found = deformed_digits(1400)
    (X, y), *rest = found.blocks
    assert not rest
    assert (X.shape, X.dtype) == ((1400, 64), np.uint8)
    np.testing.assert_array_equal(y[1347:], y[: 1400 - 1347])  # the originals take turns
    assert (X[1347:] != X[: 1400 - 1347]).any(axis=1).all()
    near = ((X[:, None, :].astype(int) - found.X_test[:100].astype(int)) ** 2).sum(axis=2).argmin(axis=0)
    assert (y[near] == found.y_test[:100]).mean() > 0.85
