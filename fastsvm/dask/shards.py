"""The shards of a fit on the workers of a cluster.

A part of a round is a pure function of the rows of a shard, its state after the last part, and what it is told. The
client asks the shards in sessions, which keep the states (`sessions`). If one does not answer, tasks do the same from
the states that the client has: Dask computes lost rows again elsewhere, and all that was told since is told again, with
the same bits. Then the client opens new sessions. Every few rounds it takes the states, so that no more than these
rounds are computed again.
"""

import math
from collections.abc import Callable, Sequence
from operator import getitem

import numpy as np
from distributed import Future

from fastsvm.dask.sessions import Sessions, open_session
from fastsvm.dask.tasks import Result, Tasks
from fastsvm.dask.worker import Place, Plan, ask, settled
from fastsvm.solvers.linear_dual.metric import SAMPLED_ROWS, Metric, RowMoments
from fastsvm.solvers.linear_dual.problem import CertificateSums
from fastsvm.solvers.linear_dual.shards import RoundOrder, RoundSums, ShardState


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
        return self._tasks.gathered(self._each("moments", ask, "moments", width, most))

    def round(self, orders: list[RoundOrder], metric: Metric) -> list[RoundSums]:
        """Have each shard take its part of a round from its last state. Shards with the same work share an order."""
        first, n_told, tuning = orders[0], sum(_bytes_of(each) for each, _ in self._told), self._tasks.tuning
        is_due = first.part == 0 and first.seed[-1] and first.seed[-1] % tuning.kept_rounds == 0
        if is_due or n_told > tuning.kept_bytes:
            self._keep(self.states(first.share))
        sums = self._answers("round", self._n_rounds, orders, None if self._metric is metric else metric)
        if sums is None:
            sums = self._tasks.gathered(self._of_each("sums", self._tell(orders, metric), getitem, 1))
        else:
            self._n_rounds, self._metric = self._n_rounds + 1, metric
        self._told.append((orders, metric))
        self.bytes_sent += _bytes_of(orders) + 2 * sum(part.change.nbytes for part in sums)
        return sums

    def states(self, share: np.ndarray) -> list[ShardState]:
        """Return the states of the shards, with this share of their last change."""
        states = self._answers("settled", share)
        return states or self._tasks.gathered(self._of_each("settled", self._states, settled, share))

    def restore(self, states: list[ShardState]) -> None:
        """Continue from states, which the client has; what was before them is forgotten."""
        self._sessions = None
        self._keep(states)
        self._states = self._retold()

    def losses(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the losses of weights on each shard, for each score."""
        losses = self._answers("losses", weights)
        if losses is None:
            losses = self._tasks.gathered(self._each("losses", ask, "losses", self._shared_once("weights", weights)))
        return losses

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> list[CertificateSums]:
        """Return the sums over the rows of each shard that a certificate needs."""
        sums = self._answers("certificate_sums", tuple(weights), share, position)
        if sums is None:
            each = self._shared_once("weights", tuple(weights))
            at = self._shared_once("position", position)
            sums = self._tasks.gathered(
                self._each("certificate", ask, "certificate_sums", each, self._states, share, at)
            )
        return sums

    # --- by sessions -------------------------------------------------------------------------------------

    def _answers(self, question: str, *arguments: object) -> list[Result] | None:
        """Return what the sessions answer; if one does not, None, and there are states for tasks."""
        sessions = self._sessions = self._sessions or self._opened()
        answers = sessions.ask(question, *arguments)
        if answers is None:
            if sessions.lost:
                self._tasks.check_loss()
            self._sessions, self._states = None, self._retold()
        return answers

    def _opened(self) -> Sessions:
        """Return sessions that begin at the last states."""
        self._n_steps += 1
        names = [f"{self._tasks.token}-{self._n_steps}-{number}" for number in range(len(self))]
        sessions = Sessions(self._tasks, self._each("session", open_session, self._states or self._retold(), names))
        self._states, self._metric, self._n_rounds = [], None, 0
        return sessions

    def _keep(self, states: list[ShardState]) -> None:
        """Take states from which the client can begin again."""
        self._kept, self._told = states, []

    # --- by tasks ----------------------------------------------------------------------------------------

    def _each(self, name: str, function: Callable, *arguments: object) -> list[Future]:
        """Send a task for each shard; arguments in a list are those of single shards."""
        self._n_steps += 1
        return [
            self._tasks.submit(
                f"{name}-{self._n_steps}", number, function, rows, self._plan, self._places[number],
                *[each[number] if isinstance(each, list) else each for each in arguments],
            )
            for number, rows in enumerate(self._rows)
        ]  # fmt: skip

    def _of_each(self, name: str, results: list[Future], function: Callable, *arguments: object) -> list[Future]:
        """Send a task for each result of a task."""
        self._n_steps += 1
        name = f"{name}-{self._n_steps}"
        return [self._tasks.submit(name, k, function, result, *arguments) for k, result in enumerate(results)]

    def _shared_once(self, name: str, value: object) -> Future:
        """Send what tasks of all shards use."""
        self._n_steps += 1
        return self._tasks.share(f"{name}-{self._n_steps}", value)

    def _retold(self) -> list[Future]:
        """Return the states after all that was told since the client kept them."""
        if self._kept is None:
            self._states = self._each("begin", ask, "start")
        else:
            self._states = [self._shared_once("kept", state._replace(before=state.dual)) for state in self._kept]
        for orders, metric in self._told:
            self._tell(orders, metric)
        return self._states

    def _tell(self, orders: list[RoundOrder], metric: Metric) -> list[Future]:
        """Take one more part of a round; return the states after it, each with the sums of its shard."""
        if self._shared is None or self._shared[0] is not metric:
            self._shared = metric, self._shared_once("metric", metric)
        different = {order.run: self._shared_once("order", order) for order in _different(orders)}
        of_shards = [different[order.run] for order in orders]
        rounds = self._each("round", ask, "round", self._states, of_shards, self._shared[1])
        self._states = self._of_each("state", rounds, getitem, 0)
        return rounds


def _different(orders: list[RoundOrder]) -> list[RoundOrder]:
    """Return the orders of different runs."""
    return list({order.run: order for order in orders}.values())


def _bytes_of(orders: list[RoundOrder]) -> int:
    """Return the bytes of what is told in a part of a round, about."""
    return sum(order.weights.nbytes for order in _different(orders))
