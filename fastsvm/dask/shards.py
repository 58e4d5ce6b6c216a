"""The shards of a fit, which stay open on the workers of a cluster and which the client asks directly.

A task takes a way by the scheduler to a worker and back, which is longer than a part of a round. So the client opens a
session for each shard, by a task that runs where the rows are. Its result is the session, which Dask keeps as long as
the client wants it. Then a question is a message to the worker, and another back.

Nothing is lost with a worker: an answer is a pure function of the rows of a shard, a state that the client has, and
the parts of rounds since. If a session does not answer, the client opens new ones. Dask computes lost rows again
elsewhere, and the task that opens a session takes these parts, with the same bits, and answers the question. Every few
rounds the client takes the states, so that no more than these rounds are computed again. A copy of a session on another
worker, or one that came back from the disk, is closed.
"""

import asyncio
import math
import pickle
from collections.abc import Coroutine, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from distributed import Future, Worker, get_worker
from distributed.protocol.pickle import dumps

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool
from fastsvm.dask.rows import ShardRows
from fastsvm.dask.tasks import Result, Tasks, account_here, counting, in_thread_of, of_shard, threads_of
from fastsvm.estimators.linear.base_linear_svm import demands_of
from fastsvm.estimators.linear.training_task import Task, in_pairs, task_of_classes
from fastsvm.losses import Loss
from fastsvm.solvers.linear_dual.metric import SAMPLED_ROWS, Metric, RowMoments
from fastsvm.solvers.linear_dual.problem import CertificateSums, LinearProblem
from fastsvm.solvers.linear_dual.shards import RoundOrder, RoundSums, Shard, ShardState
from fastsvm.sources import MemorySource, ScaledSource, Source
from fastsvm.tuning import LinearTuning, current_tuning

_REACHED = 2.0  # A worker is connected directly within so many seconds, or it is asked by the scheduler.
_sessions: "WeakValueDictionary[str, Session]" = WeakValueDictionary()

RoundPart = tuple[list[RoundOrder], Metric]
"""A part of a round: the orders of all shards, and the metric."""

Question = tuple[str, Sequence[object]]
"""A method of a session or its shard, and its arguments; those in lists are for single shards."""


# --- what is learnt --------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What is to be learnt from all shards."""

    loss: Loss
    C: float  # It is the factor of the losses.
    constant: float  # It is the value of the constant feature, 0 if there is none.
    classes: np.ndarray  # They are the labels, and are empty for a regression, as the factors are.
    factors: np.ndarray  # For the rows of each class, C is multiplied by them.
    block_rows: int  # It is as in `LinearSettings`.
    tuning: LinearTuning
    together: int  # So many shards share the threads of a worker.
    shift: np.ndarray = np.empty(0)  # Values x are mapped to (x - shift) scale, sparse ones to x scale.
    scale: np.ndarray = np.empty(0)  # Both are of float64, shape (n_features,), or empty for no mapping.
    of_pairs: bool = False  # Each pair of classes is told apart, not each class from the rest.


def problem_of(rows: ShardRows, plan: Plan) -> LinearProblem:
    """Return the problem of the rows of a shard, perhaps none."""
    source, shift, scale = MemorySource.of(rows.X), plan.shift, plan.scale
    if source.sparse and scale.size:
        source, shift, scale = ScaledSource(source, None, scale, np.float64).in_memory(), np.empty(0), np.empty(0)
    if len(plan.classes):
        task = task_of_labels(source, rows, plan.classes, plan.factors, plan.loss.of_classes or plan.of_pairs)
        if plan.of_pairs:
            task = in_pairs(task)
        elif plan.loss.of_classes:
            task = task._replace(balance=np.ones(len(plan.classes)))
    else:
        targets, weight = np.ascontiguousarray(rows.y, np.float64), writeable(rows.weight)
        task = Task(source, targets, weight, float(weight.sum()), np.ones(1), of_classes=False)
    return LinearProblem(source, shift, scale, plan.loss, demands_of(plan.C, task), plan.constant)


def task_of_labels(source: Source, rows: ShardRows, classes: np.ndarray, factors: np.ndarray, coupled: bool) -> Task:
    """Return the task of rows that are in a source, as they are learnt; factors multiply the weights of each class."""
    labels, used = np.full(len(rows.y), -1, np.int64), rows.weight > 0
    labels[used] = np.searchsorted(classes, rows.y[used])
    return task_of_classes(source, labels, writeable(rows.weight), factors, coupled)


# --- on a worker -----------------------------------------------------------------------------------------


class Address(NamedTuple):
    """Where a session is, and what it answered first, as the client knows it."""

    name: str
    address: str
    first: Result


class Session:
    """A shard with its last state, and a name that no other session has."""

    first: Result = None

    def __init__(self, name: str, rows: ShardRows, plan: Plan, place: tuple[int, int], kept: ShardState | None) -> None:
        self.name, self.address = name, get_worker().address
        self._account, self._n_threads = account_here(), threads_of(plan.together)
        self._shard = Shard(problem_of(rows, plan), plan.block_rows, plan.tuning, *place, _gram_bytes(rows, plan))
        self._state = self._shard.start() if kept is None else kept._replace(before=kept.dual)
        self._metric: Metric

    def __reduce__(self) -> tuple:
        """Return how a copy is made: it knows where the session is."""
        return Address, (self.name, self.address, self.first)

    def answer(self, question: str, arguments: Sequence[object]) -> Result:
        """Return what a method of the session, or of its shard, answers."""
        self.first = None  # The client has it.
        with Pool.open(self._n_threads) as self._shard.pool, counting("computing", self._account):
            return getattr(self if hasattr(self, question) else self._shard, question)(*arguments)

    def round(self, order: RoundOrder, metric: Metric | None) -> RoundSums:
        """Take part in a round; no metric is that of the last."""
        self._metric = self._metric if metric is None else metric
        self._state, sums = self._shard.round(self._state, order, self._metric)
        return sums

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> CertificateSums:
        """Return the sums of a certificate."""
        return self._shard.certificate_sums(weights, self._state, share, position)

    def settled(self, share: np.ndarray) -> ShardState:
        """Return the state with this share of its last change; the variables before are sent as none."""
        return self._state.settled(share)._replace(before=np.empty(0))


def _gram_bytes(rows: ShardRows, plan: Plan) -> int | None:
    """Return how many bytes of Gram matrices a shard may keep on this worker, None for any number of them."""
    limit = get_worker().memory_manager.memory_limit
    if not limit:
        return None
    # Above a share of its limit, a worker pauses. What is not kept is computed anew, which changes no bit.
    duals = 4 * 8 * len(rows.y) * max(1, len(plan.classes))
    return max(0, int(current_tuning().cluster.spilled * limit) // plan.together - rows.__sizeof__() - duals)


def open_session(
    rows: ShardRows,
    plan: Plan,
    place: tuple[int, int],
    name: str,
    kept: ShardState | None,
    parts: tuple[RoundPart, ...],
    question: Question | None,
) -> Session:
    """Return a session on this worker, after parts of rounds from the state `kept`, None for that at the beginning."""
    session, number = Session(name, rows, plan, place, kept), place[0]  # the other is the number of its first row
    first = None
    for orders, metric in parts:
        first = session.answer("round", (orders[number], metric))
    session.first = first if question is None else session.answer(question[0], of_shard(question[1], number))
    _sessions[name] = session
    return session


async def answer(name: str, question: str, arguments: Sequence[object], dask_worker: Worker) -> object:
    """Return what a session on this worker answers, None if it cannot."""
    session = _sessions.get(name)
    if session is None:
        return None
    threads = dask_worker.executors["default"]  # of tasks, so that there are not more
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, session.answer, question, arguments)
    except Exception:  # the task that opens another session says what is wrong
        return None


_ANSWER, _NO_NAMES = dumps(answer), dumps({})


# --- on the client ---------------------------------------------------------------------------------------


class ClusterShards:
    """The shards of a fit, of `sizes` rows, as futures of their `ShardRows`; rounds sent about `bytes_sent` bytes."""

    def __init__(self, tasks: Tasks, rows: list[Future], plan: Plan, sizes: list[int]) -> None:
        self._tasks, self._rows, self.sizes = tasks, rows, sizes
        self._places = list(enumerate(np.cumsum([0, *sizes[:-1]]).tolist()))
        self._plan = tasks.share("plan", plan)
        self._kept: list[ShardState] | None = None
        self._parts: list[RoundPart] = []  # since the states were kept
        self._opened: list[Future] = []  # without which the sessions would be closed
        self._addresses: list[Address] = []
        self._is_direct = False
        self._metric: Metric | None = None  # that the sessions know
        self._n_opened = self.bytes_sent = 0

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self._rows)

    def moments(self, width: int) -> list[RowMoments]:
        """Return the moments of the shards, with samples in proportion to their rows."""
        most = [math.ceil(SAMPLED_ROWS * size / max(1, sum(self.sizes))) for size in self.sizes]
        return self._answers("moments", width, most)

    def round(self, orders: list[RoundOrder], metric: Metric) -> list[RoundSums]:
        """Have each shard take its part of a round from its last state. Shards with the same work share an order."""
        first, n_bytes, tuning = orders[0], sum(_bytes_of(each) for each, _ in self._parts), self._tasks.tuning
        is_due = first.part == 0 and first.seed[-1] and first.seed[-1] % tuning.kept_rounds == 0
        if is_due or n_bytes > tuning.kept_bytes:
            self._keep(self.states(first.share))
        self._parts.append((orders, metric))
        sums = self._ask("round", orders, None if self._metric is metric else metric) or self._open(None)
        self._metric = metric
        self.bytes_sent += _bytes_of(orders) + 2 * sum(part.change.nbytes for part in sums)
        return sums

    def states(self, share: np.ndarray) -> list[ShardState]:
        """Return the states of the shards, with this share of their last change."""
        return self._answers("settled", share)

    def restore(self, states: list[ShardState]) -> None:
        """Continue from states, which the client has; what was before them is forgotten."""
        self._addresses, self._opened = [], []
        self._keep(states)

    def losses(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the losses of weights on each shard, for each score."""
        return self._answers("losses", weights)

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> list[CertificateSums]:
        """Return the sums over the rows of each shard that a certificate needs."""
        return self._answers("certificate_sums", tuple(weights), share, position)

    def _keep(self, states: list[ShardState]) -> None:
        """Take states from which the client can begin again."""
        self._kept, self._parts = states, []

    def _answers(self, question: str, *arguments: object) -> list[Result]:
        """Return the answers of all shards; an argument in a list is for single shards."""
        return self._ask(question, *arguments) or self._open((question, arguments))

    def _open(self, question: Question | None) -> list[Result]:
        """Open sessions; return their answers to a question, or else to the last part of a round."""
        self._n_opened += 1
        tasks, step = self._tasks, self._n_opened
        self._addresses, self._opened = [], []
        parts = tuple(tasks.share(f"part-{step}-{k}", part) for k, part in enumerate(self._parts))
        names = [f"{tasks.token}-{step}-{number}" for number in range(len(self))]
        self._opened = tasks.each(
            f"session-{step}", open_session, self._rows, self._plan, self._places, names, self._kept, parts,
            tasks.share(f"question-{step}", question),
        )  # fmt: skip
        sessions = tasks.gathered(self._opened)
        self._addresses = [Address(one.name, one.address, None) for one in sessions]
        self._metric = self._parts[-1][1] if self._parts else None
        self._is_direct = tasks.client.direct_to_workers is not False and self._wait(self._reached())
        return [one.first for one in sessions]

    def _ask(self, question: str, *arguments: object) -> list[Result] | None:
        """Return the answers of the sessions, or None if there are none, or one does not answer."""
        if not self._addresses:
            return None
        messages = [(each, question, of_shard(arguments, number)) for number, each in enumerate(self._addresses)]
        try:
            answers = self._wait(self._answered(messages))
        except OSError:  # a worker is not there
            self._tasks.check_loss()
            return None
        except (Exception, asyncio.CancelledError):  # of a client that is closed
            return None
        return None if any(one is None for one in answers) else answers

    async def _answered(self, messages: list[tuple[Address, str, list]]) -> list[Result]:
        """Return the answers to messages."""
        return await asyncio.gather(*(self._answer(*message) for message in messages))

    async def _answer(self, to: Address, question: str, arguments: list) -> object:
        """Return the answer of a shard."""
        message, client = (to.name, question, arguments), self._tasks.client
        if not self._is_direct:
            return (await client.run(answer, *message, workers=[to.address]))[to.address]
        worker = client.rpc(to.address)
        reply = await worker.run(function=_ANSWER, args=pickle.dumps(message, protocol=5), kwargs=_NO_NAMES, wait=True)
        return reply.get("result")

    async def _reached(self) -> bool:
        """Return whether the client can connect to the workers."""
        rpc = self._tasks.client.rpc
        try:
            for address in sorted({each.address for each in self._addresses}):
                rpc.reuse(address, await asyncio.wait_for(rpc.connect(address), _REACHED))
        except (OSError, TimeoutError):
            return False
        return True

    def _wait(self, coming: Coroutine) -> Result:
        """Return what will come in the thread of the client."""
        future = in_thread_of(self._tasks.client, coming)
        try:
            return future.result()
        finally:
            future.cancel()


def _bytes_of(orders: list[RoundOrder]) -> int:
    """Return the bytes of what is told in a part of a round, about."""
    return sum(order.weights.nbytes for order in {order.run: order for order in orders}.values())
