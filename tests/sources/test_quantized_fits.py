"""Fits to and predictions of quantized rows, with dot products of bytes."""

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from fastsvm import SVC
from fastsvm._compiled.byte_tile import PRODUCTS
from fastsvm.estimators.kernel import kernel_parameter, prediction
from fastsvm.kernel_matrix import pairwise
from fastsvm.sources import Quantization
from fastsvm.tuning import changed, tuned

needs_bytes = pytest.mark.skipif(PRODUCTS is None, reason="the processor has no byte products")


def _dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def levels(count, shape=(200, 80), seed=0):
    """Return bytes below `count`. All of them occur in the rows of the sample."""
    return np.random.default_rng(seed).integers(0, count, shape, dtype=np.uint8)


@pytest.fixture
def scales(monkeypatch):
    """Convert few rows too, and return the set of the scales with which bytes were multiplied since."""
    found = set()

    class Spy(pairwise.Uint8Pairwise):
        def tile(self, *given):
            found.add(self.scale)
            super().tile(*given)

    for module in (kernel_parameter, prediction):
        monkeypatch.setattr(module, "Uint8Pairwise", Spy)
    with tuned(changed({"kernel": {"byte_multiplications": 0, "byte_values": 0}})):
        yield found


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
@pytest.mark.parametrize(("form", "n_classes"), [(form, 2 + i % 2) for i, form in enumerate(FORMS)])
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
@pytest.mark.parametrize(
    ("kernel", "small"), [("linear", 0), ("poly", 2048), ("rbf", 0), ("rbf", 2048), ("sigmoid", 0)]
)
def test_any_kernel_of_pixels_in_either_precision(kernel, small, scales):
    B, y = labelled(256)
    X, tol = B / 255, 1e-6 if small else 1e-3
    with tuned(changed({"kernel": {"few_rows": small}})):
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
    wanted = K[:, found.support_] @ _dense(found.dual_coef_)[0] + found.intercept_
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
    return K @ _dense(model.dual_coef_)[0] + model.intercept_


def rows_to_predict():
    """Return many kinds of rows: their name, the rows, and whether some are bytes / 255."""
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
def test_a_model_of_pixels_decides_on_any_rows(name, small, scales):
    B, y = labelled(256)
    Z, as_bytes = rows_to_predict()[name]
    for X in (B / 255, (B / 255).astype(np.float32)):
        with tuned(changed({"kernel": {"few_rows": small}})):
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
def test_each_row_is_converted_by_itself(scales, monkeypatch, choose):
    choose(storage={"resident_rows": 16})
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
    with pytest.raises(ValueError, match=f"NaN. The first is at row {where}, column 5"):
        SVC().fit(X, y)


# --- without byte products --------------------------------------------------------------------------------


@needs_bytes
def test_zeros_and_ones_give_the_same_bits_as_floats(scales, monkeypatch):
    """Their dot products are integers, which floats represent exactly."""
    rng = np.random.default_rng(0)
    X = (rng.random((300, 83)) < 0.3).astype(float)
    y = (X[:, :20].sum(axis=1) + rng.normal(size=300) > 6).astype(int)

    def found():
        for small in (0, 2048):  # values in float32 and in float64
            for rows in (X, sparse.csr_array(X)):
                with tuned(changed({"kernel": {"few_rows": small}})):
                    model = SVC(gamma=0.03).fit(rows, y)
                yield sparse.csr_array(model.dual_coef_).toarray().tobytes() + model.intercept_.tobytes()

    as_bytes = list(found())
    assert scales == {1.0}
    scales.clear()
    monkeypatch.setattr(kernel_parameter, "multiplies_bytes", lambda n_features: False)
    assert list(found()) == as_bytes
    assert not scales
    assert len(set(as_bytes)) == 2  # a precision each
