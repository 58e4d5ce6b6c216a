"""Are failed processes reported, and is memory measured?"""

from dataclasses import asdict

import numpy as np
import pytest

from bench.harness.processes import Crew, Ended
from bench.kernel.competitors import KernelParameters
from bench.workers import Task
from bench.workers.memory import Memory


def test_process_that_fails_is_told_with_its_last_line(tmp_path):
    task = Task("sklearn", "fit", asdict(KernelParameters()), 1, 100, str(tmp_path / "nothing"), 60)
    with Crew() as crew, pytest.raises(Ended, match="FileNotFoundError") as caught:
        crew.run("bench.workers.fit", task, tmp_path, {}, "session")
    assert caught.value.status == "failed"


def test_memory_of_an_action_is_its_peak():
    memory = Memory()
    if not memory.resets:
        pytest.skip("the system cannot forget an earlier peak")
    for _ in range(2):
        np.ones(25_000_000)
    assert 190 < memory.json()["added_mb"] < 260
