"""A fit has the same bits by whatever way the shards are asked: directly, by the scheduler, or by tasks."""

import pickle
import time

import dask.array as da
import numpy as np
import pytest

from fastsvm.dask import LinearSVC, sessions
from fastsvm.dask.sessions import Sessions
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
def told(monkeypatch):
    """Return the parts of rounds that are told by tasks."""
    usual, found = ClusterShards._tell, []

    def telling(self, orders, metric):
        found.append(orders[0].part)
        return usual(self, orders, metric)

    monkeypatch.setattr(ClusterShards, "_tell", telling)
    return found


def assert_same(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert (model.objective_, model.n_iter_) == (other.objective_, other.n_iter_)


def test_workers_out_of_reach_are_asked_by_the_scheduler(fitted, model, told, monkeypatch):
    async def not_reached(self):
        return False

    monkeypatch.setattr(Sessions, "_reached", not_reached)
    assert_same(fitted(), model)
    assert not told


@pytest.mark.parametrize("question", ["round", "losses", "certificate_sums", "settled"])
def test_what_no_session_answers_is_told_again_by_tasks(fitted, model, told, monkeypatch, choose, question):
    usual, asked = Sessions.ask, []

    def forgetful(self, one, *given):
        asked.append(one)
        if one == question and len(asked) > 30 and not told:
            sessions._sessions.clear()
        return usual(self, one, *given)

    monkeypatch.setattr(Sessions, "ask", forgetful)
    choose(cluster={"kept_rounds": 5})  # after which states are settled
    assert_same(fitted(), model)
    assert told


def test_an_error_within_a_session_is_told_by_the_task(client, digits):
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
    usual, copies = Sessions.__init__, []

    def copied(self, tasks, opened):
        usual(self, tasks, opened)
        copies.extend(pickle.loads(pickle.dumps(list(sessions._sessions.values()))))

    monkeypatch.setattr(Sessions, "__init__", copied)
    fitted()
    assert {one.address.split(":")[0] for one in copies} == {"inproc"}
    assert not any(hasattr(one, "round") for one in copies)
    while sessions._sessions:  # they are closed soon after the fit
        time.sleep(0.01)
