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
    """Which solver takes steps of two multipliers. Times are those of one core of 2024 in nanoseconds."""

    # Problems of few samples may be solved whole, in compiled calls; else all are decomposed.
    small: bool = True
    # Such a problem has at most so many multipliers. With more, steps on all of them leave the processor's cache.
    most_small_rows: int = 2048
    # Decomposition takes this time for a problem beside its kernel values.
    ns_of_problem: float = 1e6
    # A whole kernel matrix takes this time beside its values.
    ns_of_matrix: float = 2e5
    # A kernel value that is computed on demand takes this time, and more for each feature, by whether the samples of a
    # problem are within `near_bytes`, which stay near the processor.
    ns_of_value: float = 2.5
    ns_of_feature: float = 0.06
    ns_of_far_feature: float = 0.13
    near_bytes: int = 400_000
    # An only problem needs this share of the kernel rows, and one of many the other.
    used: float = 0.5
    used_of_many: float = 0.2
    # Decomposition is taken to cost so many times its own estimate: the slower the steps, the more is gained.
    slower: float = 2.0


class LinearTuning(NamedTuple):
    """Which solver fits a linear machine.

    The first four say whether the solvers of these names may be chosen. Dual coordinate ascent solves what they do not.
    """

    weights: bool = True
    gram: bool = True
    newton: bool = True
    rounds: bool = True
    # Up to so many values of a table, and so many of its samples or features, whichever are fewer, one compiled call
    # that takes Newton steps on the weights is faster than epochs. This was found on tables of scikit-learn and made-up
    # ones.
    most_values: int = 1 << 20
    most_on_shorter_side: int = 320
    # A smaller `max_iter` asks for epochs to be seen, which such a call does not have.
    least_epochs: int = 100
    # The Gram matrix of up to so many samples is worth computing.
    most_gram_samples: int = 2048
    # With at least so many features, of which a piecewise linear loss leaves few variables free, the Gram matrix pays
    # for so many times as many samples as features.
    many_features: int = 64
    more_samples: int = 4
    # A table has at most so many features, whose Hessian costs less than epochs: on 24 tables of 300 to 784 features,
    # epochs of a squared loss took .9 to 75 times as long.
    table_features: int = 512
    # Of more values, a smooth loss is minimised by Newton's method with threads: found on tables of 115,000 to 900,000
    # values, where it took a quarter to nine tenths of the time of the compiled call.
    most_smooth_values: int = 1 << 17
    # Sparse rows with at most so many values in the mean column are learnt by rounds without sums over all features.
    # The first number is for a piecewise quadratic loss, the second for others.
    values_of_feature: int = 30
    values_of_smooth: int = 10


class Tuning(NamedTuple):
    """The records of all rooms."""

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
