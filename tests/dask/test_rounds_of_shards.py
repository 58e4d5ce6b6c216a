"""The measurement of rounds on shards, on a few rows."""

import numpy as np
import pytest

from bench.harness.data import Data
from bench.shards import Case, measured


def test_each_number_of_shards_ends_at_the_same_gap(client):
    X = np.random.default_rng(0).normal(size=(300, 5))
    y = (X[:, 0] > 0).astype(int)
    found = list(measured(Case(lambda: Data(X, y, X, y), "hinge", 1.0), (1, 3), client))
    assert [one["n_shards"] for one in found] == [1, 3]
    assert all(one["relative_gap"] <= 1e-3 and one["rounds"] > 0 and one["bytes"] > 0 for one in found)
    assert found[0]["objective"] == pytest.approx(found[1]["objective"], rel=2e-3)
