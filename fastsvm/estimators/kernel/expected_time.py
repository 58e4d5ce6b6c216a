"""How long will the fit of many samples take? Predicted from a fit of some of them."""

import time
from typing import Any

import numpy as np

from fastsvm.estimators.fitting.convergence_warnings import warn_caller
from fastsvm.estimators.kernel.prepare import PreparedFit
from fastsvm.estimators.kernel.progress import NoMonitor
from fastsvm.estimators.kernel.solver_parameter import most_steps
from fastsvm.solvers.outer_loop import Limits

__all__ = ["expected_seconds", "warn_of_time"]

_EXPONENT = 1.7  # Seconds grow by this power of the samples: 1.3 to 2 on tables and images of up to 300,000 samples.


def expected_seconds(estimator: Any, prepared: PreparedFit) -> float:
    """Return the expected seconds of a fit. The fit of a part of the samples is timed."""
    task = prepared.task
    share = min(1.0, task.gram.tuning.timed_samples / int(task.problems.sizes.max()))
    part, begin = prepared.part(share), time.perf_counter()
    part.run(Limits(most_steps(estimator, len(part.labels)), np.inf), NoMonitor())
    return (time.perf_counter() - begin) * share**-_EXPONENT


def warn_of_time(estimator: Any, prepared: PreparedFit, other: str) -> None:
    """Warn if a fit of many samples is expected to take long, and name the `other` estimator that takes less time."""
    n, tuning = int(prepared.task.problems.sizes.max()), prepared.task.gram.tuning
    if n < tuning.many_samples or estimator.solver != "smo" or estimator.max_time is not None:
        return
    seconds = expected_seconds(estimator, prepared)
    if seconds >= tuning.long_seconds:
        seconds = min(seconds, expected_seconds(estimator, prepared))  # the first one may have waited for compilation
    if seconds < tuning.long_seconds:
        return
    warn_caller(
        f"{type(estimator).__name__} is expected to take about {_told(seconds)} for {n:,} different samples, by the "
        f"time that some of them took. {other} takes less, and bounds how far it is from the exact optimum. What else "
        "to try: fewer samples, or max_time, which gives the model that is reached by then.",
        UserWarning,
    )


def _told(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.2g} hours"
