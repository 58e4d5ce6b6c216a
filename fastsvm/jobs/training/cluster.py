"""The cluster of a job: its estimators, and the connection to it. Dask is imported by jobs that have a cluster only."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastsvm.estimators import ESTIMATORS

__all__ = ["connected", "estimators_of"]


def estimators_of(cluster: Mapping[str, Any] | None) -> Mapping[str, type]:
    """Return the estimators that a job may name: those that learn on a cluster if it has one.

    It raises ValueError if Dask is not installed.
    """
    if cluster is None:
        return ESTIMATORS
    try:
        from fastsvm.dask import LinearSVC, LinearSVR
    except ImportError as error:
        raise ValueError(f"A job with [cluster]: {error}") from error
    return {"linear": LinearSVC, "linear-regressor": LinearSVR}


@contextmanager
def connected(cluster: Mapping[str, Any] | None) -> Iterator[Any]:
    """Give a client of the cluster of a job, None without a cluster; a local cluster is started and ended.

    `cluster` is as in `Job`. Certificates and keys of TLS are those of Dask's own configuration. If the scheduler does
    not answer, OSError is raised.
    """
    if cluster is None:
        yield None
        return
    from distributed import Client, LocalCluster

    if "scheduler" in cluster:
        with Client(cluster["scheduler"], set_as_default=False) as client:
            yield client
        return
    workers, threads = cluster["local"]["workers"], cluster["local"]["threads"]
    with (
        LocalCluster(workers, threads_per_worker=threads, dashboard_address=":0") as started,
        Client(started, set_as_default=False) as client,
    ):
        yield client
