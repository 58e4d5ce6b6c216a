"""Numbers of fits on several machines."""

from typing import NamedTuple

__all__ = ["ClusterTuning"]


class ClusterTuning(NamedTuple):
    """What a client asks of a cluster, and how long it waits."""

    # A task that raised an error is tried again so many times.
    retries: int = 3
    # After so many seconds of waiting, the client looks whether there are workers. After so many looks in a row that
    # find none that takes tasks, the fit ends: a client may sleep in between.
    look_s: float = 5.0
    looks: int = 12
    # Each thread of the cluster gets so many machines at once.
    batch: int = 4
    # The states of shards are kept after so many rounds, or after so many bytes were told.
    kept_rounds: int = 10
    kept_bytes: int = 1 << 27
    # Dask writes results to disk from this share of the memory of a worker on, or .7.
    spilled: float = 0.6
