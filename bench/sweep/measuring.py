"""How long does each library take for a draw? Both are warm, in one process, one after the other."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench.harness.data import Data
from bench.sweep.draws import ONE_CLASS, Draw
from bench.sweep.estimators import pair_of
from bench.sweep.referee import judged
from bench.sweep.samples import as_stored, samples

__all__ = ["ENOUGH_S", "measured"]

ENOUGH_S = 0.02
"""Short calls are repeated until they took so many seconds together."""

_LEAST_CALLS = 3
_LONG_S, _VERY_LONG_S = 0.5, 2.0  # a call that takes longer is timed twice, or once
_BATCHES = 5  # of partial_fit


class _Side(NamedTuple):
    """What a library found: seconds of the best call, the model, what the call returned, and warnings."""

    seconds: float
    model: Any
    output: Any
    warnings: list[str]


def _ignore(status: str, stage: str) -> None:
    """Tell nobody."""


def measured(draw: Draw, say: Callable[[str, str], None] = _ignore, enough_s: float = ENOUGH_S) -> dict[str, Any]:
    """Return what was found about a draw, for JSON.

    The status is "right", "wrong", "unjudged" if the referee does not understand the answer, "failed" if ours raised an
    exception that scikit-learn did not, or "refused" if scikit-learn raised one. `say` is told what the status would be
    if the draw went no further, and whose turn it is.
    """
    say("hung", "samples are made up")
    data = samples(draw)
    pair = pair_of(draw, data.X)
    found: dict[str, Any] = {"draw": asdict(draw), "line": draw.line()}
    sides, errors = {}, {}
    with as_stored(draw, data) as (stored, read):
        for name, make, samples_of in (("ours", pair.ours, lambda: stored), ("theirs", pair.theirs, read)):
            took = [f"{one} took {side.seconds:.3g} s" for one, side in sides.items()]
            say("hung" if name == "ours" else "refused", ", ".join([*took, f"{name} runs"]))
            try:
                sides[name] = _side(draw, data, make, samples_of, enough_s)
            except Exception as error:  # whatever a library raises is a finding
                errors[name] = _said(error)
        found |= {name: _facts(side) for name, side in sides.items()} | {"errors": errors}
        if errors:
            return found | {"status": "refused" if "theirs" in errors else "failed"}
        say("unjudged", "the referee judges")
        ours, theirs = sides["ours"], sides["theirs"]
        found["ratio"] = theirs.seconds / ours.seconds
        try:
            verdict = judged(draw, data, (ours.model, theirs.model), (ours.output, theirs.output))
        except Exception as error:  # of an answer that is none
            return found | {"status": "unjudged", "errors": {"the referee": _said(error)}}
    found["ours"]["value"], found["theirs"]["value"] = _finite(verdict.ours), _finite(verdict.theirs)
    return found | {"status": "right" if verdict.right else "wrong", "by": verdict.by}


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _facts(side: _Side) -> dict[str, Any]:
    n_iter = np.ravel(getattr(side.model, "n_iter_", []))
    return {"seconds": side.seconds, "n_iter": int(n_iter.max()) if len(n_iter) else None, "warnings": side.warnings}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _side(draw: Draw, data: Data, make: Callable[[], Any], read: Callable[[], Any], enough_s: float) -> _Side:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if draw.rows:
            model = _fit(make, read, data.y, draw)
            action = partial(getattr(model, draw.task), data.X_test[: draw.rows])
        else:
            action = partial(_pass if draw.task == "partial_fit" else _fit, make, read, data.y, draw)
        output = action()
        seconds, output = _best(action, enough_s)
    model = model if draw.rows else output
    said = sorted({f"{one.category.__name__}: {str(one.message).splitlines()[0]}" for one in caught})
    return _Side(seconds, model, output, said)


def _fit(make: Callable[[], Any], read: Callable[[], Any], y: np.ndarray, draw: Draw) -> Any:
    return make().fit(read()) if draw.estimator in ONE_CLASS else make().fit(read(), y)


def _pass(make: Callable[[], Any], read: Callable[[], Any], y: np.ndarray, draw: Draw) -> Any:
    """Return a model that saw all samples once, in some batches."""
    X = read()
    model, given = make(), {"classes": np.unique(y)} if draw.classes else {}
    for rows in np.array_split(np.arange(len(y)), _BATCHES):
        part = slice(rows[0], rows[-1] + 1)
        model.partial_fit(X[part], y[part], **given)
    return model


def _best(action: Callable[[], Any], enough_s: float) -> tuple[float, Any]:
    """Return the seconds of the fastest call, and what the last one returned."""
    took: list[float] = []
    while True:
        begin = time.perf_counter()
        output = action()
        took.append(time.perf_counter() - begin)
        enough = _LEAST_CALLS if took[0] < _LONG_S else 2 if took[0] < _VERY_LONG_S else 1
        if len(took) >= enough and sum(took) >= enough_s:
            return min(took), output
