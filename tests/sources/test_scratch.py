"""Rows in a file without a name: what is read is what was written, and nothing is left."""

import os
import resource

import numpy as np
import pytest

from fastsvm.sources import as_source
from fastsvm.sources.tiled import ScratchSource


@pytest.mark.parametrize("width", [None, 7, 3, 1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_are_those_that_were_written(dtype, width, tmp_path):
    rows = np.random.default_rng(0).normal(size=(100, 7)).astype(dtype)
    source = ScratchSource(rows.shape, dtype, str(tmp_path), "a", width)
    for first in range(0, 7, width or 7):
        for a, b in ((0, 30), (30, 31), (31, 100)):
            source.append(rows[a:b, first : first + (width or 7)])
    np.testing.assert_array_equal(source.read(20, 90).values, rows[20:90])
    buffer = source.buffer(50)
    found = source.read_all([(90, 100), (0, 5), (20, 20)], buffer).values
    np.testing.assert_array_equal(found, np.concatenate([rows[90:], rows[:5]]))
    assert np.shares_memory(found, buffer) and source.reads.nbytes == (70 + 15) * 7 * rows.itemsize
    np.testing.assert_array_equal(source.rows(np.array([99, 3, 50])).values, rows[[99, 3, 50]])
    assert os.name != "posix" or not list(tmp_path.iterdir())
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read(0, 1)


def test_the_digest_is_of_the_origin():
    origins = [as_source(np.full((3, 1), value)) for value in (1.0, 1.0, 2.0)]
    sources = [ScratchSource((3, 2), np.float16, None, origin) for origin in origins]
    digests = [source.digest() for source in sources]
    assert digests[0] == digests[1] != digests[2]
    for source in sources:
        source.close()


def test_a_folder_that_is_not_there_and_rows_that_are_lost(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no scratch file can be made.*nowhere"):
        ScratchSource((3, 2), np.float16, str(tmp_path / "nowhere"), "a")
    source = ScratchSource((3, 2), np.float16, str(tmp_path), "a")
    with pytest.raises(OSError, match="has lost rows: it ends before row 3"):
        source.read(1, 3)
    source.close()


def test_a_full_disk(tmp_path):
    source = ScratchSource((1000, 100), np.float32, str(tmp_path), "a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(
            OSError, match=r"scratch file of 0 MB cannot be written: .*Free some space.*" + tmp_path.name
        ):
            source.append(np.zeros((1000, 100)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        source.close()
