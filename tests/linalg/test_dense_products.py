"""Products of rows as they are stored, against NumPy's."""

from itertools import product

import numpy as np
import pytest

from fastsvm.linalg import dense_products
from fastsvm.linalg.dense_products import add_products, mirror, scale_rows
from fastsvm.linalg.row_products import write_products

TYPES = [(np.uint8, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.uint8, np.float64)]


def rows_of(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, shape).astype(dtype) if dtype is np.uint8 else rng.normal(size=shape).astype(dtype)


def close(found, wanted, real):
    size = np.abs(wanted).max(initial=1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=size * (1e-4 if real is np.float32 else 1e-12))


@pytest.mark.parametrize("n_places", [1, 3, 4, 7, 12])
@pytest.mark.parametrize(("dtype", "real"), TYPES)
def test_products_of_some_rows_with_some_scores(dtype, real, n_places):
    for k, d in product((1, 2, 4, 5, 6, 10, 13), (1, 15, 16, 33, 700)):
        values, weights = rows_of(dtype, (15, d)), rows_of(real, (k + 2, d + 3), 1)
        places = np.random.default_rng(2).permutation(15)[:n_places]
        low, high = (1, k + 1) if k > 1 else (0, 1)
        first = min(1, n_places - 1)
        out = np.full((k + 2, 15), -7, real)
        write_products(values, places, weights, (first, n_places, low, high), out)
        wanted = np.full((k + 2, 15), -7.0)
        wanted[low:high, places[first:]] = (values[places[first:]].astype(float) @ weights[low:high, :d].T).T
        close(out, wanted, real)


@pytest.mark.parametrize(("dtype", "real"), TYPES)
def test_a_product_is_the_same_whatever_part_it_is_asked_for_with(dtype, real):
    values, weights = rows_of(dtype, (9, 50)), rows_of(real, (7, 50), 1)
    whole = np.empty((7, 9), real)
    places = np.arange(9)
    write_products(values, places, weights, (0, 9, 0, 7), whole)
    for bounds in ((0, 4, 0, 7), (4, 9, 0, 7)):
        part = np.zeros((7, 9), real)
        write_products(values, places, weights, bounds, part)
        np.testing.assert_array_equal(part[:, bounds[0] : bounds[1]], whole[:, bounds[0] : bounds[1]])


@pytest.mark.parametrize("n_places", [0, 1, 7, 8, 9, 20])
@pytest.mark.parametrize(("dtype", "real"), TYPES)
def test_multiples_of_some_rows_are_added(dtype, real, n_places):
    for k, d in product((1, 2, 3, 6), (1, 31, dense_products.FEATURES, dense_products.FEATURES + 5)):
        values, factors = rows_of(dtype, (25, d)), rows_of(real, (k + 1, 25), 1)
        places = np.random.default_rng(2).permutation(25)[:n_places]
        out = rows_of(real, (k + 1, d + 2), 3)
        wanted = out.astype(float)
        wanted[1:, :d] += factors[1:, places].astype(float) @ values[places].astype(float)
        add_products(values, places, factors, (1, k + 1), out)
        close(out, wanted, real)


@pytest.mark.parametrize("n", [1, 4, 9])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_the_lower_half_is_copied_to_the_upper(real, n):
    square = rows_of(real, (9, 9))
    wanted = square.copy()
    wanted[:n, :n] = np.tril(square[:n, :n]) + np.tril(square[:n, :n], -1).T
    mirror(square, n)
    np.testing.assert_array_equal(square, wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_rows_are_shifted_and_scaled_in_the_type_of_products(real, dtype):
    values = rows_of(dtype, (5, 7))
    shift, scale = rows_of(real, 7, 1), rows_of(real, 7, 2)
    out = np.empty((5, 7), real)
    scale_rows(values, shift, scale, out)
    np.testing.assert_array_equal(out, (values.astype(real) - shift) * scale)
    scale_rows(values, shift[:0], scale[:0], out)
    np.testing.assert_array_equal(out, values.astype(real))
