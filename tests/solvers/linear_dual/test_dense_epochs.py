import numpy as np
import pytest

from fastsvm.solvers.linear_dual.dense_epochs import BlockGrams

N_SPARE = 11


def rows_of(dtype, n=90, d=70):
    values = np.random.default_rng(0).integers(0, 256, (n, d))
    return values.astype(dtype) if dtype == np.uint8 else values.astype(dtype) / 100


def filled(grams, values, starts, lengths, used):
    """Return the slots of blocks, with what is missing there filled."""
    slots, missing = grams.slots(starts, lengths, used, 0)
    grams.fill(values, np.stack([starts, lengths, slots], axis=1)[missing])
    return slots


@pytest.mark.parametrize(
    ("dtype", "real", "n_kept", "n_directions"),
    [(*types, n_kept, (0, 3)[(i + j) % 2])
     for i, types in enumerate([(np.uint8, np.float32), (np.float32, np.float32), (np.float64, np.float64)])
     for j, n_kept in enumerate([0, 2, 9])],
)  # fmt: skip
def test_blocks_in_any_order_kept_or_not(dtype, real, n_kept, n_directions):
    values, rng = rows_of(dtype), np.random.default_rng(1)
    wide = np.hstack([values.astype(np.float64), np.full((90, 1), 3.0)])
    bounds = np.array([0, 10, 17, 27, 28, 38, 48, 58, 68, 78, 88, 90])  # blocks of ten rows, some of them cut
    basis, shares = np.linalg.qr(rng.standard_normal((71, n_directions)))[0].T, rng.random(n_directions)
    metric = np.eye(71) - (basis.T * shares) @ basis
    padded = np.hstack([basis[:, :70], np.zeros((n_directions, 9)), basis[:, 70:]])
    grams = BlockGrams(10, n_kept, N_SPARE, 3.0, np.dtype(real))
    grams.begin(np.ascontiguousarray(padded, real), shares.astype(real))
    for _ in range(3):
        order, used = rng.permutation(11), rng.random(11) < 0.7
        starts, lengths = bounds[order], np.diff(bounds)[order]
        slots = filled(grams, values, starts, lengths, used)
        assert len(set(slots[used])) == used.sum()
        for start, n, slot in zip(starts[used], lengths[used], slots[used], strict=True):
            part = wide[start : start + n]
            expected = part @ metric @ part.T
            tol = (1e-5 if real == np.float32 else 1e-12) * np.abs(part @ part.T).max()
            np.testing.assert_allclose(grams.grams[slot, :n, :n], expected, rtol=0, atol=tol)


def test_kept_matrices_are_not_computed_again():
    values, starts, lengths, used = rows_of(np.float64, n=30), np.array([0, 10, 20]), np.full(3, 10), np.ones(3, bool)
    grams = BlockGrams(10, 2, N_SPARE, 0.0, np.dtype(float))
    grams.begin(np.empty((0, 80)), np.empty(0))
    assert not grams.are_cached(starts[:2], lengths[:2])
    slots = filled(grams, values, starts, lengths, used)
    before = grams.grams[slots].copy()
    assert grams.are_cached(starts[:2], lengths[:2])
    assert not grams.are_cached(starts, lengths)
    again = filled(grams, 2 * values, starts, lengths, used)
    np.testing.assert_array_equal(again, slots)
    np.testing.assert_array_equal(grams.grams[slots[:2]], before[:2])
    np.testing.assert_allclose(grams.grams[slots[2]], 4 * before[2])


def test_matrices_of_two_parts_that_are_not_cached_have_different_slots():
    starts, lengths, used = np.array([0, 10]), np.full(2, 10), np.ones(2, bool)
    grams = BlockGrams(10, 1, 4, 0.0, np.dtype(float))
    one, _ = grams.slots(starts, lengths, used, 0)
    other, _ = grams.slots(starts + 20, lengths, used, 2)
    assert len({*one, *other}) == 4
    assert len(grams.grams) > max(*one, *other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_whose_squares_overflow_are_noticed(dtype):
    values, grams = rows_of(dtype, n=20), BlockGrams(10, 0, 2, 0.0, np.dtype(dtype))
    grams.begin(np.empty((0, 80), dtype), np.empty(0, dtype))
    blocks = np.array([[0, 10, 0], [10, 10, 1]])
    assert grams.fill(values, blocks)
    values[12, 3] = 1e30 if dtype is np.float32 else 1e200
    assert not grams.fill(values, blocks)
