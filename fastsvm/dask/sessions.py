"""Shards that stay open on workers, which the client asks directly.

A task takes a way by the scheduler to a worker and back, which is longer than a part of a round. So the client opens a
session for each shard, by a task that runs where the rows are. Its result is the session, which Dask keeps as long as
the client wants it. Then a question is a message to the worker, and another back.

A session is not the only one who knows its state: what it was told can be told again, as tasks. So nothing is lost with
a worker. A copy of a session on another worker, or one that came back from the disk, is closed.
"""

import asyncio
import pickle
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import repeat
from typing import NamedTuple, cast
from weakref import WeakValueDictionary

import numpy as np
from distributed import Future, Worker, get_worker
from distributed.protocol.pickle import dumps

from fastsvm.dask.tasks import Result, Tasks, account_here, in_thread_of
from fastsvm.dask.worker import Place, Plan, Room, ShardRows, settled, shard_of
from fastsvm.solvers.linear_dual.metric import Metric
from fastsvm.solvers.linear_dual.problem import CertificateSums
from fastsvm.solvers.linear_dual.shards import RoundOrder, RoundSums, Shard, ShardState

_REACHED = 2.0  # A worker is connected directly within so many seconds, or it is asked by the scheduler.
_sessions: "WeakValueDictionary[str, Session]" = WeakValueDictionary()


class Session:
    """A shard with its last state, and a name that no other session has; rows, plan and place are as for tasks."""

    def __init__(self, name: str, rows: ShardRows, plan: Plan, place: Place, state: ShardState) -> None:
        self.name, self.address = name, get_worker().address
        self._open: Callable[[], AbstractContextManager[Shard]] = partial(
            shard_of, rows, plan, place, Room.of(rows, plan), account_here()
        )
        self._state, self._metric = state, cast(Metric, None)
        self._n_rounds = 0

    def __reduce__(self) -> tuple:
        """Return how a copy is made: it knows where the session is."""
        return Address, (self.name, self.address)

    def round(self, number: int, order: RoundOrder, metric: Metric | None) -> RoundSums | None:
        """Take part in a round, if this session took part in those before it; no metric is that of the last."""
        if number != self._n_rounds:
            return None
        self._metric = self._metric if metric is None else metric
        with self._open() as shard:
            self._state, sums = shard.round(self._state, order, self._metric)
        self._n_rounds += 1
        return sums

    def losses(self, weights: np.ndarray) -> np.ndarray:
        """Return the losses of weights."""
        with self._open() as shard:
            return shard.losses(weights)

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> CertificateSums:
        """Return the sums of a certificate."""
        with self._open() as shard:
            return shard.certificate_sums(weights, self._state, share, position)

    def settled(self, share: np.ndarray) -> ShardState:
        """Return the state with this share of its last change."""
        return settled(self._state, share)


class Address(NamedTuple):
    """Where a session is, as the client knows it."""

    name: str
    address: str


def open_session(rows: ShardRows, plan: Plan, place: Place, state: ShardState, name: str) -> Session:
    """Return a session on this worker."""
    session = _sessions[name] = Session(name, rows, plan, place, state)
    return session


async def answer(name: str, question: str, arguments: Sequence[object], dask_worker: Worker) -> object:
    """Return what a session on this worker answers, None if it cannot."""
    session = _sessions.get(name)
    if session is None:
        return None
    threads = dask_worker.executors["default"]  # of tasks, so that there are not more
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, getattr(session, question), *arguments)
    except Exception:  # the task that is tried in place of this says what is wrong
        return None


_ANSWER, _NO_NAMES = dumps(answer), dumps({})


class Sessions:
    """Sessions for all shards, `opened` as futures, as the client asks them.

    `lost` says whether there was no answer because a worker was not there.
    """

    def __init__(self, tasks: Tasks, opened: list[Future]) -> None:
        self._client, self._opened = tasks.client, opened  # without the futures, sessions would be closed
        self._addresses: list[Address] = tasks.gathered(opened)
        self.lost = False
        self._is_direct = self._client.direct_to_workers is not False and self._wait(self._reached())

    def ask(self, question: str, *arguments: object) -> list[Result] | None:
        """Return the answers of all shards, or None if one has none; an argument in a list is for single shards."""
        of_shards = zip(*(each if isinstance(each, list) else repeat(each) for each in arguments), strict=False)
        messages = [(each, question, of_shard) for each, of_shard in zip(self._addresses, of_shards, strict=False)]
        try:
            answers = self._wait(self._answers(messages))
        except OSError:
            self.lost = True
            return None
        except (Exception, asyncio.CancelledError):  # of a client that is closed
            return None
        return None if any(one is None for one in answers) else answers

    async def _answers(self, messages: list[tuple[Address, str, tuple]]) -> list[Result]:
        """Return the answers to messages."""
        return await asyncio.gather(*(self._answer(*message) for message in messages))

    async def _answer(self, to: Address, question: str, arguments: tuple) -> object:
        """Return the answer of a shard."""
        message = to.name, question, arguments
        if not self._is_direct:
            return (await self._client.run(answer, *message, workers=[to.address]))[to.address]
        worker = self._client.rpc(to.address)
        reply = await worker.run(function=_ANSWER, args=pickle.dumps(message, protocol=5), kwargs=_NO_NAMES, wait=True)
        return reply.get("result")

    async def _reached(self) -> bool:
        """Return whether the client can connect to the workers."""
        try:
            for address in sorted({each.address for each in self._addresses}):
                self._client.rpc.reuse(address, await asyncio.wait_for(self._client.rpc.connect(address), _REACHED))
        except (OSError, TimeoutError):
            return False
        return True

    def _wait(self, coming: Coroutine) -> Result:
        """Return what will come in the thread of the client."""
        future = in_thread_of(self._client, coming)
        try:
            return future.result()
        finally:
            future.cancel()
