from itertools import product

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.metrics import pairwise

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.kernel.kernel_parameter import choose_precision, resolve_gamma
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise, Uint8Pairwise
from fastsvm.kernel_matrix.pairwise import uint8 as byte_rows
from fastsvm.kernels import KERNELS
from fastsvm.sources import as_source, feature_statistics

PARAMETERS = {"gamma": 0.3, "coef0": 0.5, "degree": 3}
PAIRWISE = {
    "linear": pairwise.linear_kernel,
    "poly": pairwise.polynomial_kernel,
    "rbf": pairwise.rbf_kernel,
    "sigmoid": pairwise.sigmoid_kernel,
    "laplacian": pairwise.laplacian_kernel,
}
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_matrix}


def make(name, **parameters):
    given = PARAMETERS | parameters
    return KERNELS[name](**{field: given[field] for field in KERNELS[name]._fields})


def matrix(kernel, X, dtype, indices=None):
    source = as_source(X)
    indices = np.arange(len(source)) if indices is None else indices
    out = np.full((len(indices), len(source)), np.nan, dtype)
    with Pool.open() as pool:
        pairwise = RealPairwise(kernel, dtype, feature_statistics(source).centre, source.sparse)
        Gram(pairwise, source, pool).rows(indices, out, np.arange(len(indices)))
    return out


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(41, 6))
    X[np.abs(X) < 0.4] = 0
    X[5] = 0  # an empty row, for CSR
    X[7] = X[8]
    return X


def tolerance(kernel, X, dtype):
    return kernel.rounding(float(np.finfo(dtype).eps), float((X**2).sum(axis=1).max()))


@pytest.mark.parametrize(
    ("name", "dtype", "layout"),
    [
        *product(KERNELS, [np.float64], LAYOUTS),
        *product(KERNELS, [np.float32], ["dense"]),
        ("rbf", np.float32, "csr"),
        ("sigmoid", np.float32, "csr"),
    ],
)
def test_values_are_those_of_loops(name, dtype, layout, rows):
    kernel = make(name)
    wanted = naive.kernel_matrix(name, rows, rows, **PARAMETERS)
    found = matrix(kernel, LAYOUTS[layout](rows), dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps, atol=2 * tolerance(kernel, rows, dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PAIRWISE)
def test_values_are_those_of_scikit_learn(name, layout, rows):
    kernel = make(name)
    given = {key: value for key, value in PARAMETERS.items() if key in kernel._fields}
    found = matrix(kernel, LAYOUTS[layout](rows), np.float64)
    np.testing.assert_allclose(found, PAIRWISE[name](rows, **given), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7])
def test_degrees_of_the_polynomial(degree, rows):
    wanted = (0.3 * rows @ rows.T + 0.5) ** degree
    found = matrix(make("poly", degree=degree), rows, np.float64)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_symmetry(name, layout, rows):
    found = matrix(make(name), LAYOUTS[layout](rows), np.float64)
    np.testing.assert_allclose(found, found.T, rtol=1e-13, atol=tolerance(make(name), rows, np.float64))


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "sigmoid"])
def test_positive_semidefinite(name, rows):
    values = np.linalg.eigvalsh(matrix(make(name), rows, np.float64))
    assert values.min() >= -1e-8 * values.max()


def test_the_sigmoid_is_indefinite(rows):
    assert np.linalg.eigvalsh(matrix(make("sigmoid", coef0=-2.0), rows, np.float64)).min() < -0.1


def test_rows_are_written_where_they_belong(rows):
    indices, slots = np.array([7, 3, 30]), np.array([4, 0, 2])
    out = np.full((6, len(rows)), np.nan)
    source, kernel = as_source(rows), make("rbf")
    with Pool.open() as pool:
        Gram(RealPairwise(kernel, np.float64, None, False), source, pool).rows(indices, out, slots)
    wanted = naive.kernel_matrix("rbf", rows[indices], rows, gamma=0.3)
    np.testing.assert_allclose(out[slots], wanted, rtol=1e-12)
    assert np.isnan(out[[1, 3, 5]]).all()


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_near_duplicates_far_from_the_origin(name):
    X = 1e4 + 1e-2 * np.random.default_rng(1).normal(size=(60, 5))
    gamma = 1e3 if name == "rbf" else 10.0
    wanted = naive.kernel_matrix(name, X, X, gamma=gamma)
    assert wanted.min() < 0.7  # differences matter
    np.testing.assert_allclose(matrix(make(name, gamma=gamma), X, np.float32), wanted, atol=2e-6)


def test_near_duplicates_for_the_exponential():
    X = 1e4 + 1e-2 * np.random.default_rng(1).normal(size=(60, 5))
    wanted = naive.kernel_matrix("exponential", X, X, gamma=10.0)
    kernel = make("exponential", gamma=10.0)
    found = matrix(kernel, X, np.float32)
    np.testing.assert_allclose(found, wanted, atol=tolerance(kernel, X - X.mean(axis=0), np.float32))


def test_decisions_far_from_the_origin():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(80, 3))
    y = (Z[:, 0] > 0).astype(int)
    near = SVC(gamma=0.5, tol=1e-8).fit(Z, y).decision_function(Z)
    far = SVC(gamma=0.5, tol=1e-8).fit(Z + 2.0**20, y).decision_function(Z + 2.0**20)
    np.testing.assert_allclose(far, near, atol=1e-7)


def test_bytes_that_differ_little():
    X = np.full((30, 8), 250, np.uint8)
    X[np.arange(30), np.arange(30) % 8] -= np.arange(30, dtype=np.uint8) % 5
    found = matrix(make("rbf", gamma=0.01), X, np.float32)
    np.testing.assert_allclose(found, naive.kernel_matrix("rbf", X, X, gamma=0.01), atol=1e-6)


# --- precision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_float32_is_chosen_when_rounding_cannot_be_seen(name):
    assert choose_precision(make(name), 1.0, 1.0, 1e-3) is np.float32


@pytest.mark.parametrize("name", KERNELS)
def test_float64_is_chosen_for_a_small_tolerance(name):
    assert choose_precision(make(name), 1.0, 1.0, 1e-10) is np.float64


@pytest.mark.parametrize("name", KERNELS)
def test_float64_is_chosen_for_a_tolerance_below_the_steps_of_float32(name):
    """However small the coefficients: the gradient is near 1, and float32 cannot tell 1 from 1 + 1e-8."""
    assert choose_precision(make(name), 1.0, 1e-4, 1e-8) is np.float64


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "sigmoid", "exponential"])
def test_float64_is_chosen_for_large_norms(name):
    assert choose_precision(make(name), 1e9, 1.0, 1e-3) is np.float64


@pytest.mark.parametrize("name", KERNELS)
def test_float64_is_chosen_for_large_coefficients(name):
    assert choose_precision(make(name), 1.0, 1e6, 1e-3) is np.float64


def test_a_tolerance_below_the_steps_of_float32_is_reached():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 10))
    y = (X[:, 0] + 0.5 * rng.normal(size=2100) > 0).astype(int)
    assert SVC(kernel="laplacian", C=0.001, gamma=0.1, tol=2e-8).fit(X, y).converged_


@pytest.mark.parametrize("name", KERNELS)
def test_the_stated_rounding_holds(name):
    X = np.random.default_rng(3).normal(size=(50, 20)) * 3
    kernel = make(name, gamma=0.02)
    error = np.abs(matrix(kernel, X, np.float32) - matrix(kernel, X, np.float64))
    assert error.max() <= 2 * tolerance(kernel, X, np.float32)


# --- functions and matrices given by the user ------------------------------------------------------------


def rbf_function(X, Z):
    return pairwise.rbf_kernel(X, Z, gamma=0.3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_function_fits_as_the_built_in_kernel(layout, three_classes):
    X, y = LAYOUTS[layout](three_classes[0]), three_classes[1]
    wanted = SVC(gamma=0.3, tol=1e-9).fit(X, y)
    found = SVC(kernel=rbf_function, tol=1e-9).fit(X, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-9)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_precomputed_matrix_fits_as_the_built_in_kernel(layout, three_classes):
    X, y = three_classes
    wanted = SVC(gamma=0.3, tol=1e-9).fit(X[:90], y[:90])
    found = SVC(kernel="precomputed", tol=1e-9).fit(LAYOUTS[layout](rbf_function(X[:90], X[:90])), y[:90])
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-9)
    decisions = found.decision_function(LAYOUTS[layout](rbf_function(X[90:], X[:90])))
    np.testing.assert_allclose(decisions, wanted.decision_function(X[90:]), atol=1e-7)


@pytest.mark.parametrize("name", ["laplacian", "exponential"])
def test_kernels_that_scikit_learn_lacks(name, three_classes):
    X, y = three_classes
    wanted = svm.SVC(kernel="precomputed", tol=1e-8).fit(naive.kernel_matrix(name, X, X, gamma=0.4), y)
    found = SVC(kernel=name, gamma=0.4, tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(found.support_, wanted.support_)
    np.testing.assert_allclose(found.dual_coef_, wanted.dual_coef_, atol=1e-5)


# --- gamma -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "uint8", "csr"])
def test_gamma_is_that_of_scikit_learn(kind, gamma):
    X = np.random.default_rng(4).integers(0, 5, (60, 4)).astype(float)
    y = (X @ [1, -1, 1, -1] > 0).astype(int)
    wanted = svm.SVC(gamma=gamma, tol=1e-8).fit(sparse.csr_matrix(X) if kind == "csr" else X, y)
    given = sparse.csr_matrix(X) if kind == "csr" else X.astype(kind)
    found = SVC(gamma=gamma, tol=1e-8).fit(given, y)
    np.testing.assert_allclose(found.decision_function(given), wanted.decision_function(X), atol=1e-6)


def test_gamma_of_constant_data_is_one():
    assert resolve_gamma("scale", 3, 0.0) == 1.0


# --- products of bytes -----------------------------------------------------------------------------------

BYTE_KERNELS = {"linear": {}, "poly": {"gamma": 1e-5}, "rbf": {"gamma": 3e-6}, "exponential": {"gamma": 1e-3}}
BYTE_KERNELS["sigmoid"] = {"gamma": 1e-7}
needs_bytes = pytest.mark.skipif(byte_rows.PRODUCTS is None, reason="the processor has no byte products")


def random_bytes(n, d, seed=0):
    X = np.random.default_rng(seed).integers(0, 256, (n, d), dtype=np.uint8)
    X[0], X[n // 2] = 0, 255
    return X


def byte_matrix(kernel, X, dtype, indices=None):
    indices = np.arange(len(X)) if indices is None else indices
    out = np.full((len(indices), len(X)), np.nan, dtype)
    with Pool.open() as pool:
        Gram(Uint8Pairwise(kernel, dtype), as_source(X), pool).rows(indices, out, np.arange(len(indices)))
    return out


def exact(name, X, **given):
    """Return kernel values in float64, of products and distances of whole numbers."""
    given = PARAMETERS | given
    X = X.astype(np.int64)
    norms = (X * X).sum(axis=1)
    dot = (X @ X.T).astype(float)
    squared = (norms[:, None] + norms).astype(float) - 2 * dot
    return {
        "linear": lambda: dot,
        "poly": lambda: (given["gamma"] * dot + given["coef0"]) ** given["degree"],
        "rbf": lambda: np.exp(-given["gamma"] * squared),
        "exponential": lambda: np.exp(-given["gamma"] * np.sqrt(squared)),
        "sigmoid": lambda: np.tanh(given["gamma"] * dot + given["coef0"]),
    }[name]()


@needs_bytes
@pytest.mark.parametrize(
    ("name", "dtype"), [*product(BYTE_KERNELS, [np.float64]), ("linear", np.float32), ("rbf", np.float32)]
)
def test_kernels_of_bytes(name, dtype):
    X = random_bytes(30, 150)
    given = BYTE_KERNELS[name]
    found = byte_matrix(make(name, **given), X, dtype)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found, exact(name, X, **given), rtol=10 * eps, atol=2 * eps)


@needs_bytes
@pytest.mark.parametrize(
    ("n", "d"),
    [(n, d)
     for i, n in enumerate([2, 7, 8, 9, 15, 16, 17, 257, 300])
     for j, d in enumerate([4, 5, 6, 7, 8, 63, 64, 65, 127, 784]) if (i + j) % 3 == 0],
)  # fmt: skip
def test_products_of_bytes_are_exact(n, d):
    X = random_bytes(n, d, seed=d)
    np.testing.assert_array_equal(byte_matrix(make("linear"), X, np.float64), exact("linear", X))


@needs_bytes
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_the_largest_products_of_bytes_do_not_overflow(name):
    most = np.iinfo(np.int32).max // (2 * 255**2)
    assert byte_rows.multiplies_bytes(most) and not byte_rows.multiplies_bytes(most + 1)
    X = np.zeros((6, most), np.uint8)
    X[1:3], X[3] = 255, 128
    given = {"gamma": 1e-10}
    found = byte_matrix(make(name, **given), X, np.float64)
    np.testing.assert_allclose(found, exact(name, X, **given), rtol=1e-14)


@needs_bytes
@pytest.mark.parametrize("layout", [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2]])
def test_bytes_that_are_not_contiguous(layout):
    X = random_bytes(20, 70)
    np.testing.assert_array_equal(byte_matrix(make("linear"), layout(X), np.float64), exact("linear", X))


@needs_bytes
def test_some_rows_of_bytes():
    X = random_bytes(300, 70)
    indices = np.array([299, 4, 17, 0, 150])
    found = byte_matrix(make("linear"), X, np.float64, indices)
    np.testing.assert_array_equal(found, exact("linear", X)[indices])


@pytest.mark.parametrize("name", BYTE_KERNELS)
def test_a_model_of_bytes_is_that_of_their_numbers(name):
    X = random_bytes(120, 70)
    y = (X[:, :20].sum(axis=1, dtype=int) > np.median(X[:, :20].sum(axis=1, dtype=int))).astype(int)
    given = {"kernel": name, "coef0": 0.5, "tol": 1e-9, "C": 1e-3 if name in ("linear", "poly") else 1.0}
    a, b = (
        SVC(**given, **BYTE_KERNELS[name]).fit(X, y),
        SVC(**given, **BYTE_KERNELS[name]).fit(X.astype(float), y),
    )
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-8)
    for model in (a, b):
        for rows in (X, X.astype(float), sparse.csr_array(X)):
            wanted = b.decision_function(X.astype(float))
            np.testing.assert_allclose(model.decision_function(rows), wanted, atol=1e-6)
            np.testing.assert_allclose(model.decision_function(rows[:1]), wanted[:1], atol=1e-6)


def test_without_byte_products_the_model_is_the_same(monkeypatch):
    X = random_bytes(100, 70)
    y = (X[:, 0] > 127).astype(int)
    a = SVC(tol=1e-9).fit(X, y)
    monkeypatch.setattr(byte_rows, "PRODUCTS", None)
    b = SVC(tol=1e-9).fit(X, y)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-10)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-8)
