"""Sparse matrices that SciPy saved."""

import numpy as np
import pytest
from scipy import sparse

X = sparse.random(60, 9, 0.3, format="csr", random_state=0)
X = X.multiply(np.arange(60)[:, None] != 7).tocsr()  # a row without values
y = np.arange(60) % 3


def saved(folder, matrix, compressed=True, **changed):
    path = folder / "rows.npz"
    sparse.save_npz(path, matrix, compressed)
    if changed:
        with np.load(path) as arrays:
            parts = dict(arrays) | changed
        np.savez(path, **parts)
    return path


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "?"])
@pytest.mark.parametrize(("form", "memory"), [("csr", 1 << 16), ("csr", 1 << 24), ("csc", 1 << 16)])
def test_rows_and_labels(form, dtype, memory, tmp_path, converted):
    wanted = X.multiply(10).astype(dtype).asformat(form)
    np.save(tmp_path / "y.npy", y)
    stored = converted(saved(tmp_path, wanted), label=tmp_path / "y.npy", memory=memory)
    np.testing.assert_array_equal(stored.X, wanted.toarray())
    np.testing.assert_array_equal(stored.y, y)
    assert converted(saved(tmp_path, wanted, compressed=False), memory=memory).y is None


def test_a_row_of_many_values_and_indices_in_any_order(tmp_path, converted):
    wide = sparse.vstack([sparse.random(1, 40_000, 0.9, random_state=1), sparse.eye(50, 40_000)], format="csr")
    np.testing.assert_array_equal(converted(saved(tmp_path, wide), memory=1 << 16).X, wide.toarray())
    mixed = sparse.csr_array((np.ones(3), [2, 0, 0], [0, 3]), shape=(1, 4))
    assert converted(saved(tmp_path, mixed)).X.tolist() == [[2, 0, 1, 0]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"indptr": np.arange(61)[::-1]}, "damaged: index pointer should start with 0"),
        (
            {"indptr": np.concatenate([X.indptr[:5], X.indptr[3:-3], X.indptr[-1:]])},
            "damaged: indptr must be a non-decreasing",
        ),
        ({"indptr": np.zeros(61, int)}, "its rows have 0 values"),
        ({"indptr": np.arange(5)}, "damaged: index pointer size 5 should be 61"),
        ({"indices": np.full(X.nnz, 9)}, "damaged: indices must be < 9"),
        ({"shape": np.array([0, 9])}, "needs rows and columns"),
        ({"shape": np.arange(3)}, "do not describe a sparse matrix"),
        ({"data": np.full(X.nnz, np.nan)}, "row 0, counted from 0, has a value that is not finite"),
        ({"data": X.data + 1j}, "features are real numbers"),
        ({"format": np.array(b"dia")}, "Save X.tocsr"),
    ],
)
def test_what_cannot_be_read_is_said(changed, message, tmp_path, refused):
    assert message in refused(saved(tmp_path, X, **changed))


def test_columns_that_memory_does_not_hold(tmp_path, refused):
    assert "Save X.tocsr()" in refused(saved(tmp_path, X.tocsc()), memory=1000)
    assert "Save X.tocsr()" in refused(saved(tmp_path, X.tocoo()))
