"""How much faster is a fit with more processors? `python -m bench.parallelism SUITE --case NAME`, from the root.

A fit by fastsvm is traced with two threads: the processor time of each piece of work that threads share, and of all
that one thread does between. From these the time on p processors is computed. The pieces of a batch go to the processor
that is free first, the longest first, and the next batch waits for the last piece. Memory bandwidth and the cost of
handing over to threads, about ten microseconds each, are left out, so these are upper bounds of the speedup.

The table shows processor time, the share of it in which one thread works, and the computed speedups over one processor.
"""

import argparse
import heapq
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench.cases import cases_of
from bench.harness.competitor import OURS, Resources
from bench.suites import SUITES, competitors_of
from fastsvm._compiled.threads import Pool

__all__ = ["Trace", "traced"]

_THREADS, _MEMORY_MB = 2, 4000
_PROCESSORS = (2, 4, 8, 16, 64)


class Trace(NamedTuple):
    """What a fit did.

    Attributes
    ----------
    batches : list of list of float
        For each batch of pieces, the processor seconds of each piece without those of batches within it.
    total : list of float
        The processor seconds of all, as the only element.
    """

    batches: list[list[float]]
    total: list[float]

    def seconds(self, processors: int) -> float:
        """Return the computed seconds on some processors."""
        shared = sum(sum(batch) for batch in self.batches)
        return self.total[0] - shared + sum(_longest(batch, processors) for batch in self.batches)

    @property
    def serial(self) -> float:
        """The share of the processor time in which one thread works."""
        shared = sum(sum(batch) for batch in self.batches if len(batch) > 1)
        return 1 - shared / self.total[0]


def _longest(pieces: list[float], processors: int) -> float:
    """Return when the last of some pieces ends."""
    busy = [0.0] * min(processors, max(1, len(pieces)))
    for piece in sorted(pieces, reverse=True):
        heapq.heapreplace(busy, busy[0] + piece)
    return max(busy)


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace the batches of all pools in this context."""
    found, own = Trace([], []), threading.local()
    run, ahead = Pool.run, Pool.ahead

    def timed(function: Callable, batch: list[float]) -> Callable:
        def piece(*arguments: Any) -> Any:
            before, begin = getattr(own, "within", 0.0), time.thread_time()
            own.within = 0.0
            try:
                return function(*arguments)
            finally:
                taken = time.thread_time() - begin
                batch.append(taken - own.within)
                own.within = before + taken

        return piece

    def run_timed(pool: Pool, function: Callable, pieces: Iterable[tuple]) -> None:
        found.batches.append([])
        run(pool, timed(function, found.batches[-1]), pieces)

    def ahead_timed(pool: Pool, calls: Iterable[Callable], most: int) -> Generator:
        found.batches.append([])
        batch = found.batches[-1]
        return ahead(pool, (timed(call, batch) for call in calls), most)

    Pool.run, Pool.ahead = run_timed, ahead_timed  # type: ignore[method-assign]
    begin = time.process_time()
    try:
        yield found
    finally:
        found.total.append(time.process_time() - begin)
        Pool.run, Pool.ahead = run, ahead  # type: ignore[method-assign]


def _trace(suite: str, name: str) -> Trace:
    """Fit a case twice, and trace the second fit."""
    case, ours = cases_of(suite)[name], competitors_of(suite)[OURS]
    data = case.recipe()
    X = ours.prepare(data.X, data.y)

    def fit() -> None:
        ours.build(case.parameters, Resources(_THREADS, _MEMORY_MB)).fit(X, data.y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
        with traced() as found:
            fit()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Trace cases and print a table."""
    parser = argparse.ArgumentParser("python -m bench.parallelism", description=__doc__)
    parser.add_argument("suite", choices=[name for name in SUITES if name not in ("streaming", "classical")])
    parser.add_argument("--case", action="append", metavar="NAME", required=True, help="which case (repeatable)")
    asked = parser.parse_args(arguments)
    print(f"| case | processor s | one thread | {' | '.join(f'{p} processors' for p in _PROCESSORS)} |")
    print("|---" * (3 + len(_PROCESSORS)) + "|")
    for name in asked.case:
        found = _trace(asked.suite, name)
        speedups = " | ".join(f"{found.total[0] / found.seconds(p):.1f}" for p in _PROCESSORS)
        print(f"| {name} | {found.total[0]:.1f} | {found.serial:.0%} | {speedups} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
