"""How long until a new process has predicted? `python -m bench.workers.start`, started by the harness.

The clock runs over the import, the first fit and the first prediction. A second fit shows how much of the first one was
compilation, starting of threads and loading of libraries. Before the clock starts, only the standard library is
imported, and modules of the benchmarks that import nothing else.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.harness.competitor import Resources
from bench.kernel.competitors import COMPETITORS, KernelParameters
from bench.workers import UNTIMED_S, Task, Watch, serve


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Return the function of the run, the only one of its process."""
    return partial(_run, task, watch)


def _run(task: Task, watch: Watch, out: Path) -> None:
    competitor = next(one for one in COMPETITORS if one.name == task.competitor)
    resources = Resources(task.threads, task.memory_mb)
    models: list = []
    build = partial(competitor.build, KernelParameters(**task.parameters), resources)
    parts = {"import": watch("import", lambda: models.append(build()), UNTIMED_S)}

    # Imported only now, because they import NumPy and SciPy.
    from bench.harness.data import load
    from bench.workers.memory import Memory
    from bench.workers.results import answer_of, claims_of, megabytes, write

    data = load(Path(task.data))
    X, X_test = competitor.prepare(data.X, data.y), competitor.prepare(data.X_test, data.y_test)
    model, answer, memory = models[0], {}, Memory()
    parts["first fit"] = watch("fit", lambda: model.fit(X, data.y))
    parts["predict"] = watch("predict", lambda: answer.update(predicted=model.predict(X_test)))
    record = {"seconds": sum(parts.values()), **memory.json(), "rows_mb": megabytes(X), **claims_of(model)}
    answer |= answer_of(model)
    parts["second fit"] = watch("fit", lambda: build().fit(X, data.y))
    write(out, {**record, "parts": parts, "warnings": []}, answer)


if __name__ == "__main__":
    serve(prepare)
