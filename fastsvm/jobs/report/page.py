"""The report of a run: result, job and data, curves of the fit, and errors of the model.

The report is one HTML file. Its pictures are embedded, and it has no scripts.
"""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from fastsvm.files.atomic_file import atomic_write
from fastsvm.jobs.inputs import Json
from fastsvm.jobs.models import describe
from fastsvm.jobs.report.figures import (
    confusions,
    errors,
    fit_curves,
    moment_of,
    process_curves,
    scatter,
    search_results,
)
from fastsvm.jobs.report.html import (
    Html,
    amount,
    duration,
    facts,
    joined,
    note,
    page,
    pair,
    rounded,
    section,
    shown,
    table,
)
from fastsvm.jobs.training.job_file import Job
from fastsvm.jobs.training.train import Trained
from fastsvm.sources import open_hdf5
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
    "r2": "R²",
    "n_test": "Test samples",
}
_TIMES = {"seconds": "Fit time", "run_seconds": "Run time", "checkpoint_seconds": "Time of checkpoints"}
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


def write_report(
    path: Path, events: Sequence[Json], job: Job, trained: Trained, result: Json, cells: Sequence[Json]
) -> None:
    """Write the report of a run from the events of its log, its result and the cells that a search evaluated."""
    model, tested, data = trained.model, trained.tested, describe(job.train)
    title = f"{type(model).__name__} on {Path(job.train).name}"
    parts = [
        _head(title, job, result, events),
        section("Certificate and cost", pair(_certificate(result), _cost(result))),
        section("Search", search_results(cells, job)),
        section("Job and data", pair(_job(job, model), _data(job, data, model)), _classes(data, model)),
        section("The fit", fit_curves(model)),
        section("Memory and reads", process_curves(events, model)),
        section("Workers", _workers(result)),
    ]
    if tested is not None and is_classifier(model):
        parts += [section("Confusion matrix", confusions(tested)), section("Errors", errors(tested, model))]
    elif tested is not None:
        parts += [section("Predictions and targets", scatter(tested)), section("Errors", errors(tested, model))]
    parts += [section("Interruptions", _interruptions(events)), section("Versions", _versions(events))]
    with atomic_write(path) as part:
        part.write_text(page(title, joined(parts, "\n")), encoding="utf-8")


# --- result ------------------------------------------------------------------------------------------------------


def _head(title: str, job: Job, result: Json, events: Sequence[Json]) -> Html:
    """Return title, outcome and the most important numbers."""
    above = joined(["fastsvm run", *map(_moment, events[-1:])], " · ")
    tiles = joined(
        Html(f'<div class="tile"><span>{shown(name)}</span><b>{shown(value)}</b></div>')
        for name, value in _numbers(result)
    )
    return Html(
        f'<header><p class="above">{above}</p><h1>{shown(title)}</h1>'
        f'<p class="outcome">{shown(_outcome(job, result, events))}</p><div class="tiles">{tiles}</div></header>'
    )


def _outcome(job: Job, result: Json, events: Sequence[Json]) -> str:
    """Return in sentences how the fit ended and how well the model predicts."""
    reason = result["stop_reason"]
    ends = _ENDS if result["duality_gap"] is not None else _ENDS | _ENDS_WITHOUT_GAP
    fit = f"The fit {ends.get(reason, f'ended: {reason}')} after {_work(result, events)}."
    n = f"{result['n_test']:,}"
    samples = f"{n} samples of {Path(job.test).name}" if job.test else f"{n} held-out samples"
    if result["accuracy"] is not None:
        return f"{fit} The model predicts {_percent(result['accuracy'])} of the {samples} correctly."
    if result["r2"] is not None:
        return f"{fit} The model has an R² of {rounded(result['r2'])} on the {samples}."
    return f"{fit} The model was not tested, for the job has no test samples."


def _work(result: Json, events: Sequence[Json]) -> str:
    """Return the fit time or, after interruptions, the run time."""
    n = sum(event.get("event") == "resume" for event in events)
    if not n:
        return duration(result["seconds"])
    return f"{duration(result['run_seconds'])} and {n} interruption{'s' if n > 1 else ''}"


def _percent(share: float) -> str:
    return f"{rounded(100 * share)} %"


def _numbers(result: Json) -> Iterator[tuple[str, str]]:
    """Yield the numbers at the top."""
    if result["accuracy"] is not None:
        yield "accuracy", _percent(result["accuracy"])
    if result["r2"] is not None:
        yield "R²", rounded(result["r2"])
    if result["objective"] is not None:
        yield "objective", rounded(result["objective"])
    if result["duality_gap"] is not None:
        yield "duality gap", rounded(result["duality_gap"], 3)
    yield "fit time", duration(result["seconds"])
    if result["peak_memory_mb"] is not None:
        yield "peak memory", f"{rounded(result['peak_memory_mb'], 3)} MB"


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
        rows.append(("Targets", _targets(job.train)))
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


def _targets(path: str) -> str:
    with open_hdf5(path) as data:
        y = np.asarray(data.y, np.float64)
    return f"{rounded(y.min())} to {rounded(y.max())}, mean {rounded(y.mean())}, standard deviation {rounded(y.std())}"


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
    moment = moment_of(event)
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _versions(events: Sequence[Json]) -> Html:
    """Return the versions of the packages, once for each set that a process had."""
    versions = [event.get("versions", {}) for event in events]
    lines = [" · ".join(f"{name}\u00a0{number}" for name, number in each.items()) for each in versions]
    return joined(Html(f"<p>{shown(line)}</p>") for line in dict.fromkeys(lines) if line)
