"""A thread that reads ahead."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

__all__ = ["read_ahead"]

Item = TypeVar("Item")

_PATIENCE = 2.0  # So many seconds are waited: within the lock of HDF5, a garbage collection may wait for itself.


def read_ahead(items: Iterator[Item], depth: int = 1) -> Generator[Item, None, None]:
    """Yield `items`, which a thread computes `depth` items ahead.

    More threads would not help, because the HDF5 library has one lock for all readers.
    """
    done = object()
    ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def offer(item: object) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def run() -> None:
        try:
            for item in items:
                offer(item)
                if stop.is_set():
                    return
            offer(done)
        except BaseException as error:
            offer(error)

    reader = threading.Thread(target=run, name="fastsvm-reader", daemon=True)
    try:
        reader.start()  # within, as an interrupt may come while the thread starts
        while (item := ready.get()) is not done:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:  # also if the consumer stops early
        stop.set()
        if reader.is_alive():
            reader.join(_PATIENCE)
