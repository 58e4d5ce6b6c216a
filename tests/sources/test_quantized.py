import h5py
import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from fastsvm import SVC
from fastsvm._compiled.byte_tile import HAS_BYTE_PRODUCTS
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.kernel import kernel_parameter, prediction
from fastsvm.kernel_matrix import pairwise
from fastsvm.sources import Quantization, as_source, feature_statistics, find_quantization, memory, quantized

needs_bytes = pytest.mark.skipif(not HAS_BYTE_PRODUCTS, reason="the processor has no byte products")


def find(X):
    with Pool.open() as pool:
        return find_quantization(as_source(X), pool)


def convert(quantization, X):
    with Pool.open() as pool:
        return quantization.convert(as_source(X).block, pool)


def levels(count, shape=(200, 80), seed=0):
    """Return bytes below `count`; every one occurs in the rows that are looked at first."""
    return np.random.default_rng(seed).integers(0, count, shape, dtype=np.uint8)


# What bytes stand for, as one would compute it in one's own type; how many of them; scale and offset.
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
    """They may be taken for floats: neighbours differ by more or less than 1 / 255, as float16 rounds them."""
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
def test_pieces_on_threads(layout, monkeypatch):
    monkeypatch.setattr(quantized, "_PIECE", 300)
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


# --- refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_standardised_data_are_refused(real):
    B = levels(256).astype(real)
    assert find((B - B.mean(axis=0)) / B.std(axis=0)) is None
    assert find(np.random.default_rng(0).normal(size=(200, 80)).astype(real)) is None


@pytest.mark.parametrize("wrong", [1e-3, -1e-3, np.nan, np.inf, -np.inf, 300.0, -1.0, 256 / 255])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_a_single_value_that_is_no_level_is_found_in_any_row(real, wrong):
    """A value off by little, one that is not finite, and one outside."""
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
        if found is not None:  # 0.5 in a row that is looked at first: the halves are bytes
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
    X[1] = 0.4 * scale  # a row that is not looked at first
    assert find(X) is None


@pytest.mark.parametrize("some", [(0.0, 1e-310, 1.0), (0.0, 1e-310), (-1e308, 1e308)])
def test_values_too_near_or_too_far_apart_are_refused(some):
    assert find(np.random.default_rng(0).choice(some, (50, 80))) is None


# --- statistics of the values -------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("scale", "offset"), [(1 / 255, 0.0), (2 / 255, -1.0), (1.0, -3.0), (100.0, 1e3)])
def test_statistics_of_bytes_tell_those_of_the_values(scale, offset, weighted):
    B = levels(200, (151, 90), seed=5)  # of an odd number of rows the median is one of them
    weight = np.random.default_rng(6).uniform(0, 2, 151) if weighted else None
    found = feature_statistics(as_source(B), weight).affine(scale, offset)
    wanted = feature_statistics(as_source(offset + scale * B), weight)
    for name in ("mean", "feature_variance", "variance", "centre", "centred_sq_norm", "usual_sq_norm"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-12, err_msg=name)
    if offset == 0:
        assert found.sq_norm == pytest.approx(wanted.sq_norm, rel=1e-12)
    else:
        longest = scale * np.sqrt((B.astype(float) ** 2).sum(axis=1).max()) + abs(offset) * 90**0.5
        assert wanted.sq_norm <= found.sq_norm <= longest**2 * (1 + 1e-12)


# --- fits and predictions ----------------------------------------------------------------------------------


@pytest.fixture
def scales(monkeypatch):
    """Convert few rows too, and return the set of the scales with which bytes were multiplied since."""
    found = set()

    class Spy(pairwise.Uint8Pairwise):
        def tile(self, *given):
            found.add(self.scale)
            super().tile(*given)

    monkeypatch.setattr(kernel_parameter, "_MUCH", 0)
    monkeypatch.setattr(prediction, "_MANY_VALUES", 0)
    for module in (kernel_parameter, prediction):
        monkeypatch.setattr(module, "Uint8Pairwise", Spy)
    return found


def labelled(count, n=240, d=70, n_classes=2):
    """Return bytes below `count` and classes that overlap."""
    B = levels(count, (n, d), seed=7)
    score = B[:, :12].sum(axis=1, dtype=int) + count * np.random.default_rng(8).normal(size=n)
    return B, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


FORMS = {
    "pixels in float64": (256, 1 / 255, lambda B: B / 255),
    "pixels in float32": (256, 1 / 255, lambda B: (B / 255).astype(np.float32)),
    "zeros and ones": (2, 1.0, lambda B: B.astype(float)),
    "zeros and ones in CSR": (2, 1.0, lambda B: sparse.csr_array(B.astype(np.float32))),
    "normalised pixels": (256, 2 / 255, lambda B: (B / 255 - 0.5) / 0.5),
    "digits in float16": (17, 1 / 16, lambda B: (B / 16).astype(np.float16)),
    "integers": (201, 1.0, lambda B: B.astype(int) - 3),
}


def plain(X):
    return X.toarray().astype(float) if sparse.issparse(X) else X.astype(float)


@needs_bytes
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_a_model_of_quantized_rows_is_that_of_its_bytes(form, n_classes, scales):
    count, scale, make = FORMS[form]
    B, y = labelled(count, n_classes=n_classes)
    X = make(B)
    gamma = 0.5 / (70 * plain(X).var())
    found = SVC(gamma=gamma, tol=1e-6).fit(X, y)
    assert list(scales) == pytest.approx([scale], rel=1e-6)
    scales.clear()
    wanted = SVC(gamma=gamma * scale**2, tol=1e-6).fit(B, y)
    assert scales == {1.0}
    scales.clear()
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(B), atol=1e-5)
    np.testing.assert_array_equal(found.predict(X), wanted.predict(B))
    assert sorted(scales) == pytest.approx(sorted({scale, 1.0}), rel=1e-6)

    K = pairwise_kernels(plain(X), metric="rbf", gamma=gamma)
    objective, violation, _ = naive.certificate(found, K, y, np.ones(len(y)))
    assert found.objective_ == pytest.approx(objective, rel=1e-6)
    assert violation <= 1.5e-6


@needs_bytes
@pytest.mark.parametrize("form", FORMS)
def test_support_vectors_and_gamma_are_those_of_the_rows_as_given(form, scales):
    count, _, make = FORMS[form]
    B, y = labelled(count)
    X = make(B)
    found = SVC().fit(X, y)
    assert scales
    vectors = found.support_vectors_
    assert sparse.issparse(vectors) == sparse.issparse(X)
    assert vectors.dtype == X.dtype
    np.testing.assert_array_equal(plain(vectors), plain(X)[found.support_])
    wanted = SVC(gamma=1 / (70 * plain(X).var())).fit(X, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)


KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.1, "coef0": 1.0, "degree": 3},
    "rbf": {"gamma": 0.05},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
}


@needs_bytes
@pytest.mark.parametrize("small", [0, 2048])
@pytest.mark.parametrize("kernel", KERNELS)
def test_any_kernel_of_pixels_in_either_precision(kernel, small, scales, monkeypatch):
    monkeypatch.setattr(kernel_parameter, "_SMALL", small)
    B, y = labelled(256)
    X, tol = B / 255, 1e-6 if small else 1e-3
    found = SVC(kernel=kernel, C=0.1, tol=tol, **KERNELS[kernel]).fit(X, y)
    assert scales == {1 / 255}
    K = pairwise_kernels(X, metric=kernel, **KERNELS[kernel])
    objective, violation, _ = naive.certificate(found, K, y, np.full(len(y), 0.1))
    assert found.objective_ == pytest.approx(objective, rel=1e-5 if small == 0 else 1e-9)
    assert violation <= 1.1 * tol


@needs_bytes
@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
def test_kernels_that_see_the_offset_take_floats(kernel, scales):
    B, y = labelled(256)
    X = B / 127.5 - 1
    found = SVC(kernel=kernel, C=0.1, tol=1e-6, **KERNELS[kernel]).fit(X, y)
    assert not scales
    K = pairwise_kernels(X, metric=kernel, **KERNELS[kernel])
    assert naive.certificate(found, K, y, np.full(len(y), 0.1))[1] <= 1.1e-6
    wanted = K[:, found.support_] @ found.dual_coef_[0] + found.intercept_
    np.testing.assert_allclose(found.decision_function(X), wanted, atol=1e-8)
    assert not scales


@needs_bytes
def test_few_rows_are_not_converted(monkeypatch):
    seen = []
    monkeypatch.setattr(kernel_parameter, "find_quantization", lambda *given: seen.append(given))
    B, y = labelled(256)
    SVC().fit(B / 255, y).predict(B / 255)
    assert not seen


def oracle(model, gamma, Z):
    K = pairwise_kernels(plain(Z), plain(model.support_vectors_), metric="rbf", gamma=gamma)
    return K @ model.dual_coef_[0] + model.intercept_


def rows_to_predict():
    """Return the name, rows, and whether some of them are bytes / 255, of many kinds of rows."""
    B = levels(256, (40, 70), seed=9)
    rng = np.random.default_rng(10)
    one_off = B / 255
    one_off[20, 30] += 1e-3
    return {
        "pixels": (B / 255, True),
        "pixels in float32": ((B / 255).astype(np.float32), True),
        "one row of pixels": (B[:1] / 255, True),
        "sparse pixels": (sparse.csr_array((B * (B > 128)) / 255), True),
        "normal": (rng.normal(0.5, 0.3, (40, 70)), False),
        "normal in float32": (rng.normal(0.5, 0.3, (40, 70)).astype(np.float32), False),
        "one value off": (one_off, True),  # but for its row
        "normalised pixels": (B / 127.5 - 1, False),
        "pixels above": (B / 255 + 1 / 255 * (B == 255), True),
        "zeros and ones": ((B > 128).astype(float), True),
        "whole numbers": ((B > 128).astype(np.int64), True),
        "sparse": (sparse.csr_array(rng.normal(size=(40, 70)) * (B > 128)), False),
    }


@needs_bytes
@pytest.mark.parametrize("small", [0, 2048])
@pytest.mark.parametrize("name", rows_to_predict())
def test_a_model_of_pixels_decides_on_any_rows(name, small, scales, monkeypatch):
    monkeypatch.setattr(kernel_parameter, "_SMALL", small)
    B, y = labelled(256)
    Z, as_bytes = rows_to_predict()[name]
    for X in (B / 255, (B / 255).astype(np.float32)):
        model = SVC(gamma=0.1).fit(X, y)
        assert scales
        scales.clear()
        wanted = oracle(model, 0.1, Z)
        np.testing.assert_allclose(model.decision_function(Z), wanted, atol=1e-6 if small else 1e-4)
        assert bool(scales) == as_bytes


@needs_bytes
@pytest.mark.parametrize("name", rows_to_predict())
def test_a_model_of_other_rows_decides_on_any_rows(name, scales):
    B, y = labelled(256)
    model = SVC(gamma=0.1).fit(B / 255 + np.random.default_rng(11).normal(0, 0.01, B.shape), y)
    Z, _ = rows_to_predict()[name]
    np.testing.assert_allclose(model.decision_function(Z), oracle(model, 0.1, Z), atol=1e-6)
    assert not scales


@needs_bytes
def test_a_model_of_sparse_zeros_and_ones_decides_on_any_rows(scales):
    B, y = labelled(2)
    model = SVC(gamma=0.02).fit(sparse.csr_array(B.astype(float)), y)
    Z = np.random.default_rng(12).random((30, 70))
    for rows, as_bytes in ((B.astype(float), True), (sparse.csr_array(B), True), (Z, False), (Z > 0.5, True)):
        scales.clear()
        np.testing.assert_allclose(model.decision_function(rows), oracle(model, 0.02, rows), atol=1e-6)
        assert bool(scales) == as_bytes


@needs_bytes
def test_a_model_of_bytes_decides_on_rows_of_float16():
    B, y = labelled(2)
    model = SVC(gamma=0.02).fit(B, y)
    Z = np.random.default_rng(12).random((30, 70)).astype(np.float16)
    np.testing.assert_allclose(model.decision_function(Z), oracle(model, 0.02, Z), atol=1e-6)


@needs_bytes
def test_each_row_is_converted_by_itself(scales, monkeypatch):
    monkeypatch.setattr(memory, "_BLOCK_ROWS", 16)
    B, y = labelled(256)
    model = SVC(gamma=0.1).fit(B / 255, y)
    converted, whole = [], Quantization.convert

    def spy(quantization, block, pool):
        found = whole(quantization, block, pool)
        converted.append(found is not None)
        return found

    monkeypatch.setattr(Quantization, "convert", spy)
    Z = B[:70] / 255
    Z[40, 3] += 1e-3
    np.testing.assert_allclose(model.decision_function(Z), oracle(model, 0.1, Z), atol=1e-6)
    # The first are the support vectors; of the block with a row that is not bytes, the others are.
    assert converted == [True, True, True, False, True, True, True]


@needs_bytes
@pytest.mark.parametrize("where", [0, 120, 239])
def test_values_that_are_not_finite_are_named(where, scales):
    B, y = labelled(256)
    X = B / 255
    X[where, 5] = np.nan
    with pytest.raises(ValueError, match=f"NaN, first at row {where}, column 5"):
        SVC().fit(X, y)


# --- without byte products -----------------------------------------------------------------------------------

ON_ZEROS_AND_ONES = """
import hashlib
import numpy as np
from scipy import sparse
from fastsvm import SVC
from fastsvm._compiled import byte_tile
from fastsvm.estimators.kernel import kernel_parameter

def fits():
    rng = np.random.default_rng(0)
    X = (rng.random((300, 83)) < 0.3).astype(float)
    y = (X[:, :20].sum(axis=1) + rng.normal(size=300) > 6).astype(int)
    for small in (0, 2048):
        kernel_parameter._SMALL = small
        for rows in (X, X.astype(np.float32), sparse.csr_array(X)):
            for given in ({"kernel": "linear"}, {"gamma": 0.03}):
                yield SVC(**given).fit(rows, y)

def digests():
    for model in fits():
        yield hashlib.sha256(model.dual_coef_.tobytes() + model.intercept_.tobytes()).hexdigest()
"""


@needs_bytes
def test_zeros_and_ones_give_the_same_bits_as_floats(python, scales, monkeypatch, tmp_path):
    """Their products are whole numbers, which floats hold exactly."""
    code = ON_ZEROS_AND_ONES + "assert not byte_tile.HAS_BYTE_PRODUCTS\nprint(*digests())"
    other = python.start(code, tmp_path, FASTSVM_BYTE_PRODUCTS=0)
    monkeypatch.setattr(kernel_parameter, "_SMALL", 0)  # to be undone
    names = {}
    exec(ON_ZEROS_AND_ONES, names)
    found = list(names["digests"]())
    assert scales == {1.0}
    assert found == python.output(other).split()
    assert len(set(found)) == 4  # a kernel and a precision each
