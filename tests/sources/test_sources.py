import pickle
import threading

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fastsvm.sources import ScaledSource, SubsetSource, as_source, feature_statistics, stacked, standardized, to_dense
from fastsvm.sources.base import read_ahead
from fastsvm.tuning import StorageTuning

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
def case(request, file, choose):
    """Return a source of several blocks and its rows as a float64 array."""
    choose(storage={"resident_rows": 8, "block_bytes": 100})
    view, name = request.param
    return view(name, file), VIEWS[view]


def dense(block):
    return block.dense(np.float64)


def test_shape_and_blocks_are_those_that_the_source_states(case):
    source, wanted = case
    assert source.shape == wanted.shape
    assert len(source) == len(wanted)
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


def test_read(case):
    source, wanted = case
    for start, stop in ((0, N), (0, 0), (3, 5), (11, 30), (36, 37)):
        block = source.read(start, stop)
        assert block.shape == (stop - start, D)
        np.testing.assert_array_equal(dense(block), wanted[start:stop])


def test_rows_in_any_order_and_repeated_and_none(case):
    source, wanted = case
    block = source.rows(PICKED)
    np.testing.assert_array_equal(dense(block), wanted[PICKED])
    assert (block.data if source.sparse else block.values).dtype == source.dtype
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
    assert 0.9 * held.nbytes - 64 <= source.nbytes <= 2 * held.nbytes + 64


def test_what_a_pass_reads_and_holds(case):
    source, wanted = case
    assert source.stored_bytes == (0 if source.resident else source.nbytes)
    assert source.row_bytes == source.nbytes // N
    assert source.form == ("CSR" if source.sparse else "dense")
    assert source.of_bytes == (source.form == "dense" and source.dtype == np.uint8)
    np.testing.assert_array_equal(np.concatenate([dense(block) for _, block in source.whole_blocks()]), wanted)
    rows = source.sampled(np.arange(N), 9)
    assert len(rows) == 9 and rows[-1] == (N - 1 if source.resident else 8)
    np.testing.assert_array_equal(source.sampled(np.arange(5), 9), np.arange(5))


def test_values_that_are_not_zero_are_counted(case):
    source, wanted = case
    whole = source.changed(block_rows=N, tuning=StorageTuning())
    stored = source.values_per_row * N if source.sparse else np.count_nonzero(wanted)
    assert whole.nonzeros_per_row == pytest.approx(stored / N)


def test_rows_as_stored(case):
    source, wanted = case
    stored, shift, scale = source.as_stored()
    rows = dense(stored.read(0, N))
    rows = (rows - shift) * scale if scale.size else rows
    np.testing.assert_array_equal(rows, wanted)
    assert stored.block is not None or not source.resident


def test_rows_in_memory_are_compressed_if_that_saves_memory(case):
    source, wanted = case
    few = source.compressed(np.dtype(np.float64), 1 << 20)
    np.testing.assert_array_equal(dense(few.read(0, N)), wanted)
    assert few.sparse or source.block is None
    assert source.compressed(np.dtype(np.float64), 100) is source


def test_what_blocks_compute(case):
    source, wanted = case
    block = source.read(0, N)
    np.testing.assert_allclose(block.sq_norms(), (wanted**2).sum(axis=1), rtol=1e-6)
    converted = block.converted(np.float64)
    assert type(converted) is type(block) and converted.stored.dtype == np.float64
    np.testing.assert_array_equal(dense(converted), wanted)
    np.testing.assert_array_equal(dense(converted.with_stored(2 * converted.stored)), 2 * wanted)
    keys = block.compressed(block.stored.dtype).keys()
    _, first, inverse = np.unique(wanted, axis=0, return_index=True, return_inverse=True)
    assert [keys.index(key) for key in keys] == first[inverse.ravel()].tolist()


def test_smaller_blocks(case):
    source, wanted = case
    smaller = source.in_blocks(max(1, source.nbytes // 9))
    blocks = [block for _, block in smaller.blocks()]
    rows = source.chunk_rows * max(1, N // 9 // source.chunk_rows)
    longest = max(block.shape[0] for block in blocks)
    assert longest == (source.block_rows if source.resident else min(rows, source.block_rows))
    np.testing.assert_array_equal(np.concatenate([dense(block) for block in blocks]), wanted)


def test_pickle(case):
    source, wanted = case
    again = pickle.loads(pickle.dumps(source))
    assert again.shape == source.shape
    np.testing.assert_array_equal(dense(again.rows(PICKED)), wanted[PICKED])


def test_an_early_stop_leaves_no_thread(case):
    source, _ = case
    before = set(threading.enumerate())
    blocks = source.blocks()
    next(blocks)
    blocks.close()
    assert set(threading.enumerate()) <= before  # a thread of an earlier test may end meanwhile


def test_statistics(case):
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


def test_matrices_as_arrays_and_one_below_another():
    for X in (VALUES, csr(np.float64)):
        np.testing.assert_array_equal(to_dense(X), VALUES)
        np.testing.assert_array_equal(to_dense(stacked([X[:3], X[3:5]])), VALUES[:5])


@pytest.mark.parametrize("X", [VALUES.tolist(), sparse.csc_array(VALUES), None, "path"])
def test_what_is_no_source(X):
    with pytest.raises(TypeError, match="cannot be read from"):
        as_source(X)


def test_standardized():
    source = standardized(as_source(VALUES * [1, 2, 3, 0, 5] + 7), np.float64)
    found = dense(source.read(0, N))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(found.std(axis=0), [1, 1, 1, 0, 1], atol=1e-14)


def test_standardized_sparse_rows_stay_sparse():
    source = standardized(as_source(csr()), np.float64)
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
