"""How long does a fit of a kernel machine that is not SVC take? `python -m bench.workers.machines`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bench.harness.competitor import Resources
from bench.harness.data import load
from bench.machines.competitors import machine_competitor
from bench.machines.parameters import MachineParameters
from bench.workers import UNTIMED_S, Task, Watch, serve
from bench.workers.fit import FEW, MORE, Ready, fit_once, try_out


def prepare(task: Task, watch: Watch) -> Callable[[Path], None]:
    """Read the data and fit the first samples; return the function of one run."""
    competitor, data = machine_competitor(task.competitor), load(Path(task.data))
    data = data._replace(X=competitor.prepare(data.X, data.y))
    build = partial(competitor.build, MachineParameters(**task.parameters), Resources(task.threads, task.memory_mb))
    parts = [np.arange(n) for n in sorted({min(most, len(data.y)) for most in (FEW, MORE)})]
    warm_up_s = watch("warm-up", lambda: try_out(build, data, parts), UNTIMED_S)
    return partial(fit_once, Ready(build, data, watch, warm_up_s, task.memory_mb))


if __name__ == "__main__":
    serve(prepare)
