"""Checkpoints of a fit: who is offered them, and the one from which a fit resumes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from sklearn.base import BaseEstimator

__all__ = ["Checkpointer", "FitCheckpoints", "checkpointed", "checkpoints_of"]


class Checkpointer(Protocol):
    """Takes checkpoints of a fit."""

    def observe(self, tree: Callable[[], Any], facts: dict[str, float]) -> None:
        """Take a checkpoint if one is due. The fit calls this between two steps; an exception ends the fit.

        `tree` returns the checkpoint: a tree of numbers, words, arrays and NamedTuples with all that a fit needs to
        resume. Its arrays are valid until `observe` returns. `facts` tells the progress of the fit, such as its epoch
        and objective.
        """


class FitCheckpoints(NamedTuple):
    """What a fit is told of checkpoints: who is offered one after each step, and the one from which the fit resumes."""

    checkpointer: Checkpointer | None = None
    resume_from: Any = None


@contextmanager
def checkpointed(
    estimator: BaseEstimator, checkpointer: Checkpointer | None, resume_from: Any = None
) -> Iterator[None]:
    """Let a checkpointer see the fit of an unfitted estimator that is made within this context.

    The fit resumes from `resume_from`, a checkpoint of a fit with the same parameters and data, and ends with the same
    model as one that was never interrupted.
    """
    estimator._checkpoints = FitCheckpoints(checkpointer, resume_from)
    try:
        yield
    finally:
        del estimator._checkpoints


def checkpoints_of(estimator: BaseEstimator) -> FitCheckpoints:
    """Return what the fit of an estimator is told of checkpoints."""
    return vars(estimator).get("_checkpoints", FitCheckpoints())
