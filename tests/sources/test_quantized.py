import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fastsvm._compiled.threads import Pool
from fastsvm.sources import Quantization, as_source, find_quantization


def find(X):
    with Pool.open() as pool:
        return find_quantization(as_source(X), pool)


def convert(quantization, X):
    with Pool.open() as pool:
        return quantization.convert(as_source(X).block, pool)


def levels(count, shape=(200, 80), seed=0):
    """Return bytes below `count`. All of them occur in the rows of the sample."""
    return np.random.default_rng(seed).integers(0, count, shape, dtype=np.uint8)


# The values of bytes as users compute them; the number of levels; scale and offset.
QUANTIZED = {
    "pixels / 255": (lambda b, real: b.astype(real) / real(255), 256, 1 / 255, 0.0),
    "normalised pixels": (lambda b, real: (b.astype(real) / real(255) - real(0.5)) / real(0.5), 256, 2 / 255, -1.0),
    "zeros and ones": (lambda b, real: b.astype(real), 2, 1.0, 0.0),
    "digits / 16": (lambda b, real: b.astype(real) / real(16), 17, 1 / 16, 0.0),
    "integers from -3 to 200": (lambda b, real: (b.astype(np.int16) - 3).astype(real), 204, 1.0, -3.0),
    "integers from 1 to 256": (lambda b, real: (b.astype(np.int16) + 1).astype(real), 256, 1.0, 1.0),
}
IN_FLOAT16 = ["zeros and ones", "digits / 16", "integers from -3 to 200", "integers from 1 to 256"]

# --- recognised ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_rows_give_back_its_bytes(name, real):
    make, count, scale, offset = QUANTIZED[name]
    B = levels(count)
    quantization, source = find(make(B, real))
    assert quantization == pytest.approx((scale, offset), rel=4 * float(np.finfo(real).eps))
    assert source.block.values.dtype == np.uint8
    np.testing.assert_array_equal(source.block.values, B)


@pytest.mark.parametrize("name", IN_FLOAT16)
def test_quantized_rows_in_float16_give_back_its_bytes(name):
    make, count, scale, offset = QUANTIZED[name]
    B = levels(count)
    quantization, source = find(make(B, np.float16))
    assert quantization == (scale, offset)
    np.testing.assert_array_equal(source.block.values, B)


@pytest.mark.parametrize("name", ["pixels / 255", "normalised pixels"])
def test_pixels_in_float16_are_not_misread(name):
    """They may be treated as floats, because in float16 neighbours differ by more or less than 1 / 255."""
    make, count, _, _ = QUANTIZED[name]
    B = levels(count)
    found = find(make(B, np.float16))
    assert found is None or (found[1].block.values == B).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64])
def test_integers_give_back_their_bytes(dtype):
    B = levels(100)
    quantization, source = find(B.astype(dtype))
    assert quantization == (1.0, 0.0)
    np.testing.assert_array_equal(source.block.values, B)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("value", [1, 0.25, 3])
def test_sparse_rows_of_one_value(value, dtype):
    B = (np.random.default_rng(1).random((200, 80)) < 0.2).astype(np.uint8)
    B[17] = 0
    value = np.dtype(dtype).type(value) or np.dtype(dtype).type(1)
    quantization, source = find(sparse.csr_array(B * value))
    assert quantization == (float(value), 0.0)
    assert not source.sparse
    np.testing.assert_array_equal(source.block.values, B)


def test_sparse_pixels():
    B = levels(256) * (levels(2, seed=1) > 0)
    quantization, source = find(sparse.csr_matrix(B / 255))
    assert quantization == pytest.approx((1 / 255, 0.0), rel=1e-15)
    np.testing.assert_array_equal(source.block.values, B)


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_pieces_on_threads(layout, choose):
    choose(storage={"piece_bytes": 2400})
    B = levels(256)
    np.testing.assert_array_equal(find(layout(B / 255))[1].block.values, B)


def test_one_row():
    B = levels(256, (1, 900))
    quantization, source = find((B / 255).astype(np.float32))
    assert quantization == pytest.approx((1 / 255, 0.0), rel=1e-15)
    np.testing.assert_array_equal(source.block.values, B)


@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=12),
    st.sampled_from([1.0, 1 / 255, 0.1, 3e-5, 7e4]),
    st.sampled_from([0.0, 1.0, -3.0, 1e3]),
    st.sampled_from([np.float32, np.float64]),
)
def test_what_is_found_is_the_values_again_whatever_the_levels(some, scale, offset, real):
    values = offset + scale * np.random.default_rng(0).choice(np.array(some), (70, 5))
    X = values.astype(real)
    found = find(X)
    if found is not None:
        quantization, source = found
        largest = max(abs(quantization.offset), abs(quantization.offset + 255 * quantization.scale))
        again = quantization.offset + quantization.scale * source.block.values.astype(float)
        np.testing.assert_allclose(again, X, rtol=0, atol=6 * np.finfo(real).eps * largest)


def test_bytes_are_their_own_levels_without_a_copy():
    B = levels(256)
    source = as_source(B)
    with Pool.open() as pool:
        quantization, rows = find_quantization(source, pool)
        assert rows is source
        assert quantization.convert(source.block, pool).values is B
    assert quantization == (1.0, 0.0)


def test_bytes_on_disk_are_their_own_levels_without_a_copy(tmp_path):
    with h5py.File(tmp_path / "bytes.h5", "w") as file:
        file["X"] = levels(256)
    with h5py.File(tmp_path / "bytes.h5") as file, Pool.open() as pool:
        source = as_source(file["X"])
        quantization, rows = find_quantization(source, pool)
        assert rows is source
        assert rows.reads.nbytes == 0
    assert quantization == (1.0, 0.0)


def test_floats_that_are_bytes_are_converted_by_the_identity():
    B = levels(256)
    np.testing.assert_array_equal(convert(Quantization(1.0, 0.0), B.astype(np.float32)).values, B)
    assert convert(Quantization(1.0, 0.0), B.astype(np.float32) + 0.25) is None


# --- refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_standardised_data_are_refused(real):
    B = levels(256).astype(real)
    assert find((B - B.mean(axis=0)) / B.std(axis=0)) is None
    assert find(np.random.default_rng(0).normal(size=(200, 80)).astype(real)) is None


@pytest.mark.parametrize(
    ("wrong", "real"),
    [(wrong, (np.float32, np.float64)[i % 2])
     for i, wrong in enumerate([1e-3, -1e-3, np.nan, np.inf, -np.inf, 300.0, -1.0, 256 / 255])],
)  # fmt: skip
def test_a_single_value_that_is_no_level_is_found_in_any_row(real, wrong):
    """A value that is slightly wrong, one that is not finite, and one out of range."""
    X = (levels(256) / 255).astype(real)
    assert find(X) is not None
    for row in range(len(X)):
        column = 7 * row % 80
        kept = X[row, column]
        X[row, column] = kept + wrong if abs(wrong) == 1e-3 else wrong
        assert find(X) is None, (row, column)
        X[row, column] = kept
    assert find(X) is not None


@pytest.mark.parametrize("wrong", [0.5, 1.001, -1.0, np.nan, np.inf, 256.0])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_a_single_value_of_sparse_rows_that_is_no_level_is_found(real, wrong):
    X = sparse.csr_array((np.random.default_rng(2).random((200, 80)) < 0.1).astype(real))
    for place in range(0, X.nnz, 13):
        X.data[place] = wrong
        found = find(X)
        assert found is None or found[0].scale != 1.0
        if found is not None:  # 0.5 in a row of the sample: the halves are bytes
            np.testing.assert_array_equal(found[0].scale * found[1].block.values, X.toarray())
        X.data[place] = 1


@pytest.mark.parametrize("value", [0.0, 1.0, 0.3, np.nan, np.inf])
def test_constant_rows_are_refused(value):
    assert find(np.full((50, 80), value)) is None


def test_negative_sparse_values_are_refused():
    signs = np.random.default_rng(3).choice([-1.0, 0.0, 1.0], (100, 80))
    assert find(signs)[0] == (1.0, -1.0)
    assert find(sparse.csr_array(signs)) is None
    assert find(sparse.csr_array(np.minimum(signs, 0))) is None


def test_more_levels_than_bytes_are_refused():
    assert find(np.random.default_rng(4).integers(0, 257, (300, 80)).astype(float)) is None
    assert find(np.random.default_rng(4).integers(0, 60000, (300, 80))) is None


def test_floats_on_disk_are_refused(tmp_path):
    with h5py.File(tmp_path / "floats.h5", "w") as file:
        file["X"] = levels(2).astype(float)
    with h5py.File(tmp_path / "floats.h5") as file:
        assert find(file["X"]) is None


@pytest.mark.parametrize("scale", [1.0, 1 / 16])
def test_float16_values_between_bytes_are_refused(scale):
    X = (scale * levels(2)).astype(np.float16)
    X[1] = 0.4 * scale  # a row that is not in the sample
    assert find(X) is None


@pytest.mark.parametrize("some", [(0.0, 1e-310, 1.0), (0.0, 1e-310), (-1e308, 1e308)])
def test_values_too_near_or_too_far_apart_are_refused(some):
    assert find(np.random.default_rng(0).choice(some, (50, 80))) is None
