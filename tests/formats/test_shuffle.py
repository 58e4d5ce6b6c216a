from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from fastsvm.formats import convert
from fastsvm.formats.conversion import shuffled
from fastsvm.formats.readers.stream import Rows, stack


def blocks(n: int, size: int, kind: str = "dense") -> Iterator[Rows]:
    """Yield n rows in blocks of `size`. Each row contains its number."""
    for start in range(0, n, size):
        number = np.arange(start, min(start + size, n))
        X = np.column_stack([number, -number]).astype(float)
        X = sparse.csr_array(X) if kind == "sparse" else X
        yield Rows(X, None if kind == "unlabelled" else number.astype(str) if kind == "words" else number)


def order(rows: Iterator[Rows]) -> np.ndarray:
    whole = stack(list(rows))
    X = whole.X.toarray() if sparse.issparse(whole.X) else whole.X
    number = X[:, 0].astype(int)
    np.testing.assert_array_equal(X[:, 1], -number)
    if whole.y is not None:
        np.testing.assert_array_equal(whole.y.astype(int), number)
    return number


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 250), st.integers(1, 90), st.integers(50, 20_000), st.integers(0, 2**64))
def test_the_order_depends_on_the_seed_alone(tmp_path, n, size, limit, seed):
    found = order(shuffled(blocks(n, size), seed, tmp_path, limit))
    np.testing.assert_array_equal(found, order(shuffled(blocks(n, n), seed, tmp_path, 1 << 30)))
    np.testing.assert_array_equal(np.sort(found), np.arange(n))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["dense", "sparse", "words", "unlabelled"])
@pytest.mark.parametrize("limit", [300, 3000, 1 << 20])
def test_every_kind_of_rows(tmp_path, kind, limit):
    found = order(shuffled(blocks(300, 30, kind), 1, tmp_path, limit))
    np.testing.assert_array_equal(found, order(shuffled(blocks(300, 77), 1, tmp_path, 1 << 30)))


def test_it_is_random(tmp_path):
    first = [order(shuffled(blocks(8, 8), seed, tmp_path, 1 << 20))[0] for seed in range(480)]
    assert np.bincount(first, minlength=8).min() > 30  # 60 expected, standard deviation 7.2


def test_no_rows(tmp_path):
    assert list(shuffled(iter(()), 0, tmp_path, 100)) == []


def source(folder: Path, n: int = 2000) -> Path:
    path = folder / "rows.npy"
    np.save(path, np.arange(4.0 * n).reshape(n, 4))
    return path


@pytest.mark.parametrize("memory", [1 << 15, 1 << 26])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
@pytest.mark.parametrize("when", ["writing", "renaming", "reading"])
def test_nothing_is_left_after_an_error(tmp_path, monkeypatch, memory, error, when):
    path = source(tmp_path)
    target = tmp_path / "out" / "rows.h5"
    target.parent.mkdir()
    target.write_bytes(b"an earlier file")

    def fail(*_: object) -> None:
        assert len(list(target.parent.iterdir())) == 2
        raise error

    if when == "renaming":
        monkeypatch.setattr("fastsvm.formats.conversion.complete", fail)
    elif when == "writing":
        monkeypatch.setattr("fastsvm.formats.writer._extend", fail)
    else:
        monkeypatch.setattr("fastsvm.formats.readers.stream.check_finite", fail)
    with pytest.raises(error):
        convert(path, target, memory=memory)
    assert [file.name for file in target.parent.iterdir()] == ["rows.h5"]
    assert target.read_bytes() == b"an earlier file"


def test_chunks_are_slabs_of_rows(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((3000, 3072), np.uint8))
    summary = convert(path, tmp_path / "rows.h5")
    with h5py.File(summary.path) as file:
        assert file["X"].chunks == (1024, 3072)
        assert file["X"].compression is None
    assert summary.bytes == summary.path.stat().st_size
    small = convert(source(tmp_path, 10), tmp_path / "small.h5")
    assert small.bytes < 20_000


def test_progress_is_shown_to_terminals_only(tmp_path, capsys):
    convert(source(tmp_path), tmp_path / "rows.h5", progress=True)
    assert capsys.readouterr().err == ""


def test_the_source_may_be_a_str(tmp_path):
    path = source(tmp_path)
    assert convert(str(path), str(tmp_path / "rows.h5")).path == tmp_path / "rows.h5"
