"""How the tasks of a fit are sent to the workers of a cluster, and what is said when none of them can do them.

A worker counts for itself what it does for a fit, by the token in the key of the task that it works on. What a lost
worker counted is lost with it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

from distributed import Client, Future, Worker, get_worker
from distributed.scheduler import KilledWorker

from fastsvm.tuning import ClusterTuning, current_tuning

Result: TypeAlias = Any
"""What a task returns."""
Account = tuple[str, str]
"""Address of a worker and token of a fit, for which it counts what it does."""

_accounts: dict[Account, dict[str, float]] = {}  # by worker too, for several may be in a process
_lock = threading.Lock()
_LOST = (
    "The tasks of the fit are lost: the scheduler of the cluster ended or was restarted. Connect to one that runs, and "
    "fit anew, or resume the job."
)
_KILLED = (
    "{} workers ended while they worked on the same part of the fit, most likely for want of memory: a worker needs "
    "the rows of its shards, and up to 1.5 KB for each row beside them. Give the workers more memory, or take more of "
    "them. If machines are taken away often, raise distributed.scheduler.allowed-failures in the configuration of Dask."
)


class ClusterLost(RuntimeError, ConnectionError):
    """The cluster cannot complete a fit: its workers or its scheduler are lost, or have no memory left.

    Examples
    --------
    >>> from fastsvm.dask import ClusterLost
    >>> issubclass(ClusterLost, ConnectionError)
    True
    """


def in_thread_of(client: Client, coming: Coroutine) -> Result:
    """Let the thread of a client run a coroutine."""
    loop: Result = client.loop
    return asyncio.run_coroutine_threadsafe(coming, loop.asyncio_loop)


class Tasks(NamedTuple):
    """How tasks are sent: bound to no worker, for which they would wait for ever once it is lost."""

    client: Client
    n_workers: int
    token: str  # The keys of all tasks of the fit have it in common.
    tuning: ClusterTuning

    @classmethod
    def of(cls, client: Client) -> "Tasks":
        """Return the tasks of a new fit."""
        return cls(client, len(client.nthreads()), uuid4().hex, current_tuning().cluster)

    def together(self, n_shards: int) -> int:
        """Return how many of so many shards share the threads of a worker."""
        return -(-n_shards // max(1, self.n_workers))

    def gathered(self, futures: list[Future]) -> list[Result]:
        """Return the results of tasks, in order; ClusterLost says that the cluster cannot complete them."""
        gathering, n_idle = None, 0
        try:
            with self._connected():
                coming: Coroutine = self.client.gather(futures, asynchronous=True)
                gathering = in_thread_of(self.client, coming)
                while True:
                    try:
                        return list(gathering.result(self.tuning.look_s))
                    except TimeoutError:
                        if gathering.done():
                            raise
                    n_idle = 0 if any(status == "running" for status, _ in self._workers()) else n_idle + 1
                    if n_idle == self.tuning.looks:
                        raise ClusterLost(self._why_idle(self.tuning.look_s * n_idle, len(futures)))
        except KilledWorker as error:
            raise ClusterLost(_KILLED.format(error.allowed_failures + 1)) from error
        except (CancelledError, asyncio.CancelledError) as error:
            raise ClusterLost(_LOST) from error
        finally:
            if gathering is not None:
                gathering.cancel()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise ClusterLost in place of an error that was raised because there is no scheduler any more."""
        try:
            yield
        except Exception as error:
            if self.client.status != "running" and not isinstance(error, ClusterLost):
                raise ClusterLost(_LOST) from error
            raise

    def check_loss(self) -> None:
        """Raise ClusterLost if the loss of a single worker ends a fit, as Dask is configured."""
        with self._connected():
            allowed = self.client.run_on_scheduler(lambda dask_scheduler: int(dask_scheduler.allowed_failures))
        if allowed < 1:
            raise ClusterLost(_KILLED.format(1))

    def accounts(self, seconds: float) -> dict[str, dict[str, float]]:
        """Return what each worker did in a fit that took some seconds, by its address; nothing of lost workers."""
        try:
            answers = self.client.run(account_of, self.token, on_error="ignore")
        except Exception:  # the fit has ended well without it
            return {}
        accounts = {worker: account for worker, account in sorted(answers.items()) if account is not None}
        for account in accounts.values():
            busy = account["reading"] + account["computing"]
            account["waiting"] = max(0.0, seconds - busy / account.pop("threads"))
        return accounts

    def _workers(self) -> list[tuple[str, int]]:
        """Return status and memory limit of all workers; `Client.scheduler_info` told of five in 2025."""
        try:
            return self.client.run_on_scheduler(
                lambda dask_scheduler: [
                    (one.status.name, one.memory_limit or 0) for one in dask_scheduler.workers.values()
                ]
            )
        except Exception:  # lost: what is waited for will say so
            return []

    def least_memory(self) -> int:
        """Return the smallest memory limit of the workers, 0 if none has one."""
        return min((limit for _, limit in self._workers() if limit), default=0)

    def _why_idle(self, seconds: float, n_tasks: int) -> str:
        """Return what is said where no worker takes tasks."""
        paused = [limit for status, limit in self._workers() if status == "paused"]
        if paused:
            limit = max(paused)
            return (
                f"All {len(paused)} workers of the cluster have been paused for {seconds:.0f} s, because their memory "
                f"of {limit / 1e6:.0f} MB is nearly full, and {n_tasks} tasks of the fit wait for one. Give them more "
                "memory, or take more of them: a worker needs the rows of its shards and more."
            )
        return (
            f"The cluster has had no workers for {seconds:.0f} s, and {n_tasks} tasks of the fit wait for one. Start "
            "workers, with a nanny that starts lost ones again, and fit anew, or resume the job."
        )

    def each(self, name: str, function: Callable, shards: list, *arguments: object) -> list[Future]:
        """Send a task for each shard. Arguments in a list are those of single shards."""
        return [self.submit(f"{name}-{k}", function, one, *of_shard(arguments, k)) for k, one in enumerate(shards)]

    def share(self, name: str, value: object) -> Future:
        """Send what tasks of all shards use, once."""
        return self.submit(name, identity, value)

    def submit(self, name: str, function: Callable, *arguments: object) -> Future:
        """Send a task, whose name is new in the fit."""
        key = f"svm-{name}-{self.token}"
        with self._connected():
            return self.client.submit(function, *arguments, key=key, pure=False, retries=self.tuning.retries)


def of_shard(arguments: Iterable[object], number: int) -> list[object]:
    """Return the arguments for a shard: those in lists are for single shards."""
    return [each[number] if isinstance(each, list) else each for each in arguments]


def identity(value: object) -> object:
    """Return a value that many tasks use: it is sent once."""
    return value


def threads_of(together: int) -> int:
    """Return the threads of a shard, of which so many share those of this worker."""
    return max(1, get_worker().state.nthreads // together)


# --- accounts of workers ---------------------------------------------------------------------------------


def account_here() -> Account:
    """Return the account of the task that this thread works on."""
    worker = get_worker()
    return worker.address, str(worker.get_current_task()).rpartition("-")[2]


@contextmanager
def counting(what: str, account: Account | None = None) -> Iterator[None]:
    """Count the seconds of this context, "reading" or "computing", by default for the fit whose task this is."""
    begin = time.perf_counter()
    yield
    count(what, time.perf_counter() - begin, account)


def count(what: str, amount: float, account: Account | None = None) -> None:
    """Count what this worker does, by default for the fit whose task this is."""
    key = account or account_here()
    with _lock:
        _accounts.setdefault(key, {"rows": 0, "reading": 0.0, "computing": 0.0})[what] += amount


def account_of(token: str, dask_worker: Worker) -> dict[str, float] | None:
    """Return what this worker did for a fit, with the number of its threads, and forget it; None if it did nothing."""
    with _lock:
        account = _accounts.pop((dask_worker.address, token), None)
    return None if account is None else {**account, "threads": dask_worker.state.nthreads}
