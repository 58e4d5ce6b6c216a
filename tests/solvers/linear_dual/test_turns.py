"""In a round each shard processes each score once in all of its rows, and runs of scores meet shards evenly."""

from collections import Counter

import numpy as np
import pytest

from fastsvm.losses import Demands, demands_of_scores, loss_named
from fastsvm.losses.interface import targets_and_costs
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_dual.shards import Turns
from fastsvm.sources import MemorySource

NONE = np.empty(0)


def turns(n_shards, n_scores, loss="hinge"):
    frame = MemorySource.of(np.empty((0, 2)))
    problem = LinearProblem(frame, NONE, NONE, loss_named(loss), Demands(NONE, NONE, np.ones(n_scores)), 1.0)
    return Turns.of(problem, n_shards)


@pytest.mark.parametrize(("n_shards", "n_scores", "together"), [(1, 5, 1), (2, 5, 1), (5, 5, 1), (7, 3, 3), (4, 1, 4)])
def test_each_shard_meets_each_run_once_for_each_piece(n_shards, n_scores, together):
    found = turns(n_shards, n_scores)
    assert found.n_together == together
    scores = [score for low, high in found.runs for score in range(low, high)]
    assert scores == list(range(n_scores))
    met = Counter((k, found.run(k, part)) for part in range(found.n_parts) for k in range(n_shards))
    assert set(met.values()) == {found.n_pieces} and len(met) == n_shards * len(found.runs)
    for part in range(found.n_parts):
        for run in range(len(found.runs)):
            those = [found.shard(run, part, place) for place in range(together)]
            own = [k for k in range(n_shards) if found.run(k, part) == run]
            assert [k for k in those if k is not None] == own


def test_a_loss_of_all_classes_has_one_run():
    assert turns(3, 4, "crammer_singer").runs == [(0, 4)]


@pytest.mark.parametrize("pairs", [np.empty((0, 2), np.int64), np.array([[0, 1], [0, 2], [1, 2], [2, 1]])])
@pytest.mark.parametrize("scores", [(0, 4), (1, 3), (2, 3)])
def test_scores_alone_have_the_same_targets_and_costs(scores, pairs):
    rng = np.random.default_rng(0)
    demands = Demands(rng.integers(0, 3, 20).astype(float), rng.random(20), rng.random(4), pairs)
    own, every = targets_and_costs(demands_of_scores(demands, scores)), targets_and_costs(demands)
    for found, expected in zip(own, every, strict=True):
        np.testing.assert_array_equal(np.broadcast_to(found, (20, scores[1] - scores[0])), expected[:, slice(*scores)])
