import bz2
import gzip
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from fastsvm.formats import convert, recognise
from fastsvm.sources import open_hdf5


def write(folder: Path, text: str | bytes, name: str = "rows.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture(params=[True, False], ids=["from 0", "from 1"])
def dumped(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = sparse.random_array((1000, 40), density=0.1, rng=rng, dtype=np.float32).toarray()
    X[950, 0] = X[0, 39] = 1.5  # index 0 occurs in the last rows only
    X[:950, 0] = X[5] = 0
    y = rng.integers(-1, 3, 1000)
    path = tmp_path / "rows.txt"
    dump_svmlight_file(X, y, str(path), zero_based=request.param)
    return path, X, y


def test_matches_scikit_learn(dumped, converted):
    path, X, y = dumped
    found = load_svmlight_file(str(path), n_features=40, dtype=np.float32)
    np.testing.assert_array_equal(found[0].toarray(), X)
    for options in ({}, {"dense": True}, {"memory": 1 << 16, "shuffle": False}):
        stored = converted(path, **options)
        assert stored.X.dtype == np.float32 and stored.y.dtype == np.int64
        np.testing.assert_array_equal(stored.X, X)
        np.testing.assert_array_equal(stored.y, y)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed(dumped, converted, pack):
    path, X, _ = dumped
    path.write_bytes(pack(path.read_bytes()))
    np.testing.assert_array_equal(converted(path).X, X)


@pytest.mark.parametrize("dense", [None, True])
def test_little_memory_gives_the_same_file(dumped, converted, dense):
    path, X, _ = dumped
    one, other = (converted(path, dense=dense, shuffle=True, memory=memory) for memory in (1 << 24, 1 << 15))
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    assert not np.array_equal(one.X, X)


def test_comments_blank_lines_and_fractions(tmp_path, converted):
    path = write(tmp_path, "# rows\n\n0.5  1:1\t3:-2e3 # first\r\n2\n-1 2:.5\n")
    stored = converted(path, dtype="float64")
    assert stored.X.tolist() == [[1, 0, -2000], [0, 0, 0], [0, 0.5, 0]]
    assert stored.y.tolist() == [0.5, 2, -1]


def test_rows_without_features(tmp_path, converted, refused):
    path = write(tmp_path, "1\n-1\n")
    assert "no features" in refused(path, format="svmlight")
    assert converted(path, format="svmlight", n_features=3).X.tolist() == [[0] * 3] * 2


def test_number_of_features(tmp_path, converted, refused):
    path = write(tmp_path, "1 2:1\n-1 4:1\n")
    assert converted(path).X.shape == (2, 4)
    assert converted(path, n_features=9).X.shape == (2, 9)
    assert "has 4 features" in refused(path, n_features=3)
    assert "positive" in refused(path, n_features=0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2 1:1", "several labels"),
        ("1 qid:3 1:1", "qid"),
        ("3:1 4:1", "no label"),
        ("1 1:1 2:", "not a row of svmlight text"),
        ("1 1:1 2", "not a row of svmlight text"),
        ("1 1:1 foo", "'foo'"),
        ("1 1:x 2:1", "'x'"),
        ("one 1:1", "'one'"),
        ("nan 1:1", "not finite"),
        ("1 1:1 3:nan 4:1", "feature 3"),
        ("1 1:1 3:1e99 4:1", "feature 3"),
        ("1 3:1 2:1 4:1", "sorted"),
        ("1 2:1 2:1", "sorted"),
        ("1 -3:1", "-3"),
        (f"1 {10**30}:1", "do not increase"),
    ],
)
def test_bad_lines_are_named(tmp_path, refused, line, message):
    path = write(tmp_path, "# rows\n1 1:1 4:1\n\n" + line + "\n1 1:1\n")
    found = refused(path, format="svmlight")
    assert "line 4" in found and message in found


def test_nothing_but_comments(tmp_path, refused):
    assert "no rows" in refused(write(tmp_path, "# 1:1\n\n"), format="svmlight")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_bytes_convert_or_are_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    path = write(folder, b"1 1:2\n" + content)
    try:
        convert(path, folder / "out.h5", format="svmlight")
    except ValueError as error:
        assert path.name in str(error)
        assert [file.name for file in folder.iterdir()] == [path.name]
    else:
        assert sorted(file.name for file in folder.iterdir()) == ["out.h5", path.name]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.99])
def test_truncated_archive(dumped, refused, pack, part):
    path, _, _ = dumped
    packed = pack(path.read_bytes())
    path.write_bytes(packed[: int(part * len(packed))])
    assert "truncated or damaged" in refused(path)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads Zstandard")
def test_a_compression_that_this_python_does_not_read(tmp_path, refused):
    assert "compressed as .zst" in refused(write(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(30), "rows.svm"))


@pytest.mark.parametrize("text", ["1 1:1 2:\n-1 2:1\n", "1 1:1 2", "1 1:1 2:\n"])
def test_a_first_line_that_is_cut_is_named(tmp_path, refused, text):
    assert "line 1 is not a row of svmlight text" in refused(write(tmp_path, text))


def test_what_the_first_index_is(tmp_path):
    path = write(tmp_path, "1 2:1\n-1 4:1\n")
    for options, n_features, first, sure in (
        ({}, 4, 1, False),
        ({"first_index": "auto"}, 4, 1, False),
        ({"first_index": 0}, 5, 0, True),
        ({"first_index": 1}, 4, 1, True),
        ({"model_first_index": 0}, 5, 0, True),
        ({"n_features": 4}, 4, 1, True),  # counted from 0, they would be five
        ({"n_features": 5}, 5, 1, False),
        ({"dense": True, "first_index": 0}, 5, 0, True),
    ):
        summary = convert(path, tmp_path / "rows.h5", **options)
        assert summary.n_features == n_features and ("No index is 0" in str(summary.notes)) == (not sure)
        with open_hdf5(tmp_path / "rows.h5") as data:
            assert data.X.origin[:2] == (first, sure)
    path = write(tmp_path, "1 2:1\n" * 99 + "-1 0:1\n")  # late in the file
    assert convert(path, tmp_path / "rows.h5", model_first_index=1).n_features == 3
    with open_hdf5(tmp_path / "rows.h5") as data:
        assert data.X.origin[:2] == (0, True)


def test_a_first_index_that_cannot_be(tmp_path, refused):
    assert "line 2 has the index 0" in refused(write(tmp_path, "1 1:1\n1 0:1\n"), first_index=1)
    assert "must be 0, 1 or 'auto'" in refused(write(tmp_path, "1 1:1\n"), first_index=2)


def test_recognised(dumped, tmp_path):
    assert recognise(dumped[0]) == "svmlight"
    assert recognise(write(tmp_path, "1,2 qid:1 3:4\n", "a")) == "svmlight"
    assert recognise(write(tmp_path, "1 3:4\n2\n", "b")) == "svmlight"
    assert recognise(write(tmp_path, "what", "c.libsvm")) == "svmlight"
    assert recognise(write(tmp_path, "10:30,1\n10:40,2\n", "d")) == "csv"


@pytest.mark.realdata
def test_real_a9a(real_data, tmp_path, load):
    for name, n in (("a9a", 32_561), ("a9a.t", 16_281)):
        summary = convert(real_data / name, tmp_path / f"{name}.h5", n_features=123, shuffle=False)
        assert (summary.n_samples, summary.n_features, summary.n_classes) == (n, 123, 2)
        X, y = load_svmlight_file(str(real_data / name), n_features=123)
        stored = load(summary.path)
        np.testing.assert_array_equal(stored.X, X.toarray())
        np.testing.assert_array_equal(stored.y, y)


@pytest.mark.parametrize("row", ["1 2147483648:1", "1 1:1 4294967296:1 7:2", "1 1:1 9007199254740990:1"])
def test_indices_that_do_not_fit_are_named(tmp_path, refused, row):
    message = refused(write(tmp_path, f"2 1:3\n{row}\n"))
    assert "line 2" in message and "larger than 2147483647" in message


@pytest.mark.parametrize("dense", [False, True])
def test_values_that_float32_would_merge_are_stored_in_float64(tmp_path, dense):
    lines = [f"{k % 2} 1:{1700000000 + 20 * k} 3:{k / 10}\n" for k in range(50)]
    path = write(tmp_path, "".join(lines))
    summary = convert(path, tmp_path / "rows.h5", dense=dense)
    assert summary.dtype == np.float64 and "feature 0" in summary.notes[-1]
    path = write(tmp_path, "".join(lines) + "0 3:1\n")  # a row without the feature: its range is from 0
    assert convert(path, tmp_path / "rows.h5", dense=dense).dtype == np.float32
