"""Python threads that run functions without the GIL, while BLAS is limited to one thread.

The bounds of the pieces of work do not depend on the number of threads, and one thread computes each piece. So results
have the same bits for any number of threads.
"""

import ctypes
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ContextDecorator, contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
import threadpoolctl
from scipy import linalg  # noqa: F401, loads SciPy's BLAS

from fastsvm._compiled.compiler import thread_count
from fastsvm._compiled.processor import VECTOR_BYTES
from fastsvm.tuning import current_tuning

Result = TypeVar("Result")

_WOKEN = 2  # One thread wakes so many helpers.
_most_threads: list[int] = []  # limits of `at_most`; the last one applies


@functools.cache
def _executor() -> ThreadPoolExecutor:
    count = max(1, thread_count() - 1)
    return ThreadPoolExecutor(count, thread_name_prefix="fastsvm", initializer=one_threaded_blas.hold_thread)


# Threads of each BLAS library, by its file. A lower number at the time of a fit is a limit that the user has set.
_usual = {
    controller.filepath: controller.num_threads or 0
    for controller in threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
}


class _Library(NamedTuple):
    """A BLAS library, and how to get and set its number of threads."""

    get: Callable[[], int]
    set: Callable[[int], object]
    of_thread: bool  # Each calling thread has its own limit.
    usual: int  # It is the number when the package was imported, 0 if it was not loaded then.


def _library(controller: "threadpoolctl.LibController") -> _Library:
    """Return the library of a controller of threadpoolctl."""
    kind, dynlib = controller.internal_api, controller.dynlib
    of_thread = kind in ("mkl", "blis") or getattr(controller, "threading_layer", None) == "openmp"
    get, setters_of_thread = controller.get_num_threads, ["MKL_Set_Num_Threads_Local"] if kind == "mkl" else []
    if kind == "openblas" and not of_thread:
        # The setter of threadpoolctl 3.8 serves only the first thread that sets a limit, until it restores the old one.
        names = [name for name in getattr(controller, "check_symbols", ()) if hasattr(dynlib, name)]
        # Called before each batch of work: a call that releases the GIL would wait for the threads that start working.
        get = getattr(ctypes.PyDLL(dynlib._name, handle=dynlib._handle), names[0]) if names else get
        setters_of_thread = [name.replace("_get_", "_set_") for name in names]
    setters = [getattr(dynlib, name) for name in setters_of_thread if hasattr(dynlib, name)]
    return _Library(
        get, setters[0] if setters else controller.set_num_threads, of_thread, _usual.get(controller.filepath, 0)
    )


@functools.cache
def _libraries() -> list[_Library]:
    controllers = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in map(_library, controllers) if library.get() is not None]


class _OneThreadedBLAS(ContextDecorator):
    """Limits BLAS to one thread while any thread is in this context, then restores the limits that nobody changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[int] = set()  # threads in the context
        self._limits_before: list[tuple[_Library, int]] = []
        self._own = threading.local()  # of each thread, how many contexts it is in, and its earlier limits

    def __enter__(self) -> None:
        if self._depth_here > 0:
            self._own.depth += 1
            return
        try:
            with self._lock:
                if not self._inside:
                    self._limits_before = [
                        (library, library.get()) for library in _libraries() if not library.of_thread
                    ]
                self._inside.add(threading.get_ident())
            self._own.limits_before, self._own.depth = self.hold_thread(), 1
            self.hold()
        except BaseException:  # an interrupt: nobody will leave the context
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        if self._depth_here > 1:
            self._own.depth -= 1
            return
        try:
            self._leave()
        except BaseException:  # an interrupt, and limits may not be restored yet
            self._leave()
            raise

    def _leave(self) -> None:
        """Restore the limits of this thread, and those of the process if no other is in the context."""
        _restore(getattr(self._own, "limits_before", []))
        with self._lock:
            self._inside.discard(threading.get_ident())
            if not self._inside:
                _restore(self._limits_before)
        self._own.depth = 0

    @property
    def _depth_here(self) -> int:
        return getattr(self._own, "depth", 0)

    def limit(self) -> int | None:
        """Return the lowest number to which the user has limited BLAS since the import, None for no limit."""
        if self._inside:
            earlier = [*self._limits_before, *getattr(self._own, "limits_before", [])]
        else:
            earlier = [(library, library.get()) for library in _libraries()]
        return min((limit for library, limit in earlier if limit < library.usual), default=None)

    def hold(self) -> None:
        """Set the limits again, because another thread may have changed them. Outside of fits, do nothing."""
        if self._inside:
            for library, _ in self._limits_before:
                if library.get() != 1:
                    library.set(1)

    def hold_thread(self) -> list[tuple[_Library, int]]:
        """Limit libraries with a limit per thread in the calling thread; return its earlier limits."""
        earlier = [(library, library.get()) for library in _libraries() if library.of_thread]
        for library, _ in earlier:
            library.set(1)
        return earlier

    def after_fork(self) -> None:
        """Forget, in a forked child, the contexts of other threads, which do not exist there."""
        self._lock = threading.Lock()
        if self._inside and not self._depth_here:
            _restore(self._limits_before)
        self._inside = {threading.get_ident()} if self._depth_here else set()


def _restore(limits: list[tuple[_Library, int]]) -> None:
    for library, limit in limits:
        if limit != 1 and library.get() == 1:
            library.set(limit)


one_threaded_blas = _OneThreadedBLAS()
"""Context and decorator within which BLAS has one thread."""


def _after_fork() -> None:
    """Forget all threads: a forked child has none of them."""
    _executor.cache_clear()
    one_threaded_blas.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Batch:
    """Pieces of work, done by helpers and by the thread that waits for them.

    Waking a thread takes longer than a short piece. So only the first helpers are woken, and one that finds more work
    wakes the next.
    """

    def __init__(self, n_threads: int) -> None:
        self._free: deque[None] = deque([None] * (n_threads - 1))  # one for each helper that may be woken
        self._waiting: deque[tuple[Callable[..., object], tuple]] = deque()
        self._helpers: deque[Future] = deque()

    def start(self, function: Callable[..., object], pieces: list[tuple]) -> None:
        """Add pieces and wake the first helpers."""
        self._waiting.extend((function, piece) for piece in pieces)
        self._wake(len(pieces))

    def finish(self) -> None:
        """Work until no piece waits, and wait for the helpers. Raise their first error."""
        self._drain(0)
        self.forget_ended()
        while self._helpers:  # one that ends has added those that it woke
            if not self._cancelled(self._helpers[0]):
                self._helpers[0].result()
            self._helpers.popleft()  # not before: after an interrupt it is waited for

    def help(self) -> bool:
        """Do one of the pieces that wait, and return whether there was one."""
        waiting = len(self._waiting)
        self._drain(max(0, waiting - 1))
        return waiting > 0

    def forget_ended(self) -> None:
        """Forget the helpers that have ended. Raise their first error."""
        for helper in list(self._helpers):
            if helper.done():
                self._helpers.remove(helper)
                helper.result()

    def cancel(self) -> None:
        """Drop the pieces that have not started and wait for the others, which are short."""
        self._waiting.clear()
        while self._helpers:
            if not self._cancelled(self._helpers[0]):
                wait([self._helpers[0]])
            self._helpers.popleft()

    def _wake(self, most: int) -> None:
        for _ in range(min(most, _WOKEN)):
            if not self._may_help():
                return
            self._helpers.append(_executor().submit(self._help))

    def _may_help(self) -> bool:
        """Count one helper more, unless there are as many as there may be."""
        try:
            self._free.popleft()
        except IndexError:
            return False
        return True

    def _help(self) -> None:
        """Do pieces until none waits, and first wake others for them."""
        while True:
            try:
                self._wake(len(self._waiting) - 1)
                with borrowed_scratch():
                    self._drain(0)
            finally:
                self._free.append(None)
            # Pieces that were added meanwhile, when this helper still counted, would wait for nobody.
            if not (self._waiting and self._may_help()):
                return

    def _cancelled(self, helper: Future) -> bool:
        """Cancel a helper if it has not begun."""
        cancelled = helper.cancel()
        if cancelled:
            self._free.append(None)
        return cancelled

    def _drain(self, most: int) -> None:
        """Do pieces until at most `most` wait. An error drops all others."""
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


def _make(call: Future, function: Callable[[], object]) -> None:
    """Call a function and keep what it returns or raises."""
    try:
        call.set_result(function())
    except BaseException as error:
        call.set_exception(error)
        if not isinstance(error, Exception):  # an interrupt, which ends all calls
            raise


@contextmanager
def at_most(n_threads: int | None) -> Iterator[None]:
    """Limit the threads of pools that are opened in this context; None sets no limit."""
    limits = [] if n_threads is None else [n_threads]
    _most_threads.extend(limits)
    try:
        yield
    finally:
        del _most_threads[len(_most_threads) - len(limits) :]


def stoppable(function: Callable[[np.ndarray], Result], deadline: float) -> Result:
    """Return `function(stop)`, called by another thread; an interrupt, or the deadline, sets `stop[0]` to end it."""
    stop = np.zeros(1, np.int64)
    with ThreadPoolExecutor(1, "fastsvm", one_threaded_blas.hold_thread) as thread:
        call = thread.submit(function, stop)
        try:
            wait([call], timeout=min(max(0.0, deadline - time.perf_counter()), threading.TIMEOUT_MAX))
        finally:
            stop[0] = 1
        return call.result()


class Pool:
    """Threads that share pieces of work; an interrupt or an error in one cancels those that have not started."""

    def __init__(self, n_threads: int | None = None, most: int | None = None) -> None:
        if n_threads is None:
            limits = [limit for limit in (one_threaded_blas.limit(), most) if limit is not None]
            n_threads = max(1, min([thread_count(), *_most_threads[-1:], *limits]))
        self.n_threads = n_threads

    @classmethod
    @contextmanager
    def open(cls, n_threads: int | None = None, most: int | None = None) -> Iterator["Pool"]:
        """Yield a pool of `n_threads`, or as many as usual up to `most`; BLAS has one thread until it is closed."""
        with one_threaded_blas:
            yield cls(n_threads, most)

    def run(self, function: Callable[..., object], pieces: Iterable[tuple]) -> None:
        """Call `function(*piece)` for every piece and wait for all of them."""
        one_threaded_blas.hold()
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

    def ahead(self, calls: Iterable[Callable[[], Result]], most: int) -> Generator[Result, None, None]:
        """Yield the results of calls in their order, at most `most` at once, while helpers make the next ones."""
        one_threaded_blas.hold()
        batch, source, made = _Batch(self.n_threads), iter(calls), deque[Future[Result]]()
        try:
            while True:
                while len(made) < most and (function := next(source, None)) is not None:
                    made.append(Future())
                    batch.start(_make, [(made[-1], function)])
                if not made:
                    return
                call = made.popleft()
                while not call.done():
                    if not batch.help():
                        wait([call])
                yield call.result()
                batch.forget_ended()
        finally:
            batch.cancel()


@functools.cache
def one_thread() -> Pool:
    """Return a pool that is the calling thread, and does not limit BLAS."""
    return Pool(1)


def spans(n: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of `length` that cover 0 to `n`."""
    for start in range(0, n, length):
        yield start, min(start + length, n)


# --- memory of a thread ----------------------------------------------------------------------------------
#
# A thread reuses it for every tile, because touching new memory is expensive. Helpers of a pool take over what others
# have given back. So there is as much of it as threads work at once, however many take turns.

_memory = threading.local()
_free: list[dict[str, np.ndarray]] = []  # what helpers have given back


def scratch_array(use: str, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Return an array aligned to a cache line. It is valid until the thread calls this again for the same use."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize
    for length in shape:
        size *= length
    kept = _kept()
    memory = kept.get(use)
    if memory is None or len(memory) < size:
        memory = np.empty(size + VECTOR_BYTES, np.uint8)
        memory = memory[-memory.ctypes.data % VECTOR_BYTES :]
        if size <= current_tuning().storage.block_bytes:
            kept[use] = memory
    return memory[:size].view(dtype).reshape(shape)


def _kept() -> dict[str, np.ndarray]:
    """Return the memory of the calling thread by its use."""
    if not hasattr(_memory, "kept"):
        _memory.kept = {}
    return _memory.kept


@contextmanager
def borrowed_scratch() -> Iterator[None]:
    """Have the calling thread use memory that another has given back, and give it back, too."""
    try:
        _memory.kept = _free.pop()  # the last one, which is in the cache
    except IndexError:
        _memory.kept = {}
    try:
        yield
    finally:
        _free.append(_memory.kept)
        del _memory.kept
