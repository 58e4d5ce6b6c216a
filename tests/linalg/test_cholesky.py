import numpy as np
import pytest

from fastsvm._compiled.threads import Pool
from fastsvm.linalg.cholesky import Inverse, delete_row, factorise, solve_factorised


def positive_definite(m, seed=0):
    A = np.random.default_rng(seed).normal(size=(m, m + 5))
    return A @ A.T / m + 0.1 * np.eye(m)


@pytest.fixture
def small_tiles(choose):
    choose(products={"tile": 8})


@pytest.mark.parametrize("m", [1, 7, 8, 9, 24, 41, 100])
def test_products_with_the_inverse(m, small_tiles):
    matrix, rng = positive_definite(m), np.random.default_rng(1)
    vectors, wanted = rng.normal(size=(m, 7)), np.linalg.inv(matrix)
    with Pool.open() as pool:
        inverse = Inverse(matrix.copy(), pool)
        np.testing.assert_allclose(inverse.times(vectors), wanted @ vectors, rtol=0, atol=1e-10)
        places = rng.permutation(m)[: (m + 1) // 2]
        np.testing.assert_allclose(inverse.times(vectors[:, 0]), wanted @ vectors[:, 0], rtol=0, atol=1e-10)
        halves, weights = inverse.halves(places), rng.normal(size=len(places))
        np.testing.assert_allclose(halves @ halves.T, wanted[np.ix_(places, places)], rtol=0, atol=1e-10)
        found = inverse.half_times(weights @ halves)
        np.testing.assert_allclose(found, weights @ wanted[places], rtol=0, atol=1e-10)
        assert inverse.halves(places[:0]).shape == (0, m)


def test_tiles_of_the_true_size():
    matrix, vectors = positive_definite(1100), np.random.default_rng(1).normal(size=(1100, 40))
    with Pool.open() as pool:
        found = Inverse(matrix.copy(), pool).times(vectors)
    np.testing.assert_allclose(matrix @ found, vectors, rtol=0, atol=1e-9)


def test_the_same_bits_for_any_number_of_threads():
    matrix, vectors = positive_definite(900), np.random.default_rng(1).normal(size=(900, 70))
    found = []
    with Pool.open():
        for n_threads in (1, 2):
            inverse = Inverse(matrix.copy(), Pool(n_threads))
            found.append(np.vstack([inverse.times(vectors).T, inverse.halves(np.arange(5, 900, 3))]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("at", [0, 11, 39])
def test_a_matrix_that_is_not_positive_definite(at, small_tiles):
    matrix = positive_definite(40)
    matrix[at, at] = -1
    with Pool.open() as pool, pytest.raises(np.linalg.LinAlgError):
        Inverse(matrix, pool)


@pytest.mark.parametrize("m", [1, 2, 5, 8, 61])
def test_systems_after_rows_are_deleted(m):
    matrix, rng = positive_definite(m), np.random.default_rng(1)
    factor, left = matrix.copy(), list(range(m))
    assert factorise(factor, 0.25)
    for place in [m - 1, 0, (m - 3) // 2]:
        vector = rng.normal(size=len(left))
        wanted = np.linalg.solve(matrix[np.ix_(left, left)] + 0.25 * np.eye(len(left)), vector)
        solve_factorised(factor, vector)
        np.testing.assert_allclose(vector, wanted, rtol=1e-9, atol=1e-12)
        if not 0 <= place < len(left) > 1:
            break
        delete_row(factor, len(left), place)
        del left[place]


def test_indefinite_matrices_are_refused():
    assert not factorise(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.0)
    assert factorise(np.array([[1.0, 2.0], [2.0, 1.0]]), 2.0)
