"""What a training job asks of a fit: to be told how far it is, and to be given what it has."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Checkpointer", "begun_before", "checkpoint_of", "checkpointed", "checkpointer_of", "may_go_on"]


class Checkpointer(Protocol):
    """Who looks after a fit."""

    def observe(self, tree: Callable[[], Any], facts: dict[str, float]) -> None:
        """Look at a fit between two steps. What is raised here ends it.

        Parameters
        ----------
        tree : callable
            Gives all that is needed to go on from here, as a tree of numbers, words, arrays and NamedTuples, which
            holds only until this returns.
        facts : dict of str to float
            How far it is.
        """


@contextmanager
def checkpointed(estimator: Any, checkpointer: Checkpointer | None, checkpoint: Any = None) -> Iterator[None]:
    """Let a checkpointer watch the fit within, which resumes from `checkpoint` unless that is None.

    The checkpoint is what the checkpointer of a fit with the same parameters and data received.
    """
    estimator._checkpointer, estimator._checkpoint = checkpointer, checkpoint
    try:
        yield
    finally:
        del estimator._checkpointer, estimator._checkpoint


def checkpointer_of(estimator: Any) -> Checkpointer | None:
    """Return the checkpointer that watches a fit, None if there is none."""
    return vars(estimator).get("_checkpointer")


def may_go_on(estimator: Any) -> bool:
    """Return whether somebody may ask to go on from where a fit is."""
    return estimator.warm_start or checkpointer_of(estimator) is not None


def checkpoint_of(estimator: Any) -> Any:
    """Return the checkpoint that a fit resumes from, None if it has none."""
    return vars(estimator).get("_checkpoint")


def begun_before(estimator: Any, name: str) -> Any:
    """Return the state that a fit resumes from: a checkpoint, else the warm start in attribute `name`, else None."""
    checkpoint = checkpoint_of(estimator)
    return checkpoint if checkpoint is not None else getattr(estimator, name, None) if estimator.warm_start else None
