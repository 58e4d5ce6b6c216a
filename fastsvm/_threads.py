"""Python threads over functions that release the GIL, and BLAS held to one thread meanwhile.

Work is cut into pieces whose bounds do not depend on the number of threads, and each piece is computed by
one thread alone, so results have the same bits for any number of threads.
"""

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import threadpoolctl

from fastsvm._jit import thread_count

__all__ = ["Pool", "at_most", "spans"]

_most_threads: list[int] = []  # that pools may have, the last entry if there is one


@functools.cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, thread_count() - 1), thread_name_prefix="fastsvm")


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


class _OneThreadedBLAS:
    """Holds BLAS to one thread while it is entered at least once; its setting belongs to the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._limit = _blas().limit(limits=1, user_api="blas")
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._limit.restore_original_limits()


_one_threaded_blas = _OneThreadedBLAS()


def _after_fork() -> None:
    """A child has none of its parent's threads."""
    global _one_threaded_blas
    _executor.cache_clear()
    _one_threaded_blas = _OneThreadedBLAS()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Batch:
    """Pieces of work, taken by helpers and by the thread that waits for them, which would have nothing else to do.

    That thread is awake already: for short pieces, waking another in its place takes longer than the work.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_helpers = n_threads - 1
        self._waiting: deque[tuple[Callable[..., Any], tuple]] = deque()
        self._helpers: list[Future] = []

    def start(self, function: Callable[..., Any], pieces: list[tuple]) -> None:
        """Let the helpers begin."""
        self._waiting.extend((function, piece) for piece in pieces)
        count = min(self._n_helpers, len(pieces))
        self._helpers += [_executor().submit(self._drain, 0) for _ in range(count)]

    def finish(self, most: int = 0) -> None:
        """Help until at most `most` pieces wait; if none shall, wait for the helpers too. Raise their first error."""
        self._drain(most)
        for helper in self._helpers.copy():
            if helper.done() or (most == 0 and not helper.cancel()):
                self._helpers.remove(helper)
                helper.result()
        if most == 0:
            self._helpers.clear()

    def cancel(self) -> None:
        """Drop pieces not yet begun and wait for the others, which are short."""
        self._waiting.clear()
        wait([helper for helper in self._helpers if not helper.cancel()])
        self._helpers.clear()

    def _drain(self, most: int) -> None:
        """Take pieces until `most` wait; after an error none is left."""
        while len(self._waiting) > most:
            try:
                function, piece = self._waiting.popleft()
            except IndexError:  # another thread took it
                return
            try:
                function(*piece)
            except BaseException:
                self._waiting.clear()
                raise


@contextmanager
def at_most(n_threads: int | None) -> Iterator[None]:
    """Let pools that are opened meanwhile have so many threads at most; None changes nothing."""
    given = [] if n_threads is None else [n_threads]
    _most_threads.extend(given)
    try:
        yield
    finally:
        del _most_threads[len(_most_threads) - len(given) :]


class Pool:
    """Threads that each call BLAS by themselves; the user's BLAS setting returns at the end.

    An interrupt or an error in one piece leaves the others undone.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        usual = min([thread_count(), *_most_threads[-1:]])
        self.n_threads = usual if n_threads is None else n_threads
        self._begun = _Batch(self.n_threads)

    @classmethod
    @contextmanager
    def open(cls) -> Iterator["Pool"]:
        """Yield a pool and hold BLAS to one thread until it is closed."""
        with _one_threaded_blas:
            pool = cls()
            try:
                yield pool
            finally:
                pool.cancel()

    def run(self, function: Callable[..., Any], pieces: Iterable[tuple]) -> None:
        """Call `function(*piece)` for every piece and wait for all of them."""
        pieces = list(pieces)
        if self.n_threads == 1 or len(pieces) <= 1:
            for piece in pieces:
                function(*piece)
            return
        batch = _Batch(min(self.n_threads, len(pieces)))
        try:
            batch.start(function, pieces)
            batch.finish()
        except BaseException:
            batch.cancel()
            raise

    def start(self, function: Callable[..., Any], pieces: Iterable[tuple]) -> None:
        """Begin to call `function(*piece)` for every piece; on one thread, do so."""
        if self.n_threads == 1:
            for piece in pieces:
                function(*piece)
            return
        self._begun.start(function, list(pieces))

    def finish(self, most: int = 0) -> None:
        """Wait until at most `most` pieces are under way, but for a few; raise the first error of a piece."""
        self._begun.finish(most)

    def cancel(self) -> None:
        """Drop pieces not yet begun and wait for the others, which are short."""
        self._begun.cancel()


def spans(n: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of `length` that cover 0 to `n`."""
    for start in range(0, n, length):
        yield start, min(start + length, n)
