"""What is a competitor? Imports nothing but the standard library, so that the import of a competitor can be timed."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["OURS", "Competitor", "Resources", "as_is", "float32", "float64"]

OURS = "fastsvm"


class Resources(NamedTuple):
    """What every competitor may use: threads, and MiB for its cache, or for the whole fit if it takes a budget."""

    threads: int
    memory_mb: int


def as_is(X: Any, y: Any) -> Any:
    return X


def float32(X: Any, y: Any) -> Any:
    return X.astype("float32")


def float64(X: Any, y: Any) -> Any:
    return X.astype("float64")


@dataclass(frozen=True)
class Competitor:
    """An implementation with scikit-learn's `fit` and `predict`.

    Attributes
    ----------
    name : str
        Name in tables, unique within a suite.
    module : str
        Module that must be importable.
    suites : tuple of str
        Suites in which it takes part.
    build : callable
        Returns the estimator for the parameters of a case and `Resources`. It imports the module, in the worker only.
    prepare : callable
        Returns the samples in the form that suits the competitor best. It gets the labels too, for libraries that
        store both together. It is not timed.
    """

    name: str
    module: str
    suites: tuple[str, ...]
    build: Callable[[Any, Resources], Any]
    prepare: Callable[[Any, Any], Any] = as_is

    @property
    def importable(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def takes_part(self, parameters: Any) -> bool:
        """Return whether a case with these parameters asks for this competitor."""
        return True

    def lacks(self, parameters: Any) -> str | None:
        """Return what the case asks for and the competitor does not have, None if nothing is missing."""
        return None
