"""What decides which way a fit takes, and when a solver changes its way: records of numbers, one a room.

A fit reads the current records once, at its beginning, and passes them on. Results do not change by more than the
tolerance when a number changes, only the time that they take does. Benchmarks turn a path off with them, and tests turn
one on that their few samples would not take. They are no part of the public interface.

Each number has a whole sentence: what it is, its unit, and how it was found where that is known.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from fastsvm.tuning.records import (
    ClusterTuning,
    JobsTuning,
    KernelTuning,
    LinearTuning,
    Look,
    NystroemTuning,
    ProductsTuning,
    ReaderLimits,
    SearchTuning,
    SGDTuning,
    StorageTuning,
)


class Tuning(NamedTuple):
    """The records of all rooms."""

    cluster: ClusterTuning = ClusterTuning()
    jobs: JobsTuning = JobsTuning()
    kernel: KernelTuning = KernelTuning()
    limits: ReaderLimits = ReaderLimits()
    linear: LinearTuning = LinearTuning()
    look: Look = Look()
    nystroem: NystroemTuning = NystroemTuning()
    products: ProductsTuning = ProductsTuning()
    search: SearchTuning = SearchTuning()
    sgd: SGDTuning = SGDTuning()
    storage: StorageTuning = StorageTuning()


_DEFAULT = Tuning()
_CURRENT: ContextVar[Tuning] = ContextVar("tuning", default=_DEFAULT)
current_tuning = _CURRENT.get
"""Returns the records with which a fit begins now."""


@contextmanager
def tuned(tuning: Tuning) -> Iterator[None]:
    """Make fits that begin in this context, and this thread, use other records."""
    token = _CURRENT.set(tuning)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def changed(changes: Mapping[str, Mapping[str, object]], tuning: Tuning | None = None) -> Tuning:
    """Return records with some numbers changed, by the name of the record and of the number."""
    base = current_tuning() if tuning is None else tuning
    return base._replace(**{name: getattr(base, name)._replace(**numbers) for name, numbers in changes.items()})
