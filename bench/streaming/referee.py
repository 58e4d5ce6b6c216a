"""Objectives of all weights, in one pass over the file."""

from collections.abc import Sequence

from bench.harness.data import Data
from bench.harness.suite import Findings, Stored
from bench.linear.referee import Weights, objectives
from bench.streaming.parameters import StreamingParameters

__all__ = ["judge"]


def judge(parameters: StreamingParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Return the objective of each point of a curve and of its end. A reading has none."""
    curves = [
        [Weights(*each) for each in zip(one["coef"], one["intercept"], strict=True)] if one else [] for one in stored
    ]
    given = [weights for curve in curves for weights in curve]
    found = iter(objectives(data.X, data.y, parameters, given) if given else ())
    values = [[next(found) for _ in curve] for curve in curves]
    return [{"objective": each[-1] if each else None, "objectives": each} for each in values]
