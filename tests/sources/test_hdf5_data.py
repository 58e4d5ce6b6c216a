import errno
import os
import pickle
import shutil

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from scipy import sparse

from fastsvm import SVC, SVCSearch, open_hdf5
from fastsvm.files.atomic_file import has_locks
from fastsvm.sources import feature_statistics, read_column

N, D = 37, 5
VALUES = np.random.default_rng(0).integers(0, 4, (N, D)).astype(float)
VALUES[:, 1] += 1
VALUES[[3, 4, 20, N - 1]] = 0  # empty rows


def csr(dtype=np.float32, index=np.int32):
    X = sparse.csr_array(VALUES.astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def dense(block):
    return block.dense(np.float64)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.h5"


def write(path, X=VALUES, y=None, **more):
    with h5py.File(path, "w") as file:
        if X is not None:
            file["X"] = X
        if y is not None:
            file["y"] = y
        for name, value in more.items():
            file[name] = value
    return path


def test_a_data_set(path):
    labels = np.arange(N) % 3
    with open_hdf5(write(path, y=labels, sample_weight=np.ones(N))) as data:
        assert data.shape == (N, D)
        assert len(data) == N
        assert data.class_names is None
        np.testing.assert_array_equal(data.y, labels)
        np.testing.assert_array_equal(data.sample_weight, 1)
        np.testing.assert_array_equal(dense(data.X.read(0, N)), VALUES)


def test_a_data_set_without_labels(path):
    with open_hdf5(write(path)) as data:
        assert data.y is None
        assert data.sample_weight is None


@pytest.mark.parametrize("kind", [h5py.string_dtype(), "S6"])
def test_labels_that_are_words(path, kind):
    words = np.array(["été", "hiver"] if kind != "S6" else ["a", "hiver"], dtype=object)[np.arange(N) % 2]
    with h5py.File(write(path), "r+") as file:
        file.create_dataset("y", data=[word.encode() for word in words], dtype=kind)
    with open_hdf5(path) as data:
        assert data.y.dtype.kind == "U"
        assert list(data.y) == list(words)


def test_class_names(path):
    with h5py.File(write(path, y=np.arange(N) % 2), "r+") as file:
        file["y"].attrs["class_names"] = ["cat", "dog"]
        assert list(read_column(file["y"])[:3]) == [0, 1, 0]
    with open_hdf5(path) as data:
        assert data.class_names == ["cat", "dog"]


def test_a_closed_file_is_closed(path):
    with open_hdf5(write(path)) as data:
        pass
    with pytest.raises(ValueError, match="closed"):
        data.X.read(0, 1)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_that_closes_within_a_read(path, compressed, monkeypatch):
    with h5py.File(path, "w") as file:
        if compressed:
            write_csr(file.create_group("X"), sparse.csr_array(VALUES))
        else:
            file["X"] = VALUES
    data = open_hdf5(path)
    node = data.X.node

    def closed_on_the_way(*given):
        data.close()
        return node["indices"][:1] if compressed else node[:1]

    monkeypatch.setattr(data.X, "_read" if compressed else "_copy", closed_on_the_way)
    with pytest.raises(ValueError, match=r"\.h5 is closed"):
        data.X.read(0, 1)


def refused(path, *words):
    with pytest.raises(ValueError) as caught:
        open_hdf5(path)
    assert path.name in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    path.rename(path.with_name("moved"))  # on systems where that matters, no handle is open


def test_no_file(path):
    with pytest.raises(FileNotFoundError, match=r"data\.h5"):
        open_hdf5(path)


@pytest.mark.parametrize("content", [b"", b"1,2,3\n4,5,6\n", b"\x89HDF\r\n"])
def test_not_hdf5(path, content):
    path.write_bytes(content)
    refused(path, "not an HDF5 file")


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_truncated(path, part):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=np.random.default_rng(0).normal(size=(500, 20)), chunks=(50, 20))
        file["y"] = np.zeros(500)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    refused(path, "damaged or truncated")


def test_without_rows(path):
    refused(write(path, X=None, y=np.zeros(3)), "'X'", "holds y")


@pytest.mark.parametrize("y", [np.zeros(N - 1), np.zeros(N + 1), np.zeros((N, 2)), 3.0], ids=str)
def test_labels_of_another_length(path, y):
    refused(write(path, y=y), "y", f"({N},)")


def test_weights_of_another_length(path):
    refused(write(path, sample_weight=np.ones(2)), "sample_weight")


@pytest.mark.parametrize(
    ("create", "words"),
    [
        (lambda file: file.create_group("y"), "y in .*; it is a group"),
        (lambda file: file.__setitem__("y", np.dtype(float)), "y in .*; it is a named type"),
    ],
    ids=["group", "named type"],
)
def test_labels_that_are_no_dataset(path, create, words):
    with h5py.File(write(path), "r+") as file:
        create(file)
    with pytest.raises(ValueError, match=words):
        open_hdf5(path)


@pytest.mark.parametrize("X", [np.zeros(5), np.zeros((2, 3, 4)), 1.0], ids=["1-D", "3-D", "scalar"])
def test_rows_of_other_dimensions(path, X):
    refused(write(path, X=X), "2 dimensions")


@pytest.mark.parametrize("X", [[[b"a", b"b"]], np.zeros((2, 2), complex)], ids=["words", "complex"])
def test_rows_that_are_no_numbers(path, X):
    refused(write(path, X=X), "numbers")


def swap(group, name, value):
    del group[name]
    group[name] = value


DAMAGES = {
    "no data": lambda X: X.pop("data"),
    "no indices": lambda X: X.pop("indices"),
    "no indptr": lambda X: X.pop("indptr"),
    "no shape": lambda X: X.attrs.pop("shape"),
    "shape of one number": lambda X: X.attrs.__setitem__("shape", [N]),
    "shape of three numbers": lambda X: X.attrs.__setitem__("shape", [N, D, 2]),
    "shape that is negative": lambda X: X.attrs.__setitem__("shape", [N, -D]),
    "too few rows": lambda X: X.attrs.__setitem__("shape", [N - 1, D]),
    "indptr cut": lambda X: swap(X, "indptr", X["indptr"][:-1]),
    "indptr falls": lambda X: swap(X, "indptr", X["indptr"][:][np.r_[0, 2, 1, 3 : N + 1]]),
    "indptr begins late": lambda X: swap(X, "indptr", np.r_[1, X["indptr"][1:]]),
    "indptr ends early": lambda X: swap(X, "indptr", np.minimum(X["indptr"], 20)),
    "indptr of two dimensions": lambda X: swap(X, "indptr", X["indptr"][:][:, None]),
    "data cut": lambda X: swap(X, "data", X["data"][:-1]),
    "indices cut": lambda X: swap(X, "indices", X["indices"][:-1]),
    "data of two dimensions": lambda X: swap(X, "data", np.stack([X["data"][:]] * 2, axis=1)),
    "data of words": lambda X: swap(X, "data", [b"a"] * len(X["data"])),
    "indices that are no integers": lambda X: swap(X, "indices", X["indices"][:].astype(float)),
    "columns": lambda X: X.attrs.__setitem__("encoding-type", "csc_matrix"),
    "data a group": lambda X: (X.pop("data"), X.create_group("data")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_ragged_csr(path, damage):
    with h5py.File(path, "w") as file:
        write_csr(file.create_group("X"), csr())
        DAMAGES[damage](file["X"])
    refused(path)


@pytest.mark.parametrize("column", [D, -1])
def test_a_column_out_of_range_is_refused_when_it_is_read(path, column):
    with h5py.File(path, "w") as file:
        write_csr(file.create_group("X"), csr())
        file["X/indices"][30] = column
    with open_hdf5(path) as data, pytest.raises(ValueError, match="damaged"):
        feature_statistics(data.X)


def test_a_damaged_chunk_is_refused_with_the_name_of_the_file(path):
    with h5py.File(path, "w") as file:
        options = {"chunks": (50, 20), "compression": "gzip", "fletcher32": True}
        X = file.create_dataset("X", data=np.random.default_rng(0).normal(size=(500, 20)), **options)
        place = X.id.get_chunk_info(4).byte_offset
    content = bytearray(path.read_bytes())
    content[place + 100 : place + 200] = bytes(100)
    path.write_bytes(content)
    with open_hdf5(path) as data, pytest.raises(OSError, match=r"data\.h5"):
        feature_statistics(data.X)


@pytest.mark.skipif(not has_locks(), reason="the lock is that of POSIX")
def test_a_file_that_another_program_writes_is_not_called_damaged(path):
    import fcntl

    with open(write(path, y=np.arange(N)), "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match=r"open in another program.*HDF5_USE_FILE_LOCKING=FALSE"):
            open_hdf5(path)
    open_hdf5(path).close()


@pytest.mark.parametrize(("number", "words"), [(errno.ENOLCK, "without locks"), (errno.EAGAIN, "another program")])
def test_a_file_system_without_locks_is_told(path, monkeypatch, number, words):
    def refused(*_, **__):
        raise OSError(number, "Unable to synchronously open file (unable to lock file, errno = 0)")

    write(path)
    monkeypatch.setattr(h5py, "File", refused)
    with pytest.raises(BlockingIOError, match=words):
        open_hdf5(path)


def test_a_file_that_is_marked_as_being_written(path, tmp_path):
    """The mark of a writer for readers (SWMR) does not matter; another one is told, and what removes it."""
    with h5py.File(path, "w", libver="latest") as file:
        file["X"], file["y"] = VALUES, np.arange(N) % 2
        file.flush()
        shutil.copy(path, tmp_path / "killed.h5")
        file.swmr_mode = True
        shutil.copy(path, tmp_path / "live.h5")
    with pytest.raises(BlockingIOError, match=r"marked as being written: .* `h5clear -s .*killed.h5` removes the mark"):
        open_hdf5(tmp_path / "killed.h5")
    with open_hdf5(tmp_path / "live.h5") as data:
        model = SVC().fit(data)
        os.utime(tmp_path / "live.h5")  # as its writer does
        data.X.check_unchanged()
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(data)).y, data.y)
        assert model.score(data) == SVC().fit(VALUES, data.y).score(VALUES, data.y)


def test_an_open_file_is_its_data_set(path):
    """Also one in memory, with labels that are words."""
    y = np.where(VALUES[:, 0] > 1, "more", "less")
    weight = np.arange(N) + 1.0
    memory = {"driver": "core", "backing_store": False}
    write(path, y=y.astype(object), sample_weight=weight)
    with h5py.File(path) as stored, h5py.File("memory.h5", "w", **memory) as held:
        for name in ("X", "y", "sample_weight"):
            stored.copy(name, held)
        expected = SVC().fit(VALUES, y, weight)
        for file in (stored, held):
            model = SVC().fit(file)
            np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)
            np.testing.assert_array_equal(model.predict(file), expected.predict(VALUES))
            assert model.score(file) == expected.score(VALUES, y)
            assert SVC().fit(file, VALUES[:, 1] > 1).classes_.tolist() == [False, True]
            found = SVCSearch(SVC(), {"C": [1.0]}, cv=2).fit(file)
            assert (
                found.best_score_
                == SVCSearch(SVC(), {"C": [1.0]}, cv=2).fit(VALUES, y, sample_weight=weight).best_score_
            )
        del held["y"]
        with pytest.raises(ValueError, match="has no dataset 'y'"):
            SVC().fit(held)
    with pytest.raises(ValueError, match="closed"):
        SVC().fit(stored)
