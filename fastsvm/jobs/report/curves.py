"""How a run went, as curves over its time: what the model recorded of its fit, and what the log did of the process."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from fastsvm.jobs.report.html import Html, joined, shown
from fastsvm.jobs.report.svg import Axes, Line, chart

__all__ = ["fit_curves", "process_curves"]

_TIME = "time of the fit (s)"
_MOST_PROBLEMS = 200  # whose curves are drawn
_BELOW = 0.01  # of the tolerance: smaller gaps, which exact steps leave, are drawn there
_MEANS = 60  # of losses or speeds, in one curve
_WIDE = 50.0  # ratio of the largest objective to the least, from which on they are drawn on a logarithmic axis

History = dict[str, np.ndarray]


def fit_curves(model: Any) -> Html:
    """Return the curves of objective, gap and loss that a model has, nothing if it kept no history."""
    history = getattr(model, "history_", None) or {}
    if not len(history.get("time", ())):
        return Html("")
    drawn = [_objectives(history, model), _gaps(history, model), _losses(history, model), _scores(history)]
    return Html(f'<div class="pair">{joined(drawn)}</div>')


def _objectives(history: History, model: Any) -> Html:
    if "problem" in history:
        is_primal = getattr(model, "solver", "") == "primal"
        return _objective_of_all(history, "objective" if is_primal else "dual objective")
    lines = [Line("", history["time"], history["objective"])]
    if "dual_objective" in history:
        bound = np.maximum(history["dual_objective"], 0.0)  # less than 0 an objective is never
        dual = Line("lower bound", history["time"], bound, "line second")
        lines = [lines[0]._replace(name="objective"), dual]
    log = _is_wide(lines[0].y)
    axes = Axes("Objective", _TIME, "objective", log=log)
    return chart(lines, axes, "Logarithmic; values that are not positive are left out." if log else "")


def _objective_of_all(history: History, name: str) -> Html:
    """Return the sum of the objectives of all two-class problems that had begun, at each moment."""
    order = np.argsort(history["time"], kind="stable")
    problems, objectives = (history[name][order].tolist() for name in ("problem", "objective"))
    latest: dict[int, float] = {}
    total, sums = 0.0, []
    for problem, objective in zip(problems, objectives, strict=True):
        total += objective - latest.get(problem, 0.0)
        latest[problem] = objective
        sums.append(total)
    note = f"Sum over the {len(latest):,} two-class problems, each from when it began." if len(latest) > 1 else ""
    return chart([Line("", history["time"][order], np.array(sums))], Axes("Objective", _TIME, name), note)


def _is_wide(values: np.ndarray) -> bool:
    values = values[np.isfinite(values)]
    return bool(len(values)) and values.min() > 0 and values.max() > _WIDE * values.min()


def _gaps(history: History, model: Any) -> Html:
    if "gap" not in history:
        return Html("")
    name = "largest violation" if "problem" in history else "relative duality gap"
    tol = getattr(model, "tol", None)
    of_tol = bool(tol) and getattr(model, "criterion", "gap") == "gap"
    floor = _BELOW * tol if of_tol else 0.0
    lines, note = _gaps_by_problem(history, floor)
    if of_tol:
        ends = np.array([np.min(history["time"]), np.max(history["time"])])
        lines.append(Line(f"tolerance {shown(float(tol))}", ends, np.array([tol, tol]), "limit"))
    return chart(lines, Axes("Gap", _TIME, name, log=True), note)


def _gaps_by_problem(history: History, floor: float) -> tuple[list[Line], str]:
    """Return a line for each problem, and what is said of them."""
    times, gaps = history["time"], np.maximum(history["gap"], floor)
    problems = np.unique(history["problem"]) if "problem" in history else np.zeros(1)
    if len(problems) == 1:
        return [Line("", times, gaps)], ""
    drawn = problems[np.unique(np.linspace(0, len(problems) - 1, _MOST_PROBLEMS).astype(int))]
    own = [history["problem"] == problem for problem in drawn]
    note = f"Each line is one of {len(problems):,} two-class problems"
    note += "." if len(drawn) == len(problems) else f", of which {len(drawn)} are drawn."
    return [Line("", times[rows], gaps[rows], "pale first") for rows in own], note


def _losses(history: History, model: Any) -> Html:
    """Return the losses of mini-batches, as means of many in a row."""
    losses = getattr(model, "loss_curve_", None)
    if losses is None or len(losses) < 2 or "steps" not in history:
        return Html("")
    steps = np.linspace(0.0, float(history["steps"][-1]), len(losses) + 1)[1:]
    at = np.interp(steps, [0.0, *history["steps"]], [0.0, *history["time"]])
    parts = np.array_split(np.arange(len(losses)), min(_MEANS, len(losses)))
    means = np.array([losses[part].mean() for part in parts])
    line = Line("", np.array([at[part].mean() for part in parts]), means)
    note = f"Before each step; every point is the mean of {len(losses) / len(parts):,.0f} entries in a row."
    log = _is_wide(means)
    return chart([line], Axes("Loss of mini-batches", _TIME, "mean loss", log=log), note)


def _scores(history: History) -> Html:
    if "validation_score" not in history:
        return Html("")
    line = Line("", history["time"], history["validation_score"], "line third")
    return chart([line], Axes("Validation score", _TIME, "score"))


# --- the process -------------------------------------------------------------------------------------------------


def process_curves(events: Sequence[dict[str, Any]], model: Any) -> Html:
    """Return the curves of memory and read speed, nothing for a run that was too short for them."""
    known = [event for event in events if event.get("event") == "progress"]
    history = getattr(model, "history_", None) or {}
    drawn = joined([_memory(events, known), _speed(known, history)])
    return Html(f'<div class="pair">{drawn}</div>') if drawn else drawn


def _memory(events: Sequence[dict[str, Any]], known: Sequence[dict[str, Any]]) -> Html:
    known = [event for event in known if event.get("peak_memory_mb") is not None]
    if len(known) < 2:
        return Html("")
    at, memory = _moments(events, known), np.array([event["peak_memory_mb"] for event in known])
    axes = Axes("Memory", "time of work (s)", "largest so far (MB)", from_zero=True)
    return chart([Line("", at, memory)], axes, "Of the process, and with it of its libraries.")


def _moments(events: Sequence[dict[str, Any]], known: Sequence[dict[str, Any]]) -> np.ndarray:
    """Return when events were, in seconds of work: those of the fit if it tells them, or without interruptions."""
    if all(isinstance(event.get("time"), (int, float)) for event in known):
        return np.array([event["time"] for event in known], np.float64)
    moments, work, last, wanted = [], 0.0, None, set(map(id, known))
    for event in events:
        now = _clock(event)
        if last is not None and now is not None and event.get("event") != "resume":
            work += max(0.0, now - last)
        last = now if now is not None else last
        if id(event) in wanted:
            moments.append(work)
    return np.array(moments)


def _clock(event: dict[str, Any]) -> float | None:
    """Return when an event was by the clock, None if it tells another time."""
    try:
        return datetime.fromisoformat(event["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def _speed(known: Sequence[dict[str, Any]], history: History) -> Html:
    """Return how fast rows were read from the file, by the log if it tells, or else by the history."""
    told = [event for event in known if "bytes_read" in event and isinstance(event.get("time"), (int, float))]
    if len(told) > 2:
        at, nbytes = (np.array([event[name] for event in told], np.float64) for name in ("time", "bytes_read"))
    else:  # of a run of a few seconds, or of a model whose log does not tell
        at, nbytes = (np.asarray(history.get(name, ()), np.float64) for name in ("time", "bytes_read"))
    order = np.argsort(at, kind="stable")
    at, speed = _speeds(at[order], nbytes[order])
    if not speed.any():
        return Html("")
    axes = Axes("Read from the file", _TIME, "speed (MB/s)", from_zero=True)
    return chart([Line("", at, speed, "line third")], axes, "Bytes over time; rows kept in memory are read once.")


def _speeds(at: np.ndarray, nbytes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean speed between some moments, in 10⁶ bytes a second, and the middle of each span."""
    kept = np.unique(np.linspace(0, max(0, len(at) - 1), _MEANS + 1).astype(int))[: len(at)]
    at, nbytes = at[kept], nbytes[kept]
    span, more = np.diff(at), np.diff(nbytes)
    more = np.where(more < 0, nbytes[1:], more)  # who goes on with a run counts anew
    long = span > 0
    return ((at[1:] + at[:-1]) / 2)[long], (more[long] / span[long]) / 1e6
