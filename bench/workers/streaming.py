"""What does a fit from a file cost? `python -m bench.workers.streaming`, started by the harness."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.harness.competitor import Resources
from bench.harness.data import FILE
from bench.streaming.competitors import STREAMING_COMPETITORS
from bench.streaming.parameters import StreamingParameters
from bench.workers import Task, Watch, serve
from bench.workers.memory import Memory, peak_mb
from bench.workers.results import write


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Return the function that measures a competitor once."""
    competitor = next(one for one in STREAMING_COMPETITORS if one.name == task.competitor)
    measure = competitor.build(StreamingParameters(**task.parameters), Resources(task.threads, task.memory_mb))
    return partial(_run, partial(measure, Path(task.data, FILE), watch))


def _run(measure: Callable, out: Path) -> None:
    memory = Memory()
    record, answer = measure()
    write(out, {**memory.json(), **record, "peak_mb": peak_mb(), "warnings": [], "parts": {}, "claimed": {}}, answer)


if __name__ == "__main__":
    serve(prepare)
