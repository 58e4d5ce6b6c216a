import numpy as np
import pytest
from scipy import sparse

from fastsvm import gram as gram_module
from fastsvm._threads import Pool
from fastsvm.evaluators import ByteEvaluator, VectorEvaluator, multiplies_bytes
from fastsvm.gram import Gram
from fastsvm.kernels import KERNELS
from fastsvm.sources import as_source, survey

GAMMA = 0.05
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_matrix}


def squared_distances(X, Z):
    return ((X[:, None, :].astype(np.float64) - Z[None, :, :].astype(np.float64)) ** 2).sum(axis=2)


def float_rows(n):
    X = np.random.default_rng(n).normal(size=(n, 7))
    X[np.abs(X) < 0.5] = 0
    return X


def float_gram(X, pool, layout="dense", dtype=np.float64, left=None):
    source = as_source(LAYOUTS[layout](X))
    evaluator = VectorEvaluator(KERNELS["rbf"](gamma=GAMMA), dtype, survey(source).centre, source.sparse)
    return Gram(evaluator, source, pool, left=None if left is None else as_source(LAYOUTS[layout](left)))


def byte_gram(X, pool, name="rbf", dtype=np.float32):
    if not multiplies_bytes(X.shape[1]):
        pytest.skip("the processor does not multiply bytes")
    given = {"rbf": {"gamma": 1e-5}, "linear": {}}[name]
    return Gram(ByteEvaluator(KERNELS[name](**given), dtype), as_source(X), pool)


def all_rows(gram):
    n = len(gram)
    out = np.full((n, n), np.nan, gram.dtype)
    gram.rows(np.arange(n), out, np.arange(n))
    return out


def filled(gram):
    out = np.full((len(gram), len(gram)), np.nan, gram.dtype)
    gram.fill(out)
    return out


@pytest.mark.parametrize("n", [1, 3, 16, 17, 50, 95])
@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_filling_with_bytes_gives_the_same_bits_as_rows(name, n, monkeypatch):
    monkeypatch.setattr(gram_module, "_FILLED_ROWS", 16)
    X = np.random.default_rng(n).integers(0, 256, (n, 70), np.uint8)
    with Pool.open() as pool:
        found = filled(byte_gram(X, pool, name))
        np.testing.assert_array_equal(found, all_rows(byte_gram(X, pool, name)))
    wide = X.astype(np.float64)
    wanted = wide @ wide.T if name == "linear" else np.exp(-1e-5 * squared_distances(X, X))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_filling_with_bytes_in_steps_of_the_true_size():
    X = np.random.default_rng(1).integers(0, 256, (1100, 64), np.uint8)
    with Pool.open() as pool:
        np.testing.assert_array_equal(filled(byte_gram(X, pool)), all_rows(byte_gram(X, pool)))


@pytest.mark.parametrize("n", [1, 16, 33, 90])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_filling_with_floats_gives_the_kernel(layout, dtype, n, monkeypatch):
    monkeypatch.setattr(gram_module, "_FILLED_ROWS", 16)
    X = float_rows(n)
    with Pool.open() as pool:
        found = filled(float_gram(X, pool, layout, dtype))
        np.testing.assert_allclose(found, all_rows(float_gram(X, pool, layout, dtype)), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found, np.exp(-GAMMA * squared_distances(X, X)), rtol=0, atol=1e-6)
    apart = np.subtract.outer(np.arange(n) // 16, np.arange(n) // 16) != 0  # squares on the diagonal are computed whole
    np.testing.assert_array_equal(found[apart], found.T[apart])


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
        gram.evaluator.dear = True
        gram.rows_beside(new, out, slots, slot_of)
    others = np.setdiff1d(np.arange(n + 5), slots)
    np.testing.assert_array_equal(out[others], kept[others])
    return out[slots], wanted, new, known


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n_known", "n_new"), [(10, 30), (1, 16), (40, 20), (59, 1), (20, 40), (0, 9)])
def test_rows_beside_known_ones_are_those_of_the_kernel(n_known, n_new, layout, monkeypatch):
    monkeypatch.setattr(gram_module, "_MANY_ROWS", 1)
    monkeypatch.setattr(gram_module, "_COPIED_ROWS", 7)
    monkeypatch.setattr(gram_module, "_REST", 11)
    for seed in range(5):
        found, wanted, new, _ = beside(60, n_known, n_new, seed, layout)
        np.testing.assert_allclose(found, wanted[new], rtol=0, atol=1e-12)


def test_columns_of_known_rows_are_copied(monkeypatch):
    monkeypatch.setattr(gram_module, "_MANY_ROWS", 4)
    found, wanted, new, known = beside(60, 20, 25, 0, poison=3)
    assert (found[:, known[3]] == 1e6).all()
    rest = np.delete(np.arange(60), known[3])
    np.testing.assert_allclose(found[:, rest], wanted[new][:, rest], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("many", "n_known"), [(1000, 20), (4, 3)])
def test_few_rows_and_few_known_ones_are_computed_whole(many, n_known, monkeypatch):
    monkeypatch.setattr(gram_module, "_MANY_ROWS", many)
    found, wanted, new, _ = beside(60, n_known, 25, 0, poison=1)
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
