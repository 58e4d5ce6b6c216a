"""A fit has the same bits by whatever way the shards are asked: directly, by the scheduler, or by new sessions."""

import pickle
import time

import dask.array as da
import numpy as np
import pytest

from fastsvm.dask import LinearSVC, shards
from fastsvm.dask.shards import ClusterShards

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def fitted(client, digits):
    X, y = da.from_array(digits[0], chunks=(100, 64)), da.from_array(digits[1], chunks=100)

    def fit():
        return LinearSVC("hinge", C=0.05, n_shards=3, tol=5e-3, random_state=0, client=client).fit(X, y)

    return fit


@pytest.fixture(scope="module")
def model(fitted):
    return fitted()


@pytest.fixture
def opened(monkeypatch):
    """Return for each time that sessions are opened how many parts of rounds they take at once."""
    usual, found = ClusterShards._open, []

    def opening(self, question):
        found.append(len(self._parts))
        return usual(self, question)

    monkeypatch.setattr(ClusterShards, "_open", opening)
    return found


def assert_same(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert (model.objective_, model.n_iter_) == (other.objective_, other.n_iter_)


def test_workers_out_of_reach_are_asked_by_the_scheduler(fitted, model, opened, monkeypatch):
    async def not_reached(self):
        return False

    monkeypatch.setattr(ClusterShards, "_reached", not_reached)
    assert_same(fitted(), model)
    assert opened == [0]


@pytest.mark.parametrize("question", ["round", "losses", "certificate_sums", "settled"])
def test_what_no_session_answers_new_ones_do(fitted, model, opened, monkeypatch, choose, question):
    usual, asked = ClusterShards._ask, []

    def forgetful(self, one, *given):
        asked.append(one)
        if one == question and len(asked) > 30 and len(opened) == 1:
            shards._sessions.clear()
        return usual(self, one, *given)

    monkeypatch.setattr(ClusterShards, "_ask", forgetful)
    choose(cluster={"kept_rounds": 5})  # after which states are settled
    assert_same(fitted(), model)
    assert len(opened) == 2 and opened[1] > 0


def test_an_error_within_a_session_is_told_by_the_task_that_opens_the_next(client, digits):
    X, y = da.from_array(digits[0] * 1e200, chunks=(100, 64)), da.from_array(digits[1], chunks=100)
    with pytest.raises(ValueError, match="overflow"):
        LinearSVC("hinge", random_state=0, client=client).fit(X, y)


def test_states_are_taken_before_too_much_was_told(fitted, model, monkeypatch, choose):
    usual, kept = ClusterShards._keep, []
    choose(cluster={"kept_bytes": 20_000})
    monkeypatch.setattr(ClusterShards, "_keep", lambda self, states: kept.append(1) or usual(self, states))
    assert_same(fitted(), model)
    assert len(kept) > model.n_iter_


def test_a_copy_of_a_session_is_only_an_address(fitted, monkeypatch):
    usual, copies = ClusterShards._open, []

    def copied(self, asked):
        answers = usual(self, asked)
        copies.extend(pickle.loads(pickle.dumps(list(shards._sessions.values()))))
        return answers

    monkeypatch.setattr(ClusterShards, "_open", copied)
    fitted()
    assert {one.address.split(":")[0] for one in copies} == {"inproc"}
    assert not any(hasattr(one, "round") for one in copies)
    while shards._sessions:  # they are closed soon after the fit
        time.sleep(0.01)
