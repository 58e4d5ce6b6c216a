"""What the progress of any fit is told by: scikit-learn's callbacks, and the time left beside a bar."""

from collections.abc import Callable, Sequence
from typing import Any

from tqdm.auto import tqdm

from fastsvm.estimators.fitting.time_left import time_left

__all__ = ["LATEST", "left_of", "told"]

LATEST = 1000
"""Records by which it is told how much time is left."""


def told(context: Any, estimator: Any, name: str, attributes: Callable[[], dict]) -> bool:
    """Tell scikit-learn's callbacks that an iteration is over, and return whether one asks to stop."""
    task = context.subcontext(task_name=name)
    task.call_on_fit_task_begin(estimator=estimator)
    return bool(task.call_on_fit_task_end(estimator=estimator, reconstruction_attributes=attributes))


def left_of(times: Sequence[float], gaps: Sequence[float], tol: float) -> dict[str, str]:
    """Return how much time may be left, as it is shown beside a bar."""
    left = time_left(times, gaps, tol)
    return {} if left is None else {"left": tqdm.format_interval(left)}
