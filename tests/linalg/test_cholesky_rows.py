import numpy as np
import pytest

from fastsvm.linalg.cholesky_rows import delete_row, factorise, solve_factorised


def positive_definite(m, seed=0):
    A = np.random.default_rng(seed).normal(size=(m, m + 5))
    return A @ A.T / m + 0.1 * np.eye(m)


@pytest.mark.parametrize("m", [1, 2, 5, 8, 61])
def test_systems_after_rows_are_deleted(m):
    matrix, rng = positive_definite(m), np.random.default_rng(1)
    factor, left = matrix.copy(), list(range(m))
    assert factorise(factor, 0.25)
    for place in [m - 1, 0, (m - 3) // 2]:
        vectors = rng.normal(size=(2, len(left)))
        wanted = np.linalg.solve(matrix[np.ix_(left, left)] + 0.25 * np.eye(len(left)), vectors.T).T
        solve_factorised(factor, *vectors)
        np.testing.assert_allclose(vectors, wanted, rtol=1e-9, atol=1e-12)
        if not 0 <= place < len(left) > 1:
            break
        delete_row(factor, len(left), place)
        del left[place]


def test_indefinite_matrices_are_refused():
    assert not factorise(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.0)
    assert factorise(np.array([[1.0, 2.0], [2.0, 1.0]]), 2.0)
