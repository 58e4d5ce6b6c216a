"""The measurements of fits on clusters, on a few rows."""

import numpy as np
import pytest

from bench.cluster.local import fit_local, fit_on_cluster
from bench.cluster.peers import COMPETITORS, judged
from bench.cluster.rows import persisted, written
from bench.harness.data import Data
from bench.shards import Case, measured


def test_each_number_of_shards_ends_at_the_same_gap(client):
    X = np.random.default_rng(0).normal(size=(300, 5))
    y = (X[:, 0] > 0).astype(int)
    found = list(measured(Case(lambda: Data(X, y, X, y), "hinge", 1.0), (1, 3), client))
    assert [one["n_shards"] for one in found] == [1, 3]
    assert all(one["relative_gap"] <= 1e-3 and one["rounds"] > 0 and one["bytes"] > 0 for one in found)
    assert found[0]["objective"] == pytest.approx(found[1]["objective"], rel=2e-3)


@pytest.fixture
def data():
    X = np.random.default_rng(1).normal(size=(303, 5)).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
    return Data(X, y, X[:100], y[:100])


def test_a_fit_here_and_one_on_a_cluster_end_at_the_same_objective(client, data, tmp_path):
    path = str(written(data, tmp_path))
    here, there = fit_local(path, 1.0, "hinge"), fit_on_cluster(path, 1.0, "hinge", client)
    assert here["objective"] == pytest.approx(there["objective"], rel=2e-3)
    assert max(here["relative_gap"], there["relative_gap"]) <= 1e-3 and there["peak_mb"] > 1


def test_weights_are_judged(client, data, tmp_path):
    rows = persisted(written(data, tmp_path))
    assert rows[0].chunks[0] == rows[1].chunks[0] == (151, 152)
    weights, intercept = COMPETITORS["fastsvm LinearSVC, hinge"](client, *rows, 1.0)
    assert judged(data, 1.0, weights, intercept)["accuracy"] > 0.95
    chance = judged(data, 1.0, 0 * weights, 2.0)
    negative = data.y == 0
    assert chance["accuracy"] == np.mean(data.y_test)
    wanted = np.log1p(np.exp(np.where(negative, 2, -2))).sum() + 2
    assert chance["log_loss_objective"] == pytest.approx(wanted)
