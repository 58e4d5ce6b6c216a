"""Python threads over functions that release the GIL, and BLAS held to one thread meanwhile.

Work is cut into pieces whose bounds do not depend on the number of threads, and each piece is computed by
one thread alone, so results have the same bits for any number of threads.
"""

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import threadpoolctl

from fastsvm._jit import thread_count

__all__ = ["Pool", "spans"]


@functools.cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix="fastsvm")


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


class Pool:
    """Threads that each call BLAS by themselves; the user's BLAS setting returns at the end.

    An interrupt or an error in one piece leaves the others undone.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = thread_count() if n_threads is None else n_threads
        self._pending: list[Future] = []

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
        if self.n_threads == 1 or len(pieces) == 1:
            for piece in pieces:
                function(*piece)
            return
        self.start(function, pieces)
        self.finish()

    def start(self, function: Callable[..., Any], pieces: Iterable[tuple]) -> None:
        """Begin to call `function(*piece)` for every piece; on one thread, do so."""
        if self.n_threads == 1:
            for piece in pieces:
                function(*piece)
            return
        self._pending += [_executor().submit(function, *piece) for piece in pieces]

    def finish(self, most: int = 0) -> None:
        """Wait until at most `most` pieces are under way; raise the first error of a piece."""
        while len(self._pending) > most:
            oldest = self._pending[: len(self._pending) - most]
            wait(oldest, return_when=FIRST_EXCEPTION)
            for future in oldest:
                if future.done():
                    self._pending.remove(future)
                    future.result()

    def cancel(self) -> None:
        """Drop pieces not yet begun and wait for the others, which are short."""
        for future in self._pending:
            future.cancel()
        wait(self._pending)
        self._pending.clear()


def spans(n: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of `length` that cover 0 to `n`."""
    for start in range(0, n, length):
        yield start, min(start + length, n)
