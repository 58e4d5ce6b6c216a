"""The records of all rooms together, and those with which work begins now."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from fastsvm.tuning.cluster import ClusterTuning
from fastsvm.tuning.jobs import JobsTuning, Look
from fastsvm.tuning.kernel import KernelTuning
from fastsvm.tuning.limits import Limits
from fastsvm.tuning.linear import LinearTuning
from fastsvm.tuning.nystroem import NystroemTuning
from fastsvm.tuning.products import ProductsTuning
from fastsvm.tuning.search import SearchTuning
from fastsvm.tuning.sgd import SGDTuning
from fastsvm.tuning.storage import StorageTuning

__all__ = ["Tuning", "changed", "current_tuning", "tuned"]


class Tuning(NamedTuple):
    """The records of all rooms."""

    cluster: ClusterTuning = ClusterTuning()
    jobs: JobsTuning = JobsTuning()
    kernel: KernelTuning = KernelTuning()
    limits: Limits = Limits()
    linear: LinearTuning = LinearTuning()
    look: Look = Look()
    nystroem: NystroemTuning = NystroemTuning()
    products: ProductsTuning = ProductsTuning()
    search: SearchTuning = SearchTuning()
    sgd: SGDTuning = SGDTuning()
    storage: StorageTuning = StorageTuning()


_DEFAULT = Tuning()
_CURRENT: ContextVar[Tuning] = ContextVar("tuning", default=_DEFAULT)


def current_tuning() -> Tuning:
    """Return the records with which a fit begins now."""
    return _CURRENT.get()


@contextmanager
def tuned(tuning: Tuning) -> Iterator[None]:
    """Make fits that begin in this context, and this thread, use other records."""
    token = _CURRENT.set(tuning)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def changed(changes: Mapping[str, Mapping[str, Any]], tuning: Tuning | None = None) -> Tuning:
    """Return records with some numbers changed, by the name of the record and of the number."""
    found = current_tuning() if tuning is None else tuning
    return found._replace(**{name: getattr(found, name)._replace(**numbers) for name, numbers in changes.items()})
