"""The shards of a fit on the workers of a cluster.

A part of a round is a pure function of the rows of a shard, its state after the last part, and what it is told. The
client asks the shards in sessions, which keep the states (`sessions`). If one does not answer, tasks do the same from
the states that the client has: Dask computes lost rows again elsewhere, and all that was told since is told again, with
the same bits. Then the client opens new sessions. Every few rounds it takes the states, so that no more than these
rounds are computed again.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed import Future

from fastsvm.dask.rounds.sessions import Sessions, open_session
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
from fastsvm.solvers.linear_dual.metric import SAMPLED_ROWS, Metric, RowMoments
from fastsvm.solvers.linear_dual.problem import CertificateSums
from fastsvm.solvers.linear_dual.shards import RoundOrder, RoundSums, ShardState

__all__ = ["ClusterShards"]


class ClusterShards:
    """The shards of a fit, with their numbers of rows `sizes`; `rows` are futures of their `ShardRows`.

    `bytes_sent` counts, about, the bytes of what the client told and was told in rounds.
    """

    def __init__(self, tasks: Tasks, rows: list[Future], plan: Plan, sizes: list[int]) -> None:
        self._tasks, self._rows = tasks, rows
        self.sizes = sizes
        firsts = np.cumsum([0, *sizes[:-1]]).tolist()
        self._places = [Place(number, first) for number, first in enumerate(firsts)]
        self._plan = tasks.share("plan", plan)
        self._kept: list[ShardState] | None = None
        self._told: list[tuple[list[RoundOrder], Metric]] = []  # since the states were kept
        self._states: list[Future] = []  # while there are no sessions
        self._sessions: Sessions | None = None
        self._metric: Metric | None = None  # that the sessions know
        self._shared: tuple[Metric, Future] | None = None
        self._n_rounds = 0  # of the sessions
        self._n_steps = self.bytes_sent = 0

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._rows)

    def moments(self, width: int) -> list[RowMoments]:
        """Return the moments of the shards, with samples in proportion to their rows."""
        most = [math.ceil(SAMPLED_ROWS * size / max(1, sum(self.sizes))) for size in self.sizes]
        return self._tasks.gathered(self._each("moments", ask_moments, width, most))

    def round(self, orders: list[RoundOrder], metric: Metric) -> list[RoundSums]:
        """Have each shard take its part of a round from its last state. Shards with the same work share an order."""
        first, n_told, tuning = orders[0], sum(_bytes_of(told) for told, _ in self._told), self._tasks.tuning
        is_due = first.part == 0 and first.seed[-1] and first.seed[-1] % tuning.kept_rounds == 0
        if is_due or n_told > tuning.kept_bytes:
            self._keep(self.states(first.share))
        known = None if self._metric is metric else metric
        found = self._asked("round", self._n_rounds, orders, known)
        if found is None:
            self._states = self._tell(orders, metric)
            found = self._tasks.gathered(self._of_states("sums", sums_of_round))
        else:
            self._n_rounds, self._metric = self._n_rounds + 1, metric
        self._told.append((orders, metric))
        self.bytes_sent += _bytes_of(orders) + 2 * sum(part.change.nbytes for part in found)
        return found

    def states(self, share: np.ndarray) -> list[ShardState]:
        """Return the states of the shards, with this share of their last change."""
        return self._asked("settled", share) or self._tasks.gathered(self._of_states("settled", settled, share))

    def restore(self, states: list[ShardState]) -> None:
        """Continue from states, which the client has; what was before them is forgotten."""
        self._sessions = None
        self._keep(states)
        self._states = self._retold()

    def losses(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the losses of weights on each shard, for each score."""
        found = self._asked("losses", weights)
        if found is None:
            found = self._tasks.gathered(self._each("losses", ask_losses, self._shared_once("weights", weights)))
        return found

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> list[CertificateSums]:
        """Return the sums over the rows of each shard that a certificate needs."""
        found = self._asked("certificate_sums", tuple(weights), share, position)
        if found is None:
            told = self._shared_once("asked", (tuple(weights), share, position))
            found = self._tasks.gathered(self._each("certificate", ask_sums, self._states, told))
        return found

    # --- by sessions -------------------------------------------------------------------------------------

    def _asked(self, question: str, *given: Any) -> list[Any] | None:
        """Return what the sessions answer; if one does not, None, and there are states for tasks."""
        if self._sessions is None:
            self._open()
        assert self._sessions is not None
        found = self._sessions.ask(question, *given)
        if found is None:
            if self._sessions.lost:
                self._tasks.check_loss()
            self._sessions, self._states = None, self._retold()
        return found

    def _open(self) -> None:
        """Open sessions from the last states."""
        self._n_steps += 1
        names = [f"{self._tasks.token}-{self._n_steps}-{number}" for number in range(len(self))]
        opened = self._each("session", open_session, self._states or self._retold(), names)
        self._sessions = Sessions(self._tasks, opened)
        self._states, self._metric, self._n_rounds = [], None, 0

    def _keep(self, states: list[ShardState]) -> None:
        """Take states from which the client can begin again."""
        self._kept, self._told = states, []

    # --- by tasks ----------------------------------------------------------------------------------------

    def _each(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Future]:
        """Send a task for each shard; arguments in a list are those of single shards."""
        self._n_steps += 1
        return [
            self._tasks.submit(
                f"{name}-{self._n_steps}", number, function, rows, self._plan, self._places[number],
                *[each[number] if isinstance(each, list) else each for each in arguments],
            )
            for number, rows in enumerate(self._rows)
        ]  # fmt: skip

    def _of_states(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Future]:
        """Send a task for each state."""
        self._n_steps += 1
        return [
            self._tasks.submit(f"{name}-{self._n_steps}", k, function, state, *arguments)
            for k, state in enumerate(self._states)
        ]

    def _shared_once(self, name: str, value: Any) -> Future:
        """Send what tasks of all shards use."""
        self._n_steps += 1
        return self._tasks.share(f"{name}-{self._n_steps}", value)

    def _retold(self) -> list[Future]:
        """Return the states after all that was told since the client kept them."""
        if self._kept is None:
            self._states = self._each("begin", begin)
        else:
            self._n_steps += 1
            name = f"kept-{self._n_steps}"
            self._states = [self._tasks.submit(name, k, known_state, state) for k, state in enumerate(self._kept)]
        for orders, metric in self._told:
            self._states = self._tell(orders, metric)
        return self._states

    def _tell(self, orders: list[RoundOrder], metric: Metric) -> list[Future]:
        """Return the states after one more part of a round."""
        if self._shared is None or self._shared[0] is not metric:
            self._shared = metric, self._shared_once("metric", metric)
        different = {order.run: self._shared_once("order", order) for order in _different(orders)}
        return self._each("round", run_round, self._states, [different[order.run] for order in orders], self._shared[1])


def _different(orders: list[RoundOrder]) -> list[RoundOrder]:
    """Return the orders of different runs."""
    return list({order.run: order for order in orders}.values())


def _bytes_of(orders: list[RoundOrder]) -> int:
    """Return the bytes of what is told in a part of a round, about."""
    return sum(order.weights.nbytes for order in _different(orders))
