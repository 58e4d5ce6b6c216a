"""Who reads from the file? The fit, scikit-learn's `partial_fit` in a loop, and a plain reading."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.harness.competitor import OURS, Competitor, Resources
from bench.streaming.parameters import StreamingParameters

__all__ = ["LOOPS", "READING", "STREAMING_COMPETITORS"]

READING = "reading"
LOOPS = "loop", "loop without average"
"""Averaged weights are the usual choice. The last weights may be better early in the fit."""


def _reading(parameters: StreamingParameters, resources: Resources) -> Callable:
    from bench.streaming.reading import measure

    return measure


def _fastsvm(parameters: StreamingParameters, resources: Resources) -> Callable:
    from bench.streaming.fitting import measure

    return partial(measure, parameters)


def _loop(parameters: StreamingParameters, resources: Resources, average: bool) -> Callable:
    from bench.streaming.looping import measure

    return partial(measure, parameters, resources.threads, average)


def _one(name: str, module: str, build: Any) -> Competitor:
    return Competitor(name, module, ("streaming",), build)


STREAMING_COMPETITORS = [
    _one(READING, "h5py", _reading),
    _one(OURS, "fastsvm", _fastsvm),
    *(_one(name, "sklearn", partial(_loop, average=name == LOOPS[0])) for name in LOOPS),
]
"""`build` returns a function that measures: of a path, and of what times a part of it."""
