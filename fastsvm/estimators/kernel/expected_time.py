"""How long will the fit of many samples take? Predicted from a fit of some of them."""

import time
from typing import Any

import numpy as np

from fastsvm.estimators.fitting.convergence_warnings import warn_caller
from fastsvm.estimators.kernel.prepare import PreparedFit
from fastsvm.estimators.kernel.progress import NoMonitor
from fastsvm.estimators.kernel.solver_parameter import most_steps
from fastsvm.estimators.kernel.two_class import sizes_of
from fastsvm.solvers.outer_loop import Limits

__all__ = ["expected_seconds", "warn_of_time"]

_MANY = 150_000  # From so many samples of the largest problem on, a fit of some of them costs little beside it.
_SOME = 10_000  # The timed fit has at most about so many samples of the largest problem.
_MOST = 40_000  # It also has at most about so many samples in all.
_EXPONENT = 1.7  # It is between 1.3 and 2 on tables and images of up to 300,000 samples.
_LONG = 600.0  # From so many seconds on, a fit is long.


def expected_seconds(estimator: Any, prepared: PreparedFit) -> float:
    """Return the expected seconds of a fit. The fit of a part of the samples is timed."""
    task = prepared.task
    largest, total = int(sizes_of(task.pairs).max()), np.count_nonzero(task.labels >= 0)
    share = min(1.0, _SOME / largest, _MOST / total)
    part, begin = prepared.part(share), time.perf_counter()
    part.run(Limits(most_steps(estimator, len(part.labels)), np.inf), NoMonitor())
    return (time.perf_counter() - begin) * share**-_EXPONENT


def warn_of_time(estimator: Any, prepared: PreparedFit, other: str) -> None:
    """Warn if a fit of many samples is expected to take long, and name the `other` estimator that takes less time."""
    n = int(sizes_of(prepared.task.pairs).max())
    if n < _MANY or estimator.solver != "smo" or estimator.max_time is not None:
        return
    seconds = expected_seconds(estimator, prepared)
    if seconds >= _LONG:
        seconds = min(seconds, expected_seconds(estimator, prepared))  # the first one may have waited for compilation
    if seconds < _LONG:
        return
    warn_caller(
        f"{type(estimator).__name__} is expected to take about {_told(seconds)} for {n:,} different samples, by the "
        f"time that some of them took. {other} takes less, and bounds how far it is from the exact optimum. What else "
        "to try: fewer samples, or max_time, which gives the model that is reached by then.",
        UserWarning,
    )


def _told(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.2g} hours"
