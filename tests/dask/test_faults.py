"""Workers that are killed at a moment that the test chooses: the same bits. And how many bytes pass by the client."""

import os
import signal
from pathlib import Path

import dask.array as da
import h5py
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.comm import tcp

from fastsvm.dask import LinearSVC
from fastsvm.dask.shards import ClusterShards
from fastsvm.solvers.linear_dual.shards.shard import Shard

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def processes():
    with LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster, Client(cluster) as c:
        yield c


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 100, (24000, 300), dtype=np.uint8)
    found = tmp_path_factory.mktemp("rows") / "rows.h5"
    with h5py.File(found, "w") as file:
        file["X"] = X
        file["y"] = (X[:, :20].mean(axis=1) + rng.normal(size=24000) > 50).astype(np.int64)
    return found


def made(client):
    return LinearSVC("hinge", C=1e-5, n_shards=2, tol=1e-2, random_state=0, client=client)


@pytest.fixture(scope="module")
def model(client, path):
    """Return the model of a fit without any fault."""
    return made(client).fit(path)


def assert_same(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert (model.objective_, model.n_iter_) == (other.objective_, other.n_iter_)


def test_rows_never_come_to_the_client_or_the_scheduler(processes, path, model, monkeypatch):
    seen, decoded = [0], tcp.from_frames

    async def counting_frames(frames, *given, **more):
        seen[0] += sum(memoryview(frame).nbytes for frame in frames)
        return await decoded(frames, *given, **more)

    monkeypatch.setattr(tcp, "from_frames", counting_frames)
    assert_same(made(processes).fit(path), model)
    assert 0 < seen[0] < 24000 * 300  # the bytes of the rows


def test_a_worker_is_killed_in_reading(processes, path, model, tmp_path):
    marker = str(tmp_path / "once")

    def block(path, start, stop):  # a nested function, which is sent by value
        if start and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with h5py.File(path) as file:
            return file["X"][start:stop], file["y"][start:stop]

    parts = [
        processes.submit(block, path, 0, 12000, pure=False),
        processes.submit(block, path, 12000, 24000, pure=False),
    ]
    X, y = ([processes.submit(lambda part, k: part[k], part, k, pure=False) for part in parts] for k in (0, 1))
    assert_same(made(processes).fit(X, y), model)
    assert Path(marker).exists()


def test_a_worker_is_killed_in_a_round(processes, path, model, tmp_path):
    marker = str(tmp_path / "once")

    def patch():
        usual = Shard.round

        def last_words(self, state, order, metric):
            found = usual(self, state, order, metric)
            if state.turn == 2 and self.number == 1 and not Path(marker).exists():
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        Shard.round = last_words

    processes.run(patch)
    assert_same(made(processes).fit(path), model)
    assert Path(marker).exists()


def test_all_workers_are_killed_between_rounds(processes, path, model, monkeypatch):
    usual, killed = ClusterShards.round, []

    def after_a_murder(self, orders, metric):
        if orders[0].seed[1] == 3 and orders[0].part == 2:
            for pid in processes.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return usual(self, orders, metric)

    monkeypatch.setattr(ClusterShards, "round", after_a_murder)
    assert_same(made(processes).fit(path), model)
    assert len(killed) == 2


def test_without_workers_the_fit_ends(monkeypatch):
    monkeypatch.setattr("fastsvm.dask.shards._LOOK", 0.1)
    monkeypatch.setattr("fastsvm.dask.shards._ALONE", 0.2)
    with (
        Client(processes=False, n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(RuntimeError, match="no workers"),
    ):
        LinearSVC(client=empty).fit(da.zeros((10, 2), chunks=5), da.ones(10, chunks=5))
