import pickle
import threading

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fastsvm import open_hdf5
from fastsvm.sources import ScaledSource, SubsetSource, as_source, feature_statistics, hdf5, memory
from fastsvm.sources.base import read_ahead
from fastsvm.sources.hdf5_data import read_column

N, D = 37, 5
VALUES = np.random.default_rng(0).integers(0, 4, (N, D)).astype(float)
VALUES[:, 1] += 1
VALUES[[3, 4, 20, N - 1]] = 0  # empty rows
PICKED = np.array([5, 5, 30, 0, 17, 36, 3])


def csr(dtype=np.float32, index=np.int32):
    X = sparse.csr_array(VALUES.astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def unsorted_csr():
    X = csr()
    for a, b in zip(X.indptr, X.indptr[1:], strict=False):
        X.indices[a:b], X.data[a:b] = X.indices[a:b][::-1].copy(), X.data[a:b][::-1].copy()
    X = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    assert not X.has_sorted_indices
    return X


def repeated_csr():
    X = csr()
    data = np.repeat(X.data, 2)
    data[::2] -= 0.5
    data[1::2] = 0.5
    X = sparse.csr_array((data, np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    assert not X.has_canonical_format
    return X


def padded():
    X = np.full((2 * N, 2 * D), np.nan)
    X[::2, 1::2] = VALUES
    return X[::2, 1::2]


ARRAYS = {
    **{kind: lambda kind=kind: VALUES.astype(kind) for kind in ("uint8", "int32", "int64", "float16", "float32")},
    "float64": lambda: VALUES.copy(),
    "Fortran": lambda: np.asfortranarray(VALUES),
    "Fortran uint8": lambda: np.asfortranarray(VALUES.astype(np.uint8)),
    "not contiguous": padded,
    "reversed": lambda: VALUES[::-1].copy()[::-1],
    "read-only": lambda: np.broadcast_to(VALUES, VALUES.shape),
    "big-endian": lambda: VALUES.astype(">f4"),
    "CSR": csr,
    "CSR matrix": lambda: sparse.csr_matrix(csr(np.float64)),
    "CSR int64 indices": lambda: csr(index=np.int64),
    "CSR uint8": lambda: csr(np.uint8),
    "CSR unsorted": unsorted_csr,
    "CSR repeated": repeated_csr,
}
FILES = {
    "contiguous": {"dtype": np.float32},
    "chunked": {"dtype": np.float64, "chunks": (4, D)},
    "chunked columns": {"dtype": np.float32, "chunks": (6, 2)},
    "gzip": {"dtype": np.uint8, "chunks": (5, D), "compression": "gzip"},
    "float16": {"dtype": np.float16},
    "big-endian file": {"dtype": ">i4"},
}
FILE_CSR = {
    "CSR file": {"dtype": np.float32},
    "CSR file chunked": {"dtype": np.float64, "index": np.int64, "chunks": (7,), "compression": "gzip"},
    "CSR file float16": {"dtype": np.float16},
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sources") / "all.h5"
    with h5py.File(path, "w") as file:
        for name, options in FILES.items():
            file.create_dataset(name, data=VALUES.astype(options["dtype"]), **options)
        for name, options in FILE_CSR.items():
            options = dict(options)
            dtype = options.pop("dtype")
            write_csr(file.create_group(name), csr(np.float32, options.pop("index", np.int32)), dtype, **options)
        X = unsorted_csr()
        write_csr(file.create_group("CSR file unsorted"), X)
    with h5py.File(path, "r") as file:
        yield file


def plain(name, file):
    """Return a source of VALUES."""
    return as_source(file[name] if name in file else ARRAYS[name]())


def shifted(name, file):
    return ScaledSource(plain(name, file), np.arange(D), 0.5)


def scaled(name, file):
    return ScaledSource(plain(name, file), None, [1, 2, 4, 8, 16], np.float64)


def subset(name, file):
    return SubsetSource(plain(name, file), np.arange(N)[::-1])


VIEWS = {
    plain: VALUES,
    shifted: (VALUES - np.arange(D)) / 2,
    scaled: VALUES * [1, 2, 4, 8, 16],
    subset: VALUES[::-1],
}
NAMES = [*ARRAYS, *FILES, *FILE_CSR, "CSR file unsorted"]
VIEWED = ["uint8", "float64", "CSR", "CSR uint8", "contiguous", "gzip", "CSR file", "CSR file float16"]
CASES = [(view, name) for view in VIEWS for name in (NAMES if view is plain else VIEWED)]


@pytest.fixture(params=CASES, ids=[f"{view.__name__}-{name}" for view, name in CASES])
def case(request, file, monkeypatch):
    """Return a source of several blocks and its rows as a float64 array."""
    monkeypatch.setattr(memory, "_BLOCK_ROWS", 8)
    monkeypatch.setattr(hdf5, "_BLOCK_BYTES", 100)
    view, name = request.param
    return view(name, file), VIEWS[view]


def dense(block):
    return block.dense(np.float64)


def test_shape_and_length(case):
    source, wanted = case
    assert source.shape == wanted.shape
    assert len(source) == len(wanted)


def test_blocks_are_of_the_type_and_layout_that_the_source_states(case):
    source, _ = case
    for _, block in source.blocks():
        assert hasattr(block, "indptr") == source.sparse
        data = block.data if source.sparse else block.values
        assert data.dtype == source.dtype
        assert block.shape[0] <= source.block_rows


def test_blocks_cover_all_rows_in_order(case):
    source, wanted = case
    parts, end = [], 0
    for start, block in source.blocks():
        assert start == end
        parts.append(dense(block))
        end += block.shape[0]
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate(parts), wanted)


@pytest.mark.parametrize(("start", "stop"), [(0, N), (0, 0), (3, 5), (11, 30), (36, 37)])
def test_read(case, start, stop):
    source, wanted = case
    block = source.read(start, stop)
    assert block.shape == (stop - start, D)
    np.testing.assert_array_equal(dense(block), wanted[start:stop])


def test_rows_in_any_order_and_repeated(case):
    source, wanted = case
    block = source.rows(PICKED)
    np.testing.assert_array_equal(dense(block), wanted[PICKED])
    assert (block.data if source.sparse else block.values).dtype == source.dtype


def test_no_rows(case):
    source, _ = case
    assert source.rows(np.empty(0, np.int64)).shape == (0, D)


def test_rows_are_a_copy(case):
    source, wanted = case
    block = source.rows(np.arange(N))
    (block.data if source.sparse else block.values)[:] = 99
    np.testing.assert_array_equal(dense(source.read(0, N)), wanted)


def test_take(case):
    source, wanted = case
    part = source.take(PICKED)
    assert part.shape == (len(PICKED), D)
    np.testing.assert_array_equal(dense(part.read(0, len(part))), wanted[PICKED])
    np.testing.assert_array_equal(dense(part.rows(np.array([2, 0]))), wanted[PICKED[[2, 0]]])


def test_in_memory(case):
    source, wanted = case
    held = source.in_memory()
    assert held.resident
    assert held.dtype == source.dtype
    assert held.sparse == source.sparse
    np.testing.assert_array_equal(dense(held.read(0, N)), wanted)


def test_bytes_in_memory_are_as_stated(case):
    source, _ = case
    held = source.in_memory().nbytes
    assert source.nbytes >= 0.9 * held - 64
    assert source.nbytes <= 2 * held + 64


def test_pickle(case):
    source, wanted = case
    again = pickle.loads(pickle.dumps(source))
    assert again.shape == source.shape
    np.testing.assert_array_equal(dense(again.rows(PICKED)), wanted[PICKED])


def test_an_early_stop_leaves_no_thread(case):
    source, _ = case
    before = threading.active_count()
    blocks = source.blocks()
    next(blocks)
    blocks.close()
    assert threading.active_count() == before


def test_survey(case):
    source, wanted = case
    found = feature_statistics(source)
    np.testing.assert_allclose(found.mean, wanted.mean(axis=0), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found.feature_variance, wanted.var(axis=0), rtol=1e-13, atol=1e-14)
    assert found.variance == pytest.approx(wanted.var(), rel=1e-13)
    assert found.sq_norm == pytest.approx((wanted**2).sum(axis=1).max(), rel=1e-14)
    assert found.centred_sq_norm == pytest.approx(((wanted - found.centre) ** 2).sum(axis=1).max(), rel=1e-13)


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_any_slice_of_any_slice(data, name, file):
    source = plain(name, file)
    start = data.draw(st.integers(0, N))
    stop = data.draw(st.integers(start, N))
    block = source.read(start, stop)
    a = data.draw(st.integers(0, stop - start))
    b = data.draw(st.integers(a, stop - start))
    np.testing.assert_array_equal(dense(block.slice(a, b)), VALUES[start:stop][a:b])


@given(picked=st.lists(st.integers(0, N - 1)), again=st.data(), name=st.sampled_from(NAMES))
def test_any_rows_of_any_rows(picked, again, name, file):
    picked = np.array(picked, dtype=np.int64)
    part = plain(name, file).take(picked)
    np.testing.assert_array_equal(dense(part.read(0, len(picked))), VALUES[picked])
    if len(picked):
        places = np.array(again.draw(st.lists(st.integers(0, len(picked) - 1))), dtype=np.int64)
        np.testing.assert_array_equal(dense(part.rows(places)), VALUES[picked][places])


def test_arrays_are_not_copied():
    X = VALUES.astype(np.uint8)
    assert np.shares_memory(as_source(X).read(2, 9).values, X)
    Z = csr()
    assert np.shares_memory(as_source(Z).read(2, 9).data, Z.data)


def test_the_users_sparse_matrix_is_not_changed():
    X = unsorted_csr()
    before = X.indices.copy()
    as_source(X).rows(PICKED)
    np.testing.assert_array_equal(X.indices, before)


def test_bytes_read_are_counted(file):
    source = as_source(file["gzip"])
    for _ in source.blocks():
        pass
    assert source.reads.nbytes == N * D


@pytest.mark.parametrize("X", [VALUES.tolist(), sparse.csc_array(VALUES), None, "path"])
def test_what_is_no_source(X):
    with pytest.raises(TypeError, match="cannot be read from"):
        as_source(X)


def test_standardized():
    source = ScaledSource.standardized(as_source(VALUES * [1, 2, 3, 0, 5] + 7), np.float64)
    found = dense(source.read(0, N))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(found.std(axis=0), [1, 1, 1, 0, 1], atol=1e-14)


def test_standardized_sparse_rows_stay_sparse():
    source = ScaledSource.standardized(as_source(csr()), np.float64)
    assert source.sparse
    np.testing.assert_allclose(dense(source.read(0, N)), VALUES / VALUES.std(axis=0), rtol=1e-12)


def test_an_error_while_reading_ahead_is_raised():
    def items():
        yield 0, "block"
        raise OSError("unreadable")

    ahead = read_ahead(items())
    assert next(ahead) == (0, "block")
    with pytest.raises(OSError, match="unreadable"):
        next(ahead)


# --- survey ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_weights_are_repetitions(make):
    weight = np.random.default_rng(1).integers(0, 4, N)
    weight[:8] = 0
    found = feature_statistics(as_source(make(VALUES)), weight.astype(float))
    wanted = feature_statistics(as_source(make(np.repeat(VALUES, weight, axis=0))))
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-13)
    np.testing.assert_allclose(found.feature_variance, wanted.feature_variance, rtol=1e-13)
    assert found.variance == pytest.approx(wanted.variance, rel=1e-13)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_large_mean_does_not_cost_the_variance_its_digits(make, monkeypatch):
    monkeypatch.setattr(memory, "_BLOCK_ROWS", 50)
    X = np.random.default_rng(2).normal([1e6, -1e7, 0], size=(300, 3))
    wanted = (X - X.mean(axis=0)).var(axis=0)
    np.testing.assert_allclose(feature_statistics(as_source(make(X))).feature_variance, wanted, rtol=1e-7)


def test_the_centre_of_whole_numbers_is_whole():
    centre = feature_statistics(as_source(VALUES.astype(np.uint8))).centre
    np.testing.assert_array_equal(centre, np.rint(centre))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "CSR", "file", "CSR file", "scaled", "subset"])
def test_what_is_not_finite_is_named(kind, value, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_BLOCK_ROWS", 8)
    X = VALUES.astype(kind if kind.startswith("float") else np.float32)
    X[29, 3] = value
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(4, D))
        write_csr(file.create_group("S"), sparse.csr_array(X.astype(np.float32)))
        source = {
            "CSR": lambda: as_source(sparse.csr_array(X)),
            "file": lambda: as_source(file["X"]),
            "CSR file": lambda: as_source(file["S"]),
            "scaled": lambda: ScaledSource(as_source(X), None, 1.0),
            "subset": lambda: as_source(file["X"]).take(np.arange(N)),
        }.get(kind, lambda: as_source(X))()
        name = "NaN" if np.isnan(value) else "infinity"
        with pytest.raises(ValueError, match=f"{name}, first at row 29, column 3"):
            feature_statistics(source)


def test_numbers_whose_squares_overflow_are_refused():
    X = VALUES.copy()
    X[2, 2] = 1e200
    with pytest.raises(ValueError, match="too large"):
        feature_statistics(as_source(X))


# --- files -----------------------------------------------------------------------------------------------


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

    def closed_on_the_way(start, stop):
        data.close()
        return node["indices"][start:stop] if compressed else node[start:stop]

    monkeypatch.setattr(data.X, "_read", closed_on_the_way)
    with pytest.raises(ValueError, match=r"\.h5 is closed"):
        data.X.read(0, 1)


def refused(path, *words):
    with pytest.raises(ValueError) as caught:
        open_hdf5(path)
    assert path.name in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    path.rename(path.with_name("moved"))  # nothing holds it open where that matters


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


@pytest.mark.parametrize("y", [np.zeros(N - 1), np.zeros(N + 1), np.zeros((N, 1)), 3.0], ids=str)
def test_labels_of_another_length(path, y):
    refused(write(path, y=y), "y", f"({N},)")


def test_weights_of_another_length(path):
    refused(write(path, sample_weight=np.ones(2)), "sample_weight")


def test_labels_that_are_a_group(path):
    with h5py.File(write(path), "r+") as file:
        file.create_group("y")
    refused(path, "y")


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
