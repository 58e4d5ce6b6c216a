"""The shards of a fit on the workers of a cluster, by Dask's futures.

A part of a round is a task for each shard: a pure function of its rows, its state after the last part, and what it is
told. States stay on the workers. If a worker is lost, Dask computes its rows and its states again elsewhere, with the
same bits. Every few rounds the client keeps the states itself, so that no more than these rounds are computed again.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed import Future

from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import (
    Place,
    Plan,
    ask_losses,
    ask_moments,
    ask_sums,
    begin,
    known_state,
    run_round,
    settled,
    sums_of_round,
)
from fastsvm.solvers.linear_dual.certificate import CertificateSums
from fastsvm.solvers.linear_dual.curvature import SAMPLED_ROWS, RowMoments
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.solvers.linear_dual.shards.shard import RoundOrder, RoundSums, ShardState

__all__ = ["ClusterShards"]

_KEPT_AFTER = 10  # rounds


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
    sizes : list of int
        Numbers of rows.
    bytes_sent : int
        Bytes of what the client told and was told in rounds, about.
    """

    def __init__(self, tasks: Tasks, rows: list[Future], plan: Plan, sizes: list[int]) -> None:
        self._tasks, self._rows = tasks, rows
        self.sizes = sizes
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
        most = [math.ceil(SAMPLED_ROWS * size / max(1, sum(self.sizes))) for size in self.sizes]
        return self._tasks.gathered(self._each("moments", ask_moments, width, most))

    def round(self, orders: list[RoundOrder], metric: Metric) -> list[RoundSums]:
        """Have each shard take its part of a round from its last state. Shards with the same work share an order."""
        first = orders[0]
        if first.part == 0 and first.seed[-1] and first.seed[-1] % _KEPT_AFTER == 0:
            self.restore(self.states(first.share))
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

    def states(self, share: np.ndarray) -> list[ShardState]:
        """Return the states of the shards, with this share of their last change."""
        self._n_asked += 1
        name = f"settled-{self._n_asked}"
        return self._tasks.gathered(
            [self._tasks.submit(name, k, settled, last, share) for k, last in enumerate(self._last)]
        )

    def restore(self, states: list[ShardState]) -> None:
        """Continue from states, which the client has; what was before them is forgotten."""
        self._n_asked += 1
        name = f"kept-{self._n_asked}"
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
