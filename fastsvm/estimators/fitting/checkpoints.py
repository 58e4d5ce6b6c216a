"""What a training job asks of a fit: to be told how far it is, and to be given what it has."""

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Checkpointer", "begun_before", "checkpoint_with", "checkpointer_of", "go_on_from", "may_go_on"]


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


def checkpoint_with(estimator: Any, checkpointer: Checkpointer) -> None:
    """Let a checkpointer look after the next fit of an estimator."""
    estimator._checkpointer = checkpointer


def checkpointer_of(estimator: Any) -> Checkpointer | None:
    """Return who looks after a fit, None if nobody does."""
    return vars(estimator).get("_checkpointer")


def may_go_on(estimator: Any) -> bool:
    """Return whether somebody may ask to go on from where a fit is."""
    return estimator.warm_start or checkpointer_of(estimator) is not None


def go_on_from(estimator: Any, tree: Any) -> None:
    """Let the next fit of an estimator begin where one with the same parameters and data had this tree."""
    estimator._begun = tree


def begun_before(estimator: Any, name: str) -> Any:
    """Return where a fit is to go on: where it was told to, or, if it may, where `name` says the last one was."""
    told = vars(estimator).pop("_begun", None)
    return told if told is not None else getattr(estimator, name, None) if estimator.warm_start else None
