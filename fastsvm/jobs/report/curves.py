"""Curves over the time of a run: objective, gap and loss from the history of the model, memory from the log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from fastsvm.jobs.report.html import Html, joined, shown
from fastsvm.jobs.report.svg import Axes, Line, chart
from fastsvm.tuning import current_tuning

__all__ = ["fit_curves", "moment_of", "process_curves"]

_TIME = "fit time (s)"

History = dict[str, np.ndarray]


def fit_curves(model: Any) -> Html:
    """Return the curves of objective, gap, loss and validation score that a model has, nothing without a history."""
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
        bound = np.maximum(history["dual_objective"], 0.0)  # no objective is below 0
        dual = Line("lower bound", history["time"], bound, "line second")
        lines = [lines[0]._replace(name="objective"), dual]
    log = _is_wide(lines[0].y)
    axes = Axes("Objective", _TIME, "objective", log=log)
    return chart(lines, axes, "Logarithmic axis; values that are not positive are left out." if log else "")


def _objective_of_all(history: History, name: str) -> Html:
    """Return the curve of the summed objectives of all two-class problems that have begun."""
    order = np.argsort(history["time"], kind="stable")
    problems, objectives = (history[name][order].tolist() for name in ("problem", "objective"))
    latest: dict[int, float] = {}
    total, sums = 0.0, []
    for problem, objective in zip(problems, objectives, strict=True):
        total += objective - latest.get(problem, 0.0)
        latest[problem] = objective
        sums.append(total)
    note = f"Sum over the {len(latest):,} two-class problems, each from its first record." if len(latest) > 1 else ""
    return chart([Line("", history["time"][order], np.array(sums))], Axes("Objective", _TIME, name), note)


def _is_wide(values: np.ndarray) -> bool:
    values = values[np.isfinite(values)]
    return bool(len(values)) and values.min() > 0 and values.max() > current_tuning().look.wide * values.min()


def _gaps(history: History, model: Any) -> Html:
    if "gap" not in history:
        return Html("")
    title, name = ("KKT violation", "violation") if "problem" in history else ("Duality gap", "relative duality gap")
    tol = float(getattr(model, "tol", None) or 0.0) if getattr(model, "criterion", "gap") == "gap" else 0.0
    lines, note = _gaps_by_problem(history, current_tuning().look.below * tol)
    if tol:
        ends = np.array([np.min(history["time"]), np.max(history["time"])])
        lines.append(Line(f"tolerance {shown(tol)}", ends, np.array([tol, tol]), "limit"))
    return chart(lines, Axes(title, _TIME, name, log=True), note)


def _gaps_by_problem(history: History, floor: float) -> tuple[list[Line], str]:
    """Return a line for each two-class problem, and a note."""
    times, gaps = history["time"], np.maximum(history["gap"], floor)
    problems = np.unique(history["problem"]) if "problem" in history else np.zeros(1)
    if len(problems) == 1:
        return [Line("", times, gaps)], ""
    drawn = problems[np.unique(np.linspace(0, len(problems) - 1, current_tuning().look.curves).astype(int))]
    own = [history["problem"] == problem for problem in drawn]
    note = f"Each line is one of {len(problems):,} two-class problems."
    note += "" if len(drawn) == len(problems) else f" {len(drawn)} are drawn."
    return [Line("", times[rows], gaps[rows], "pale first") for rows in own], note


def _losses(history: History, model: Any) -> Html:
    """Return the curve of the mini-batch losses, as means over consecutive mini-batches."""
    losses = getattr(model, "loss_curve_", None)
    if losses is None or len(losses) < 2 or "steps" not in history:
        return Html("")
    steps = np.linspace(0.0, float(history["steps"][-1]), len(losses) + 1)[1:]
    at = np.interp(steps, [0.0, *history["steps"]], [0.0, *history["time"]])
    parts = np.array_split(np.arange(len(losses)), min(current_tuning().look.curves, len(losses)))
    means = np.array([losses[part].mean() for part in parts])
    line = Line("", np.array([at[part].mean() for part in parts]), means)
    note = f"Loss before each step; every point is the mean of {len(losses) / len(parts):,.0f} consecutive entries."
    log = _is_wide(means)
    return chart([line], Axes("Mini-batch loss", _TIME, "mean loss", log=log), note)


def _scores(history: History) -> Html:
    if "validation_score" not in history:
        return Html("")
    line = Line("", history["time"], history["validation_score"], "line third")
    return chart([line], Axes("Validation score", _TIME, "score"))


# --- process -----------------------------------------------------------------------------------------------------


def process_curves(events: Sequence[dict[str, Any]], model: Any) -> Html:
    """Return the curves of memory and read speed, nothing for a run that was too short for them."""
    drawn = joined([_memory(events), _read_speed(getattr(model, "history_", None) or {})])
    return Html(f'<div class="pair">{drawn}</div>') if drawn else drawn


def _memory(events: Sequence[dict[str, Any]]) -> Html:
    points = [
        (work, event["peak_memory_mb"])
        for event, work in zip(events, _seconds_of_work(events), strict=True)
        if event.get("event") == "progress" and event.get("peak_memory_mb") is not None
    ]
    if len(points) < 2:
        return Html("")
    seconds, memory = np.array(points, np.float64).T
    axes = Axes("Memory", "run time (s)", "peak so far (MB)", from_zero=True)
    return chart([Line("", seconds, memory)], axes, "Peak memory of the process, with its libraries.")


def _seconds_of_work(events: Sequence[dict[str, Any]]) -> list[float]:
    """Return for each event the run time at that moment, without interruptions."""
    found, work, last = [], 0.0, None
    for event in events:
        now = moment_of(event)
        if last is not None and now is not None and event.get("event") != "resume":
            work += max(0.0, (now - last).total_seconds())
        last = now or last
        found.append(work)
    return found


def moment_of(event: dict[str, Any]) -> datetime | None:
    """Return when an event of the log was, None if it does not say."""
    try:
        return datetime.fromisoformat(event["time"])
    except (KeyError, TypeError, ValueError):
        return None


def _read_speed(history: History) -> Html:
    at, nbytes = (np.asarray(history.get(name, ()), np.float64) for name in ("time", "bytes_read"))
    if not len(nbytes):
        return Html("")
    order = np.argsort(at, kind="stable")
    at, speed = _speeds(at[order], nbytes[order])
    if not speed.any():
        return Html("")
    axes = Axes("Reads from the file", _TIME, "speed (MB/s)", from_zero=True)
    return chart([Line("", at, speed, "line third")], axes, "Samples that are kept in memory are read once.")


def _speeds(at: np.ndarray, nbytes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean speed of some intervals, in 10⁶ bytes per second, and their midpoints."""
    kept = np.unique(np.linspace(0, len(at) - 1, current_tuning().look.curves + 1).astype(int))
    at, nbytes = at[kept], nbytes[kept]
    span, read = np.diff(at), np.diff(nbytes)
    read = np.where(read < 0, nbytes[1:], read)  # a resumed run counts from 0
    long = span > 0
    return ((at[1:] + at[:-1]) / 2)[long], (read[long] / span[long]) / 1e6
