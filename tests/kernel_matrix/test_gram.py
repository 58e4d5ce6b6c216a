import numpy as np
import pytest
from grams import GAMMA, LAYOUTS, all_rows, byte_gram, float_gram, float_rows, squared_distances

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix import gram as gram_module
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import Rows


@pytest.mark.parametrize("name", ["rbf", "linear"])
@pytest.mark.parametrize("n_known", [8, 40, 93])
def test_rows_beside_known_ones_have_the_bits_of_rows_of_bytes(name, n_known, monkeypatch):
    copy_always(monkeypatch)
    rng = np.random.default_rng(n_known)
    X, order = rng.integers(0, 256, (95, 70), np.uint8), rng.permutation(95)
    known, new = order[:n_known], order[n_known:]
    with Pool.open() as pool:
        wanted = all_rows(byte_gram(X, pool, name))
        out, slot_of = np.full((95, 95), np.nan, np.float32), np.full(95, -1)
        out[:n_known], slot_of[known] = wanted[known], np.arange(n_known)
        gram = byte_gram(X, pool, name)
        monkeypatch.setattr(gram, "rows", None)  # all columns of known rows are copied
        gram.rows_beside(new, Rows(out, np.arange(n_known, 95), 0), slot_of)
    np.testing.assert_array_equal(out, wanted[order])
    wide = X.astype(np.float64)
    exact = wide @ wide.T if name == "linear" else np.exp(-1e-5 * squared_distances(X, X))
    np.testing.assert_allclose(out, exact[order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_known", [0, 9, 50])
def test_many_rows_are_computed_in_parts_that_know_those_before(n_known, layout, monkeypatch):
    copy_always(monkeypatch)
    monkeypatch.setattr(gram_module, "_BESIDE", 8)
    sizes, beside = [], Gram._beside

    def spy(gram, part, *given):
        sizes.append(len(part))
        beside(gram, part, *given)

    monkeypatch.setattr(Gram, "_beside", spy)
    X, order = float_rows(80), np.random.default_rng(n_known).permutation(80)
    wanted = np.exp(-GAMMA * squared_distances(X, X))
    out, slot_of = np.full((80, 80), np.nan), np.full(80, -1)
    out[:n_known], slot_of[order[:n_known]] = wanted[order[:n_known]], np.arange(n_known)
    kept = slot_of.copy()
    with Pool.open() as pool:
        float_gram(X, pool, layout).rows_beside(order[n_known:], Rows(out, np.arange(n_known, 80), 0), slot_of)
    np.testing.assert_allclose(out, wanted[order], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(slot_of, kept)
    assert sum(sizes) == 80 - n_known
    assert len(sizes) > 2
    part = np.repeat(np.arange(len(sizes) + 1), [n_known, *sizes])
    found, apart = out[:, order], part[:, None] != part
    np.testing.assert_array_equal(found[apart], found.T[apart])  # to the bit, for it was copied


def test_rows_of_another_source_beside_their_columns():
    """The rows of X and of Z are stacked in the store, and so are the columns; those of X are known."""
    X, Z = float_rows(41), float_rows(33)
    both = np.concatenate([X, Z])
    wanted = np.exp(-GAMMA * squared_distances(both, both))
    out, slot_of = np.full((80, 74), np.nan), np.full(41, -1)
    out[5:35] = wanted[:30]
    out[7, 41:] = 1e6  # of row 2 of X, to see that it is copied
    slot_of[:30] = np.arange(5, 35)
    indices, slots = np.array([30, 2, 17, 32, 9]), np.array([60, 40, 41, 79, 50])
    with Pool.open() as pool, pytest.MonkeyPatch.context() as patch:
        copy_always(patch)
        float_gram(X, pool, left=Z).rows_beside(indices, Rows(out, slots, 0), slot_of, column=41)
    assert (out[slots, 2] == 1e6).all()
    rest = np.delete(np.arange(41), 2)
    np.testing.assert_allclose(out[slots[:, None], rest], wanted[41 + indices[:, None], rest], rtol=0, atol=1e-12)
    assert np.isnan(out[slots, 41:]).all()


def copy_always(monkeypatch):
    monkeypatch.setattr(gram_module, "_MANY_ROWS", 1)
    monkeypatch.setattr(gram_module, "_COPY_COST", 0)
    monkeypatch.setattr(gram_module, "EXPENSIVE", 0)


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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("n_known", "n_new"), [(10, 30), (1, 16), (40, 20), (59, 1), (20, 40), (0, 9)])
def test_rows_beside_known_ones_are_those_of_the_kernel(n_known, n_new, layout, monkeypatch):
    copy_always(monkeypatch)
    monkeypatch.setattr(gram_module, "_COPIED_ROWS", 7)
    monkeypatch.setattr(gram_module, "_REST", 11)
    for seed in range(5):
        found, wanted, new, _ = beside(60, n_known, n_new, seed, layout)
        np.testing.assert_allclose(found, wanted[new], rtol=0, atol=1e-12)


def test_columns_of_known_rows_are_copied(monkeypatch):
    copy_always(monkeypatch)
    found, wanted, new, known = beside(60, 20, 25, 0, poison=3)
    assert (found[:, known[3]] == 1e6).all()
    rest = np.delete(np.arange(60), known[3])
    np.testing.assert_allclose(found[:, rest], wanted[new][:, rest], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "n_known"), [("_MANY_ROWS", 1000, 20), ("_MANY_ROWS", 4, 3), ("_COPY_COST", 1e6, 20)]
)
def test_few_rows_few_known_ones_and_cheap_ones_are_computed_whole(name, value, n_known, monkeypatch):
    copy_always(monkeypatch)
    monkeypatch.setattr(gram_module, name, value)
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
@pytest.mark.parametrize("first", [0, 1, 30, 52])
def test_the_kernel_among_bytes_has_the_bits_of_rows(first, dtype, monkeypatch):
    monkeypatch.setattr(gram_module, "_AMONG_COLUMNS", 9)  # several pieces, on threads
    X, rng = np.random.default_rng(2).integers(0, 256, (95, 70), np.uint8), np.random.default_rng(first)
    indices = rng.permutation(95)[:53]
    with Pool.open() as pool:
        wanted = all_rows(byte_gram(X, pool, dtype=dtype))[np.ix_(indices, indices)]
        out = np.full((60, 53), np.nan, dtype)
        byte_gram(X, pool).among(indices, first, out)  # in the type of `out`, whatever the rows' is
    np.testing.assert_array_equal(out[first:53], wanted[first:])
    assert np.isnan(out[:first]).all()
    assert np.isnan(out[53:]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_among_floats(layout):
    X, indices = float_rows(41), np.random.default_rng(0).permutation(41)[:17]
    out = np.full((17, 17), np.nan)
    with Pool.open() as pool:
        float_gram(X, pool, layout, np.float32).among(indices, 4, out)
    wanted = np.exp(-GAMMA * squared_distances(X[indices], X[indices]))
    np.testing.assert_allclose(out[4:], wanted[4:], rtol=0, atol=1e-13)
