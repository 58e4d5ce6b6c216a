"""How long does each module take to compile? `python -m bench.workers.compiling`, with an empty cache of machine code.

Prints the seconds of the functions of each module as JSON, without those of the functions that they call.
"""

import json
from collections import Counter

from numba.core import event

from fastsvm.jobs.warmup import warm_up

__all__ = ["own_seconds"]


def own_seconds(happened: list) -> dict[str, float]:
    """Return the seconds that the functions of each module took to compile, from moments and events of Numba."""
    found: Counter[str] = Counter()
    open_calls: list[list[float]] = []  # when each began, and the seconds of those within it
    for moment, one in happened:
        if one.is_start:
            open_calls.append([moment, 0.0])
            continue
        begin, within = open_calls.pop()
        found[one.data["dispatcher"].py_func.__module__] += moment - begin - within
        if open_calls:
            open_calls[-1][1] += moment - begin
    return dict(found)


if __name__ == "__main__":
    with event.install_recorder("numba:compile") as recorder:
        warm_up(n_jobs=1)
    print(json.dumps(own_seconds(recorder.buffer)))
