"""What is said when no worker of a cluster takes tasks. The clusters are in this process.

Workers of other processes are started with the configuration of Dask of that moment: no cluster of them may be there
while a test changes it.
"""

import time

import dask
import dask.array as da
import pytest
from distributed import Client

from fastsvm.dask import ClusterLost, LinearSVC
from fastsvm.dask.tasks import Tasks

pytestmark = pytest.mark.dask


def test_workers_that_have_no_memory_left_are_told(choose):
    choose(cluster={"look_s": 0.1, "looks": 2})
    limits = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "terminate")}
    with (
        dask.config.set(limits | {"distributed.worker.memory.pause": 0.01}),
        Client(processes=False, n_workers=1, memory_limit="1GB", dashboard_address=":0") as full,
        pytest.raises(ClusterLost, match=r"All 1 workers.*paused.*1000 MB"),
    ):
        while full.scheduler_info()["workers"].popitem()[1]["status"] != "paused":
            time.sleep(0.05)
        LinearSVC(client=full).fit(da.zeros((10, 2), chunks=5), da.ones(10, chunks=5))


def test_workers_that_dask_does_not_tell_of_are_known(client, monkeypatch):
    monkeypatch.setattr(Client, "scheduler_info", lambda self: {"workers": {}})  # it told of five in 2025
    assert [status for status, _ in Tasks.of(client)._workers()] == ["running", "running"]


def test_without_workers_the_fit_ends(choose):
    choose(cluster={"look_s": 0.1, "looks": 2})
    with (
        Client(processes=False, n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(RuntimeError, match="no workers"),
    ):
        LinearSVC(client=empty).fit(da.zeros((10, 2), chunks=5), da.ones(10, chunks=5))
