"""The report of a run: result, job and data, curves of the fit, scores of a search, confusions and errors of the model.

The report is one HTML file. Its pictures are embedded, and it has no scripts.
"""

import math
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from fastsvm.displays._samples import as_images, confusion_counts, names_of, rows_at
from fastsvm.displays.curves import loss_curve, objective_name, problem_curves
from fastsvm.files.atomic_file import atomic_write
from fastsvm.jobs.inputs import Json, open_data
from fastsvm.jobs.models import describe
from fastsvm.jobs.report.html import (
    Axes,
    Html,
    Line,
    amount,
    chart,
    duration,
    facts,
    is_number,
    joined,
    note,
    page,
    pair,
    picture,
    rounded,
    section,
    shown,
    table,
)
from fastsvm.jobs.training.job_file import Job
from fastsvm.jobs.training.search import best_of
from fastsvm.jobs.training.train import Tested
from fastsvm.sources import Data
from fastsvm.tuning import current_tuning

_ENDS = {
    "converged": "converged within its tolerance",
    "max_iter": "reached its iteration limit",
    "max_time": "reached its time limit",
    "callback": "was stopped by a callback",
    "stalled": "stopped because rounding errors prevent further progress",
}
_ENDS_WITHOUT_GAP = {"converged": "ended when the objective no longer decreased"}  # gradient descent
_CERTIFICATE = {
    "objective": "Objective",
    "duality_gap": "Duality gap",
    "kkt_violation": "KKT violation",
    "converged": "Converged",
    "stop_reason": "Stop reason",
    "n_iter": "Iterations",
    "n_support": "Support vectors",
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "r2": "R²",
    "n_test": "Test samples",
}
_TIMES = {
    "seconds": "Fit time", "compile_seconds": "Compiling", "run_seconds": "Run time",
    "checkpoint_seconds": "Time of checkpoints",
}  # fmt: skip
_USE = {
    "passes": ("Passes over the file", ""),
    "read_mb_per_second": ("Read speed", "MB/s"),
    "peak_memory_mb": ("Peak memory", "MB"),
}
_WORK = {"rows": "rows", "reading": "reading (s)", "computing": "computing (s)", "waiting": "waiting (s)"}
_OF_DATA = {
    "storage": "Storage", "dtype": "Type of the values", "megabytes": "Size (MB)", "chunks": "Chunks",
    "labels": "Type of the labels", "sample_weight": "Sample weights",
}  # fmt: skip
_OF_JOB = {
    "holdout": "Share held out", "seed": "Seed", "grid": "Values compared", "scoring": "Scoring",
    "memory": "Memory budget (bytes)", "threads": "Threads", "cluster": "Cluster",
}  # fmt: skip
_TIME = "fit time (s)"

History = dict[str, np.ndarray]


def write_report(
    path: Path,
    events: Sequence[Json],
    job: Job,
    model: BaseEstimator,
    tested: Tested | None,
    result: Json,
    cells: Sequence[Json],
) -> None:
    """Write the report of a run from the events of its log, its result and the cells that a search evaluated."""
    data = describe(job.train)
    title = f"{type(model).__name__} on {Path(job.train).name}"
    parts = [
        _head(title, job, result, events),
        section("Certificate and cost", pair(_certificate(result), _cost(result))),
        section("Search", search_results(cells, job)),
        section("Job and data", pair(_job(job, model), _data(job, data, model)), _classes(data, model)),
        section("The fit", fit_curves(model)),
        section("Memory and reads", pair(_memory(events), _read_speed(getattr(model, "history_", None) or {}))),
        section("Workers", _workers(result)),
    ]
    if tested is not None and is_classifier(model):
        parts += [section("Confusion matrix", confusions(tested)), section("Errors", errors(tested, model))]
    elif tested is not None:
        parts += [section("Predictions and targets", scatter(tested)), section("Errors", errors(tested, model))]
    versions = [event.get("versions", {}) for event in events]
    lines = [" · ".join(f"{name}\u00a0{number}" for name, number in each.items()) for each in versions]
    shown_once = joined(Html(f"<p>{shown(line)}</p>") for line in dict.fromkeys(lines) if line)
    parts += [section("Interruptions", _interruptions(events)), section("Versions", shown_once)]
    with atomic_write(path) as part:
        part.write_text(page(title, joined(parts, "\n")), encoding="utf-8")


# --- result ------------------------------------------------------------------------------------------------------


def _head(title: str, job: Job, result: Json, events: Sequence[Json]) -> Html:
    """Return title, outcome and the most important numbers."""
    above = joined(["fastsvm run", *map(_moment, events[-1:])], " · ")
    numbers: list[tuple[str, float | None, Callable[[float], str]]] = [
        *((name, score, rounded) for name, score in result["scores"].items()),
        ("accuracy", result["accuracy"], _percent),
        ("R²", result["r2"], rounded),
        ("objective", result["objective"], rounded),
        ("duality gap", result["duality_gap"], lambda gap: rounded(gap, 3)),
        ("fit time", result["seconds"], duration),
        ("peak memory", result["peak_memory_mb"], lambda size: f"{rounded(size, 3)} MB"),
    ]
    tiles = joined(
        Html(f'<div class="tile"><span>{shown(name)}</span><b>{shown(words(value))}</b></div>')
        for name, value, words in numbers
        if value is not None
    )
    return Html(
        f'<header><p class="above">{above}</p><h1>{shown(title)}</h1>'
        f'<p class="outcome">{shown(_outcome(job, result, events))}</p><div class="tiles">{tiles}</div></header>'
    )


def _outcome(job: Job, result: Json, events: Sequence[Json]) -> str:
    """Return in sentences how the fit ended and how well the model predicts."""
    reason, n = result["stop_reason"], sum(event.get("event") == "resume" for event in events)
    ends = _ENDS if result["duality_gap"] is not None else _ENDS | _ENDS_WITHOUT_GAP
    work = duration(result["seconds"])
    if n:
        work = f"{duration(result['run_seconds'])} and {n} interruption{'s' if n > 1 else ''}"
    fit = f"The fit {ends.get(reason, f'ended: {reason}')} after {work}."
    samples = f"samples of {Path(job.test).name}" if job.test else "held-out samples"
    samples = f"{result['n_test']:,} {samples}"
    if result["accuracy"] is not None:
        all_rows, mean = _percent(result["accuracy"]), _percent(result["balanced_accuracy"])
        words = f"{fit} The model predicts {all_rows} of the {samples} correctly, {mean} of a class on average."
        return words + "".join(f" Their {name} is {rounded(score)}." for name, score in result["scores"].items())
    if result["r2"] is not None:
        return f"{fit} The model has an R² of {rounded(result['r2'])} on the {samples}."
    return f"{fit} The model was not tested, for the job has no test samples."


def _percent(share: float) -> str:
    return f"{rounded(100 * share)} %"


def _certificate(result: Json) -> Html:
    names = [name for name in _CERTIFICATE if result.get(name) is not None and (name != "n_test" or result[name])]
    words = {name: amount(name, result[name]) for name in names}
    gap, objective = result["duality_gap"], result["objective"]
    if gap is not None and objective:
        relative = f" ({rounded(gap / abs(objective), 3)} of the objective)"
        words["duality_gap"] = joined([words["duality_gap"], relative])
    return facts((_CERTIFICATE[name], text) for name, text in words.items())


def _cost(result: Json) -> Html:
    times = [(label, amount(name, result[name], duration(result[name]))) for name, label in _TIMES.items()]
    use = [(label, amount(name, result.get(name), unit=unit)) for name, (label, unit) in _USE.items()]
    return facts([*times, *use, ("Model", Path(result["model"]).name)])


def _workers(result: Json) -> Html:
    """Return a table of what each worker of a cluster did, nothing without a cluster."""
    workers = result.get("workers") or {}
    rows = [(address, *(one[name] for name in _WORK)) for address, one in workers.items()]
    if not rows:
        return Html("")
    words = note("Seconds are summed over the threads of a worker. Lost workers are not listed.")
    return joined([table(("worker", *_WORK.values()), rows), words])


# --- job and data ------------------------------------------------------------------------------------------------


def _job(job: Job, model: BaseEstimator) -> Html:
    """Return the keys of the job and, folded, all parameters of the estimator."""
    words = job._asdict()
    rows = [("Estimator", type(model).__name__), *sorted(job.parameters.items())]
    rows += [(label, words[name]) for name, label in _OF_JOB.items() if words[name] or name == "seed"]
    if job.seconds is not None:
        rows.append(("Time limit", duration(job.seconds)))
    every = facts(sorted(model.get_params().items()))
    return Html(f"<div>{facts(rows)}<details><summary>All parameters</summary>{every}</details></div>")


def _data(job: Job, words: Json, model: BaseEstimator) -> Html:
    """Return a table about the files; `words` describe the training file."""
    rows = [("File", words["file"]), ("Samples × features", _shape(words))]
    rows += [(label, words.get(name)) for name, label in _OF_DATA.items() if words.get(name)]
    if is_classifier(model):
        rows.append(("Classes", words["n_classes"]))
    elif is_regressor(model):
        with open_data(job.train) as data:
            y = np.asarray(data.y, np.float64)
        low, high, mean, deviation = map(rounded, (y.min(), y.max(), y.mean(), y.std()))
        rows.append(("Targets", f"{low} to {high}, mean {mean}, standard deviation {deviation}"))
    if job.test is not None:
        test = describe(job.test)
        rows += [("Test file", test["file"]), ("Its samples × features", _shape(test))]
    return facts(rows)


def _classes(words: Json, model: BaseEstimator) -> Html:
    """Return the number of samples of each class, folded if there are many classes; nothing for a regression."""
    counts = words.get("class_counts")
    if not counts or not is_classifier(model):
        return Html("")
    unfolded = " open" if len(counts) <= current_tuning().limits.shown else ""
    each = joined(Html(f"<div><span>{shown(name)}</span>{shown(count)}</div>") for name, count in counts.items())
    return Html(f'<details{unfolded}><summary>Samples per class</summary><div class="counts">{each}</div></details>')


def _shape(words: Json) -> str:
    return f"{words['n_samples']:,} × {words['n_features']:,}"


# --- log ---------------------------------------------------------------------------------------------------------


def _interruptions(events: Sequence[Json]) -> Html:
    """Return a table of interruptions: when, by what, when the run was resumed, and from which checkpoint."""
    rows = []
    for i, event in enumerate(events):
        if event.get("event") == "resume":
            last = next((_moment(one) for one in reversed(events[:i]) if _moment(one)), "")
            rows.append((last, _cause(events[i - 1]), _moment(event), event.get("checkpoint")))
    lost = sum(event.get("event") in ("checkpoint failed", "checkpoint refused") for event in events)
    missed = Html(f"<p>{lost:,} checkpoints could not be written or read; see log.jsonl.</p>") if lost else Html("")
    if not rows:
        return joined([Html("<p>None.</p>"), missed])
    counted = note("Passes and read speed above count from the last resumption.")
    return joined([counted, table(("last event", "interrupted by", "resumed", "checkpoint"), rows), missed])


def _cause(last: Json) -> str:
    """Return what ended the process with this last event."""
    if last.get("event") == "stopped":
        number = last.get("signal")
        return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return str(last.get("error", "")) if last.get("event") == "failed" else "unknown: the log ends here"


def _moment(event: Json) -> str:
    """Return the time of an event, "" if it has none."""
    try:
        return datetime.fromisoformat(event["time"]).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (KeyError, TypeError, ValueError):
        return ""


# --- the fit -----------------------------------------------------------------------------------------------------


def fit_curves(model: BaseEstimator) -> Html:
    """Return the curves of objective, gap, loss and validation score that a model has, nothing without a history."""
    history = getattr(model, "history_", None) or {}
    if not len(history.get("time", ())):
        return Html("")
    scores = Html("")
    if "validation_score" in history:
        line = Line("", history["time"], history["validation_score"], "line third")
        scores = chart([line], Axes("Validation score", _TIME, "score"))
    return pair(_objectives(history, model), _gaps(history, model), _losses(history, model), scores)


def _objectives(history: History, model: BaseEstimator) -> Html:
    if "problem" in history:
        return _objective_of_all(history, objective_name(model).removeprefix("primal "))
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
    words = f"Sum over the {len(latest):,} two-class problems, each from its first record." if len(latest) > 1 else ""
    return chart([Line("", history["time"][order], np.array(sums))], Axes("Objective", _TIME, name), words)


def _is_wide(values: np.ndarray) -> bool:
    values = values[np.isfinite(values)]
    return bool(len(values)) and values.min() > 0 and values.max() > current_tuning().look.wide * values.min()


def _gaps(history: History, model: BaseEstimator) -> Html:
    """Return a curve for each two-class problem, or for a share of them if they are many."""
    column = next((name for name in ("violation", "gap") if name in history), None)
    if column is None:
        return Html("")
    look, words = current_tuning().look, ""
    title, name = ("KKT violation", "violation") if "problem" in history else ("Duality gap", "relative duality gap")
    tol = float(getattr(model, "tol", None) or 0.0) if getattr(model, "criterion", "gap") == "gap" else 0.0
    curves = problem_curves(model, "time", column, look.curves)
    kind = "pale first" if len(curves) > 1 else "line first"
    lines = [Line("", curve.x, np.maximum(curve.y, look.below * tol), kind) for curve in curves]
    if len(curves) > 1:
        n = len(np.unique(history["problem"]))
        drawn = "" if len(curves) == n else f" {len(curves)} are drawn."
        words = f"Each line is one of {n:,} two-class problems.{drawn}"
    if tol:
        ends = np.array([np.min(history["time"]), np.max(history["time"])])
        lines.append(Line(f"tolerance {shown(tol)}", ends, np.array([tol, tol]), "limit"))
    return chart(lines, Axes(title, _TIME, name, log=True), words)


def _losses(history: History, model: BaseEstimator) -> Html:
    """Return the curve of the mini-batch losses, as means over consecutive mini-batches."""
    losses = getattr(model, "loss_curve_", None)
    if losses is None or len(losses) < 2 or "steps" not in history:
        return Html("")
    curve = loss_curve(model, "time")
    parts = np.array_split(np.arange(len(curve.y)), min(current_tuning().look.curves, len(curve.y)))
    at, means = (np.array([values[part].mean() for part in parts]) for values in (curve.x, curve.y))
    words = f"Loss before each step; every point is the mean of {len(curve.y) / len(parts):,.0f} consecutive entries."
    return chart([Line("", at, means)], Axes("Mini-batch loss", _TIME, "mean loss", log=_is_wide(means)), words)


# --- the process -------------------------------------------------------------------------------------------------


def _memory(events: Sequence[Json]) -> Html:
    """Return the curve of the memory, nothing for a run that was too short for it."""
    points: list[tuple[float, float]] = []
    for one in events:
        if one.get("event") == "progress" and "seconds" in one and "peak_memory_mb" in one:
            while points and points[-1][0] >= one["seconds"]:  # an interruption lost these steps
                points.pop()
            points.append((one["seconds"], one["peak_memory_mb"]))
    if len(points) < 2:
        return Html("")
    seconds, memory = np.array(points, np.float64).T
    axes = Axes("Memory", _TIME, "peak so far (MB)", from_zero=True)
    return chart([Line("", seconds, memory)], axes, "Peak memory of the process, with its libraries.")


def _read_speed(history: History) -> Html:
    """Return the curve of the mean speeds of some intervals, in 10⁶ bytes per second, at their midpoints."""
    at, nbytes = (np.asarray(history.get(name, ()), np.float64) for name in ("time", "bytes_read"))
    if not len(nbytes):
        return Html("")
    order = np.argsort(at, kind="stable")
    ends = order[np.unique(np.linspace(0, len(at) - 1, current_tuning().look.curves + 1).astype(int))]
    at, nbytes = at[ends], nbytes[ends]
    span, read = np.diff(at), np.diff(nbytes)
    read = np.where(read < 0, nbytes[1:], read)  # a resumed run counts from 0
    long = span > 0
    if not read[long].any():
        return Html("")
    axes = Axes("Reads from the file", _TIME, "speed (MB/s)", from_zero=True)
    line = Line("", ((at[1:] + at[:-1]) / 2)[long], (read[long] / span[long]) / 1e6, "line third")
    return chart([line], axes, "Samples that are kept in memory are read once.")


# --- the search --------------------------------------------------------------------------------------------------


def search_results(cells: Sequence[Json], job: Job) -> Html:
    """Return a chart and a table of the cells of a search, nothing without a search."""
    if not cells:
        return Html("")
    best = best_of(job, cells)
    edges = "".join(map(partial(_edge, cells, best), best["parameters"]))
    words = note(f"Mean scores over {job.folds:,} folds of the training samples.{edges}")
    return joined([words, pair(_map(cells, best), _cells(cells, best))])


def _edge(cells: Sequence[Json], best: Json, name: str) -> str:
    """Return a hint if the best of three values or more is the smallest or the largest one."""
    values, chosen = _unique([cell["parameters"][name] for cell in cells]), best["parameters"][name]
    if "n_samples" in best or len(values) < 3 or not all(map(is_number, values)) or chosen in values[1:-1]:
        return ""
    which = "smaller" if chosen == values[0] else "larger"
    return f" The best {name}, {chosen:g}, is at the edge of the grid: try {which} ones, too."


def _map(cells: Sequence[Json], best: Json) -> Html:
    """Return the scores over the two parameters with the most values, where the others are those of the best cell."""
    values = {name: _unique([cell["parameters"][name] for cell in cells]) for name in best["parameters"]}
    varied = sorted((name for name in values if len(values[name]) > 1), key=lambda name: -len(values[name]))
    if not varied:
        return Html("")
    across, *down = varied[:2]
    fixed = {name: value for name, value in best["parameters"].items() if name not in varied[:2]}
    drawn = [cell for cell in cells if {**cell["parameters"], **fixed} == cell["parameters"]]
    drawn = [cell for cell in drawn if np.isfinite(cell["mean_score"])]
    found = [cell["mean_score"] for cell in drawn]
    low, span = min(found), max(np.ptp(found), 1e-300)

    def coloured(*place: object) -> Html:
        here = [cell for cell in drawn if tuple(cell["parameters"][name] for name in varied[:2]) == place]
        if not here:
            return Html('<td class="none"></td>')
        cell = max(here, key=lambda cell: cell.get("n_samples", 0))
        look = "diagonal" if cell.get("n_samples") == best.get("n_samples") else "beside"
        words = shown(cell["mean_score"])
        words = Html(f"<b>{words}</b>") if cell is best else words
        return Html(f'<td class="of {look}" style="--depth:{0.6 * (cell["mean_score"] - low) / span:.2f}">{words}</td>')

    rows = [(value,) for value in reversed(values[down[0]])] if down else [()]
    lines = joined(
        Html(f'<tr><th scope="row">{joined(row)}</th>{joined(coloured(x, *row) for x in values[across])}</tr>')
        for row in rows
    )
    head = joined(Html(f'<th scope="col">{shown(value)}</th>') for value in values[across])
    body = f"<thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody>"
    axes = f"Rows are values of {down[0]}, columns of {across}." if down else f"Columns are values of {across}."
    of_parts = " Scores of a part of the samples have another colour." if "n_samples" in best else ""
    words = note(f"{axes} The chosen cell is bold.{of_parts}")
    return Html(f'<div>{words}<div class="wide"><table class="confusion">{body}</table></div></div>')


def _unique(values: list) -> list:
    """Return different values, in ascending order if they are numbers."""
    found = [value for k, value in enumerate(values) if value not in values[:k]]
    return sorted(found) if all(map(is_number, found)) else found


def _cells(cells: Sequence[Json], best: Json) -> Html:
    order = sorted(cells, key=lambda cell: (cell is not best, -cell["mean_score"]))
    names = list(best["parameters"])
    of_parts = ("samples",) if "n_samples" in best else ()
    head = ("", *names, "mean score", "standard deviation", *of_parts)
    rows = [
        ("chosen" if cell is best else "", *(shown(cell["parameters"][name]) for name in names), cell["mean_score"],
         cell["std_score"], *([cell["n_samples"]] if of_parts else []))
        for cell in order
    ]  # fmt: skip
    most = current_tuning().limits.shown
    parts = [table(head, rows[:most])]
    if rest := rows[most:]:
        parts.append(Html(f"<details><summary>{len(rest):,} more</summary>{table(head, rest)}</details>"))
    return Html(f"<div>{joined(parts)}</div>")


# --- predictions -------------------------------------------------------------------------------------------------


def confusions(tested: Tested) -> Html:
    """Return the confusion matrix or, for many classes, the pairs that are confused most often."""
    labels = np.union1d(tested.truth, tested.predicted)
    counts = confusion_counts(tested.truth, tested.predicted, labels)
    with open_data(tested.path) as data:
        names = names_of(labels, None, data)
    return _matrix(counts, names) if len(names) <= current_tuning().limits.shown else _frequent(counts, names)


def _matrix(counts: np.ndarray, names: list[str]) -> Html:
    tall = ' class="tall"' if max(map(len, names)) > current_tuning().look.digits else ""
    head = joined(Html(f'<th scope="col"{tall}><span>{shown(name)}</span></th>') for name in (*names, "correct"))
    lines = []
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        n = int(row.sum())
        cells = joined(_cell(int(count), n, i == j) for j, count in enumerate(row))
        share = f"{100 * row[i] / n:.1f} %" if n else "–"
        lines.append(Html(f'<tr><th scope="row">{shown(name)}</th>{cells}<td>{share}</td></tr>'))
    body = f"<thead><tr><td></td>{head}</tr></thead><tbody>{joined(lines)}</tbody>"
    words = note("Rows are true classes, columns are predicted classes.")
    return Html(f'{words}<div class="wide"><table class="confusion">{body}</table></div>')


def _cell(count: int, n: int, diagonal: bool) -> Html:
    """Return a cell that is coloured by its share of the row; a root makes rare errors visible."""
    if not count:
        return Html('<td class="none">0</td>')
    share = count / n
    depth, look = (0.1 + 0.5 * share, "diagonal") if diagonal else (0.6 * math.sqrt(share), "beside")
    return Html(f'<td class="of {look}" style="--depth:{depth:.2f}">{shown(count)}</td>')


def _frequent(counts: np.ndarray, names: list[str]) -> Html:
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[: current_tuning().limits.shown]
    pairs = [(i, j) for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True) if wrong[i, j]]
    rows = [(names[i], names[j], int(wrong[i, j]), int(counts[i].sum())) for i, j in pairs]
    words = note(f"The most frequent confusions among {len(names):,} classes.")
    return joined([words, table(("true", "predicted", "samples", "of"), rows)])


def scatter(tested: Tested) -> Html:
    """Return a scatter plot of the predictions of a regression against the targets."""
    truth, predicted = (np.asarray(values, np.float64) for values in (tested.truth, tested.predicted))
    ends = np.array([min(truth.min(), predicted.min()), max(truth.max(), predicted.max())])
    axes = Axes("Predictions", "target", "prediction", square=True)
    return pair(chart([Line("equal", ends, ends, "limit"), Line("", truth, predicted, "cloud first")], axes))


def errors(tested: Tested, model: BaseEstimator) -> Html:
    """Return examples of wrong predictions, or the largest errors of a regression; nothing if all are correct."""
    if not is_classifier(model):
        return _largest(tested)
    wrong = np.flatnonzero(tested.truth != tested.predicted)
    if not len(wrong):
        return Html("")
    chosen = wrong[np.unique(np.linspace(0, len(wrong) - 1, current_tuning().limits.shown).round().astype(int))]
    with open_data(tested.path) as data:
        names = [names_of(column[chosen], None, data) for column in (tested.truth, tested.predicted)]
        rows, images = tested.rows[chosen].tolist(), _images(data, tested.rows[chosen])
    entries = list(zip(rows, *names, strict=True))
    all_or_some = f"{len(chosen)} of" if len(chosen) < len(wrong) else "All"
    words = f"{all_or_some} {len(wrong):,} errors among {len(tested.rows):,} samples, in the order of the file."
    drawn = _in_columns(("row", "true", "predicted"), entries) if images is None else _gallery(entries, images)
    return joined([note(words), drawn])


def _largest(tested: Tested) -> Html:
    difference = np.asarray(tested.predicted, np.float64) - tested.truth
    chosen = np.argsort(-np.abs(difference), kind="stable")[: current_tuning().limits.shown]
    columns = (values[chosen].tolist() for values in (tested.rows, tested.truth, tested.predicted, difference))
    rows = [(row, *map(float, values)) for row, *values in zip(*columns, strict=True)]
    words = note(f"The {len(rows)} largest errors among {len(difference):,} samples.")
    return joined([words, _in_columns(("row", "true", "predicted", "difference"), rows)])


def _in_columns(head: tuple[str, ...], rows: list[tuple]) -> Html:
    """Return a table as two halves side by side."""
    half = max(current_tuning().limits.shown // 2, -(-len(rows) // 2))
    return pair(*(table(head, part) for part in (rows[:half], rows[half:]) if part))


def _gallery(entries: list[tuple[int, str, str]], images: np.ndarray) -> Html:
    drawn = []
    for (row, true, predicted), pixels in zip(entries, images, strict=True):
        words = f"<b>{shown(true)}</b><br>predicted {shown(predicted)}"
        image = picture(pixels, f"row {row}: {true}, predicted {predicted}")
        drawn.append(Html(f'<figure title="row {row}">{image}<figcaption>{words}</figcaption></figure>'))
    return Html(f'<div class="images">{joined(drawn)}</div>')


def _images(data: Data, rows: np.ndarray) -> np.ndarray | None:
    """Return samples as images of bytes, scaled to the range of values; None unless they are square and smooth."""
    n_values, look = data.shape[1], current_tuning().look
    planes = ((colours, math.isqrt(n_values // colours)) for colours in (1, 3))
    shapes = [(colours, side, side) for colours, side in planes if colours * side * side == n_values]
    if not shapes or shapes[0][1] < look.least_side:
        return None
    images = as_images(rows_at(data, rows).astype(np.float64), shapes[0], "first")
    pixels = images.reshape(len(images), -1)
    others = pixels[:, np.random.default_rng(0).permutation(n_values)]
    if np.abs(np.diff(images, axis=2)).mean() >= look.smooth * np.abs(pixels - others).mean():
        return None
    low, high, step = images.min(), images.max(), -(-shapes[0][1] // look.most_side)
    return ((images[:, ::step, ::step] - low) * (255 / (high - low))).round().astype(np.uint8)
