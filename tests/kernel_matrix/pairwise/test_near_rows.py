"""Rows that are near each other beside what their squared norms are: distances do not cancel."""

from itertools import product

import numpy as np
import pytest
from own_kernels import Cauchy
from scipy import sparse

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise, Rows
from fastsvm.kernels import RBF, Exponential, Laplacian
from fastsvm.sources import CSRBlock, DenseBlock, as_source, feature_statistics

KINDS = {
    RBF: lambda square: np.exp(-square),
    Exponential: lambda square: np.exp(-np.sqrt(square)),
    Cauchy: lambda square: 1 / (1 + square),
}
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_matrix}


def tile(pairwise, left, right):
    def block(X):
        return CSRBlock.of(X) if sparse.issparse(X) else DenseBlock(X)

    out = np.full((left.shape[0], right.shape[0]), np.nan, pairwise.dtype)
    terms = pairwise.terms(block(right))
    pairwise.tile(pairwise.prepare(block(left)), block(right), terms, Rows(out, np.arange(len(out)), 0))
    return out


def clusters(scale, n=80, d=23, dtype=np.float64):
    """Return rows far out, of which each has an equal one and one at a distance of about 1."""
    rng = np.random.default_rng(3)
    far = scale * rng.normal(size=(n, d))
    return np.concatenate([far, far, far + rng.normal(size=(n, d)) / np.sqrt(d)]).astype(dtype)


def squares(X, Z):
    return ((X[:, None].astype(np.float64) - Z[None].astype(np.float64)) ** 2).sum(axis=2)


@pytest.mark.parametrize(
    ("kind", "scale", "layout", "all_near"),
    [(kind, scale, *list(product(LAYOUTS, (False, True)))[(i + j) % 4])
     for i, kind in enumerate([RBF, Exponential, Cauchy]) for j, scale in enumerate([1.0, 1e3, 1e6, 1e8])],
)  # fmt: skip
def test_values_of_far_rows(kind, scale, layout, all_near):
    X = clusters(scale)
    given = LAYOUTS[layout](X)
    pairwise = RealPairwise(kind(1.0), np.float64, None, layout == "csr", all_near)
    found = tile(pairwise, given, given)
    square = squares(X, X)
    assert (found[square == 0] == 1).all()
    np.testing.assert_allclose(found, KINDS[kind](square), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (RBF, np.float32),
        (RBF, np.float64),
        (Laplacian, np.float32),
        (Laplacian, np.float64),
        (Exponential, np.float64),
        (Cauchy, np.float64),
    ],
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_equal_rows_are_at_distance_zero(kind, dtype, scale):
    """Across layouts, too: of the sparse ones some are paired as dense ones. Fits end by values in float64."""
    X, predicts = clusters(scale, dtype=dtype), dtype == np.float32
    kernel = kind(scale**2 / 7 if kind is Cauchy else 7.0 / scale**2)
    pairs = [(X, X, False), (X, sparse.csr_matrix(X), True), (sparse.csr_matrix(X), sparse.csr_matrix(X), True)]
    if kind in (RBF, Laplacian):  # one kernel of each form: no other map is compiled for this pair
        pairs.append((sparse.csr_matrix(X), X, True))
    for left, right, is_sparse in pairs:
        centre = None if is_sparse else X.mean(axis=0, dtype=np.float64)
        found = tile(RealPairwise(kernel, dtype, centre, is_sparse, predicts), left, right)
        assert (found[squares(X, X) == 0] == 1).all()


@pytest.mark.parametrize("kind", [RBF, Exponential])
def test_far_rows_in_float32(kind):
    """Values are those of the rows as float32 holds them, not those of differences of their squared norms."""
    X = clusters(1e4, dtype=np.float32)
    found = tile(RealPairwise(kind(1.0), np.float32, None, False), X, X)
    np.testing.assert_allclose(found, KINDS[kind](squares(X, X)), rtol=0, atol=1e-5)


def test_a_row_of_zeros_and_no_rows():
    X = np.zeros((3, 5))
    pairwise = RealPairwise(RBF(1.0), np.float64, None, False)
    assert (tile(pairwise, X, X) == 1).all()
    assert tile(pairwise, X[:0], X).shape == (0, 3) and tile(pairwise, X, X[:0]).shape == (3, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_the_kernel_matrix(layout):
    X = clusters(1e6)
    source = as_source(LAYOUTS[layout](X))
    pairwise = RealPairwise(RBF(1.0), np.float64, feature_statistics(source).centre, source.sparse)
    out = np.empty((len(X), len(X)))
    with Pool.open() as pool:
        Gram(pairwise, source, pool).rows(np.arange(len(X)), out, np.arange(len(X)))
    assert (np.diag(out) == 1).all()
    np.testing.assert_allclose(out, np.exp(-squares(X, X)), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("kernel", "scale"), [("exponential", 1e4), ("rbf", 1e8)])
def test_the_certificate_is_that_of_the_model(kernel, scale):
    rng = np.random.default_rng(0)
    X, y = scale * rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    X[30:] = X[:30]  # every row twice, with labels that may differ
    model = SVC(kernel=kernel, gamma=1.0, C=1.0).fit(X, y)
    square = squares(X, X)
    K = np.exp(-square) if kernel == "rbf" else np.exp(-np.sqrt(square))
    beta = np.zeros(60)
    beta[model.support_] = model.dual_coef_[0]
    f = K @ beta + model.intercept_[0]
    primal = beta @ K @ beta / 2 + np.maximum(0, 1 - np.where(y == 1, 1, -1) * f).sum()
    dual = np.abs(beta).sum() - beta @ K @ beta / 2
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert primal - dual <= model.duality_gap_ + 1e-12 * primal  # a bound, which has the rounding of distances
    assert model.duality_gap_ <= primal - dual + 2e-5 * primal
    np.testing.assert_allclose(model.decision_function(X), f, rtol=0, atol=1e-9)
