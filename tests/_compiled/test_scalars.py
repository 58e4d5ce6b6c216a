"""Scalar functions of compiled code."""

import numpy as np
import pytest

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import exp


@jit
def exponentials(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@pytest.mark.parametrize(("dtype", "least", "most"), [(np.float32, -87, 88), (np.float64, -708, 709)])
def test_exp_is_wrong_by_two_units_in_the_last_place_at_most(dtype, least, most):
    rng = np.random.default_rng(0)
    ends = [least, most, 0.0, -0.0, least - 5, most + 5, -np.inf, np.inf, -1e30]
    x = np.concatenate([rng.uniform(least, most, 20_000), -rng.exponential(1, 20_000), ends]).astype(dtype)
    found, wanted = np.empty_like(x), np.exp(np.clip(x, least, most).astype(np.longdouble))
    exponentials(x, found)
    assert (np.abs(found - wanted) <= 2 * np.spacing(wanted.astype(dtype))).all()
    assert (found[x == 0] == 1).all()  # so that k(x, x) is
