"""The shards of a fit on the workers of a cluster, by Dask's futures.

A part of a round is a task for each shard: a pure function of its rows, its state after the last part, and what it is
told. States stay on the workers. If a worker is lost, Dask computes its rows and its states again elsewhere, with the
same bits. Every few rounds the client keeps the states itself, so that no more than these rounds are computed again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from distributed import Client, Future, wait

from fastsvm.dask.worker import (
    Place,
    Plan,
    ask_losses,
    ask_moments,
    ask_sums,
    begin,
    identity,
    known_state,
    run_round,
    settled,
    sums_of_round,
)
from fastsvm.solvers.linear_dual.certificate import CertificateSums
from fastsvm.solvers.linear_dual.curvature import SAMPLED_ROWS, RowMoments
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.solvers.linear_dual.shards.shard import RoundOrder, RoundSums

__all__ = ["RETRIES", "ClusterShards", "Tasks"]

_KEPT_AFTER = 10  # rounds
RETRIES = 3
"""How often a task that raised an error is tried again."""

_LOOK = 5.0  # seconds of waiting, after which is looked whether there are workers
_ALONE = 60.0  # seconds without workers, after which the fit ends


class Tasks(NamedTuple):
    """How tasks are sent.

    Attributes
    ----------
    client : Client
        The connection to the cluster.
    n_workers : int
        Number of workers when the fit began. No task is bound to one: even if others are allowed, tasks bound to a
        worker wait for ever once all workers of that moment are lost.
    token : str
        What the keys of all tasks of the fit have in common.
    """

    client: Client
    n_workers: int
    token: str

    @classmethod
    def of(cls, client: Client) -> "Tasks":
        """Return the tasks of a new fit."""
        return cls(client, len(client.nthreads()), uuid4().hex)

    def gathered(self, futures: list[Future]) -> list[Any]:
        """Return the results of tasks, in order; raise RuntimeError if the cluster has no workers for long."""
        alone_since = None
        while True:
            try:
                wait(futures, timeout=_LOOK)
                return list(self.client.gather(futures))
            except TimeoutError:
                now = time.monotonic()
                alone_since = None if self.client.nthreads() else alone_since or now
                if alone_since is not None and now - alone_since > _ALONE:
                    raise RuntimeError(
                        f"The cluster has had no workers for {now - alone_since:.0f} s, and {len(futures)} tasks of "
                        "the fit wait for one. Start workers, with a nanny that starts lost ones again, and fit anew."
                    ) from None

    def submit(self, name: str, number: int, function: Callable[..., Any], *arguments: Any) -> Future:
        """Send a task of a shard. The name is that of its step, so that the key is new."""
        key = f"svm-{name}-{number}-{self.token}"
        return self.client.submit(function, *arguments, key=key, pure=False, retries=RETRIES)

    def share(self, name: str, value: Any) -> Future:
        """Send what tasks of all shards use, once."""
        return self.client.submit(identity, value, key=f"svm-{name}-{self.token}", pure=False, retries=RETRIES)


class ClusterShards:
    """The shards of a fit.

    Parameters
    ----------
    tasks : Tasks
        How tasks are sent.
    rows : list of Future of ShardRows
        The rows of each shard.
    plan : Plan
        What is to be learnt.
    sizes : list of int
        Numbers of rows.

    Attributes
    ----------
    bytes_sent : int
        Bytes of what the client told and was told in rounds, about.
    """

    def __init__(self, tasks: Tasks, rows: list[Future], plan: Plan, sizes: list[int]) -> None:
        self._tasks, self._rows = tasks, rows
        self._sizes = np.array(sizes)
        firsts = np.cumsum([0, *sizes[:-1]]).tolist()
        self._places = [Place(number, first) for number, first in enumerate(firsts)]
        self._plan = tasks.share("plan", plan)
        self._last = self._each("begin", begin)
        self._metric: tuple[Metric, Future] | None = None
        self._n_rounds = self._n_asked = self.bytes_sent = 0

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._rows)

    def _each(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Future]:
        """Send a task for each shard; arguments in a list are those of single shards."""
        return [
            self._tasks.submit(
                name, number, function, rows, self._plan, self._places[number],
                *[each[number] if isinstance(each, list) else each for each in arguments],
            )
            for number, rows in enumerate(self._rows)
        ]  # fmt: skip

    def moments(self, width: int) -> list[RowMoments]:
        """Return the moments of the shards, with samples in proportion to their rows."""
        most = np.ceil(SAMPLED_ROWS * self._sizes / max(1, self._sizes.sum())).astype(int).tolist()
        return self._tasks.gathered(self._each("moments", ask_moments, width, most))

    def round(self, orders: list[RoundOrder], metric: Metric) -> list[RoundSums]:
        """Have each shard take its part of a round from its last state. Shards with the same work share an order."""
        first = orders[0]
        if first.part == 0 and first.seed[-1] and first.seed[-1] % _KEPT_AFTER == 0:
            self._keep(first.share)
        self._n_rounds += 1
        if self._metric is None or self._metric[0] is not metric:
            self._metric = metric, self._tasks.share(f"metric-{self._n_rounds}", metric)
        different = {order.run: order for order in orders}
        told = {run: self._tasks.share(f"order-{self._n_rounds}-{run}", order) for run, order in different.items()}
        name, own = f"round-{self._n_rounds}", [told[order.run] for order in orders]
        self._last = self._each(name, run_round, self._last, own, self._metric[1])
        answers = [
            self._tasks.submit(f"sums-{self._n_rounds}", number, sums_of_round, last)
            for number, last in enumerate(self._last)
        ]
        found = self._tasks.gathered(answers)
        self.bytes_sent += sum(order.weights.nbytes for order in different.values())
        self.bytes_sent += 2 * sum(part.change.nbytes for part in found)
        return found

    def _keep(self, share: np.ndarray) -> None:
        """Have the client keep the states, so that what was before them is forgotten."""
        name = f"settled-{self._n_rounds}"
        futures = [self._tasks.submit(name, k, settled, last, share) for k, last in enumerate(self._last)]
        states = self._tasks.gathered(futures)
        name = f"kept-{self._n_rounds}"
        self._last = [self._tasks.submit(name, k, known_state, state) for k, state in enumerate(states)]

    def losses(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the losses of weights on each shard, for each score."""
        self._n_asked += 1
        told = self._tasks.share(f"weights-{self._n_asked}", weights)
        return self._tasks.gathered(self._each(f"losses-{self._n_asked}", ask_losses, told))

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> list[CertificateSums]:
        """Return the sums over the rows of each shard that a certificate needs."""
        self._n_asked += 1
        told = self._tasks.share(f"asked-{self._n_asked}", (tuple(weights), share, position))
        return self._tasks.gathered(self._each(f"certificate-{self._n_asked}", ask_sums, self._last, told))
