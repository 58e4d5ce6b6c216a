import numpy as np
import pytest
from grams import GAMMA, LAYOUTS, all_rows, byte_gram, float_gram, float_rows, squared_distances
from scipy.spatial.distance import cdist

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import SPAN, TILED_ROWS, RealPairwise, Rows
from fastsvm.kernels import RBF, Polynomial
from fastsvm.sources import MemorySource
from fastsvm.tuning import changed, tuned

N = 2 * SPAN + 88  # so that rows and columns are computed in several pieces


@pytest.fixture
def copied():
    """Columns of known rows are copied, if enough of them are known and many rows are wanted."""
    with tuned(changed({"kernel": {"cheap_ns": 0.0, "expensive_ns": 0.0}})):
        yield


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("name", ["rbf", "linear"])
@pytest.mark.parametrize("n_known", [80, 340])
def test_rows_beside_known_ones_have_the_bits_of_rows_of_bytes(name, n_known, monkeypatch):
    rng = np.random.default_rng(n_known)
    X, order = rng.integers(0, 256, (N, 70), np.uint8), rng.permutation(N)
    known, new = order[:n_known], order[n_known:]
    with Pool.open() as pool:
        wanted = all_rows(byte_gram(X, pool, name))
        out, slot_of = np.full((N, N), np.nan, np.float32), np.full(N, -1)
        out[:n_known], slot_of[known] = wanted[known], np.arange(n_known)
        gram = byte_gram(X, pool, name)
        monkeypatch.setattr(gram, "rows", None)  # all columns of known rows are copied
        gram.rows_beside(new, Rows(out, np.arange(n_known, N), 0), slot_of)
    np.testing.assert_array_equal(out, wanted[order])
    wide = X.astype(np.float64)
    exact = wide @ wide.T if name == "linear" else np.exp(-1e-5 * cdist(wide, wide, "sqeuclidean"))
    np.testing.assert_allclose(out, exact[order], rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(("n_known", "layout"), list(zip([0, 500], LAYOUTS, strict=True)))
def test_many_rows_are_computed_in_parts_that_know_those_before(n_known, layout, monkeypatch):
    sizes, beside, n = [], Gram._beside, n_known + 3 * TILED_ROWS

    def spy(gram, part, *given):
        sizes.append(len(part))
        beside(gram, part, *given)

    monkeypatch.setattr(Gram, "_beside", spy)
    X, order = float_rows(n), np.random.default_rng(n_known).permutation(n)
    wanted = np.exp(-GAMMA * cdist(X, X, "sqeuclidean"))
    out, slot_of = np.full((n, n), np.nan), np.full(n, -1)
    out[:n_known], slot_of[order[:n_known]] = wanted[order[:n_known]], np.arange(n_known)
    kept = slot_of.copy()
    with Pool.open() as pool:
        float_gram(X, pool, layout).rows_beside(order[n_known:], Rows(out, np.arange(n_known, n), 0), slot_of)
    np.testing.assert_allclose(out, wanted[order], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(slot_of, kept)
    assert sizes == [TILED_ROWS] * 3
    part = np.repeat(np.arange(len(sizes) + 1), [n_known, *sizes])
    found, apart = out[:, order], part[:, None] != part
    np.testing.assert_array_equal(found[apart], found.T[apart])  # to the bit, for it was copied


def beside(n, n_known, n_new, seed, layout="dense", poison=None):
    """Return the new rows, their numbers, the known ones, and whether columns were copied."""
    rng = np.random.default_rng(seed)
    X = float_rows(n)
    wanted = np.exp(-GAMMA * squared_distances(X, X))
    order, places = rng.permutation(n), rng.permutation(n + 5)
    known, new = order[:n_known], order[n_known : n_known + n_new]
    out = np.full((n + 5, n), np.nan)
    out[places[:n_known]] = wanted[known]
    slot_of = np.full(n, -1)
    slot_of[known] = places[:n_known]
    slots = places[n_known : n_known + n_new]
    if poison is not None:
        out[slot_of[known[poison]]] = 1e6
    kept = out.copy()
    with Pool.open() as pool:
        gram = float_gram(X, pool, layout)
        gram.rows_beside(new, Rows(out, slots, 0), slot_of)
    others = np.setdiff1d(np.arange(n + 5), slots)
    np.testing.assert_array_equal(out[others], kept[others])
    return out[slots], wanted, new, known


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n_known", "n_new"), [(100, 300), (N - 256, 256), (75, N - 75), (20, 300), (400, 20), (0, 9)])
def test_rows_beside_known_ones_are_those_of_the_kernel(n_known, n_new, layout):
    for seed in range(2):
        found, wanted, new, _ = beside(N, n_known, n_new, seed, layout)
        np.testing.assert_allclose(found, wanted[new], rtol=0, atol=1e-12)


@pytest.mark.usefixtures("copied")
def test_columns_of_known_rows_are_copied():
    found, wanted, new, known = beside(N, 200, 256, 0, poison=3)
    assert (found[:, known[3]] == 1e6).all()
    rest = np.delete(np.arange(N), known[3])
    np.testing.assert_allclose(found[:, rest], wanted[new][:, rest], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("cheap_ns", "n_known", "n_new"), [(0.0, 200, 255), (0.0, 74, 300), (1e6, 200, 300)], ids=["few", "known", "cheap"]
)
def test_few_rows_few_known_ones_and_cheap_ones_are_computed_whole(cheap_ns, n_known, n_new):
    with tuned(changed({"kernel": {"cheap_ns": cheap_ns, "expensive_ns": cheap_ns}})):
        found, wanted, new, _ = beside(N, n_known, n_new, 0, poison=1)
    np.testing.assert_allclose(found, wanted[new], rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_another_source_from_a_column_on(layout):
    X, Z = float_rows(23), float_rows(31)
    indices, slots = np.array([7, 30, 0, 12]), np.array([5, 0, 2, 3])
    out = np.full((6, 40), -7.0)
    with Pool.open() as pool:
        float_gram(X, pool, layout, left=Z).rows(indices, out, slots, 9)
    wanted = np.full((6, 40), -7.0)
    wanted[slots, 9:32] = np.exp(-GAMMA * squared_distances(Z[indices], X))
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weighted_sums_are_in_float64_whatever_the_rows_are(layout):
    X, rng = float_rows(41), np.random.default_rng(0)
    indices, coef = rng.permutation(41)[:17], rng.normal(size=17)
    with Pool.open() as pool:
        found = float_gram(X, pool, layout, np.float32).weighted_sum(indices, coef)
    wanted = np.exp(-GAMMA * squared_distances(X, X[indices])) @ coef
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_weighted_sums_of_bytes_are_in_float64():
    X, rng = np.random.default_rng(1).integers(0, 256, (41, 70), np.uint8), np.random.default_rng(0)
    indices, coef = rng.permutation(41)[:17], rng.normal(size=17)
    with Pool.open() as pool:
        found = byte_gram(X, pool).weighted_sum(indices, coef)
    wanted = np.exp(-1e-5 * squared_distances(X, X[indices])) @ coef
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("first", [0, 1, 30, SPAN + 52])
def test_the_kernel_among_bytes_has_the_bits_of_rows(first, dtype):
    n = SPAN + 53  # several pieces, on threads
    X, rng = np.random.default_rng(2).integers(0, 256, (N, 70), np.uint8), np.random.default_rng(first)
    indices = rng.permutation(N)[:n]
    with Pool.open() as pool:
        wanted = all_rows(byte_gram(X, pool, dtype=dtype))[np.ix_(indices, indices)]
        out = np.full((n + 7, n), np.nan, dtype)
        byte_gram(X, pool).among(indices, first, out)  # in the type of `out`, whatever the rows' is
    np.testing.assert_array_equal(out[first:n], wanted[first:])
    assert np.isnan(out[:first]).all()
    assert np.isnan(out[n:]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_among_floats(layout):
    X, indices = float_rows(41), np.random.default_rng(0).permutation(41)[:17]
    out = np.full((17, 17), np.nan)
    with Pool.open() as pool:
        float_gram(X, pool, layout, np.float32).among(indices, 4, out)
    wanted = np.exp(-GAMMA * squared_distances(X[indices], X[indices]))
    np.testing.assert_allclose(out[4:], wanted[4:], rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [1, 37, 150, SPAN])
@pytest.mark.parametrize("kernel", [RBF(0.01), Polynomial(3, 1.0, 0.1)])
def test_values_among_few_rows_are_computed_once_with_the_bits_of_rows(kernel, n):
    X = np.random.default_rng(n).standard_normal((n, 300))
    X[n // 2] = X[0] + 1e-9  # so near that differences are taken
    with Pool.open() as pool:
        grams = [Gram(RealPairwise(kernel, np.float64, X.mean(axis=0), False), MemorySource.of(X), pool) for _ in "ab"]
        np.testing.assert_array_equal(grams[0].square(), all_rows(grams[1]))
