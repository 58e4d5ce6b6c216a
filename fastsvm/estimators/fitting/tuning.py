"""What decides which solver a fit takes, and when a solver changes its way: records of numbers, one a room.

A fit reads the current records once, at its beginning, and passes them on. Results do not change by more than the
tolerance when a number changes, only the time that they take does. Benchmarks turn a path off with them, and tests turn
one on that their few samples would not take. They are no part of the public interface.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

__all__ = ["KernelTuning", "LinearTuning", "Tuning", "changed", "current_tuning", "tuned"]


class KernelTuning(NamedTuple):
    """Which solver takes steps of two multipliers. Times are those of one core of 2024 in nanoseconds.

    Attributes
    ----------
    small : bool
        Whether problems of few samples may be solved whole, in compiled calls; else all are decomposed.
    most_small_rows : int
        Multipliers of such a problem at most. With more, steps on all of them leave the processor's cache.
    ns_of_problem : float
        Time that decomposition takes for a problem beside its kernel values.
    ns_of_matrix : float
        Time that a whole kernel matrix takes beside its values.
    ns_of_value, ns_of_feature, ns_of_far_feature : float
        Time of a kernel value that is computed on demand, and more for each feature, by whether the samples of a
        problem are within `near_bytes`.
    near_bytes : int
        Bytes of samples that stay near the processor.
    used, used_of_many : float
        Share of the kernel rows that an only problem needs, and one of many.
    slower : float
        Times its own estimate, what decomposition is taken to cost: the slower the steps, the more is gained.
    """

    small: bool = True
    most_small_rows: int = 2048
    ns_of_problem: float = 1e6
    ns_of_matrix: float = 2e5
    ns_of_value: float = 2.5
    ns_of_feature: float = 0.06
    ns_of_far_feature: float = 0.13
    near_bytes: int = 400_000
    used: float = 0.5
    used_of_many: float = 0.2
    slower: float = 2.0


class LinearTuning(NamedTuple):
    """Which solver fits a linear machine.

    Attributes
    ----------
    weights, gram, newton, rounds : bool
        Whether the solvers of these names may be chosen. Dual coordinate ascent solves what they do not.
    most_values, most_on_shorter_side : int
        Values of a table, and the smaller of its numbers of samples and features, up to which one compiled call that
        takes Newton steps on the weights is faster than epochs; found on tables of scikit-learn and made-up ones.
    many_samples : int
        Samples from which on Newton's method with threads is faster than that call, if the loss is not piecewise
        quadratic.
    least_epochs : int
        A smaller `max_iter` asks for epochs to be seen, which such a call does not have.
    most_gram_samples : int
        Samples up to which their Gram matrix is worth computing.
    many_features, more_samples : int
        With at least so many features, of which a piecewise linear loss leaves few variables free, the Gram matrix pays
        for so many times as many samples as features.
    table_features, table_samples : int
        At most so many features and at least so many samples make a table, whose Hessian costs less than epochs.
    values_of_feature, values_of_smooth : int
        Sparse rows with at most so many values in the mean column, by whether the loss is piecewise quadratic, are
        learnt by rounds without sums over all features.
    """

    weights: bool = True
    gram: bool = True
    newton: bool = True
    rounds: bool = True
    most_values: int = 1 << 20
    most_on_shorter_side: int = 320
    many_samples: int = 20_000
    least_epochs: int = 100
    most_gram_samples: int = 2048
    many_features: int = 64
    more_samples: int = 4
    table_features: int = 256
    table_samples: int = 10_000
    values_of_feature: int = 30
    values_of_smooth: int = 10


class Tuning(NamedTuple):
    """All records.

    Attributes
    ----------
    kernel : KernelTuning
        Kernel machines.
    linear : LinearTuning
        Linear machines.
    """

    kernel: KernelTuning = KernelTuning()
    linear: LinearTuning = LinearTuning()


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
