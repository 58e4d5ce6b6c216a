import numpy as np
import pytest

from fastsvm._compiled.threads import Pool
from fastsvm.solvers.linear_dual.epochs import block_grams
from fastsvm.solvers.linear_dual.epochs.block_grams import BlockGrams


def rows_of(dtype, n=90, d=70):
    values = np.random.default_rng(0).integers(0, 256, (n, d))
    return values.astype(dtype) if dtype == np.uint8 else values.astype(dtype) / 100


@pytest.mark.parametrize("piece", [1, 25_000_000])
@pytest.mark.parametrize("n_kept", [0, 2, 9])
@pytest.mark.parametrize(
    ("dtype", "real"), [(np.uint8, np.float32), (np.float32, np.float32), (np.float64, np.float64)]
)
def test_blocks_in_any_order_kept_or_not(dtype, real, n_kept, piece, monkeypatch):
    monkeypatch.setattr(block_grams, "_PIECE", piece)
    values, rng = rows_of(dtype), np.random.default_rng(1)
    wide = np.hstack([values.astype(np.float64), np.full((90, 1), 3.0)])
    bounds = np.array([0, 10, 17, 27, 28, 38, 48, 58, 68, 78, 88, 90])  # blocks of ten rows, some of them cut
    with Pool.open(2) as pool:
        grams = BlockGrams(10, n_kept, 9, 3.0, np.dtype(real), pool)
        for _ in range(3):
            order, used = rng.permutation(11), rng.random(11) < 0.7
            starts, lengths = bounds[order], np.diff(bounds)[order]
            slots = grams.slots(values, starts, starts, lengths, used)
            assert len(set(slots[used])) == used.sum()
            for start, n, slot in zip(starts[used], lengths[used], slots[used], strict=True):
                part = wide[start : start + n]
                np.testing.assert_allclose(
                    grams.grams[slot, :n, :n], part @ part.T, rtol=1e-5 if real == np.float32 else 1e-12
                )


def test_kept_matrices_are_not_computed_again():
    values, starts = rows_of(np.float64, n=30), np.array([0, 10, 20])
    with Pool.open(1) as pool:
        grams = BlockGrams(10, 2, 3, 0.0, np.dtype(float), pool)
        used = np.ones(3, bool)
        slots = grams.slots(values, starts, starts, np.full(3, 10), used)
        before = grams.grams[slots].copy()
        again = grams.slots(2 * values, starts, starts, np.full(3, 10), used)
    np.testing.assert_array_equal(again, slots)
    np.testing.assert_array_equal(grams.grams[slots[:2]], before[:2])
    np.testing.assert_allclose(grams.grams[slots[2]], 4 * before[2])
